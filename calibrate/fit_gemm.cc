#include "calibrate/fit_gemm.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "calibrate/least_squares.h"
#include "sim/core/diagnostic.h"
#include "sim/core/hash.h"

// Two of the forms are linear once it is known which side of the max() a row is on: assign every row by
// the present model, solve a non-negative least-squares problem for (t0, 1/R, k_half/R, 1/B), assign
// again. Each step can only lower the loss for a fixed assignment, but the assignment changes too, so
// the best model met on the way is kept.
//
// The others (p_norm, tile, split_k, and any with settling) are minima and roots of products of their
// parameters. They are fitted by the simplex method of Nelder and Mead (1965) on the loss itself,
// restarted from its best point with a fresh simplex, since a simplex may collapse before it arrives.
// A dozen parameters, a couple of thousand evaluations, a quarter of a second.
//
// Every operation of the search and of the model is +, −, ×, ÷, √, which IEEE 754 rounds in one way,
// so the same table gives the same digits on every machine.

namespace aurum {
namespace {

constexpr int kAlternations = 12;
constexpr std::size_t kFolds = 5;
constexpr std::size_t kLeastRows = 10;

// Tiles of CUTLASS and cuBLAS kernels for tensor cores, in groups that share a rate, and where the
// fit of that rate starts, over the fastest group's.
struct TileGroup {
  std::vector<std::array<double, 2>> tiles;
  double efficiency;
};
const std::vector<TileGroup> kTileGroups = {{{{128, 256}, {256, 128}}, 1.0},
                                            {{{128, 128}}, 0.87},
                                            {{{64, 128}, {128, 64}}, 0.75},
                                            {{{64, 64}}, 0.55}};
constexpr int kMostSplits = 8;

// One candidate: a form, how arithmetic and memory join, whether it settles.
struct Candidate {
  const char* form;
  int norm;
  bool settles;
};
const std::vector<Candidate> kCandidates = {{"roofline", 0, false}, {"k_saturation", 0, false},
                                            {"p_norm", 2, false},   {"p_norm", 4, false},
                                            {"p_norm", 4, true},    {"tile", 0, false},
                                            {"split_k", 0, false},  {"split_k", 4, false},
                                            {"split_k", 0, true},   {"split_k", 4, true}};

struct Setting {
  int sm_count;
  const GemmFitOptions& options;
};

double Predict(const GemmModel& model, const Setting& setting, const GemmRow& row) {
  return GemmBurstSeconds(model, setting.sm_count, setting.options.input_bytes,
                          setting.options.output_bytes, row.m, row.n, row.k);
}

double Loss(const GemmModel& model, const Setting& setting, const std::vector<GemmRow>& rows) {
  double sum = 0;
  for (const GemmRow& row : rows) sum += std::abs(Predict(model, setting, row) / row.seconds - 1);
  return sum / static_cast<double>(rows.size());
}

double Bytes(const GemmRow& row, const GemmFitOptions& options) {
  return options.input_bytes * (row.m + row.n) * row.k + options.output_bytes * row.m * row.n;
}

// The rate and bandwidth that the fastest rows reach: every other row is slower by construction.
GemmModel Start(const std::vector<GemmRow>& rows, const std::string& form,
                const GemmFitOptions& options) {
  GemmModel model;
  model.form = form;
  for (const GemmRow& row : rows) {
    model.rate_flops = std::max(model.rate_flops, 2 * row.m * row.n * row.k / row.seconds);
    model.bandwidth_bytes_per_s =
        std::max(model.bandwidth_bytes_per_s, Bytes(row, options) / row.seconds);
  }
  return model;
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

GemmModel FitPlain(const std::vector<GemmRow>& rows, const Setting& setting,
                   const std::string& form) {
  const GemmFitOptions& options = setting.options;
  const bool saturating = form == "k_saturation";
  const GemmModel start = Start(rows, form, options);
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
      if (compute >= Bytes(row, options) / model.bandwidth_bytes_per_s) {
        line[1] = 2 * row.m * row.n * row.k;
        if (saturating) line[2] = 2 * row.m * row.n;
      } else {
        line[3] = Bytes(row, options);
      }
    }
    const std::vector<double> x = FitRelative(design, measured);
    model.t0_s = x[0];
    model.rate_flops = OrInfinity(x[1]);
    model.k_half = x[1] > 0 ? x[2] / x[1] : 0;
    model.bandwidth_bytes_per_s = OrInfinity(x[3]);
    BoundRates(start, &model);
    const double loss = Loss(model, setting, rows);
    if (loss < best_loss) {
      best_loss = loss;
      best = model;
    }
  }
  return best;
}

// The search's unknowns, in units of about 1. What a form lacks is not among them.
class Unknowns {
 public:
  Unknowns(const GemmModel& start, const Candidate& candidate, bool polish)
      : start_(start), least_bandwidth_(polish ? 0.02 : 0.9) {
    start_.form = candidate.form;
    start_.norm = candidate.norm;
    const std::string form = candidate.form;
    tiled_ = form == "tile" || form == "split_k";
    split_ = form == "split_k";
    settles_ = candidate.settles;
    Add(3, 0.5);    // t0, µs
    Add(1, 0.5);    // bandwidth of the fastest row over ours
    Add(1.3, 0.7);  // k_half in hundreds
    if (tiled_) {
      Add(0.5, 0.4);  // α
      for (const TileGroup& group : kTileGroups) Add(1 / group.efficiency, 0.15);
    } else {
      Add(1, 0.1);    // rate of the fastest row over ours
      Add(0.3, 0.3);  // m_half, n_half in hundreds
      Add(0.3, 0.3);
    }
    if (split_) Add(3, 2);  // overhead, µs
    if (settles_) {
      Add(0.05, 0.05);  // slowdown
      Add(0.5, 0.4);    // half_s, ms
    }
  }

  const std::vector<double>& start() const { return values_; }
  const std::vector<double>& steps() const { return steps_; }

  GemmModel Model(const std::vector<double>& values) const {
    std::size_t at = 0;
    const auto next = [&](double least = 0) { return std::max(values[at++], least); };
    constexpr double kLeast = 1e-3;
    GemmModel model = start_;
    model.t0_s = next() * 1e-6;
    model.bandwidth_bytes_per_s = start_.bandwidth_bytes_per_s / next(least_bandwidth_);
    model.k_half = next() * 100;
    if (tiled_) {
      model.wave_alpha = std::min(next(), 1.0);
      std::vector<double> slowness;
      for (std::size_t i = 0; i < kTileGroups.size(); ++i) slowness.push_back(next(kLeast));
      const double fastest = *std::min_element(slowness.begin(), slowness.end());
      model.rate_flops = start_.rate_flops / fastest;
      for (std::size_t i = 0; i < kTileGroups.size(); ++i) {
        for (const auto& [m, n] : kTileGroups[i].tiles) {
          model.tiles.push_back({m, n, fastest / slowness[i]});
        }
      }
    } else {
      model.rate_flops = start_.rate_flops / next(kLeast);
      model.m_half = next() * 100;
      model.n_half = next() * 100;
    }
    if (split_) {
      model.most_splits = kMostSplits;
      model.split_overhead_s = next() * 1e-6;
    }
    if (settles_) {
      model.settling_slowdown = std::min(next(), 1.0);
      model.settling_s = next(kLeast) * 1e-3;
    }
    return model;
  }

 private:
  void Add(double value, double step) {
    values_.push_back(value);
    steps_.push_back(step);
  }

  GemmModel start_;
  // Of tables that go down to memory-bound sizes, no bandwidth is far beyond the fastest row's. Where
  // all rows are bound by arithmetic it may be.
  double least_bandwidth_;
  bool tiled_ = false, split_ = false, settles_ = false;
  std::vector<double> values_, steps_;
};

GemmModel FitBySimplex(const std::vector<GemmRow>& rows, const Setting& setting,
                       const Candidate& candidate) {
  const Unknowns unknowns(Start(rows, candidate.form, setting.options), candidate,
                          setting.options.polish);
  const auto loss = [&](const std::vector<double>& values) {
    return Loss(unknowns.Model(values), setting, rows);
  };
  const bool smooth = std::string(candidate.form) == "p_norm" && setting.options.polish;
  std::vector<double> start = unknowns.start();
  const auto polish = [&](std::vector<double> values) {
    std::vector<double> polished = MinimizeSquares(values, 60, [&](const std::vector<double>& at) {
      const GemmModel model = unknowns.Model(at);
      std::vector<double> errors;
      errors.reserve(rows.size());
      for (const GemmRow& row : rows)
        errors.push_back(Predict(model, setting, row) / row.seconds - 1);
      return errors;
    });
    return loss(polished) < loss(values) ? polished : values;
  };
  if (smooth) start = polish(std::move(start));
  std::vector<double> best = MinimizeBySimplex(start, unknowns.steps(), 5, 300, loss);
  if (smooth) best = polish(std::move(best));
  return unknowns.Model(best);
}

GemmModel FitCandidate(const std::vector<GemmRow>& rows, const Setting& setting,
                       const Candidate& candidate) {
  if (rows.size() < kLeastRows) {
    ThrowInput(825,
               "a GEMM model wants at least " + std::to_string(kLeastRows) + " rows, not " +
                   std::to_string(rows.size()),
               "measure more shapes");
  }
  const std::string form = candidate.form;
  return form == "roofline" || form == "k_saturation" ? FitPlain(rows, setting, form)
                                                      : FitBySimplex(rows, setting, candidate);
}

std::size_t FoldOf(const GemmRow& row) {
  const std::string shape = std::to_string(static_cast<std::int64_t>(row.m)) + "," +
                            std::to_string(static_cast<std::int64_t>(row.n)) + "," +
                            std::to_string(static_cast<std::int64_t>(row.k));
  return HashText(shape).low % kFolds;
}

void Round(GemmModel* model) {
  for (double* value : {&model->t0_s, &model->rate_flops, &model->bandwidth_bytes_per_s,
                        &model->k_half, &model->m_half, &model->n_half, &model->wave_alpha,
                        &model->split_overhead_s, &model->settling_slowdown, &model->settling_s}) {
    *value = RoundSignificant(*value);
  }
  for (auto& tile : model->tiles) tile[2] = RoundSignificant(tile[2]);
}

}  // namespace

bool IsTrainingSize(const GemmRow& row, const GemmFitOptions& options) {
  const double low = options.training_low, high = options.training_high;
  return row.m >= low && row.n >= low && row.n <= high && row.k >= low && row.k <= high;
}

bool IsFitSize(const GemmRow& row, const GemmFitOptions& options) {
  const double least = options.least_size;
  return row.m >= least && row.n >= least && row.k >= least;
}

GemmModel FitGemm(const std::vector<GemmRow>& rows, int sm_count, const std::string& form,
                  const GemmFitOptions& options) {
  for (const Candidate& candidate : kCandidates) {
    if (form == candidate.form) return FitCandidate(rows, {sm_count, options}, candidate);
  }
  assert(false);
  return {};
}

GemmModel ChooseGemm(const std::vector<GemmRow>& all_rows, int sm_count, const std::string& source,
                     const GemmFitOptions& options) {
  const Setting setting{sm_count, options};
  std::vector<GemmRow> rows;
  std::copy_if(all_rows.begin(), all_rows.end(), std::back_inserter(rows),
               [&](const GemmRow& row) { return IsFitSize(row, options); });
  const Candidate* chosen = nullptr;
  FitQuality best;
  double best_error = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : kCandidates) {
    const std::string form = candidate.form;
    if (!options.tiles && (form == "tile" || form == "split_k")) continue;
    double sum = 0;
    double training_sum = 0;
    int training_points = 0;
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
      std::vector<GemmRow> kept;
      for (const GemmRow& row : rows) {
        if (FoldOf(row) != fold) kept.push_back(row);
      }
      const GemmModel model = FitCandidate(kept, setting, candidate);
      for (const GemmRow& row : rows) {
        if (FoldOf(row) != fold) continue;
        const double error = std::abs(Predict(model, setting, row) / row.seconds - 1);
        sum += error;
        if (!IsTrainingSize(row, options)) continue;
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
      chosen = &candidate;
      best = quality;
    }
  }
  GemmModel model = FitCandidate(rows, setting, *chosen);
  Round(&model);
  for (const GemmRow& row : rows) {
    model.m.Add(row.m);
    model.n.Add(row.n);
    model.k.Add(row.k);
  }
  model.quality = best;
  model.quality.method = chosen->form;
  if (model.settling_slowdown > 0) model.quality.method += " with settling";
  model.quality.source = source;
  model.quality.provenance = Provenance::kCalibrated;
  return model;
}

}  // namespace aurum
