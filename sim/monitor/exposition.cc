#include "sim/monitor/exposition.h"

#include <cassert>
#include <cctype>
#include <cmath>
#include <set>
#include <string_view>

#include "sim/core/json.h"

namespace aurum {
namespace {

[[maybe_unused]] bool IsName(std::string_view name, bool colons) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && !(colons && c == ':'))
      return false;
  }
  return true;
}

std::string Escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return Json(value).Dump();
}

}  // namespace

std::string Exposition(const std::vector<Metric>& metrics) {
  std::string out;
  std::set<std::string> names;
  for (const Metric& metric : metrics) {
    if (metric.samples.empty()) continue;
    [[maybe_unused]] const bool fresh = names.insert(metric.name).second;
    assert(fresh && IsName(metric.name, true));
    assert(metric.type != MetricType::kCounter || metric.name.ends_with("_total"));
    out += "# HELP " + metric.name + " " + Escaped(metric.help, false) + "\n";
    out +=
        "# TYPE " + metric.name + (metric.type == MetricType::kCounter ? " counter\n" : " gauge\n");
    std::set<std::vector<std::pair<std::string, std::string>>> series;
    for (const MetricSample& sample : metric.samples) {
      [[maybe_unused]] const bool single = series.insert(sample.labels).second;
      assert(single);
      out += metric.name;
      for (std::size_t i = 0; i < sample.labels.size(); ++i) {
        assert(IsName(sample.labels[i].first, false));
        out += (i == 0 ? "{" : ",") + sample.labels[i].first + "=\"" +
               Escaped(sample.labels[i].second, true) + "\"";
      }
      out += (sample.labels.empty() ? " " : "} ") + Value(sample.value) + "\n";
    }
  }
  return out;
}

}  // namespace aurum
