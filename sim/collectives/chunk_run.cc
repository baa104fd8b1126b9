#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "sim/collectives/chunk.h"
#include "sim/collectives/chunk_share.h"

namespace aurum {

// Where lanes do not disturb each other, an item's end follows from a few others':
//
//   end(lane, k) = max( end(lane, k − 1),  max over waits of end(other, k − lag) + latency ) + bytes / rate
//
// so running a program is filling a table of lanes × items, of which only the last `lag` rows are
// ever looked at: two additions and two maxima an item, no queue, no memory that grows with the
// items. A ring of 4,096 ranks is 33.5 million items.
//
// When is that allowed? If no link can be asked for more than it has, even if all lanes ran at
// once: a sum over lanes, before the run. Otherwise the run may still have been right: a link was
// not over-asked if the lanes whose times overlapped on it (from the first item's start to the last
// one's end) fit. That is checked afterwards, per link; so stages that follow each other on a link
// cost nothing. Only where a link really was contended are events needed (chunk_share.cc).

namespace {

struct StageLane {
  std::uint32_t id;
  std::uint32_t repeats;
  std::int64_t base;  // all items wait until then
  std::int64_t latency, duration;
  std::uint32_t first_wait, end_wait;
};
struct StageWait {
  std::uint32_t place;  // in the stage's order
  std::uint32_t lag;
};

// Lanes of a stage so that a lane comes after those that it waits for with lag 0.
std::vector<std::uint32_t> InOrder(const ChunkProgram& program,
                                   const std::vector<std::uint32_t>& lanes,
                                   std::vector<std::uint32_t>* place) {
  enum : std::uint8_t { kNew, kOpen, kDone };
  std::vector<std::uint8_t> state(program.lanes.size(), kNew);
  std::vector<std::uint32_t> order;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> walk;
  for (const std::uint32_t root : lanes) {
    if (state[root] == kNew) walk.emplace_back(root, 0);
    state[root] = state[root] == kNew ? std::uint8_t{kOpen} : state[root];
    while (!walk.empty()) {
      auto& [lane, next] = walk.back();
      const auto waits = program.WaitsOf(program.lanes[lane]);
      if (next == waits.size()) {
        state[lane] = kDone;
        (*place)[lane] = static_cast<std::uint32_t>(order.size());
        order.push_back(lane);
        walk.pop_back();
        continue;
      }
      const ChunkWait& wait = waits[next++];
      if (wait.lag != 0 || state[wait.lane] == kDone) continue;
      assert(state[wait.lane] == kNew && "lanes wait for each other's same item");
      state[wait.lane] = kOpen;
      walk.emplace_back(wait.lane, 0);
    }
  }
  return order;
}

// One stage; fills the lanes' ends and the starts of their first items on the links.
void RunStage(const ChunkProgram& program, const std::vector<std::uint32_t>& lanes,
              std::vector<std::uint32_t>* place, std::vector<Time>* ends,
              std::vector<Time>* starts) {
  const std::vector<std::uint32_t> order = InOrder(program, lanes, place);
  std::vector<StageLane> stage;
  std::vector<StageWait> waits;
  std::uint32_t most_repeats = 0, most_lag = 0;
  for (const std::uint32_t id : order) {
    const ChunkLane& lane = program.lanes[id];
    StageLane& here = stage.emplace_back();
    here = {id, lane.repeats, 0, lane.latency.ps, 0, static_cast<std::uint32_t>(waits.size()), 0};
    const double most = MostOf(program, lane);
    if (lane.bytes > 0 && most < std::numeric_limits<double>::infinity())
      here.duration = TransmissionTime(lane.bytes, most).ps;
    for (const ChunkWait& wait : program.WaitsOf(lane)) {
      if (wait.lag == kAllItems) {
        assert(program.lanes[wait.lane].stage < lane.stage);
        here.base = std::max(here.base, (*ends)[wait.lane].ps);
        continue;
      }
      assert(program.lanes[wait.lane].stage == lane.stage);
      const auto lag = static_cast<std::uint32_t>(wait.lag);
      waits.push_back({(*place)[wait.lane], lag});
      most_lag = std::max(most_lag, lag);
    }
    here.end_wait = static_cast<std::uint32_t>(waits.size());
    most_repeats = std::max(most_repeats, lane.repeats);
  }
  const std::size_t n = stage.size();
  const std::uint32_t rows = std::bit_ceil(std::max(most_lag, 1U) + 1);
  std::vector<std::int64_t> table(n * rows, 0);
  for (std::uint32_t k = 0; k < most_repeats; ++k) {
    std::int64_t* const now = table.data() + n * (k & (rows - 1));
    const std::int64_t* const before = table.data() + n * ((k - 1) & (rows - 1));
    for (std::size_t i = 0; i < n; ++i) {
      const StageLane& lane = stage[i];
      if (k >= lane.repeats) {
        now[i] = before[i];
        continue;
      }
      std::int64_t ready = lane.base;
      for (std::uint32_t w = lane.first_wait; w < lane.end_wait; ++w) {
        const StageWait wait = waits[w];
        if (k < wait.lag) continue;
        ready = std::max(ready, table[n * ((k - wait.lag) & (rows - 1)) + wait.place]);
      }
      ready += lane.latency;
      const std::int64_t start = k == 0 ? ready : std::max(ready, before[i]);
      if (k == 0) (*starts)[lane.id] = {start};
      now[i] = start + lane.duration;
    }
  }
  const std::int64_t* const last = table.data() + n * ((most_repeats - 1) & (rows - 1));
  for (std::size_t i = 0; i < n && most_repeats > 0; ++i) (*ends)[stage[i].id] = {last[i]};
}

// Whether lanes that were at work at the same time asked a link for more than it has.
bool WasContended(const ChunkProgram& program, const std::vector<bool>& crowded,
                  const std::vector<Time>& starts, const std::vector<Time>& ends) {
  struct Change {
    std::uint32_t link;
    Time at;
    double rate;  // negative: leaves
  };
  std::vector<Change> changes;
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    const ChunkLane& lane = program.lanes[l];
    if (lane.bytes <= 0 || starts[l] == ends[l]) continue;
    const double most = MostOf(program, lane);
    for (std::uint32_t h = lane.first_hop; h < lane.first_hop + lane.hop_count; ++h) {
      if (!crowded[program.hops[h]]) continue;
      const double rate = most * (program.crossings.empty() ? 1 : program.crossings[h]);
      changes.push_back({program.hops[h], starts[l], rate});
      changes.push_back({program.hops[h], ends[l], -rate});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.link, a.at, a.rate) < std::tie(b.link, b.at, b.rate);
  });
  double asked = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (i == 0 || changes[i].link != changes[i - 1].link) asked = 0;
    asked += changes[i].rate;
    if (asked > program.capacity_bytes_per_s[changes[i].link] * (1 + 1e-9)) return true;
  }
  return false;
}

ChunkRun RunAsGiven(const ChunkProgram& program) {
  ChunkRun run;
  run.lane_end.assign(program.lanes.size(), {});
  if (program.lanes.empty()) return run;
  int stages = 0;
  for (const ChunkLane& lane : program.lanes) stages = std::max(stages, lane.stage + 1);
  std::vector<std::vector<std::uint32_t>> by_stage(static_cast<std::size_t>(stages));
  for (std::size_t l = 0; l < program.lanes.size(); ++l)
    by_stage[static_cast<std::size_t>(program.lanes[l].stage)].push_back(
        static_cast<std::uint32_t>(l));
  std::vector<std::uint32_t> place(program.lanes.size());
  std::vector<Time> starts(program.lanes.size());
  for (const std::vector<std::uint32_t>& lanes : by_stage)
    RunStage(program, lanes, &place, &run.lane_end, &starts);
  const std::vector<bool> crowded = CrowdedLinks(program);
  if (std::find(crowded.begin(), crowded.end(), true) != crowded.end() &&
      WasContended(program, crowded, starts, run.lane_end)) {
    run.contended = true;
    run.lane_end = RunBySharing(program);
  }
  run.makespan = *std::max_element(run.lane_end.begin(), run.lane_end.end());
  return run;
}

}  // namespace

ChunkRun RunChunks(const ChunkProgram& program, Fold fold) {
  ChunkRun run;
  if (fold == Fold::kOff) {
    run = RunAsGiven(program);
    run.lane_classes = program.lanes.size();
  } else {
    std::vector<std::uint32_t> class_of;
    const ChunkProgram folded = FoldChunks(program, &class_of);
    const ChunkRun of_classes = RunAsGiven(folded);
    run.contended = of_classes.contended;
    run.makespan = of_classes.makespan;
    run.lane_classes = folded.lanes.size();
    run.lane_end.reserve(program.lanes.size());
    for (const std::uint32_t c : class_of) run.lane_end.push_back(of_classes.lane_end[c]);
    if (fold == Fold::kVerify) {
      const ChunkRun unfolded = RunAsGiven(program);
      run.verified = unfolded.lane_end == run.lane_end && unfolded.contended == run.contended;
    }
  }
  run.items = program.ItemCount();
  return run;
}

}  // namespace aurum
