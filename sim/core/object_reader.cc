#include "sim/core/object_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace aurum {
namespace {

std::string EscapeKey(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

std::string FormatNumber(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

}  // namespace

ObjectReader::ObjectReader(const JsonDocument& document, const Json& value, std::string pointer)
    : document_(&document), value_(&value), pointer_(std::move(pointer)) {
  if (!value.IsObject())
    Fail(103, "", "expected an object here, not " + std::string(value.TypeName()));
}

std::string ObjectReader::Pointer(std::string_view key) const {
  return key.empty() ? pointer_ : pointer_ + "/" + EscapeKey(key);
}

const Json* ObjectReader::Lookup(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  const Json* found = value_->Find(key);
  return found == nullptr || found->IsNull() ? nullptr : found;
}

const Json& ObjectReader::Require(std::string_view key) {
  const Json* found = Lookup(key);
  if (found == nullptr) {
    // A misspelled neighbour is the likely reason: the nearest of those that nobody has asked for.
    const std::string missing(key);
    std::vector<std::string> unasked;
    for (const auto& [name, value] : value_->members()) {
      if (std::find(known_.begin(), known_.end(), name) == known_.end()) unasked.push_back(name);
    }
    const std::string nearest = NearestName(missing, unasked);
    const std::string help = nearest.empty() ? "" : "did you misspell it as '" + nearest + "'?";
    Fail(102, "", "missing key '" + missing + "'", help);
  }
  return *found;
}

bool ObjectReader::Has(std::string_view key) { return Lookup(key) != nullptr; }

std::string ObjectReader::String(std::string_view key) {
  const Json& value = Require(key);
  if (!value.IsString()) {
    Fail(103, key,
         "'" + std::string(key) + "' must be a string, not " + std::string(value.TypeName()));
  }
  return value.AsString();
}

std::string ObjectReader::String(std::string_view key, std::string fallback) {
  return Has(key) ? String(key) : std::move(fallback);
}

std::int64_t ObjectReader::Integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const Json& value = Require(key);
  double number = 0;
  if (value.IsNumber()) number = value.AsNumber();
  const bool whole = value.IsInteger() ||
                     (value.IsNumber() && std::floor(number) == number && std::abs(number) < 9e15);
  if (!whole) {
    Fail(103, key,
         "'" + std::string(key) + "' must be an integer, not " + std::string(value.TypeName()));
  }
  const std::int64_t integer =
      value.IsInteger() ? value.AsInteger() : static_cast<std::int64_t>(number);
  if (integer < low || integer > high) {
    Fail(107, key, "'" + std::string(key) + "' is " + std::to_string(integer),
         "it must lie in " + std::to_string(low) + " … " + std::to_string(high));
  }
  return integer;
}

std::int64_t ObjectReader::IntegerOr(std::string_view key, std::int64_t fallback, std::int64_t low,
                                     std::int64_t high) {
  return Has(key) ? Integer(key, low, high) : fallback;
}

double ObjectReader::Number(std::string_view key, double low, double high) {
  const Json& value = Require(key);
  if (!value.IsNumber()) {
    Fail(103, key,
         "'" + std::string(key) + "' must be a number, not " + std::string(value.TypeName()));
  }
  const double number = value.AsNumber();
  if (!(number >= low && number <= high)) {
    Fail(107, key, "'" + std::string(key) + "' is " + FormatNumber(number),
         "it must lie in " + FormatNumber(low) + " … " + FormatNumber(high));
  }
  return number;
}

double ObjectReader::NumberOr(std::string_view key, double fallback, double low, double high) {
  return Has(key) ? Number(key, low, high) : fallback;
}

bool ObjectReader::Bool(std::string_view key) {
  const Json& value = Require(key);
  if (!value.IsBool()) {
    Fail(103, key,
         "'" + std::string(key) + "' must be true or false, not " + std::string(value.TypeName()));
  }
  return value.AsBool();
}

bool ObjectReader::BoolOr(std::string_view key, bool fallback) {
  return Has(key) ? Bool(key) : fallback;
}

std::size_t ObjectReader::Choice(std::string_view key, const std::vector<std::string>& choices) {
  const std::string chosen = String(key);
  const auto found = std::find(choices.begin(), choices.end(), chosen);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  std::string help;
  const std::string nearest = NearestName(chosen, choices);
  if (!nearest.empty()) help = "did you mean '" + nearest + "'? ";
  help += "known:";
  for (const std::string& choice : choices) help += " " + choice;
  Fail(108, key, "'" + std::string(key) + "' is '" + chosen + "', which is not known", help);
}

std::size_t ObjectReader::ChoiceOr(std::string_view key, std::size_t fallback,
                                   const std::vector<std::string>& choices) {
  return Has(key) ? Choice(key, choices) : fallback;
}

ObjectReader ObjectReader::Object(std::string_view key) {
  const Json& value = Require(key);
  return {*document_, value, Pointer(key)};
}

std::optional<ObjectReader> ObjectReader::ObjectIf(std::string_view key) {
  if (!Has(key)) return std::nullopt;
  return Object(key);
}

std::vector<ObjectReader> ObjectReader::Objects(std::string_view key) {
  std::vector<ObjectReader> objects;
  const Json* value = Lookup(key);
  if (value == nullptr) return objects;
  if (!value->IsArray()) {
    Fail(103, key,
         "'" + std::string(key) + "' must be an array of objects, not " +
             std::string(value->TypeName()));
  }
  for (std::size_t i = 0; i < value->items().size(); ++i) {
    objects.emplace_back(*document_, value->items()[i], Pointer(key) + "/" + std::to_string(i));
  }
  return objects;
}

std::vector<double> ObjectReader::Numbers(std::string_view key, double low, double high) {
  const Json& value = Require(key);
  if (!value.IsArray()) {
    Fail(103, key,
         "'" + std::string(key) + "' must be an array of numbers, not " +
             std::string(value.TypeName()));
  }
  std::vector<double> numbers;
  for (const Json& item : value.items()) {
    if (!item.IsNumber())
      Fail(
          103, key,
          "'" + std::string(key) + "' must hold only numbers, not " + std::string(item.TypeName()));
    const double number = item.AsNumber();
    if (!(number >= low && number <= high)) {
      Fail(107, key, "'" + std::string(key) + "' holds " + FormatNumber(number),
           "its values must lie in " + FormatNumber(low) + " … " + FormatNumber(high));
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::int64_t> ObjectReader::Integers(std::string_view key, std::int64_t low,
                                                 std::int64_t high) {
  const std::vector<double> numbers =
      Numbers(key, static_cast<double>(low), static_cast<double>(high));
  std::vector<std::int64_t> integers;
  for (const double number : numbers) {
    if (std::floor(number) != number)
      Fail(103, key, "'" + std::string(key) + "' must hold only integers");
    integers.push_back(static_cast<std::int64_t>(number));
  }
  return integers;
}

std::vector<std::string> ObjectReader::Strings(std::string_view key) {
  const Json& value = Require(key);
  if (!value.IsArray()) {
    Fail(103, key,
         "'" + std::string(key) + "' must be an array of strings, not " +
             std::string(value.TypeName()));
  }
  std::vector<std::string> strings;
  for (const Json& item : value.items()) {
    if (!item.IsString())
      Fail(
          103, key,
          "'" + std::string(key) + "' must hold only strings, not " + std::string(item.TypeName()));
    strings.push_back(item.AsString());
  }
  return strings;
}

const Json& ObjectReader::Value(std::string_view key) { return Require(key); }

std::vector<std::string> ObjectReader::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [name, value] : value_->members()) keys.push_back(name);
  return keys;
}

void ObjectReader::Finish() const {
  for (const auto& [name, value] : value_->members()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    std::string help;
    const std::string nearest = NearestName(name, known_);
    if (!nearest.empty()) {
      help = "did you mean '" + nearest + "'?";
    } else {
      help = "known here:";
      for (const std::string& key : known_) help += " " + key;
    }
    Fail(101, name, "unknown key '" + name + "'" + (pointer_.empty() ? "" : " (" + pointer_ + ")"),
         help);
  }
}

void ObjectReader::Fail(int code, std::string_view key, std::string message, std::string help,
                        std::string note, ExitCode exit_code) const {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  d.note = std::move(note);
  const Json* at = key.empty() ? nullptr : value_->Find(key);
  d.where =
      document_->Locate(at == nullptr ? *value_ : *at, at == nullptr ? pointer_ : Pointer(key));
  throw InputError(std::move(d), exit_code);
}

}  // namespace aurum
