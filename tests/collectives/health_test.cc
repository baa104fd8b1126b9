#include "sim/collectives/health.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/core/text_file.h"
#include "sim/core/units.h"
#include "tests/collectives/fixtures.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// What a test would print if it took `factor` of the time that `cluster` should take.
NcclTestRun RunOn(const Cluster& cluster, const Profile& profile, CollectiveKind kind, int gpus,
                  const ExpectOptions& options, double factor = 1) {
  NcclTestRun run;
  for (double bytes = kMiB; bytes <= 4 * kGiB; bytes *= 4) {
    NcclTestRow& row = run.rows.emplace_back();
    row.bytes = bytes;
    row.type = "float";
    row.out_of_place_s = factor * Expect(kind, gpus, {bytes}, cluster, profile, options)[0].seconds;
  }
  return run;
}

bool Names(const Health& health, const std::string& part) {
  return !health.causes.empty() && health.causes[0].find(part) != std::string::npos;
}

TEST_CASE("what is expected is healthy, everywhere") {
  for (const auto& [name, gpus] : std::vector<std::pair<std::string, int>>{{"8xh100-hgx", 8},
                                                                           {"8xa100-hgx", 5},
                                                                           {"64xh100-ndr", 64},
                                                                           {"4x4090-pcie", 4},
                                                                           {"8xl40s-pcie", 2},
                                                                           {"72xgb200-nvl72", 72},
                                                                           {"32xb200-efa", 32}}) {
    const Cluster cluster = Named(name);
    const Profile profile = NamedProfile(cluster.gpu.profile);
    for (const CollectiveKind kind : kAllKinds) {
      CAPTURE(name);
      CAPTURE(CollectiveName(kind));
      const Health health =
          Examine(RunOn(cluster, profile, kind, gpus, {}), kind, gpus, cluster, profile, {});
      CHECK(health.verdict == HealthVerdict::kHealthy);
      CHECK(health.share == doctest::Approx(1));
      CHECK(health.causes.empty());
      CHECK(health.below_from_bytes == 0);
    }
  }
}

TEST_CASE("a fault that is put in is the cause that is named") {
  const CollectiveKind all_reduce = CollectiveKind::kAllReduce;
  const Cluster node = Named("8xh200-hgx");
  const Profile h200 = NamedProfile("h200");
  const Health ring =
      Examine(RunOn(node, h200, all_reduce, 8, {.nvls = false}), all_reduce, 8, node, h200, {});
  CHECK(ring.verdict == HealthVerdict::kBelow);
  CHECK(Names(ring, "ring instead of NVLS"));
  CHECK(ring.share == doctest::Approx(0.76).epsilon(0.03));  // measured: 365 of 480

  const Cluster two = Named("64xh100-ndr");
  const Profile h100 = NamedProfile("h100");
  const CollectiveKind gather = CollectiveKind::kAllGather;
  const Cluster without = two.WithScaledLinks(1, 1, 4.0 / 8);
  const Health rails = Examine(RunOn(without, h100, gather, 64, {}), gather, 64, two, h100, {});
  CHECK(rails.verdict == HealthVerdict::kBelow);
  CHECK(Names(rails, "4 of 8 rails missing"));
  Cluster tcp = two.WithScaledLinks(1, 1, 1.0 / 8);
  tcp.transport = Transport::kTcp;
  const Health sockets = Examine(RunOn(tcp, h100, gather, 64, {}), gather, 64, two, h100, {});
  CHECK(Names(sockets, "TCP over one interface"));

  Profile bare;
  bare.device = h200.device;
  const Cluster pcie = node.WithScaledLinks(63.0 / 450, 1, 1);
  const Health slow =
      Examine(RunOn(pcie, bare, gather, 8, {.nvls = false}), gather, 8, node, h200, {});
  CHECK(Names(slow, "PCIe instead of NVLink"));

  // Nothing of the kind: said so, with what to look at.
  const Health odd = Examine(RunOn(node, h200, gather, 8, {}, 1.6), gather, 8, node, h200, {});
  CHECK(odd.verdict == HealthVerdict::kBelow);
  CHECK(Names(odd, "none of the usual ones fits"));
}

TEST_CASE("wrong results and types that switches do not add") {
  const Cluster node = Named("8xh100-hgx");
  const Profile h100 = NamedProfile("h100");
  NcclTestRun run = RunOn(node, h100, CollectiveKind::kAllReduce, 8, {.nvls = false});
  for (NcclTestRow& row : run.rows) row.type = "int8";
  run.rows[1].wrong = true;
  const Health health = Examine(run, CollectiveKind::kAllReduce, 8, node, h100, {});
  CHECK(health.verdict == HealthVerdict::kHealthy);
  CHECK(health.wrong);
  CHECK(health.sizes[1].wrong);
  for (const SizeHealth& size : health.sizes) CHECK(size.expected.algorithm != "nvls");
}

TEST_CASE("published problems: which are called healthy, which not") {
  const std::string path = SharedPath("data/measured/cases.json");
  if (path.empty()) return;
  const nlohmann::json document = nlohmann::json::parse(ReadTextFile(path));
  const Profile a100 = NamedProfile("a100"), h100 = NamedProfile("h100"),
                h200 = NamedProfile("h200");
  int seen = 0;
  for (const auto& row : document) {
    const std::string id = row["id"].get<std::string>();
    if (id.rfind("issue-ncclt-169-", 0) == 0) {
      // 8 × 100 Gbit/s RoCE: two nodes reach what their NICs carry, more fall off.
      ++seen;
      const int nodes = row["hardware"]["nodes"].get<int>();
      const double busbw = row["observed"]["busbw_gbs"].get<double>() * 1e9;
      const Cluster cluster = Named(std::to_string(8 * nodes) + "xa100-roce-100");
      NcclTestRun run;
      for (const double bytes : {kGiB, 8 * kGiB}) {
        NcclTestRow& at = run.rows.emplace_back();
        at.bytes = bytes;
        at.out_of_place_s = bytes * BusFactor(CollectiveKind::kAllReduce, 8 * nodes) / busbw;
      }
      const Health health = Examine(run, CollectiveKind::kAllReduce, 8 * nodes, cluster, a100, {});
      MESSAGE(id, ": ", busbw / 1e9, " GB/s of ",
              health.sizes.back().expected.busbw_bytes_per_s / 1e9, ": ",
              VerdictName(health.verdict));
      CHECK((health.verdict == HealthVerdict::kBelow) == (nodes > 2));
    } else if (id == "issue-nccl-1357") {
      // One GPU a node does not drive four NICs: 50 of the 200 GB/s that its owner hoped for.
      ++seen;
      const Cluster cluster = Named("16xh100-ndr");
      const Expectation at =
          Expect(CollectiveKind::kAllReduce, RankGroup{0, 8}, {kGiB}, cluster, h100, {})[0];
      MESSAGE(id, ": 50 GB/s measured, expected ", at.busbw_bytes_per_s / 1e9);
      CHECK(at.busbw_bytes_per_s > 40e9);
      CHECK(at.busbw_bytes_per_s < 51e9);
    } else if (id == "mlengineering-h200") {
      ++seen;
      const Expectation at =
          Expect(CollectiveKind::kAllReduce, 8, {16 * kGiB}, Named("8xh200-hgx"), h200, {})[0];
      CHECK(Deviation(at.busbw_bytes_per_s, row["observed"]["max_busbw_gbs"].get<double>() * 1e9) <
            0.03);
    } else if (id == "vtrain-allreduce-a100-8") {
      ++seen;
      for (const auto& [size, point] : row["observed"]["points"].items()) {
        const double bytes = std::stod(size);
        if (bytes < 16 * kMiB) continue;
        const Expectation at =
            Expect(CollectiveKind::kAllReduce, 8, {bytes}, Named("8xa100-hgx"), a100, {})[0];
        CAPTURE(size);
        CHECK(Deviation(at.seconds, point["time_ns"].get<double>() * 1e-9) < 0.15);
      }
    }
  }
  CHECK(seen == 8);
}

}  // namespace
}  // namespace aurum
