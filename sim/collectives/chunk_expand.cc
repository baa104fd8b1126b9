#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <string>

#include "sim/collectives/chunk.h"
#include "sim/collectives/chunk_share.h"
#include "sim/core/diagnostic.h"

namespace aurum {

// An item is a transfer on its lane's stream; the engine's own latency stage would hold the stream,
// so an item that has latency gets an op of that duration before it, on a stream of its own.

namespace {

constexpr std::uint64_t kMostItems = 50'000'000;

}  // namespace

ExpandedChunks ExpandChunks(const ChunkProgram& program, OpGraph* graph) {
  assert(program.crossings.empty());
  if (program.ItemCount() > kMostItems) {
    ThrowInput(341,
               "the steps of this collective are " +
                   std::to_string(program.ItemCount() / 1'000'000) +
                   " million, too many to simulate one by one in a plan",
               "--level flow, or fewer ranks or bytes", ExitCode::kInfeasible);
  }
  ExpandedChunks expanded;
  for (const ChunkLane& lane : program.lanes) {
    for (const int rank : {lane.src, lane.dst}) {
      if (rank != kNoRank) expanded.ranks.push_back(rank);
    }
  }
  std::sort(expanded.ranks.begin(), expanded.ranks.end());
  expanded.ranks.erase(std::unique(expanded.ranks.begin(), expanded.ranks.end()),
                       expanded.ranks.end());
  std::map<int, std::size_t> place;
  for (const int rank : expanded.ranks) {
    place[rank] = expanded.entry.size();
    expanded.entry.push_back(graph->AddOp(graph->AddStream(), {0}));
    expanded.exit.push_back(graph->AddOp(graph->AddStream(), {0}));
  }

  struct Ops {
    OpId first = 0;
    OpId stride = 1;  // 2 with an op for the latency
    OpId Begin(std::uint32_t item) const { return first + item * stride; }
    OpId End(std::uint32_t item) const { return first + item * stride + stride - 1; }
  };
  std::vector<Ops> ops;
  ops.reserve(program.lanes.size());
  for (const ChunkLane& lane : program.lanes) {
    const double most = MostOf(program, lane);
    const bool moves = lane.bytes > 0 && most < std::numeric_limits<double>::infinity();
    const Time duration = moves ? TransmissionTime(lane.bytes, most) : Time{0};
    PatternId pattern = kNoPattern;
    if (moves && lane.hop_count > 0) {
      Flow flow{.links = {}, .bytes = lane.bytes, .weight = 1, .cap_bytes_per_s = most};
      for (const std::uint32_t link : program.HopsOf(lane))
        flow.links.push_back(program.links[link]);
      pattern = graph->AddPattern({.flows = {std::move(flow)}});
    }
    const StreamId stream = graph->AddStream();
    Ops here{static_cast<OpId>(graph->op_count()), lane.latency.ps > 0 ? OpId{2} : OpId{1}};
    for (std::uint32_t k = 0; k < lane.repeats; ++k) {
      if (lane.latency.ps > 0) graph->AddOp(graph->AddStream(), lane.latency);
      const OpId op = pattern == kNoPattern ? graph->AddOp(stream, duration)
                                            : graph->AddTransfer(stream, duration, {0}, pattern);
      if (lane.latency.ps > 0) graph->AddDependency(op - 1, op);
    }
    ops.push_back(here);
  }
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    const ChunkLane& lane = program.lanes[l];
    if (lane.repeats == 0) continue;
    for (const ChunkWait& wait : program.WaitsOf(lane)) {
      const std::uint32_t repeats = program.lanes[wait.lane].repeats;
      if (repeats == 0) continue;
      for (std::uint32_t k = 0; k < lane.repeats; ++k) {
        if (wait.lag == kAllItems) {
          // The lane's own items follow each other on the links, but their latencies do not.
          graph->AddDependency(ops[wait.lane].End(repeats - 1), ops[l].Begin(k));
          continue;
        }
        const auto lag = static_cast<std::uint32_t>(wait.lag);
        if (k >= lag && k - lag < repeats)
          graph->AddDependency(ops[wait.lane].End(k - lag), ops[l].Begin(k));
      }
    }
    for (const int rank : {lane.src, lane.dst}) {
      if (rank == kNoRank) continue;
      const std::size_t at = place.at(rank);
      // Both ends have to be there; items later than the first are held up by it on the stream.
      graph->AddDependency(expanded.entry[at], ops[l].Begin(0));
      graph->AddDependency(ops[l].End(lane.repeats - 1), expanded.exit[at]);
    }
  }
  return expanded;
}

}  // namespace aurum
