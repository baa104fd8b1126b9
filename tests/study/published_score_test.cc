#include "sim/study/published/score.h"

#include <cmath>

#include "tests/support/shared.h"

namespace aurum {
namespace {

TEST_CASE("scores of four rows in two clusters and two sources") {
  const std::vector<ScoredPair> pairs = {
      {"a", "s", "c1", "A", 110, 100, {}, {}, 99, 121},
      {"b", "s", "c1", "A", 190, 200, 180, 220, 171, 209},
      {"c", "s", "c2", "A", 360, 300, 330, 400, 324, 396},
      {"d", "t", "c2", "B", 50, 100, {}, {}, 45, 55},
  };
  const Score score = ScorePairs(pairs, 3);
  CHECK(score.n == 4);
  CHECK(score.skipped == 3);
  CHECK(*score.mape == doctest::Approx((0.1 + 0.05 + 0.2 + 0.5) / 4));
  CHECK(*score.median_ape == doctest::Approx(0.15));
  CHECK(*score.p90_ape == doctest::Approx(0.2 + 0.7 * 0.3));  // 2.7 of 0.05, 0.1, 0.2, 0.5
  CHECK(*score.bias == doctest::Approx((0.1 - 0.05 + 0.2 - 0.5) / 4));
  CHECK(*score.kendall_tau == 1);  // pairs of different sources do not count
  CHECK(score.clusters == 3);      // "c2" of another source is another cluster
  CHECK(*score.cluster_mape == doctest::Approx((0.075 + 0.2 + 0.5) / 3));
  CHECK(*score.within == 0.5);
  CHECK(*score.coverage_90 == 0.5);
}

TEST_CASE("nothing compared: no figure, and not zero") {
  const Score score = ScorePairs({}, 7);
  CHECK(score.n == 0);
  CHECK_FALSE(score.mape.has_value());
  CHECK(score.AsJson().Find("mape")->IsNull());
  CHECK(score.AsJson().Find("skipped")->AsInteger() == 7);
}

TEST_CASE("Kendall's tau-b against values worked out by hand") {
  CHECK(*CountPairs({{1, 1}, {2, 2}, {3, 3}}).Tau() == 1);
  CHECK(*CountPairs({{1, 3}, {2, 2}, {3, 1}}).Tau() == -1);
  // x 1 2 3 4, y 1 3 2 4: one of six pairs is out of order.
  CHECK(*CountPairs({{1, 1}, {2, 3}, {3, 2}, {4, 4}}).Tau() == doctest::Approx(4.0 / 6));
  // x 1 1 2, y 1 2 3: two concordant, one tied in x: 2 / √(3·2).
  CHECK(*CountPairs({{1, 1}, {1, 2}, {2, 3}}).Tau() == doctest::Approx(2 / std::sqrt(6.0)));
  CHECK_FALSE(CountPairs({{1, 1}}).Tau().has_value());
  CHECK_FALSE(CountPairs({{1, 1}, {1, 2}}).Tau().has_value());
  // Pairs closer than a tenth do not count.
  CHECK(*CountPairs({{1, 1.00}, {2, 0.95}, {3, 2}}, 0.1).Tau() == 1);
}

TEST_CASE("quantiles are linear between neighbours") {
  CHECK(Quantile({5}, 0.9) == 5);
  CHECK(Quantile({1, 2}, 0.5) == 1.5);
  CHECK(Quantile({3, 1, 2}, 0) == 1);
  CHECK(Quantile({3, 1, 2}, 1) == 3);
  CHECK(Quantile({0, 10}, 0.9) == doctest::Approx(9));
}

}  // namespace
}  // namespace aurum
