#include "sim/core/parallel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace aurum {
namespace {

TEST_CASE("every index once, no thread number twice at the same time") {
  for (const int jobs : {1, 2, 5}) {
    std::vector<std::atomic<int>> seen(1000);
    std::vector<std::atomic<int>> busy(ThreadsOf(jobs));
    std::atomic<bool> alone{true};
    InParallel(seen.size(), jobs, [&](std::size_t thread, std::size_t i) {
      if (++busy.at(thread) != 1) alone = false;
      ++seen[i];
      --busy[thread];
    });
    for (const std::atomic<int>& times : seen) CHECK(times == 1);
    CHECK(alone);
  }
  InParallel(0, 3, [](std::size_t, std::size_t) { FAIL("there is nothing to do"); });
}

TEST_CASE("an exception comes out, and nothing more is begun") {
  for (const int jobs : {1, 4}) {
    std::atomic<int> begun{0};
    CHECK_THROWS_AS(InParallel(100'000, jobs,
                               [&](std::size_t, std::size_t) {
                                 ++begun;
                                 throw std::runtime_error("no");
                               }),
                    std::runtime_error);
    CHECK(begun <= jobs);
  }
}

}  // namespace
}  // namespace aurum
