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
// How. Every vertex keeps the sum, which has no order, of the hashes of its edges: label and class of
// the other end. Vertices of one class whose sums differ are split; the part that did not change, or
// else the largest, keeps the class's number, so that few vertices change theirs; and only vertices
// with an edge to one of those have another sum in the next round (the smaller half of Hopcroft, 1971;
// Cardon and Crochemore, 1982). Sums are full 128 bits, so that a collision is not to be expected; and
// since "not to be expected" is no proof, the counts are compared exactly at the end, and the
// refinement is repeated with another seed should one ever differ.
//
// Cost: O((vertices + edges) · log vertices) in all, however many rounds a difference needs to travel.

namespace {

constexpr std::uint32_t kNoNumber = 0xffffffffU;

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

// Edges by one of their ends.
struct Incidence {
  std::vector<std::size_t> first;  // by vertex
  std::vector<std::uint32_t> other;
  std::vector<std::uint32_t> label;
};

template <typename Edges, typename End, typename Other>
Incidence By(const Edges& edges, std::size_t vertices, End end, Other other) {
  Incidence by;
  by.first.assign(vertices + 2, 0);
  for (const auto& edge : edges) ++by.first[edge.*end + 2];
  for (std::size_t v = 2; v < vertices + 2; ++v) by.first[v] += by.first[v - 1];
  by.other.resize(edges.size());
  by.label.resize(edges.size());
  for (const auto& edge : edges) {
    const std::size_t place = by.first[edge.*end + 1]++;
    by.other[place] = edge.*other;
    by.label[place] = edge.label;
  }
  by.first.resize(vertices + 1);
  return by;
}

bool IsEquitable(const Incidence& out, const Refinement& refinement) {
  using Signature = std::vector<std::uint64_t>;  // label and class of each edge
  const auto signature = [&](std::size_t v, Signature* into) {
    into->clear();
    for (std::size_t e = out.first[v]; e < out.first[v + 1]; ++e) {
      into->push_back(std::uint64_t{out.label[e]} << 32 | refinement.class_of[out.other[e]]);
    }
    std::sort(into->begin(), into->end());
  };
  std::vector<Signature> of_class(refinement.first.size());
  Signature own;
  for (std::size_t v = 0; v < refinement.class_of.size(); ++v) {
    const std::uint32_t c = refinement.class_of[v];
    if (refinement.size[c] == 1) continue;
    if (refinement.first[c] == v) {
      signature(v, &of_class[c]);
      continue;
    }
    signature(v, &own);
    if (own != of_class[c]) return false;
  }
  return true;
}

}  // namespace

ColouredGraph::VertexId ColouredGraph::AddVertex(std::uint64_t colour) {
  colour_.push_back(colour);
  return static_cast<VertexId>(colour_.size() - 1);
}

void ColouredGraph::AddEdge(VertexId from, VertexId to, std::uint32_t label) {
  assert(from < colour_.size() && to < colour_.size());
  edges_.push_back({from, to, label});
}

void ColouredGraph::Reserve(std::size_t vertices, std::size_t edges) {
  colour_.reserve(vertices);
  edges_.reserve(edges);
}

namespace {

// One refinement with one seed.
class Splitting {
 public:
  Splitting(std::span<const std::uint64_t> colours, const Incidence& in, std::uint64_t seed)
      : in_(in), seed_(seed) {
    const std::size_t n = colours.size();
    std::vector<std::uint32_t> order(n);
    for (std::uint32_t v = 0; v < n; ++v) order[v] = v;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return colours[a] < colours[b]; });
    class_of_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (i == 0 || colours[order[i]] != colours[order[i - 1]]) NewClass();
      class_of_[order[i]] = Last();
      ++size_.back();
    }
    sum_.assign(n, Hash{0, 0});
    is_touched_.assign(n, true);
    touched_ = std::move(order);
    for (std::uint32_t v = 0; v < n; ++v) Announce(v, class_of_[v], +1);
  }

  // False when nothing split.
  bool Round() {
    FindWhole();
    sorted_.clear();
    for (const std::uint32_t v : touched_) {
      if (!whole_[class_of_[v]]) sorted_.push_back({class_of_[v], v, sum_[v]});
    }
    std::sort(sorted_.begin(), sorted_.end(), [](const Touched& a, const Touched& b) {
      if (a.number != b.number) return a.number < b.number;
      if (a.sum.a != b.sum.a) return a.sum.a < b.sum.a;
      if (a.sum.b != b.sum.b) return a.sum.b < b.sum.b;
      return a.vertex < b.vertex;
    });
    changed_.clear();
    for (std::size_t i = 0; i < sorted_.size();) {
      std::size_t last = i;
      while (last < sorted_.size() && sorted_[last].number == sorted_[i].number) ++last;
      SplitClass(i, last);
      i = last;
    }
    for (const std::uint32_t v : touched_) is_touched_[v] = false;
    touched_.clear();
    for (const Change& change : changed_) {
      Announce(change.vertex, change.before, -1);
      Announce(change.vertex, class_of_[change.vertex], +1);
    }
    return !changed_.empty();
  }

  const std::vector<std::uint32_t>& class_of() const { return class_of_; }

 private:
  struct Change {
    std::uint32_t vertex, before;
  };

  struct Touched {
    std::uint32_t number, vertex;
    Hash sum;
  };

  std::uint32_t Last() const { return static_cast<std::uint32_t>(size_.size() - 1); }
  void NewClass() {
    size_.push_back(0);
    class_sum_.push_back({0, 0});
  }

  // Classes whose touched members still agree, with each other and with those that were not touched:
  // most of them, in most rounds. They need no sorting.
  void FindWhole() {
    seen_.assign(size_.size(), 0);
    whole_.assign(size_.size(), true);
    first_sum_.resize(size_.size());
    for (const std::uint32_t v : touched_) {
      const std::uint32_t c = class_of_[v];
      if (seen_[c]++ == 0) {
        first_sum_[c] = sum_[v];
      } else if (!(sum_[v] == first_sum_[c])) {
        whole_[c] = false;
      }
    }
    for (std::size_t c = 0; c < size_.size(); ++c) {
      if (seen_[c] == 0 || !whole_[c]) continue;
      if (seen_[c] == size_[c]) {
        class_sum_[c] = first_sum_[c];
      } else {
        whole_[c] = first_sum_[c] == class_sum_[c];
      }
    }
  }

  // sorted_[first, last) are the touched members of one class, by sum.
  void SplitClass(std::size_t first, std::size_t last) {
    const std::uint32_t own = sorted_[first].number;
    const auto part_end = [&](std::size_t i) {
      std::size_t end = i;
      while (end < last && sorted_[end].sum == sorted_[i].sum) ++end;
      return end;
    };
    if (last - first == size_[own]) {
      // All of it: the largest part stays; of equal ones the first.
      std::size_t largest = 0;
      for (std::size_t i = first; i < last; i = part_end(i)) {
        if (part_end(i) - i <= largest) continue;
        largest = part_end(i) - i;
        class_sum_[own] = sorted_[i].sum;
      }
    }
    for (std::size_t i = first, end = first; i < last; i = end) {
      end = part_end(i);
      if (sorted_[i].sum == class_sum_[own]) continue;
      NewClass();
      class_sum_.back() = sorted_[i].sum;
      for (std::size_t k = i; k < end; ++k) {
        changed_.push_back({sorted_[k].vertex, own});
        class_of_[sorted_[k].vertex] = Last();
      }
      size_.back() = end - i;
      size_[own] -= end - i;
    }
  }

  // All that have an edge to `vertex` see it in (or no longer in) class `number`.
  void Announce(std::uint32_t vertex, std::uint32_t number, int sign) {
    for (std::size_t e = in_.first[vertex]; e < in_.first[vertex + 1]; ++e) {
      const Hash edge = HashOf(Mix(in_.label[e]) + number, seed_);
      const std::uint32_t from = in_.other[e];
      sum_[from].a += sign > 0 ? edge.a : -edge.a;
      sum_[from].b += sign > 0 ? edge.b : -edge.b;
      if (is_touched_[from]) continue;
      is_touched_[from] = true;
      touched_.push_back(from);
    }
  }

  const Incidence& in_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> class_of_;
  std::vector<std::size_t> size_;  // by class
  std::vector<Hash> class_sum_;    // by class: of the members that were not touched
  std::vector<Hash> sum_;          // by vertex
  std::vector<bool> is_touched_;
  std::vector<std::uint32_t> touched_;
  std::vector<Touched> sorted_;
  std::vector<std::size_t> seen_;  // by class: touched members
  std::vector<bool> whole_;        // by class
  std::vector<Hash> first_sum_;    // by class: of its first touched member
  std::vector<Change> changed_;
};

}  // namespace

Refinement Refine(const ColouredGraph& graph) {
  using Edge = ColouredGraph::Edge;
  const std::size_t n = graph.vertex_count();
  const Incidence in = By(graph.edges_, n, &Edge::to, &Edge::from);
  const Incidence out = By(graph.edges_, n, &Edge::from, &Edge::to);
  for (std::uint64_t seed = 1;; ++seed) {
    Splitting splitting(graph.colour_, in, seed);
    Refinement refinement;
    refinement.rounds = 1;
    while (splitting.Round()) ++refinement.rounds;
    // Numbers by first member.
    std::vector<std::uint32_t> number(n, kNoNumber);
    refinement.class_of.resize(n);
    for (std::uint32_t v = 0; v < n; ++v) {
      std::uint32_t& at = number[splitting.class_of()[v]];
      if (at == kNoNumber) {
        at = static_cast<std::uint32_t>(refinement.first.size());
        refinement.first.push_back(v);
        refinement.size.push_back(0);
      }
      refinement.class_of[v] = at;
      ++refinement.size[at];
    }
    if (IsEquitable(out, refinement)) return refinement;
  }
}

}  // namespace aurum
