#include "real/compare_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "real/op_names.h"
#include "real/rank_program.h"
#include "sim/core/units.h"

// Why a step took longer than predicted
// -------------------------------------
// Sums of durations do not say it: an op that takes twice its time beside a longer one costs nothing.
// What counts is the measured critical path, found from its end: the op that ended last, before it the
// one that it waited for last, and so on to the step's beginning. Along this path, op after op,
//
//   measured end(op) − end(op before)  =  gap + duration          each as measured
//   predicted end(op) − end(op before) =  wait + duration         the same two ops, as predicted
//
// and both telescope: their sums are the two step times. So the difference of the steps is, exactly,
//
//   Σ (measured − predicted duration)  by kind of op and module     what calibration can repair
// + Σ gaps                             launches, queues
// − Σ predicted waits > 0              the prediction's critical path is another one
// − Σ predicted waits < 0              what should have run at once ran one after another
// + whole steps − steps timed op by op
//
// Example: 3 ops, predicted 2 + 5 + 1 s, measured 3 + 5 + 1 s with 0.5 s between the first two: the step
// is 1.5 s longer, 1.0 of it (67 %) the first kind's, 0.5 of it (33 %) a gap.
//
// A dependency is one of the program's, or that the same rank launched the op before: some executors
// run one op at a time. The walk takes the one that ended last. It cannot come back to an op: it would
// stop there (`seen`). Cost: O(ops + dependencies).
//
// The idea of explaining an iteration by the measured critical path is CRISP's (Zhang et al., USENIX ATC
// 2022) and, for training, dPRO's (Hu et al., MLSys 2022).
namespace aurum {
namespace {

constexpr double kWeakVariation = 0.05;
constexpr std::size_t kFewSteps = 3;
constexpr double kClockFall = 0.05;
constexpr std::size_t kMostDifferences = 8;

double Middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void Warn(RunComparison* out, int code, std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.warning = true;
  d.message = std::move(message);
  d.help = std::move(help);
  out->warnings.push_back(std::move(d));
}

// Documents -----------------------------------------------------------------------------------------

std::string Shown(const Json& value) {
  const std::string text = value.Dump();
  constexpr std::size_t kRoom = 60;
  return text.size() <= kRoom ? text : std::string(value.TypeName()) + " of another content";
}

// Where two documents differ, in words, in the order of the first.
void Differences(const Json& run, const Json& here, const std::string& path,
                 std::vector<std::string>* out) {
  if (run.IsObject() && here.IsObject()) {
    for (const auto& [key, value] : run.members()) {
      const std::string below = path.empty() ? key : path + "." + key;
      if (const Json* other = here.Find(key)) {
        Differences(value, *other, below, out);
      } else {
        out->push_back(below + " is " + Shown(value) + " in the run and not told here");
      }
    }
    for (const auto& [key, value] : here.members()) {
      if (run.Find(key) == nullptr) {
        out->push_back((path.empty() ? key : path + "." + key) + " is " + Shown(value) +
                       " here and not told in the run");
      }
    }
    return;
  }
  if (run.IsArray() && here.IsArray() && run.items().size() == here.items().size()) {
    for (std::size_t i = 0; i < run.items().size(); ++i)
      Differences(run.items()[i], here.items()[i], path + "." + std::to_string(i), out);
    return;
  }
  const bool equal = run.IsNumber() && here.IsNumber() ? run.AsNumber() == here.AsNumber()
                                                       : run.Dump() == here.Dump();
  if (!equal)
    out->push_back(path + " is " + Shown(run) + " in the run and " + Shown(here) + " here");
}

// What makes a plan first, what cannot change it left out.
std::vector<std::string> DocumentDifferences(const Json& run, const Json& here) {
  static const std::set<std::string> kTitles = {"$schema", "schema", "name", "question", "sweep"};
  Json first = Json::Object(), second = Json::Object();
  const auto take = [&](const std::string& key) {
    for (const auto& [from, to] : {std::pair(&run, &first), std::pair(&here, &second)}) {
      const Json* value = from->Find(key);
      if (value != nullptr && to->Find(key) == nullptr) to->Set(key, *value);
    }
  };
  for (const char* key : {"plan", "workload", "model", "cluster", "stack", "profile"}) take(key);
  for (const Json* from : {&run, &here}) {
    for (const auto& [key, value] : from->members()) {
      if (!kTitles.contains(key)) take(key);
    }
  }
  std::vector<std::string> out;
  Differences(first, second, "", &out);
  return out;
}

// Devices -------------------------------------------------------------------------------------------

// "NVIDIA H100 80GB HBM3" -> {"h100", "80gb", "hbm3"}: what tells devices apart. A virtual run names
// the device that it stands for.
std::set<std::string> WordsOf(const std::string& device) {
  static const std::set<std::string> kNoise = {"nvidia", "amd", "intel",   "virtual", "gpu",
                                               "cpu",    "one", "core",    "cores",   "of",
                                               "tm",     "r",   "geforce", "tesla",   "gb"};
  std::set<std::string> words;
  std::string word;
  for (const char c : device + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      if (!word.empty() && !kNoise.contains(word)) words.insert(word);
      word.clear();
    }
  }
  return words;
}

// Letters and digits in one word: "h100", "7b13", "8488c"; or four digits: "4090". Not "80gb".
bool IsModelWord(const std::string& word) {
  const auto digits =
      std::count_if(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (digits == static_cast<std::ptrdiff_t>(word.size())) return digits >= 4;
  if (word.ends_with("gb") || word.ends_with("ghz") || word.starts_with("hbm")) return false;
  return digits > 0;
}

bool SameDevice(const std::string& a, const std::string& b) {
  const std::set<std::string> first = WordsOf(a), second = WordsOf(b);
  if (std::includes(first.begin(), first.end(), second.begin(), second.end()) ||
      std::includes(second.begin(), second.end(), first.begin(), first.end()))
    return true;
  const auto models = [](const std::set<std::string>& words) {
    std::set<std::string> out;
    std::copy_if(words.begin(), words.end(), std::inserter(out, out.end()), IsModelWord);
    return out;
  };
  const std::set<std::string> x = models(first), y = models(second);
  return !x.empty() && x == y;
}

// Ops -----------------------------------------------------------------------------------------------

// A message that tells another rank that an op has ended, and moves nothing.
bool IsNote(const Program& program, const TimedOp& op) {
  return (op.kind == RankOpKind::kSend || op.kind == RankOpKind::kReceive) &&
         !IsTransfer(program, op.op);
}

// The other side of a transfer, and a lone rank's wait for a kernel of another: no work of their own.
bool IsWork(const Program& program, const TimedOp& op) {
  if (op.kind == RankOpKind::kReceive || IsNote(program, op)) return false;
  return op.kind != RankOpKind::kDelay || program.work[op.op].communication != kNoWork;
}

// One op of the program as all its ranks saw it.
struct Node {
  bool seen = false;
  bool modelled = false;
  double start_s = 0, end_s = 0;
  double own_s = 0;  // of the rank that nothing but the op itself held up
};

std::vector<Node> MergeRanks(const RunRecord& record, const Program& program) {
  std::vector<Node> nodes(program.info.size());
  for (const TimedOp& op : record.ops) {
    if (!IsWork(program, op)) continue;
    Node& node = nodes[op.op];
    const double end = op.start_s + op.duration_s;
    if (!node.seen) {
      node = {true, op.kind == RankOpKind::kDelay, op.start_s, end, op.duration_s};
      continue;
    }
    // A collective runs from when its last member has come.
    node.start_s = std::max(node.start_s, op.start_s);
    node.end_s = std::max(node.end_s, end);
    node.own_s = std::min(node.own_s, op.duration_s);
  }
  // A transport that meets: the sender waits until the receiver is there, and both end together. One
  // that buffers lets the receive begin when everything has arrived.
  for (const TimedOp& op : record.ops) {
    if (op.kind != RankOpKind::kReceive || IsNote(program, op)) continue;
    Node& node = nodes[op.op];
    if (!node.seen || op.duration_s <= 0 || op.start_s >= node.end_s * (1 - 1e-9)) continue;
    const double begun = std::max(node.start_s, op.start_s);
    node.end_s = std::max(node.end_s, op.start_s + op.duration_s);
    node.own_s = std::min(node.own_s, node.end_s - begun);
    node.start_s = begun;
  }
  return nodes;
}

// Which kind of kernel most of an op's predicted time goes to.
enum class Kernels : std::uint8_t { kNone, kGemm, kAttention, kMemory };
constexpr std::array<const char*, 4> kKernelNames = {"", "gemm", "attention", "memory"};

Kernels KernelsOf(const Kernel& kernel) {
  switch (kernel.kind) {
    case KernelKind::kGemm:
      return Kernels::kGemm;
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
    case KernelKind::kDecodeAttention:
      return Kernels::kAttention;
    case KernelKind::kMemory:
      return Kernels::kMemory;
    case KernelKind::kHost:
      return Kernels::kNone;
  }
  return Kernels::kNone;
}

// Seconds by kind of kernel, by index of Program::kernels.
std::vector<std::array<double, 4>> KernelTimes(const Executable& e) {
  std::vector<std::array<double, 4>> times;
  for (const std::vector<Kernel>& kernels : e.program.kernels) {
    std::array<double, 4> sums{};
    for (const Kernel& kernel : kernels) {
      sums[static_cast<std::size_t>(KernelsOf(kernel))] +=
          KernelSeconds(kernel, *e.scenario.profile, *e.scenario.stack);
    }
    times.push_back(sums);
  }
  return times;
}

struct Predicted {
  double start_s = 0, end_s = 0;
};

Predicted PredictedOf(const Executable& e, OpId op) {
  return {Seconds(e.outcome.schedule.start[op]), Seconds(e.outcome.schedule.end[op])};
}

struct PathStep {
  OpId op = kNoOp;
  OpId before = kNoOp;
};

// The measured critical path, from its end.
std::vector<PathStep> CriticalPath(const RunRecord& record, const Program& program,
                                   const std::vector<Node>& nodes) {
  // What the ranks of an op launched right before it.
  std::vector<std::vector<OpId>> launched(program.info.size());
  std::map<int, OpId> last;
  for (const TimedOp& op : record.ops) {
    if (!IsWork(program, op)) continue;
    if (const auto known = last.find(op.rank); known != last.end())
      launched[op.op].push_back(known->second);
    last[op.rank] = op.op;
  }
  OpId at = kNoOp;
  for (OpId op = 0; op < nodes.size(); ++op) {
    if (nodes[op].seen && (at == kNoOp || nodes[op].end_s > nodes[at].end_s)) at = op;
  }
  std::vector<PathStep> path;
  std::vector<bool> passed(nodes.size(), false);
  while (at != kNoOp && !passed[at]) {
    passed[at] = true;
    OpId before = kNoOp;
    const auto consider = [&](OpId op) {
      if (!nodes[op].seen || passed[op]) return;
      if (before == kNoOp || nodes[op].end_s > nodes[before].end_s) before = op;
    };
    for (const OpId op : program.graph.predecessors(at)) consider(op);
    for (const OpId op : launched[at]) {
      if (nodes[op].end_s <= nodes[at].start_s) consider(op);
    }
    path.push_back({at, before});
    at = before;
  }
  return path;
}

std::vector<OpClassTime> ClassTimes(const RunRecord& record, const Executable& e,
                                    const std::vector<Node>& nodes, int busiest) {
  std::map<std::pair<OpKind, bool>, OpClassTime> classes;
  for (const TimedOp& op : record.ops) {
    if (!IsWork(e.program, op)) continue;
    const bool modelled = op.kind == RankOpKind::kDelay;
    OpClassTime& c = classes[{op.what, modelled}];
    c.what = op.what;
    c.modelled = modelled;
    const Predicted p = PredictedOf(e, op.op);
    const double own = std::min(op.duration_s, nodes[op.op].own_s);
    ++c.count;
    c.predicted_s += p.end_s - p.start_s;
    c.measured_s += own;
    c.waiting_s += op.duration_s - own;
    if (op.rank == busiest) {
      c.busiest_predicted_s += p.end_s - p.start_s;
      c.busiest_measured_s += own;
    }
  }
  std::vector<OpClassTime> out;
  for (const auto& [key, value] : classes) {
    if (value.predicted_s > 0 || value.measured_s > 0) out.push_back(value);
  }
  std::stable_sort(out.begin(), out.end(), [](const OpClassTime& a, const OpClassTime& b) {
    return a.measured_s > b.measured_s;
  });
  return out;
}

std::vector<ErrorPart> Parts(const std::vector<PathStep>& path, const std::vector<Node>& nodes,
                             const Executable& e, double predicted_step, double measured_step) {
  const Program& program = e.program;
  const std::vector<std::array<double, 4>> kernel_times = KernelTimes(e);
  std::map<std::pair<OpKind, int>, ErrorPart> ops;
  std::map<std::pair<OpKind, int>, std::array<double, 4>> kernels;
  ErrorPart gaps, waits, overlap, timing;
  gaps.kind = ErrorPartKind::kGaps;
  waits.kind = ErrorPartKind::kWaits;
  overlap.kind = ErrorPartKind::kOverlap;
  timing.kind = ErrorPartKind::kTiming;
  const auto waited = [&](double seconds) {
    (seconds > 0 ? waits : overlap).difference_s -= seconds;
  };
  for (const auto& [at, before] : path) {
    const Node& node = nodes[at];
    const Predicted p = PredictedOf(e, at);
    const OpInfo& info = program.info[at];
    ErrorPart& part = ops[{info.kind, info.module}];
    part.what = info.kind;
    part.module = info.module;
    ++part.count;
    part.predicted_s += p.end_s - p.start_s;
    part.measured_s += node.end_s - node.start_s;
    if (program.work[at].kernels != kNoWork) {
      for (std::size_t k = 0; k < kKernelNames.size(); ++k) {
        kernels[{info.kind, info.module}][k] +=
            kernel_times[program.work[at].kernels][k] * program.work[at].repeats;
      }
    }
    double gap = node.start_s - (before == kNoOp ? 0 : nodes[before].end_s);
    double wait = p.start_s - (before == kNoOp ? 0 : PredictedOf(e, before).end_s);
    if (e.lone_rank >= 0) {  // waits for modelled ranks are in both
      const double both = std::max(std::min(gap, wait), 0.0);
      gap -= both;
      wait -= both;
    }
    gaps.measured_s += gap;
    waited(wait);
  }
  const OpId end = path.front().op;
  waited(predicted_step - PredictedOf(e, end).end_s);
  gaps.difference_s = gaps.measured_s;
  timing.predicted_s = nodes[end].end_s;
  timing.measured_s = measured_step;
  timing.difference_s = measured_step - nodes[end].end_s;

  // What rounding leaves of nothing is nothing.
  const double nothing = 1e-9 * measured_step;
  std::vector<ErrorPart> parts;
  for (auto& [key, part] : ops) {
    part.difference_s = part.measured_s - part.predicted_s;
    if (std::abs(part.difference_s) <= nothing) part.difference_s = 0;
    if (part.predicted_s == 0 && part.difference_s == 0) continue;
    const std::array<double, 4>& sums = kernels[key];
    const auto most = std::max_element(sums.begin() + 1, sums.end());
    if (*most > 0) part.mostly = kKernelNames[static_cast<std::size_t>(most - sums.begin())];
    parts.push_back(part);
  }
  for (const ErrorPart& part : {gaps, waits, overlap, timing}) {
    if (std::abs(part.difference_s) > nothing) parts.push_back(part);
  }
  const double difference = measured_step - predicted_step;
  // Shares of next to nothing would be huge and say nothing.
  const double told = 1e-4 * measured_step;
  for (ErrorPart& part : parts) {
    if (std::abs(difference) > told) part.share_of_error = part.difference_s / difference;
  }
  std::stable_sort(parts.begin(), parts.end(), [](const ErrorPart& a, const ErrorPart& b) {
    return std::abs(a.difference_s) > std::abs(b.difference_s);
  });
  return parts;
}

int BusiestRank(const RunRecord& record) {
  std::map<int, double> busy;
  for (const RankFacts& facts : record.ranks) busy[facts.rank] = 0;
  for (const TimedOp& op : record.ops) {
    if (op.kind == RankOpKind::kCompute) busy[op.rank] += op.duration_s;
  }
  return std::max_element(busy.begin(), busy.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

void CompareMemory(const RunRecord& record, const Executable& e, RunComparison* out) {
  const auto heaviest = std::max_element(record.ranks.begin(), record.ranks.end(),
                                         [](const RankFacts& a, const RankFacts& b) {
                                           return a.peak_memory_bytes < b.peak_memory_bytes;
                                         });
  const auto at = static_cast<std::size_t>(e.lone_rank >= 0 ? 0 : heaviest->rank);
  // Our own executors hold synthetic operands, not the plan's state: no measure of it.
  const bool synthetic = record.backend == "cpu" || record.backend == "cuda";
  if (synthetic || heaviest->peak_memory_bytes <= 0 || at >= e.peak_bytes.size() ||
      e.peak_bytes[at] <= 0)
    return;
  out->metrics.push_back({"peak_memory_gib", e.peak_bytes[at] / kGiB,
                          heaviest->peak_memory_bytes / kGiB,
                          "rank " + std::to_string(heaviest->rank)});
}

void CheckRun(const RunRecord& record, const Executable& e, RunComparison* out) {
  std::set<std::string> told;
  for (const RankFacts& facts : record.ranks) {
    const std::string& profile = e.scenario.profile->device.name;
    if (facts.device.empty() || SameDevice(facts.device, profile) ||
        !told.insert(facts.device).second)
      continue;
    Warn(out, 1980,
         fmt::format("the run was on '{}', the profile '{}' is of '{}'", facts.device,
                     e.scenario.profile->name, profile),
         "--profile with a profile of that device: aurum calibrate --backend " + record.backend +
             " on it measures one");
  }
  if (record.variation > kWeakVariation) {
    Warn(out, 1981,
         fmt::format("the comparison is weak: the run's steps vary by {:.1f} %",
                     record.variation * 100),
         "a quiet machine, fixed clocks, more steps");
  }
  if (record.clean_steps_s.size() < kFewSteps) {
    Warn(out, 1981,
         fmt::format("the comparison is weak: {} of {} steps {} undisturbed",
                     record.clean_steps_s.size(), record.steps_s.size(),
                     record.clean_steps_s.size() == 1 ? "was" : "were"),
         fmt::format("at least {} undisturbed steps: a quiet machine, or more steps", kFewSteps));
  }
  for (const RankFacts& facts : record.ranks) {
    const double before = facts.clock_before_mhz, after = facts.clock_after_mhz;
    const bool fell = before > 0 && after > 0 && after < before * (1 - kClockFall);
    if (!fell && facts.throttled_share <= 0.01) continue;
    Warn(
        out, 1982,
        fmt::format("rank {}: {}", facts.rank,
                    facts.throttled_share > 0.01
                        ? fmt::format("throttled {:.0f} % of the time", facts.throttled_share * 100)
                        : fmt::format("its clock fell from {:.0f} to {:.0f} MHz", before, after)),
        "cooling, power limit, or a fixed clock: a profile holds for the clock it was measured at");
  }
  for (const RunCheck& check : record.checks) {
    if (check.passed) continue;
    Warn(out, 1983, "the run failed its check '" + check.name + "': " + check.detail,
         "run it again; a run that does not do what the plan says is no measure of it");
  }
}

// The largest part that points the way of the error.
const ErrorPart* CauseOf(const RunComparison& comparison) {
  const RunMetric& step = comparison.Step();
  const double difference = step.measured - step.predicted;
  const auto cause =
      std::find_if(comparison.parts.begin(), comparison.parts.end(),
                   [&](const ErrorPart& part) { return part.difference_s * difference > 0; });
  return cause == comparison.parts.end() ? nullptr : &*cause;
}

}  // namespace

std::string ErrorPartName(ErrorPartKind kind) {
  switch (kind) {
    case ErrorPartKind::kOps:
      return "ops";
    case ErrorPartKind::kGaps:
      return "gaps";
    case ErrorPartKind::kWaits:
      return "waits";
    case ErrorPartKind::kOverlap:
      return "overlap";
    case ErrorPartKind::kTiming:
      return "timing";
  }
  return "";
}

double DefaultTolerance(const std::string& backend) {
  if (backend == "virtual") return 0.01;
  return backend == "cpu" ? 0.25 : 0.05;
}

Executable PredictRun(Scenario scenario, Level level, double epsilon, int lone_rank) {
  if (level == Level::kChunk || (level != Level::kAnalytic && lone_rank >= 0)) {
    ThrowInput(982,
               level == Level::kChunk
                   ? "level 'chunk' takes collectives apart: its ops are not those of the run"
                   : "a rank that ran alone is compared at level 'analytic': its delays were",
               level == Level::kChunk ? "--level analytic, flow or auto" : "leave out --level",
               ExitCode::kUsage);
  }
  Executable e = MakeExecutable(std::move(scenario), lone_rank);
  if (level == Level::kAnalytic) return e;
  LowerOptions options;
  options.traffic = TrafficOf(level);
  options.fold = Fold::kOff;
  options.for_execution = true;
  e.program = Lower(e.scenario, options);
  e.outcome = Simulate(e.program, level, epsilon);
  return e;
}

void CheckSamePlan(const RunRecord& record, const Executable& predicted, const Json& scenario) {
  if (record.shape != ShapeOf(predicted.program)) {
    const std::vector<std::string> differences = DocumentDifferences(record.scenario, scenario);
    if (!differences.empty()) {
      std::string told;
      for (std::size_t i = 0; i < differences.size() && i < kMostDifferences; ++i)
        told += (i > 0 ? "; " : "") + differences[i];
      if (differences.size() > kMostDifferences)
        told += fmt::format("; and {} more", differences.size() - kMostDifferences);
      ThrowInput(981, "the run was of another plan: " + told,
                 "the scenario that was run, with the same --set, or a run of this one; it was: " +
                     record.command_line);
    }
    ThrowInput(
        981,
        "the run was of another plan, though of the same document: a model, cluster or stack "
        "that it names has changed since, or Aurum has (the run: " +
            record.tool_version + ")",
        "execute the scenario again");
  }
  if (record.ops.empty()) return;
  std::map<int, std::size_t> counts;
  for (const TimedOp& op : record.ops) {
    if (op.op >= predicted.program.info.size() || predicted.program.info[op.op].kind != op.what ||
        predicted.program.info[op.op].lane != op.lane) {
      ThrowInput(901,
                 fmt::format("the run record times op {} of rank {}, which is none of its plan",
                             op.op, op.rank),
                 "the record as aurum execute wrote it");
    }
    ++counts[op.rank];
  }
  for (const RankFacts& facts : record.ranks) {
    const std::size_t expected = facts.rank < predicted.scenario.cluster->GpuCount()
                                     ? predicted.RankAt(facts.rank).ops.size()
                                     : 0;
    if (counts[facts.rank] == expected) continue;
    ThrowInput(901,
               fmt::format("the run record times {} ops of rank {}, its plan has {}",
                           counts[facts.rank], facts.rank, expected),
               "the record as aurum execute wrote it");
  }
}

bool SamePlanDocument(const RunRecord& record, const Json& scenario) {
  const std::vector<std::string> differences = DocumentDifferences(record.scenario, scenario);
  return std::all_of(differences.begin(), differences.end(),
                     [](const std::string& text) { return text.starts_with("profile is "); });
}

const RunMetric& RunComparison::Judged() const {
  const RunMetric* judged = &Step();
  for (const RunMetric& metric : metrics) {
    if (metric.name == "compute_s" &&
        std::abs(metric.RelativeError()) > std::abs(judged->RelativeError()))
      judged = &metric;
  }
  return *judged;
}

RunComparison CompareRun(const RunRecord& record, const Executable& predicted, const Json& scenario,
                         double tokens_per_step) {
  RunComparison out;
  const double step = predicted.PredictedSeconds();
  out.metrics.push_back(
      {"step_time_s", step, record.step_time_s,
       record.lone_rank >= 0 ? fmt::format("rank {}, alone", record.lone_rank) : std::string()});
  if (record.lone_rank < 0 && tokens_per_step > 0) {
    out.metrics.push_back(
        {"tokens_per_s", tokens_per_step / step, tokens_per_step / record.step_time_s, ""});
  }
  CompareMemory(record, predicted, &out);
  out.wall_step_s = Middle(record.wall_steps_s);
  out.busiest_rank = BusiestRank(record);
  CheckRun(record, predicted, &out);
  out.scenario_differences = DocumentDifferences(record.scenario, scenario);
  if (out.scenario_differences.size() > kMostDifferences) {
    const std::size_t more = out.scenario_differences.size() - kMostDifferences;
    out.scenario_differences.resize(kMostDifferences);
    out.scenario_differences.push_back(fmt::format("and {} more", more));
  }
  if (record.ops.empty()) return out;
  if (record.lone_rank >= 0) {
    RunMetric compute{"compute_s", 0, 0, out.metrics.front().of};
    for (const TimedOp& op : record.ops) {
      if (op.kind != RankOpKind::kCompute) continue;
      const Predicted p = PredictedOf(predicted, op.op);
      compute.predicted += p.end_s - p.start_s;
      compute.measured += op.duration_s;
    }
    if (compute.measured > 0) out.metrics.insert(out.metrics.begin() + 1, compute);
  }

  const Program& program = predicted.program;
  const std::vector<Node> nodes = MergeRanks(record, program);
  const std::vector<PathStep> path = CriticalPath(record, program, nodes);
  std::vector<bool> on_path(program.info.size(), false);
  for (const PathStep& at : path) on_path[at.op] = true;
  if (!path.empty()) {
    out.timed_step_s = nodes[path.front().op].end_s;
    out.parts = Parts(path, nodes, predicted, step, record.step_time_s);
  }
  out.classes = ClassTimes(record, predicted, nodes, out.busiest_rank);
  for (std::size_t i = 0; i < record.ops.size(); ++i) {
    const TimedOp& op = record.ops[i];
    Predicted p = PredictedOf(predicted, op.op);
    if (!IsWork(program, op)) p.start_s = p.end_s;  // ends with what it tells or waits for
    out.ops.push_back({i, p.start_s, p.end_s, op.start_s, op.start_s + op.duration_s,
                       IsWork(program, op) && on_path[op.op]});
  }
  return out;
}

std::string NameOf(const ErrorPart& part, const Model& model) {
  switch (part.kind) {
    case ErrorPartKind::kOps:
      return OpKindName(part.what) +
             (part.module < 0 ? std::string()
                              : " of " + model.modules[static_cast<std::size_t>(part.module)].name);
    case ErrorPartKind::kGaps:
      return "gaps between ops";
    case ErrorPartKind::kWaits:
      return "predicted waits that did not occur";
    case ErrorPartKind::kOverlap:
      return "predicted overlap that did not occur";
    case ErrorPartKind::kTiming:
      return "whole steps against steps timed op by op";
  }
  return "";
}

std::string ExplainError(const RunComparison& comparison, const Executable& predicted) {
  const RunMetric& judged = comparison.Judged();
  const bool compute = judged.name == "compute_s";
  const double difference = judged.measured - judged.predicted;
  // The largest part that points the way of the error.
  const auto cause =
      std::find_if(comparison.parts.begin(), comparison.parts.end(), [&](const ErrorPart& part) {
        return part.difference_s * difference > 0 &&
               (!compute || (part.kind == ErrorPartKind::kOps && !part.mostly.empty()));
      });
  if (cause == comparison.parts.end()) return "the run has no times of ops that could explain it";
  const std::string name = NameOf(*cause, *predicted.scenario.model);
  const double share =
      compute ? cause->difference_s / difference * 100 : cause->share_of_error * 100;
  if (cause->kind != ErrorPartKind::kOps)
    return fmt::format("{} make {:.0f} % of the difference", name, share);
  const std::string mostly =
      cause->mostly.empty() ? std::string() : ", mostly " + cause->mostly + " kernels,";
  return fmt::format("{}{} took {:.2f} × the predicted time: {:.0f} % of the difference", name,
                     mostly, cause->predicted_s > 0 ? cause->measured_s / cause->predicted_s : 0,
                     share);
}

std::string AdviceFor(const RunComparison& comparison, const RunRecord& record) {
  std::string truth;  // that virtual ranks took their times from
  for (const auto& [name, version] : record.versions)
    if (record.backend == "virtual" && name == "truth") truth = " --truth " + version;
  const std::string calibrate =
      "aurum calibrate --backend " + record.backend + truth +
      " --for SCENARIO.json -o PROFILE.json, then again with --profile PROFILE.json";
  const bool other_device =
      std::any_of(comparison.warnings.begin(), comparison.warnings.end(),
                  [](const Diagnostic& warning) { return warning.code == 1980; });
  if (other_device) return "the profile is of another device; calibrate this one: " + calibrate;
  const ErrorPart* cause = CauseOf(comparison);
  if (cause == nullptr) return "run with timed steps: aurum execute times ops unless told not to";
  switch (cause->kind) {
    case ErrorPartKind::kOps:
      return "calibrate this machine: " + calibrate;
    case ErrorPartKind::kGaps:
      return "the time between ops is no op's: a busy host, or launches that the profile's "
             "launch_gap_s does not hold; " +
             calibrate;
    case ErrorPartKind::kWaits:
    case ErrorPartKind::kOverlap:
      return "ops ran in another order than predicted: the page (--html) shows both timelines";
    case ErrorPartKind::kTiming:
      return "timing op by op changes this step: compare with more timed steps, on a quiet machine";
  }
  return calibrate;
}

}  // namespace aurum
