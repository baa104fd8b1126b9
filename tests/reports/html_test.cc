#include "reports/html.h"

#include <doctest/doctest.h>

#include <string>

#include "sim/core/json.h"

namespace aurum {
namespace {

constexpr const char* kFixture = "tests/reports/fixtures/island.json";

// What the browser would parse: the text of <script id="aurum-data">.
std::string IslandText(const std::string& html) {
  const std::string open = "<script id=\"aurum-data\" type=\"application/json\">";
  const std::size_t begin = html.find(open);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = html.find("</script", begin);
  REQUIRE(end != std::string::npos);
  return html.substr(begin + open.size(), end - begin - open.size());
}

std::size_t Count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_CASE("the island comes back out of the page unchanged") {
  const Json island = ReadJsonFile(kFixture).root;
  const std::string html = HtmlReport(island);
  CHECK(ParseJson(IslandText(html), "page").root.Dump() == island.Dump());
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(html.find("<title>Synthetic fixture – Aurum report</title>") != std::string::npos);
  CHECK(html == HtmlReport(island));
}

TEST_CASE("no text of the island can end its element, become markup or be filled in again") {
  for (const std::string hostile :
       {"</script><img src=x onerror=alert(1)>", "</SCRIPT >", "<!--<script>", "$& $1 $`",
        "@@DATA@@ @@TITLE@@", "line\xe2\x80\xa8separator\xe2\x80\xa9paragraph",
        "\xe2\x80\xa7 is neither", "quote \" backslash \\ \\u003c", "&lt;b&gt; & <b>",
        "nul \x01 tab \t newline \n", "end \xe2\x80"}) {
    CAPTURE(hostile);
    Json island = ReadJsonFile(kFixture).root;
    const std::size_t scripts = Count(HtmlReport(island), "</script");
    // An incomplete UTF-8 sequence is not valid JSON text; it must not be read past its end all the
    // same.
    if (hostile.ends_with("\x80")) {
      CHECK(EscapeForScript(hostile) == hostile);
      continue;
    }
    island.Set("title", hostile);
    island.Set("question", hostile);
    island.Find("verdict")->Set("heaviest_rank", hostile);
    const std::string html = HtmlReport(island);
    CHECK(Count(html, "</script") == scripts);
    const std::string text = IslandText(html);
    CHECK(text.find_first_of("<>&") == std::string::npos);
    CHECK(text.find("\xe2\x80\xa8") == std::string::npos);
    CHECK(text.find("\xe2\x80\xa9") == std::string::npos);
    const Json back = ParseJson(text, "page").root;
    CHECK(back.Dump() == island.Dump());
    CHECK(back.Find("question")->AsString() == hostile);
    CHECK(html.find("<title>" + EscapeForHtml(hostile) + " – Aurum report</title>") !=
          std::string::npos);
  }
}

TEST_CASE("the page names no host to fetch from and carries the licences of what it bundles") {
  const std::string html = HtmlReport(ReadJsonFile(kFixture).root);
  CHECK(html.find("default-src 'none'") != std::string::npos);
  CHECK(html.find(" src=\"http") == std::string::npos);
  CHECK(html.find("<link rel=\"stylesheet\"") == std::string::npos);
  CHECK(html.find("Apache License 2.0") != std::string::npos);
  CHECK(html.find("Copyright 2010-2016 Mike Bostock") != std::string::npos);  // d3, BSD-3-Clause
  CHECK(html.find("Baidu Inc.") != std::string::npos);  // ZRender, BSD-3-Clause
  CHECK(html.size() < (1U << 20));
}

}  // namespace
}  // namespace aurum
