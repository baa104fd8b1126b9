#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "topologies/cluster.h"
#include "topologies/layout.h"
#include "topologies/spec.h"

namespace aurum {

struct Adjacency;  // the Boost.Graph, graph.cc only

// What copies of a cluster share: everything but the capacities of its links.
struct ClusterShape {
  std::vector<Vertex> vertices;
  std::optional<ClusterSpec> spec;  // of a generated cluster, with its layout
  std::optional<Layout> layout;
  std::vector<int> nvlink_domain;  // by GPU, where there is no layout; -1 without NVLink
  bool spread = false;             // without a layout: Routes() gives all equal paths
  std::shared_ptr<const Adjacency> adjacency;
};

struct ClusterGraph {
  std::shared_ptr<const ClusterShape> shape;
  std::vector<Link> links;
};

// A graph without a known structure: the GPUs are the first vertices; domains are the components of
// the GPUs' own links. Routes are searched, O(links) each.
std::shared_ptr<const ClusterGraph> MakeSearchedGraph(std::vector<Vertex> vertices,
                                                      std::vector<Link> links, bool spread = false);
// The graph that the spec generates.
std::shared_ptr<const ClusterGraph> GenerateGraph(const ClusterSpec& spec);

// All shortest paths from one vertex: fewest hops; among those, at every vertex, the widest so far.
//
// Not every device passes on what is not its own. A NIC forwards only between the network and its
// node, never between two neighbours on PCIe. A GPU forwards only from a GPU to a GPU over their own
// links, and only one does on a path: that is what NCCL can do by running a copy there (PATH_NVB,
// src/graph/paths.cc).
class RouteSearch {
 public:
  RouteSearch(const ClusterGraph& graph, int src_vertex);  // breadth-first, O(vertices + links)
  bool Reaches(int dst) const { return hops_[static_cast<std::size_t>(dst)] != kFar; }
  int Hops(int dst) const { return hops_[static_cast<std::size_t>(dst)]; }
  double Width(int dst) const { return width_[static_cast<std::size_t>(dst)]; }  // B/s
  // The one with, seen from the destination backwards, the lowest link ids; empty if dst is the
  // source or out of reach.
  std::vector<int> Path(int dst) const;
  // Up to `most` of the equal ones, Path() first.
  std::vector<std::vector<int>> Paths(int dst, int most) const;

 private:
  static constexpr int kFar = 0x7fffffff;
  bool Passes(int vertex, const Link& next) const;

  const ClusterGraph& graph_;
  int src_;
  std::vector<int> hops_;
  std::vector<double> width_;
  std::vector<int> last_link_;
};

std::vector<int> SearchRoute(const ClusterGraph& graph, int src_vertex, int dst_vertex);
// Whether each vertex reaches each other one.
bool StronglyConnected(const ClusterGraph& graph);

}  // namespace aurum
