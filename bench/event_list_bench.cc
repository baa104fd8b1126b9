// Future event lists in the hold model: pop the earliest, push one some time later.
// Arguments: events pending; 0 = few ties (times spread over a microsecond per pending event's
// share), 1 = many (8 durations, as a plan has).

#include <benchmark/benchmark.h>

#include <cstdint>
#include <queue>
#include <random>
#include <vector>

#include "sim/network/event_heap.h"
#include "sim/network/radix_heap.h"

namespace aurum {
namespace {

using Event = EventHeap<std::uint32_t>::Event;

struct StandardQueue {
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.order > b.order;
    }
  };
  void Push(const Event& event) { queue.push(event); }
  Event Pop() {
    const Event event = queue.top();
    queue.pop();
    return event;
  }
  std::priority_queue<Event, std::vector<Event>, Later> queue;
};

// The list that completions live in, which can also move events: here each slot has one.
struct Indexed {
  void Push(const Event& event) { heap.Set(event.payload, event.time, event.order); }
  Event Pop() {
    const Event event{heap.top_time(), 0, heap.top_slot()};
    heap.Erase(event.payload);
    return event;
  }
  IndexedEventHeap heap;
};

std::vector<std::int64_t> Steps(bool ties) {
  constexpr std::int64_t kDurations[] = {0,       5'000,   120'000, 120'000,
                                         450'000, 450'000, 450'000, 3'000'000};
  std::mt19937_64 random(42);
  std::vector<std::int64_t> steps(1 << 16);
  for (std::int64_t& step : steps) {
    step = ties ? kDurations[random() % 8] : static_cast<std::int64_t>(random() % 2'000'000);
  }
  return steps;
}

template <typename List>
void Hold(benchmark::State& state) {
  const auto pending = static_cast<std::uint32_t>(state.range(0));
  const std::vector<std::int64_t> steps = Steps(state.range(1) != 0);
  const std::size_t mask = steps.size() - 1;
  List list;
  std::size_t next = 0;
  std::uint64_t order = 0;
  for (std::uint32_t i = 0; i < pending; ++i) list.Push({{steps[next++ & mask]}, order++, i});
  const auto hold = [&] {
    const auto event = list.Pop();
    list.Push({event.time + Time{steps[next++ & mask]}, order++, event.payload});
  };
  for (std::uint32_t i = 0; i < pending; ++i) hold();
  for (auto _ : state) hold();
  state.SetItemsProcessed(state.iterations());
}

void Arguments(benchmark::internal::Benchmark* bench) {
  for (const int ties : {0, 1}) {
    for (const int pending : {10, 1'000, 10'000, 100'000, 1'000'000}) bench->Args({pending, ties});
  }
}
void HoldRadix(benchmark::State& state) { Hold<RadixHeap<std::uint32_t>>(state); }
BENCHMARK(HoldRadix)->Apply(Arguments);
void HoldFourAry(benchmark::State& state) { Hold<EventHeap<std::uint32_t>>(state); }
BENCHMARK(HoldFourAry)->Apply(Arguments);
void HoldIndexed(benchmark::State& state) { Hold<Indexed>(state); }
BENCHMARK(HoldIndexed)->Apply(Arguments);
void HoldStandard(benchmark::State& state) { Hold<StandardQueue>(state); }
BENCHMARK(HoldStandard)->Apply(Arguments);

}  // namespace
}  // namespace aurum
