#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/engine/op_graph.h"
#include "sim/network/event_loop.h"

#include "tests/engine/random.h"

namespace aurum {

inline constexpr std::int64_t kMillisecond = 1'000'000'000;  // ps

// A simulation as plain data, so that it can be generated, simulated in more than one way, made
// smaller and printed.
struct ScenarioOp {
  std::uint32_t stream = 0;
  std::int64_t duration_ps = 0;  // of a transfer: < 0 = latency + flows alone
  std::int64_t latency_ps = 0;
  std::vector<Flow> flows{};  // none: not a transfer
  std::vector<std::uint32_t> after{};
};
struct Scenario {
  std::vector<double> capacity;
  std::vector<LinkChange> changes;
  std::uint32_t streams = 0;
  std::vector<ScenarioOp> ops;
};

struct ScenarioShape {
  std::uint32_t most_ops = 40;
  std::uint32_t most_links = 8;
  std::uint32_t most_flows = 3;  // of a transfer
  bool changes = false;          // of links, each at last back at a factor above 0
  double bytes = 1e9;            // of a flow, at most
};
Scenario RandomScenario(Random& random, const ScenarioShape& shape);

// The graph, finished. Durations that are < 0 are priced by `alone_s`.
OpGraph BuildGraph(const Scenario& scenario);

// The seconds that a pattern's flows take with nobody else, by steps of fresh solutions.
double AloneSecondsByReference(const std::vector<double>& capacity, const std::vector<Flow>& flows);

// What RunEventLoop must give, by brute force: at every event all flows are filled anew, in long
// double, with no code of the engine. By op: end, seconds; infinite = never. O(events · flows · links).
std::vector<long double> ReferenceEnds(const Scenario& scenario);

// Takes away what the failure does not need, until nothing more can go: ops, flows, hops,
// dependencies, changes, weights, caps, latencies.
Scenario Shrink(Scenario scenario, const std::function<bool(const Scenario&)>& fails);
std::string Print(const Scenario& scenario);

}  // namespace aurum
