#include "sim/network/event_heap.h"

#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "tests/engine/random.h"

namespace aurum {
namespace {

TEST_CASE("events come in the order of (time, order), whatever the order of insertion") {
  Random random(3);
  for (int trial = 0; trial < 50; ++trial) {
    EventHeap<int> heap;
    std::set<std::pair<std::int64_t, std::uint64_t>> model;
    for (int step = 0; step < 400; ++step) {
      if (model.empty() || random() % 5 < 3) {
        const std::int64_t time = random() % 20;  // many ties
        heap.Push({{time}, static_cast<std::uint64_t>(step), step});
        model.emplace(time, step);
      } else {
        const auto event = heap.Pop();
        CHECK(event.time.ps == model.begin()->first);
        CHECK(event.order == model.begin()->second);
        model.erase(model.begin());
      }
      REQUIRE(heap.size() == model.size());
    }
  }
}

TEST_CASE("moved and erased events leave the rest in order") {
  Random random(4);
  for (int trial = 0; trial < 50; ++trial) {
    IndexedEventHeap heap;
    std::set<std::pair<std::int64_t, std::uint32_t>> model;
    std::vector<std::int64_t> time_of(64, -1);
    for (int step = 0; step < 600; ++step) {
      const std::uint32_t slot = random() % 64;
      if (random() % 4 != 0) {
        const std::int64_t time = random() % 30;
        if (time_of[slot] >= 0) model.erase({time_of[slot], slot});
        model.emplace(time, slot);
        time_of[slot] = time;
        heap.Set(slot, {time}, slot);
      } else {
        if (time_of[slot] >= 0) model.erase({time_of[slot], slot});
        time_of[slot] = -1;
        heap.Erase(slot);
      }
      REQUIRE(heap.empty() == model.empty());
      if (model.empty()) continue;
      CHECK(heap.top_time().ps == model.begin()->first);
      CHECK(heap.top_slot() == model.begin()->second);
    }
  }
}

}  // namespace
}  // namespace aurum
