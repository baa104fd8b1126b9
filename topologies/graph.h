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
  std::shared_ptr<const Adjacency> adjacency;
};

struct ClusterGraph {
  std::shared_ptr<const ClusterShape> shape;
  std::vector<Link> links;
};

// A graph without a known structure, e.g. an imported one: the GPUs are the first vertices; domains
// are the components of NVLinks. Routes are searched, O(links) each.
std::shared_ptr<const ClusterGraph> MakeSearchedGraph(std::vector<Vertex> vertices,
                                                      std::vector<Link> links);
// The graph that the spec generates.
std::shared_ptr<const ClusterGraph> GenerateGraph(const ClusterSpec& spec);

// Fewest hops; among those the widest (largest narrowest link); among those, seen from the
// destination backwards, the lowest link ids. Empty if dst == src or cannot be reached.
std::vector<int> SearchRoute(const ClusterGraph& graph, int src_vertex, int dst_vertex);
// Whether each vertex reaches each other one.
bool StronglyConnected(const ClusterGraph& graph);

}  // namespace aurum
