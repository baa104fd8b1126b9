#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/published/record.h"

namespace aurum {

// Reading other people's rows: any key may be absent or null, and keys that nobody asks for are not
// an error. Only a value of a type that cannot mean what the key says is (E0861).
class Row {
 public:
  Row(const JsonDocument& document, const Json& value, std::string pointer)
      : document_(&document), value_(&value), pointer_(std::move(pointer)) {}

  bool Has(std::string_view key) const;  // present and not null
  // A number told in words ("8 concatenated batches") counts as not told; Words() gives it. A whole
  // number may be printed as text ("4").
  std::optional<std::int64_t> Whole(std::string_view key) const;
  std::optional<double> Real(std::string_view key) const;
  std::optional<double> Figure(std::string_view key) const;  // nothing if it is not a plain number
  std::optional<bool> Bool(std::string_view key) const;      // also "true", "false"
  std::string Text(std::string_view key) const;  // "" if absent; true and numbers as printed
  std::optional<Row> Object(std::string_view key) const;  // nothing if absent or not an object
  // The first of several spellings that is there.
  std::optional<std::int64_t> WholeOf(std::initializer_list<std::string_view> keys) const;
  std::optional<double> RealOf(std::initializer_list<std::string_view> keys) const;
  std::string TextOf(std::initializer_list<std::string_view> keys) const;

  const Json& value() const { return *value_; }
  [[noreturn]] void Fail(int code, std::string_view key, std::string message,
                         std::string help) const;

 private:
  const Json* Find(std::string_view key) const;
  std::string PointerOf(std::string_view key) const { return pointer_ + "/" + std::string(key); }

  const JsonDocument* document_;
  const Json* value_;
  std::string pointer_;
};

std::string Lower(std::string text);
bool Contains(std::string_view text, std::string_view part);
bool ContainsAny(const std::string& text, std::initializer_list<std::string_view> parts);
void Remove(Json* object, std::string_view key);  // a member, where there is one
// The first whole number in `text` at or after `from`, nothing if there is none.
std::vector<std::string> SplitList(const std::string& text);  // at commas; empty parts left out
std::optional<std::int64_t> FirstNumber(std::string_view text, std::size_t from = 0);

// The three formats; record.cc dispatches.
Record ReadTrainingRow(const Row& row);
Record ReadMemoryRow(const Row& row, const JsonDocument* ci_arguments);
std::vector<Record> ReadCase(const Row& row);
// Megatron-LM's argument list of one CI row → facts. `arguments`: names without dashes.
void ReadMegatronArguments(const Row& arguments, Record* record);

}  // namespace aurum
