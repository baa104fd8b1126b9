#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/object_reader.h"

namespace aurum {

// How a quantity of a sample is spread: text tokens, sides of images, seconds, counts. A pure
// description; a value is drawn by giving Quantile a number from the counter-based generator.
enum class DistributionKind { kConstant, kUniform, kNormal, kLogNormal, kChoice };

struct Distribution {
  DistributionKind kind = DistributionKind::kConstant;
  double first = 0;   // the value | the least | the mean | the median
  double second = 0;  // – | the most | the standard deviation | sigma of the logarithm
  // Values beyond are cut off here, as a data loader cuts at its max_length; never left out. Always
  // within what the quantity may be, so that no draw is impossible.
  double least = 0;
  double most = std::numeric_limits<double>::max();
  bool whole = true;  // values are whole numbers: uniform over every integer, others rounded
  std::vector<std::pair<double, double>> choices;  // value, weight up to here over all weights

  // The value that a share p of all draws does not exceed; 0 < p < 1. A uniform p gives a draw.
  double Quantile(double p) const;
  // In closed form, cut-offs included; of rounded normal and log-normal ones before rounding, which
  // moves it by less than half.
  double Mean() const;
  // No draw is above it: an end, a cut-off, or the largest choice of positive weight.
  double Largest() const;
  bool Constant() const { return kind == DistributionKind::kConstant; }
};

Distribution ConstantDistribution(double value);

// Reads the value of `key`: a number, or one of {"uniform": [a, b]}, {"normal": [mean, sd]},
// {"lognormal": [median, sigma]}, both with "min" and "max", {"choice": [[value, weight], …]}. `low`
// and `high` are what the quantity may be. E0620 what such an object cannot be; E0102 no such key.
Distribution ReadDistribution(ObjectReader* reader, std::string_view key, double low, double high,
                              bool whole);

// The standard normal's distribution function and its inverse, to about 1e-14.
double NormalCumulative(double z);
double NormalQuantile(double p);

}  // namespace aurum
