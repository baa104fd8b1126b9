#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "sim/core/rounding.h"

namespace aurum {

// A dense matrix of few columns, row by row.
struct DesignMatrix {
  std::size_t columns = 0;
  std::vector<double> values;

  explicit DesignMatrix(std::size_t column_count) : columns(column_count) {}
  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  double* AddRow();  // of zeros; valid until the next one
};

// argmin ‖A·x − b‖² over x ≥ 0. A column of zeros gets 0.
std::vector<double> NonNegativeLeastSquares(const DesignMatrix& a, const std::vector<double>& b);

// Fits x ≥ 0 so that A·x ≈ measured in *relative* error, near the mean absolute one: rows are
// divided by the measured time, then reweighted a few times by 1/max(|error|, floor), which turns
// squares into absolute values for all but the smallest errors. An outlier then weighs once, not
// squared.
std::vector<double> FitRelative(const DesignMatrix& a, const std::vector<double>& measured);

// Minimum of a function of one variable over [low, high]: a grid of `grid` points, then golden
// sections.
double MinimizeOnInterval(double low, double high, int grid, int refinements,
                          const std::function<double(double)>& loss);

// Minimum of a function of several variables near `start` by the simplex method of Nelder and Mead:
// `rounds` times, a simplex of the best point yet and one step from it along each axis (the steps
// shrink by 0.7 a round) is moved `moves` times. Derivative-free; finds a local minimum. The same digits
// on every machine if `loss` has them.
std::vector<double> MinimizeBySimplex(
    std::vector<double> start, std::vector<double> steps, int rounds, int moves,
    const std::function<double(const std::vector<double>&)>& loss);

// Minimum of Σ residual² near `start` over x ≥ 0, of residuals that are smooth in x: Levenberg's and
// Marquardt's damped Gauss-Newton steps with forward differences, cut off at 0. Where a simplex creeps
// along a narrow valley, this walks down it. Deterministic as MinimizeBySimplex.
std::vector<double> MinimizeSquares(
    std::vector<double> start, int iterations,
    const std::function<std::vector<double>(const std::vector<double>&)>& residuals);

// Mean of |predicted/measured − 1|.
double MeanRelativeError(const std::vector<double>& predicted, const std::vector<double>& measured);

}  // namespace aurum
