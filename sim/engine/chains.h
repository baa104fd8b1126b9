#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/op_graph.h"

namespace aurum {

// A finished op graph, folded for graphs of one shape that are evaluated again and again with other
// durations.
//
// Insight. Where an op starts the moment another ends, whatever the durations, both are links of one
// chain, and of a chain's links only sums of durations matter. That is so if every other predecessor of
// the op has ended by then: because it lies earlier in the chain, or because the chain itself waited for
// something at least as late on that predecessor's own chain. Layers of a pass of a pipeline stage are
// such a chain, with all collectives in between:
//
//   kernels   ──k1──      ──k2──           k2 waits for c1, and k1 is long over: chain k1 c1 k2 c2
//   tp group        ──c1──      ──c2──
//
// Times are integers, so that a sum over a chain is exactly what adding link by link gives: folded and
// unfolded agree to the picosecond (the tests compare them on random graphs).
//
// Ops of equal duration for good share a *class*: "layer 7 forward, second half, nothing beside it".
// Chains that are the same sequence of classes share their prefix sums, as the passes of all
// micro-batches do; so a step of 64 micro-batches costs little more than one of 4.
//
// Example: GPT-3 175B on 64 GPUs, tp 8, pp 8, 64 micro-batches: 109,000 ops are some 3,000 chains of 40
// kinds. Cost of Evaluate: O(links of distinct chains + chains + edges between chains).
//
// The idea of series contraction is as old as critical-path analysis (Kelley and Walker 1959).
class ChainedGraph {
 public:
  struct Chain {
    std::uint32_t kind = 0;        // of kinds()
    std::uint32_t first_edge = 0;  // of edges; the next chain's is one past the last
    std::uint32_t first_op = 0;    // of links()
  };
  // Chains that are the same sequence of duration classes.
  struct Kind {
    std::uint32_t first = 0, size = 0;  // of link_class()
  };

  // `duration_class`: by op. `label`: by op; a chain's ops are all of one label. `graph` is finished and
  // need not outlive this.
  ChainedGraph(const OpGraph& graph, std::span<const std::uint32_t> duration_class,
               std::span<const std::uint64_t> label);

  // With these durations, by class; returns the makespan.
  Time Evaluate(std::span<const Time> durations);

  // Of the last Evaluate().
  Time Start(OpId op) const {
    const Place& place = place_[op];
    const Time begin = start_[place.chain];
    if (place.at == 0) return begin;
    return begin + prefix_[kinds_[chains_[place.chain].kind].first + place.at - 1];
  }
  Time End(OpId op) const {
    const Place& place = place_[op];
    return start_[place.chain] + prefix_[kinds_[chains_[place.chain].kind].first + place.at];
  }
  // Of every op, as EvaluateMaxPlus would give them.
  void Expand(Schedule* schedule) const;

  std::size_t chain_count() const { return chains_.size(); }
  std::span<const Chain> chains() const { return chains_; }
  std::span<const Kind> kinds() const { return kinds_; }
  std::span<const std::uint32_t> link_class() const { return link_class_; }  // of all kinds
  // The ops of a chain, in order.
  std::span<const OpId> links(std::uint32_t chain) const {
    return {link_.data() + chains_[chain].first_op, kinds_[chains_[chain].kind].size};
  }
  std::uint32_t ChainOf(OpId op) const { return place_[op].chain; }
  // Of the last Evaluate(): when a chain starts, and by link_class() when each link ends after that.
  Time ChainStart(std::uint32_t chain) const { return start_[chain]; }
  std::span<const Time> prefix() const { return prefix_; }

 private:
  struct Place {
    std::uint32_t chain = 0, at = 0;
  };
  // A chain starts no earlier than the end of an op of another: `at` is of its kind's prefix sums.
  struct Edge {
    std::uint32_t chain = 0, at = 0;
  };

  std::vector<Place> place_;  // by op
  std::vector<Chain> chains_;
  std::vector<Edge> edges_;
  std::vector<OpId> link_;
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> link_class_;
  std::vector<Time> prefix_;  // as link_class_: the end of each link, from its chain's start
  std::vector<Time> start_;   // by chain
};

}  // namespace aurum
