#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/collectives/chunk.h"
#include "sim/collectives/chunk_share.h"
#include "sim/network/event_loop.h"
#include "tests/collectives/fixtures.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;

struct FoldCase {
  std::string name;
  ChunkProgram program;
};

ChunkProgram Build(Algorithm algorithm, Kind kind, double bytes, const RankGroup& group,
                   const Cluster& cluster) {
  return BuildChunks(kind, bytes, group, cluster, Unmeasured(),
                     {.algorithm = algorithm, .sharp = true});
}

std::vector<FoldCase> Programs(const Cluster& cluster, double bytes) {
  std::vector<FoldCase> cases;
  const auto add = [&](const std::string& name, Algorithm algorithm, Kind kind,
                       const RankGroup& group) {
    cases.push_back({name, Build(algorithm, kind, bytes, group, cluster)});
  };
  add("ring on a rail", Algorithm::kRing, Kind::kAllReduce, Range(0, 8, 8));
  add("ring", Algorithm::kRing, Kind::kAllReduce, Range(0, 64));
  add("broadcast", Algorithm::kRing, Kind::kBroadcast, Range(0, 64));
  add("tree on a rail", Algorithm::kTree, Kind::kAllReduce, Range(0, 8, 8));
  add("tree", Algorithm::kTree, Kind::kAllReduce, Range(0, 32));
  add("halving-doubling", Algorithm::kHalvingDoubling, Kind::kAllReduce, Range(0, 64));
  add("halving-doubling, 24", Algorithm::kHalvingDoubling, Kind::kAllReduce, Range(0, 24));
  add("hierarchical", Algorithm::kHierarchical, Kind::kAllReduce, Range(0, 64));
  add("direct", Algorithm::kDirect, Kind::kAllToAll, Range(0, 32));
  add("nvls", Algorithm::kNvls, Kind::kAllReduce, Range(0, 32));
  add("sharp", Algorithm::kSharp, Kind::kAllReduce, Range(0, 32));
  add("pipelined", Algorithm::kPipelined, Kind::kAllGather, Range(0, 64));
  return cases;
}

TEST_CASE("folded is unfolded, bit for bit: healthy, with one slow link, with broken NICs") {
  const Cluster cluster = Named("64xh100-ndr");
  for (FoldCase& c : Programs(cluster, 4e6)) {
    CAPTURE(c.name);
    const ChunkRun healthy = RunChunks(c.program, Fold::kVerify);
    CHECK(healthy.verified);
    CHECK_FALSE(healthy.contended);
    CHECK(healthy.lane_classes <= c.program.lanes.size());
    // One link at a third.
    ChunkProgram slow = c.program;
    slow.capacity_bytes_per_s[slow.links.size() / 2] /= 3;
    const ChunkRun with_slow = RunChunks(slow, Fold::kVerify);
    CHECK(with_slow.verified);
    CHECK(with_slow.makespan >= healthy.makespan);
    // One in a hundred links, and at least two, at half.
    ChunkProgram broken = c.program;
    const std::size_t links = broken.links.size();
    std::uint64_t state = 42;
    for (std::size_t i = 0; i < std::max<std::size_t>(2, links / 100); ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      broken.capacity_bytes_per_s[(state >> 33) % links] *= 0.5;
    }
    const ChunkRun with_broken = RunChunks(broken, Fold::kVerify);
    CHECK(with_broken.verified);
    MESSAGE(c.name, ": ", c.program.lanes.size(), " lanes; classes: healthy ", healthy.lane_classes,
            ", one slow link ", with_slow.lane_classes, ", broken NICs ", with_broken.lane_classes,
            std::string(with_broken.contended ? " (contended)" : ""));
  }
}

TEST_CASE("a thousand GPUs with one in a hundred NICs broken: what still folds, folds exactly") {
  const Cluster cluster = Named("1024xh100-ndr");
  struct Large {
    std::string name;
    Algorithm algorithm;
    Kind kind;
    RankGroup group;
    std::size_t healthy;  // classes
  };
  for (const Large& c :
       {Large{"ring on a rail", Algorithm::kRing, Kind::kAllReduce, Range(0, 128, 8), 0},
        Large{"three levels", Algorithm::kHierarchical3, Kind::kAllReduce, Range(0, 1024), 5},
        Large{"direct on a rail", Algorithm::kDirect, Kind::kAllToAll, Range(0, 128, 8), 0},
        Large{"tree on a rail", Algorithm::kTree, Kind::kAllReduce, Range(0, 128, 8), 0}}) {
    CAPTURE(c.name);
    ChunkProgram program = Build(c.algorithm, c.kind, 4e6, c.group, cluster);
    const ChunkRun healthy = RunChunks(program, Fold::kVerify);
    CHECK(healthy.verified);
    if (c.healthy > 0) CHECK(healthy.lane_classes == c.healthy);
    // Every hundredth link into a leaf switch.
    int seen = 0;
    for (std::size_t link = 0; link < program.links.size(); ++link) {
      const Link& l = cluster.links()[program.links[link]];
      if (cluster.vertices()[l.from].kind == VertexKind::kNic && l.kind == LinkKind::kNetwork &&
          seen++ % 100 == 50)
        program.capacity_bytes_per_s[link] /= 2;
    }
    REQUIRE(seen >= 100);
    const ChunkRun broken = RunChunks(program, Fold::kVerify);
    CHECK(broken.verified);
    CHECK(broken.makespan >= healthy.makespan);
    MESSAGE(c.name, ": ", program.lanes.size(), " lanes; classes: healthy ", healthy.lane_classes,
            ", one in a hundred NICs at half rate ", broken.lane_classes);
  }
}

TEST_CASE("what would not end in time or memory is refused") {
  const Cluster cluster = Named("64xh100-ndr");
  CHECK(ThrownBy([&] {
          Build(Algorithm::kRing, Kind::kAllReduce, 1e18, Range(0, 64), cluster);
        }).code == 340);
  const ChunkProgram ring = Build(Algorithm::kRing, Kind::kBroadcast, 1e13, Range(0, 64), cluster);
  OpGraph graph;
  const Diagnostic d = ThrownBy([&] { ExpandChunks(ring, &graph); });
  CHECK(d.code == 341);
  CHECK(d.help.find("--level flow") != std::string::npos);
  CHECK(graph.op_count() == 0);
}

TEST_CASE("folded is unfolded where programs contend") {
  const Cluster cluster = Named("64xh100-ndr");
  const std::vector<std::vector<ChunkProgram>> together = {
      {Build(Algorithm::kRing, Kind::kAllReduce, 1e6, Range(0, 8, 8), cluster),
       Build(Algorithm::kRing, Kind::kAllReduce, 1e6, Range(0, 8, 8), cluster)},
      {Build(Algorithm::kRing, Kind::kAllReduce, 1e6, Range(0, 8, 8), cluster),
       Build(Algorithm::kTree, Kind::kAllReduce, 2e6, Range(0, 8, 8), cluster)},
      {Build(Algorithm::kRing, Kind::kAllGather, 1e6, Range(0, 16), cluster),
       Build(Algorithm::kDirect, Kind::kAllToAll, 3e6, Range(0, 16), cluster),
       Build(Algorithm::kHalvingDoubling, Kind::kAllReduce, 1e6, Range(0, 16), cluster)},
  };
  for (const auto& programs : together) {
    const ChunkProgram all = RunTogether(programs);
    const ChunkRun run = RunChunks(all, Fold::kVerify);
    CHECK(run.contended);
    CHECK(run.verified);
    Time slowest_alone{};
    for (const ChunkProgram& program : programs)
      slowest_alone = std::max(slowest_alone, RunChunks(program).makespan);
    CHECK(run.makespan > slowest_alone);
  }
  // Two equal rings take the bytes' time twice, and the latency once.
  const ChunkRun twice = RunChunks(RunTogether(together[0]));
  const ChunkProgram& ring = together[0][0];
  // The capacity of the narrowest link on the way is the NIC's.
  double narrowest = ring.capacity_bytes_per_s[0];
  for (const double capacity : ring.capacity_bytes_per_s) narrowest = std::min(narrowest, capacity);
  CHECK(twice.lane_classes < 2 * ring.lanes.size());
  CHECK(std::abs(twice.makespan.ps - 14 * (TransmissionTime(ring.lanes[0].bytes, narrowest / 2).ps +
                                           ring.lanes[0].latency.ps)) <= 14);
}

TEST_CASE("events say what max-plus says where nothing contends") {
  const Cluster cluster = Named("64xh100-ndr");
  for (const FoldCase& c : Programs(cluster, 2e6)) {
    CAPTURE(c.name);
    CHECK(RunBySharing(c.program) == RunChunks(c.program, Fold::kOff).lane_end);
  }
}

TEST_CASE("stages that follow each other on a link do not contend with each other") {
  // Halving and doubling use the same links at other times: crowded by the sum, not in the run.
  const Cluster node = Named("8xh100-hgx");
  const ChunkProgram program =
      Build(Algorithm::kHalvingDoubling, Kind::kAllReduce, 1e8, Range(0, 8), node);
  const std::vector<bool> crowded = CrowdedLinks(program);
  CHECK(std::find(crowded.begin(), crowded.end(), true) != crowded.end());
  CHECK_FALSE(RunChunks(program, Fold::kOff).contended);
}

// The engine's own loop over the expanded steps.
Schedule RunExpanded(const std::vector<ChunkProgram>& programs, const Fabric& fabric,
                     Time late = {}) {
  OpGraph graph;
  for (const ChunkProgram& program : programs) {
    const ExpandedChunks expanded = ExpandChunks(program, &graph);
    CHECK(std::is_sorted(expanded.ranks.begin(), expanded.ranks.end()));
    CHECK(expanded.entry.size() == expanded.ranks.size());
    if (late.ps > 0)
      graph.AddDependency(graph.AddOp(graph.AddStream(), late), expanded.entry.front());
  }
  REQUIRE(graph.Finish());
  return RunEventLoop(graph, fabric);
}

TEST_CASE("expanded into a graph, every algorithm takes the same time in the engine") {
  const Cluster cluster = Named("64xh100-ndr");
  const Fabric fabric = FabricOf(cluster);
  for (const FoldCase& c : Programs(cluster, 2e6)) {
    CAPTURE(c.name);
    const ChunkRun run = RunChunks(c.program, Fold::kOff);
    OpGraph graph;
    const ExpandedChunks expanded = ExpandChunks(c.program, &graph);
    REQUIRE(graph.Finish());
    const Schedule schedule = EvaluateMaxPlus(graph);
    CHECK(schedule.makespan == run.makespan);
    // A rank is done when its last lane is.
    for (std::size_t i = 0; i < expanded.ranks.size(); ++i) {
      Time last{};
      for (std::size_t l = 0; l < c.program.lanes.size(); ++l) {
        const ChunkLane& lane = c.program.lanes[l];
        if (lane.src == expanded.ranks[i] || lane.dst == expanded.ranks[i])
          last = std::max(last, run.lane_end[l]);
      }
      CHECK(schedule.end[expanded.exit[i]] == last);
    }
    CHECK(RunEventLoop(graph, fabric).makespan == run.makespan);
  }
  // A rank that comes late holds up the ring by as much.
  const ChunkProgram ring = Build(Algorithm::kRing, Kind::kAllReduce, 1e6, Range(0, 8, 8), cluster);
  const Time late{123'456'789};
  CHECK(RunExpanded({ring}, fabric, late).makespan == RunChunks(ring).makespan + late);
}

TEST_CASE("contended programs take the same time in the engine, to its rounding") {
  const Cluster cluster = Named("64xh100-ndr");
  const Fabric fabric = FabricOf(cluster);
  const auto on_fabric = [&](ChunkProgram program) {
    for (std::size_t link = 0; link < program.links.size(); ++link)
      program.capacity_bytes_per_s[link] = fabric.capacity_bytes_per_s[program.links[link]];
    return program;
  };
  const std::vector<std::vector<ChunkProgram>> together = {
      {Build(Algorithm::kRing, Kind::kAllReduce, 1e6, Range(0, 8, 8), cluster),
       Build(Algorithm::kRing, Kind::kAllReduce, 1e6, Range(0, 8, 8), cluster)},
      {Build(Algorithm::kRing, Kind::kAllReduce, 1e6, Range(0, 8, 8), cluster),
       Build(Algorithm::kTree, Kind::kAllReduce, 2e6, Range(0, 8, 8), cluster)},
  };
  for (const auto& programs : together) {
    std::vector<ChunkProgram> raw;
    for (const ChunkProgram& program : programs) raw.push_back(on_fabric(program));
    const ChunkRun run = RunChunks(RunTogether(raw));
    CHECK(run.contended);
    const Schedule schedule = RunExpanded(programs, fabric);
    CHECK(Deviation(Seconds(schedule.makespan), Seconds(run.makespan)) < 1e-6);
  }
}

}  // namespace
}  // namespace aurum
