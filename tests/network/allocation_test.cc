// The event loop allocates while it warms up, not per event. Its own program, since it counts every
// allocation.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "sim/network/event_loop.h"

#include "tests/engine/random.h"

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace aurum {
namespace {

// Allocations of a run of 100 closed-loop chains on a star of 64 hosts.
std::size_t Count(int length, bool share_from_start, bool pairs) {
  Random random(1);
  OpGraph graph;
  for (int chain = 0; chain < 100; ++chain) {
    const StreamId stream = graph.AddStream();
    for (int i = 0; i < length; ++i) {
      TrafficPattern pattern;
      for (int f = pairs ? 2 : 1; f > 0; --f) {
        const std::uint32_t src = random() % 64, dst = (src + 1 + random() % 63) % 64;
        pattern.flows.push_back(Flow{{2 * src, 2 * dst + 1}, 1e6 * (1 + random() % 100)});
      }
      const PatternId id = graph.AddPattern(pattern);
      graph.AddTransfer(stream, TimeFromSeconds(0.01), {1000}, id);
    }
  }
  graph.Finish();
  const Fabric fabric{std::vector<double>(128, 10e9)};
  const std::size_t before = allocations;
  const Schedule schedule = RunEventLoop(graph, fabric, {.share_from_start = share_from_start});
  CHECK(schedule.makespan > Time{0});
  return allocations - before;
}

TEST_CASE("ten times the events: no allocation more, but for vectors that double") {
  for (const bool from_start : {false, true}) {
    for (const bool pairs : {false, true}) {
      const std::size_t few = Count(20, from_start, pairs);
      const std::size_t many = Count(200, from_start, pairs);
      CHECK(many < few + 300);
      CHECK(many < 3000);
    }
  }
}

}  // namespace
}  // namespace aurum
