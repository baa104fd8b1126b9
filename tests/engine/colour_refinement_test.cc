#include "sim/engine/colour_refinement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tests/engine/random.h"

namespace aurum {
namespace {

ColouredGraph Ring(int n, int odd_one) {
  ColouredGraph graph;
  for (int i = 0; i < n; ++i) graph.AddVertex(i == odd_one ? 2 : 1);
  for (int i = 0; i < n; ++i) {
    graph.AddEdge(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>((i + 1) % n), 0);
  }
  return graph;
}

TEST_CASE("a ring of equals is one class; with an odd one, every distance is its own") {
  CHECK(Refine(Ring(1000, -1)).first.size() == 1);
  const Refinement odd = Refine(Ring(100, 7));
  CHECK(odd.first.size() == 100);
  CHECK(odd.rounds >= 50);
}

TEST_CASE("ranks that meet at a barrier only split into the odd one and the rest") {
  ColouredGraph graph;
  const auto barrier = graph.AddVertex(9);
  for (int i = 0; i < 64; ++i) {
    const auto rank = graph.AddVertex(i == 13 ? 2 : 1);
    graph.AddEdge(rank, barrier, 0);
    graph.AddEdge(barrier, rank, 0);
  }
  const Refinement refinement = Refine(graph);
  CHECK(refinement.first.size() == 3);
  CHECK(*std::max_element(refinement.size.begin(), refinement.size.end()) == 63);
}

TEST_CASE("labels tell edges apart") {
  ColouredGraph graph;
  for (int i = 0; i < 4; ++i) graph.AddVertex(1);
  graph.AddEdge(0, 2, 1);
  graph.AddEdge(1, 3, 2);
  const Refinement refinement = Refine(graph);
  CHECK(refinement.class_of[0] != refinement.class_of[1]);
  CHECK(refinement.class_of[2] == refinement.class_of[3]);
}

TEST_CASE("an empty graph has no class") { CHECK(Refine(ColouredGraph{}).first.empty()); }

// The reference: splits by sorted lists of neighbours until nothing changes, with no hash.
std::vector<std::uint32_t> Reference(
    const std::vector<std::uint64_t>& colours,
    const std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>>& edges) {
  std::vector<std::uint32_t> classes(colours.size());
  std::map<std::uint64_t, std::uint32_t> first;
  for (std::size_t v = 0; v < colours.size(); ++v)
    classes[v] =
        first.try_emplace(colours[v], static_cast<std::uint32_t>(first.size())).first->second;
  std::size_t count = first.size();
  for (;;) {
    std::vector<std::vector<std::pair<std::uint64_t, std::uint32_t>>> around(colours.size());
    for (const auto& [from, to, label] : edges) around[from].emplace_back(label, classes[to]);
    std::map<std::pair<std::uint32_t, std::vector<std::pair<std::uint64_t, std::uint32_t>>>,
             std::uint32_t>
        next;
    std::vector<std::uint32_t> split(colours.size());
    for (std::size_t v = 0; v < colours.size(); ++v) {
      std::sort(around[v].begin(), around[v].end());
      split[v] = next.try_emplace({classes[v], around[v]}, static_cast<std::uint32_t>(next.size()))
                     .first->second;
    }
    classes = split;
    if (next.size() == count) return classes;
    count = next.size();
  }
}

TEST_CASE("the same partition as splitting by sorted neighbour lists, on random graphs") {
  Random random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const std::uint32_t n = 1 + random() % 30;
    ColouredGraph graph;
    std::vector<std::uint64_t> colours;
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> edges;
    for (std::uint32_t v = 0; v < n; ++v) {
      colours.push_back(random() % 2);
      graph.AddVertex(colours.back());
    }
    for (std::uint32_t e = random() % (2 * n); e > 0; --e) {
      edges.emplace_back(random() % n, random() % n, random() % 2);
      graph.AddEdge(std::get<0>(edges.back()), std::get<1>(edges.back()),
                    std::get<2>(edges.back()));
    }
    const Refinement refinement = Refine(graph);
    CHECK(refinement.class_of == Reference(colours, edges));
  }
}

}  // namespace
}  // namespace aurum
