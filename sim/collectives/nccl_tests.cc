#include "sim/collectives/nccl_tests.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

#include "sim/collectives/steps.h"
#include "sim/core/diagnostic.h"
#include "sim/core/json.h"

namespace aurum {

// A line of results, and what stands in its columns over the years:
//
//   size count type redop root  time algbw busbw #wrong  time algbw busbw #wrong     13 words
//   size count type redop       time algbw busbw error   time algbw busbw error      12
//   size count type             time algbw busbw error   time algbw busbw error      11
//
// The first four figures are out of place, the others in place; a version prints further columns
// after each #wrong, and a time stamp at the end. So the header says where "time" stands, and where
// there is none, the number of words does.

namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool AllDigits(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), IsDigit);
}

// Whether `text` starts like `pattern`, in which 0 stands for a digit.
bool Like(std::string_view text, std::string_view pattern) {
  if (text.size() < pattern.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '0' ? !IsDigit(text[i]) : text[i] != pattern[i]) return false;
  }
  return true;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return text;
}

// One prefix off; false if there is none.
bool StripPrefix(std::string_view* text) {
  std::string_view t = *text;
  if (t.empty()) return false;
  if (t.front() == '[') {
    const std::size_t close = t.find(']');
    if (close == std::string_view::npos || close > 48) return false;
    const std::string_view inside = t.substr(1, close - 1);
    std::string_view rest = t.substr(close + 1);
    // [1,0]<stdout>: of mpirun -tag-output
    const std::size_t comma = inside.find(',');
    if (comma != std::string_view::npos && AllDigits(inside.substr(0, comma)) &&
        AllDigits(inside.substr(comma + 1)) && rest.substr(0, 4) == "<std") {
      const std::size_t colon = rest.find(">:");
      if (colon == std::string_view::npos) return false;
      *text = rest.substr(colon + 2);
      return true;
    }
    // [2024-05-01 12:00:00]
    if (Like(inside, "0000-00-00") || Like(inside, "00:00:00")) {
      *text = Trimmed(rest);
      return true;
    }
    return false;
  }
  std::size_t end = 0;
  if (Like(t, "0000-00-00T00:00:00") || Like(t, "0000-00-00 00:00:00")) end = 19;
  if (Like(t, "00:00:00")) end = 8;
  if (end > 0) {
    while (end < t.size() && std::isspace(static_cast<unsigned char>(t[end])) == 0) ++end;
    *text = Trimmed(t.substr(end));
    return true;
  }
  // 0: of srun --label
  std::size_t digits = 0;
  while (digits < t.size() && IsDigit(t[digits])) ++digits;
  if (digits > 0 && digits < 7 && digits + 1 < t.size() && t[digits] == ':' &&
      t[digits + 1] == ' ') {
    *text = t.substr(digits + 2);
    return true;
  }
  return false;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (at < text.size()) {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
    const std::size_t start = at;
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) == 0) ++at;
    if (at > start) words.push_back(text.substr(start, at - start));
  }
  return words;
}

class TextReader {
 public:
  explicit TextReader(std::string name) : name_(std::move(name)) {}

  std::vector<NcclTestRun> Read(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      ++line_;
      Line(Trimmed(text.substr(at, end - at)));
      at = end + 1;
    }
    Close();
    return std::move(runs_);
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const {
    Diagnostic d;
    d.code = 570;
    d.message = message;
    d.where.file = name_;
    d.where.line = line_;
    d.help = "the lines as nccl-tests printed them; remove the line if it was cut off";
    throw InputError(std::move(d));
  }

  void Close() {
    if (!run_.rows.empty()) runs_.push_back(std::move(run_));
    run_ = {};
    hosts_.clear();
    time_columns_.clear();
  }

  void Line(std::string_view line) {
    while (StripPrefix(&line)) line = Trimmed(line);
    if (line.empty()) return;
    if (line.front() == '#') return Comment(Trimmed(line.substr(1)));
    const std::vector<std::string_view> words = Words(line);
    if (words.size() >= 2 && AllDigits(words[0]) && AllDigits(words[1])) return Row(words);
    // The command line: ./build/all_reduce_perf -b 8 …
    for (const std::string_view word : words) Program(word);
  }

  void Program(std::string_view word) {
    const std::size_t slash = word.rfind('/');
    if (slash != std::string_view::npos) word.remove_prefix(slash + 1);
    if (word.size() < 6 || word.substr(word.size() - 5) != "_perf") return;
    if (!run_.rows.empty()) Close();
    if (const auto kind = CollectiveByTestName(word)) run_.kind = kind;
  }

  void Comment(std::string_view text) {
    const std::vector<std::string_view> words = Words(text);
    if (words.empty()) return;
    if (words[0] == "Collective" && words.size() >= 4 && words[2] == "starting:")
      return Program(words[3]);
    if (words[0] == "nThread" && !run_.rows.empty()) Close();  // the next test's settings
    if (words[0] == "Rank" && words.size() >= 2 && AllDigits(words[1])) {
      if (!run_.rows.empty()) Close();
      run_.gpus = std::max(run_.gpus, std::atoi(std::string(words[1]).c_str()) + 1);
      // "… on HOST device …": the name is only compared.
      for (std::size_t i = 2; i + 2 < words.size(); ++i) {
        if (words[i] == "on" && words[i + 2] == "device") hosts_.insert(std::string(words[i + 1]));
      }
      run_.nodes = static_cast<int>(hosts_.size());
      const std::size_t close = text.rfind(']');
      if (close != std::string_view::npos) run_.gpu = std::string(Trimmed(text.substr(close + 1)));
      return;
    }
    if (words[0] == "size") {
      time_columns_.clear();
      by_relative_error_ = false;
      for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "time" || words[i] == "cputime") time_columns_.push_back(i);
        if (words[i] == "error") by_relative_error_ = true;
      }
    }
  }

  double Number(std::string_view word, const char* what) const {
    if (word == "N/A") return 0;
    const std::string text(word);
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() + text.size() || !std::isfinite(value) || value < 0)
      Fail("'" + text.substr(0, 24) + "' is no " + what);
    return value;
  }

  void Row(const std::vector<std::string_view>& words) {
    std::vector<std::size_t> times = time_columns_;
    if (times.empty()) {
      // Without a header: by the number of words, a time stamp of two not counted.
      if (words.size() < 7)
        Fail("a row of results with " + std::to_string(words.size()) + " words");
      const std::size_t first = words.size() >= 13 ? 5 : words.size() == 12 ? 4 : 3;
      times = {first, first + 4};
      by_relative_error_ = words.size() < 13;
    }
    if (words.size() <= times[0] + 2)
      Fail("a row of results that ends before its busbw: " + std::to_string(words.size()) +
           " words");
    NcclTestRow row;
    row.line = line_;
    row.bytes = Number(words[0], "size");
    row.type = std::string(words[2].substr(0, 16));
    if (times[0] >= 4) row.redop = std::string(words[3].substr(0, 16));
    for (std::size_t i = 0; i < std::min<std::size_t>(times.size(), 2); ++i) {
      const std::size_t at = times[i];
      if (words.size() <= at + 2) break;  // one half alone
      const double seconds = Number(words[at], "time") * 1e-6;
      const double algbw = Number(words[at + 1], "algbw") * 1e9;
      const double busbw = Number(words[at + 2], "busbw") * 1e9;
      if (i == 0) {
        row.out_of_place_s = seconds;
        row.out_of_place_algbw = algbw;
        row.out_of_place_busbw = busbw;
      } else {
        row.in_place_s = seconds;
        row.in_place_busbw = busbw;
      }
      if (words.size() > at + 3) {
        const double errors = Number(words[at + 3], "number of errors");
        if (errors > (by_relative_error_ ? 0.01 : 0)) row.wrong = true;
      }
    }
    if (row.bytes > 0 && (row.out_of_place_s > 0 || row.in_place_s > 0))
      run_.rows.push_back(std::move(row));
  }

  std::string name_;
  int line_ = 0;
  NcclTestRun run_;
  std::set<std::string> hosts_;
  std::vector<NcclTestRun> runs_;
  std::vector<std::size_t> time_columns_;
  bool by_relative_error_ = false;
};

const Json* Member(const Json& object, const char* key) {
  return object.IsObject() ? object.Find(key) : nullptr;
}

std::vector<NcclTestRun> ReadJson(const std::string& name, const std::string& text) {
  const JsonDocument document = ParseJson(text, name);
  const auto fail = [&](const std::string& message) {
    Diagnostic d;
    d.code = 570;
    d.message = message;
    d.where.file = name;
    d.help = "the file that nccl-tests wrote with -J, whole";
    throw InputError(std::move(d));
  };
  NcclTestRun run;
  if (const Json* args = Member(document.root, "args");
      args != nullptr && args->IsArray() && !args->items().empty() && args->items()[0].IsString()) {
    const std::string program = args->items()[0].AsString();
    const std::size_t slash = program.rfind('/');
    run.kind =
        CollectiveByTestName(slash == std::string::npos ? program : program.substr(slash + 1));
  }
  if (const Json* config = Member(document.root, "config")) {
    if (const Json* devices = Member(*config, "devices");
        devices != nullptr && devices->IsArray()) {
      run.gpus = static_cast<int>(devices->items().size());
      std::set<std::string> hosts;
      for (const Json& device : devices->items()) {
        const Json* host = Member(device, "hostname");
        if (host != nullptr && host->IsString()) hosts.insert(host->AsString());
      }
      run.nodes = static_cast<int>(hosts.size());
      if (!devices->items().empty()) {
        const Json* gpu = Member(devices->items()[0], "device_info");
        if (gpu != nullptr && gpu->IsString()) run.gpu = gpu->AsString();
      }
    }
  }
  const Json* results = Member(document.root, "results");
  if (results == nullptr || !results->IsArray()) fail("JSON without an array 'results'");
  for (std::size_t i = 0; i < results->items().size(); ++i) {
    const Json& item = results->items()[i];
    const std::string place = "results[" + std::to_string(i) + "]";
    const auto number = [&](const Json& object, const char* key) {
      const Json* value = Member(object, key);
      if (value == nullptr || value->IsNull() || value->IsString()) return 0.0;  // "nan"
      if (!value->IsNumber() || value->AsNumber() < 0) fail(place + ": '" + key + "' is no number");
      return value->AsNumber();
    };
    if (!item.IsObject() || Member(item, "size") == nullptr) fail(place + " has no 'size'");
    NcclTestRow row;
    row.bytes = number(item, "size");
    if (const Json* type = Member(item, "type"); type != nullptr && type->IsString())
      row.type = type->AsString().substr(0, 16);
    if (const Json* redop = Member(item, "redop"); redop != nullptr && redop->IsString())
      row.redop = redop->AsString().substr(0, 16);
    for (const bool out : {true, false}) {
      const Json* half = Member(item, out ? "out_of_place" : "in_place");
      if (half == nullptr || half->IsNull()) continue;
      if (!half->IsObject()) fail(place + ": a result is no object");
      const char* time = Member(*half, "time") != nullptr ? "time" : "cpu_time";
      (out ? row.out_of_place_s : row.in_place_s) = number(*half, time) * 1e-6;
      (out ? row.out_of_place_busbw : row.in_place_busbw) = number(*half, "bus_bw") * 1e9;
      if (out) row.out_of_place_algbw = number(*half, "alg_bw") * 1e9;
      if (number(*half, "nwrong") > 0) row.wrong = true;
    }
    if (row.bytes > 0 && (row.out_of_place_s > 0 || row.in_place_s > 0))
      run.rows.push_back(std::move(row));
  }
  std::vector<NcclTestRun> runs;
  if (!run.rows.empty()) runs.push_back(std::move(run));
  return runs;
}

// The kind that the figures leave: only an all-reduce has more busbw than algbw.
void GuessKind(NcclTestRun* run) {
  if (run->kind) return;
  for (const NcclTestRow& row : run->rows) {
    if (row.out_of_place_algbw > 0 && row.out_of_place_busbw > 1.02 * row.out_of_place_algbw)
      run->kind = CollectiveKind::kAllReduce;
  }
}

}  // namespace

std::optional<CollectiveKind> CollectiveByTestName(std::string_view name) {
  if (name.size() > 5 && name.substr(name.size() - 5) == "_perf") name.remove_suffix(5);
  if (name == "alltoall") return CollectiveKind::kAllToAll;
  if (name == "sendrecv") return CollectiveKind::kSendRecv;
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
        CollectiveKind::kAllToAll, CollectiveKind::kBroadcast, CollectiveKind::kSendRecv}) {
    if (name == CollectiveName(kind)) return kind;
  }
  return std::nullopt;
}

int GpusByRatio(CollectiveKind kind, const NcclTestRun& run) {
  double ratio = 0, best = 0;
  for (const NcclTestRow& row : run.rows) {
    if (row.out_of_place_algbw <= best) continue;
    best = row.out_of_place_algbw;  // the most digits
    ratio = row.out_of_place_busbw / row.out_of_place_algbw;
  }
  if (ratio <= 0 || BusFactor(kind, 2) == BusFactor(kind, 3)) return 0;
  const double whole = kind == CollectiveKind::kAllReduce ? 2 : 1;
  if (ratio >= whole) return 0;
  const double gpus = whole / (whole - ratio);
  return gpus < 1.5 || gpus > 64 ? 0 : static_cast<int>(std::lround(gpus));
}

std::vector<NcclTestRun> ReadNcclTests(const std::string& name, const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  std::vector<NcclTestRun> runs;
  if (first != std::string::npos && text[first] == '{') {
    try {
      runs = ReadJson(name, text);
    } catch (const InputError& error) {
      // The line of an error, and what a parser says it last read, may be of the environment.
      Diagnostic d = error.diagnostic();
      d.where.text.clear();
      d.note.clear();
      if (d.code != 570) {
        d.code = 570;
        d.message = "it starts like JSON, but is not valid";
        d.help = "the file that nccl-tests wrote with -J, whole";
      }
      throw InputError(std::move(d), error.exit_code());
    }
  } else {
    runs = TextReader(name).Read(text);
  }
  if (runs.empty()) {
    Diagnostic d;
    d.code = 571;
    d.message = "no results of nccl-tests in it";
    d.where.file = name;
    d.help = "the output of all_reduce_perf, all_gather_perf, …, or the file that -J names";
    throw InputError(std::move(d));
  }
  for (NcclTestRun& run : runs) GuessKind(&run);
  return runs;
}

}  // namespace aurum
