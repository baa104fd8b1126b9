#include "sim/study/axis.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

constexpr double kLargestExactInteger = 9007199254740992.0;  // 2^53
constexpr const char* kVaryForms =
    "write --vary path=a,b,c or path=low:high:step or path=low:high:*factor";

// What is wrong with an axis, before it is known where it was written.
struct AxisProblem {
  int code = 0;
  std::string message;
  std::string help;
};

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

Json CanonicalNumber(double value) {
  if (std::floor(value) == value && std::abs(value) <= kLargestExactInteger) {
    return Json(static_cast<std::int64_t>(value));
  }
  return Json(value);
}

Json Canonical(Json value) {
  if (!value.IsNumber() || value.IsInteger()) return value;
  Json number = CanonicalNumber(value.AsNumber());
  number.SetPlace(value.source(), value.offset());
  return number;
}

double RoundTo(int digits, double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
  return std::strtod(buffer, nullptr);
}

bool IsPlainText(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  // Writing a string replaces what is not UTF-8, so only UTF-8 comes back unchanged.
  return ParseJson(Json(text).Dump(), "").root.AsString() == text;
}

// The keys along a path; a pointer may escape '/' and '~' in a key, a dotted path cannot hold a dot
// in one.
std::vector<std::string> PathKeys(std::string_view path) {
  const bool pointer = !path.empty() && path.front() == '/';
  if (pointer) path.remove_prefix(1);
  const char separator = pointer ? '/' : '.';
  std::vector<std::string> keys(1);
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == separator) {
      keys.emplace_back();
    } else if (pointer && path[i] == '~' && i + 1 < path.size() &&
               (path[i + 1] == '0' || path[i + 1] == '1')) {
      keys.back() += path[++i] == '0' ? '~' : '/';
    } else {
      keys.back() += path[i];
    }
  }
  return keys;
}

std::optional<AxisProblem> PathProblem(const std::string& path) {
  const std::string help =
      "name a key of the scenario, for example plan.micro_batch_size or /plan/micro_batch_size";
  if (path.empty()) return AxisProblem{701, "an axis needs a path", help};
  if (!IsPlainText(path))
    return AxisProblem{701, "the path of an axis holds bytes that are no text", help};
  const std::vector<std::string> keys = PathKeys(path);
  for (const std::string& key : keys) {
    if (key.empty())
      return AxisProblem{701, "a part of the path " + Quoted(path) + " is empty", help};
  }
  if (keys[0] == "sweep") {
    return AxisProblem{701, "the path " + Quoted(path) + " lies in the sweep itself",
                       "vary what a single simulation reads"};
  }
  if (keys[0] == "search") {
    return AxisProblem{
        701, "the path " + Quoted(path) + " lies in what aurum search reads, not a simulation",
        "vary what a single simulation reads; every point would be the same"};
  }
  return std::nullopt;
}

std::optional<std::string> RepeatedValue(const std::vector<Json>& values) {
  // Numbers are compared as such first: an axis may have millions of them.
  bool numbers = true;
  for (const Json& value : values) numbers = numbers && value.IsNumber();
  if (numbers) {
    std::vector<double> sorted;
    sorted.reserve(values.size());
    for (const Json& value : values) sorted.push_back(value.AsNumber());
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return std::nullopt;
  }
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const Json& value : values) texts.push_back(value.Dump());
  std::sort(texts.begin(), texts.end());
  const auto twice = std::adjacent_find(texts.begin(), texts.end());
  if (twice == texts.end()) return std::nullopt;
  return *twice;
}

std::optional<AxisProblem> ValuesProblem(const Axis& axis, const AxisRules& rules) {
  if (axis.range) {
    if (rules.ranges) return std::nullopt;
    return AxisProblem{701,
                       "the axis " + Quoted(axis.path) + " is a range without a step or a count",
                       "give it one, or draw from it: --design random or --design lhs"};
  }
  if (axis.values.empty()) {
    return AxisProblem{702, "the axis " + Quoted(axis.path) + " has no values",
                       "give it at least one, or remove it"};
  }
  for (const Json& value : axis.values) {
    if (value.IsNumber() && !std::isfinite(value.AsNumber())) {
      return AxisProblem{704,
                         "the axis " + Quoted(axis.path) + " holds a number that is not finite",
                         "write a number"};
    }
  }
  if (rules.repeats) return std::nullopt;
  if (const auto twice = RepeatedValue(axis.values)) {
    return AxisProblem{707, "the axis " + Quoted(axis.path) + " holds " + *twice + " twice",
                       "give each value once; a computed axis with equal neighbours has too many "
                       "values for its range"};
  }
  return std::nullopt;
}

bool Begins(const std::string& pointer, const std::string& with) {
  return pointer.compare(0, with.size(), with) == 0 &&
         (pointer.size() == with.size() || pointer[with.size()] == '/');
}

// Between `axis` and the ones before it.
std::optional<AxisProblem> ConflictProblem(const std::vector<Axis>& before, const Axis& axis) {
  if (before.size() >= kMaxAxes) {
    return AxisProblem{701, "more than " + std::to_string(kMaxAxes) + " axes",
                       "sweep fewer things at once"};
  }
  const std::string pointer = AxisPointer(axis.path);
  for (const Axis& other : before) {
    const std::string theirs = AxisPointer(other.path);
    if (pointer == theirs) {
      return AxisProblem{706, "two axes vary " + Quoted(axis.path),
                         "put all of its values into one axis"};
    }
    if (Begins(pointer, theirs) || Begins(theirs, pointer)) {
      return AxisProblem{
          706, "the axes " + Quoted(other.path) + " and " + Quoted(axis.path) + " overlap",
          "one of them replaces what the other sets; vary whole objects in one axis"};
    }
  }
  return std::nullopt;
}

std::optional<AxisProblem> CountProblem(const std::vector<Axis>& axes, std::size_t* points) {
  *points = 1;
  for (const Axis& axis : axes) {
    if (axis.values.size() > kMaxSweepPoints / *points) {
      std::string product;
      for (const Axis& each : axes)
        product += (product.empty() ? "" : " × ") + std::to_string(each.values.size());
      return AxisProblem{
          705, "the axes span " + product + " points, more than " + std::to_string(kMaxSweepPoints),
          "use fewer values, or split the study into several"};
    }
    *points *= axis.values.size();
  }
  return std::nullopt;
}

[[noreturn]] void Throw(const AxisProblem& problem, ExitCode exit_code = ExitCode::kInvalidInput) {
  ThrowInput(problem.code, problem.message, problem.help, exit_code);
}

// ---- a number as it is spelled
// ----------------------------------------------------------------------------------------

enum class Spelled { kWord, kFinite, kNotFinite };

Spelled ParseNumber(std::string_view text, double* value) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (text.empty() || text.front() == '+') return Spelled::kWord;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    return Spelled::kWord;
  if (error == std::errc::result_out_of_range || !std::isfinite(*value)) return Spelled::kNotFinite;
  return Spelled::kFinite;
}

// mantissa · 10^exponent, so that steps such as 0.1 add up without rounding.
struct Decimal {
  std::int64_t mantissa = 0;
  int exponent = 0;
};

constexpr std::int64_t kMantissaLimit =
    1'000'000'000'000'000'000;  // 10^18: two of them still add up in 64 bits

std::optional<Decimal> ParseDecimal(std::string_view text) {
  Decimal decimal;
  bool negative = false;
  bool fraction = false;
  std::size_t i = 0;
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) negative = text[i++] == '-';
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    if (text[i] < '0' || text[i] > '9' || decimal.mantissa >= kMantissaLimit / 10)
      return std::nullopt;
    decimal.mantissa = decimal.mantissa * 10 + (text[i] - '0');
    if (fraction) --decimal.exponent;
  }
  if (i < text.size()) {
    std::string_view power = text.substr(i + 1);
    if (!power.empty() && power.front() == '+') power.remove_prefix(1);
    int exponent = 0;
    const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (error != std::errc() || end != power.data() + power.size() || std::abs(exponent) > 400)
      return std::nullopt;
    decimal.exponent += exponent;
  }
  if (negative) decimal.mantissa = -decimal.mantissa;
  return decimal;
}

bool Rescale(int exponent, Decimal* decimal) {
  for (; decimal->exponent > exponent; --decimal->exponent) {
    if (std::abs(decimal->mantissa) >= kMantissaLimit / 10) return false;
    decimal->mantissa *= 10;
  }
  return true;
}

Json DecimalValue(std::int64_t mantissa, int exponent) {
  const std::string text = std::to_string(mantissa) + "e" + std::to_string(exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return CanonicalNumber(value);
}

// ---- ranges
// ----------------------------------------------------------------------------------------------------------

void CheckRangeCount(double count) {
  if (count > static_cast<double>(kMaxSweepPoints)) {
    Throw({705, "the range has more than " + std::to_string(kMaxSweepPoints) + " values",
           "use a larger step"},
          ExitCode::kUsage);
  }
}

std::vector<Json> StepRange(const std::string& range, std::string_view low_text,
                            std::string_view high_text, std::string_view step_text, double low,
                            double high, double step) {
  if (step == 0)
    Throw({703, "the step of " + Quoted(range) + " is 0", "give a step other than 0"},
          ExitCode::kUsage);
  if (low != high && (high > low) != (step > 0)) {
    Throw({703, "the step of " + Quoted(range) + " leads away from its end",
           high > low ? "use a positive step" : "use a negative step, or swap the two ends"},
          ExitCode::kUsage);
  }
  CheckRangeCount((high - low) / step);
  std::vector<Json> values;
  auto first = ParseDecimal(low_text);
  auto last = ParseDecimal(high_text);
  auto width = ParseDecimal(step_text);
  if (first && last && width) {
    const int exponent = std::min({first->exponent, last->exponent, width->exponent});
    if (Rescale(exponent, &*first) && Rescale(exponent, &*last) && Rescale(exponent, &*width)) {
      const std::int64_t count = (last->mantissa - first->mantissa) / width->mantissa + 1;
      values.reserve(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i) {
        values.push_back(DecimalValue(first->mantissa + i * width->mantissa, exponent));
      }
      return values;
    }
  }
  // More digits than 64 bits hold: binary arithmetic, and an end that is missed by a rounding error
  // still counts.
  const double count = std::floor((high - low) / step * (1 + 1e-12)) + 1;
  for (double i = 0; i < count; ++i) values.push_back(CanonicalNumber(RoundTo(12, low + i * step)));
  return values;
}

std::vector<Json> FactorRange(const std::string& range, double low, double high, double factor) {
  if (!(factor > 1)) {
    Throw({703, "the factor of " + Quoted(range) + " must be more than 1", "for example 1:64:*2"},
          ExitCode::kUsage);
  }
  if (!(low > 0)) {
    Throw({703, Quoted(range) + " must start above 0 to be multiplied", "for example 1:64:*2"},
          ExitCode::kUsage);
  }
  if (high < low) {
    Throw({703, Quoted(range) + " ends below its start", "swap the two ends"}, ExitCode::kUsage);
  }
  CheckRangeCount(std::log(high / low) / std::log(factor));
  const auto whole = [](double x) { return std::floor(x) == x && x <= kLargestExactInteger; };
  const bool exact = whole(low) && whole(factor) && high <= kLargestExactInteger;
  const double end =
      exact ? high : high * (1 + 1e-9);  // an end that is missed by a rounding error still counts
  std::vector<Json> values;
  for (double value = low; value <= end; value *= factor) {
    CheckRangeCount(static_cast<double>(values.size()) + 1);
    const bool at_end = !exact && std::abs(value - high) <= 1e-9 * high;
    values.push_back(CanonicalNumber(exact ? value : at_end ? high : RoundTo(12, value)));
  }
  return values;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(Trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<AxisProblem> RangeProblem(const AxisRange& range) {
  if (!(range.from < range.to))
    return AxisProblem{703, "a range to draw from must end above its start", "swap the two ends"};
  if (range.log && !(range.from > 0))
    return AxisProblem{703, "a logarithmic range starts above 0", "or leave out its log"};
  const auto whole = [](double x) {
    return std::floor(x) == x && std::abs(x) <= kLargestExactInteger;
  };
  if (range.integer && !(whole(range.from) && whole(range.to)))
    return AxisProblem{703, "a range of integers has ends that are none", "write whole numbers"};
  return std::nullopt;
}

// The words after "low:high", if that is what `parts` are: "log" and "int", in any order.
bool DrawnRange(const std::vector<std::string_view>& parts, AxisRange* range) {
  if (parts.size() < 2 || parts.size() > 4) return false;
  for (std::size_t i = 2; i < parts.size(); ++i) {
    bool* flag = parts[i] == "log" ? &range->log : parts[i] == "int" ? &range->integer : nullptr;
    if (flag == nullptr || *flag) return false;
    *flag = true;
  }
  return true;
}

// Gives the axis the values of "low:high:step" or "low:high:*factor", or the range "low:high"; false
// if the text is a word that merely holds colons.
bool ParseRange(const std::string& text, Axis* axis) {
  const std::vector<std::string_view> parts = Split(text, ':');
  double low = 0;
  if (parts.size() < 2) return false;
  const Spelled first = ParseNumber(parts[0], &low);
  if (first == Spelled::kWord) return false;
  AxisRange range;
  const bool drawn = DrawnRange(parts, &range);
  if (parts.size() != 3 && !drawn) {
    Throw({701, Quoted(text) + " is not a range",
           "a range is low:high:step or low:high:*factor; a word with colons is written in double "
           "quotes"},
          ExitCode::kUsage);
  }
  const std::string_view step_text = drawn ? std::string_view("1") : parts[2];
  const bool multiply = !step_text.empty() && step_text.front() == '*';
  const std::string_view third = multiply ? Trim(step_text.substr(1)) : step_text;
  double high = 0;
  double step = 0;
  const Spelled second = ParseNumber(parts[1], &high);
  const Spelled last = ParseNumber(third, &step);
  if (second == Spelled::kWord || last == Spelled::kWord) {
    const std::string_view wrong = second == Spelled::kWord ? parts[1] : step_text;
    Throw({701, Quoted(wrong) + " is not a number, in the range " + Quoted(text), kVaryForms},
          ExitCode::kUsage);
  }
  if (first == Spelled::kNotFinite || second == Spelled::kNotFinite ||
      last == Spelled::kNotFinite) {
    Throw({704, "the range " + Quoted(text) + " holds a number that is not finite",
           "use finite numbers"},
          ExitCode::kUsage);
  }
  if (drawn) {
    range.from = low;
    range.to = high;
    if (const auto problem = RangeProblem(range)) Throw(*problem, ExitCode::kUsage);
    axis->range = range;
  } else if (multiply) {
    axis->values = FactorRange(text, low, high, step);
  } else {
    axis->values = StepRange(text, parts[0], parts[1], third, low, high, step);
  }
  return true;
}

// ---- lists
// -----------------------------------------------------------------------------------------------------------

bool OpensJson(std::string_view item) {
  return !item.empty() && (item.front() == '"' || item.front() == '[' || item.front() == '{');
}

// The length of the string, array or object that `text` begins with; npos if it is never closed.
std::size_t JsonLength(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
    if (!in_string && depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

// At the commas that stand outside of strings, arrays and objects.
std::vector<std::string> SplitList(std::string_view list) {
  std::vector<std::string> items;
  while (true) {
    while (!list.empty() && (list.front() == ' ' || list.front() == '\t')) list.remove_prefix(1);
    std::size_t from = 0;
    if (OpensJson(list)) {
      from = JsonLength(list);
      if (from == std::string_view::npos) {
        Throw({701, Quoted(list) + " is never closed",
               "close its quote, bracket or brace, and mind the shell's quoting"},
              ExitCode::kUsage);
      }
    }
    const std::size_t comma = list.find(',', from);
    items.emplace_back(Trim(list.substr(0, comma)));
    if (comma == std::string_view::npos) return items;
    list.remove_prefix(comma + 1);
  }
}

// Offsets into the text of an option mean nothing in the scenario's file.
void Unplace(Json* value) {
  value->SetPlace(std::numeric_limits<std::uint16_t>::max(), 0);
  if (value->IsArray()) {
    for (Json& item : value->items()) Unplace(&item);
  } else if (value->IsObject()) {
    for (auto& member : value->members()) Unplace(&member.second);
  }
}

Json ParseItem(const std::string& item, bool in_list) {
  if (item.empty()) {
    Throw({702, "an empty value in the list",
           "remove the extra comma; an empty string is written \"\""},
          ExitCode::kUsage);
  }
  if (OpensJson(item)) {
    try {
      Json value = ParseJson(item, "--vary").root;
      Unplace(&value);
      return value;
    } catch (const InputError& error) {
      Throw({701, Quoted(item) + " is " + error.diagnostic().message, "mind the shell's quoting"},
            ExitCode::kUsage);
    }
  }
  double number = 0;
  switch (ParseNumber(item, &number)) {
    case Spelled::kNotFinite:
      Throw({704, Quoted(item) + " is not a finite number",
             "use a finite number, or quotes for a word"},
            ExitCode::kUsage);
    case Spelled::kFinite: {
      std::int64_t integer = 0;
      const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), integer);
      if (error == std::errc() && end == item.data() + item.size()) return Json(integer);
      return CanonicalNumber(number);
    }
    case Spelled::kWord:
      break;
  }
  if (item == "true" || item == "false") return Json(item == "true");
  if (item == "null") return Json();
  if (!IsPlainText(item))
    Throw({701, "a value holds bytes that are no text", "use UTF-8"}, ExitCode::kUsage);
  if (in_list && std::count(item.begin(), item.end(), ':') == 2 &&
      ParseNumber(Trim(std::string_view(item).substr(0, item.find(':'))), &number) ==
          Spelled::kFinite) {
    Throw({701, "the range " + Quoted(item) + " stands in a list",
           "give a range alone, or write a word in quotes"},
          ExitCode::kUsage);
  }
  return Json(item);
}

// ---- computed axes of a scenario
// --------------------------------------------------------------------------------------

std::vector<Json> Spaced(ObjectReader* axis) {
  constexpr double kMax = std::numeric_limits<double>::max();
  const double from = axis->Number("from", -kMax, kMax);
  const double to = axis->Number("to", -kMax, kMax);
  const std::int64_t count = axis->Integer("count", 2, std::numeric_limits<std::int64_t>::max());
  const bool log = axis->ChoiceOr("scale", 0, {"linear", "log"}) == 1;
  if (static_cast<std::uint64_t>(count) > kMaxSweepPoints) {
    axis->Fail(705, "count", "'count' is more than " + std::to_string(kMaxSweepPoints) + " points",
               "use fewer values");
  }
  if (log && !(from > 0))
    axis->Fail(703, "from", "a logarithmic axis starts above 0", "or use \"scale\": \"linear\"");
  if (log && !(to > 0))
    axis->Fail(703, "to", "a logarithmic axis ends above 0", "or use \"scale\": \"linear\"");
  std::vector<Json> values;
  values.reserve(static_cast<std::size_t>(count));
  const double last = static_cast<double>(count - 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const double at = static_cast<double>(i) / last;
    double value = from;
    if (i == count - 1) {
      value = to;
    } else if (i > 0 && log) {
      value = RoundTo(6, std::exp(std::log(from) * (1 - at) + std::log(to) * at));
    } else if (i > 0) {
      // Symmetric in its ends, so that an axis around zero has an exact zero.
      value = RoundTo(12, from * ((last - static_cast<double>(i)) / last) + to * at);
    }
    values.push_back(CanonicalNumber(value));
  }
  return values;
}

// Ends alone, where the rules allow it.
AxisRange DrawnFrom(ObjectReader* axis) {
  constexpr double kMax = std::numeric_limits<double>::max();
  AxisRange range;
  range.from = axis->Number("from", -kMax, kMax);
  range.to = axis->Number("to", -kMax, kMax);
  range.log = axis->ChoiceOr("scale", 0, {"linear", "log"}) == 1;
  range.integer = axis->BoolOr("integer", false);
  if (const auto problem = RangeProblem(range))
    axis->Fail(problem->code, "from", problem->message, problem->help);
  return range;
}

Axis ReadAxis(ObjectReader* reader, const AxisRules& rules) {
  Axis axis;
  axis.path = reader->String("path");
  const bool listed = reader->value().Find("values") != nullptr;
  const bool spaced = reader->Has("from") || reader->Has("to") || reader->Has("count") ||
                      reader->Has("scale") || reader->Has("integer");
  if (listed && spaced) {
    reader->Fail(701, "values", "an axis has either 'values' or 'from', 'to' and 'count'",
                 "remove one of the two");
  }
  if (!listed && !spaced) {
    reader->Fail(701, "", "this axis has no values",
                 R"(give it "values": [...], or "from", "to" and "count")");
  }
  if (listed) {
    const Json& values = reader->Value("values");
    if (!values.IsArray()) {
      reader->Fail(103, "values",
                   "'values' must be an array, not " + std::string(values.TypeName()));
    }
    for (const Json& value : values.items()) axis.values.push_back(Canonical(value));
  } else if (reader->Has("count")) {
    if (reader->Has("integer")) {
      reader->Fail(701, "integer", "an axis with a count has its own values",
                   "remove 'integer', or 'count' to draw whole numbers between the ends");
    }
    axis.values = Spaced(reader);
  } else {
    axis.range = DrawnFrom(reader);
    if (!rules.ranges) {
      reader->Fail(701, "", "this axis has two ends and no count",
                   R"(give it "count", or draw from it: "design": {"kind": "lhs", "points": N})");
    }
  }
  reader->Finish();
  return axis;
}

}  // namespace

std::string AxisPointer(std::string_view path) {
  std::string pointer;
  for (const std::string& key : PathKeys(path)) {
    pointer += '/';
    for (const char c : key) {
      if (c == '~') {
        pointer += "~0";
      } else if (c == '/') {
        pointer += "~1";
      } else {
        pointer += c;
      }
    }
  }
  return pointer;
}

std::vector<Axis> ReadAxes(const JsonDocument& scenario, const AxisRules& rules) {
  ObjectReader top(scenario, scenario.root, "");
  auto sweep = top.ObjectIf("sweep");
  if (!sweep) return {};
  std::vector<Axis> axes;
  for (ObjectReader& reader : sweep->Objects("axes")) {
    Axis axis = ReadAxis(&reader, rules);
    const auto check = [&](const std::optional<AxisProblem>& problem, std::string_view key) {
      if (problem) reader.Fail(problem->code, key, problem->message, problem->help);
    };
    check(PathProblem(axis.path), "path");
    check(ValuesProblem(axis, rules),
          axis.values.empty() || reader.Has("values") ? "values" : "count");
    check(ConflictProblem(axes, axis), "path");
    axes.push_back(std::move(axis));
  }
  std::size_t points = 0;
  if (rules.product) {
    if (const auto problem = CountProblem(axes, &points))
      sweep->Fail(problem->code, "axes", problem->message, problem->help);
  }
  sweep->Ignore("design");  // ReadDesign's
  sweep->Finish();
  return axes;
}

Json ParseAxisValue(const std::string& text) { return ParseItem(text, false); }

Json CanonicalAxisValue(Json value) { return Canonical(std::move(value)); }

Axis ParseVary(std::string_view text, const AxisRules& rules) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    Throw({701, "'--vary " + std::string(text) + "' has no '='", kVaryForms}, ExitCode::kUsage);
  }
  Axis axis;
  axis.path = std::string(Trim(text.substr(0, equals)));
  if (const auto problem = PathProblem(axis.path)) Throw(*problem, ExitCode::kUsage);
  const std::string_view list = Trim(text.substr(equals + 1));
  if (list.empty()) {
    Throw({702, "'--vary " + axis.path + "=' has no values", kVaryForms}, ExitCode::kUsage);
  }
  const std::vector<std::string> items = SplitList(list);
  if (items.size() != 1 || OpensJson(items[0]) || !ParseRange(items[0], &axis)) {
    for (const std::string& item : items) axis.values.push_back(ParseItem(item, items.size() > 1));
  }
  if (const auto problem = ValuesProblem(axis, rules)) Throw(*problem, ExitCode::kUsage);
  return axis;
}

std::vector<Axis> SweepAxes(const JsonDocument& scenario, const std::vector<std::string>& vary,
                            const AxisRules& rules) {
  std::vector<Axis> axes = ReadAxes(scenario, rules);
  std::vector<Axis> varied;
  for (const std::string& text : vary) {
    Axis axis = ParseVary(text, rules);
    if (const auto problem = ConflictProblem(varied, axis)) Throw(*problem, ExitCode::kUsage);
    varied.push_back(std::move(axis));
  }
  for (const Axis& axis : varied) {
    const std::string pointer = AxisPointer(axis.path);
    const auto same = std::find_if(axes.begin(), axes.end(), [&](const Axis& each) {
      return AxisPointer(each.path) == pointer;
    });
    if (same != axes.end()) {
      *same = axis;
    } else {
      axes.push_back(axis);
    }
  }
  CheckAxes(axes, rules);
  return axes;
}

std::size_t CheckAxes(const std::vector<Axis>& axes, const AxisRules& rules) {
  std::vector<Axis> before;  // paths alone; the values need no copy
  for (const Axis& axis : axes) {
    if (const auto problem = PathProblem(axis.path)) Throw(*problem);
    if (const auto problem = ValuesProblem(axis, rules)) Throw(*problem);
    if (axis.range) {
      if (const auto problem = RangeProblem(*axis.range)) Throw(*problem);
    }
    if (const auto problem = ConflictProblem(before, axis)) Throw(*problem);
    before.push_back({axis.path, {}});
  }
  std::size_t points = 1;
  if (!rules.product) return points;
  if (const auto problem = CountProblem(axes, &points)) Throw(*problem);
  return points;
}

Json AxesToJson(const std::vector<Axis>& axes) {
  Json list = Json::Array();
  for (const Axis& axis : axes) {
    Json entry = Json::Object();
    entry.Set("path", axis.path);
    if (axis.range) {
      entry.Set("from", CanonicalNumber(axis.range->from));
      entry.Set("to", CanonicalNumber(axis.range->to));
      if (axis.range->log) entry.Set("scale", "log");
      if (axis.range->integer) entry.Set("integer", true);
    } else {
      entry.Set("values", Json::Array(axis.values));
    }
    list.Append(std::move(entry));
  }
  return list;
}

}  // namespace aurum
