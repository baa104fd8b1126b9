#include "reports/html.h"

#include "reports/page.h"
#include "reports/text.h"

namespace aurum {
namespace {

void Append(std::span<const std::string_view> chunks, std::string* out) {
  for (const std::string_view chunk : chunks) out->append(chunk);
}

std::size_t SizeOf(std::span<const std::string_view> chunks) {
  std::size_t size = 0;
  for (const std::string_view chunk : chunks) size += chunk.size();
  return size;
}

}  // namespace

std::string EscapeForScript(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 32);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else if (c == '\xe2' && i + 2 < json.size() && json[i + 1] == '\x80' &&
               (json[i + 2] == '\xa8' || json[i + 2] == '\xa9')) {
      // U+2028 and U+2029 are line ends in old JavaScript, and valid inside JSON strings.
      out += json[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

std::string EscapeForHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string HtmlReport(const Json& island) {
  const Page page = ReportPage();
  const std::string data = EscapeForScript(island.Dump());
  const std::string title = EscapeForHtml(TextOf(island, "title"));
  std::string out;
  out.reserve(SizeOf(page.before_title) + title.size() + SizeOf(page.before_data) + data.size() +
              SizeOf(page.after_data));
  Append(page.before_title, &out);
  out += title;
  Append(page.before_data, &out);
  out += data;
  Append(page.after_data, &out);
  return out;
}

}  // namespace aurum
