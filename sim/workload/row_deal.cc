#include "sim/workload/row_deal.h"

#include <algorithm>
#include <numeric>

namespace aurum {
namespace {

using Home = std::vector<std::vector<const Row*>>;

std::size_t At(const StepShape& shape, int replica, std::size_t i) {
  return static_cast<std::size_t>(replica * shape.micro_batches) + i;
}

// As they come: micro-batch by micro-batch, replica by replica within.
void InOrder(std::span<const Row> rows, const StepShape& shape, Home* home) {
  const std::size_t each = static_cast<std::size_t>(shape.micro_batch_size);
  const std::size_t group = each * static_cast<std::size_t>(shape.replicas);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    (*home)[At(shape, static_cast<int>(k % group / each), k / group)].push_back(&rows[k]);
  }
}

// Rows with media go round the replicas, on from where the micro-batch before stopped; text fills up.
void ByCount(std::span<const Row> rows, const StepShape& shape, Home* home) {
  const std::size_t each = static_cast<std::size_t>(shape.micro_batch_size);
  const std::size_t group = each * static_cast<std::size_t>(shape.replicas);
  int next = 0;
  for (std::size_t first = 0; first < rows.size(); first += group) {
    for (const bool media : {true, false}) {
      int at = media ? next : 0;
      for (std::size_t k = first; k < first + group; ++k) {
        if ((rows[k].media != 0) != media) continue;
        while ((*home)[At(shape, at, first / group)].size() == each) {
          at = (at + 1) % shape.replicas;
        }
        (*home)[At(shape, at, first / group)].push_back(&rows[k]);
        if (media) at = next = (at + 1) % shape.replicas;
      }
    }
  }
}

// The heaviest first, to the replica with the least. Then, on every replica, the longest together and
// first: little padding, and equals at once where replicas wait for each other.
void ByLoad(std::span<const Row> rows, const StepShape& shape, const SequenceWork& work_of,
            Home* home) {
  const std::size_t each = static_cast<std::size_t>(shape.micro_batch_size);
  std::vector<double> work(rows.size());
  for (std::size_t k = 0; k < rows.size(); ++k) {
    for (const CountedSample& sample : rows[k].samples) work[k] += work_of(sample.backbone_tokens);
  }
  const std::vector<int> replica = LongestProcessingTime(
      work, shape.replicas, each * static_cast<std::size_t>(shape.micro_batches));
  Home mine(static_cast<std::size_t>(shape.replicas));
  for (std::size_t k = 0; k < rows.size(); ++k) {
    mine[static_cast<std::size_t>(replica[k])].push_back(&rows[k]);
  }
  for (int r = 0; r < shape.replicas; ++r) {
    std::vector<const Row*>& own = mine[static_cast<std::size_t>(r)];
    std::stable_sort(own.begin(), own.end(),
                     [](const Row* a, const Row* b) { return a->tokens > b->tokens; });
    for (std::size_t k = 0; k < own.size(); ++k) {
      (*home)[At(shape, r, k / each)].push_back(own[k]);
    }
  }
}

}  // namespace

Home RowsToReplicas(std::span<const Row> rows, const StepShape& shape, Balance balance,
                    const SequenceWork& work) {
  Home home(static_cast<std::size_t>(shape.replicas * shape.micro_batches));
  switch (balance) {
    case Balance::kNone:
    case Balance::kPost:
      InOrder(rows, shape, &home);
      break;
    case Balance::kCount:
      ByCount(rows, shape, &home);
      break;
    case Balance::kLoad:
      ByLoad(rows, shape, work, &home);
      break;
  }
  return home;
}

std::vector<int> HeaviestToLightest(const std::vector<double>& work, std::vector<double>* done) {
  done->resize(work.size());
  std::vector<int> bins(work.size()), replicas(work.size()), taken(work.size());
  std::iota(bins.begin(), bins.end(), 0);
  std::iota(replicas.begin(), replicas.end(), 0);
  const auto at = [](const std::vector<double>& list, int i) {
    return list[static_cast<std::size_t>(i)];
  };
  std::stable_sort(bins.begin(), bins.end(),
                   [&](int a, int b) { return at(work, a) > at(work, b); });
  std::stable_sort(replicas.begin(), replicas.end(),
                   [&](int a, int b) { return at(*done, a) < at(*done, b); });
  for (std::size_t k = 0; k < work.size(); ++k) {
    taken[static_cast<std::size_t>(bins[k])] = replicas[k];
    (*done)[static_cast<std::size_t>(replicas[k])] += at(work, bins[k]);
  }
  return taken;
}

}  // namespace aurum
