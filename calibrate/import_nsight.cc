#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "calibrate/import.h"
#include "sim/core/diagnostic.h"

// Nsight Systems' SQLite export (nsys export --type sqlite).
//
// The schema varies with the version and with what was traced, so the tables and columns are looked
// up first. What is used:
//
//   CUPTI_ACTIVITY_KIND_KERNEL    start, end, correlationId, demangledName or shortName
//   CUPTI_ACTIVITY_KIND_RUNTIME   start, correlationId, globalTid: where a kernel was launched
//   NVTX_EVENTS                   start, end, text or textId, globalTid: ranges around launches
//   StringIds                     id, value
//
// A kernel says neither its sizes nor its operator. torch.autograd.profiler.emit_nvtx(record_shapes =
// True) writes both as a range: "aten::mm, op_id = 12, sizes = [[4096, 1024], [1024, 512]]". A kernel
// belongs to the innermost such range of the thread that launched it. The type is in the kernel's
// name alone ("…_bf16_…"). NCCL's kernels have no sizes at all here: they are counted, and left out.

namespace aurum {
namespace {

[[noreturn]] void Fail(int code, const std::string& path, std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.where.file = path;
  d.help = std::move(help);
  throw InputError(std::move(d));
}

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

class Database {
 public:
  explicit Database(const std::string& path) : path_(path) {
    sqlite3* raw = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
    database_.reset(raw);
    if (code != SQLITE_OK) Damaged();
  }

  std::vector<std::string> Columns(const std::string& table) {
    std::vector<std::string> columns;
    Each("SELECT name FROM pragma_table_info('" + table + "')",
         [&](sqlite3_stmt* row) { columns.push_back(Text(row, 0)); });
    return columns;
  }

  template <typename OnRow>
  void Each(const std::string& query, const OnRow& on_row) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &raw, nullptr) != SQLITE_OK)
      Damaged();
    const std::unique_ptr<sqlite3_stmt, Close> statement(raw);
    int code = sqlite3_step(raw);
    for (; code == SQLITE_ROW; code = sqlite3_step(raw)) on_row(raw);
    if (code != SQLITE_DONE) Damaged();
  }

  static std::string Text(sqlite3_stmt* row, int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
    return text == nullptr ? "" : text;
  }

 private:
  [[noreturn]] void Damaged() const {
    Fail(838, path_,
         std::string("not a database that can be read: ") + sqlite3_errmsg(database_.get()),
         "export it again: nsys export --type sqlite REPORT.nsys-rep");
  }

  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
};

bool Has(const std::vector<std::string>& columns, const char* name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

// [[4096, 1024], [1024, 512]] behind "sizes = ".
std::vector<std::vector<double>> SizesIn(const std::string& text) {
  std::vector<std::vector<double>> sizes;
  std::size_t at = text.find("sizes = ");
  if (at == std::string::npos) return sizes;
  int depth = 0;
  for (at += 8; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '[') {
      if (++depth == 2) sizes.emplace_back();
    } else if (c == ']') {
      if (--depth == 0) break;
    } else if (depth == 2 && std::isdigit(static_cast<unsigned char>(c)) != 0) {
      char* end = nullptr;
      sizes.back().push_back(std::strtod(text.c_str() + at, &end));
      at = static_cast<std::size_t>(end - text.c_str()) - 1;
    }
  }
  return sizes;
}

std::optional<DType> TypeInName(const std::string& kernel) {
  const std::string n = LowerName(kernel);
  const auto has = [&](const char* part) { return n.find(part) != std::string::npos; };
  if (has("e4m3") || has("e5m2") || has("fp8")) return DType::kFp8;
  if (has("bf16") || has("bfloat16")) return DType::kBf16;
  if (has("f16") || has("fp16") || has("h16") || has("half") || has("hgemm")) return DType::kFp16;
  if (has("tf32") || has("sgemm") || has("f32") || has("float")) return DType::kFp32;
  return std::nullopt;
}

struct Range {
  std::int64_t start = 0, end = 0;
  double m = 0, n = 0, k = 0;
};

}  // namespace

std::vector<MeasuredRow> RowsOfNsight(const std::string& path, std::vector<std::string>* remarks) {
  Database database(path);
  const std::vector<std::string> kernel = database.Columns("CUPTI_ACTIVITY_KIND_KERNEL");
  if (kernel.empty()) {
    Fail(836, path, "a database without CUPTI_ACTIVITY_KIND_KERNEL: no kernels were traced",
         "nsys profile --trace=cuda,nvtx, then nsys export --type sqlite");
  }
  const std::vector<std::string> runtime = database.Columns("CUPTI_ACTIVITY_KIND_RUNTIME");
  const std::vector<std::string> nvtx = database.Columns("NVTX_EVENTS");
  const bool strings = !database.Columns("StringIds").empty();
  const char* name_column = Has(kernel, "demangledName") ? "demangledName"
                            : Has(kernel, "shortName")   ? "shortName"
                                                         : nullptr;
  for (const char* needed : {"start", "end", "correlationId"}) {
    if (Has(kernel, needed) && name_column != nullptr && strings) continue;
    Fail(838, path,
         std::string("CUPTI_ACTIVITY_KIND_KERNEL has no column '") +
             (Has(kernel, needed) ? "demangledName" : needed) + "', or there is no StringIds",
         "an export of Nsight Systems 2021 or later");
  }

  std::int64_t collectives = 0, kernels = 0;
  database.Each(std::string("SELECT s.value, COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k "
                            "JOIN StringIds s ON s.id = k.") +
                    name_column + " GROUP BY s.value",
                [&](sqlite3_stmt* row) {
                  const std::int64_t count = sqlite3_column_int64(row, 1);
                  kernels += count;
                  if (LowerName(Database::Text(row, 0)).find("nccl") != std::string::npos)
                    collectives += count;
                });
  if (collectives > 0) {
    remarks->push_back(std::to_string(collectives) +
                       " NCCL kernels left out: Nsight Systems does not record their sizes; "
                       "nccl-tests or PyTorch's profiler do");
  }

  // Ranges with shapes, by thread, in order of their start.
  std::map<std::int64_t, std::vector<Range>> ranges;
  const bool ids = Has(nvtx, "textId") && strings;
  if (Has(nvtx, "start") && Has(nvtx, "end") && Has(nvtx, "globalTid") &&
      (ids || Has(nvtx, "text"))) {
    const std::string text = ids && Has(nvtx, "text") ? "COALESCE(e.text, s.value)"
                             : ids                    ? "s.value"
                                                      : "e.text";
    database.Each("SELECT e.globalTid, e.start, e.end, " + text + " AS t FROM NVTX_EVENTS e " +
                      (ids ? "LEFT JOIN StringIds s ON s.id = e.textId " : "") +
                      "WHERE e.end IS NOT NULL AND t LIKE 'aten::%mm,%sizes = %' "
                      "ORDER BY e.globalTid, e.start",
                  [&](sqlite3_stmt* row) {
                    const std::string label = Database::Text(row, 3);
                    const std::size_t a = label.starts_with("aten::addmm,") ? 1 : 0;
                    if (a == 0 && !label.starts_with("aten::mm,")) return;
                    const auto sizes = SizesIn(label);
                    if (sizes.size() < a + 2 || sizes[a].size() != 2 || sizes[a + 1].size() != 2 ||
                        sizes[a][1] != sizes[a + 1][0])
                      return;
                    Range range;
                    range.start = sqlite3_column_int64(row, 1);
                    range.end = sqlite3_column_int64(row, 2);
                    range.m = sizes[a][0];
                    range.k = sizes[a][1];
                    range.n = sizes[a + 1][1];
                    if (range.m < 1 || range.n < 1 || range.k < 1) return;
                    ranges[sqlite3_column_int64(row, 0)].push_back(range);
                  });
  }
  if (ranges.empty() || !Has(runtime, "globalTid") || !Has(runtime, "correlationId")) {
    Fail(836, path,
         std::to_string(kernels) + " kernels, and none of them tells its sizes" +
             (collectives > 0 ? " (" + std::to_string(collectives) + " are NCCL's)" : ""),
         "trace with torch.autograd.profiler.emit_nvtx(record_shapes=True) and "
         "--trace=cuda,nvtx; of NCCL, nccl-tests measure the sizes");
  }

  // A range may launch several kernels (a split product and its reduction): their sum.
  std::map<std::tuple<std::int64_t, std::size_t>, std::pair<double, std::optional<DType>>> sums;
  database.Each(
      std::string("SELECT r.globalTid, r.start, k.end - k.start, s.value "
                  "FROM CUPTI_ACTIVITY_KIND_KERNEL k "
                  "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId "
                  "JOIN StringIds s ON s.id = k.") +
          name_column + " ORDER BY k.start",
      [&](sqlite3_stmt* row) {
        const std::int64_t thread = sqlite3_column_int64(row, 0);
        const auto of_thread = ranges.find(thread);
        if (of_thread == ranges.end()) return;
        const std::int64_t at = sqlite3_column_int64(row, 1);
        const std::vector<Range>& list = of_thread->second;
        auto after = std::upper_bound(list.begin(), list.end(), at,
                                      [](std::int64_t t, const Range& r) { return t < r.start; });
        if (after == list.begin()) return;
        const auto index = static_cast<std::size_t>(after - list.begin()) - 1;
        if (at > list[index].end) return;
        auto& [seconds, dtype] = sums[{thread, index}];
        seconds += static_cast<double>(sqlite3_column_int64(row, 2)) * 1e-9;
        if (!dtype) dtype = TypeInName(Database::Text(row, 3));
      });
  std::map<std::tuple<DType, double, double, double>, std::vector<double>> by_shape;
  std::int64_t untyped = 0;
  for (const auto& [key, sum] : sums) {
    const Range& range = ranges.at(std::get<0>(key))[std::get<1>(key)];
    if (!sum.second) {
      ++untyped;
      continue;
    }
    if (sum.first > 0) by_shape[{*sum.second, range.m, range.n, range.k}].push_back(sum.first);
  }
  if (untyped > 0) {
    remarks->push_back(std::to_string(untyped) +
                       " products left out: their kernels' names do not tell the type");
  }
  std::vector<MeasuredRow> rows;
  for (auto& [key, seconds] : by_shape) {
    MeasuredRow row;
    Kernel& k = row.item.kernel;
    k.kind = KernelKind::kGemm;
    std::tie(k.dtype, k.m, k.n, k.k) = key;
    row.item.samples = static_cast<int>(seconds.size());
    row.samples.seconds = std::move(seconds);
    row.source = "Nsight Systems: " + path;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace aurum
