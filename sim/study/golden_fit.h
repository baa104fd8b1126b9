#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/formula/golden.h"

namespace aurum {

// One step: the terms of the golden formula, and how long the step took by simulation or
// measurement. All in seconds; the three vectors have one entry for each subnetwork k (for
// kCriticalPath: for each that lies on the path).
struct GoldenRow {
  std::vector<double> f_over_b;  // F_k/B_k
  std::vector<double> g_over_c;  // G_k/C_k
  std::vector<double> comm;      // Comm_k, with nothing hidden
  double p_align = 0;
  double simulated_s = 0;  // > 0
};

// combine_k[F_k/B_k + G_k/C_k + alpha·Comm_k] + beta·P_align, in seconds.
double GoldenTime(const GoldenRow& row, Combine combine, double alpha, double beta);

struct GoldenParameter {
  // Absent if the rows do not determine it; `reason` then says why. Never a 0 that stands for
  // "unknown".
  std::optional<double> value;
  // 95 % confidence interval, inside of the parameter's bounds; absent without a value, or with too
  // few rows for it.
  std::optional<double> low;
  std::optional<double> high;
  bool at_bound = false;  // the best value is a bound (0 or 1 for alpha, 0 for beta): without the
                          // bound it would lie beyond
  std::string reason;     // why value or interval is absent; "" if neither is
};

struct GoldenFit {
  GoldenParameter alpha;     // share of Comm that stays exposed, in [0, 1]
  GoldenParameter beta;      // weight of P_align, >= 0
  std::optional<double> r2;  // 1 - sum of squared errors / sum of squared deviations from the mean,
                             // of times; absent if all times are equal
  double rms_relative_error =
      0;  // root of the mean square of (fitted - simulated)/simulated: what the fit minimises
  double max_relative_error = 0;
  double within_ten_percent = 0;  // share of rows with a relative error of at most 0.1
  std::vector<double> fitted_s;   // of each row
  std::vector<std::size_t>
      active;  // kMax: the subnetwork that decides each row (the first, if equal); else empty
};

// The alpha in [0, 1] and beta >= 0 with the least sum of squared *relative* errors over the rows
// (so that a study's long steps do not drown its short ones). The minimum is global, for kMax too;
// see golden_fit.cc. O(n·K·log(n·K)).
//
// Intervals are profile intervals of the least-squares model, with each row's active subnetwork
// held at the optimum: the values of the parameter for which the sum of squares, minimised over the
// other parameter within its bounds, is at most (1 + t²/(n-p)) times the least, t the 97.5 % point
// of Student's distribution with n-p degrees of freedom. Away from the bounds that is the textbook
// interval, exact for independent normal relative errors of equal size. A simulator's deviations
// are systematic rather than random: the intervals then say how sharply the rows determine the
// parameter.
//
// Errors: E0740 no rows, rows of different length, a negative or non-finite term, or a time that is
// not above 0.
GoldenFit FitGolden(const std::vector<GoldenRow>& rows, Combine combine);

}  // namespace aurum
