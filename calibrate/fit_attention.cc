#include "calibrate/fit_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "calibrate/least_squares.h"
#include "sim/core/diagnostic.h"
#include "sim/core/hash.h"

// Forward attention is linear, like a GEMM, once each row is known to be bound by arithmetic or by
// memory:
//
//   t = t0 + kv bytes/W + pairs·c + queries·g + longest block·τ·c
//   t = t0 + kv bytes/W + bytes/B
//
// c and g are one each per head dimension. Both must not fall when the dimension grows, or a wider
// head would be predicted to be faster; so the unknowns are their *increments* from one dimension
// to the next, which non-negative least squares keeps from falling. τ multiplies c and is found by
// an outer search.
//
// W is the inference engine's write of keys and values to its cache. Without it, rows with as many
// key as query heads are predicted 20…35 % too fast (H100, 1536 tokens) and hold-out errors at
// training sizes are 1.3 to 2.5 times as large. It comes out at 0.15…0.6 of the memory bandwidth, a
// few passes over keys and values. Training does not pay it, so Profile leaves it out.

namespace aurum {
namespace {

constexpr int kAlternations = 10;
constexpr std::size_t kFolds = 5;

std::size_t FoldOf(const AttentionRow& row) {
  std::string shape;
  for (const double size : {row.batch, row.seq_len, row.past_len, row.heads, row.kv_heads}) {
    shape += std::to_string(static_cast<std::int64_t>(size)) + ",";
  }
  return HashText(shape + std::to_string(row.head_dim) + (row.causal ? "" : ",full")).low % kFolds;
}

double CacheBytes(const AttentionRow& row) {
  return 2 * 2 * row.batch * row.kv_heads * row.seq_len * row.head_dim;
}

// Kernel and cache write: what the tables hold.
double Predict(const AttentionModel& model, int sm_count, const AttentionRow& row) {
  const double kernel = AttentionBurstSeconds(model, sm_count, row.batch, row.heads, row.kv_heads,
                                              row.seq_len, row.seq_len, row.head_dim, row.causal);
  if (model.cache_write_bytes_per_s == 0) return kernel;
  return kernel + CacheBytes(row) / model.cache_write_bytes_per_s;
}

double Bytes(const AttentionRow& row) {
  return 2 * row.batch * row.head_dim * row.seq_len * (2 * row.heads + 2 * row.kv_heads);
}

double PairsOf(const AttentionRow& row) {
  return row.seq_len * row.seq_len * (row.causal ? 0.5 : 1);
}

double Loss(const AttentionModel& model, int sm_count, const std::vector<AttentionRow>& rows) {
  double sum = 0;
  for (const AttentionRow& row : rows)
    sum += std::abs(Predict(model, sm_count, row) / row.seconds - 1);
  return sum / static_cast<double>(rows.size());
}

AttentionModel FitForward(const std::vector<AttentionRow>& rows, const std::vector<int>& dims,
                          int sm_count, double tail, bool cache_write, double* loss) {
  AttentionModel model;
  model.tail = tail;
  double start_rate = 0;
  double start_bandwidth = 0;
  std::vector<double> measured;
  for (const AttentionRow& row : rows) {
    measured.push_back(row.seconds);
    const double flops = 4 * row.batch * row.heads * PairsOf(row) * row.head_dim;
    start_rate = std::max(start_rate, flops / row.seconds);
    start_bandwidth = std::max(start_bandwidth, Bytes(row) / row.seconds);
  }
  model.bandwidth_bytes_per_s = start_bandwidth;
  for (const int dim : dims) model.per_head_dim.push_back({dim, start_rate, 500});
  AttentionModel best = model;
  *loss = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kAlternations; ++round) {
    AttentionModel compute_only = model;
    compute_only.t0_s = 0;
    compute_only.cache_write_bytes_per_s = 0;
    compute_only.bandwidth_bytes_per_s = std::numeric_limits<double>::infinity();
    DesignMatrix design(3 + 2 * dims.size());  // t0, 1/B, 1/W, increments of c, increments of g
    for (const AttentionRow& row : rows) {
      double* line = design.AddRow();
      line[0] = 1;
      if (cache_write) line[2] = CacheBytes(row);
      if (Predict(compute_only, sm_count, row) < Bytes(row) / model.bandwidth_bytes_per_s) {
        line[1] = Bytes(row);
        continue;
      }
      const double calls = row.batch * row.heads;
      const double block = std::min(row.seq_len, 128.0);
      for (std::size_t j = 0; j < dims.size() && dims[j] <= row.head_dim; ++j) {
        line[3 + j] = calls * PairsOf(row) + tail * sm_count * block * row.seq_len;
        line[3 + dims.size() + j] = calls * row.seq_len;
      }
    }
    const std::vector<double> x = FitRelative(design, measured);
    model.t0_s = x[0];
    model.bandwidth_bytes_per_s = x[1] > 0 ? 1 / x[1] : start_bandwidth;
    model.cache_write_bytes_per_s = x[2] > 0 ? 1 / x[2] : 0;
    double pair = 0;
    double query = 0;
    for (std::size_t j = 0; j < dims.size(); ++j) {
      pair += x[3 + j];
      query += x[3 + dims.size() + j];
      // pair = 4·d/R and query = 2·d·h/R.
      model.per_head_dim[j].rate_flops = pair > 0 ? 4 * dims[j] / pair : start_rate;
      model.per_head_dim[j].half_length = pair > 0 ? 2 * query / pair : 0;
    }
    const double now = Loss(model, sm_count, rows);
    if (now < *loss) {
      *loss = now;
      best = model;
    }
  }
  return best;
}

AttentionModel FitWithTail(const std::vector<AttentionRow>& rows, const std::vector<int>& dims,
                           int sm_count, bool cache_write) {
  double loss = 0;
  const double tail = MinimizeOnInterval(0, 3, 7, 5, [&](double t) {
    FitForward(rows, dims, sm_count, t, cache_write, &loss);
    return loss;
  });
  return FitForward(rows, dims, sm_count, tail, cache_write, &loss);
}

DecodeModel FitDecodeOnce(const std::vector<AttentionRow>& rows) {
  DesignMatrix design(3);
  std::vector<double> measured;
  for (const AttentionRow& row : rows) {
    double* line = design.AddRow();
    line[0] = 1;
    line[2] = 4 * row.batch * row.kv_heads * row.head_dim;
    line[1] = 4 * row.batch * row.kv_heads * (row.past_len + row.seq_len) * row.head_dim;
    measured.push_back(row.seconds);
  }
  const std::vector<double> x = FitRelative(design, measured);
  if (x[1] <= 0)
    ThrowInput(825, "the decode rows show no growth with the size of the cache",
               "measure longer caches");
  DecodeModel model;
  model.t0_s = x[0];
  model.bandwidth_bytes_per_s = 1 / x[1];
  model.row_tokens = x[2] / x[1];
  return model;
}

double PredictDecode(const DecodeModel& model, const AttentionRow& row) {
  const double bytes =
      4 * row.batch * row.kv_heads * (row.past_len + row.seq_len + model.row_tokens) * row.head_dim;
  return model.t0_s + bytes / model.bandwidth_bytes_per_s;
}

}  // namespace

bool IsForwardFitSize(const AttentionRow& row, const AttentionFitOptions& options) {
  return row.past_len == 0 && row.seq_len >= options.least_length &&
         row.batch * row.heads >= options.least_calls && row.head_dim >= options.least_head_dim;
}

bool IsForwardTrainingSize(const AttentionRow& row, const AttentionFitOptions& options) {
  return IsForwardFitSize(row, options) && row.seq_len >= options.training_length &&
         row.batch * row.heads >= options.training_calls;
}

bool IsDecodeFitSize(const AttentionRow& row) { return row.seq_len == 1 && row.past_len >= 1; }

AttentionModel FitAttention(const std::vector<AttentionRow>& all_rows, int sm_count,
                            const std::string& source, const AttentionFitOptions& options) {
  std::map<int, int> count;
  for (const AttentionRow& row : all_rows) {
    if (IsForwardFitSize(row, options)) ++count[row.head_dim];
  }
  std::vector<int> dims;
  for (const auto& [dim, rows_of_dim] : count) {
    if (rows_of_dim >= options.least_rows) dims.push_back(dim);
  }
  if (dims.empty()) {
    ThrowInput(825,
               "no head dimension has " + std::to_string(options.least_rows) + " attention rows",
               "measure more shapes");
  }
  std::vector<AttentionRow> rows;
  for (const AttentionRow& row : all_rows) {
    if (IsForwardFitSize(row, options) &&
        std::binary_search(dims.begin(), dims.end(), row.head_dim)) {
      rows.push_back(row);
    }
  }
  double sum = 0;
  double training_sum = 0;
  int training_points = 0;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<AttentionRow> kept;
    for (const AttentionRow& row : rows) {
      if (FoldOf(row) != fold) kept.push_back(row);
    }
    const AttentionModel model = FitWithTail(kept, dims, sm_count, options.cache_write);
    for (const AttentionRow& row : rows) {
      if (FoldOf(row) != fold) continue;
      const double error = std::abs(Predict(model, sm_count, row) / row.seconds - 1);
      sum += error;
      if (!IsForwardTrainingSize(row, options)) continue;
      training_sum += error;
      ++training_points;
    }
  }
  AttentionModel model = FitWithTail(rows, dims, sm_count, options.cache_write);
  model.t0_s = RoundSignificant(model.t0_s);
  model.bandwidth_bytes_per_s = RoundSignificant(model.bandwidth_bytes_per_s);
  model.tail = RoundSignificant(model.tail);
  model.cache_write_bytes_per_s = RoundSignificant(model.cache_write_bytes_per_s);
  for (auto& known : model.per_head_dim) {
    known.rate_flops = RoundSignificant(known.rate_flops);
    known.half_length = RoundSignificant(known.half_length);
  }
  for (const AttentionRow& row : rows) {
    model.length.Add(row.seq_len);
    model.calls.Add(row.batch * row.heads);
  }
  model.quality.points = static_cast<int>(rows.size());
  model.quality.holdout_points = static_cast<int>(rows.size());
  model.quality.holdout_mape = RoundSignificant(sum / static_cast<double>(rows.size()), 4);
  model.quality.training_size_mape = training_points == 0
                                         ? std::numeric_limits<double>::quiet_NaN()
                                         : RoundSignificant(training_sum / training_points, 4);
  model.quality.method = "roofline_per_head_dim";
  model.quality.source = source;
  model.quality.provenance = Provenance::kCalibrated;
  return model;
}

DecodeModel FitDecode(const std::vector<AttentionRow>& all_rows, const std::string& source) {
  std::vector<AttentionRow> rows;
  std::copy_if(all_rows.begin(), all_rows.end(), std::back_inserter(rows), IsDecodeFitSize);
  if (rows.size() < 2 * kFolds) ThrowInput(825, "fewer than 10 decode rows", "measure more shapes");
  double sum = 0;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<AttentionRow> kept;
    for (const AttentionRow& row : rows) {
      if (FoldOf(row) != fold) kept.push_back(row);
    }
    const DecodeModel model = FitDecodeOnce(kept);
    for (const AttentionRow& row : rows) {
      if (FoldOf(row) == fold) sum += std::abs(PredictDecode(model, row) / row.seconds - 1);
    }
  }
  DecodeModel model = FitDecodeOnce(rows);
  model.t0_s = RoundSignificant(model.t0_s);
  model.bandwidth_bytes_per_s = RoundSignificant(model.bandwidth_bytes_per_s);
  for (const AttentionRow& row : rows) {
    model.length.Add(row.past_len);
    model.calls.Add(row.batch * row.kv_heads);
  }
  model.quality.points = static_cast<int>(rows.size());
  model.quality.holdout_points = static_cast<int>(rows.size());
  model.quality.holdout_mape = RoundSignificant(sum / static_cast<double>(rows.size()), 4);
  model.quality.training_size_mape = std::numeric_limits<double>::quiet_NaN();
  model.quality.method = "cache_bandwidth";
  model.quality.source = source;
  model.quality.provenance = Provenance::kCalibrated;
  return model;
}

}  // namespace aurum
