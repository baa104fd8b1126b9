#include "sim/study/link_loads.h"

#include <doctest/doctest.h>

namespace aurum {
namespace {

TEST_CASE("two transfers on one link: bytes, use, and how long they met") {
  OpGraph graph;
  Fabric fabric{{1e9, 2e9}};
  const PatternId small = graph.AddPattern({{Flow{.links = {0}, .bytes = 1e6}}});
  const PatternId large = graph.AddPattern({{Flow{.links = {0, 1}, .bytes = 3e6}}});
  graph.AddTransfer(graph.AddStream(), TimeFromSeconds(1e-3), Time{0}, small);
  graph.AddTransfer(graph.AddStream(), TimeFromSeconds(3e-3), Time{0}, large);
  REQUIRE(graph.Finish());
  const Schedule schedule = RunEventLoop(graph, fabric);
  const std::uint8_t labels[] = {0, 1};
  const Loads loads = MeasureLoads(graph, fabric, schedule, labels, 2);
  // Both at half rate until the small one ends at 2 ms; the large one at 4 ms.
  REQUIRE(loads.links.size() == 2);
  const LinkLoad& shared = loads.links[0];
  CHECK(shared.link == 0);
  CHECK(shared.bytes == 4e6);
  CHECK(shared.bytes_by_label == std::vector<double>{1e6, 3e6});
  CHECK(shared.mean_use == doctest::Approx(1));
  CHECK(shared.busy_s == doctest::Approx(4e-3));
  CHECK(shared.met_s == doctest::Approx(2e-3));
  CHECK(loads.links[1].met_s == 0);
  CHECK(loads.links[1].mean_use == doctest::Approx(3e6 / 2e9 / 4e-3));
  CHECK(loads.labels[0].worst_factor == doctest::Approx(2));
  CHECK(loads.labels[1].worst_factor == doctest::Approx(4.0 / 3));
}

TEST_CASE("a folded transfer counts for all that it stands for") {
  OpGraph graph;
  Fabric fabric{{1e9}};
  Flow flow{.links = {0}, .bytes = 1e6};
  flow.crossings = {{4, 1}};  // four transfers of a flow each on one link
  graph.AddTransfer(graph.AddStream(), TimeFromSeconds(1e-3), Time{0}, graph.AddPattern({{flow}}));
  REQUIRE(graph.Finish());
  const Schedule schedule = RunEventLoop(graph, fabric);
  CHECK(Seconds(schedule.makespan) == doctest::Approx(4e-3));
  const std::uint8_t labels[] = {0};
  const std::uint32_t link_of[] = {7}, link_count[] = {16};
  const Loads loads = MeasureLoads(graph, fabric, schedule, labels, 1, {}, link_of, link_count);
  CHECK(loads.links[0].link == 7);
  CHECK(loads.links[0].count == 16);
  CHECK(loads.links[0].bytes == 4e6);
  CHECK(loads.links[0].met_s == doctest::Approx(4e-3));
}

}  // namespace
}  // namespace aurum
