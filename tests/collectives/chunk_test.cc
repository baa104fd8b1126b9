#include "sim/collectives/chunk.h"

#include <doctest/doctest.h>

#include <map>
#include <utility>
#include <vector>

#include "sim/collectives/chunk_share.h"
#include "sim/core/units.h"
#include "tests/collectives/fixtures.h"

namespace aurum {
namespace {

TEST_CASE("the textbook's ring: 2 (N - 1) (S / N / rate + latency), to the picosecond") {
  // N, and what 1 GiB over 50e9 B/s at 500 ns a hop takes.
  const std::vector<std::pair<int, std::int64_t>> known = {{8, 37'587'964'000},
                                                           {64, 42'341'584'000},
                                                           {256, 43'036'901'000},
                                                           {512, 43'376'787'000},
                                                           {1024, 43'930'730'000}};
  for (const auto& [ranks, rounded] : known) {
    CAPTURE(ranks);
    const ChunkProgram ring =
        BuildUniformRing(CollectiveKind::kAllReduce, kGiB, ranks, 50e9, {500'000});
    const Time step = TransmissionTime(kGiB / ranks, 50e9) + Time{500'000};
    for (const Fold fold : {Fold::kOff, Fold::kOn, Fold::kVerify}) {
      const ChunkRun run = RunChunks(ring, fold);
      CHECK(run.makespan.ps == 2 * (ranks - 1) * step.ps);
      CHECK(Deviation(Seconds(run.makespan), 2 * (ranks - 1) * (kGiB / ranks / 50e9 + 500e-9)) <
            1e-12 * 2 * ranks);
      CHECK(run.items == static_cast<std::uint64_t>(ranks) * 2 * (ranks - 1));
      CHECK(run.lane_classes == (fold == Fold::kOff ? static_cast<std::size_t>(ranks) : 1));
      CHECK_FALSE(run.contended);
      CHECK(run.verified);
      CHECK(std::abs(run.makespan.ps - rounded) <= 500);
    }
  }
}

TEST_CASE("latency delays items and does not occupy the lane") {
  // Two lanes in a row, ten items of 1 µs each, 5 µs of latency: the second one's last item ends
  // 5 + 10 + 5 + 1 µs after the start.
  ChunkProgram program;
  program.lanes.push_back({.src = 0,
                           .dst = 1,
                           .bytes = 1000,
                           .repeats = 10,
                           .latency = {5'000'000},
                           .cap_bytes_per_s = 1e9});
  program.lanes.push_back({.src = 1,
                           .dst = 2,
                           .bytes = 1000,
                           .repeats = 10,
                           .latency = {5'000'000},
                           .cap_bytes_per_s = 1e9,
                           .first_wait = 0,
                           .wait_count = 1});
  program.waits = {{0, 0}};
  CHECK(RunChunks(program, Fold::kVerify).makespan.ps == 21'000'000);
  CHECK(RunBySharing(program)[1].ps == 21'000'000);
}

}  // namespace
}  // namespace aurum
