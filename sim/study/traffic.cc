#include "sim/study/traffic.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "sim/collectives/chunk.h"
#include "sim/collectives/effective_fabric.h"
#include "sim/core/object_reader.h"
#include "sim/plan/waves.h"

namespace aurum {
namespace {

// In the order of CollectiveKind.
const std::vector<std::string>& KindNames() {
  static const std::vector<std::string> names = {"all-reduce", "all-gather", "reduce-scatter",
                                                 "all-to-all", "broadcast",  "send-recv"};
  return names;
}

// {"size": 8, "stride": 4}: GPUs g, g + 4, … g + 28 form a group, and so do all others.
std::vector<RankGroup> ReadGroups(ObjectReader reader, int gpus) {
  const int size = static_cast<int>(reader.Integer("size", 2, gpus));
  const int stride = static_cast<int>(reader.IntegerOr("stride", 1, 1, gpus));
  reader.Finish();
  const std::int64_t block = std::int64_t{size} * stride;
  if (gpus % block != 0) {
    reader.Fail(361, "size",
                "groups of " + std::to_string(size) + " at a stride of " + std::to_string(stride) +
                    " do not share out " + std::to_string(gpus) + " GPUs",
                "size · stride must divide the GPUs");
  }
  std::vector<RankGroup> groups;
  for (int base = 0; base < gpus; base += static_cast<int>(block)) {
    for (int offset = 0; offset < stride; ++offset) {
      RankGroup group;
      for (int i = 0; i < size; ++i) group.push_back(base + offset + i * stride);
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

TrafficItem ReadItem(ObjectReader reader, int gpus) {
  TrafficItem item;
  item.kind = static_cast<CollectiveKind>(reader.Choice("collective", KindNames()));
  item.name = reader.String("name", KindNames()[static_cast<std::size_t>(item.kind)]);
  item.bytes = reader.Number("bytes", 1, 1e15);
  item.start_s = reader.NumberOr("start_s", 0, 0, 1e5);
  item.repeat = static_cast<int>(reader.IntegerOr("repeat", 1, 1, 100000));
  std::vector<std::string> algorithms = {"auto"};
  for (const CollectiveAlgorithm algorithm : NamedAlgorithms())
    algorithms.push_back(CollectiveAlgorithmName(algorithm));
  const std::size_t algorithm = reader.ChoiceOr("algorithm", 0, algorithms);
  if (algorithm > 0) item.algorithm = NamedAlgorithms()[algorithm - 1];
  if (reader.Has("shift")) {
    if (item.kind != CollectiveKind::kSendRecv || reader.Has("groups")) {
      reader.Fail(362, "shift", "a shift is for send-recv alone, in place of groups",
                  "\"groups\": {\"size\": 8, \"stride\": 1}");
    }
    const int shift = static_cast<int>(reader.Integer("shift", 1, gpus - 1));
    for (int gpu = 0; gpu < gpus; ++gpu) item.groups.push_back({gpu, (gpu + shift) % gpus});
    item.pairs = true;
  } else {
    item.groups = ReadGroups(reader.Object("groups"), gpus);
  }
  reader.Finish();
  return item;
}

class TrafficRun {
 public:
  TrafficRun(const TrafficDocument& traffic, Level level) : traffic_(traffic), level_(level) {
    options_.network_efficiency = traffic.network_efficiency;
    options_.sharp = traffic.in_network_reduction;
    fabric_ = EffectiveFabric(*traffic.cluster, *traffic.profile, options_);
  }

  void Add(std::size_t index, int repeat, double start_s) {
    const TrafficItem& item = traffic_.items[index];
    CollectiveOptions options = options_;
    options.algorithm = item.algorithm;
    for (const RankGroup& group : item.groups) {
      const StreamId stream = graph_.AddStream();
      if (start_s > 0) graph_.AddOp(stream, TimeFromSeconds(start_s));
      if (level_ == Level::kChunk && !item.pairs) {
        AddSteps(BuildChunks(item.kind, item.bytes, group, *traffic_.cluster, *traffic_.profile,
                             options),
                 stream, repeat);
      } else {
        CollectiveCost cost = item.pairs
                                  ? PriceTransfer(item.bytes, {{group[0], group[1]}},
                                                  *traffic_.cluster, *traffic_.profile, options)
                                  : PriceCollective(item.kind, item.bytes, {group},
                                                    *traffic_.cluster, *traffic_.profile, options);
        const Time duration = TimeFromSeconds(cost.seconds);
        flows_ += static_cast<double>(cost.pattern.flows.size()) * repeat;
        const PatternId pattern = graph_.AddPattern(std::move(cost.pattern));
        for (int i = 0; i < repeat; ++i) {
          graph_.AddTransfer(stream, duration, std::min(TimeFromSeconds(cost.latency_s), duration),
                             pattern);
        }
      }
      label_.resize(graph_.op_count(), static_cast<std::uint8_t>(index));
      last_.emplace_back(index, static_cast<OpId>(graph_.op_count() - 1));
      if (static_cast<double>(graph_.op_count()) > kMostOps || flows_ > kMostOps) {
        ThrowInput(341, "this traffic is more than ten million operations or flows",
                   "fewer repetitions or smaller groups; a coarser level", ExitCode::kInfeasible);
      }
    }
  }

  void Run() {
    [[maybe_unused]] const bool acyclic = graph_.Finish();
    assert(acyclic);
    schedule_ = RunEventLoop(graph_, fabric_, {.share_from_start = level_ != Level::kAuto});
  }

  double EndOf(std::size_t index) const {
    Time end{0};
    for (const auto& [item, op] : last_) {
      if (item == index) end = std::max(end, schedule_.end[op]);
    }
    return Seconds(end);
  }
  double Makespan() const { return Seconds(schedule_.makespan); }
  std::size_t op_count() const { return graph_.op_count(); }
  Loads Measure() const {
    return MeasureLoads(graph_, fabric_, schedule_, label_, traffic_.items.size());
  }

 private:
  void AddSteps(const ChunkProgram& program, StreamId stream, int repeat) {
    for (int i = 0; i < repeat; ++i) {
      const OpId before = graph_.AddOp(stream, Time{0});
      const ExpandedChunks steps = ExpandChunks(program, &graph_);
      for (const OpId op : steps.entry) graph_.AddDependency(before, op);
      const OpId after = graph_.AddOp(stream, Time{0});
      for (const OpId op : steps.exit) graph_.AddDependency(op, after);
    }
  }

  const TrafficDocument& traffic_;
  Level level_;
  CollectiveOptions options_;
  Fabric fabric_;
  OpGraph graph_;
  double flows_ = 0;  // of all repetitions
  std::vector<std::uint8_t> label_;
  std::vector<std::pair<std::size_t, OpId>> last_;  // of each group: (item, op)
  Schedule schedule_;
};

}  // namespace

TrafficDocument ReadTraffic(const JsonDocument& document, InputCache* cache) {
  ObjectReader reader(document, document.root, "");
  TrafficDocument traffic;
  reader.Choice("schema", {"aurum.traffic/1"});
  reader.String("$schema", "");  // an editor's, not ours
  traffic.name = reader.String("name", "");
  reader.String("question", "");
  traffic.cluster = cache->GetCluster(reader.String("cluster")).value;
  traffic.profile = cache->GetProfile(reader.String("profile", traffic.cluster->gpu.profile)).value;
  traffic.network_efficiency = reader.NumberOr("network_efficiency", 0.85, 0.01, 1);
  traffic.in_network_reduction = reader.BoolOr("in_network_reduction", false);
  std::vector<ObjectReader> items = reader.Objects("transfers");
  if (items.empty() || items.size() > 200) {
    reader.Fail(362, "transfers", "between 1 and 200 transfers",
                R"([{"collective": "all-reduce", "bytes": 1e9, "groups": {"size": 8}}])");
  }
  for (ObjectReader& item : items)
    traffic.items.push_back(ReadItem(std::move(item), traffic.cluster->GpuCount()));
  reader.Finish();
  return traffic;
}

TrafficOutcome RunTraffic(const TrafficDocument& traffic, Level level) {
  TrafficOutcome outcome;
  TrafficRun all(traffic, level);
  for (std::size_t i = 0; i < traffic.items.size(); ++i) {
    const TrafficItem& item = traffic.items[i];
    all.Add(i, item.repeat, item.start_s);
    TrafficRun alone(traffic, level);
    alone.Add(i, 1, 0);
    alone.Run();
    CollectiveOptions options;
    options.network_efficiency = traffic.network_efficiency;
    options.sharp = traffic.in_network_reduction;
    options.algorithm = item.algorithm;
    options.want_pattern = false;
    double priced_s = 0;
    if (item.pairs) {
      std::vector<std::pair<int, int>> pairs;
      for (const RankGroup& pair : item.groups) pairs.emplace_back(pair[0], pair[1]);
      priced_s =
          PriceTransfer(item.bytes, pairs, *traffic.cluster, *traffic.profile, options).seconds;
    } else {
      priced_s = PriceCollective(item.kind, item.bytes, item.groups, *traffic.cluster,
                                 *traffic.profile, options)
                     .seconds;
    }
    outcome.items.push_back({priced_s, alone.EndOf(i), 0});
  }
  all.Run();
  for (std::size_t i = 0; i < traffic.items.size(); ++i) {
    const TrafficItem& item = traffic.items[i];
    outcome.items[i].together_s = (all.EndOf(i) - item.start_s) / item.repeat;
  }
  outcome.loads = all.Measure();
  outcome.makespan_s = all.Makespan();
  outcome.ops = all.op_count();
  return outcome;
}

}  // namespace aurum
