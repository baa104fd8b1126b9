#pragma once

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace aurum {

// A strict reader of Prometheus' text format, for tests: written from the format's description, not from
// the writer.
struct ParsedExposition {
  using Labels = std::map<std::string, std::string>;
  struct Family {
    std::string help, type;
    std::vector<std::pair<Labels, double>> samples;
  };
  std::map<std::string, Family> families;
  std::string error;  // "" = valid

  double Value(const std::string& name, const Labels& labels = {}) const {
    const auto found = families.find(name);
    if (found == families.end()) return std::numeric_limits<double>::quiet_NaN();
    for (const auto& [of, value] : found->second.samples) {
      if (of == labels) return value;
    }
    return std::numeric_limits<double>::quiet_NaN();
  }
};

namespace exposition_parser {

inline std::string Name(const std::string& line, std::size_t* at, bool colons) {
  const std::size_t from = *at;
  while (*at < line.size() && (std::isalnum(static_cast<unsigned char>(line[*at])) != 0 ||
                               line[*at] == '_' || (colons && line[*at] == ':')))
    ++*at;
  const std::string name = line.substr(from, *at - from);
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return "";
  return name;
}

// Up to an unescaped quote, or the line's end where `to_end`; false if it never comes.
inline bool Unescape(const std::string& line, std::size_t* at, bool to_end, std::string* out) {
  for (; *at < line.size(); ++*at) {
    if (!to_end && line[*at] == '"') return true;
    if (line[*at] != '\\') {
      *out += line[*at];
      continue;
    }
    if (++*at == line.size()) return false;
    if (line[*at] == 'n') {
      *out += '\n';
    } else if (line[*at] == '\\' || (!to_end && line[*at] == '"')) {
      *out += line[*at];
    } else {
      return false;
    }
  }
  return to_end;
}

inline bool Number(const std::string& text, double* value) {
  if (text == "NaN") return *value = std::nan(""), true;
  if (text == "+Inf") return *value = std::numeric_limits<double>::infinity(), true;
  if (text == "-Inf") return *value = -std::numeric_limits<double>::infinity(), true;
  char* end = nullptr;
  *value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(*value);
}

}  // namespace exposition_parser

inline ParsedExposition ParseExposition(const std::string& text) {
  namespace ep = exposition_parser;
  ParsedExposition out;
  const auto fail = [&](const std::string& why, const std::string& line) {
    out.error = why + ": " + line;
    return out;
  };
  if (!text.empty() && text.back() != '\n') return fail("no newline at the end", "");
  std::string current;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = text.find('\n', from);
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    if (line.empty()) continue;
    std::size_t at = 0;
    if (line[0] == '#') {
      const bool help = line.rfind("# HELP ", 0) == 0, type = line.rfind("# TYPE ", 0) == 0;
      if (!help && !type) continue;  // a comment
      at = 7;
      const std::string name = ep::Name(line, &at, true);
      if (name.empty() || at >= line.size() || line[at] != ' ') return fail("bad comment", line);
      ++at;
      ParsedExposition::Family& family = out.families[name];
      if (!family.samples.empty()) return fail("behind its samples", line);
      if (name != current && (!family.help.empty() || !family.type.empty()))
        return fail("a family in two places", line);
      current = name;
      if (help) {
        if (!family.help.empty()) return fail("two HELP", line);
        if (!ep::Unescape(line, &at, true, &family.help)) return fail("bad escape", line);
      } else {
        if (!family.type.empty()) return fail("two TYPE", line);
        family.type = line.substr(at);
        if (family.type != "gauge" && family.type != "counter") return fail("bad type", line);
      }
      continue;
    }
    const std::string name = ep::Name(line, &at, true);
    if (name.empty()) return fail("no name", line);
    if (name != current || out.families[name].type.empty()) return fail("no TYPE before", line);
    ParsedExposition::Labels labels;
    if (at < line.size() && line[at] == '{') {
      ++at;
      while (at < line.size() && line[at] != '}') {
        const std::string label = ep::Name(line, &at, false);
        if (label.empty() || line.compare(at, 2, "=\"") != 0) return fail("bad label", line);
        at += 2;
        std::string value;
        if (!ep::Unescape(line, &at, false, &value)) return fail("bad label value", line);
        ++at;
        if (!labels.emplace(label, value).second) return fail("label twice", line);
        if (at < line.size() && line[at] == ',') ++at;
      }
      if (at >= line.size()) return fail("no closing brace", line);
      ++at;
    }
    if (at >= line.size() || line[at] != ' ') return fail("no value", line);
    double value = 0;
    if (!ep::Number(line.substr(at + 1), &value)) return fail("bad value", line);
    for (const auto& [of, known] : out.families[name].samples) {
      if (of == labels) return fail("series twice", line);
    }
    out.families[name].samples.emplace_back(labels, value);
  }
  return out;
}

}  // namespace aurum
