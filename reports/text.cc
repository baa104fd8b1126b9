#include "reports/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace aurum {

std::string FixedText(double value, int decimals) {
  // A tie goes away from zero, as JavaScript's toFixed() on the page has it; fmt takes the even one.
  const double power = std::pow(10, decimals), scaled = std::abs(value) * power;
  const bool tie =
      scaled - std::floor(scaled) == 0.5 && std::fma(std::abs(value), power, -scaled) == 0;
  if (tie) value = std::nextafter(value, std::copysign(HUGE_VAL, value));
  std::string text = fmt::format("{:.{}f}", value, decimals);
  // -0.04 rounds to "-0.0", which says something that the reader would ask about.
  if (text.starts_with('-') && text.find_first_of("123456789") == std::string::npos)
    text.erase(0, 1);
  return text;
}

namespace {

std::string Grouped(std::string digits) {
  const std::ptrdiff_t first = digits.starts_with('-') ? 1 : 0;
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > first; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

}  // namespace

std::string CountText(double value) { return Grouped(FixedText(value, 0)); }

std::string TickText(double value) { return fmt::format("{}", RoundSignificant(value, 3)); }

std::string NumberText(double value, int significant) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return "–";
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (exponent < significant && exponent < 3) {
    return FixedText(value, std::max(0, significant - 1 - exponent));
  }
  return CountText(value);
}

std::string SecondsText(double seconds, int significant) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 1e-3) return NumberText(seconds * 1e6, significant) + " µs";
  if (size < 1) return NumberText(seconds * 1e3, significant) + " ms";
  return NumberText(seconds, significant) + " s";
}

std::string SecondsIntervalText(double low, double high, double near) {
  const double size = std::abs(near);
  const double factor = size >= 1 ? 1 : size >= 1e-3 ? 1e3 : 1e6;
  const double scaled = std::max(size * factor, 1e-9);
  const int decimals = std::max(0, 2 - static_cast<int>(std::floor(std::log10(scaled))));
  return fmt::format(" [{}–{}]", FixedText(low * factor, decimals),
                     FixedText(high * factor, decimals));
}

std::string SignedSecondsText(double seconds) {
  return (seconds > 0 ? "+" : "") + SecondsText(seconds);
}

std::string PercentText(double share, int decimals) {
  return FixedText(100 * share, decimals) + " %";
}

std::string SignedPercentText(double share, int decimals) {
  const std::string text = PercentText(share, decimals);
  const bool zero = text.find_first_of("123456789") == std::string::npos;
  return text.starts_with('-') || zero ? text : "+" + text;
}

std::optional<double> NumberOf(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  if (value == nullptr || !value->IsNumber()) return std::nullopt;
  return value->AsNumber();
}

std::string TextOf(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->IsString() ? value->AsString() : std::string();
}

bool BoolOf(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->IsBool() && value->AsBool();
}

std::optional<double> LargestOf(const Json& object, std::string_view key) {
  std::optional<double> largest;
  for (const Json& item : ArrayOf(object, key).items()) {
    if (item.IsNumber()) largest = std::max(largest.value_or(item.AsNumber()), item.AsNumber());
  }
  return largest;
}

const Json& ArrayOf(const Json& object, std::string_view key) {
  static const Json empty = Json::Array();
  const Json* value = object.Find(key);
  return value != nullptr && value->IsArray() ? *value : empty;
}

const Json& ObjectOf(const Json& object, std::string_view key) {
  static const Json empty = Json::Object();
  const Json* value = object.Find(key);
  return value != nullptr && value->IsObject() ? *value : empty;
}

}  // namespace aurum
