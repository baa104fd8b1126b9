#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/colour_refinement.h"
#include "sim/engine/op_graph.h"
#include "sim/network/event_loop.h"

namespace aurum {

// Symmetry folding: what is alike is simulated once. fold.cc says why that is exact.

enum class Fold : std::uint8_t { kOff, kOn, kVerify };

// Transfers and the links they share, as vertices of a coloured graph. The caller adds what the
// transfers belong to (ops, ranks, groups), refines the graph, and takes folded patterns out.
class TrafficFolding {
 public:
  using VertexId = ColouredGraph::VertexId;

  // Both must outlive this.
  TrafficFolding(const Fabric& fabric, ColouredGraph* graph);

  // The vertex `transfer` puts `pattern` on the network; returns the number of this transfer. The
  // caller keeps the pattern until Fold() is done with it.
  std::size_t Add(VertexId transfer, const TrafficPattern& pattern);

  // After the refinement of the graph: link classes get their numbers.
  void Use(const Refinement& refinement);
  // One link per class, with the class's capacity and changes.
  const Fabric& fabric() const { return folded_; }
  // By folded link: one real link of the class, and how many there are (of those that carry
  // anything).
  const std::vector<std::uint32_t>& link_of() const { return link_of_; }
  const std::vector<std::uint32_t>& link_count() const { return link_count_; }
  std::size_t flow_classes() const { return flow_classes_; }
  // The pattern of one transfer, one flow a class; or of another transfer of the same shape.
  TrafficPattern Folded(std::size_t transfer) const;
  TrafficPattern Folded(std::size_t transfer, const TrafficPattern& pattern) const;

 private:
  struct Transfer {
    const TrafficPattern* pattern;
    VertexId first_flow;  // flows are consecutive
  };
  VertexId LinkVertex(std::uint32_t link);

  const Fabric& fabric_;
  ColouredGraph& graph_;
  std::vector<std::uint64_t> link_colour_;
  std::vector<VertexId> link_vertex_;      // by link; kNoIndex where nothing crosses it
  std::vector<std::uint32_t> used_links_;  // in order of first use
  std::vector<Transfer> transfers_;

  const Refinement* refinement_ = nullptr;
  std::vector<std::uint32_t> number_of_class_;  // folded link by vertex class
  std::vector<std::uint32_t> link_of_, link_count_;
  // By folded link: how many flows of each flow class cross one link of it, sorted by class.
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> crossings_;
  std::size_t flow_classes_ = 0;
  Fabric folded_;
};

// Are transfers that differ in size alone of one shape? Fed with pairs of patterns: each pair must
// have the same flows on the same links, and flows that are alike in the one must be alike in the
// other, over all pairs. Then what tells the first apart tells the second apart, and one of the two
// need not be folded.
class ShapeComparison {
 public:
  // False once and for all when a pair differs.
  bool Same(const TrafficPattern& a, const TrafficPattern& b);
  // The same for any two figures that come with the patterns.
  bool SameFigures(double a1, double a2, double b1, double b2);

 private:
  using Sizes = std::array<double, 3>;
  bool Match(const Sizes& a, const Sizes& b);
  std::vector<std::pair<Sizes, Sizes>> matched_;
  bool same_ = true;
};

// A graph of one op per class, and where the ops of the original went.
struct FoldedGraph {
  OpGraph graph;
  Fabric fabric;
  std::vector<OpId> op_of;  // by op of the original
  std::size_t flow_classes = 0, link_classes = 0;
  int rounds = 0;  // of the refinement
};

// Folds any finished graph. O((ops + dependencies + hops of all transfers) · rounds): worth it where
// a graph is run more than once, or its flows share links; a plan is folded by its ranks instead
// (sim/plan/rank_classes.h), before any op is made.
FoldedGraph FoldGraph(const OpGraph& graph, const Fabric& fabric);

// The schedule of the original: each op has the times of its class.
Schedule Unfold(const Schedule& folded, const FoldedGraph& graph);

}  // namespace aurum
