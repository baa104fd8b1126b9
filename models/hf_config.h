#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "sim/core/json.h"
#include "sim/core/object_reader.h"

namespace aurum {

// What an import learned beside the shapes. Shared by all parts of one config.
struct ImportNotes {
  std::vector<std::string> assumed;
  std::map<std::string, std::set<std::string>>
      used;  // pointer of an object -> its keys that were read
};

// One object of a config.json, read leniently: keys that nobody asks for are fine (they end in
// Model::ignored), and a key that is absent takes the default of its Hugging Face configuration
// class, which is then told in Model::assumed with its value. A shape without such a default is
// E0602. Wrong types and ranges are E0103 and E0107, as everywhere.
class HfConfig {
 public:
  // `class_name`: whose defaults these are ("LlamaConfig").
  HfConfig(ObjectReader reader, std::string class_name, ImportNotes* notes);

  bool Has(std::string_view key);                 // present and not null
  bool IsNull(std::string_view key);              // present and null
  int Int(std::string_view key);                  // E0602 if absent
  int IntOr(std::string_view key, int fallback);  // a fallback below 0: there is none, E0602
  // The first of several names for the same thing; absent all, the fallback under the first name.
  int AnyIntOr(std::initializer_list<std::string_view> keys, int fallback);
  int SignedOr(std::string_view key, int fallback);  // indices that may count from the end
  std::int64_t LongOr(std::string_view key,
                      std::int64_t fallback);  // lengths, not shapes; silent when absent
  double NumberOr(std::string_view key, double fallback);
  bool FlagOr(std::string_view key, bool fallback);
  std::string Text(std::string_view key);
  std::string TextOr(std::string_view key, std::string fallback);
  std::vector<std::string> Texts(std::string_view key);
  std::vector<int> Ints(std::string_view key);
  std::vector<std::vector<int>> Pairs(std::string_view key);
  HfConfig Child(std::string_view key, std::string class_name);  // E0602 if absent
  // As Child, but an absent object stands for one with nothing but defaults.
  HfConfig ChildOrDefaults(std::string_view key, std::string class_name);

  void Assume(std::string sentence) { notes_->assumed.push_back(std::move(sentence)); }
  // E0603 if there is a problem.
  void Require(const ShapeProblem& problem);
  // E0604: a value that the importer has no rule for.
  [[noreturn]] void Unknown(std::string_view key, const std::string& value,
                            const std::vector<std::string>& known);
  [[noreturn]] void Fail(int code, std::string_view key, std::string message,
                         std::string help = "") const;

  const std::string& class_name() const { return class_name_; }
  void set_class_name(std::string name) { class_name_ = std::move(name); }
  ImportNotes* notes() const { return notes_; }
  const ObjectReader& reader() const { return reader_; }

 private:
  void Use(std::string_view key);
  void AssumeDefault(std::string_view key, const std::string& value);
  std::string Dotted(std::string_view key) const;

  ObjectReader reader_;
  std::string class_name_;
  ImportNotes* notes_;
};

// The keys of `root` that no HfConfig asked for, as dotted paths in the order of the file.
std::vector<std::string> UnusedKeys(const Json& root, const ImportNotes& notes);

}  // namespace aurum
