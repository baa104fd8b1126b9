#include <algorithm>
#include <cassert>
#include <utility>

#include "sim/collectives/chunk.h"
#include "sim/collectives/chunk_builder.h"
#include "sim/collectives/chunk_steps.h"
#include "sim/collectives/flows.h"
#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr double kLongest_s = 10 * 86400.0;

// Each to each: all-to-all and halves S/n, one-shot all-reduce and broadcast S.
std::vector<double> EqualShares(CollectiveKind kind, double bytes, std::size_t n) {
  const bool whole = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast;
  return std::vector<double>(n * n, whole ? bytes : bytes / static_cast<double>(n));
}

// A measured time has no steps. Give it those of the pattern that carries it: equal latencies that
// add up to the measured one, and a rate at which the bytes take the rest.
void ScaleToMeasurement(const CollectiveCost& cost, ChunkProgram* program) {
  std::uint32_t items = 0;  // one after the other
  std::size_t steps = 0;    // latencies one after the other
  const bool direct = program->waits.empty();
  const bool chain = !direct && program->WaitsOf(program->lanes.front()).empty();
  for (const ChunkLane& lane : program->lanes) items = std::max(items, lane.repeats);
  if (direct) {
    steps = 1;
  } else if (chain) {
    steps = program->lanes.size();
    items += static_cast<std::uint32_t>(steps) - 1;
  } else {
    steps = items;
  }
  const double flow_s = cost.seconds - cost.latency_s;
  double most = 0;
  for (const ChunkLane& lane : program->lanes) most = std::max(most, lane.bytes);
  std::vector<double> load(program->links.size(), 0);
  for (ChunkLane& lane : program->lanes) {
    lane.latency = TimeFromSeconds(cost.latency_s / static_cast<double>(steps));
    if (flow_s > 0) lane.cap_bytes_per_s = most * items / flow_s;
    for (const std::uint32_t link : program->HopsOf(lane)) load[link] += lane.cap_bytes_per_s;
  }
  // Where a switch reduces, fewer bytes move than in a ring: fit them to the links.
  double fits = 1;
  for (std::size_t link = 0; link < load.size(); ++link) {
    if (load[link] > program->capacity_bytes_per_s[link])
      fits = std::min(fits, program->capacity_bytes_per_s[link] / load[link]);
  }
  for (ChunkLane& lane : program->lanes) {
    lane.bytes *= fits;
    lane.cap_bytes_per_s *= fits;
  }
}

// A lane has one route; a fabric that spreads every message over many is for the flow level.
void CheckOnePath(const Cluster& cluster) {
  if (!cluster.Spreads()) return;
  ThrowInput(564,
             "the chunk level follows one path a message, and " + cluster.name +
                 " spreads messages over all equal paths",
             "--level flow, or fabric.routing d-mod-k or ecmp");
}

}  // namespace

ChunkProgram BuildChunks(CollectiveKind kind, double bytes, const RankGroup& group,
                         const Cluster& cluster, const Profile& profile,
                         const CollectiveOptions& options) {
  if (group.size() <= 1) return {};
  CheckOnePath(cluster);
  CollectiveOptions named = options;
  named.want_pattern = false;
  const CollectiveCost cost = PriceCollective(kind, bytes, {group}, cluster, profile, named);
  if (cost.seconds > kLongest_s) {
    ThrowInput(340, "a collective of this plan would take longer than ten days",
               "fewer bytes, or faster links", ExitCode::kInfeasible);
  }
  const bool measured = cost.algorithm == "envelope";
  CollectiveAlgorithm algorithm = options.algorithm;
  if (algorithm == CollectiveAlgorithm::kAuto && !measured)
    algorithm = CollectiveAlgorithmByName(cost.algorithm);
  const GroupShape shape = ShapeOf(group, cluster, options.channels);
  ChunkBuilder builder(cluster);
  const bool each_to_each = kind == CollectiveKind::kAllToAll;
  if (kind == CollectiveKind::kSendRecv) {
    for (std::size_t i = 0; i < group.size(); ++i)
      builder.Add(group[i], group[(i + 1) % group.size()], bytes, 1, 0, 0);
  } else if (measured && !each_to_each) {
    AddRingChunks(kind, bytes, shape, false, &builder);
  } else if (measured || algorithm == CollectiveAlgorithm::kDirect) {
    AddDirectChunks(kind, EqualShares(kind, bytes, group.size()), shape.order, shape, cluster,
                    &builder);
  } else {
    switch (algorithm) {
      case CollectiveAlgorithm::kRing:
      case CollectiveAlgorithm::kPipelined:
        AddRingChunks(kind, bytes, shape, algorithm == CollectiveAlgorithm::kPipelined, &builder);
        break;
      case CollectiveAlgorithm::kTree:
        AddDoubleTreeChunks(kind, bytes, shape, &builder);
        break;
      case CollectiveAlgorithm::kHalvingDoubling:
        AddHalvingChunks(kind, bytes, shape, &builder);
        break;
      case CollectiveAlgorithm::kNvls:
        AddNvlsChunks(kind, bytes, shape, cluster, &builder);
        break;
      case CollectiveAlgorithm::kSharp:
        AddSharpChunks(bytes, shape, cluster, &builder);
        break;
      case CollectiveAlgorithm::kHierarchical:
        AddLevelChunks(kind, bytes, shape, cluster, 2, &builder);
        break;
      case CollectiveAlgorithm::kHierarchical3:
        AddLevelChunks(kind, bytes, shape, cluster, 3, &builder);
        break;
      default:
        assert(false);
    }
  }
  ChunkProgram program =
      builder.Finish(measured ? LinkEfficiency{} : EfficiencyOf(algorithm, profile, options),
                     measured ? 0 : cost.seconds - cost.latency_s);
  program.algorithm = measured ? CollectiveAlgorithm::kAuto : algorithm;
  if (measured) ScaleToMeasurement(cost, &program);
  return program;
}

ChunkProgram BuildAllToAllVChunks(const std::vector<double>& bytes, const RankGroup& group,
                                  const Cluster& cluster, const Profile& profile,
                                  const CollectiveOptions& options) {
  assert(bytes.size() == group.size() * group.size());
  if (group.size() <= 1) return {};
  CheckOnePath(cluster);
  ChunkBuilder builder(cluster);
  AddDirectChunks(CollectiveKind::kAllToAll, bytes, group, ShapeOf(group, cluster, 0), cluster,
                  &builder);
  ChunkProgram program =
      builder.Finish(EfficiencyOf(CollectiveAlgorithm::kDirect, profile, options), 0);
  program.algorithm = CollectiveAlgorithm::kDirect;
  return program;
}

ChunkProgram BuildUniformRing(CollectiveKind kind, double bytes, int ranks, double bytes_per_s,
                              Time latency) {
  assert(ranks >= 2 && (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
                        kind == CollectiveKind::kReduceScatter));
  ChunkProgram program;
  program.algorithm = CollectiveAlgorithm::kRing;
  const auto n = static_cast<std::uint32_t>(ranks);
  for (std::uint32_t i = 0; i < n; ++i) {
    program.lanes.push_back({.src = static_cast<int>(i),
                             .dst = static_cast<int>((i + 1) % n),
                             .bytes = bytes / ranks,
                             .repeats = (kind == CollectiveKind::kAllReduce ? 2 : 1) * (n - 1),
                             .latency = latency,
                             .cap_bytes_per_s = bytes_per_s,
                             .first_hop = i,
                             .hop_count = 1,
                             .first_wait = i,
                             .wait_count = 1});
    program.hops.push_back(i);
    program.links.push_back(i);
    program.capacity_bytes_per_s.push_back(bytes_per_s);
    program.waits.push_back({(i + n - 1) % n, 1});
  }
  return program;
}

ChunkProgram RunTogether(std::span<const ChunkProgram> programs) {
  ChunkProgram all;
  KeyNumbers links;
  bool fresh = false;
  for (const ChunkProgram& program : programs) {
    const auto first_lane = static_cast<std::uint32_t>(all.lanes.size());
    std::vector<std::uint32_t> link_of;
    for (std::size_t link = 0; link < program.links.size(); ++link) {
      link_of.push_back(links.Of(program.links[link], &fresh));
      if (fresh) {
        all.links.push_back(program.links[link]);
        all.capacity_bytes_per_s.push_back(program.capacity_bytes_per_s[link]);
      }
    }
    for (ChunkLane lane : program.lanes) {
      const auto hops = program.HopsOf(lane);
      const auto waits = program.WaitsOf(lane);
      lane.first_hop = static_cast<std::uint32_t>(all.hops.size());
      lane.first_wait = static_cast<std::uint32_t>(all.waits.size());
      for (const std::uint32_t hop : hops) all.hops.push_back(link_of[hop]);
      for (const ChunkWait& wait : waits) all.waits.push_back({wait.lane + first_lane, wait.lag});
      all.lanes.push_back(lane);
    }
  }
  return all;
}

}  // namespace aurum
