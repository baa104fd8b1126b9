#include "sim/network/event_heap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "sim/network/radix_heap.h"

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

// What an event list is asked, in the hold model: pop the earliest, push one or two later.
template <typename List>
std::vector<std::pair<std::int64_t, std::uint64_t>> Hold(std::uint32_t seed, std::int64_t spread,
                                                         int pending, int steps) {
  Random random(seed);
  List list;
  std::uint64_t order = 0;
  const auto push = [&](std::int64_t now) {
    // Not in the order of insertion; zero is common.
    const std::int64_t time = now + random() % static_cast<std::uint32_t>(spread);
    list.Push({{time}, (std::uint64_t{random()} << 32) | order, static_cast<int>(order)});
    ++order;
  };
  for (int i = 0; i < pending; ++i) push(0);
  std::vector<std::pair<std::int64_t, std::uint64_t>> popped;
  for (int step = 0; step < steps; ++step) {
    REQUIRE(!list.empty());
    const Time next = list.top_time();
    const auto event = list.Pop();
    REQUIRE(event.time == next);
    popped.emplace_back(event.time.ps, event.order);
    for (std::uint32_t i = random() % 3; i > 0; --i) push(event.time.ps);
    if (list.size() < 2) push(event.time.ps);
  }
  while (!list.empty()) {
    const auto event = list.Pop();
    popped.emplace_back(event.time.ps, event.order);
  }
  return popped;
}

struct StandardQueue {
  using Event = EventHeap<int>::Event;
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };
  bool empty() const { return queue.empty(); }
  std::size_t size() const { return queue.size(); }
  Time top_time() const { return queue.top().time; }
  void Push(const Event& event) { queue.push(event); }
  Event Pop() {
    const Event event = queue.top();
    queue.pop();
    return event;
  }
  std::priority_queue<Event, std::vector<Event>, Later> queue;
};

TEST_CASE("every event list pops the same sequence, with few ties and with many") {
  for (const std::int64_t spread : {1L, 2L, 8L, 1000L, 2'000'000'000L}) {
    for (const int pending : {1, 10, 1000}) {
      const auto expected = Hold<StandardQueue>(7, spread, pending, 3000);
      CHECK(Hold<EventHeap<int>>(7, spread, pending, 3000) == expected);
      CHECK(Hold<RadixHeap<int>>(7, spread, pending, 3000) == expected);
    }
  }
}

TEST_CASE(
    "a radix heap takes events that are earlier than the next one, and than one it peeked at") {
  RadixHeap<int> heap;
  heap.Push({{1000}, 1, 1});
  heap.Push({{3'000'000'000'000}, 2, 2});
  CHECK(heap.top_time() == Time{1000});
  heap.Push({{500}, 3, 3});
  CHECK(heap.top_time() == Time{500});
  CHECK(heap.Pop().payload == 3);
  heap.Push({{500}, 9, 4});
  heap.Push({{500}, 8, 5});
  CHECK(heap.Pop().payload == 5);
  heap.Push({{500}, 7, 6});
  CHECK(heap.top().payload == 6);
  CHECK(heap.Pop().payload == 6);
  CHECK(heap.Pop().payload == 4);
  CHECK(heap.Pop().payload == 1);
  CHECK(heap.Pop().payload == 2);
  CHECK(heap.empty());
  heap.Push({kTimeMax, 1, 1});
  CHECK(heap.Pop().time == kTimeMax);
  heap.Clear();
  heap.Push({{0}, 1, 1});
  CHECK(heap.size() == 1);
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
