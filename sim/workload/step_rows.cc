#include "sim/workload/step_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/core/diagnostic.h"
#include "sim/core/random.h"
#include "sim/workload/packing.h"

namespace aurum {
namespace {

constexpr std::uint64_t kShuffleRows = 0x70ac4;
constexpr std::uint64_t kShuffleGroups = 0x6e0a5;
constexpr std::size_t kMostSamples = 1'000'000;

// Fisher and Yates, by numbers that depend on seed, purpose and window alone.
template <typename T>
void Shuffle(std::uint64_t seed, std::uint64_t purpose, std::uint64_t window,
             std::vector<T>* items) {
  const std::uint64_t key = RandomBits(seed, purpose, window);
  for (std::size_t i = items->size(); i > 1; --i) {
    const double u = RandomUniform(key, 0, i);
    std::swap((*items)[i - 1], (*items)[static_cast<std::size_t>(u * static_cast<double>(i))]);
  }
}

Row RowOf(CountedSample sample) {
  Row row;
  row.tokens = sample.backbone_tokens;
  for (const CountedMedia& media : sample.media) row.media |= 1u << static_cast<int>(media.kind);
  row.samples.push_back(std::move(sample));
  return row;
}

// Samples from position `first` of the stream on, read as far as somebody asks.
class Reel {
 public:
  Reel(SampleStream* stream, std::uint64_t first) : stream_(stream), next_(first) {}
  void Reach(std::size_t count) {
    if (count > kMostSamples) {
      ThrowInput(628, "rows of more than 8 million samples would have to be packed at once",
                 "a smaller global_batch_size (it counts packed rows) or packing.max_tokens");
    }
    while (rows_.size() < count) rows_.push_back(RowOf(stream_->At(next_++)));
  }
  std::vector<Row>& rows() { return rows_; }

 private:
  SampleStream* stream_;
  std::uint64_t next_;
  std::vector<Row> rows_;
};

// The row of each of the first `count` samples. Where packing or bucketing is by modality, samples
// with different kinds of media never share one.
std::vector<std::uint32_t> Pack(const std::vector<Row>& samples, std::size_t count,
                                const Workload& workload, std::size_t* rows) {
  std::vector<std::uint32_t> packed(count);
  *rows = 0;
  const bool apart = workload.bucketing == Bucketing::kModality ||
                     workload.packing.policy == PackingPolicy::kModality;
  for (unsigned media = 0; media < (apart ? 8u : 1u); ++media) {
    std::vector<std::size_t> mine;
    std::vector<double> lengths;
    for (std::size_t i = 0; i < count; ++i) {
      if (apart && samples[i].media != media) continue;
      mine.push_back(i);
      lengths.push_back(samples[i].tokens);
    }
    std::size_t own = 0;
    const std::vector<std::uint32_t> row =
        FirstFitDecreasing(lengths, static_cast<double>(workload.packing.max_tokens), &own);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      packed[mine[i]] = row[i] + static_cast<std::uint32_t>(*rows);
    }
    *rows += own;
  }
  return packed;
}

// `wanted` packed rows: of as many samples, in their order, as first-fit-decreasing puts into that
// many. (More samples may, rarely, need fewer rows; the search then stops a little early, which costs
// a little fill and nothing else.) Steps and windows must not overlap in the stream without knowing
// each other's number of samples: each starts where the mean length says that the one before ends.
std::vector<Row> PackedRows(SampleStream* stream, const Workload& workload, std::size_t wanted,
                            std::uint64_t window) {
  constexpr std::uint64_t kProbe = 1024;
  double probed = 0;
  for (std::uint64_t i = 0; i < kProbe; ++i) probed += stream->At(i).backbone_tokens;
  const double expected = static_cast<double>(wanted) *
                          static_cast<double>(workload.packing.max_tokens) * kProbe / probed;
  if (expected > static_cast<double>(kMostSamples)) Reel(stream, 0).Reach(kMostSamples + 1);
  const std::size_t stride = std::max(wanted, static_cast<std::size_t>(expected));
  Reel reel(stream, window * stride);
  const auto fits = [&](std::size_t count) {
    reel.Reach(count);
    std::size_t rows = 0;
    Pack(reel.rows(), count, workload, &rows);
    return rows <= wanted;
  };
  std::size_t low = wanted;  // one a row always fits
  std::size_t high = stride;
  while (high <= low || fits(high)) {
    low = std::max(low, high);
    high = low + low / 16 + 1;
  }
  // Below the expectation fill is lost in ever smaller pieces: look near it first.
  for (std::size_t back = stride / 64 + 1; high - back > low && high > back; back *= 2) {
    if (fits(high - back)) {
      low = high - back;
      break;
    }
    high -= back;
  }
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  std::size_t count = 0;
  const std::vector<std::uint32_t> row = Pack(reel.rows(), low, workload, &count);
  std::vector<Row> rows(wanted);
  for (std::size_t i = 0; i < low; ++i) {
    Row& sample = reel.rows()[i];
    Row& into = rows[row[i]];
    into.tokens += sample.tokens;
    into.media |= sample.media;
    into.samples.push_back(std::move(sample.samples.front()));
  }
  // They were opened the fullest of long samples first: that is no order to deal in.
  Shuffle(workload.seed, kShuffleRows, window, &rows);
  return rows;
}

}  // namespace

std::uint64_t WindowSteps(const Workload& workload) {
  return workload.bucketing == Bucketing::kNone ? 1 : kBucketWindow;
}

std::vector<Row> RowsOfWindow(const Model& model, const Workload& workload, const StepShape& shape,
                              std::uint64_t window) {
  const std::size_t wanted = static_cast<std::size_t>(shape.Rows()) * WindowSteps(workload);
  SampleStream stream(model, workload);
  std::vector<Row> rows;
  if (workload.packing.policy != PackingPolicy::kNone) {
    rows = PackedRows(&stream, workload, wanted, window);
  } else {
    rows.reserve(wanted);
    for (std::size_t i = 0; i < wanted; ++i) {
      rows.push_back(RowOf(stream.At(window * wanted + i)));
    }
  }
  if (workload.bucketing == Bucketing::kNone) return rows;

  const bool by_media = workload.bucketing == Bucketing::kModality;
  std::vector<std::size_t> order(wanted);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (by_media && rows[a].media != rows[b].media) return rows[a].media < rows[b].media;
    return rows[a].tokens > rows[b].tokens;
  });
  // Micro-batches of all replicas, in a random order.
  const std::size_t group = static_cast<std::size_t>(shape.replicas * shape.micro_batch_size);
  std::vector<std::size_t> groups(wanted / group);
  std::iota(groups.begin(), groups.end(), std::size_t{0});
  Shuffle(workload.seed, kShuffleGroups, window, &groups);
  std::vector<Row> ordered;
  ordered.reserve(wanted);
  for (const std::size_t g : groups) {
    for (std::size_t i = 0; i < group; ++i)
      ordered.push_back(std::move(rows[order[g * group + i]]));
  }
  return ordered;
}

}  // namespace aurum
