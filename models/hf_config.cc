#include "models/hf_config.h"

#include <algorithm>
#include <utility>
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

// Of any one shape. Small enough that products of three of them fit 64 bits, so that what a part
// computes on its way cannot overflow; CheckModel judges the whole.
constexpr std::int64_t kMost = std::int64_t{1} << 20;

const Json& EmptyObject() {
  static const Json empty = Json::Object();
  return empty;
}

void CollectUnused(const Json& object, const std::string& pointer, const std::string& dotted,
                   const ImportNotes& notes, std::vector<std::string>* unused) {
  const auto used = notes.used.find(pointer);
  for (const auto& [key, value] : object.members()) {
    const std::string child = pointer + "/" + key;
    if (used == notes.used.end() || !used->second.contains(key)) {
      unused->push_back(dotted + key);
    } else if (value.IsObject() && notes.used.contains(child)) {
      CollectUnused(value, child, dotted + key + ".", notes, unused);
    }
  }
}

}  // namespace

HfConfig::HfConfig(ObjectReader reader, std::string class_name, ImportNotes* notes)
    : reader_(std::move(reader)), class_name_(std::move(class_name)), notes_(notes) {
  notes_->used[reader_.pointer()];
}

void HfConfig::Use(std::string_view key) { notes_->used[reader_.pointer()].emplace(key); }

std::string HfConfig::Dotted(std::string_view key) const {
  std::string dotted = reader_.pointer().empty() ? "" : reader_.pointer().substr(1) + "/";
  dotted += key;
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  return dotted;
}

void HfConfig::AssumeDefault(std::string_view key, const std::string& value) {
  std::string sentence = Dotted(key) + " = " + value + " (default of " + class_name_ + ")";
  if (std::find(notes_->assumed.begin(), notes_->assumed.end(), sentence) ==
      notes_->assumed.end()) {
    notes_->assumed.push_back(std::move(sentence));
  }
}

bool HfConfig::Has(std::string_view key) {
  Use(key);
  return reader_.Has(key);
}

bool HfConfig::IsNull(std::string_view key) {
  Use(key);
  const Json* found = reader_.value().Find(key);
  return found != nullptr && found->IsNull();
}

int HfConfig::Int(std::string_view key) { return IntOr(key, -1); }

int HfConfig::IntOr(std::string_view key, int fallback) { return AnyIntOr({key}, fallback); }

int HfConfig::AnyIntOr(std::initializer_list<std::string_view> keys, int fallback) {
  for (const std::string_view key : keys) {
    if (Has(key)) return static_cast<int>(reader_.Integer(key, 0, kMost));
  }
  const std::string key(*keys.begin());
  if (fallback < 0) {
    reader_.Fail(602, "",
                 "this config lacks '" + key + "', and " + class_name_ + " has no default for it",
                 "is the file cut short? take config.json as the model's authors published it");
  }
  AssumeDefault(key, std::to_string(fallback));
  return fallback;
}

int HfConfig::SignedOr(std::string_view key, int fallback) {
  if (Has(key)) return static_cast<int>(reader_.Integer(key, -kMost, kMost));
  AssumeDefault(key, std::to_string(fallback));
  return fallback;
}

std::int64_t HfConfig::LongOr(std::string_view key, std::int64_t fallback) {
  return Has(key) ? reader_.Integer(key, 0, std::int64_t{1} << 40) : fallback;
}

double HfConfig::NumberOr(std::string_view key, double fallback) {
  if (Has(key)) return reader_.Number(key, 0, 1e9);
  AssumeDefault(key, Json(fallback).Dump());
  return fallback;
}

bool HfConfig::FlagOr(std::string_view key, bool fallback) {
  if (Has(key)) return reader_.Bool(key);
  AssumeDefault(key, fallback ? "true" : "false");
  return fallback;
}

std::string HfConfig::Text(std::string_view key) {
  if (!Has(key)) {
    reader_.Fail(602, "", "this config lacks '" + std::string(key) + "'",
                 "is the file cut short? take config.json as the model's authors published it");
  }
  return reader_.String(key);
}

std::string HfConfig::TextOr(std::string_view key, std::string fallback) {
  if (Has(key)) return reader_.String(key);
  AssumeDefault(key, "'" + fallback + "'");
  return fallback;
}

std::vector<std::string> HfConfig::Texts(std::string_view key) {
  return Has(key) ? reader_.Strings(key) : std::vector<std::string>();
}

std::vector<int> HfConfig::Ints(std::string_view key) {
  std::vector<int> ints;
  if (!Has(key)) return ints;
  for (const std::int64_t value : reader_.Integers(key, -4096, kMost))
    ints.push_back(static_cast<int>(value));
  return ints;
}

std::vector<std::vector<int>> HfConfig::Pairs(std::string_view key) {
  std::vector<std::vector<int>> pairs;
  if (!Has(key)) return pairs;
  const Json& value = reader_.Value(key);
  const auto bad = [&] {
    reader_.Fail(103, key,
                 "'" + std::string(key) + "' must be an array of pairs of positive integers");
  };
  if (!value.IsArray()) bad();
  for (const Json& item : value.items()) {
    if (!item.IsArray() || item.items().size() != 2) bad();
    std::vector<int> pair;
    for (const Json& side : item.items()) {
      if (!side.IsInteger() || side.AsInteger() < 1 || side.AsInteger() > 65536) bad();
      pair.push_back(static_cast<int>(side.AsInteger()));
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

HfConfig HfConfig::Child(std::string_view key, std::string class_name) {
  if (!Has(key)) {
    reader_.Fail(
        602, "",
        "this config lacks '" + std::string(key) + "', where the shapes of that part stand",
        "is the file cut short? take config.json as the model's authors published it");
  }
  return {reader_.Object(key), std::move(class_name), notes_};
}

HfConfig HfConfig::ChildOrDefaults(std::string_view key, std::string class_name) {
  if (Has(key)) return Child(key, std::move(class_name));
  return {
      ObjectReader(reader_.document(), EmptyObject(), reader_.pointer() + "/" + std::string(key)),
      std::move(class_name), notes_};
}

void HfConfig::Require(const ShapeProblem& problem) {
  if (!problem.message.empty()) Fail(603, problem.key, problem.message);
}

void HfConfig::Unknown(std::string_view key, const std::string& value,
                       const std::vector<std::string>& known) {
  const std::string nearest = NearestName(value, known);
  std::string help = nearest.empty() ? "" : "the nearest known one is '" + nearest + "'; ";
  help += "known:";
  for (const std::string& name : known) help += " " + name;
  Fail(604, key,
       "'" + std::string(key) + "' is '" + value + "', which the importer has no rule for", help);
}

void HfConfig::Fail(int code, std::string_view key, std::string message, std::string help) const {
  reader_.Fail(code, key, std::move(message), std::move(help));
}

std::vector<std::string> UnusedKeys(const Json& root, const ImportNotes& notes) {
  std::vector<std::string> unused;
  if (root.IsObject()) CollectUnused(root, "", "", notes, &unused);
  return unused;
}

}  // namespace aurum
