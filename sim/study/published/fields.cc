#include "sim/study/published/fields.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace aurum {

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool ContainsAny(const std::string& text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return Contains(text, part); });
}

void Remove(Json* object, std::string_view key) {
  std::erase_if(object->members(), [&](const auto& member) { return member.first == key; });
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    if (end > from) parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

std::optional<std::int64_t> FirstNumber(std::string_view text, std::size_t from) {
  while (from < text.size() && std::isdigit(static_cast<unsigned char>(text[from])) == 0) ++from;
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data() + from, text.data() + text.size(), value);
  if (from >= text.size() || read.ec != std::errc()) return std::nullopt;
  return value;
}

const Json* Row::Find(std::string_view key) const {
  const Json* found = value_->Find(key);
  return found == nullptr || found->IsNull() ? nullptr : found;
}

bool Row::Has(std::string_view key) const { return Find(key) != nullptr; }

void Row::Fail(int code, std::string_view key, std::string message, std::string help) const {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  const Json* at = key.empty() ? nullptr : Find(key);
  d.where =
      at == nullptr ? document_->Locate(*value_, pointer_) : document_->Locate(*at, PointerOf(key));
  throw InputError(std::move(d));
}

std::optional<std::int64_t> Row::Whole(std::string_view key) const {
  const std::optional<double> value = Real(key);
  if (!value || std::nearbyint(*value) != *value || std::abs(*value) > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<double> Row::Real(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) return std::nullopt;
  if (found->IsNumber()) {
    if (found->AsNumber() < 0) {
      Fail(861, key, "'" + std::string(key) + "' is negative",
           "leave it out where it is not known");
    }
    return found->AsNumber();
  }
  if (found->IsString()) {
    const std::string& text = found->AsString();
    double value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value < 0)
      return std::nullopt;
    return value;
  }
  if (found->IsObject() || found->IsArray() || found->IsBool()) {
    Fail(861, key,
         "'" + std::string(key) + "' is " + std::string(found->TypeName()) +
             " where a number is meant",
         "null where it is not known");
  }
  return std::nullopt;
}

std::optional<double> Row::Figure(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr || !found->IsNumber() || found->AsNumber() < 0) return std::nullopt;
  return found->AsNumber();
}

std::optional<bool> Row::Bool(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) return std::nullopt;
  if (found->IsBool()) return found->AsBool();
  if (found->IsString()) {
    const std::string text = Lower(found->AsString());
    if (text == "true") return true;
    if (text == "false") return false;
    return std::nullopt;
  }
  Fail(861, key,
       "'" + std::string(key) + "' is " + std::string(found->TypeName()) +
           " where true or false is meant",
       "null where it is not known");
}

std::string Row::Text(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) return "";
  if (found->IsString()) return found->AsString();
  if (found->IsObject() || found->IsArray()) {
    Fail(861, key,
         "'" + std::string(key) + "' is " + std::string(found->TypeName()) + " where text is meant",
         "null where it is not known");
  }
  return found->Dump();
}

std::optional<Row> Row::Object(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr || !found->IsObject()) return std::nullopt;
  return Row(*document_, *found, PointerOf(key));
}

std::optional<std::int64_t> Row::WholeOf(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys)
    if (const auto value = Whole(key)) return value;
  return std::nullopt;
}

std::optional<double> Row::RealOf(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys)
    if (const auto value = Real(key)) return value;
  return std::nullopt;
}

std::string Row::TextOf(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys)
    if (std::string text = Text(key); !text.empty()) return text;
  return "";
}

}  // namespace aurum
