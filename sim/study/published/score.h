#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// How far predictions are from measurements. Errors are predicted / measured − 1, as shares of 1.

struct ScoredPair {
  std::string id, source, cluster, quality;
  double predicted = 0, measured = 0;  // > 0
  std::optional<double> low, high;     // of the prediction, over ends of untold facts
  double band_low = 0, band_high = 0;  // its 90 % interval
  double RelativeError() const { return predicted / measured - 1; }
};

// Pairs of rows that both sides order, for Kendall's tau-b (Kendall 1945), additive over sets:
// (C − D) / √((C + D + ties of x)·(C + D + ties of y)).
struct RankCounts {
  std::int64_t concordant = 0, discordant = 0, tied_x = 0,
               tied_y = 0;            // tied in one of the two only
  std::optional<double> Tau() const;  // nothing where either side has no order
  RankCounts& operator+=(const RankCounts& other);
};
// Over all pairs of rows; `apart`: only pairs whose y differ by at least this share of the smaller.
RankCounts CountPairs(const std::vector<std::pair<double, double>>& rows, double apart = 0);

// q ∈ [0, 1] of `values`, linear between the two nearest (Hyndman and Fan's type 7); values not empty.
double Quantile(std::vector<double> values, double q);

struct Score {
  std::int64_t n = 0, skipped = 0, clusters = 0;
  std::optional<double> mape, median_ape, p90_ape, bias, kendall_tau;
  std::optional<double> cluster_mape;  // mean over clusters of their means: near copies count once
  std::optional<double> coverage_90;   // share of measurements inside of the 90 % interval
  std::optional<double> within;        // share of measurements inside of [low, high], where told
  Json AsJson() const;
};
// Kendall's tau counts pairs of one source only.
Score ScorePairs(const std::vector<ScoredPair>& pairs, std::int64_t skipped);

}  // namespace aurum
