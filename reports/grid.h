#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// The sweep of an island as grids. Shape: FLOPs per token × communication bandwidth × AlignRatio; a
// flat index runs over the last axis first.
using GridShape = std::array<std::size_t, 3>;

// A figure over all points of a grid in the smallest of the island's three forms (see
// reports/README.md): axes along which the rounded values do not change are dropped; values that
// come in long runs are written as runs; else every point. `values` has one entry per point; NaN
// becomes null. Cost: a few passes over the points.
Json EncodeField(const std::vector<double>& values, const GridShape& shape, int digits = 4);

// Reads any of the three forms. A field that does not fit the grid is a programming error of who
// wrote the island.
class FieldReader {
 public:
  FieldReader() = default;
  FieldReader(const Json& field, const GridShape& shape);
  // Nothing where the point failed.
  std::optional<double> At(std::size_t i, std::size_t j, std::size_t k) const;

 private:
  std::vector<double> values_;  // NaN: null
  std::array<std::size_t, 3> strides_{};
};

// Formula and simulation at one point. The three terms are those of the modality inside the max.
struct SweepPoint {
  std::optional<double> simulated_step_time_s;
  double formula_step_time_s = 0;
  std::size_t modality = 0;
  double f_over_b_s = 0;
  double g_over_c_s = 0;
  double alpha_comm_s = 0;
  double beta_p_align_s = 0;
  std::size_t limit = 0;   // index into the sweep's limits
  std::size_t reason = 0;  // index into the sweep's reasons

  // formula / simulation - 1.
  std::optional<double> Gap() const;
};

// One model on one cluster.
struct SweepGrid {
  SweepGrid(const Json& sweep, const Json& entry);

  std::string name;
  std::string cluster;
  std::vector<double> flops_gflop_per_token;
  std::vector<double> comm_bw_gb_per_s;
  std::vector<double> align_ratio;
  std::vector<std::string> modalities;

  GridShape Shape() const;
  SweepPoint At(std::size_t i, std::size_t j, std::size_t k) const;
  // At the model's own operating point: the island's exact figures, or those of the nearest grid
  // point.
  SweepPoint AtReference() const;
  bool ReferenceIsExact() const;
  // How many of the points that did not fail each of `limits` limits.
  std::vector<std::size_t> CountLimits(std::size_t limits) const;

 private:
  const Json* entry_;
  FieldReader simulated_, formula_, beta_, limit_, reason_;
  std::vector<FieldReader> f_over_b_, g_over_c_, alpha_comm_;
};

// The string at `index` of an array of strings, "" beyond its end.
std::string NameAt(const Json& names, std::size_t index);

}  // namespace aurum
