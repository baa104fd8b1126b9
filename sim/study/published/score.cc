#include "sim/study/published/score.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>

namespace aurum {

std::optional<double> RankCounts::Tau() const {
  const auto ordered = static_cast<double>(concordant + discordant);
  const double x = ordered + static_cast<double>(tied_x);
  const double y = ordered + static_cast<double>(tied_y);
  if (x == 0 || y == 0) return std::nullopt;
  return static_cast<double>(concordant - discordant) / std::sqrt(x * y);
}

RankCounts& RankCounts::operator+=(const RankCounts& other) {
  concordant += other.concordant;
  discordant += other.discordant;
  tied_x += other.tied_x;
  tied_y += other.tied_y;
  return *this;
}

RankCounts CountPairs(const std::vector<std::pair<double, double>>& rows, double apart) {
  RankCounts counts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double dx = rows[i].first - rows[j].first;
      const double dy = rows[i].second - rows[j].second;
      if (std::abs(dy) < apart * std::min(rows[i].second, rows[j].second)) continue;
      if (dx == 0 && dy == 0) continue;
      if (dx == 0)
        ++counts.tied_x;
      else if (dy == 0)
        ++counts.tied_y;
      else if ((dx > 0) == (dy > 0))
        ++counts.concordant;
      else
        ++counts.discordant;
    }
  }
  return counts;
}

double Quantile(std::vector<double> values, double q) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

Score ScorePairs(const std::vector<ScoredPair>& pairs, std::int64_t skipped) {
  Score score;
  score.n = static_cast<std::int64_t>(pairs.size());
  score.skipped = skipped;
  if (pairs.empty()) return score;
  std::vector<double> errors;
  double bias = 0;
  std::map<std::string, std::pair<double, int>> clusters;
  std::map<std::string, std::vector<std::pair<double, double>>> sources;
  std::int64_t banded = 0, inside = 0, covered = 0;
  for (const ScoredPair& pair : pairs) {
    const double error = pair.RelativeError();
    errors.push_back(std::abs(error));
    bias += error;
    auto& [sum, count] = clusters[pair.source + "\n" + pair.cluster];
    sum += std::abs(error);
    ++count;
    sources[pair.source].emplace_back(pair.predicted, pair.measured);
    if (pair.band_low <= pair.measured && pair.measured <= pair.band_high) ++covered;
    if (pair.low && pair.high) {
      ++banded;
      if (*pair.low <= pair.measured && pair.measured <= *pair.high) ++inside;
    }
  }
  const auto n = static_cast<double>(pairs.size());
  score.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / n;
  score.median_ape = Quantile(errors, 0.5);
  score.p90_ape = Quantile(errors, 0.9);
  score.bias = bias / n;
  RankCounts ranks;
  for (const auto& [source, rows] : sources) ranks += CountPairs(rows);
  score.kendall_tau = ranks.Tau();
  score.clusters = static_cast<std::int64_t>(clusters.size());
  double over_clusters = 0;
  for (const auto& [cluster, sum] : clusters) over_clusters += sum.first / sum.second;
  score.cluster_mape = over_clusters / static_cast<double>(clusters.size());
  score.coverage_90 = static_cast<double>(covered) / n;
  if (banded > 0) score.within = static_cast<double>(inside) / static_cast<double>(banded);
  return score;
}

Json Score::AsJson() const {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  Json out = Json::Object();
  out.Set("n", n);
  out.Set("skipped", skipped);
  out.Set("clusters", clusters);
  out.Set("mape", number(mape));
  out.Set("median_ape", number(median_ape));
  out.Set("p90_ape", number(p90_ape));
  out.Set("bias", number(bias));
  out.Set("kendall_tau", number(kendall_tau));
  out.Set("cluster_mape", number(cluster_mape));
  out.Set("coverage_90", number(coverage_90));
  out.Set("inside_ends", number(within));
  return out;
}

}  // namespace aurum
