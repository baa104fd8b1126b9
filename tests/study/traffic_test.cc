#include "sim/study/traffic.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/shared.h"

namespace aurum {
namespace {

TrafficDocument Read(const std::string& transfers, const std::string& cluster = "64xh100-ndr") {
  static InputCache cache(".");
  return ReadTraffic(ParseJson(R"({"schema": "aurum.traffic/1", "cluster": ")" + cluster +
                                   R"(", "transfers": )" + transfers + "}",
                               "test.json"),
                     &cache);
}

TEST_CASE("alone, a collective takes its price, at every level") {
  for (
      const char* item :
      {R"([{"collective": "all-reduce", "bytes": 4294967296, "groups": {"size": 8, "stride": 8}}])",
       R"([{"collective": "all-gather", "bytes": 4294967296, "groups": {"size": 8}}])",
       R"([{"collective": "send-recv", "bytes": 1073741824, "shift": 8}])",
       R"([{"collective": "all-to-all", "bytes": 1073741824, "groups": {"size": 8, "stride": 8}}])"}) {
    CAPTURE(item);
    const TrafficDocument traffic = Read(item);
    for (const Level level : {Level::kFlow, Level::kAuto, Level::kChunk}) {
      CAPTURE(LevelName(level));
      const TrafficOutcome outcome = RunTraffic(traffic, level);
      const TrafficOutcome::Item& result = outcome.items[0];
      CHECK(result.alone_s == doctest::Approx(result.priced_s).epsilon(0.02));
      CHECK(result.together_s == result.alone_s);
    }
  }
}

TEST_CASE("two equal rings on the same NICs take twice as long") {
  const char* ring =
      R"({"collective": "all-reduce", "algorithm": "ring", "bytes": 4294967296, "groups": {"size": 8, "stride": 8}})";
  const TrafficDocument traffic = Read("[" + std::string(ring) + "," + ring + "]");
  const TrafficOutcome flow = RunTraffic(traffic, Level::kFlow);
  const TrafficOutcome chunk = RunTraffic(traffic, Level::kChunk);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(flow.items[i].together_s == doctest::Approx(2 * flow.items[i].alone_s).epsilon(0.01));
    CHECK(chunk.items[i].together_s == doctest::Approx(flow.items[i].together_s).epsilon(0.02));
  }
  CHECK(flow.loads.links[0].mean_use > 0.98);
}

TEST_CASE("gradients, pipeline and experts at once: each slower than alone, links explain it") {
  static InputCache cache(".");
  const TrafficDocument traffic =
      ReadTraffic(ReadJsonFile("scenarios/traffic/moe-at-two-to-one.json"), &cache);
  const TrafficOutcome outcome = RunTraffic(traffic, Level::kAuto);
  REQUIRE(outcome.items.size() == 3);
  double slowest = 0;
  for (const TrafficOutcome::Item& item : outcome.items) {
    CHECK(item.together_s > 1.02 * item.alone_s);
    slowest = std::max(slowest, item.together_s / item.alone_s);
  }
  CHECK(slowest > 1.5);
  // What moved is what was asked for: on a NIC the gradients' ring, 2·31/32 of the bytes.
  const LinkLoad& nic = outcome.loads.links[0];
  CHECK(nic.bytes_by_label[0] == doctest::Approx(4294967296.0 * 62 / 32));
  for (const LinkLoad& load : outcome.loads.links) CHECK(load.mean_use <= 1 + 1e-9);
}

TEST_CASE("a message that is spread over equal paths claims no more of a NIC than a whole one") {
  const std::string transfers =
      R"([{"collective": "all-reduce", "bytes": 1e9, "groups": {"size": 16, "stride": 8}},
          {"collective": "send-recv", "bytes": 67108864, "shift": 256, "repeat": 4}])";
  static InputCache cache(".");
  double together[2];
  for (const bool adaptive : {false, true}) {
    TrafficDocument traffic = Read(transfers, "512xh100-ndr");
    if (adaptive) {
      JsonDocument cluster = OpenCluster("512xh100-ndr", ".");
      ApplyOverride(&cluster, "fabric.routing=adaptive");
      traffic.cluster = std::make_shared<const Cluster>(ReadCluster(cluster));
    }
    together[adaptive ? 1 : 0] = RunTraffic(traffic, Level::kFlow).items[0].together_s;
  }
  CHECK(together[1] == doctest::Approx(together[0]).epsilon(0.02));
}

TEST_CASE("what cannot be is refused") {
  const auto code = [](const std::string& transfers) {
    return ThrownBy([&] { Read(transfers); }).code;
  };
  CHECK(code("[]") == 362);
  CHECK(code(R"([{"collective": "all-reduce", "bytes": 1, "groups": {"size": 7}}])") == 361);
  CHECK(code(R"([{"collective": "all-reduce", "bytes": 1, "shift": 8}])") == 362);
  CHECK(code(R"([{"collective": "all-reduce", "bytes": 0, "groups": {"size": 8}}])") == 107);
  CHECK(code(R"([{"collective": "allreduce", "bytes": 1, "groups": {"size": 8}}])") == 108);
  CHECK(code(R"([{"collective": "all-reduce", "bytes": 1}])") == 102);
}

}  // namespace
}  // namespace aurum
