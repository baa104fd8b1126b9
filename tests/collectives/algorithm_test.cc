#include "sim/collectives/algorithm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "sim/collectives/chunk.h"
#include "sim/core/diagnostic.h"
#include "sim/core/units.h"
#include "tests/collectives/fixtures.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;

constexpr double kNvLink = 450e9 * 0.8;  // what NCCL gets of an H100's, each way
constexpr double kNic = 50e9 * 0.85;     // 400 Gbit/s
constexpr double kIntra = 2e-6;     // a step inside the node: two links of 0.3 µs, 1.4 of software
constexpr double kBetween = 12e-6;  // and on a rail: 2.7 and 9.3

CollectiveCost Price(Algorithm algorithm, Kind kind, double bytes, const RankGroup& group,
                     const Cluster& cluster, double compute_capability = 9.0) {
  return PriceCollective(kind, bytes, {group}, cluster, Unmeasured(compute_capability),
                         {.algorithm = algorithm, .sharp = true});
}

void CheckCost(const CollectiveCost& cost, double latency_s, double flow_s) {
  CHECK(Deviation(cost.latency_s, latency_s) < 1e-9);
  CHECK(Deviation(cost.seconds - cost.latency_s, flow_s) < 1e-9);
}

TEST_CASE("names go both ways; an unknown one says which is near") {
  for (const Algorithm algorithm : NamedAlgorithms())
    CHECK(CollectiveAlgorithmByName(CollectiveAlgorithmName(algorithm)) == algorithm);
  CHECK(CollectiveAlgorithmByName("auto") == Algorithm::kAuto);
  const Diagnostic d = ThrownBy([] { CollectiveAlgorithmByName("halving-dubling"); });
  CHECK(d.code == 561);
  CHECK(d.help.find("did you mean halving-doubling?") == 0);
  CHECK(d.help.find("hierarchical-3") != std::string::npos);
}

TEST_CASE("a named algorithm that does not apply is refused, with what would do") {
  const Cluster node = Named("8xh100-hgx"), box = Named("4x4090-pcie");
  const Cluster cluster = Named("64xh100-ndr");
  struct Case {
    Algorithm algorithm;
    Kind kind;
    RankGroup group;
    const Cluster& cluster;
    double compute_capability;
    std::string why, help;
  };
  const std::vector<Case> cases = {
      {Algorithm::kTree, Kind::kAllGather, Range(0, 8), node, 9, "no such algorithm",
       "auto, or one of: ring, nvls, direct, halving-doubling, hierarchical, hierarchical-3, "
       "pipelined"},
      {Algorithm::kNvls, Kind::kAllReduce, Range(0, 8), node, 8, "compute capability 9.0",
       "ring or tree"},
      {Algorithm::kNvls, Kind::kAllReduce, Range(0, 4), box, 9, "NVSwitch", "ring or tree"},
      {Algorithm::kNvls, Kind::kAllGather, Range(0, 16), cluster, 9, "all_reduce alone",
       "auto or ring"},
      {Algorithm::kHalvingDoubling, Kind::kReduceScatter, Range(0, 6), node, 9, "power of two",
       "2, 4, 8"},
      {Algorithm::kHierarchical, Kind::kAllReduce, Range(0, 8), node, 9, "two or more domains",
       "auto or ring"},
      {Algorithm::kHierarchical3, Kind::kAllReduce, Range(0, 64), cluster, 9, "leaf switches",
       "hierarchical, auto or ring"},
      {Algorithm::kSharp, Kind::kAllReduce, Range(0, 8), node, 9, "two or more domains",
       "auto or ring"},
  };
  for (const Case& c : cases) {
    CAPTURE(CollectiveAlgorithmName(c.algorithm));
    const Diagnostic d = ThrownBy(
        [&] { Price(c.algorithm, c.kind, 1e6, c.group, c.cluster, c.compute_capability); });
    CHECK(d.code == 562);
    CHECK(d.message.find(c.why) != std::string::npos);
    CHECK(d.help.find(c.help) != std::string::npos);
    CHECK(ThrownBy([&] {
            BuildChunks(c.kind, 1e6, c.group, c.cluster, Unmeasured(c.compute_capability),
                        {.algorithm = c.algorithm, .sharp = true});
          }).code == 562);
  }
  const Diagnostic sharp = ThrownBy([&] {
    PriceCollective(Kind::kAllReduce, 1e6, {Range(0, 16)}, cluster, Unmeasured(),
                    {.algorithm = Algorithm::kSharp});
  });
  CHECK(sharp.help.find("in-network reduction") != std::string::npos);
  CHECK(ThrownBy([&] {
          PriceAllToAllV(std::vector<double>(16, 1e6), Range(0, 4), node, Unmeasured(),
                         {.algorithm = Algorithm::kRing});
        }).code == 562);
}

TEST_CASE(
    "two trees: both reach all, two children at most, inner vertices of one are leaves of the "
    "other") {
  for (int n = 1; n <= 130; ++n) {
    CAPTURE(n);
    const std::vector<std::vector<int>> trees{BinaryTree(n), SecondTree(n)};
    std::vector<int> sends(static_cast<std::size_t>(n), 0);
    std::vector<std::vector<int>> children(2, std::vector<int>(static_cast<std::size_t>(n), 0));
    for (std::size_t t = 0; t < 2; ++t) {
      CHECK(std::count(trees[t].begin(), trees[t].end(), -1) == 1);
      int least = 0;  // ⌈log2 n⌉
      while ((1 << least) < n) ++least;
      CHECK(TreeDepth(trees[t]) <= least + 1);
      for (int v = 0; v < n; ++v) {
        int up = v, steps = 0;
        while (trees[t][static_cast<std::size_t>(up)] >= 0 && steps++ <= n)
          up = trees[t][static_cast<std::size_t>(up)];
        CHECK(steps <= n);  // ends at a root
        if (trees[t][static_cast<std::size_t>(v)] < 0) continue;
        ++children[t][static_cast<std::size_t>(trees[t][static_cast<std::size_t>(v)])];
        ++sends[static_cast<std::size_t>(v)];
        ++sends[static_cast<std::size_t>(trees[t][static_cast<std::size_t>(v)])];
      }
    }
    int inner_of_both = 0;
    for (std::size_t v = 0; v < static_cast<std::size_t>(n); ++v) {
      CHECK(children[0][v] <= 2);
      CHECK(children[1][v] <= 2);
      if (children[0][v] > 0 && children[1][v] > 0) ++inner_of_both;
      // Halves sent (as many are received): at most 2 · S where no vertex is inner twice.
      if (n % 2 == 0) CHECK(sends[v] <= 4);
    }
    // With an odd number one vertex may be inner in both.
    CHECK(inner_of_both <= n % 2);
  }
}

TEST_CASE("closed forms inside a node of eight: steps · latency + bytes / rate") {
  const Cluster node = Named("8xh100-hgx");
  const RankGroup all = Range(0, 8);
  const double S = kGiB;
  CheckCost(Price(Algorithm::kRing, Kind::kAllReduce, S, all, node), 14 * kIntra,
            1.75 * S / kNvLink);
  CheckCost(Price(Algorithm::kRing, Kind::kAllGather, S, all, node), 7 * kIntra,
            0.875 * S / kNvLink);
  // Up and down a tree of depth 3; 2 · S through each rank; five more chunks until the last has one.
  const double tree_flow = 2 * S / kNvLink;
  CheckCost(Price(Algorithm::kTree, Kind::kAllReduce, S, all, node),
            6 * kIntra + 5 * tree_flow * kChunkBytes / (S / 2), tree_flow);
  CheckCost(Price(Algorithm::kHalvingDoubling, Kind::kAllReduce, S, all, node), 6 * kIntra,
            1.75 * S / kNvLink);
  CheckCost(Price(Algorithm::kHalvingDoubling, Kind::kReduceScatter, S, all, node), 3 * kIntra,
            0.875 * S / kNvLink);
  // Six ranks: 1 and 3 fold into 0 and 2 and are told; the four others do it in 2 + 2 steps.
  CheckCost(Price(Algorithm::kHalvingDoubling, Kind::kAllReduce, S, Range(0, 6), node), 6 * kIntra,
            (1 + 1.5 + 1) * S / kNvLink);
  CheckCost(Price(Algorithm::kDirect, Kind::kAllReduce, S, all, node), kIntra, 7 * S / kNvLink);
  CheckCost(Price(Algorithm::kDirect, Kind::kAllToAll, S, all, node), kIntra, 0.875 * S / kNvLink);
  // NVLS: S + S / 8 on each link, at 0.85 of what NCCL gets of it; four chunks in the pipeline.
  const double nvls_flow = 1.125 * S / (kNvLink * 0.85);
  CheckCost(Price(Algorithm::kNvls, Kind::kAllReduce, S, all, node),
            25e-6 + 3 * nvls_flow * kChunkBytes / (S / 8), nvls_flow);
  const CollectiveCost gather = Price(Algorithm::kNvls, Kind::kAllGather, S, all, node);
  CHECK(Deviation(gather.seconds - gather.latency_s, S / (kNvLink * 0.85)) < 1e-9);
  // Pipelined: of seven latencies one is left.
  CheckCost(Price(Algorithm::kPipelined, Kind::kAllGather, S, all, node), kIntra,
            0.875 * S / kNvLink);
}

TEST_CASE("closed forms between nodes") {
  const Cluster cluster = Named("64xh100-ndr");
  const double S = 8 * kGiB;
  // One rank a node: the textbook's forms with the NIC's rate.
  const RankGroup rail = Range(0, 8, 8);
  CheckCost(Price(Algorithm::kHalvingDoubling, Kind::kAllReduce, S, rail, cluster), 6 * kBetween,
            1.75 * S / kNic);
  const CollectiveCost tree = Price(Algorithm::kTree, Kind::kAllReduce, S, rail, cluster);
  CHECK(Deviation(tree.seconds - tree.latency_s, 2 * S / kNic) < 1e-9);
  // Two nodes of a tree send each other S once, where a ring of 16 ranks sends 1.875 · S.
  const CollectiveCost pair = Price(Algorithm::kTree, Kind::kAllReduce, S, Range(0, 16), cluster);
  CHECK(Deviation(pair.seconds - pair.latency_s, std::max(S / 8 / kNic, 1.75 * S / kNvLink)) <
        1e-9);
  // Two levels: 7/8 inside, an eighth between, 7/8 inside.
  CheckCost(Price(Algorithm::kHierarchical, Kind::kAllReduce, S, Range(0, 64), cluster),
            14 * kIntra + 14 * kBetween, 1.75 * S / kNvLink + 1.75 * S / 8 / kNic);
  // All-to-all by levels: first to the rank of the right place, then along the rail.
  CheckCost(Price(Algorithm::kHierarchical, Kind::kAllToAll, S, Range(0, 64), cluster),
            kIntra + kBetween, 0.875 * S / kNvLink + 0.875 * S / kNic);
  // The network adds: S / 8 up and S / 8 down each NIC, and 2 · 7/8 · S inside.
  const double sharp_flow = std::max(S / 8 / kNic, 1.75 * S / kNvLink);
  CheckCost(Price(Algorithm::kSharp, Kind::kAllReduce, S, Range(0, 64), cluster),
            2 * (3.7e-6 + 7 * 0.4e-6) + 31e-6 + 3 * sharp_flow * kChunkBytes / (S / 8), sharp_flow);
}

TEST_CASE("three levels: domain, leaf, core") {
  const Cluster cluster = Named("1024xh100-ndr");  // 128 nodes, 32 a leaf and rail
  const double S = 8 * kGiB;
  const CollectiveCost cost =
      Price(Algorithm::kHierarchical3, Kind::kAllReduce, S, Range(0, 1024), cluster);
  CHECK(Deviation(cost.seconds - cost.latency_s, 1.75 * S / kNvLink +
                                                     2 * (31.0 / 32) * S / 8 / kNic +
                                                     2 * (3.0 / 4) * S / 256 / kNic) < 1e-9);
  // Fewer steps between nodes than two levels take: 2 · (31 + 3), not 2 · 127.
  const CollectiveCost two =
      Price(Algorithm::kHierarchical, Kind::kAllReduce, S, Range(0, 1024), cluster);
  CHECK(cost.latency_s < two.latency_s / 3);
}

TEST_CASE("all-to-all with unequal shares: no faster than the busiest port, and as fast") {
  const Cluster cluster = Named("64xh100-ndr");
  const RankGroup rail = Range(0, 8, 8);
  const std::size_t n = rail.size();
  std::uint64_t state = 7;
  for (int round = 0; round < 20; ++round) {
    std::vector<double> bytes(n * n, 0), sent(n, 0), received(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        bytes[i * n + j] = static_cast<double>(state >> 40) * (state >> 62 == 0 ? 0 : 1);
        if (i == j) continue;
        sent[i] += bytes[i * n + j];
        received[j] += bytes[i * n + j];
      }
    }
    const double busiest = std::max(*std::max_element(sent.begin(), sent.end()),
                                    *std::max_element(received.begin(), received.end()));
    const CollectiveCost cost = PriceAllToAllV(bytes, rail, cluster, Unmeasured(), {});
    CHECK(Deviation(cost.seconds - cost.latency_s, busiest / kNic) < 1e-9);
    double moved = 0;
    for (const Flow& flow : cost.pattern.flows) moved += flow.bytes;
    CHECK(Deviation(moved, std::accumulate(sent.begin(), sent.end(), 0.0)) < 1e-12);
    // The steps agree: shares in proportion end together at the busiest port.
    const ChunkRun run =
        RunChunks(BuildAllToAllVChunks(bytes, rail, cluster, Unmeasured(), {}), Fold::kVerify);
    CHECK(run.verified);
    CHECK(Deviation(Seconds(run.makespan), cost.seconds) < 1e-3);
  }
  // Everybody to one.
  std::vector<double> incast(n * n, 0);
  for (std::size_t i = 1; i < n; ++i) incast[i * n] = 1e9;
  const CollectiveCost cost = PriceAllToAllV(incast, rail, cluster, Unmeasured(), {});
  CHECK(Deviation(cost.seconds - cost.latency_s, 7e9 / kNic) < 1e-9);
  // Equal shares are the equal all-to-all, measured or not.
  const Profile h100 = ReadProfile(OpenProfile("h100", "."));
  const Cluster node = Named("8xh100-hgx");
  for (const Profile& profile : {Unmeasured(), h100}) {
    const CollectiveCost equal =
        PriceCollective(Kind::kAllToAll, 8e8, {Range(0, 8)}, node, profile, {});
    const CollectiveCost as_v =
        PriceAllToAllV(std::vector<double>(64, 1e8), Range(0, 8), node, profile, {});
    CHECK(Deviation(as_v.seconds, equal.seconds) < 1e-12);
    CHECK(as_v.algorithm == equal.algorithm);
  }
}

// Bytes on each link.
std::map<std::uint32_t, double> Loads(const TrafficPattern& pattern) {
  std::map<std::uint32_t, double> loads;
  for (const Flow& flow : pattern.flows) {
    for (const std::uint32_t link : flow.links) loads[link] += flow.bytes;
  }
  return loads;
}
std::map<std::uint32_t, double> Loads(const ChunkProgram& program) {
  std::map<std::uint32_t, double> loads;
  for (const ChunkLane& lane : program.lanes) {
    for (const std::uint32_t link : program.HopsOf(lane))
      loads[program.links[link]] += lane.bytes * lane.repeats;
  }
  return loads;
}

TEST_CASE(
    "the steps put the same bytes on every link as the flows; ranks receive what they must; busbw "
    "is below the links' rate") {
  const std::vector<std::pair<std::string, std::vector<RankGroup>>> cases = {
      {"8xh100-hgx", {Range(0, 2), Range(0, 5), Range(0, 8)}},
      {"4x4090-pcie", {Range(0, 4)}},
      {"64xh100-ndr", {Range(0, 16), Range(0, 64), Range(0, 8, 8), Range(0, 16, 4)}}};
  const double S = 1e9;
  for (const auto& [name, groups] : cases) {
    const Cluster cluster = Named(name);
    for (const RankGroup& group : groups) {
      for (const Kind kind : kAllKinds) {
        for (const Algorithm algorithm : NamedAlgorithms()) {
          if (!WhyNot(algorithm, kind, ShapeOf(group, cluster, 0), cluster, 9.0, true).empty())
            continue;
          CAPTURE(name);
          CAPTURE(group.size());
          CAPTURE(CollectiveName(kind));
          CAPTURE(CollectiveAlgorithmName(algorithm));
          const CollectiveCost cost = Price(algorithm, kind, S, group, cluster);
          const ChunkProgram program = BuildChunks(kind, S, group, cluster, Unmeasured(),
                                                   {.algorithm = algorithm, .sharp = true});
          const auto flows = Loads(cost.pattern), steps = Loads(program);
          // A broadcast's ring goes on from where it entered; the flows count the root's detour.
          const bool detour = kind == Kind::kBroadcast && group.size() > 8;
          double off = 0;
          for (const auto& [link, bytes] : flows)
            off = std::max(off, Deviation(steps.contains(link) ? steps.at(link) : 0, bytes));
          if (!detour) CHECK(off < 1e-9);
          if (!detour) CHECK(flows.size() == steps.size());

          const double n = static_cast<double>(group.size());
          std::map<int, double> received;
          for (const ChunkLane& lane : program.lanes)
            received[lane.dst] += lane.bytes * lane.repeats;
          const double needed = kind == Kind::kBroadcast || kind == Kind::kSendRecv ? S
                                : kind == Kind::kReduceScatter                      ? S / n
                                                               : S * (n - 1) / n;
          for (const int rank : group) {
            if (kind == Kind::kBroadcast && rank == group.front()) continue;
            CHECK(received[rank] >= needed * (1 - 1e-9));
          }
          // A ring's busbw is at most what the group's ports give together.
          if (algorithm != Algorithm::kRing) continue;
          const double rails = group == Range(0, 8, 8) ? 1 : group == Range(0, 16, 4) ? 2 : 8;
          const double most = name == "8xh100-hgx"    ? kNvLink
                              : name == "4x4090-pcie" ? 31.5e9 * 0.76
                                                      : rails * kNic;
          CHECK(cost.bus_bandwidth_bytes_per_s <= most);
        }
      }
    }
  }
}

TEST_CASE("the automatic choice: measured inside a domain, else the least of what a library has") {
  const Profile h100 = ReadProfile(OpenProfile("h100", "."));
  const Profile a100 = ReadProfile(OpenProfile("a100", "."));
  const Cluster hopper = Named("64xh100-ndr"), ampere = Named("64xa100-hdr");
  const auto choice = [](Kind kind, double bytes, const RankGroup& group, const Cluster& cluster,
                         const Profile& profile, bool sharp = false) {
    return PriceCollective(kind, bytes, {group}, cluster, profile,
                           {.want_pattern = false, .sharp = sharp})
        .algorithm;
  };
  CHECK(choice(Kind::kAllReduce, 1e9, Range(0, 8), hopper, h100) == "envelope");
  CHECK(ChooseAlgorithm(Kind::kAllReduce, 1e9, Range(0, 8), hopper, h100, {}) == Algorithm::kAuto);
  CHECK(choice(Kind::kAllReduce, 1e3, Range(0, 64), ampere, a100) == "tree");
  CHECK(choice(Kind::kAllReduce, 1e10, Range(0, 64), ampere, a100) == "ring");
  CHECK(choice(Kind::kAllReduce, 1e9, Range(0, 16), hopper, h100) == "nvls");
  CHECK(choice(Kind::kAllReduce, 1e9, Range(0, 8, 8), hopper, h100) == "ring");
  CHECK(choice(Kind::kAllReduce, 1e9, Range(0, 8, 8), hopper, h100, true) == "sharp");
  CHECK(choice(Kind::kAllGather, 1e3, Range(0, 64), hopper, h100) == "ring");
  CHECK(choice(Kind::kAllToAll, 1e3, Range(0, 64), hopper, h100) == "direct");
  // NVLinks that join nodes: NCCL has no NVLS between such domains.
  const Profile gb200 = ReadProfile(OpenProfile("gb200", "."));
  CHECK(choice(Kind::kAllReduce, 1e9, Range(0, 144), Named("144xgb200-nvl72"), gb200) != "nvls");
  // Never more than any candidate by name.
  for (const double bytes : {1e3, 1e6, 1e9}) {
    const double least =
        PriceCollective(Kind::kAllReduce, bytes, {Range(0, 64)}, hopper, h100, {}).seconds;
    for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kNvls})
      CHECK(least <= PriceCollective(Kind::kAllReduce, bytes, {Range(0, 64)}, hopper, h100,
                                     {.algorithm = algorithm})
                         .seconds);
  }
}

TEST_CASE("fewer channels use fewer NICs") {
  const Cluster cluster = Named("64xh100-ndr");
  const auto seconds = [&](int channels) {
    const CollectiveCost cost = PriceCollective(Kind::kAllGather, kGiB, {Range(0, 64)}, cluster,
                                                Unmeasured(), {.channels = channels});
    return cost.seconds - cost.latency_s;
  };
  CHECK(Deviation(seconds(0), 63.0 / 64 * kGiB / (8 * kNic)) < 1e-9);
  CHECK(Deviation(seconds(2), 63.0 / 64 * kGiB / (2 * kNic)) < 1e-9);
  CHECK(seconds(100) == seconds(0));
}

TEST_CASE("adaptive routing spreads what d-mod-k lets collide") {
  // 32 rings of four nodes, a node under each leaf; four NICs for every way up.
  const auto with = [](const std::string& routing) {
    JsonDocument document = OpenCluster("1024xh100-ndr", ".");
    ApplyOverride(&document, "fabric.oversubscription=4");
    ApplyOverride(&document, "fabric.routing=" + routing);
    return ReadCluster(document);
  };
  std::vector<RankGroup> rings;
  for (int g = 0; g < 32; ++g) rings.push_back(Range(8 * g, 4, 8 * 32));
  const Cluster fixed = with("d-mod-k"), spread = with("adaptive");
  const auto flow_s = [](const CollectiveCost& cost) { return cost.seconds - cost.latency_s; };
  const auto price = [&](const Cluster& cluster, const std::vector<RankGroup>& groups) {
    return PriceCollective(Kind::kAllGather, 1e9, groups, cluster, Unmeasured(),
                           {.algorithm = Algorithm::kRing});
  };
  const double alone = flow_s(price(spread, {rings[0]}));
  CHECK(Deviation(alone, 0.75e9 / kNic) < 1e-9);
  CHECK(Deviation(flow_s(price(spread, rings)), 4 * alone) < 1e-9);
  CHECK(flow_s(price(fixed, rings)) >= 4 * alone * (1 - 1e-9));
  const CollectiveCost one = price(spread, {rings[0]});
  double moved = 0;
  for (const Flow& flow : one.pattern.flows) moved += flow.bytes;
  CHECK(Deviation(moved, 4 * 0.75e9) < 1e-9);
  CHECK(one.pattern.flows.size() > 4);
  const CollectiveCost transfer = PriceTransfer(1e9, {{0, 8 * 32}}, spread, Unmeasured(), {});
  CHECK(Deviation(flow_s(transfer), 1e9 / kNic) < 1e-9);
  CHECK(Deviation(AloneSeconds(FabricOf(spread), transfer.pattern), 1e9 / kNic) < 1e-6);
  const Diagnostic d =
      ThrownBy([&] { BuildChunks(Kind::kAllGather, 1e9, rings[0], spread, Unmeasured(), {}); });
  CHECK(d.code == 564);
  CHECK(d.help.find("--level flow") != std::string::npos);
}

TEST_CASE("a price for each group: the bytes of all on the links that it crosses") {
  const Cluster cluster = Named("64xh100-ndr");
  const Profile profile = Unmeasured();
  const std::vector<RankGroup> groups{Range(0, 8, 8), Range(0, 8, 8), Range(1, 8, 8)};
  const auto each = PriceGroups(Kind::kAllGather, 1e9, groups, cluster, profile, {});
  const CollectiveCost alone =
      PriceCollective(Kind::kAllGather, 1e9, {groups[0]}, cluster, profile, {});
  const CollectiveCost all = PriceCollective(Kind::kAllGather, 1e9, groups, cluster, profile, {});
  REQUIRE(each.size() == 3);
  CHECK(Deviation(each[0].seconds - each[0].latency_s, 2 * (alone.seconds - alone.latency_s)) <
        1e-9);
  CHECK(each[1].seconds == each[0].seconds);
  CHECK(each[2].seconds == alone.seconds);
  CHECK(each[0].seconds == all.seconds);
  for (const CollectiveCost& cost : each)
    CHECK(cost.pattern.flows.size() == alone.pattern.flows.size());
  CHECK(each[2].pattern.flows[0].links != each[0].pattern.flows[0].links);
  // One group is one group.
  for (const Kind kind : kAllKinds) {
    const auto one = PriceGroups(kind, 1e8, {Range(0, 16)}, cluster, profile, {});
    const CollectiveCost whole = PriceCollective(kind, 1e8, {Range(0, 16)}, cluster, profile, {});
    CHECK(one[0].seconds == whole.seconds);
    CHECK(one[0].latency_s == whole.latency_s);
    CHECK(one[0].algorithm == whole.algorithm);
    CHECK(one[0].bottleneck == whole.bottleneck);
    CHECK(one[0].pattern.flows.size() == whole.pattern.flows.size());
  }
  // Measured groups that share ranks.
  const Profile h100 = ReadProfile(OpenProfile("h100", "."));
  const auto measured = PriceGroups(Kind::kAllGather, 1e9, {Range(0, 4), Range(0, 4), Range(4, 4)},
                                    cluster, h100, {});
  CHECK(measured[0].seconds > measured[2].seconds);
  CHECK(measured[2].seconds ==
        PriceCollective(Kind::kAllGather, 1e9, {Range(4, 4)}, cluster, h100, {}).seconds);
  CHECK(PriceGroups(Kind::kAllReduce, 1e9, {{0}, {1}}, cluster, h100, {}).size() == 2);

  const auto pairs = PriceTransfers(1e9, {{0, 16}, {8, 16}, {1, 25}, {3, 3}}, cluster, profile, {});
  CHECK(Deviation(pairs[0].seconds - pairs[0].latency_s, 2e9 / kNic) < 1e-9);
  CHECK(Deviation(pairs[2].seconds - pairs[2].latency_s, 1e9 / kNic) < 1e-9);
  CHECK(pairs[3].seconds == 0);
}

}  // namespace
}  // namespace aurum
