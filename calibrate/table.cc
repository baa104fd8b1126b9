#include "calibrate/table.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <string_view>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr double kMaxSize = 1e15;
constexpr double kMaxMicroseconds = 1e10;  // three hours in one kernel: not a measurement

// One line of the table, cut at its commas; knows where each field stood.
class Line {
 public:
  Line(const std::string& file, int number, std::string_view text)
      : file_(file), number_(number), text_(text) {
    for (std::size_t begin = 0;;) {
      const std::size_t comma = text.find(',', begin);
      begins_.push_back(begin);
      fields_.push_back(
          text.substr(begin, comma == std::string_view::npos ? comma : comma - begin));
      if (comma == std::string_view::npos) break;
      begin = comma + 1;
    }
  }

  std::size_t size() const { return fields_.size(); }
  std::string_view Field(std::size_t i) const { return fields_[i]; }

  double Number(std::size_t i, const std::string& column, double low, double high) const {
    const std::string_view field = fields_[i];
    double number = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
    if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(number)) {
      Fail(822, i, "'" + std::string(field) + "' in column '" + column + "' is not a number",
           "write a plain decimal number, without unit or thousands separator");
    }
    if (number < low || number > high) {
      Fail(823, i, "column '" + column + "' is " + std::string(field),
           low > 0 ? "it must be positive" : "it must not be negative");
    }
    return number;
  }

  [[noreturn]] void Fail(int code, std::size_t i, std::string message, std::string help) const {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.help = std::move(help);
    d.where.file = file_;
    d.where.line = number_;
    d.where.column = static_cast<int>(i < begins_.size() ? begins_[i] : text_.size()) + 1;
    d.where.text = std::string(text_);
    throw InputError(std::move(d));
  }

 private:
  const std::string& file_;
  int number_;
  std::string_view text_;
  std::vector<std::size_t> begins_;
  std::vector<std::string_view> fields_;
};

// Calls `take` for every line below the header.
void ForEachRow(const std::string& text, const std::string& name, const std::string& header,
                const std::function<void(const Line&)>& take) {
  const std::string_view all = text;
  bool header_seen = false;
  std::size_t columns = 0;
  int number = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = all.find('\n', begin);
    if (end == std::string_view::npos) end = all.size();
    std::string_view content = all.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!content.empty() && content.back() == '\r') content.remove_suffix(1);
    if (content.empty() || content.front() == '#') continue;
    const Line line(name, number, content);
    if (!header_seen) {
      if (content != header) {
        line.Fail(820, 0, "the header is not that of this kind of table", "expected: " + header);
      }
      header_seen = true;
      columns = line.size();
      continue;
    }
    if (line.size() != columns) {
      line.Fail(
          821, std::min(line.size(), columns),
          "expected " + std::to_string(columns) + " fields, found " + std::to_string(line.size()),
          "the columns are " + header);
    }
    take(line);
  }
  if (!header_seen) {
    const Line line(name, 1, "");
    line.Fail(820, 0, "the table has no header", "expected: " + header);
  }
}

[[noreturn]] void FailEmpty(const std::string& name, const std::string& dtype) {
  Diagnostic d;
  d.code = 825;
  d.message = "no row of type '" + dtype + "'";
  d.help = "is this the right table, and the right type?";
  d.where.file = name;
  throw InputError(std::move(d));
}

}  // namespace

std::vector<GemmRow> ReadGemmTable(const std::string& text, const std::string& name,
                                   const std::string& dtype) {
  std::vector<GemmRow> rows;
  ForEachRow(text, name, "m,n,k,dtype,latency_us", [&](const Line& line) {
    GemmRow row;
    row.m = line.Number(0, "m", 1, kMaxSize);
    row.n = line.Number(1, "n", 1, kMaxSize);
    row.k = line.Number(2, "k", 1, kMaxSize);
    row.seconds = line.Number(4, "latency_us", 1e-6, kMaxMicroseconds) * 1e-6;
    if (line.Field(3) == dtype) rows.push_back(row);
  });
  if (rows.empty()) FailEmpty(name, dtype);
  return rows;
}

std::vector<AttentionRow> ReadAttentionTable(const std::string& text, const std::string& name,
                                             const std::string& dtype) {
  std::vector<AttentionRow> rows;
  ForEachRow(text, name, "batch,seq_len,past_len,heads,kv_heads,head_dim,dtype,latency_us",
             [&](const Line& line) {
               AttentionRow row;
               row.batch = line.Number(0, "batch", 1, kMaxSize);
               row.seq_len = line.Number(1, "seq_len", 1, kMaxSize);
               row.past_len = line.Number(2, "past_len", 0, kMaxSize);
               row.heads = line.Number(3, "heads", 1, kMaxSize);
               row.kv_heads = line.Number(4, "kv_heads", 0, kMaxSize);
               row.head_dim = static_cast<int>(line.Number(5, "head_dim", 1, 65536));
               row.seconds = line.Number(7, "latency_us", 1e-6, kMaxMicroseconds) * 1e-6;
               if (row.kv_heads == 0) row.kv_heads = row.heads;
               if (line.Field(6) == dtype) rows.push_back(row);
             });
  if (rows.empty()) FailEmpty(name, dtype);
  return rows;
}

std::vector<CollectiveRow> ReadCollectiveTable(const std::string& text, const std::string& name,
                                               const std::string& dtype) {
  std::vector<CollectiveRow> rows;
  ForEachRow(text, name, "op,dtype,gpus,bytes,latency_us", [&](const Line& line) {
    CollectiveRow row;
    const std::string_view op = line.Field(0);
    if (op == "all_reduce")
      row.kind = CollectiveKind::kAllReduce;
    else if (op == "all_gather")
      row.kind = CollectiveKind::kAllGather;
    else if (op == "reduce_scatter")
      row.kind = CollectiveKind::kReduceScatter;
    else if (op == "alltoall")
      row.kind = CollectiveKind::kAllToAll;
    else {
      line.Fail(824, 0, "unknown operation '" + std::string(op) + "'",
                "known: all_reduce all_gather reduce_scatter alltoall");
    }
    row.gpus = static_cast<int>(line.Number(2, "gpus", 2, 1 << 24));
    row.bytes = line.Number(3, "bytes", 1, kMaxSize);
    row.seconds = line.Number(4, "latency_us", 1e-6, kMaxMicroseconds) * 1e-6;
    if (line.Field(1) == dtype) rows.push_back(row);
  });
  if (rows.empty()) FailEmpty(name, dtype);
  return rows;
}

}  // namespace aurum
