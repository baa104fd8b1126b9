#include "sim/collectives/interference.h"

#include <doctest/doctest.h>

#include "sim/core/units.h"
#include "tests/collectives/fixtures.h"

namespace aurum {
namespace {

Interference Of(CollectiveKind kind, double bytes, const RankGroup& group, const Cluster& cluster,
                const Profile& profile) {
  const CollectiveCost cost =
      PriceCollective(kind, bytes, {group}, cluster, profile, {.want_pattern = false});
  return InterferenceOf(kind, bytes, group, cluster, profile, cost);
}

TEST_CASE("nothing runs, nothing is taken") {
  const Cluster cluster = Named("8xh100-hgx");
  const Profile h100 = NamedProfile("h100");
  for (const CollectiveKind kind : kAllKinds) {
    for (const Interference& none :
         {Of(kind, kGiB, {0}, cluster, h100), Of(kind, 0, Range(0, 8), cluster, h100)}) {
      CHECK(none.sm_share == 0);
      CHECK(none.hbm_bytes_per_s == 0);
      CHECK(ComputeSlowdown(none, h100, 1, 0.5) == 1);
      CHECK(ComputeSlowdown(none, h100, 0, 1) == 1);
      CHECK(WaveSlowdown(none, h100, 133) == 1);
    }
  }
}

TEST_CASE("SMs by what NCCL launches") {
  const Cluster node = Named("8xh100-hgx"), two = Named("16xh100-ndr");
  const Profile h100 = NamedProfile("h100"), a100 = NamedProfile("a100");
  const auto sms = [](const Interference& taken, const Profile& profile) {
    return std::lround(taken.sm_share * profile.device.sm_count);
  };
  CHECK(sms(Of(CollectiveKind::kAllReduce, kGiB, Range(0, 8), node, h100), h100) == 16);  // NVLS
  CHECK(sms(Of(CollectiveKind::kAllGather, kGiB, Range(0, 8), node, h100), h100) == 24);
  CHECK(sms(Of(CollectiveKind::kAllReduce, kGiB, Range(0, 8), Named("8xa100-hgx"), a100), a100) ==
        24);
  CHECK(sms(Of(CollectiveKind::kReduceScatter, kGiB, Range(0, 16), two, h100), h100) == 16);
  CHECK(sms(Of(CollectiveKind::kSendRecv, kGiB, {0, 8}, two, h100), h100) == 2);
  const Profile b200 = NamedProfile("b200");
  CHECK(sms(Of(CollectiveKind::kAllReduce, kGiB, Range(0, 8), Named("8xb200-hgx"), b200), b200) ==
        24);
  const Profile rtx4090 = NamedProfile("rtx4090");
  CHECK(sms(Of(CollectiveKind::kAllReduce, kGiB, Range(0, 4), Named("4x4090-pcie"), rtx4090),
            rtx4090) == 2);
  // 100 KiB: four blocks of 32 KiB.
  CHECK(sms(Of(CollectiveKind::kAllGather, 100 * 1024.0, Range(0, 8), node, h100), h100) == 4);
}

TEST_CASE("memory traffic is what the ring reads and writes") {
  const Cluster node = Named("8xa100-hgx");
  const Profile a100 = NamedProfile("a100");
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    const CollectiveCost cost = PriceCollective(kind, kGiB, {Range(0, 8)}, node, a100, {});
    const Interference taken = InterferenceOf(kind, kGiB, Range(0, 8), node, a100, cost);
    CHECK(Deviation(taken.hbm_bytes_per_s, 3 * cost.bus_bandwidth_bytes_per_s) < 1e-12);
  }
}

TEST_CASE("slowdowns: never below one, more with more, and the longer side decides") {
  const Profile h100 = NamedProfile("h100");
  const double reached = h100.device.memory_bandwidth_bytes_per_s * h100.memory_bound_efficiency;
  const Interference taken{.sm_share = 0.25, .hbm_bytes_per_s = 0.5 * reached};
  CHECK(ComputeSlowdown(taken, h100, 1, 0) == doctest::Approx(1 / 0.75));
  CHECK(ComputeSlowdown(taken, h100, 0, 1) == doctest::Approx(1.5));
  // Compute-bound by a little: the crowded memory becomes the longer side.
  CHECK(ComputeSlowdown(taken, h100, 1, 0.95) == doctest::Approx(1.425));
  for (double share = 0; share < 0.5; share += 0.05) {
    for (double memory = 0; memory < 2; memory += 0.25) {
      const Interference less{share, share * reached};
      const Interference more{share + 0.05, (share + 0.05) * reached};
      CHECK(ComputeSlowdown(less, h100, 1, memory) >= 1);
      CHECK(ComputeSlowdown(more, h100, 1, memory) > ComputeSlowdown(less, h100, 1, memory));
    }
  }
}

TEST_CASE("published: 18.9 % slower on average and 40 % at most on A100 and H100") {
  double sum = 0;
  int count = 0;
  const std::vector<std::pair<std::string, std::string>> nodes = {{"8xa100-hgx", "a100"},
                                                                  {"8xh100-hgx", "h100"}};
  for (const auto& [name, profile_name] : nodes) {
    const Cluster node = Named(name);
    const Profile profile = NamedProfile(profile_name);
    for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                      CollectiveKind::kReduceScatter, CollectiveKind::kSendRecv}) {
      const Interference taken = Of(kind, 256 * kMiB, Range(0, 4), node, profile);
      const double slower = ComputeSlowdown(taken, profile, 1, 0.3) - 1;
      CAPTURE(name);
      CAPTURE(CollectiveName(kind));
      CHECK(slower > 0);
      CHECK(slower <= 0.43);
      sum += slower;
      ++count;
    }
  }
  MESSAGE("compute-bound kernels beside NCCL: ", 100 * sum / count, " % slower, published 18.9 %");
  CHECK(sum / count > 0.1);
  CHECK(sum / count < 0.3);
}

TEST_CASE("published: a GEMM of 132 tiles beside a 24-block all-gather needs a second wave") {
  const Cluster node = Named("8xh100-hgx");
  const Profile h100 = NamedProfile("h100");
  const Interference taken = Of(CollectiveKind::kAllGather, kGiB, Range(0, 8), node, h100);
  CHECK(WaveSlowdown(taken, h100, 132) == 2);  // measured 80 / 47 = 1.7: the other wave is short
  CHECK(WaveSlowdown(taken, h100, 108) == 1);
  // Many waves: the share of the SMs.
  CHECK(WaveSlowdown(taken, h100, 1e6) == doctest::Approx(132.0 / 108).epsilon(1e-3));
}

}  // namespace
}  // namespace aurum
