#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/core/diagnostic.h"

namespace aurum {

// A JSON value that remembers where it stood in its file, so that an error about it can point there. Objects keep the
// order of their keys. Also what results are written with: Dump() is deterministic, numbers are the shortest that read
// back the same.
class Json {
 public:
  using Members = std::vector<std::pair<std::string, Json>>;

  // Values convert without a word, as JSON is written.
  // NOLINTBEGIN(google-explicit-constructor)
  Json() = default;  // null
  Json(bool value) : value_(value) {}
  Json(int value) : value_(static_cast<std::int64_t>(value)) {}
  Json(std::int64_t value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  // NOLINTEND(google-explicit-constructor)
  static Json Array() { return Json(Kind(std::vector<Json>())); }
  static Json Object() { return Json(Kind(Members())); }
  static Json Array(std::vector<Json> items) { return Json(Kind(std::move(items))); }
  static Json Numbers(const std::vector<double>& numbers);

  bool IsNull() const { return std::holds_alternative<std::monostate>(value_); }
  bool IsBool() const { return std::holds_alternative<bool>(value_); }
  bool IsInteger() const { return std::holds_alternative<std::int64_t>(value_); }
  bool IsNumber() const { return IsInteger() || std::holds_alternative<double>(value_); }
  bool IsString() const { return std::holds_alternative<std::string>(value_); }
  bool IsArray() const { return std::holds_alternative<std::vector<Json>>(value_); }
  bool IsObject() const { return std::holds_alternative<Members>(value_); }
  std::string_view TypeName() const;  // "a number", "an object", ... for messages

  // The accessors require the right type (checked by assert): ask first, or use ObjectReader.
  bool AsBool() const { return std::get<bool>(value_); }
  std::int64_t AsInteger() const { return std::get<std::int64_t>(value_); }
  double AsNumber() const;
  const std::string& AsString() const { return std::get<std::string>(value_); }
  const std::vector<Json>& items() const { return std::get<std::vector<Json>>(value_); }
  std::vector<Json>& items() { return std::get<std::vector<Json>>(value_); }
  const Members& members() const { return std::get<Members>(value_); }
  Members& members() { return std::get<Members>(value_); }

  const Json* Find(std::string_view key) const;  // nullptr if absent or not an object
  Json* Find(std::string_view key);
  Json& Set(std::string_view key, Json value);  // replaces or appends; *this must be an object
  Json& Append(Json value);                     // *this must be an array

  // One line if indent < 0. Object members keep their order. Non-finite numbers are written as null.
  std::string Dump(int indent = -1) const;

  std::uint32_t offset() const {
    return offset_;
  }  // byte in the source, just after the token's start
  std::uint16_t source() const { return source_; }  // index into JsonDocument::sources
  void SetPlace(std::uint16_t source, std::uint32_t offset) {
    source_ = source;
    offset_ = offset;
  }

 private:
  using Kind = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                            std::vector<Json>, Members>;
  explicit Json(Kind value) : value_(std::move(value)) {}

  Kind value_;
  std::uint32_t offset_ = 0;
  std::uint16_t source_ = 0;
};

struct JsonSource {
  std::string name;  // file name, or "--set path=value"
  std::string text;
};

struct JsonDocument {
  Json root;
  std::vector<JsonSource> sources;

  SourceLocation Locate(const Json& value, std::string pointer) const;
};

// Errors: E0100 not JSON (with line and column), E0104 duplicate key, E0105 nested deeper than 200.
JsonDocument ParseJson(std::string text, std::string name);
// Errors: E0201 no such file, E0202 unreadable or a directory, E0203 larger than 256 MiB; and those of ParseJson.
JsonDocument ReadJsonFile(const std::string& path);

// `--set path=value`: dotted path or JSON pointer; the value is JSON, or else a string. A missing last key is added,
// objects on the way are made. Errors: E0106 malformed, or the path runs through something that is not an object/array.
void ApplyOverride(JsonDocument* document, std::string_view assignment);
// The value at a dotted path or JSON pointer, nullptr if absent.
const Json* FindPath(const Json& root, std::string_view path);
// Sets `value` at the path, making objects on the way. `spelled` names the source in messages.
void SetPath(JsonDocument* document, std::string_view path, Json value, const std::string& spelled);

}  // namespace aurum
