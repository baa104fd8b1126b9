#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/evaluate.h"

namespace aurum {

// How much faster links would have to be for one of two clusters to keep up with the other.
//
// Keeping up means: 90 % of the other's samples per second and GPU. Links of one kind are made faster until the step is
// short enough, by re-simulation: at first so many times as most can be of use, then by halving the interval on a
// logarithmic scale. Where even that many times is not enough, these links are not what is missing; the step there
// says how much is.
struct LinksOfKind {
  std::string links;  // "network", "NVLink", "PCIe", "network and PCIe"
  std::vector<std::string> set;  // "what_if.network_factor=3.4": for --set
  bool enough = false;
  double factor = 1;  // the least that is enough, within half a per cent; else the most that was tried
  double step_s = 0;  // with it
  // Of the network: what a GPU can send out of its node, all of them at once, now and then.
  double gb_per_s_per_gpu = 0, needed_gb_per_s_per_gpu = 0;
};
struct LinksNeeded {
  bool of_b = true;      // whose links: the side that falls behind
  double target_s = 0;   // its step, were it to keep up
  double step_s = 0;     // and as it is
  std::vector<LinksOfKind> kinds;
};

inline constexpr double kKeepsUp = 0.9;

// Nothing where neither falls behind, or the work of a sample differs (another model, other tokens). About fifteen
// simulations a kind of links.
std::optional<LinksNeeded> FindLinksNeeded(const JsonDocument& a, const Evaluation& of_a,
                                           const JsonDocument& b, const Evaluation& of_b,
                                           InputCache* cache);

// Whether a sample is the same work on both sides: the model and the tokens are.
bool SameWork(const Scenario& a, const Scenario& b);

}  // namespace aurum
