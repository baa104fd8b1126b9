#pragma once

#include <string>
#include <utility>
#include <vector>

namespace aurum {

// The text exposition format of Prometheus, version 0.0.4: a family is its HELP, its TYPE and its
// samples, together and once; label values and help texts are escaped; the text ends with a newline.
// https://prometheus.io/docs/instrumenting/exposition_formats/

enum class MetricType { kGauge, kCounter };

struct MetricSample {
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;  // NaN and infinities are values of the format
};

// Names are [a-zA-Z_:][a-zA-Z0-9_:]* and end in their unit (_seconds, _bytes, _ratio), counters in
// _total; labels are [a-zA-Z_][a-zA-Z0-9_]*.
struct Metric {
  std::string name, help;
  MetricType type = MetricType::kGauge;
  std::vector<MetricSample> samples;
};

// Families in the order given; those without a sample are left out. Names, and labels within a
// family, must differ: asserted.
std::string Exposition(const std::vector<Metric>& metrics);

}  // namespace aurum
