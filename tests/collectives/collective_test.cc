#include "sim/collectives/collective.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "sim/network/event_loop.h"
#include "sim/network/max_min.h"
#include "tests/collectives/fixtures.h"

namespace aurum {
namespace {

// A profile whose envelopes are round numbers: a all-gather line of `latency` and `busbw` per size.
Profile RoundProfile(double compute_capability = 9.0) {
  Profile profile;
  profile.device.compute_capability = compute_capability;
  const auto add = [&](CollectiveKind kind, int gpus, double latency_s, double busbw) {
    CollectiveEnvelope envelope;
    envelope.lines.push_back({latency_s, busbw / BusFactor(kind, gpus)});
    envelope.busbw_bytes_per_s = busbw;
    envelope.quality.provenance = Provenance::kCalibrated;
    profile.collectives[{kind, gpus}] = envelope;
  };
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                    CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll}) {
    add(kind, 4, 10e-6, 300e9);
    add(kind, 8, 20e-6, 350e9);
  }
  return profile;
}

// All GPUs, split into groups whose members are `stride` apart.
std::vector<RankGroup> Strided(int gpus, int size, int stride) {
  std::vector<RankGroup> groups;
  for (int block = 0; block < gpus; block += size * stride) {
    for (int s = 0; s < stride; ++s) groups.push_back(Range(block + s, size, stride));
  }
  return groups;
}

// With nobody else: `seconds` is latency + the flows by max-min, and the event loop ends there to
// the picosecond.
void CheckPattern(const Cluster& cluster, const CollectiveCost& cost) {
  REQUIRE(cost.seconds > 0);
  CHECK(cost.latency_s + AloneSeconds(FabricOf(cluster), cost.pattern) ==
        doctest::Approx(cost.seconds).epsilon(1e-9));
  OpGraph graph;
  const Time duration = TimeFromSeconds(cost.seconds);
  const Time latency = TimeFromSeconds(cost.latency_s);
  const PatternId pattern = graph.AddPattern(cost.pattern);
  graph.AddTransfer(graph.AddStream(), duration, latency, pattern);
  REQUIRE(graph.Finish());
  CHECK(RunEventLoop(graph, FabricOf(cluster)).makespan == duration);
  const Schedule shared = RunEventLoop(graph, FabricOf(cluster), {.share_from_start = true});
  CHECK(std::abs(shared.makespan.ps - duration.ps) <= 1);
}

// Bytes that the pattern puts on links of a kind, per link that is used.
std::map<int, double> Loads(const Cluster& cluster, const TrafficPattern& pattern, LinkKind kind) {
  std::map<int, double> loads;
  for (const Flow& flow : pattern.flows) {
    for (const std::uint32_t link : flow.links) {
      if (cluster.links()[link].kind == kind) loads[static_cast<int>(link)] += flow.bytes;
    }
  }
  return loads;
}

TEST_CASE("a group of one moves nothing") {
  const Cluster node = Named("8xh100-hgx");
  for (const CollectiveKind kind : kAllKinds) {
    const CollectiveCost cost = PriceCollective(kind, 1e9, {{0}, {3}}, node, RoundProfile(), {});
    CHECK(cost.seconds == 0);
    CHECK(cost.pattern.flows.empty());
  }
  CHECK(PriceCollective(CollectiveKind::kAllReduce, 1e9, {}, node, RoundProfile(), {}).seconds ==
        0);
  CHECK(PriceTransfer(1e9, {{2, 2}}, node, RoundProfile(), {}).seconds == 0);
}

TEST_CASE(
    "inside one NVLink domain the envelope decides, and groups side by side do not slow each "
    "other") {
  const Cluster node = Named("8xh100-hgx");
  const Profile profile = RoundProfile();
  const double bytes = 1e9;
  const CollectiveCost all =
      PriceCollective(CollectiveKind::kAllReduce, bytes, {Range(0, 8)}, node, profile, {});
  CHECK(all.seconds == doctest::Approx(20e-6 + 1.75 * bytes / 350e9).epsilon(1e-12));
  CHECK(all.algorithm == "envelope");
  CHECK(all.bottleneck == "measured");
  CHECK(all.provenance == Provenance::kCalibrated);
  CHECK(all.bus_bandwidth_bytes_per_s ==
        doctest::Approx(1.75 * bytes / all.seconds).epsilon(1e-12));
  CheckPattern(node, all);

  const CollectiveCost one =
      PriceCollective(CollectiveKind::kAllGather, bytes, {Range(0, 4)}, node, profile, {});
  const CollectiveCost two = PriceCollective(CollectiveKind::kAllGather, bytes,
                                             {Range(0, 4), Range(4, 4)}, node, profile, {});
  CHECK(one.seconds == two.seconds);
  CHECK(two.pattern.flows.size() == 2 * one.pattern.flows.size());
  CheckPattern(node, two);

  // The stack's factor is on the whole time.
  const CollectiveCost slower = PriceCollective(CollectiveKind::kAllReduce, bytes, {Range(0, 8)},
                                                node, profile, {.intra_factor = 1.5});
  CHECK(slower.seconds == doctest::Approx(1.5 * all.seconds).epsilon(1e-12));

  // Two groups on the same GPUs do slow each other, once NVLink itself is full: 2 · 350 of 450
  // GB/s.
  const CollectiveCost twice = PriceCollective(CollectiveKind::kAllGather, bytes,
                                               {Range(0, 8), Range(0, 8)}, node, profile, {});
  CHECK(twice.bottleneck == "NVLink");
  CHECK(twice.seconds - twice.latency_s ==
        doctest::Approx(2 * 0.875 * bytes / 450e9).epsilon(1e-9));
  CheckPattern(node, twice);
}

TEST_CASE(
    "a size that was not measured lies between its neighbours at equal traffic per rank, and says "
    "that it is assumed") {
  const Cluster node = Named("8xh100-hgx");
  const Profile profile = RoundProfile();
  const double bytes = 1e9;
  const CollectiveCost six =
      PriceCollective(CollectiveKind::kAllGather, bytes, {Range(0, 6)}, node, profile, {});
  const double traffic = bytes * 5 / 6;
  CHECK(six.latency_s == doctest::Approx(15e-6).epsilon(1e-12));
  CHECK(six.seconds ==
        doctest::Approx(15e-6 + (traffic / 300e9 + traffic / 350e9) / 2).epsilon(1e-12));
  CHECK(six.provenance == Provenance::kAssumed);
  // Below the smallest measured size, that one stands.
  const CollectiveCost pair =
      PriceCollective(CollectiveKind::kAllGather, bytes, {{0, 5}}, node, profile, {});
  CHECK(pair.seconds == doctest::Approx(10e-6 + bytes / 2 / 300e9).epsilon(1e-12));
  // A broadcast is priced by all-gather's ring.
  const CollectiveCost broadcast =
      PriceCollective(CollectiveKind::kBroadcast, bytes, {Range(0, 8)}, node, profile, {});
  CHECK(broadcast.seconds == doctest::Approx(20e-6 + bytes / 350e9).epsilon(1e-12));
  CheckPattern(node, broadcast);
}

TEST_CASE("scaled NVLink scales the bandwidth part of an envelope, not its latency") {
  const Cluster node = Named("8xh100-hgx");
  const Profile profile = RoundProfile();
  const double bytes = 1e9;
  const CollectiveCost full =
      PriceCollective(CollectiveKind::kAllReduce, bytes, {Range(0, 8)}, node, profile, {});
  const CollectiveCost half = PriceCollective(CollectiveKind::kAllReduce, bytes, {Range(0, 8)},
                                              node.WithScaledLinks(0.5, 1, 1), profile, {});
  CHECK(half.latency_s == full.latency_s);
  CHECK(half.seconds - half.latency_s ==
        doctest::Approx(2 * (full.seconds - full.latency_s)).epsilon(1e-12));
  CheckPattern(node.WithScaledLinks(0.5, 1, 1), half);
}

TEST_CASE("a ring over PCIe: 2 (n - 1) / n · S over the slowest share, and 2 (n - 1) steps") {
  const Cluster box = Named("4x4090-pcie");
  const double bytes = 1e8;
  const CollectiveCost cost =
      PriceCollective(CollectiveKind::kAllReduce, bytes, {Range(0, 4)}, box, {}, {});
  CHECK(cost.algorithm == "ring");
  // The closed form from the routes: flows on each link, the route's latency and 1.4 µs of software
  // per step.
  std::map<int, int> users;
  double latency = 0;
  for (int i = 0; i < 4; ++i) {
    for (const int link : box.Route(i, (i + 1) % 4)) ++users[link];
    latency = std::max(latency, box.RouteLatency(i, (i + 1) % 4));
  }
  double rate = kNoCap;
  for (const auto& [link, count] : users) {
    const Link& l = box.links()[link];
    rate =
        std::min(rate, l.bandwidth_bytes_per_s * (l.kind == LinkKind::kPcie ? 0.76 : 1.0) / count);
  }
  CHECK(cost.seconds ==
        doctest::Approx(1.5 * bytes / rate + 6 * (latency + 1.4e-6)).epsilon(1e-12));
  CheckPattern(box, cost);
  // Half of it for a reduce-scatter or an all-gather.
  for (const CollectiveKind kind : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
    const CollectiveCost part = PriceCollective(kind, bytes, {Range(0, 4)}, box, {}, {});
    CHECK(part.seconds == doctest::Approx(cost.seconds / 2).epsilon(1e-12));
  }
}

TEST_CASE("one rank per node: a ring through each rank's own NIC") {
  const Cluster cluster = Named("64xh100-ndr");  // 8 nodes, a 400 Gbit/s NIC per GPU
  const Profile profile = RoundProfile();
  const double bytes = 1e9, nic = 50e9;
  const CollectiveCost one = PriceCollective(CollectiveKind::kAllGather, bytes, {Range(0, 8, 8)},
                                             cluster, profile, {.network_efficiency = 0.8});
  CHECK(one.algorithm == "ring");
  CHECK(one.bottleneck == "network");
  CHECK(one.seconds - one.latency_s ==
        doctest::Approx(7.0 / 8 * bytes / (nic * 0.8)).epsilon(1e-12));
  CHECK(one.latency_s ==
        doctest::Approx(8 * 12e-6).epsilon(1e-9));  // 9.3 µs of software, 2.7 µs of links
  CheckPattern(cluster, one);
  // All eight rails at once: nobody waits. Two groups on one rail: half the rate.
  const CollectiveCost rails = PriceCollective(CollectiveKind::kAllGather, bytes, Strided(64, 8, 8),
                                               cluster, profile, {.network_efficiency = 0.8});
  CHECK(rails.seconds == doctest::Approx(one.seconds).epsilon(1e-12));
  CheckPattern(cluster, rails);
  const CollectiveCost twice =
      PriceCollective(CollectiveKind::kAllGather, bytes, {Range(0, 8, 8), Range(0, 8, 8)}, cluster,
                      profile, {.network_efficiency = 0.8});
  CHECK(twice.seconds - twice.latency_s ==
        doctest::Approx(2 * (one.seconds - one.latency_s)).epsilon(1e-12));
}

TEST_CASE("r ranks per node use r NICs, up to what the node's own ring carries") {
  const Cluster cluster = Named("64xh100-ndr");
  const Profile profile = RoundProfile();
  const double bytes = 8e9, traffic = bytes * 2 * 63 / 64;
  const CollectiveCost all =
      PriceCollective(CollectiveKind::kAllReduce, bytes, {Range(0, 64)}, cluster, profile, {});
  CHECK(all.algorithm == "ring");
  // 8 NICs · 50 GB/s · 0.85 = 340 GB/s, less than the 350 GB/s inside.
  CHECK(all.bottleneck == "network");
  CHECK(all.seconds - all.latency_s == doctest::Approx(traffic / 340e9).epsilon(1e-9));
  CheckPattern(cluster, all);
  const CollectiveCost wide = PriceCollective(CollectiveKind::kAllReduce, bytes, {Range(0, 64)},
                                              cluster.WithScaledLinks(1, 1, 2), profile,
                                              {.algorithm = CollectiveAlgorithm::kRing});
  CHECK(wide.bottleneck == "NVLink");
  CHECK(wide.seconds - wide.latency_s == doctest::Approx(traffic / 350e9).epsilon(1e-9));
  CheckPattern(cluster.WithScaledLinks(1, 1, 2), wide);
  // Every NIC carries its eighth out and in; every GPU's NVLink the other seven.
  for (const auto& [link, load] : Loads(cluster, all.pattern, LinkKind::kNvLink)) {
    CHECK(load == doctest::Approx(traffic * 7 / 8).epsilon(1e-9));
  }
  std::set<double> network;
  for (const auto& [link, load] : Loads(cluster, all.pattern, LinkKind::kNetwork)) {
    network.insert(std::round(load));
    CHECK(load >= traffic / 8 * (1 - 1e-9));
  }
  CHECK(*network.begin() == std::round(traffic / 8));
  // Latency: 56 · 2 µs + 8 · 12 µs, both ways.
  CHECK(all.latency_s / (2 * (56 * 2e-6 + 8 * 12e-6)) == doctest::Approx(1).epsilon(0.02));
  const CollectiveCost gather =
      PriceCollective(CollectiveKind::kAllGather, bytes, {Range(0, 64)}, cluster, profile, {});
  CHECK(gather.latency_s / (56 * 2e-6 + 8 * 12e-6) == doctest::Approx(1).epsilon(0.02));
  // The ring order of a group does not matter across nodes: ranks are taken by domain.
  RankGroup mixed;
  for (int local = 0; local < 8; ++local) {
    for (int node = 0; node < 8; ++node) mixed.push_back(8 * node + local);
  }
  const CollectiveCost other =
      PriceCollective(CollectiveKind::kAllReduce, bytes, {mixed}, cluster, profile, {});
  CHECK(other.seconds == doctest::Approx(all.seconds).epsilon(1e-12));
}

TEST_CASE("uneven groups: the rings are as many as the smallest node has ranks") {
  const Cluster cluster = Named("64xh100-ndr");
  const RankGroup group{0, 1, 2, 3, 8, 9, 16};  // 4, 2 and 1
  const CollectiveCost cost =
      PriceCollective(CollectiveKind::kAllGather, 7e9, {group}, cluster, RoundProfile(), {});
  CHECK(cost.seconds - cost.latency_s == doctest::Approx(6e9 / (50e9 * 0.85)).epsilon(1e-9));
  CheckPattern(cluster, cost);
}

TEST_CASE(
    "all-to-all: each rank sends S / n to each; between nodes its NIC carries the share that "
    "leaves the node") {
  const Cluster cluster = Named("64xh100-ndr");
  const double bytes = 64e6;
  const CollectiveCost cost = PriceCollective(CollectiveKind::kAllToAll, bytes, {Range(0, 64)},
                                              cluster, RoundProfile(), {});
  CHECK(cost.algorithm == "direct");
  CHECK(cost.bottleneck == "network");
  CHECK(cost.pattern.flows.size() == 64 * 63);
  CHECK(cost.seconds - cost.latency_s ==
        doctest::Approx(bytes * 56 / 64 / (50e9 * 0.85)).epsilon(1e-9));
  const CollectiveCost node =
      PriceCollective(CollectiveKind::kAllToAll, bytes, {Range(0, 8)}, cluster, RoundProfile(), {});
  CHECK(node.algorithm == "envelope");
  CHECK(node.seconds == doctest::Approx(20e-6 + bytes * 7 / 8 / 350e9).epsilon(1e-12));
  CheckPattern(cluster, node);
}

TEST_CASE("a sampled all-to-all puts on the links what the whole one does") {
  const Cluster cluster = Named("1024xh100-ndr");
  const double bytes = 1e9;
  const CollectiveCost cost = PriceCollective(CollectiveKind::kAllToAll, bytes, {Range(0, 1024)},
                                              cluster, RoundProfile(), {});
  CHECK(cost.pattern.flows.size() < 300'000);
  double nic = 0;
  for (const auto& [link, load] : Loads(cluster, cost.pattern, LinkKind::kNetwork))
    nic = std::max(nic, load);
  CHECK(nic == doctest::Approx(bytes * 1016 / 1024).epsilon(0.02));
}

TEST_CASE(
    "point to point: latency + bytes over the narrowest link; pairs that share a link share it") {
  const Cluster cluster = Named("64xh100-ndr");
  const double bytes = 1e8;
  const CollectiveCost one =
      PriceTransfer(bytes, {{0, 8}}, cluster, {}, {.network_efficiency = 0.8});
  CHECK(one.seconds ==
        doctest::Approx(cluster.RouteLatency(0, 8) + 9.3e-6 + bytes / 40e9).epsilon(1e-12));
  CHECK(one.bottleneck == "network");
  CheckPattern(cluster, one);
  const CollectiveCost rails =
      PriceTransfer(bytes, {{0, 8}, {1, 9}, {2, 10}}, cluster, {}, {.network_efficiency = 0.8});
  CHECK(rails.seconds == doctest::Approx(one.seconds).epsilon(1e-12));
  const CollectiveCost incast =
      PriceTransfer(bytes, {{0, 16}, {8, 16}, {24, 16}}, cluster, {}, {.network_efficiency = 0.8});
  CHECK(incast.seconds - incast.latency_s == doctest::Approx(3 * bytes / 40e9).epsilon(1e-12));
  CheckPattern(cluster, incast);
  // One pair that shares and one that does not: the second is not capped at the first one's share.
  const CollectiveCost both =
      PriceTransfer(bytes, {{0, 16}, {8, 16}, {1, 25}}, cluster, {}, {.network_efficiency = 0.8});
  CHECK(both.pattern.flows[2].cap_bytes_per_s == doctest::Approx(40e9).epsilon(1e-12));
  CheckPattern(cluster, both);
  // NVLink inside the node: 450 GB/s, of which NCCL gets 0.8.
  const CollectiveCost inside = PriceTransfer(bytes, {{0, 1}}, cluster, {}, {});
  CHECK(inside.bottleneck == "NVLink");
  CHECK(inside.seconds == doctest::Approx(2e-6 + bytes / 360e9).epsilon(1e-9));
}

TEST_CASE(
    "two collectives on the same NICs slow each other in the event loop, on other NICs they do "
    "not") {
  const Cluster cluster = Named("64xh100-ndr");
  const Profile profile = RoundProfile();
  const auto price = [&](int rail) {
    return PriceCollective(CollectiveKind::kAllGather, 1e9, {Range(rail, 8, 8)}, cluster, profile,
                           {});
  };
  const auto makespan = [&](int a, int b) {
    OpGraph graph;
    for (const int rail : {a, b}) {
      const CollectiveCost cost = price(rail);
      graph.AddTransfer(graph.AddStream(), TimeFromSeconds(cost.seconds),
                        TimeFromSeconds(cost.latency_s), graph.AddPattern(cost.pattern));
    }
    REQUIRE(graph.Finish());
    return RunEventLoop(graph, FabricOf(cluster)).makespan;
  };
  const CollectiveCost alone = price(0);
  CHECK(makespan(0, 1) == TimeFromSeconds(alone.seconds));
  // Two at 42.5 GB/s each want 85 of 50 GB/s: both get 25.
  const double shared = alone.latency_s + 7.0 / 8 * 1e9 / 25e9;
  CHECK(Seconds(makespan(0, 0)) == doctest::Approx(shared).epsilon(1e-9));
}

TEST_CASE(
    "every kind, on every kind of cluster: monotone in bytes, the pattern is the price, more "
    "bandwidth is never slower") {
  const Profile profile = RoundProfile();
  const std::vector<std::pair<std::string, std::vector<RankGroup>>> cases = {
      {"8xh100-hgx", {Range(0, 8)}},       {"8xh100-hgx", {Range(0, 2), Range(2, 2), Range(4, 2)}},
      {"2x4090-pcie", {Range(0, 2)}},      {"4x4090-pcie", {Range(0, 4)}},
      {"4x4090-pcie", {{0, 2}, {1, 3}}},   {"32xa100-hdr", {Range(0, 16), Range(16, 16)}},
      {"32xa100-hdr", Strided(32, 4, 8)},  {"32xa100-hdr", Strided(32, 8, 4)},
      {"64xh100-ndr", Strided(64, 16, 4)}, {"144xgb200-nvl72", {Range(0, 144)}},
      {"144xgb200-nvl72", {Range(0, 64)}},
  };
  for (const auto& [name, groups] : cases) {
    CAPTURE(name);
    const Cluster cluster = Named(name);
    const Cluster faster = cluster.WithScaledLinks(2, 2, 2);
    for (const CollectiveKind kind : kAllKinds) {
      CAPTURE(CollectiveName(kind));
      double before = 0;
      for (const double bytes : {0.0, 1.0, 4096.0, 1e6, 1e8}) {
        const CollectiveCost cost = PriceCollective(kind, bytes, groups, cluster, profile, {});
        CHECK(std::isfinite(cost.seconds));
        CHECK(cost.seconds > 0);
        CHECK(cost.seconds >= before);
        CHECK(cost.latency_s > 0);
        CHECK(cost.latency_s <= cost.seconds);
        CHECK_FALSE(cost.algorithm.empty());
        CHECK_FALSE(cost.bottleneck.empty());
        before = cost.seconds;
        if (bytes >= 1e6) CheckPattern(cluster, cost);
        CHECK(PriceCollective(kind, bytes, groups, faster, profile, {}).seconds <= cost.seconds);
        const CollectiveCost bare =
            PriceCollective(kind, bytes, groups, cluster, profile, {.want_pattern = false});
        CHECK(bare.seconds == cost.seconds);
        CHECK(bare.pattern.flows.empty());
      }
    }
  }
}

TEST_CASE("sixteen thousand GPUs: data parallel rings keep their NIC's rate") {
  const Cluster cluster = Named("16384xh100-ndr");
  const CollectiveCost cost =
      PriceCollective(CollectiveKind::kReduceScatter, 1e9, Strided(16384, 128, 128), cluster,
                      RoundProfile(), {.want_pattern = false});
  // Rail-aligned rings of 128 nodes that are 16 apart. Bounded below by the NIC; leaves and spines
  // may add.
  const double nic_s = 127.0 / 128 * 1e9 / (50e9 * 0.85);
  CHECK(cost.seconds - cost.latency_s >= nic_s * (1 - 1e-9));
  CHECK(cost.seconds - cost.latency_s <= nic_s * 4);
}

}  // namespace
}  // namespace aurum
