#include "sim/core/json.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "sim/core/text_file.h"

namespace aurum {
namespace {

constexpr std::size_t kMaxDepth = 200;

// nlohmann's lexer does not tell where a value stood; an input iterator that counts what the lexer has taken does.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (taken_ != nullptr) ++*taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  std::size_t* taken_;
};

void LineAndColumn(const std::string& text, std::size_t offset, SourceLocation* where) {
  offset = std::min(offset, text.size());
  where->line = 1 + static_cast<int>(std::count(
                        text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  const std::size_t before = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  where->column = static_cast<int>(offset - begin) + 1;
  where->text = text.substr(begin, text.find('\n', begin) - begin);
}

// Builds our values from the parser's events; stops at the first error that is ours.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(const std::string& text, const std::size_t* taken, Json* root)
      : text_(text), taken_(taken), root_(root) {}

  bool null() override { return Add(Json(), 4); }
  bool boolean(bool value) override { return Add(Json(value), value ? 4 : 5); }
  bool number_integer(number_integer_t value) override {
    return Add(Json(static_cast<std::int64_t>(value)), 0);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX))
      return Add(Json(static_cast<double>(value)), 0);
    return Add(Json(static_cast<std::int64_t>(value)), 0);
  }
  bool number_float(number_float_t value, const string_t&) override { return Add(Json(value), 0); }
  bool string(string_t& value) override { return Add(Json(std::move(value)), 0); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Json::Object()); }
  bool start_array(std::size_t) override { return Open(Json::Array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    if (stack_.back()->Find(value) != nullptr) {
      code = 104;
      message = "duplicate key '" + value + "'";
      help = "remove one of the two";
      offset = TokenStart(0);
      return false;
    }
    keys_.back() = value;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    code = 100;
    offset = position > 0 ? position - 1 : 0;
    // nlohmann's text ends in "...: syntax error while parsing X - reason; last read: '...'": keep the reason.
    const std::string what = error.what();
    const std::size_t reason = what.find(" - ");
    message = "not valid JSON: " + (reason == std::string::npos ? what : what.substr(reason + 3));
    if (const std::size_t last = message.find("; last read"); last != std::string::npos)
      message.resize(last);
    if (offset >= text_.size()) {
      message = "not valid JSON: the text ends too early";
      help = "the file is truncated; a bracket, brace or quote is never closed";
    } else if (message.find("number overflow") != std::string::npos) {
      message = "a number is too large to be represented";
    } else if (text_.compare(std::min(offset, text_.size()), 3, "NaN") == 0 || NearWord("NaN") ||
               NearWord("Infinity")) {
      help = "JSON has no NaN and no Infinity; leave the key out or write a number";
    } else if (message.find("U+000") != std::string::npos ||
               message.find("control character") != std::string::npos) {
      help = "is this a text file?";
    }
    return false;
  }

  int code = 0;
  std::string message;
  std::string help;
  std::size_t offset = 0;

 private:
  bool NearWord(const char* word) const {
    const std::size_t from = offset > 8 ? offset - 8 : 0;
    return text_.substr(from, 24).find(word) != std::string::npos;
  }
  // The byte at which the token that the lexer has just taken begins. `length` 0: found by looking back.
  std::size_t TokenStart(std::size_t length) const {
    std::size_t end = std::min(*taken_, text_.size());
    if (length > 0) return end >= length ? end - length : 0;
    if (end > 0 && text_[end - 1] == '"') {  // a string: back to its opening quote
      std::size_t at = end - 1;
      while (at > 0) {
        --at;
        if (text_[at] != '"') continue;
        std::size_t slashes = 0;
        while (slashes < at && text_[at - 1 - slashes] == '\\') ++slashes;
        if (slashes % 2 == 0) return at;
      }
      return 0;
    }
    const auto number = [](char c) {
      return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
    };
    if (end > 0 && !number(text_[end - 1])) --end;  // the lexer reads one character past a number
    while (end > 0 && number(text_[end - 1])) --end;
    return end;
  }
  Json* Place(Json value, std::size_t start) {
    value.SetPlace(0, static_cast<std::uint32_t>(start));
    if (stack_.empty()) {
      *root_ = std::move(value);
      return root_;
    }
    if (stack_.back()->IsArray()) return &stack_.back()->Append(std::move(value));
    auto& members = stack_.back()->members();
    members.emplace_back(keys_.back(), std::move(value));
    return &members.back().second;
  }
  bool Add(Json value, std::size_t length) {
    const std::size_t start = TokenStart(length);
    Place(std::move(value), start);
    return true;
  }
  bool Open(Json value) {
    if (stack_.size() >= kMaxDepth) {
      code = 105;
      message = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
      offset = TokenStart(1);
      return false;
    }
    Json* placed = Place(std::move(value), TokenStart(1));
    stack_.push_back(placed);
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  const std::string& text_;
  const std::size_t* taken_;
  Json* root_;
  std::vector<Json*>
      stack_;  // open containers; a container's address is stable while its children are read
  std::vector<std::string> keys_;
};

nlohmann::ordered_json ToNlohmann(const Json& value) {
  if (value.IsNull()) return nullptr;
  if (value.IsBool()) return value.AsBool();
  if (value.IsInteger()) return value.AsInteger();
  if (value.IsNumber()) return value.AsNumber();
  if (value.IsString()) return value.AsString();
  if (value.IsArray()) {
    auto array = nlohmann::ordered_json::array();
    for (const Json& item : value.items()) array.push_back(ToNlohmann(item));
    return array;
  }
  auto object = nlohmann::ordered_json::object();
  for (const auto& [key, member] : value.members()) object.emplace(key, ToNlohmann(member));
  return object;
}

std::string Unescape(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      out += token[++i] == '0' ? '~' : '/';
    } else {
      out += token[i];
    }
  }
  return out;
}

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> parts;
  const bool pointer = !path.empty() && path[0] == '/';
  if (pointer) path.remove_prefix(1);
  const char separator = pointer ? '/' : '.';
  while (true) {
    const std::size_t at = path.find(separator);
    parts.push_back(pointer ? Unescape(path.substr(0, at)) : std::string(path.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    path.remove_prefix(at + 1);
  }
}

bool ParseIndex(const std::string& text, std::size_t* index) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *index);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Json Json::Numbers(const std::vector<double>& numbers) {
  std::vector<Json> items;
  items.reserve(numbers.size());
  for (const double number : numbers) items.emplace_back(number);
  return Array(std::move(items));
}

std::string_view Json::TypeName() const {
  if (IsNull()) return "null";
  if (IsBool()) return "true or false";
  if (IsInteger()) return "an integer";
  if (IsNumber()) return "a number";
  if (IsString()) return "a string";
  return IsArray() ? "an array" : "an object";
}

double Json::AsNumber() const {
  return IsInteger() ? static_cast<double>(AsInteger()) : std::get<double>(value_);
}

const Json* Json::Find(std::string_view key) const {
  if (!IsObject()) return nullptr;
  for (const auto& [name, value] : members()) {
    if (name == key) return &value;
  }
  return nullptr;
}

Json* Json::Find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).Find(key)); }

Json& Json::Set(std::string_view key, Json value) {
  if (Json* found = Find(key)) return *found = std::move(value);
  members().emplace_back(std::string(key), std::move(value));
  return members().back().second;
}

Json& Json::Append(Json value) {
  items().push_back(std::move(value));
  return items().back();
}

std::string Json::Dump(int indent) const {
  return ToNlohmann(*this).dump(indent, ' ', false,
                                nlohmann::ordered_json::error_handler_t::replace);
}

SourceLocation JsonDocument::Locate(const Json& value, std::string pointer) const {
  SourceLocation where;
  where.pointer = std::move(pointer);
  if (value.source() >= sources.size()) return where;
  const JsonSource& source = sources[value.source()];
  where.file = source.name;
  LineAndColumn(source.text, value.offset(), &where);
  return where;
}

JsonDocument ParseJson(std::string text, std::string name) {
  JsonDocument document;
  document.sources.push_back({std::move(name), std::move(text)});
  const std::string& source = document.sources[0].text;
  std::size_t taken = 0;
  Builder builder(source, &taken, &document.root);
  const char* begin = source.data();
  const bool ok = nlohmann::json::sax_parse(
      CountingIterator(begin, &taken), CountingIterator(begin + source.size(), nullptr), &builder);
  if (ok && builder.code == 0) return document;
  Diagnostic d;
  d.code = builder.code == 0 ? 100 : builder.code;
  d.message = builder.message.empty() ? "not valid JSON" : builder.message;
  if (source.find_first_not_of(" \t\r\n") == std::string::npos) {
    d.message = "not valid JSON: the file is empty";
    d.help.clear();
  } else {
    d.help = builder.help;
  }
  d.where.file = document.sources[0].name;
  LineAndColumn(source, builder.offset, &d.where);
  throw InputError(std::move(d));
}

JsonDocument ReadJsonFile(const std::string& path) { return ParseJson(ReadTextFile(path), path); }

const Json* FindPath(const Json& root, std::string_view path) {
  const Json* at = &root;
  for (const std::string& part : SplitPath(path)) {
    if (at->IsArray()) {
      std::size_t index = 0;
      if (!ParseIndex(part, &index) || index >= at->items().size()) return nullptr;
      at = &at->items()[index];
    } else {
      at = at->Find(part);
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

void SetPath(JsonDocument* document, std::string_view path, Json value,
             const std::string& spelled) {
  const auto fail = [&](const std::string& why) {
    ThrowInput(106, "cannot set '" + std::string(path) + "': " + why,
               "for example --set plan.micro_batch_size=2");
  };
  const auto source = static_cast<std::uint16_t>(document->sources.size());
  document->sources.push_back({spelled, spelled});
  value.SetPlace(source, 0);
  Json* at = &document->root;
  const std::vector<std::string> parts = SplitPath(path);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const bool last = i + 1 == parts.size();
    if (part.empty()) fail("a part of the path is empty");
    if (at->IsArray()) {
      std::size_t index = 0;
      if (!ParseIndex(part, &index)) fail("'" + part + "' is not an index into an array");
      if (index >= at->items().size()) {
        fail("index " + part + " is beyond an array of " + std::to_string(at->items().size()));
      }
      at = &at->items()[index];
      if (last) *at = value;
    } else if (at->IsObject()) {
      if (last) {
        at->Set(part, value);
      } else {
        Json* next = at->Find(part);
        if (next == nullptr || next->IsNull()) {
          Json made = Json::Object();
          made.SetPlace(source, 0);
          next = &at->Set(part, std::move(made));
        }
        at = next;
      }
    } else {
      fail("'" + part + "' lies inside of " + std::string(at->TypeName()));
    }
  }
}

void ApplyOverride(JsonDocument* document, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string spelled = "--set " + std::string(assignment);
  if (equals == std::string_view::npos || equals == 0) {
    ThrowInput(106, "'" + spelled + "' is not of the form path=value",
               "for example --set plan.micro_batch_size=2", ExitCode::kUsage);
  }
  const std::string text(assignment.substr(equals + 1));
  Json value;
  try {
    value = ParseJson(text, spelled).root;
  } catch (const InputError&) {
    value = Json(text);  // a bare word is a string
  }
  SetPath(document, assignment.substr(0, equals), std::move(value), spelled);
}

}  // namespace aurum
