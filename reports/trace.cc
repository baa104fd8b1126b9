#include "reports/trace.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "real/op_names.h"
#include "reports/timeline.h"
#include "sim/collectives/steps.h"
#include "sim/core/units.h"
#include "sim/plan/lower.h"
#include "sim/study/run_id.h"

namespace aurum {
namespace {

constexpr std::size_t kMostCounters = 4096;  // of a class

// Threads count from 1: viewers take thread 0 for the idle one. The waits come behind the kernels.
constexpr std::int64_t kKernelThread = 1, kWaitThread = 2, kFirstOtherThread = 3;

struct Span {
  std::size_t rank_class = 0;
  std::int64_t thread = 0;
  Time start, end;
  OpId op = kNoOp;  // kNoOp: a wait
  const char* wait = nullptr;
  int micro_batch = -1;
  std::size_t nth = 0;  // of its kind in its class
};

const char* WaitName(GapCause cause) {
  switch (cause) {
    case GapCause::kTp:
      return "wait: tensor parallel";
    case GapCause::kCp:
      return "wait: context parallel";
    case GapCause::kEp:
      return "wait: expert parallel";
    case GapCause::kHost:
      return "wait: host transfer";
    case GapCause::kDpGather:
      return "wait: parameter gather";
    case GapCause::kDpReduce:
      return "wait: gradient reduce";
    case GapCause::kPpTransfer:
      return "wait: pipeline transfer";
    case GapCause::kPpWarmup:
      return "bubble: warm-up";
    case GapCause::kPpCooldown:
      return "bubble: cool-down";
    case GapCause::kPpOther:
      return "bubble";
    case GapCause::kAlignment:
      return "wait: alignment";
    case GapCause::kStraggler:
      return "wait: slower rank";
  }
  return "";
}

// What an op and its like in another class have in common.
using OpKey = std::tuple<int, Lane, OpKind, int, bool, int, int>;
OpKey KeyOf(const Program& program, OpId op) {
  const OpInfo& info = program.info[op];
  return {program.classes[info.rank_class].stage,
          info.lane,
          info.kind,
          info.module,
          info.head,
          info.chunk,
          info.micro_batch};
}

struct Exchange {
  std::string kind;
  std::size_t ranks = 0;
  double bytes = 0;   // as nccl-tests counts
  double factor = 1;  // from the algorithm's bandwidth to the bus's
};

// Collectives are listed of a program that is lowered for execution, which has no traffic and may have
// fewer classes: the n-th of a kind in a class is the n-th of that kind in any class of its stage.
std::map<OpKey, std::vector<Exchange>> Exchanges(const Evaluation& e) {
  LowerOptions options;
  options.for_execution = true;
  const Program program = Lower(e.scenario, options);
  std::map<OpKey, std::vector<Exchange>> out;
  std::map<OpKey, std::uint32_t> class_of;  // whose are listed
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpWork& work = program.work[op];
    if (work.communication == kNoWork) continue;
    const Communication& c = program.communications[work.communication];
    Exchange exchange;
    exchange.ranks = GroupSize(e.scenario.plan, c.stage, c.groups);
    exchange.kind = c.transfer ? "send_recv" : CollectiveName(c.kind);
    exchange.bytes = c.bytes * work.times;
    exchange.factor = c.transfer ? 1 : BusFactor(c.kind, static_cast<int>(exchange.ranks));
    const OpKey key = KeyOf(program, op);
    const std::uint32_t rank_class = program.info[op].rank_class;
    if (class_of.emplace(key, rank_class).first->second == rank_class)
      out[key].push_back(std::move(exchange));
  }
  return out;
}

Json Metadata(const char* what, std::size_t pid, std::int64_t tid, const char* key, Json value) {
  Json event = Json::Object();
  event.Set("name", what);
  event.Set("ph", "M");
  event.Set("pid", static_cast<std::int64_t>(pid));
  event.Set("tid", tid);
  event.Set("args", Json::Object()).Set(key, std::move(value));
  return event;
}

double Microseconds(Time time) { return static_cast<double>(time.ps) / 1e6; }

class Tracer {
 public:
  Tracer(const Evaluation& e, std::size_t most_spans) : e_(e), exchanges_(Exchanges(e)) {
    Gather();
    Choose(most_spans);
  }

  std::string Events() const {
    std::string out = "[\n";
    const auto add = [&](const Json& event) {
      out += (out.size() > 2 ? ",\n" : "") + event.Dump();
    };
    for (std::size_t c = 0; c < e_.program.classes.size(); ++c) {
      if (!shown_.contains(c)) continue;
      const RankClass& ranks = e_.program.classes[c];
      add(Metadata("process_name", c, 0, "name",
                   ranks.name + " × " + std::to_string(ranks.count) + " (" + ranks.layers + ")"));
      add(Metadata("process_sort_index", c, 0, "sort_index", static_cast<std::int64_t>(c)));
    }
    for (const auto& [key, name] : threads_) {
      if (!shown_.contains(key.first)) continue;
      add(Metadata("thread_name", key.first, key.second, "name", name));
      add(Metadata("thread_sort_index", key.first, key.second, "sort_index", key.second));
    }
    for (const Span& span : spans_) add(SpanEvent(span));
    for (const std::size_t c : shown_) {
      for (const Json& counter : Counters(c)) add(counter);
    }
    return out + "\n]";
  }

  Json LeftOut() const {
    Json out = Json::Object();
    out.Set("spans", static_cast<std::int64_t>(left_out_));
    Json& classes = out.Set("rank_classes", Json::Array());
    for (std::size_t c = 0; c < e_.program.classes.size(); ++c) {
      if (!shown_.contains(c)) classes.Append(e_.program.classes[c].name);
    }
    return out;
  }

 private:
  void Gather() {
    // The kernels' stream of a class is thread 1; others follow in the order in which they appear.
    std::map<std::pair<std::size_t, StreamId>, std::int64_t> thread_of;
    std::map<std::size_t, std::int64_t> next;
    for (OpId op = 0; op < e_.program.info.size(); ++op) {
      const OpInfo& info = e_.program.info[op];
      std::size_t nth = 0;
      if (info.lane != Lane::kMain) nth = seen_[{info.rank_class, KeyOf(e_.program, op)}]++;
      const Time start = e_.outcome.schedule.start[op], end = e_.outcome.schedule.end[op];
      if (start == end) continue;
      const std::size_t c = info.rank_class;
      const StreamId stream = e_.program.graph.stream(op);
      auto found = thread_of.find({c, stream});
      if (found == thread_of.end()) {
        std::int64_t thread = kKernelThread;
        std::string name = "kernels";
        if (info.lane != Lane::kMain || threads_.contains({c, kKernelThread})) {
          thread = next.emplace(c, kFirstOtherThread).first->second++;
          name = LaneName(info.lane);
        }
        threads_[{c, thread}] = name;
        found = thread_of.emplace(std::pair{c, stream}, thread).first;
      }
      spans_.push_back({c, found->second, start, end, op, nullptr, info.micro_batch, nth});
    }
    for (std::size_t c = 0; c < e_.outcome.gaps.size(); ++c) {
      for (const Gap& gap : e_.outcome.gaps[c]) {
        threads_[{c, kWaitThread}] = "waits of the kernels";
        spans_.push_back(
            {c, kWaitThread, gap.start, gap.end, kNoOp, WaitName(gap.cause), gap.micro_batch, 0});
      }
    }
  }

  void Choose(std::size_t most) {
    std::map<std::size_t, std::size_t> count;
    for (const Span& span : spans_) ++count[span.rank_class];
    std::vector<std::size_t> order = {static_cast<std::size_t>(e_.outcome.busiest_class),
                                      static_cast<std::size_t>(e_.memory.heaviest)};
    for (std::size_t c = 0; c < e_.program.classes.size(); ++c) order.push_back(c);
    std::size_t taken = 0;
    for (const std::size_t c : order) {
      if (shown_.contains(c) || (!shown_.empty() && taken + count[c] > most)) continue;
      shown_.insert(c);
      taken += count[c];
    }
    const std::size_t all = spans_.size();
    std::erase_if(spans_, [&](const Span& span) { return !shown_.contains(span.rank_class); });
    if (spans_.size() > most) {
      std::stable_sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) {
        return a.end - a.start > b.end - b.start;
      });
      spans_.resize(most);
    }
    left_out_ = all - spans_.size();
    std::stable_sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) {
      return std::tie(a.rank_class, a.thread, a.start) < std::tie(b.rank_class, b.thread, b.start);
    });
  }

  Json SpanEvent(const Span& span) const {
    Json event = Json::Object();
    const bool wait = span.op == kNoOp;
    const OpInfo* info = wait ? nullptr : &e_.program.info[span.op];
    event.Set("name", wait ? std::string(span.wait) : EventKind(*e_.scenario.model, *info));
    event.Set("cat", wait ? "wait" : info->lane == Lane::kMain ? "kernel" : "communication");
    event.Set("ph", "X");
    event.Set("pid", static_cast<std::int64_t>(span.rank_class));
    event.Set("tid", span.thread);
    event.Set("ts", Microseconds(span.start));
    event.Set("dur", Microseconds(span.end - span.start));
    Json& args = event.Set("args", Json::Object());
    const double seconds = Seconds(span.end - span.start);
    args.Set("duration_s", seconds);
    if (span.micro_batch >= 0) args.Set("micro_batch", span.micro_batch);
    if (wait) return event;
    args.Set("op", static_cast<std::int64_t>(span.op));
    args.Set("what", OpKindName(info->kind));
    if (info->flops > 0) args.Set("model_flop", info->flops);
    if (info->lane == Lane::kMain) return event;
    const auto found = exchanges_.find(KeyOf(e_.program, span.op));
    if (found != exchanges_.end()) {
      const Exchange& exchange = found->second[std::min(span.nth, found->second.size() - 1)];
      event.Set("name", EventKind(*e_.scenario.model, *info) + ": " + exchange.kind);
      args.Set("collective", exchange.kind);
      args.Set("group", LaneName(info->lane));
      args.Set("group_ranks", static_cast<std::int64_t>(exchange.ranks));
      args.Set("bytes", exchange.bytes);
      args.Set("bus_bandwidth_bytes_per_s", exchange.bytes * exchange.factor / seconds);
    } else if (info->bytes > 0) {
      args.Set("bytes", info->bytes);
    }
    args.Set("groups_at_once", static_cast<std::int64_t>(info->instances));
    return event;
  }

  std::vector<Json> Counters(std::size_t c) const {
    const ClassMemory& memory = e_.memory.classes[c];
    std::vector<Json> out;
    const std::size_t stride = memory.times.size() / kMostCounters + 1;
    for (std::size_t i = 0; i < memory.times.size(); i += stride) {
      Json event = Json::Object();
      event.Set("name", "memory that moves, GiB");
      event.Set("ph", "C");
      event.Set("pid", static_cast<std::int64_t>(c));
      event.Set("tid", 0);
      event.Set("ts", Microseconds(memory.times[i]));
      Json& args = event.Set("args", Json::Object());
      args.Set("activations_gib", memory.activations[i] / kGiB);
      args.Set("logits_gib", memory.logits[i] / kGiB);
      args.Set("communication_gib", memory.communication[i] / kGiB);
      args.Set("gradients_gib", memory.gradients[i] / kGiB);
      args.Set("workspace_gib", memory.workspace[i] / kGiB);
      out.push_back(std::move(event));
    }
    return out;
  }

  const Evaluation& e_;
  std::map<OpKey, std::vector<Exchange>> exchanges_;
  std::map<std::pair<std::uint32_t, OpKey>, std::size_t> seen_;
  std::vector<Span> spans_;
  std::map<std::pair<std::size_t, std::int64_t>, std::string> threads_;
  std::set<std::size_t> shown_;
  std::size_t left_out_ = 0;
};

}  // namespace

std::string TraceText(const Evaluation& e, const std::string& tool_version,
                      const std::string& command_line, std::size_t most_spans) {
  const Tracer tracer(e, most_spans);
  Json metadata = Json::Object();
  metadata.Set("schema", "aurum.trace/1");
  metadata.Set("tool_version", tool_version);
  metadata.Set("run_id", RunId(e, tool_version));
  metadata.Set("command_line", command_line);
  metadata.Set("scenario_name", e.scenario.name);
  metadata.Set("level", LevelName(e.outcome.level));
  metadata.Set("step_time_s", e.StepSeconds());
  Json& units = metadata.Set("units", Json::Object());
  units.Set("ts", "microseconds of simulated time since the step began");
  units.Set("dur", "microseconds of simulated time");
  units.Set("bytes", "as nccl-tests counts sizes");
  units.Set("bus_bandwidth_bytes_per_s", "bytes per second, nccl-tests' busbw");
  metadata.Set("left_out", tracer.LeftOut());
  // Perfetto's importer stops at the first key that it does not know: the trace's own come first.
  return "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": " + tracer.Events() +
         ",\n\"metadata\": " + metadata.Dump() + "}\n";
}

}  // namespace aurum
