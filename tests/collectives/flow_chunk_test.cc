#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/collectives/chunk.h"
#include "sim/core/units.h"
#include "sim/network/event_loop.h"
#include "tests/collectives/fixtures.h"

namespace aurum {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;

TEST_CASE(
    "undisturbed and large, the flow level is within 2 % of every step: kinds, algorithms, 2 to 64 "
    "ranks") {
  const std::vector<std::pair<std::string, std::vector<RankGroup>>> cases = {
      {"8xh100-hgx", {Range(0, 2), Range(0, 3), Range(0, 5), Range(0, 8)}},
      {"4x4090-pcie", {Range(0, 2), Range(0, 4)}},
      {"64xh100-ndr",
       {Range(0, 2, 8),
        Range(0, 7, 8),
        Range(0, 8, 8),
        Range(0, 16),
        Range(0, 24),
        Range(0, 40),
        Range(0, 64),
        Range(0, 16, 4),
        {0, 1, 2, 3, 8, 9, 16}}},
      {"1024xh100-ndr", {Range(0, 64, 16)}}};
  int compared = 0;
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
          const CollectiveOptions options{
              .want_pattern = false, .algorithm = algorithm, .sharp = true};
          const CollectiveCost flow =
              PriceCollective(kind, 8 * kGiB, {group}, cluster, Unmeasured(), options);
          const ChunkRun chunk =
              RunChunks(BuildChunks(kind, 8 * kGiB, group, cluster, Unmeasured(), options));
          CHECK_FALSE(chunk.contended);
          CHECK(Deviation(flow.seconds, Seconds(chunk.makespan)) < 0.02);
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 250);
}

TEST_CASE("steps of a measured collective take the measured time") {
  const Cluster node = Named("8xh100-hgx");
  const Profile h100 = ReadProfile(OpenProfile("h100", "."));
  for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll,
                          Kind::kBroadcast}) {
    for (const double bytes : {1e3, 1e6, 1e9}) {
      for (const int ranks : {2, 6, 8}) {
        CAPTURE(CollectiveName(kind));
        CAPTURE(bytes);
        const CollectiveCost cost = PriceCollective(kind, bytes, {Range(0, ranks)}, node, h100, {});
        const ChunkProgram program = BuildChunks(kind, bytes, Range(0, ranks), node, h100, {});
        const ChunkRun run = RunChunks(program, Fold::kVerify);
        CHECK(run.verified);
        CHECK_FALSE(run.contended);
        // Each item rounds its latency and its bytes to the picosecond.
        CHECK(std::abs(Seconds(run.makespan) - cost.seconds) <
              2e-12 * static_cast<double>(program.lanes[0].repeats + program.lanes.size()));
      }
    }
  }
}

// Several collectives at once on the cluster's own links: seconds until the last has ended.
struct Job {
  Algorithm algorithm;
  Kind kind;
  double bytes;
  RankGroup group;
};

double FlowSeconds(const std::vector<Job>& jobs, const Cluster& cluster, const Fabric& fabric) {
  OpGraph graph;
  if (jobs.size() == 1) {
    // The event loop takes the duration of a transfer that meets no other as given, whatever the
    // fabric has; here the fabric is not the one that was priced.
    const CollectiveCost cost =
        PriceCollective(jobs[0].kind, jobs[0].bytes, {jobs[0].group}, cluster, Unmeasured(),
                        {.algorithm = jobs[0].algorithm});
    return cost.latency_s + AloneSeconds(fabric, cost.pattern);
  }
  for (const Job& job : jobs) {
    const CollectiveCost cost = PriceCollective(job.kind, job.bytes, {job.group}, cluster,
                                                Unmeasured(), {.algorithm = job.algorithm});
    graph.AddTransfer(graph.AddStream(), TimeFromSeconds(cost.seconds),
                      TimeFromSeconds(cost.latency_s), graph.AddPattern(cost.pattern));
  }
  REQUIRE(graph.Finish());
  return Seconds(RunEventLoop(graph, fabric).makespan);
}

double ChunkSeconds(const std::vector<Job>& jobs, const Cluster& cluster, const Fabric& fabric) {
  std::vector<ChunkProgram> programs;
  for (const Job& job : jobs) {
    programs.push_back(BuildChunks(job.kind, job.bytes, job.group, cluster, Unmeasured(),
                                   {.algorithm = job.algorithm}));
    ChunkProgram& program = programs.back();
    for (std::size_t link = 0; link < program.links.size(); ++link)
      program.capacity_bytes_per_s[link] = fabric.capacity_bytes_per_s[program.links[link]];
  }
  return Seconds(RunChunks(RunTogether(programs)).makespan);
}

TEST_CASE("disturbed, the flow level is off by as much as the handbook says") {
  const Cluster cluster = Named("64xh100-ndr");
  const Fabric fabric = FabricOf(cluster);
  const RankGroup rail = Range(0, 8, 8);
  const double S = 256 * kMiB;
  struct Case {
    std::string name;
    std::vector<Job> jobs;
    const Cluster& cluster;
    Fabric fabric;
    double least, most;  // of flow / chunk - 1
  };
  std::vector<Case> cases;
  const Job ring{Algorithm::kRing, Kind::kAllReduce, S, rail};
  cases.push_back({"two rings on the same NICs", {ring, ring}, cluster, fabric, -0.01, 0.01});
  Job half = ring;
  half.bytes = S / 2;
  cases.push_back(
      {"a ring beside one of half the bytes", {ring, half}, cluster, fabric, -0.02, 0.02});
  Fabric slow = fabric;
  for (const int id : cluster.Route(8, 16)) {
    if (cluster.links()[id].kind == LinkKind::kNetwork) slow.capacity_bytes_per_s[id] /= 2;
  }
  cases.push_back({"a ring with one link at half rate", {ring}, cluster, slow, -0.02, 0.02});
  cases.push_back({"a tree with one link at half rate",
                   {{Algorithm::kTree, Kind::kAllReduce, S, rail}},
                   cluster,
                   slow,
                   -0.02,
                   0.02});
  cases.push_back({"a tree beside a ring",
                   {ring, {Algorithm::kTree, Kind::kAllReduce, S, rail}},
                   cluster,
                   fabric,
                   -0.01,
                   0.01});
  cases.push_back({"halving-doubling beside a ring",
                   {ring, {Algorithm::kHalvingDoubling, Kind::kAllReduce, S, rail}},
                   cluster,
                   fabric,
                   0.04,
                   0.08});
  cases.push_back({"two levels beside a ring on one rail",
                   {{Algorithm::kHierarchical, Kind::kAllReduce, 8 * S, Range(0, 64)}, ring},
                   cluster,
                   fabric,
                   -0.19,
                   -0.13});
  cases.push_back({"all-to-all beside a ring",
                   {ring, {Algorithm::kDirect, Kind::kAllToAll, S, rail}},
                   cluster,
                   fabric,
                   -0.02,
                   0.02});
  JsonDocument document = OpenCluster("1024xh100-ndr", ".");
  ApplyOverride(&document, "fabric.oversubscription=4");
  const Cluster thin = ReadCluster(document);
  std::vector<Job> many;
  for (int g = 0; g < 32; ++g)
    many.push_back({Algorithm::kRing, Kind::kAllReduce, S, Range(8 * g, 4, 8 * 32)});
  cases.push_back(
      {"rings across an oversubscribed fat tree", many, thin, FabricOf(thin), -0.01, 0.01});

  for (const Case& c : cases) {
    CAPTURE(c.name);
    const double flow = FlowSeconds(c.jobs, c.cluster, c.fabric);
    const double chunk = ChunkSeconds(c.jobs, c.cluster, c.fabric);
    MESSAGE(c.name, ": flow ", flow * 1e3, " ms, chunk ", chunk * 1e3, " ms, ",
            100 * (flow / chunk - 1), " %");
    CHECK(flow / chunk - 1 > c.least);
    CHECK(flow / chunk - 1 < c.most);
  }
}

TEST_CASE("an all-to-all without a plan: messages that share fairly end with the busiest port") {
  // Shares in proportion to the bytes end together at the busiest port, the least that any schedule
  // takes. Fair shares (max-min) end the short messages first, but keep that port busy too.
  const Cluster cluster = Named("64xh100-ndr");
  const RankGroup rail = Range(0, 8, 8);
  const std::size_t n = rail.size();
  struct Case {
    std::string name;
    std::vector<double> bytes;
    double most;  // of fair / planned - 1
  };
  std::vector<double> incast(n * n, 0), skewed(n * n, 32e6), random(n * n);
  std::uint64_t state = 11;
  for (std::size_t i = 0; i < n; ++i) {
    if (i > 0) incast[i * n] = 32e6;
    skewed[i * n] = 128e6;  // an expert that all like
    for (std::size_t j = 0; j < n; ++j) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      random[i * n + j] = static_cast<double>(state >> 39);
    }
  }
  for (const Case& c : {Case{"incast", incast, 1e-3}, Case{"one popular expert", skewed, 1e-3},
                        Case{"random shares", random, 1e-3}}) {
    const CollectiveCost flow = PriceAllToAllV(c.bytes, rail, cluster, Unmeasured(), {});
    ChunkProgram program = BuildAllToAllVChunks(c.bytes, rail, cluster, Unmeasured(), {});
    for (ChunkLane& lane : program.lanes) lane.cap_bytes_per_s = 0;
    const ChunkRun fair = RunChunks(program, Fold::kVerify);
    CHECK(fair.verified);
    CHECK(fair.contended);
    const double later = Seconds(fair.makespan) / flow.seconds - 1;
    MESSAGE(c.name, ": flow ", flow.seconds * 1e3, " ms, fair ", Seconds(fair.makespan) * 1e3,
            " ms, ", 100 * (flow.seconds / Seconds(fair.makespan) - 1), " %");
    CHECK(later > -1e-3);
    CHECK(later < c.most);
  }
}

}  // namespace
}  // namespace aurum
