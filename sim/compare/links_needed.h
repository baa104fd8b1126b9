#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/evaluate.h"

namespace aurum {

// How much faster links would have to be for one of two clusters to keep up with the other.
//
// The side that falls behind may do so by its plan or its kernels as well, which no link mends. So the measure is its own
// scenario with its own kernels on the other's cluster; where that is no plan (other degrees), the other side as it is.
// Keeping up means 90 % of that measure's samples per second and GPU. Links of one kind are made faster until the step
// is short enough, by re-simulation: at first 64 times, then by halving the interval on a logarithmic scale. Where even
// 64 times is not enough, other links or what what_if leaves alone (between sockets) are in the way; the step there
// says how near it comes.
struct LinksOfKind {
  std::string links;             // "network", "NVLink", "PCIe", "network and PCIe"
  std::vector<std::string> set;  // "what_if.network_factor=3.4": for --set
  bool enough = false;
  double factor =
      1;  // the least that is enough, within half a per cent; else the most that was tried
  double step_s = 0;  // with it
  // Of the network: what a GPU can send out of its node, all of them at once, now and then.
  double gb_per_s_per_gpu = 0, needed_gb_per_s_per_gpu = 0;
};
struct LinksNeeded {
  bool of_b = true;      // whose links: the side that falls behind
  bool own_plan = true;  // the measure is its own scenario on the other's cluster, else the other
  double measure_step_s = 0;  // the step of the measure
  double target_s = 0;        // the side's step, were it to keep up
  double step_s = 0;          // and as it is
  std::vector<LinksOfKind> kinds;
};

inline constexpr double kKeepsUp = 0.9;

// Nothing where neither falls behind by its links, or the work of a sample differs (another model, other tokens). About a dozen
// simulations a kind of links.
std::optional<LinksNeeded> FindLinksNeeded(const JsonDocument& a, const Evaluation& of_a,
                                           const JsonDocument& b, const Evaluation& of_b,
                                           InputCache* cache);

// Whether a sample is the same work on both sides: the model and the tokens are.
bool SameWork(const Scenario& a, const Scenario& b);

}  // namespace aurum
