#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/core/time.h"
#include "sim/engine/op_graph.h"
#include "sim/network/fold.h"
#include "topologies/cluster.h"

namespace aurum {

// The `chunk` level: every step and channel of a collective, as a periodic program.
//
// A lane does `repeats` items of equal bytes, one after the other, from one rank to another over a
// fixed route. Item k of a lane may start when item k − lag of each lane that it waits for has
// ended (where there is such an item). From then, `latency` passes; then, once the lane's item k −
// 1 has left the links, its bytes take what the links give them, at most the lane's cap. So latency
// delays an item and does not occupy a link, as on a wire with several messages in flight.
//
// Example: an all-reduce ring of n ranks is n lanes with 2(n − 1) items of S/n, each waiting with
// lag 1 for the lane into its rank: what came in during one step goes out in the next.

struct ChunkWait {
  std::uint32_t lane = 0;
  std::int32_t lag = 0;  // kAllItems: for all items of that lane, which is in an earlier stage
};
inline constexpr std::int32_t kAllItems = -1;
inline constexpr int kNoRank = -1;  // a switch

struct ChunkLane {
  int src = kNoRank, dst = kNoRank;  // GPUs
  int channel = 0;
  int stage = 0;     // lanes wait with a lag within their stage alone, for all items across stages
  double bytes = 0;  // of an item
  std::uint32_t repeats = 1;
  Time latency{};
  double cap_bytes_per_s = 0;  // 0 = none of its own
  std::uint32_t first_hop = 0, hop_count = 0;
  std::uint32_t first_wait = 0, wait_count = 0;
};

struct ChunkProgram {
  std::vector<ChunkLane> lanes;
  std::vector<std::uint32_t> hops;           // indices of `links`, by lane
  std::vector<ChunkWait> waits;              // by lane
  std::vector<std::uint32_t> links;          // ids of the cluster's links that are used
  std::vector<double> capacity_bytes_per_s;  // by place in `links`: what collectives get of it
  // In a folded program, by hop: how many lanes of the class cross one such link. Else empty.
  std::vector<std::uint32_t> crossings{};
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;  // kAuto: scaled to a measurement

  std::span<const std::uint32_t> HopsOf(const ChunkLane& lane) const {
    return {hops.data() + lane.first_hop, lane.hop_count};
  }
  std::span<const ChunkWait> WaitsOf(const ChunkLane& lane) const {
    return {waits.data() + lane.first_wait, lane.wait_count};
  }
  std::uint64_t ItemCount() const;
};

// bytes / rate in picoseconds, rounded up; rounding of the quotient itself does not count.
Time TransmissionTime(double bytes, double bytes_per_s);

// The steps of `kind` on one group, by options.algorithm or the one that PriceCollective takes.
// Where a measured envelope decides, the steps of a ring (all-to-all: of the direct algorithm)
// whose latency and rate are scaled so that the whole takes the measured time. Lanes share each
// link of a stage in proportion to their bytes, as a library plans its channels, so a program alone
// never contends with itself. E0340 longer than ten days, E0560, E0562, E0564 the cluster spreads
// messages over several paths. O(lanes · hops).
ChunkProgram BuildChunks(CollectiveKind kind, double bytes, const RankGroup& group,
                         const Cluster& cluster, const Profile& profile,
                         const CollectiveOptions& options);
// All-to-all with unequal shares, as in PriceAllToAllV; direct, not scaled to measurements.
ChunkProgram BuildAllToAllVChunks(const std::vector<double>& bytes, const RankGroup& group,
                                  const Cluster& cluster, const Profile& profile,
                                  const CollectiveOptions& options);
// A ring of `ranks` whose neighbours have a link each of the same rate and latency: the textbook's.
ChunkProgram BuildUniformRing(CollectiveKind kind, double bytes, int ranks, double bytes_per_s,
                              Time latency);
// Puts programs side by side on the same links: they run at the same time and share them. Their
// capacities must agree where they share a link.
ChunkProgram RunTogether(std::span<const ChunkProgram> programs);

struct ChunkRun {
  Time makespan{};
  std::vector<Time> lane_end;  // by lane
  std::uint64_t items = 0;     // of the program, folded or not
  std::size_t lane_classes = 0;
  bool contended = false;  // some link was asked for more than it has: events, not max-plus
  bool verified = true;    // kVerify: false if folded and unfolded differ
};

// Runs a program alone. Folded and unfolded agree bit for bit. chunk_run.cc has how.
ChunkRun RunChunks(const ChunkProgram& program, Fold fold = Fold::kOn);

// Lanes that cannot differ, by colour refinement, as one lane each. class_of (if given): by lane.
ChunkProgram FoldChunks(const ChunkProgram& program, std::vector<std::uint32_t>* class_of);

// The program's items as ops of a graph, so that whole steps can run at the chunk level.
struct ExpandedChunks {
  std::vector<int> ranks;  // GPUs that take part, ascending
  // By place in `ranks`: ops of no duration. What the rank waits for goes before entry, what waits
  // for the collective at that rank goes after exit.
  std::vector<OpId> entry, exit;
};
// Appends; the graph must not be finished yet. A lane is a stream of transfers, with an op before
// each for its latency. The pattern's links are the cluster's. E0341 more than 50 million items.
// O(items + waits).
ExpandedChunks ExpandChunks(const ChunkProgram& program, OpGraph* graph);

}  // namespace aurum
