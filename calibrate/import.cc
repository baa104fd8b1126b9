#include "calibrate/import.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include "calibrate/fit_collective.h"
#include "calibrate/table.h"
#include "sim/collectives/nccl_tests.h"
#include "sim/core/diagnostic.h"
#include "sim/core/json.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

constexpr double kMostBusRate = 2e13;  // B/s: ten times what any link of a GPU carries
constexpr int kLeastSizes = 6;         // of an envelope
constexpr int kMostOfOneNode = 8;      // GPUs, where the log does not tell its hosts

[[noreturn]] void Fail(int code, const std::string& name, int line, std::string message,
                       std::string help) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.where.file = name;
  d.where.line = line;
  d.help = std::move(help);
  throw InputError(std::move(d));
}

std::string Shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

enum class FileKind { kMeasurements, kNcclTests, kKineto, kNsight, kTable };

// The first bytes of a file; errors as of ReadTextFile.
std::string Head(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(65536, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  if (head.empty()) ReadTextFile(path);  // says why
  return head;
}

const std::vector<std::string_view> kHeaders = {"m,n,k,", "batch,seq_len,", "op,dtype,gpus,"};

// The first line that is neither empty nor a comment.
std::string_view FirstLine(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!line.empty() && line.front() != '#' && line.front() != '\r') return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

FileKind KindOf(const std::string& path) {
  const std::string head = Head(path);
  const std::string_view view = head;
  if (view.starts_with("SQLite format 3")) return FileKind::kNsight;
  if (view.starts_with("\x1f\x8b")) {
    Fail(835, path, 0, "a compressed file", "gunzip it first");
  }
  if (view.starts_with("PK\x03\x04") || view.find('\0') != std::string_view::npos) {
    Fail(835, path, 0, "a binary file that is no SQLite database",
         "of Nsight Systems: nsys export --type sqlite REPORT.nsys-rep");
  }
  const std::size_t first = view.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first != std::string_view::npos && (view[first] == '{' || view[first] == '[')) {
    if (view.find("\"aurum.measurements/") != std::string_view::npos)
      return FileKind::kMeasurements;
    if (view.find("\"aurum.") != std::string_view::npos) {
      Fail(835, path, 0, "a document of Aurum's own that holds no measurements",
           "what `aurum calibrate --measurements FILE` wrote; a profile is for --base");
    }
    for (const char* key : {"\"traceEvents\"", "\"schemaVersion\"", "\"deviceProperties\"",
                            "\"distributedInfo\"", "\"ph\""}) {
      if (view.find(key) != std::string_view::npos) return FileKind::kKineto;
    }
    return FileKind::kNcclTests;
  }
  const std::string_view line = FirstLine(view);
  for (const std::string_view header : kHeaders) {
    if (line.starts_with(header)) return FileKind::kTable;
  }
  return FileKind::kNcclTests;
}

std::optional<DType> TypeOfNccl(const std::string& name) {
  if (name == "half" || name == "fp16") return DType::kFp16;
  if (name == "bfloat16" || name == "bf16") return DType::kBf16;
  if (name == "float") return DType::kFp32;
  if (name.starts_with("f8") || name.starts_with("fp8")) return DType::kFp8;
  return std::nullopt;
}

MeasuredRow RowOfSeconds(double seconds, const std::string& source) {
  MeasuredRow row;
  row.item.samples = 1;
  row.samples.seconds = {seconds};
  row.source = source;
  return row;
}

}  // namespace

std::vector<MeasuredRow> RowsOfNcclTests(const std::string& name, const std::string& text,
                                         const ImportOptions& options) {
  std::vector<MeasuredRow> rows;
  for (const NcclTestRun& run : ReadNcclTests(name, text)) {
    const int first_line = run.rows.front().line;
    // What makes any figure worthless first, then what is missing.
    for (const NcclTestRow& row : run.rows) {
      if (!row.wrong) continue;
      Fail(842, name, row.line,
           "the results of " + Shown(row.bytes) + " bytes were wrong: nccl-tests' check says so",
           "a link or a GPU that returns wrong data is not to be measured but repaired; then "
           "measure "
           "again");
    }
    if (run.gpus == 1 || options.gpus == 1) {
      Fail(840, name, first_line,
           "measured on one GPU alone: nothing went over a link, and its bandwidths are those of a "
           "copy, or of nothing",
           "two GPUs or more: -g N, or as many ranks");
    }
    for (const NcclTestRow& row : run.rows) {
      for (const double seconds : {row.out_of_place_s, row.in_place_s}) {
        if (seconds <= 0 || row.bytes / seconds < kMostBusRate) continue;
        Fail(841, name, row.line,
             Shown(row.bytes / seconds / 1e9) + " GB/s of " + Shown(row.bytes) +
                 " bytes: no link carries that",
             "a test that does nothing was timed; look at its -w, -n and at the number of GPUs");
      }
    }
    const std::optional<CollectiveKind> kind = run.kind ? run.kind : options.kind;
    if (!kind) {
      Fail(572, name, first_line, "these results do not tell which collective they are of",
           "--op all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send_recv");
    }
    const int by_ratio = GpusByRatio(*kind, run);
    int gpus = run.gpus > 0 ? run.gpus : options.gpus > 0 ? options.gpus : by_ratio;
    if (gpus < 2) {
      Fail(845, name, first_line, "these results do not tell on how many GPUs they were measured",
           "--gpus N");
    }
    if (by_ratio > 1 && by_ratio != gpus) {
      Fail(
          845, name, first_line,
          "busbw over algbw is that of " + std::to_string(by_ratio) + " GPUs, not of " +
              std::to_string(gpus),
          "--gpus " + std::to_string(by_ratio) + ", or the collective that was measured with --op");
    }
    const int nodes = run.nodes > 0 ? run.nodes : options.nodes;
    if (nodes > 1) {
      Fail(844, name, first_line,
           "measured over " + std::to_string(nodes) +
               " nodes: a profile holds collectives inside of one, and the cluster's network "
               "decides between them",
           "a log of one node; `aurum topology CLUSTER --measured FILE` compares this one");
    }
    if (nodes == 0 && gpus > kMostOfOneNode) {
      Fail(844, name, first_line,
           std::to_string(gpus) +
               " GPUs, and the log does not tell whether they are of one node: its '# Rank' lines "
               "are missing",
           "--nodes 1 if they are; of several nodes, `aurum topology CLUSTER --measured FILE` "
           "compares it");
    }
    std::set<double> sizes;
    std::vector<MeasuredRow> of_run;
    for (const NcclTestRow& row : run.rows) {
      // Out of place, as a framework that keeps its buffers calls it; in place where that alone was
      // measured.
      const double seconds = row.out_of_place_s > 0 ? row.out_of_place_s : row.in_place_s;
      MeasuredRow measured = RowOfSeconds(seconds, name);
      measured.item.kind = MeasuredKind::kCollective;
      measured.item.collective = *kind;
      measured.item.gpus = gpus;
      measured.item.bytes = row.bytes;
      measured.item.dtype = TypeOfNccl(row.type).value_or(DType::kBf16);
      sizes.insert(row.bytes);
      of_run.push_back(std::move(measured));
    }
    if (static_cast<int>(sizes.size()) < kLeastSizes) {
      Fail(843, name, first_line,
           CollectiveName(*kind) + " on " + std::to_string(gpus) +
               " GPUs: " + std::to_string(sizes.size()) + " sizes are too few for a curve, " +
               std::to_string(kLeastSizes) + " are needed",
           "-b 8 -e 1G -f 2 measures 28");
    }
    rows.insert(rows.end(), std::make_move_iterator(of_run.begin()),
                std::make_move_iterator(of_run.end()));
  }
  return rows;
}

std::vector<MeasuredRow> RowsOfTable(const std::string& name, const std::string& text) {
  const std::string_view header = FirstLine(text);
  std::vector<MeasuredRow> rows;
  std::optional<InputError> none;
  // A reader takes the rows of one type; those that the table does not have are no error.
  const auto each_type = [&](const std::vector<std::pair<const char*, DType>>& types,
                             const auto& read) {
    for (const auto& [word, dtype] : types) {
      try {
        read(word, dtype);
      } catch (const InputError& error) {
        if (error.diagnostic().code != 825) throw;
        none = error;
      }
    }
  };
  if (header.starts_with(kHeaders[0])) {
    each_type({{"bfloat16", DType::kBf16},
               {"half", DType::kFp16},
               {"fp8", DType::kFp8},
               {"fp8_block", DType::kFp8Block},
               {"nvfp4", DType::kNvfp4},
               {"float", DType::kFp32}},
              [&](const char* word, DType dtype) {
                for (const GemmRow& row : ReadGemmTable(text, name, word)) {
                  MeasuredRow measured = RowOfSeconds(row.seconds, name);
                  Kernel& kernel = measured.item.kernel;
                  kernel.kind = KernelKind::kGemm;
                  kernel.dtype = dtype;
                  kernel.m = row.m;
                  kernel.n = row.n;
                  kernel.k = row.k;
                  rows.push_back(std::move(measured));
                }
              });
  } else if (header.starts_with(kHeaders[1])) {
    each_type({{"bfloat16", DType::kBf16}, {"half", DType::kFp16}}, [&](const char* word,
                                                                        DType /*dtype*/) {
      for (const AttentionRow& row : ReadAttentionTable(text, name, word)) {
        MeasuredRow measured = RowOfSeconds(row.seconds, name);
        Kernel& kernel = measured.item.kernel;
        const bool decode = row.seq_len == 1 && row.past_len > 0;
        kernel.kind = decode ? KernelKind::kDecodeAttention : KernelKind::kAttentionForward;
        kernel.sequences = row.batch;
        kernel.heads = row.heads;
        kernel.kv_heads = row.kv_heads;
        kernel.q_len = row.seq_len;
        kernel.kv_len = row.seq_len + row.past_len;
        kernel.head_dim = row.head_dim;
        kernel.causal = true;
        rows.push_back(std::move(measured));
      }
    });
  } else {
    each_type({{"half", DType::kFp16}, {"bfloat16", DType::kBf16}, {"float", DType::kFp32}},
              [&](const char* word, DType dtype) {
                for (const CollectiveRow& row : ReadCollectiveTable(text, name, word)) {
                  MeasuredRow measured = RowOfSeconds(row.seconds, name);
                  measured.item.kind = MeasuredKind::kCollective;
                  measured.item.collective = row.kind;
                  measured.item.gpus = row.gpus;
                  measured.item.bytes = row.bytes;
                  measured.item.dtype = dtype;
                  rows.push_back(std::move(measured));
                }
              });
  }
  if (rows.empty() && none) throw InputError(*none);
  return rows;
}

void ImportFiles(const std::vector<std::string>& paths, const ImportOptions& options,
                 Measurements* measurements, std::vector<std::string>* remarks) {
  std::vector<std::string> traces;
  const auto add = [&](const std::string& path, std::vector<MeasuredRow> rows) {
    if (rows.empty()) {
      Fail(836, path, 0, "nothing in this file is of what a profile is made of",
           "products, attention and collectives with their sizes; docs/calibrate.md says which "
           "files "
           "have them");
    }
    measurements->rows.insert(measurements->rows.end(), std::make_move_iterator(rows.begin()),
                              std::make_move_iterator(rows.end()));
  };
  for (const std::string& path : paths) {
    switch (KindOf(path)) {
      case FileKind::kMeasurements: {
        Measurements read = ReadMeasurements(ReadJsonFile(path));
        // The first says what the machine is.
        if (measurements->device.facts.name.empty()) measurements->device = read.device;
        measurements->seed = read.seed;
        measurements->elapsed_s += read.elapsed_s;
        for (MeasuredRow& row : read.rows) {
          if (row.source.empty()) row.source = path;
        }
        std::move(read.left_out.begin(), read.left_out.end(),
                  std::back_inserter(measurements->left_out));
        add(path, std::move(read.rows));
        break;
      }
      case FileKind::kNcclTests:
        add(path, RowsOfNcclTests(path, ReadTextFile(path), options));
        break;
      case FileKind::kTable:
        add(path, RowsOfTable(path, ReadTextFile(path)));
        break;
      case FileKind::kNsight:
        add(path, RowsOfNsight(path, remarks));
        break;
      case FileKind::kKineto:
        traces.push_back(path);
        break;
    }
  }
  if (!traces.empty()) add(traces.front(), RowsOfKineto(traces, remarks));
}

std::string LowerName(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace aurum
