#pragma once

#include <string>
#include <string_view>

#include "sim/core/json.h"

namespace aurum {

// The self-contained HTML page of an island (schema aurum.report/1, see reports/README.md): one
// file that draws itself and fetches nothing. Costs one pass over the island; the page itself was
// bundled at build time.
std::string HtmlReport(const Json& island);

// JSON that may stand inside <script type="application/json">: `<`, `>`, `&`, U+2028 and U+2029
// become \u escapes, so no text can end the element, and parsing gives the same value back. `json`
// must be valid JSON, where those characters occur inside strings only.
std::string EscapeForScript(std::string_view json);

// Text for element content and double-quoted attributes.
std::string EscapeForHtml(std::string_view text);

}  // namespace aurum
