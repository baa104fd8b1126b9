#pragma once

#include <cstdint>
#include <vector>

namespace aurum {

// How evenly a mixture's router spreads tokens over experts, when each modality has favourites.

// Chance of each of `popularity`'s experts to be among the `choices` that one token takes without
// replacement, each next one with chances in proportion to the popularity of those that are left.
// Sums to `choices`. popularity > 0, in any unit; 1 ≤ choices ≤ experts. Exact up to 1e-9.
// O(experts · choices) for each of about two thousand points of a quadrature.
std::vector<double> ChosenShare(const std::vector<double>& popularity, int choices);

// Popularity 1, 1/2^zipf, 1/3^zipf, … dealt to `experts` experts in an order of the seed and stream.
std::vector<double> ZipfPopularity(int experts, double zipf, std::uint64_t seed,
                                   std::uint64_t stream);

// Tokens of one modality in the backbone's sequence.
struct ExpertTraffic {
  double tokens = 0;
  double zipf = 0;           // exponent of the experts' popularity among them; 0 = even
  std::uint64_t stream = 0;  // which favourites: with the seed
};

struct ExpertLoad {
  std::vector<double> offered;  // choices that fall on each expert
  std::vector<double> kept;     // of them, those that found room
  double dropped_share = 0;     // of all choices
  double expert_imbalance = 1;  // the busiest expert over the mean, of what is kept
  double rank_imbalance = 1;    // the busiest rank over the mean, of what is kept
};

// Expected choices by expert, and by rank: rank r of `ranks` has experts r · experts / ranks and those
// after it. `capacity_factor` c > 0: an expert takes c times the mean of what is offered, and what
// comes above that is dropped; 0: all is kept. `experts` is a multiple of `ranks`. No tokens: even.
// More skew never makes the busiest expert lighter; a rank with several experts may be lucky, as one
// favourite in each of a few ranks is even.
ExpertLoad LoadOfExperts(const std::vector<ExpertTraffic>& traffic, int experts, int choices,
                         int ranks, double capacity_factor, std::uint64_t seed);

}  // namespace aurum
