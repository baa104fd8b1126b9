#include "sim/workload/balance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "models/reader.h"
#include "sim/core/random.h"
#include "sim/workload/packing.h"

namespace aurum {
namespace {

// Calls `visit` with every way to deal `items` to `bins`.
template <typename Visit>
void EveryDeal(std::size_t items, int bins, Visit visit) {
  std::vector<int> deal(items);
  while (true) {
    visit(deal);
    std::size_t i = 0;
    while (i < items && ++deal[i] == bins) deal[i++] = 0;
    if (i == items) return;
  }
}

std::vector<double> RandomLoads(std::size_t count, std::uint64_t which, int most) {
  std::vector<double> loads;
  for (std::size_t i = 0; i < count; ++i) {
    loads.push_back(1 + std::floor(most * RandomUniform(5, which, i)));
  }
  return loads;
}

double Heaviest(const std::vector<double>& loads, const std::vector<int>& deal, int bins) {
  std::vector<double> sum(static_cast<std::size_t>(bins));
  for (std::size_t i = 0; i < loads.size(); ++i) sum[static_cast<std::size_t>(deal[i])] += loads[i];
  return *std::max_element(sum.begin(), sum.end());
}

TEST_CASE("longest processing time keeps Graham's bound, and meets it") {
  const std::vector<double> worst = {5, 5, 4, 4, 3, 3, 3};  // 2·bins + 1 items: exactly 4/3 − 1/9
  CHECK(Heaviest(worst, LongestProcessingTime(worst, 3), 3) == 11);
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    const int bins = 2 + static_cast<int>(trial % 2);
    const std::vector<double> loads = RandomLoads(4 + trial % 5, trial, 20);
    double best = 1e300;
    EveryDeal(loads.size(), bins, [&](const std::vector<int>& deal) {
      best = std::min(best, Heaviest(loads, deal, bins));
    });
    const double got = Heaviest(loads, LongestProcessingTime(loads, bins), bins);
    CHECK(got >= best);
    CHECK(got <= best * (4.0 / 3 - 1.0 / (3 * bins)) + 1e-9);
  }
}

TEST_CASE("a bin never holds more than its room") {
  const std::vector<double> loads = {100, 1, 1, 1, 1, 1};
  const std::vector<int> bin = LongestProcessingTime(loads, 3, 2);
  for (int b = 0; b < 3; ++b) CHECK(std::count(bin.begin(), bin.end(), b) == 2);
  // Without room, the heavy one stays alone.
  const std::vector<int> free = LongestProcessingTime(loads, 3);
  CHECK(std::count(free.begin(), free.end(), free[0]) == 1);
}

TEST_CASE("the least padded split is the best of all") {
  const auto work = [](double n) { return n * n + 10 * n; };
  for (std::uint64_t trial = 0; trial < 40; ++trial) {
    const int bins = 2 + static_cast<int>(trial % 2);
    const std::vector<double> lengths = RandomLoads(3 + trial % 6, 100 + trial, 30);
    const auto heaviest = [&](const std::vector<int>& deal) {
      double most = 0;
      for (int b = 0; b < bins; ++b) {
        double rows = 0, longest = 0;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          if (deal[i] != b) continue;
          ++rows;
          longest = std::max(longest, lengths[i]);
        }
        most = std::max(most, rows * work(longest));
      }
      return most;
    };
    double best = 1e300;
    EveryDeal(lengths.size(), bins,
              [&](const std::vector<int>& deal) { best = std::min(best, heaviest(deal)); });
    CHECK(heaviest(LeastPaddedSplit(lengths, bins, work)) == doctest::Approx(best).epsilon(1e-9));
  }
  CHECK(LeastPaddedSplit({}, 2, work).empty());
}

TEST_CASE("first-fit-decreasing fills rows, in order, and is near the fewest") {
  std::size_t rows = 0;
  CHECK(FirstFitDecreasing({7, 5, 4, 3, 1}, 10, &rows) ==
        std::vector<std::uint32_t>{0, 1, 1, 0, 1});
  CHECK(rows == 2);
  CHECK(FirstFitDecreasing({25, 4}, 10, &rows) == std::vector<std::uint32_t>{0, 1});  // too long
  CHECK(rows == 2);
  CHECK(FirstFitDecreasing({}, 10, &rows).empty());
  CHECK(rows == 0);
  for (std::uint64_t trial = 0; trial < 40; ++trial) {
    const std::vector<double> lengths = RandomLoads(3 + trial % 5, 200 + trial, 10);
    std::vector<double> fill(lengths.size());
    const std::vector<std::uint32_t> row = FirstFitDecreasing(lengths, 10, &rows);
    for (std::size_t i = 0; i < lengths.size(); ++i) fill[row[i]] += lengths[i];
    CHECK(*std::max_element(fill.begin(), fill.end()) <= 10);
    int half = 0;
    for (std::size_t r = 0; r < rows; ++r) half += fill[r] <= 5 ? 1 : 0;
    CHECK(half <= 1);
    double fewest = 1e300;
    const int bins = static_cast<int>(lengths.size());
    if (lengths.size() > 6) continue;
    EveryDeal(lengths.size(), bins, [&](const std::vector<int>& deal) {
      if (Heaviest(lengths, deal, bins) > 10) return;
      const double used = static_cast<double>(*std::max_element(deal.begin(), deal.end())) + 1;
      fewest = std::min(fewest, used);
    });
    CHECK(static_cast<double>(rows) <= 11.0 / 9 * fewest + 2.0 / 3);
  }
}

TEST_CASE("first-fit-decreasing of many is first-fit-decreasing") {
  const std::vector<double> lengths = RandomLoads(3000, 9, 4000);
  std::size_t rows = 0;
  const std::vector<std::uint32_t> row = FirstFitDecreasing(lengths, 8192, &rows);
  // The same by looking at every row.
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  std::vector<double> fill;
  std::size_t wrong = 0;
  for (const std::size_t i : order) {
    std::size_t r = 0;
    while (r < fill.size() && fill[r] + lengths[i] > 8192) ++r;
    if (r == fill.size()) fill.push_back(0);
    fill[r] += lengths[i];
    wrong += row[i] != r ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(rows == fill.size());
}

TEST_CASE("work is 2 FLOPs a parameter and token, and attention's pairs") {
  // Decoder forward 2·P·T + 2·T²·d·L, causal; P of the layers, norms apart.
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const SequenceWork work(llama.Backbone());
  const double p = 32 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008);
  for (const double t : {1.0, 512.0, 4096.0}) {
    CHECK(work(t) == doctest::Approx(2 * p * t + 2 * t * t * 4096 * 32).epsilon(1e-6));
  }
  // Encoder forward 2·n·L·(4d² + 2df) + 4·n²·d·L, of the 23 layers that LLaVA reads, biases and the
  // patch embedding apart (0.5 %).
  const Model llava = ReadModel(OpenModel("llava-1.5-7b", "."));
  const double n = 577, d = 1024;
  CHECK(SequenceWork(llava.modules[0])(n) ==
        doctest::Approx(23 * (2 * n * (4 * d * d + 8 * d * d) + 4 * n * n * d)).epsilon(0.006));
  // A window makes attention linear beyond it.
  const Model mistral = ReadModel(OpenModel("mistral-7b", "."));
  const SequenceWork band(mistral.Backbone());
  if (mistral.Backbone().runs[0].layer.attention.window > 0) {
    const double w = mistral.Backbone().runs[0].layer.attention.window;
    CHECK(band(4 * w) == doctest::Approx(2 * band(2 * w)).epsilon(1e-12));
  }
  CHECK(work.Of({{2, 100}, {1, 50}}) == doctest::Approx(2 * work(100) + work(50)));
}

}  // namespace
}  // namespace aurum
