#include "sim/study/gradient_sync.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/plan/waves.h"
#include "sim/study/wire_bound.h"

namespace aurum {
namespace {

// The same rule as PlanPricer::AskForReductions.
CollectiveKind KindOf(Sharding sharding, Lane lane, bool sparse) {
  if (sparse && lane != Lane::kTp) return CollectiveKind::kAllGather;
  const bool whole = sharding == Sharding::kDdp || lane == Lane::kReplica || lane == Lane::kTp;
  return whole ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter;
}

// Seconds a byte of a ring over all groups of the kind at once, at the links' own rates.
class WireRates {
 public:
  explicit WireRates(const Scenario& scenario) : s_(scenario) {}

  double SecondsPerByte(std::size_t stage, const OpInfo& info) {
    const Lane lane = info.lane;
    const bool sparse = info.module >= 0 &&
                        s_.plan.modules[static_cast<std::size_t>(info.module)].compression.Sparse();
    const auto [entry, is_new] = known_.try_emplace({stage, lane, sparse}, 0.0);
    if (!is_new) return entry->second;
    constexpr double kProbe = 1 << 20;
    entry->second = BoundOfCollective(KindOf(s_.plan.sharding, lane, sparse), kProbe,
                                      PlacedGroups(s_.plan, stage, *GroupsOf(lane)), *s_.cluster)
                        .seconds /
                    kProbe;
    return entry->second;
  }

 private:
  const Scenario& s_;
  std::map<std::tuple<std::size_t, Lane, bool>, double> known_;
};

struct Window {
  Time first{}, last{};
  std::vector<std::pair<Time, Time>> runs;
  GradientSync sync;
};

double Union(std::vector<std::pair<Time, Time>>* runs) {
  std::sort(runs->begin(), runs->end());
  Time covered{0}, until{0};
  bool any = false;
  for (const auto& [from, to] : *runs) {
    const Time begin = any ? std::max(from, until) : from;
    if (to > begin) covered = covered + (to - begin);
    until = any ? std::max(until, to) : to;
    any = true;
  }
  return Seconds(covered);
}

}  // namespace

GradientSync MeasureGradientSync(const Scenario& scenario, const Program& program,
                                 const Schedule& schedule) {
  std::map<std::uint32_t, Window> windows;  // by the class that speaks for a group
  WireRates rates(scenario);
  for (OpId op = 0; op < program.graph.op_count(); ++op) {
    const OpInfo& info = program.info[op];
    if (info.kind != OpKind::kGradientReduce || info.bytes <= 0) continue;
    const auto [entry, is_new] = windows.try_emplace(info.rank_class);
    Window& window = entry->second;
    const Time from = schedule.start[op], to = schedule.end[op];
    window.first = is_new ? from : std::min(window.first, from);
    window.last = is_new ? to : std::max(window.last, to);
    window.runs.emplace_back(from, to);
    ++window.sync.collectives;
    window.sync.bytes += info.bytes;
    const auto stage = static_cast<std::size_t>(program.classes[info.rank_class].stage);
    window.sync.wire_s += info.bytes * rates.SecondsPerByte(stage, info);
  }
  GradientSync longest;
  for (auto& [rank_class, window] : windows) {
    window.sync.window_s = Seconds(window.last - window.first);
    window.sync.busy_s = Union(&window.runs);
    if (window.sync.window_s > longest.window_s) longest = window.sync;
  }
  return longest;
}

}  // namespace aurum
