#include "sim/engine/colour_refinement.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace aurum {

// Two vertices are told apart when they must be: they have different colours, or, for some label,
// different numbers of edges into some class. Start from the colours and split until nothing
// splits (colour refinement, the 1-dimensional Weisfeiler-Leman algorithm; Weisfeiler and Leman,
// 1968; Grohe, Kersting, Mladenov, Selman, "Dimension reduction via colour refinement", 2014). The
// result is *equitable*: whatever depends only on a vertex, its edges and what they lead to is the
// same for all members of a class, so one member can stand for all.
//
// Example: a ring of eight ranks, each with an edge to the next. All have one colour, all have one
// edge into the one class: one class. Slow one rank down: it is a class of its own; the rank before
// it has an edge into that class and splits off; then the one before that: eight classes, since in
// a ring every rank is at its own distance from the slow one. If the ranks only meet at a barrier,
// an edge each to the barrier and back, there are two classes: the slow one, the others.
//
// A round gives every vertex a hash of its class and of the sum, which has no order, of its edges'
// hashes, and numbers the distinct hashes. Full 128 bits, so that a collision is not to be expected;
// and since "not to be expected" is no proof, the counts are compared exactly at the end, and the
// refinement is repeated with another seed should one ever differ.
//
// Cost: O(vertices + edges) a round, some 20 ns a vertex and 5 ns an edge; as many rounds as a
// difference has steps to travel (a handful for the symmetric groups and trees of a cluster).

namespace {

struct Hash {
  std::uint64_t a, b;
  friend bool operator==(const Hash&, const Hash&) = default;
};

// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
std::uint64_t Mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

Hash HashOf(std::uint64_t value, std::uint64_t seed) {
  return {Mix(value + seed), Mix((value ^ 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL + seed)};
}

// Numbers hashes by first appearance. Open addressing; the hash is its own index.
class Numbering {
 public:
  explicit Numbering(std::size_t most) {
    std::size_t size = 16;
    while (size < 2 * most) size *= 2;
    slots_.resize(size);
  }
  void Clear() {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    count_ = 0;
  }
  std::uint32_t Of(const Hash& hash) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = hash.a & mask;
    while (slots_[i].number != kFree && !(slots_[i].hash == hash)) i = (i + 1) & mask;
    if (slots_[i].number == kFree) slots_[i] = {hash, count_++};
    return slots_[i].number;
  }
  std::uint32_t count() const { return count_; }

 private:
  static constexpr std::uint32_t kFree = 0xffffffffU;
  struct Slot {
    Hash hash{};
    std::uint32_t number = kFree;
  };
  std::vector<Slot> slots_;
  std::uint32_t count_ = 0;
};

// Edges by their first vertex.
struct Outgoing {
  std::vector<std::size_t> first;
  std::vector<std::uint32_t> to;
  std::vector<std::uint64_t> label;
};

bool IsEquitable(const Outgoing& out, const Refinement& refinement) {
  using Signature = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
  const auto signature = [&](std::size_t v, Signature* into) {
    into->clear();
    for (std::size_t e = out.first[v]; e < out.first[v + 1]; ++e)
      into->emplace_back(out.label[e], refinement.class_of[out.to[e]]);
    std::sort(into->begin(), into->end());
  };
  std::vector<Signature> of_class(refinement.first.size());
  for (std::size_t c = 0; c < of_class.size(); ++c) signature(refinement.first[c], &of_class[c]);
  Signature own;
  for (std::size_t v = 0; v < refinement.class_of.size(); ++v) {
    signature(v, &own);
    if (own != of_class[refinement.class_of[v]]) return false;
  }
  return true;
}

}  // namespace

ColouredGraph::VertexId ColouredGraph::AddVertex(std::uint64_t colour) {
  colour_.push_back(colour);
  return static_cast<VertexId>(colour_.size() - 1);
}

void ColouredGraph::AddEdge(VertexId from, VertexId to, std::uint64_t label) {
  assert(from < colour_.size() && to < colour_.size());
  edges_.push_back({from, to, label});
}

void ColouredGraph::Reserve(std::size_t vertices, std::size_t edges) {
  colour_.reserve(vertices);
  edges_.reserve(edges);
}

Refinement Refine(const ColouredGraph& graph) {
  const std::size_t n = graph.vertex_count();
  Outgoing out;
  out.first.assign(n + 2, 0);
  for (const auto& edge : graph.edges_) ++out.first[edge.from + 2];
  for (std::size_t v = 2; v < n + 2; ++v) out.first[v] += out.first[v - 1];
  out.to.resize(graph.edges_.size());
  out.label.resize(graph.edges_.size());
  for (const auto& edge : graph.edges_) {
    const std::size_t place = out.first[edge.from + 1]++;
    out.to[place] = edge.to;
    out.label[place] = edge.label;
  }
  out.first.resize(n + 1);

  Numbering numbering(n);
  Refinement refinement;
  std::vector<std::uint32_t>& class_of = refinement.class_of;
  std::vector<std::uint32_t> next(n);
  for (std::uint64_t seed = 1;; ++seed) {
    class_of.resize(n);
    numbering.Clear();
    for (std::size_t v = 0; v < n; ++v) class_of[v] = numbering.Of(HashOf(graph.colour_[v], seed));
    std::uint32_t classes = 0;
    refinement.rounds = 0;
    while (numbering.count() > classes && numbering.count() < n) {
      classes = numbering.count();
      ++refinement.rounds;
      numbering.Clear();
      for (std::size_t v = 0; v < n; ++v) {
        Hash sum = HashOf(class_of[v], seed);
        for (std::size_t e = out.first[v]; e < out.first[v + 1]; ++e) {
          const Hash edge = HashOf(Mix(out.label[e]) + class_of[out.to[e]], ~seed);
          sum.a += edge.a;
          sum.b += edge.b;
        }
        next[v] = numbering.Of({Mix(sum.a), sum.b});
      }
      class_of.swap(next);
    }
    refinement.first.clear();
    refinement.size.clear();
    for (std::size_t v = 0; v < n; ++v) {
      if (class_of[v] == refinement.first.size()) {
        refinement.first.push_back(static_cast<ColouredGraph::VertexId>(v));
        refinement.size.push_back(0);
      }
      ++refinement.size[class_of[v]];
    }
    if (IsEquitable(out, refinement)) return refinement;
  }
}

}  // namespace aurum
