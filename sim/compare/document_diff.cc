#include "sim/compare/document_diff.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <map>
#include <utility>

namespace aurum {
namespace {

constexpr std::string_view kNoMatter[] = {"/schema",   "/$schema", "/name",
                                          "/question", "/sweep",   "/phases"};

std::string Escaped(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

struct Place {
  std::string pointer, path;
  Place Under(std::string_view key) const {
    return {pointer + "/" + Escaped(key),
            path.empty() ? std::string(key) : path + "." + std::string(key)};
  }
};

// Numbers are equal by value, so that 8 and 8.0 are no difference; objects whatever the order of their keys.
bool Same(const Json& a, const Json& b) {
  if (a.IsNumber() && b.IsNumber()) return a.AsNumber() == b.AsNumber();
  if (a.IsObject() && b.IsObject()) {
    if (a.members().size() != b.members().size()) return false;
    return std::all_of(a.members().begin(), a.members().end(), [&](const auto& member) {
      const Json* other = b.Find(member.first);
      return other != nullptr && Same(member.second, *other);
    });
  }
  if (a.IsArray() && b.IsArray()) {
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), Same);
  }
  return a.Dump() == b.Dump();
}

// Sections whose every key has a default, so that one side may lack all of it.
bool AllOptional(const std::string& pointer) {
  return pointer == "/what_if" || pointer == "/plan" || pointer.rfind("/plan/", 0) == 0;
}

class Walk {
 public:
  std::vector<KeyChange> Take() { return std::move(changes_); }

  // `a` or `b` may be null, not both.
  void Compare(const Json* a, const Json* b, const Place& at) {
    if (std::find(std::begin(kNoMatter), std::end(kNoMatter), at.pointer) != std::end(kNoMatter))
      return;
    if (a != nullptr && a->IsNull()) a = nullptr;
    if (b != nullptr && b->IsNull()) b = nullptr;
    if (a == nullptr && b == nullptr) return;
    if (a != nullptr && b != nullptr && Same(*a, *b)) return;
    const bool objects = (a == nullptr || a->IsObject()) && (b == nullptr || b->IsObject());
    if (objects && ((a != nullptr && b != nullptr) || AllOptional(at.pointer))) {
      Members(a, b, at);
    } else if (a != nullptr && b != nullptr && ListsOfObjects(*a, *b)) {
      for (std::size_t i = 0; i < a->items().size(); ++i)
        Compare(&a->items()[i], &b->items()[i], at.Under(std::to_string(i)));
    } else {
      KeyChange change{at.pointer, at.path, std::nullopt, std::nullopt};
      if (a != nullptr) change.a = *a;
      if (b != nullptr) change.b = *b;
      changes_.push_back(std::move(change));
    }
  }

 private:
  static bool ListsOfObjects(const Json& a, const Json& b) {
    const auto object = [](const Json& item) { return item.IsObject(); };
    return a.IsArray() && b.IsArray() && a.items().size() == b.items().size() &&
           std::all_of(a.items().begin(), a.items().end(), object) &&
           std::all_of(b.items().begin(), b.items().end(), object);
  }

  void Members(const Json* a, const Json* b, const Place& at) {
    if (a != nullptr) {
      for (const auto& [key, value] : a->members())
        Compare(&value, b == nullptr ? nullptr : b->Find(key), at.Under(key));
    }
    if (b == nullptr) return;
    for (const auto& [key, value] : b->members()) {
      if (a == nullptr || a->Find(key) == nullptr) Compare(nullptr, &value, at.Under(key));
    }
  }

  std::vector<KeyChange> changes_;
};

void PlaceAll(std::uint16_t source, Json* value) {
  value->SetPlace(source, 0);
  if (value->IsArray()) {
    for (Json& item : value->items()) PlaceAll(source, &item);
  } else if (value->IsObject()) {
    for (auto& [key, member] : value->members()) PlaceAll(source, &member);
  }
}

std::vector<std::string> KeysOf(const std::string& pointer) {
  std::vector<std::string> keys;
  for (std::size_t at = 0; at < pointer.size();) {
    const std::size_t next = std::min(pointer.find('/', at + 1), pointer.size());
    std::string key;
    for (std::size_t i = at + 1; i < next; ++i) {
      if (pointer[i] == '~' && i + 1 < next) {
        key += pointer[++i] == '1' ? '/' : '~';
      } else {
        key += pointer[i];
      }
    }
    keys.push_back(std::move(key));
    at = next;
  }
  return keys;
}

// The object member at the end of the pointer goes; what is not there is gone already.
void Remove(const std::string& pointer, Json* root) {
  const std::vector<std::string> keys = KeysOf(pointer);
  Json* at = root;
  for (std::size_t i = 0; i + 1 < keys.size() && at != nullptr; ++i) {
    if (at->IsArray()) {
      std::size_t index = 0;
      const auto read = std::from_chars(keys[i].data(), keys[i].data() + keys[i].size(), index);
      at = read.ec == std::errc() && index < at->items().size() ? &at->items()[index] : nullptr;
    } else {
      at = at->Find(keys[i]);
    }
  }
  if (at == nullptr || !at->IsObject()) return;
  auto& members = at->members();
  std::erase_if(members, [&](const auto& member) { return member.first == keys.back(); });
}

// "plan.backbone" of "/plan/backbone/tp" at depth 2.
std::string Section(const KeyChange& change, std::size_t depth) {
  const std::vector<std::string> keys = KeysOf(change.pointer);
  std::string out;
  for (std::size_t i = 0; i < std::min(depth, keys.size()); ++i)
    out += (i > 0 ? "." : "") + keys[i];
  return out;
}

}  // namespace

void TellDefaults(const std::string& profile_of_cluster, JsonDocument* document) {
  auto& members = document->root.members();
  const auto tell = [&](const char* key, const char* after, const std::string& value) {
    if (const Json* told = document->root.Find(key); told != nullptr && !told->IsNull()) return;
    std::erase_if(members, [&](const auto& member) { return member.first == key; });
    auto at = std::find_if(members.begin(), members.end(),
                           [&](const auto& member) { return member.first == after; });
    Json said(value);
    // An error about it is one about what implies it.
    if (at != members.end()) said.SetPlace(at->second.source(), at->second.offset());
    members.insert(at == members.end() ? at : at + 1, {key, std::move(said)});
  };
  tell("profile", "cluster", profile_of_cluster);
  tell("stack", "profile", "megatron-core");
}

std::vector<KeyChange> DiffScenarios(const Json& a, const Json& b) {
  Walk walk;
  walk.Compare(&a, &b, {});
  return walk.Take();
}

void ApplyChange(const KeyChange& change, bool to_b, JsonDocument* document) {
  const std::optional<Json>& value = to_b ? change.b : change.a;
  if (!value) {
    Remove(change.pointer, &document->root);
    return;
  }
  Json placed = *value;
  PlaceAll(static_cast<std::uint16_t>(document->sources.size()), &placed);
  SetPath(document, change.pointer, std::move(placed), change.path + " = " + value->Dump());
}

std::vector<ChangeGroup> GroupChanges(std::vector<KeyChange> changes, std::size_t most) {
  std::vector<ChangeGroup> groups;
  for (const std::size_t depth : {std::size_t{100}, std::size_t{2}, std::size_t{1}}) {
    groups.clear();
    for (const KeyChange& change : changes) {
      const std::string path = depth == 100 ? change.path : Section(change, depth);
      auto at = std::find_if(groups.begin(), groups.end(),
                             [&](const ChangeGroup& group) { return group.path == path; });
      if (at == groups.end()) at = groups.insert(groups.end(), ChangeGroup{path, {}});
      at->changes.push_back(change);
    }
    if (groups.size() <= most) break;
  }
  return groups;
}

std::string ShowValue(const std::optional<Json>& value, std::size_t most) {
  if (!value) return "(not told)";
  std::string text = value->IsString() ? value->AsString() : value->Dump();
  if (text.size() <= most) return text;
  std::size_t cut = most > 3 ? most - 3 : 0;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return text.substr(0, cut) + "...";
}

}  // namespace aurum
