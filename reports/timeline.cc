#include "reports/timeline.h"

#include <algorithm>
#include <map>
#include <vector>

#include "reports/text.h"

namespace aurum {
namespace {

constexpr std::size_t kMaxEvents = 3000;
constexpr std::size_t kMaxClasses = 8;

struct Event {
  int shown_class = 0;
  std::string lane, kind;
  Time start, end;
  int micro_batch = -1;
  double bytes = 0;
  bool critical = false;
};

std::string ModuleLabel(const Model& model, const OpInfo& info) {
  if (info.head) return "head";
  switch (model.modules[static_cast<std::size_t>(info.module)].kind) {
    case ModuleKind::kEncoder:
      return "vision";
    case ModuleKind::kConnector:
      return "connector";
    case ModuleKind::kBackbone:
      return "backbone";
  }
  return "backbone";
}

}  // namespace

std::string EventKind(const Model& model, const OpInfo& info) {
  switch (info.kind) {
    case OpKind::kHost:
      return "host";
    case OpKind::kForward:
      return ModuleLabel(model, info) + "_forward";
    case OpKind::kBackward:
      return ModuleLabel(model, info) + "_backward";
    case OpKind::kOptimizer:
      return "optimizer";
    case OpKind::kDecode:
      return "backbone_decode";
    case OpKind::kTpCollective:
      return "tp_all_reduce";
    case OpKind::kPipelineTransfer:
      return "pp_send_recv";
    case OpKind::kParameterGather:
      return "dp_all_gather";
    case OpKind::kGradientReduce:
      return "dp_reduce_scatter";
    case OpKind::kAlignment:
      return "align_wait";
    case OpKind::kContextCollective:
      return "cp_send_recv";
    case OpKind::kExpertCollective:
      return "ep_all_to_all";
    case OpKind::kHostTransfer:
      return "host_transfer";
    case OpKind::kWeightGradient:
      return ModuleLabel(model, info) + "_weight_gradient";
  }
  return "";
}

namespace {

std::string GapKind(GapCause cause) {
  switch (cause) {
    case GapCause::kTp:
      return "bubble_tp";
    case GapCause::kCp:
      return "bubble_cp";
    case GapCause::kEp:
      return "bubble_ep";
    case GapCause::kHost:
      return "bubble_host";
    case GapCause::kDpGather:
      return "bubble_dp_all_gather";
    case GapCause::kDpReduce:
      return "bubble_dp_reduce_scatter";
    case GapCause::kPpTransfer:
      return "pp_send_recv";
    case GapCause::kPpWarmup:
      return "bubble_pp_warmup";
    case GapCause::kPpCooldown:
      return "bubble_pp_cooldown";
    case GapCause::kPpOther:
      return "bubble_pp_other";
    case GapCause::kAlignment:
      return "align_wait";
    case GapCause::kStraggler:
      return "bubble_straggler";
  }
  return "";
}

}  // namespace

const char* EventLane(Lane lane) {
  switch (lane) {
    case Lane::kMain:
      return "main";
    case Lane::kTp:
    case Lane::kCp:
    case Lane::kEp:
    case Lane::kExpertTp:
      return "tp";  // all that a layer waits for
    case Lane::kPpForward:
    case Lane::kPpBackward:
    case Lane::kPpAround:
      return "pp";
    case Lane::kDp:
    case Lane::kExpertDp:
    case Lane::kShard:
    case Lane::kReplica:
    case Lane::kHost:
    case Lane::kHostIn:
      return "dp";
    case Lane::kAlign:
      return "";  // shown as the main lane's wait
  }
  return "";
}

namespace {

// Ops on a longest path: from an op that ends the step, back over predecessors that ended when it started.
std::vector<bool> CriticalOps(const Evaluation& e) {
  const OpGraph& graph = e.program.graph;
  const Schedule& schedule = e.outcome.schedule;
  std::vector<bool> critical(graph.op_count(), false);
  OpId at = 0;
  for (OpId op = 0; op < graph.op_count(); ++op) {
    if (schedule.end[op] > schedule.end[at]) at = op;
  }
  while (true) {
    critical[at] = true;
    OpId before = at;
    for (const OpId p : graph.predecessors(at)) {
      if (schedule.end[p] == schedule.start[at] && (before == at || p < before)) before = p;
    }
    if (before == at) return critical;
    at = before;
  }
}

// The classes that are drawn: all, or the first, the last, the busiest, the heaviest and others evenly between.
std::vector<int> ShownClasses(const Evaluation& e) {
  const int n = static_cast<int>(e.program.classes.size());
  std::vector<int> shown;
  if (n <= static_cast<int>(kMaxClasses)) {
    for (int c = 0; c < n; ++c) shown.push_back(c);
    return shown;
  }
  shown = {0, n - 1, e.outcome.busiest_class, e.memory.heaviest};
  for (int i = 1; i < 5; ++i) shown.push_back(i * n / 5);
  std::sort(shown.begin(), shown.end());
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  return shown;
}

// Neighbours of one kind and micro-batch become one event.
void Merge(std::vector<Event>* events, Time slack) {
  std::stable_sort(events->begin(), events->end(), [](const Event& a, const Event& b) {
    return std::tie(a.shown_class, a.lane, a.start) < std::tie(b.shown_class, b.lane, b.start);
  });
  std::vector<Event> merged;
  for (const Event& event : *events) {
    if (!merged.empty()) {
      Event& last = merged.back();
      if (last.shown_class == event.shown_class && last.lane == event.lane &&
          last.kind == event.kind && last.micro_batch == event.micro_batch &&
          event.start - last.end <= slack) {
        last.end = std::max(last.end, event.end);
        last.bytes += event.bytes;
        last.critical = last.critical || event.critical;
        continue;
      }
    }
    merged.push_back(event);
  }
  *events = std::move(merged);
}

// Equal slices of the step, each filled by what takes most of it.
std::vector<Event> Slice(const std::vector<Event>& events, Time step, std::size_t slices) {
  std::map<std::pair<int, std::string>, std::vector<const Event*>> lanes;
  for (const Event& event : events) lanes[{event.shown_class, event.lane}].push_back(&event);
  std::vector<Event> out;
  for (const auto& [key, list] : lanes) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < slices; ++i) {
      const Time from{step.ps / static_cast<std::int64_t>(slices) * static_cast<std::int64_t>(i)};
      const Time to = i + 1 == slices ? step
                                      : Time{step.ps / static_cast<std::int64_t>(slices) *
                                             static_cast<std::int64_t>(i + 1)};
      while (next < list.size() && list[next]->end <= from) ++next;
      const Event* most = nullptr;
      std::int64_t best = 0, filled = 0;
      for (std::size_t j = next; j < list.size() && list[j]->start < to; ++j) {
        const std::int64_t overlap =
            (std::min(list[j]->end, to) - std::max(list[j]->start, from)).ps;
        filled += overlap;
        if (overlap > best) {
          best = overlap;
          most = list[j];
        }
      }
      // A side lane that is mostly empty in this slice stays empty; the main lane has no holes.
      if (most == nullptr || (key.second != "main" && 2 * filled < (to - from).ps)) continue;
      Event event = *most;
      event.start = from;
      event.end = to;
      event.bytes = 0;
      out.push_back(event);
    }
  }
  return out;
}

}  // namespace

Json TimelineJson(const Evaluation& e) {
  const std::vector<int> shown = ShownClasses(e);
  const std::vector<bool> critical = CriticalOps(e);
  std::vector<int> index(e.program.classes.size(), -1);
  for (std::size_t i = 0; i < shown.size(); ++i)
    index[static_cast<std::size_t>(shown[i])] = static_cast<int>(i);
  std::vector<Event> events;
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    const int c = index[info.rank_class];
    const std::string lane = EventLane(info.lane);
    const Time start = e.outcome.schedule.start[op], end = e.outcome.schedule.end[op];
    if (c < 0 || lane.empty() || start == end) continue;
    events.push_back({c, lane, EventKind(*e.scenario.model, info), start, end, info.micro_batch,
                      info.bytes, critical[op]});
  }
  for (const int c : shown) {
    for (const Gap& gap : e.outcome.gaps[static_cast<std::size_t>(c)]) {
      events.push_back({index[static_cast<std::size_t>(c)], "main", GapKind(gap.cause), gap.start,
                        gap.end, gap.micro_batch, 0, false});
    }
  }
  const Time step = e.outcome.schedule.makespan;
  // Of each class's compute lane, by kind, before anything is left out for drawing.
  std::vector<std::map<std::string, double>> main_s(shown.size());
  for (const Event& event : events) {
    if (event.lane == "main")
      main_s[static_cast<std::size_t>(event.shown_class)][event.kind] +=
          Seconds(event.end - event.start);
  }
  Merge(&events, Time{0});
  if (events.size() > kMaxEvents) {
    events = Slice(events, step, std::max<std::size_t>(kMaxEvents / (2 * shown.size()), 150));
    Merge(&events, Time{0});
  }

  Json out = Json::Object();
  out.Set("step_time_s", e.StepSeconds());
  Json classes = Json::Array();
  for (const int c : shown) {
    const RankClass& rank_class = e.program.classes[static_cast<std::size_t>(c)];
    Json entry = Json::Object();
    entry.Set("name", rank_class.name);
    const std::string first = std::to_string(rank_class.first_gpu);
    entry.Set("ranks",
              rank_class.count == 1
                  ? first
                  : first + (rank_class.consecutive
                                 ? "–" + std::to_string(rank_class.first_gpu + rank_class.count - 1)
                                 : "…"));
    entry.Set("count", rank_class.count);
    // "layers 0-31": the lane has no room for the modules' names, which its colours tell.
    const std::size_t layers = rank_class.layers.rfind("layers ");
    entry.Set("layers",
              layers == std::string::npos ? rank_class.layers : rank_class.layers.substr(layers));
    Json sums = Json::Object();
    for (const auto& [kind, seconds] :
         main_s[static_cast<std::size_t>(index[static_cast<std::size_t>(c)])])
      sums.Set(kind, RoundSignificant(seconds, 6));
    entry.Set("main_s", std::move(sums));
    classes.Append(std::move(entry));
  }
  out.Set("classes", std::move(classes));
  out.Set("columns", Json::Array({"class", "lane", "kind", "start_s", "end_s", "microbatch",
                                  "bytes", "critical"}));
  Json list = Json::Array();
  for (const Event& event : events) {
    Json row = Json::Array();
    row.Append(event.shown_class);
    row.Append(event.lane);
    row.Append(event.kind);
    // Rounded alike on both sides of a border, so that the main lane stays gapless.
    row.Append(RoundSignificant(Seconds(event.start), 7));
    row.Append(event.end == step ? e.StepSeconds() : RoundSignificant(Seconds(event.end), 7));
    row.Append(event.micro_batch < 0 ? Json() : Json(event.micro_batch));
    row.Append(event.bytes > 0 ? Json(RoundSignificant(event.bytes, 4)) : Json());
    row.Append(event.critical ? 1 : 0);
    list.Append(std::move(row));
  }
  out.Set("events", std::move(list));
  return out;
}

}  // namespace aurum
