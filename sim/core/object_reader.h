#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// Reads one object strictly: every key is asked for by name, wrong types and ranges are errors that point at the value,
// and Finish() rejects keys that nobody asked for, with the nearest known key as a suggestion.
//   E0101 unknown key · E0102 missing key · E0103 wrong type · E0107 out of range · E0108 not one of the choices
class ObjectReader {
 public:
  ObjectReader(const JsonDocument& document, const Json& value, std::string pointer);

  bool Has(std::string_view key);  // present and not null
  std::string String(std::string_view key);
  std::string String(std::string_view key, std::string fallback);
  std::int64_t Integer(std::string_view key, std::int64_t low, std::int64_t high);
  std::int64_t IntegerOr(std::string_view key, std::int64_t fallback, std::int64_t low,
                         std::int64_t high);
  double Number(std::string_view key, double low, double high);
  double NumberOr(std::string_view key, double fallback, double low, double high);
  bool Bool(std::string_view key);
  bool BoolOr(std::string_view key, bool fallback);
  // Index into `choices`.
  std::size_t Choice(std::string_view key, const std::vector<std::string>& choices);
  std::size_t ChoiceOr(std::string_view key, std::size_t fallback,
                       const std::vector<std::string>& choices);
  ObjectReader Object(std::string_view key);
  std::optional<ObjectReader> ObjectIf(std::string_view key);
  std::vector<ObjectReader> Objects(std::string_view key);  // an array of objects; empty if absent
  std::vector<double> Numbers(std::string_view key, double low, double high);
  std::vector<std::int64_t> Integers(std::string_view key, std::int64_t low, std::int64_t high);
  std::vector<std::string> Strings(std::string_view key);
  const Json& Value(std::string_view key);  // any type; E0102 if absent
  std::vector<std::string> Keys() const;
  void Ignore(std::string_view key) { known_.emplace_back(key); }

  void Finish() const;

  const std::string& pointer() const { return pointer_; }
  const JsonDocument& document() const { return *document_; }
  const Json& value() const { return *value_; }
  // An error about the value of `key`, or about the whole object if the key is "" or absent.
  [[noreturn]] void Fail(int code, std::string_view key, std::string message, std::string help = "",
                         std::string note = "", ExitCode exit_code = ExitCode::kInvalidInput) const;

 private:
  const Json* Lookup(std::string_view key);
  const Json& Require(std::string_view key);
  std::string Pointer(std::string_view key) const;

  const JsonDocument* document_;
  const Json* value_;
  std::string pointer_;
  std::vector<std::string> known_;
};

}  // namespace aurum
