#include "sim/network/alone.h"

#include <algorithm>
#include <cmath>

namespace aurum {

double AloneRun::Seconds(PatternId id) {
  if (IsLone(id)) {
    const PreparedFlow& flow = traffic_.flows(id)[0];
    double narrowest = kNoCap;
    for (const std::uint32_t link : traffic_.links(flow)) {
      narrowest = std::min(narrowest, traffic_.capacity()[link]);
    }
    const RateScale& scale = traffic_.scale();
    return flow.bytes / scale.BytesPerSecond(MaxMinSharing::LoneRate(scale, narrowest, flow.weight,
                                                                     flow.cap_bytes_per_s));
  }
  Known& known = known_[id];
  if (known.seconds < 0) known.seconds = Run(id, std::numeric_limits<double>::infinity());
  return known.seconds;
}

std::span<const double> AloneRun::Left(PatternId id, double elapsed_s, double seconds) {
  if (elapsed_s > 0 && !IsLone(id) && !known_[id].one_phase) {
    Run(id, elapsed_s);
    return left_;
  }
  left_.clear();
  for (const PreparedFlow& flow : traffic_.flows(id)) {
    left_.push_back(elapsed_s > 0 ? flow.bytes * std::max(0.0, 1 - elapsed_s / seconds)
                                  : flow.bytes);
  }
  return left_;
}

// The pattern's flows up to `until_s`: the time reached, and the bytes left in left_. O(flows) per
// phase, and as many phases as there are distinct ends.
double AloneRun::Run(PatternId id, double until_s) {
  if (sharing_.link_count() != traffic_.capacity().size()) {
    sharing_ = MaxMinSharing(traffic_.capacity(), traffic_.scale(), 0);
  }
  const std::span<const PreparedFlow> flows = traffic_.flows(id);
  left_.resize(flows.size());
  open_.clear();
  for (std::size_t i = 0; i < flows.size(); ++i) {
    left_[i] = flows[i].bytes;
    open_.push_back({i, sharing_.Add(traffic_.links(flows[i]), flows[i].weight,
                                     flows[i].cap_bytes_per_s, traffic_.own(flows[i]))});
  }
  double reached_s = 0;
  int phases = 0;
  while (!open_.empty()) {
    sharing_.Solve();
    double step_s = until_s - reached_s;
    for (const Open& flow : open_) {
      step_s = std::min(step_s, left_[flow.index] / sharing_.rate(flow.id));
    }
    const bool stop = step_s >= until_s - reached_s;
    reached_s += step_s;
    ++phases;
    std::erase_if(open_, [&](const Open& flow) {
      const double rate = sharing_.rate(flow.id);
      // Ends that differ by rounding alone are one end.
      const bool done = left_[flow.index] <= rate * (step_s + 1e-12 * reached_s);
      left_[flow.index] = done ? 0 : left_[flow.index] - rate * step_s;
      if (done) sharing_.Remove(flow.id);
      return done;
    });
    if (stop) break;
  }
  for (const Open& flow : open_) sharing_.Remove(flow.id);
  if (until_s == std::numeric_limits<double>::infinity()) known_[id].one_phase = phases == 1;
  return reached_s;
}

}  // namespace aurum
