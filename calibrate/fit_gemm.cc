#include "calibrate/fit_gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "calibrate/least_squares.h"
#include "sim/core/diagnostic.h"
#include "sim/core/hash.h"

// t = t0 + max(work/R, bytes/B) is linear in (t0, 1/R, 1/B) once it is known which side of the
// max() a row is on, and in the tile form also which tile it takes. So: assign every row by the
// present model, solve a non-negative least-squares problem, assign again. Each step can only lower
// the loss for a fixed assignment, but the assignment changes too, so the best model met on the way
// is kept. In the k-saturation form the work is linear in (1/R, k_half/R) as well; in the tile form
// k_half and α multiply the tiles' rates and are found by a grid and golden sections around the
// linear problem, one after the other.

namespace aurum {
namespace {

constexpr double kInputBytes = 2;
constexpr double kOutputBytes = 2;
constexpr int kAlternations = 12;
constexpr std::size_t kFolds = 5;
constexpr std::size_t kLeastRows = 10;

// Tiles of CUTLASS and cuBLAS kernels for tensor cores. Efficiency here is only where the fit
// starts.
const std::vector<std::array<double, 3>> kTiles = {
    {128, 256, 1.0}, {256, 128, 1.0}, {128, 128, 0.87}, {64, 256, 0.8},
    {256, 64, 0.8},  {64, 128, 0.75}, {128, 64, 0.75},  {64, 64, 0.55}};

double Predict(const GemmModel& model, int sm_count, const GemmRow& row) {
  return GemmBurstSeconds(model, sm_count, kInputBytes, kOutputBytes, row.m, row.n, row.k);
}

double Loss(const GemmModel& model, int sm_count, const std::vector<GemmRow>& rows) {
  double sum = 0;
  for (const GemmRow& row : rows) sum += std::abs(Predict(model, sm_count, row) / row.seconds - 1);
  return sum / static_cast<double>(rows.size());
}

double Bytes(const GemmRow& row) {
  return kInputBytes * (row.m + row.n) * row.k + kOutputBytes * row.m * row.n;
}

// The rate and bandwidth that the fastest rows reach: every other row is slower by construction.
GemmModel Start(const std::vector<GemmRow>& rows, const std::string& form) {
  GemmModel model;
  model.form = form;
  for (const GemmRow& row : rows) {
    model.rate_flops = std::max(model.rate_flops, 2 * row.m * row.n * row.k / row.seconds);
    model.bandwidth_bytes_per_s = std::max(model.bandwidth_bytes_per_s, Bytes(row) / row.seconds);
  }
  return model;
}

// The seconds of the compute side if only tile `tile` could be taken, at rate 1 and efficiency 1.
double TileUnits(const GemmModel& model, int sm_count, std::size_t tile, const GemmRow& row) {
  GemmModel one = model;
  one.tiles = {{model.tiles[tile][0], model.tiles[tile][1], 1.0}};
  one.t0_s = 0;
  one.rate_flops = 1;
  one.bandwidth_bytes_per_s = std::numeric_limits<double>::infinity();
  return Predict(one, sm_count, row);
}

double OrInfinity(double inverse) {
  return inverse > 0 ? 1 / inverse : std::numeric_limits<double>::infinity();
}

// A side of the max() that no row needed has coefficient 0, an infinite rate; a file cannot say so,
// and no device has it. The rate that the fastest row reached bounds it from below.
void BoundRates(const GemmModel& start, GemmModel* model) {
  if (!std::isfinite(model->rate_flops)) model->rate_flops = start.rate_flops;
  if (!std::isfinite(model->bandwidth_bytes_per_s)) {
    model->bandwidth_bytes_per_s = start.bandwidth_bytes_per_s;
  }
}

GemmModel FitPlain(const std::vector<GemmRow>& rows, int sm_count, const std::string& form) {
  const bool saturating = form == "k_saturation";
  const GemmModel start = Start(rows, form);
  GemmModel model = start;
  GemmModel best = start;
  double best_loss = std::numeric_limits<double>::infinity();
  std::vector<double> measured;
  measured.reserve(rows.size());
  for (const GemmRow& row : rows) measured.push_back(row.seconds);
  for (int round = 0; round < kAlternations; ++round) {
    DesignMatrix design(4);  // t0, 1/R, k_half/R, 1/B
    for (const GemmRow& row : rows) {
      const double compute = 2 * row.m * row.n * (row.k + model.k_half) / model.rate_flops;
      double* line = design.AddRow();
      line[0] = 1;
      if (compute >= Bytes(row) / model.bandwidth_bytes_per_s) {
        line[1] = 2 * row.m * row.n * row.k;
        if (saturating) line[2] = 2 * row.m * row.n;
      } else {
        line[3] = Bytes(row);
      }
    }
    const std::vector<double> x = FitRelative(design, measured);
    model.t0_s = x[0];
    model.rate_flops = OrInfinity(x[1]);
    model.k_half = x[1] > 0 ? x[2] / x[1] : 0;
    model.bandwidth_bytes_per_s = OrInfinity(x[3]);
    BoundRates(start, &model);
    const double loss = Loss(model, sm_count, rows);
    if (loss < best_loss) {
      best_loss = loss;
      best = model;
    }
  }
  return best;
}

// The linear part of the tile form for a given α and k_half.
GemmModel FitTiles(const std::vector<GemmRow>& rows, int sm_count, double alpha, double k_half,
                   const GemmModel& start, double* loss) {
  GemmModel model = start;
  model.wave_alpha = alpha;
  model.k_half = k_half;
  const std::size_t tiles = kTiles.size();
  model.tiles = kTiles;
  std::vector<double> units(rows.size() * tiles);
  std::vector<double> measured;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    measured.push_back(rows[i].seconds);
    for (std::size_t j = 0; j < tiles; ++j)
      units[i * tiles + j] = TileUnits(model, sm_count, j, rows[i]);
  }
  std::vector<double> inverse_rate(tiles);  // seconds per unit of work
  for (std::size_t j = 0; j < tiles; ++j) {
    inverse_rate[j] = 1 / (model.rate_flops * kTiles[j][2]);
  }
  double inverse_bandwidth = 1 / model.bandwidth_bytes_per_s;
  GemmModel best;
  *loss = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kAlternations; ++round) {
    DesignMatrix design(tiles + 2);  // t0, 1/B, one per tile
    std::vector<int> used(tiles, 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double* line = design.AddRow();
      line[0] = 1;
      std::size_t pick = 0;
      for (std::size_t j = 1; j < tiles; ++j) {
        if (units[i * tiles + j] * inverse_rate[j] < units[i * tiles + pick] * inverse_rate[pick])
          pick = j;
      }
      if (units[i * tiles + pick] * inverse_rate[pick] >= Bytes(rows[i]) * inverse_bandwidth) {
        line[2 + pick] = units[i * tiles + pick];
        ++used[pick];
      } else {
        line[1] = Bytes(rows[i]);
      }
    }
    const std::vector<double> x = FitRelative(design, measured);
    model.t0_s = x[0];
    inverse_bandwidth = x[1] > 0 ? x[1] : 1 / start.bandwidth_bytes_per_s;
    model.bandwidth_bytes_per_s = 1 / inverse_bandwidth;
    model.tiles.clear();
    double fastest = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < tiles; ++j) {
      if (used[j] == 0 || x[2 + j] <= 0) {
        inverse_rate[j] = std::numeric_limits<double>::infinity();  // nobody takes it again
        continue;
      }
      inverse_rate[j] = x[2 + j];
      fastest = std::min(fastest, inverse_rate[j]);
    }
    if (!std::isfinite(fastest)) break;
    model.rate_flops = 1 / fastest;
    for (std::size_t j = 0; j < tiles; ++j) {
      if (!std::isfinite(inverse_rate[j])) continue;
      model.tiles.push_back({kTiles[j][0], kTiles[j][1], fastest / inverse_rate[j]});
    }
    const double now = Loss(model, sm_count, rows);
    if (now < *loss) {
      *loss = now;
      best = model;
    }
  }
  return best;
}

GemmModel FitTile(const std::vector<GemmRow>& rows, int sm_count) {
  const GemmModel start = Start(rows, "tile");
  double alpha = 0.5;
  double k_half = 130;
  const auto loss_at = [&](double a, double k) {
    double loss = 0;
    FitTiles(rows, sm_count, a, k, start, &loss);
    return loss;
  };
  for (int sweep = 0; sweep < 2; ++sweep) {
    k_half = MinimizeOnInterval(0, 600, 7, 5, [&](double k) { return loss_at(alpha, k); });
    alpha = MinimizeOnInterval(0, 1, 6, 4, [&](double a) { return loss_at(a, k_half); });
  }
  double loss = 0;
  return FitTiles(rows, sm_count, alpha, k_half, start, &loss);
}

std::size_t FoldOf(const GemmRow& row) {
  const std::string shape = std::to_string(static_cast<std::int64_t>(row.m)) + "," +
                            std::to_string(static_cast<std::int64_t>(row.n)) + "," +
                            std::to_string(static_cast<std::int64_t>(row.k));
  return HashText(shape).low % kFolds;
}

void Round(GemmModel* model) {
  for (double* value : {&model->t0_s, &model->rate_flops, &model->bandwidth_bytes_per_s,
                        &model->k_half, &model->wave_alpha}) {
    *value = RoundSignificant(*value);
  }
  for (auto& tile : model->tiles) tile[2] = RoundSignificant(tile[2]);
}

}  // namespace

bool IsTrainingSize(const GemmRow& row) {
  return row.m >= 1024 && row.n >= 1024 && row.n <= 16384 && row.k >= 1024 && row.k <= 16384;
}

bool IsFitSize(const GemmRow& row) { return row.m >= 256 && row.n >= 256 && row.k >= 256; }

GemmModel FitGemm(const std::vector<GemmRow>& rows, int sm_count, const std::string& form) {
  if (rows.size() < kLeastRows) {
    ThrowInput(825,
               "a GEMM model wants at least " + std::to_string(kLeastRows) + " rows, not " +
                   std::to_string(rows.size()),
               "measure more shapes");
  }
  return form == "tile" ? FitTile(rows, sm_count) : FitPlain(rows, sm_count, form);
}

GemmModel ChooseGemm(const std::vector<GemmRow>& all_rows, int sm_count,
                     const std::string& source) {
  std::vector<GemmRow> rows;
  std::copy_if(all_rows.begin(), all_rows.end(), std::back_inserter(rows), IsFitSize);
  std::string best_form;
  FitQuality best;
  double best_error = std::numeric_limits<double>::infinity();
  for (const std::string form : {"roofline", "k_saturation", "tile"}) {
    double sum = 0;
    double training_sum = 0;
    int training_points = 0;
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
      std::vector<GemmRow> kept;
      for (const GemmRow& row : rows) {
        if (FoldOf(row) != fold) kept.push_back(row);
      }
      const GemmModel model = FitGemm(kept, sm_count, form);
      for (const GemmRow& row : rows) {
        if (FoldOf(row) != fold) continue;
        const double error = std::abs(Predict(model, sm_count, row) / row.seconds - 1);
        sum += error;
        if (!IsTrainingSize(row)) continue;
        training_sum += error;
        ++training_points;
      }
    }
    FitQuality quality;
    quality.points = static_cast<int>(rows.size());
    quality.holdout_points = static_cast<int>(rows.size());
    quality.holdout_mape = RoundSignificant(sum / static_cast<double>(rows.size()), 4);
    quality.training_size_mape = training_points == 0
                                     ? std::numeric_limits<double>::quiet_NaN()
                                     : RoundSignificant(training_sum / training_points, 4);
    const double error = training_points == 0 ? quality.holdout_mape : quality.training_size_mape;
    if (error < best_error) {
      best_error = error;
      best_form = form;
      best = quality;
    }
  }
  GemmModel model = FitGemm(rows, sm_count, best_form);
  Round(&model);
  model.quality = best;
  model.quality.method = best_form;
  model.quality.source = source;
  model.quality.provenance = Provenance::kCalibrated;
  return model;
}

}  // namespace aurum
