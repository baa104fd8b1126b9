#include "sim/spread/message.h"

#include <cstring>
#include <map>
#include <stdexcept>
#include <type_traits>
#include <utility>

// Rows repeat the names of their figures, which are longer than the values. A message holds every
// name once; a row refers to it by its number.
namespace aurum {
namespace {

class Packer {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void Text(std::string_view text) {
    Number(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Next(sizeof value).data(), sizeof value);
    return value;
  }
  std::string Text() { return std::string(Next(Number<std::uint64_t>())); }
  // A count of things that take at least `least` bytes each.
  std::size_t Count(std::size_t least) {
    const auto count = Number<std::uint64_t>();
    if (count > bytes_.size() / least) Bad();
    return count;
  }
  void End() const {
    if (!bytes_.empty()) Bad();
  }
  [[noreturn]] static void Bad() {
    throw std::runtime_error("a message of another process is none of this version's");
  }

 private:
  std::string_view Next(std::uint64_t size) {
    if (size > bytes_.size()) Bad();
    const std::string_view next = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return next;
  }
  std::string_view bytes_;
};

void PackRows(const std::vector<PointRow>& rows, Packer* out) {
  std::map<std::string_view, std::uint32_t> numbers;
  std::vector<std::string_view> names;
  for (const PointRow& row : rows) {
    for (const Figure& figure : row.figures) {
      if (numbers.try_emplace(figure.name, static_cast<std::uint32_t>(names.size())).second)
        names.push_back(figure.name);
    }
  }
  out->Number(static_cast<std::uint64_t>(names.size()));
  for (const std::string_view name : names) out->Text(name);
  out->Number(static_cast<std::uint64_t>(rows.size()));
  for (const PointRow& row : rows) {
    out->Number(static_cast<std::uint64_t>(row.ordinal));
    out->Number(row.id.high);
    out->Number(row.id.low);
    out->Number(static_cast<std::uint8_t>(row.status));
    out->Text(row.diagnostic);
    out->Number(static_cast<std::uint64_t>(row.figures.size()));
    for (const Figure& figure : row.figures) {
      const auto* text = std::get_if<std::string>(&figure.value);
      out->Number(numbers[figure.name]);
      out->Number(static_cast<std::uint8_t>(text != nullptr ? 1 : 0));
      if (text != nullptr) {
        out->Text(*text);
      } else {
        out->Number(std::get<double>(figure.value));
      }
    }
  }
}

std::vector<PointRow> UnpackRows(Unpacker* in) {
  std::vector<std::string> names(in->Count(8));
  for (std::string& name : names) name = in->Text();
  std::vector<PointRow> rows(in->Count(41));
  for (PointRow& row : rows) {
    row.ordinal = in->Number<std::uint64_t>();
    row.id.high = in->Number<std::uint64_t>();
    row.id.low = in->Number<std::uint64_t>();
    const auto status = in->Number<std::uint8_t>();
    if (status > static_cast<std::uint8_t>(PointStatus::kFailed)) Unpacker::Bad();
    row.status = static_cast<PointStatus>(status);
    row.diagnostic = in->Text();
    row.figures.resize(in->Count(13));
    for (Figure& figure : row.figures) {
      const auto name = in->Number<std::uint32_t>();
      if (name >= names.size()) Unpacker::Bad();
      figure.name = names[name];
      if (in->Number<std::uint8_t>() != 0) {
        figure.value = in->Text();
      } else {
        figure.value = in->Number<double>();
      }
    }
  }
  return rows;
}

}  // namespace

std::string Pack(const Message& message) {
  Packer out;
  out.Number(static_cast<std::uint8_t>(message.kind));
  out.Number(message.slot);
  for (const std::uint64_t number : {message.begin, message.at, message.end, message.size})
    out.Number(number);
  out.Text(message.text);
  out.Text(message.study);
  PackRows(message.rows, &out);
  return out.Take();
}

Message Unpack(std::string_view bytes) {
  Unpacker in(bytes);
  Message message;
  const auto kind = in.Number<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(MessageKind::kEnd)) Unpacker::Bad();
  message.kind = static_cast<MessageKind>(kind);
  message.slot = in.Number<std::uint32_t>();
  message.begin = in.Number<std::uint64_t>();
  message.at = in.Number<std::uint64_t>();
  message.end = in.Number<std::uint64_t>();
  message.size = in.Number<std::uint64_t>();
  message.text = in.Text();
  message.study = in.Text();
  message.rows = UnpackRows(&in);
  in.End();
  if (message.begin > message.at || message.at > message.end ||
      message.rows.size() != (message.kind == MessageKind::kRows ? message.at - message.begin : 0))
    Unpacker::Bad();
  return message;
}

}  // namespace aurum
