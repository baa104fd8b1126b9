#pragma once

#include <optional>
#include <string>
#include <vector>

namespace aurum {

// Pearson's correlation of two series of equal length. Nothing, with the reason, where it has no
// value: fewer than three pairs, a series that does not vary, or a number that is not finite. (NumPy
// gives NaN there, and every comparison with NaN is false: an alarm that compares never sounds.)
struct Correlation {
  std::optional<double> r;
  std::string reason;                 // why there is none
  double spread_a = 0, spread_b = 0;  // standard deviations over the absolute means
};
Correlation Correlate(const std::vector<double>& a, const std::vector<double>& b);

// The probability that |r| < `bound` for `n` pairs of independent normal numbers:
// t = r·√((n − 2)/(1 − r²)) follows Student's distribution with n − 2 degrees of freedom. By
// Simpson's rule on the density of r, (1 − r²)^((n − 4)/2). n ≥ 4.
double ChanceOfWeakCorrelation(int n, double bound);

// The rule of the article that is audited (row A18), as its code has it: false for a history that is
// shorter than `window`, else whether |r| over the last `window` pairs is below `bound`; NaN compares
// false.
bool ArticleDriftRule(const std::vector<double>& mar, const std::vector<double>& asr,
                      int window = 5, double bound = 0.65);

}  // namespace aurum
