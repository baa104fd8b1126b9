#include "sim/compare/fail_if.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr const char* kForms =
    "for example --fail-if 'step_time_s > 5%', 'memory.peak_gib > +2' or 'mfu < 0.35'";

std::string_view Trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

[[noreturn]] void Malformed(std::string_view text, const std::string& why) {
  ThrowInput(882, "--fail-if '" + std::string(text) + "' is no condition: " + why, kForms,
             ExitCode::kUsage);
}

void Flatten(const Json& value, const std::string& path, NamedFigures* out) {
  if (value.IsObject()) {
    for (const auto& [key, member] : value.members())
      Flatten(member, path.empty() ? key : path + "." + key, out);
  } else if (value.IsNumber()) {
    out->emplace_back(path, value.AsNumber());
  } else if (value.IsBool()) {
    out->emplace_back(path, value.AsBool() ? 1 : 0);
  }
}

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

Condition ParseCondition(std::string_view text) {
  Condition condition;
  condition.text = std::string(Trimmed(text));
  const std::size_t at = text.find_first_of("<>");
  if (at == std::string_view::npos) Malformed(text, "it has none of > < >= <=");
  condition.figure = std::string(Trimmed(text.substr(0, at)));
  if (condition.figure.empty()) Malformed(text, "no figure is named before the comparison");
  if (condition.figure.find_first_of(" =!") != std::string::npos)
    Malformed(text, "'" + condition.figure + "' is no name of a figure");
  const bool equal = at + 1 < text.size() && text[at + 1] == '=';
  condition.order = text[at] == '>'
                        ? (equal ? Condition::Order::kAtLeast : Condition::Order::kAbove)
                        : (equal ? Condition::Order::kAtMost : Condition::Order::kBelow);
  std::string_view limit = Trimmed(text.substr(at + (equal ? 2 : 1)));
  const bool percent = !limit.empty() && limit.back() == '%';
  if (percent) limit = Trimmed(limit.substr(0, limit.size() - 1));
  const bool sign = !limit.empty() && (limit.front() == '+' || limit.front() == '-');
  const std::string_view digits = sign && limit.front() == '+' ? limit.substr(1) : limit;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), condition.limit);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() ||
      !std::isfinite(condition.limit) || (limit.front() == '+' && digits.front() == '-')) {
    Malformed(text, "'" + std::string(limit) + "' is no number");
  }
  condition.of = percent ? Condition::Of::kRelativeChange
                 : sign  ? Condition::Of::kChange
                         : Condition::Of::kValue;
  if (percent) condition.limit /= 100;
  return condition;
}

NamedFigures FiguresOfResult(const Json& result) {
  NamedFigures out;
  for (const auto& [key, value] : result.members()) {
    if (key == "scenario" || key == "simulation_wall_s" || key == "inputs") continue;
    Flatten(value, key, &out);
  }
  return out;
}

const std::pair<std::string, double>& FindFigure(const NamedFigures& figures,
                                                 const std::string& name) {
  std::vector<const std::pair<std::string, double>*> found;
  std::vector<std::string> names;
  const std::string tail = "." + name;
  for (const auto& figure : figures) {
    if (figure.first == name) return figure;
    names.push_back(figure.first);
    if (const auto dot = figure.first.rfind('.'); dot != std::string::npos)
      names.push_back(figure.first.substr(dot + 1));
    if (figure.first.ends_with(tail)) found.push_back(&figure);
  }
  if (found.size() == 1) return *found.front();
  if (!found.empty()) {
    std::string several;
    for (const auto* figure : found) several += (several.empty() ? "" : ", ") + figure->first;
    ThrowInput(881, "several figures are named '" + name + "'", "one of " + several,
               ExitCode::kUsage);
  }
  const std::string nearest = NearestName(name, names);
  ThrowInput(881, "there is no figure '" + name + "' on both sides",
             nearest.empty() ? "aurum simulate --json shows every figure by its name"
                             : "did you mean '" + nearest + "'?",
             ExitCode::kUsage);
}

Judged Judge(const Condition& condition, std::string figure, double a, double b) {
  Judged out;
  out.condition = condition;
  out.figure = std::move(figure);
  out.a = a;
  out.b = b;
  const double change = b - a;
  switch (condition.of) {
    case Condition::Of::kValue:
      out.compared = b;
      break;
    case Condition::Of::kChange:
      out.compared = change;
      break;
    case Condition::Of::kRelativeChange:
      out.compared = change == 0 ? 0
                     : a == 0    ? std::copysign(std::numeric_limits<double>::infinity(), change)
                                 : change / std::abs(a);
      break;
  }
  switch (condition.order) {
    case Condition::Order::kAbove:
      out.failed = out.compared > condition.limit;
      break;
    case Condition::Order::kBelow:
      out.failed = out.compared < condition.limit;
      break;
    case Condition::Order::kAtLeast:
      out.failed = out.compared >= condition.limit;
      break;
    case Condition::Order::kAtMost:
      out.failed = out.compared <= condition.limit;
      break;
  }
  if (condition.of == Condition::Of::kValue) {
    out.said = out.figure + " is " + Number(b) + " (" + Number(a) + " in A)";
  } else if (change == 0) {
    out.said = out.figure + " stays " + Number(b);
  } else {
    const bool relative =
        condition.of == Condition::Of::kRelativeChange && std::isfinite(out.compared);
    out.said = out.figure + (change > 0 ? " rose by " : " fell by ") +
               (relative ? Number(100 * std::abs(out.compared)) + " %" : Number(std::abs(change))) +
               ": " + Number(a) + " → " + Number(b);
  }
  return out;
}

Judged Judge(const Condition& condition, const NamedFigures& a, const NamedFigures& b) {
  const auto& [name, of_b] = FindFigure(b, condition.figure);
  return Judge(condition, name, FindFigure(a, name).second, of_b);
}

Json JudgedJson(const std::vector<Judged>& judged) {
  Json out = Json::Array();
  for (const Judged& j : judged) {
    Json entry = Json::Object();
    entry.Set("fail_if", j.condition.text);
    entry.Set("figure", j.figure);
    entry.Set("a", j.a);
    entry.Set("b", j.b);
    entry.Set("compares", j.condition.of == Condition::Of::kValue    ? "value"
                          : j.condition.of == Condition::Of::kChange ? "change"
                                                                     : "relative_change");
    entry.Set("compared", j.compared);
    entry.Set("limit", j.condition.limit);
    entry.Set("failed", j.failed);
    entry.Set("said", j.said);
    out.Append(std::move(entry));
  }
  return out;
}

}  // namespace aurum
