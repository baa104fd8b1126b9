#include "sim/engine/chains.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace aurum {
namespace {

struct Case {
  OpGraph graph;
  std::vector<std::uint32_t> duration_class;
  std::vector<std::uint64_t> label;
};

// Streams that run mostly in step, with dependencies between them: chains of all lengths.
Case RandomCase(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Case c;
  const std::uint32_t streams = 1 + below(5), ops = 1 + below(80), classes = 1 + below(6);
  for (std::uint32_t i = 0; i < streams; ++i) c.graph.AddStream();
  for (OpId op = 0; op < ops; ++op) {
    c.graph.AddOp(below(streams), Time{});
    c.duration_class.push_back(below(classes));
    c.label.push_back(below(8) == 0 ? 1 : 0);
    if (op > 0 && below(4) > 0) c.graph.AddDependency(op - 1, op);
    if (op > 0 && below(3) == 0) c.graph.AddDependency(below(op), op);
  }
  REQUIRE(c.graph.Finish());
  return c;
}

TEST_CASE("chains give the times of a pass over all ops, whatever the durations") {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    Case c = RandomCase(seed);
    ChainedGraph chained(c.graph, c.duration_class, c.label);
    REQUIRE(chained.chain_count() <= c.graph.op_count());
    std::mt19937 random(seed + 1);
    for (int again = 0; again < 3; ++again) {
      std::vector<Time> durations(6);
      for (Time& duration : durations)
        duration.ps = random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random());
      for (OpId op = 0; op < c.graph.op_count(); ++op)
        c.graph.SetDuration(op, durations[c.duration_class[op]]);
      const Schedule expected = EvaluateMaxPlus(c.graph);
      CHECK(chained.Evaluate(durations) == expected.makespan);
      Schedule expanded;
      chained.Expand(&expanded);
      CHECK(expanded.start == expected.start);
      CHECK(expanded.end == expected.end);
      CHECK(expanded.makespan == expected.makespan);
      for (OpId op = 0; op < c.graph.op_count(); ++op) {
        REQUIRE(chained.Start(op) == expected.start[op]);
        REQUIRE(chained.End(op) == expected.end[op]);
      }
    }
  }
}

// The kernels of a pass with the collectives between them, twice over.
TEST_CASE("a pass is one chain, and equal passes are of one kind") {
  OpGraph graph;
  const StreamId kernels = graph.AddStream(), group = graph.AddStream();
  std::vector<std::uint32_t> duration_class;
  std::vector<std::uint64_t> label;
  for (std::uint64_t pass = 0; pass < 2; ++pass) {
    for (std::uint32_t layer = 0; layer < 5; ++layer) {
      const OpId kernel = graph.AddOp(kernels, Time{3});
      if (kernel > 0) graph.AddDependency(kernel - 1, kernel);
      const OpId collective = graph.AddOp(group, Time{2});
      graph.AddDependency(kernel, collective);
      duration_class.insert(duration_class.end(), {2 * layer, 2 * layer + 1});
      label.insert(label.end(), 2, pass);
    }
  }
  REQUIRE(graph.Finish());
  ChainedGraph chained(graph, duration_class, label);
  CHECK(chained.chain_count() == 2);
  CHECK(chained.kinds().size() == 1);
  CHECK(chained.kinds()[0].size == 10);
  CHECK(chained.Evaluate(std::vector<Time>(10, Time{7})) == Time{140});
}

TEST_CASE("an op that something slower may hold up begins a chain of its own") {
  OpGraph graph;
  const StreamId a = graph.AddStream(), b = graph.AddStream();
  const OpId first = graph.AddOp(a, Time{}), beside = graph.AddOp(b, Time{});
  const OpId second = graph.AddOp(a, Time{});
  graph.AddDependency(beside, second);
  REQUIRE(graph.Finish());
  const std::vector<std::uint32_t> duration_class = {0, 1, 0};
  ChainedGraph chained(graph, duration_class, std::vector<std::uint64_t>(3, 0));
  CHECK(chained.ChainOf(first) != chained.ChainOf(second));
  CHECK(chained.Evaluate(std::vector<Time>{Time{1}, Time{5}}) == Time{6});
}

}  // namespace
}  // namespace aurum
