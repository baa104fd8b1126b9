#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace aurum {

// A directed multigraph whose vertices have colours and whose edges have labels: what is alike, and
// how alike things hang together.
class ColouredGraph {
 public:
  using VertexId = std::uint32_t;

  // `colour`: equal for vertices that are alike in themselves; any hash of what matters.
  VertexId AddVertex(std::uint64_t colour);
  // `from` is told apart by its edges: by their labels and the classes of the vertices they lead
  // to. An edge says nothing about `to`; add the reverse edge where it should.
  void AddEdge(VertexId from, VertexId to, std::uint32_t label);
  void Reserve(std::size_t vertices, std::size_t edges);

  std::size_t vertex_count() const { return colour_.size(); }

 private:
  friend struct Refinement Refine(const ColouredGraph& graph);
  struct Edge {
    VertexId from, to;
    std::uint32_t label;
  };
  std::vector<std::uint64_t> colour_;
  std::vector<Edge> edges_;
};

// The coarsest equitable partition that is not coarser than the colours: vertices of one class have
// one colour and, for every label and class, as many edges of that label into that class.
struct Refinement {
  std::vector<std::uint32_t> class_of;         // by vertex; classes are numbered by first member
  std::vector<ColouredGraph::VertexId> first;  // by class: its first member
  std::vector<std::uint32_t> size;             // by class
  int rounds = 0;
};

// O((vertices + edges) · log vertices).
Refinement Refine(const ColouredGraph& graph);

}  // namespace aurum
