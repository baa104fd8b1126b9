#pragma once

#include <string>
#include <string_view>

#include "sim/core/json.h"

namespace aurum {

// An island as GitHub-flavoured Markdown: the tables of the HTML page without its pictures.
// Sections whose data is absent are left out.
std::string MarkdownReport(const Json& island);

// Text that Markdown shows as it is, in a paragraph or a table cell, on one line.
std::string EscapeForMarkdown(std::string_view text);

}  // namespace aurum
