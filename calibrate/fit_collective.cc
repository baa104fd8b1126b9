#include "calibrate/fit_collective.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "calibrate/least_squares.h"
#include "sim/collectives/steps.h"

// NCCL takes, for each size, the fastest of its (algorithm, protocol) pairs, each about latency +
// bytes/rate. The result is a lower envelope of lines, concave: latency rises and slope falls from
// one line to the next. So the points, in order of size, fall into consecutive runs, one per line:
//
//   time │            ╱‾ ring, Simple
//        │       ──╱‾
//        │   ╱‾‾  ring, LL128
//        │──  tree, LL
//        └──────────────────── bytes
//
// Ten points and three lines with two points each: 15 ways to cut. All are tried: each run gets its
// own relative least-squares line, the *envelope* of the lines is compared with all points, and the
// best cut is kept.
//
// Three lines fit ten points in sample however noisy they are, so a line must pay for itself: one
// more is kept only if it lowers the mean relative error by a tenth of itself and by 0.2 points.

namespace aurum {
namespace {

constexpr std::size_t kLeastSizes = 6;
constexpr double kFastest = 1e15;  // bytes/s: flat to within the resolution of any table

double EnvelopeLoss(const std::vector<EnvelopeLine>& lines, const std::vector<SizedTime>& points) {
  CollectiveEnvelope envelope;
  envelope.lines = lines;
  double sum = 0;
  for (const SizedTime& point : points) {
    sum += std::abs(EnvelopeSeconds(envelope, point.bytes) / point.seconds - 1);
  }
  return sum / static_cast<double>(points.size());
}

// A run whose time does not grow has slope 0: bounded by what its largest size shows.
EnvelopeLine FitLine(const std::vector<SizedTime>& points, std::size_t begin, std::size_t end) {
  DesignMatrix design(2);
  std::vector<double> measured;
  for (std::size_t i = begin; i < end; ++i) {
    double* line = design.AddRow();
    line[0] = 1;
    line[1] = points[i].bytes;
    measured.push_back(points[i].seconds);
  }
  const std::vector<double> x = FitRelative(design, measured);
  EnvelopeLine line;
  line.latency_s = x[0];
  line.bytes_per_s = x[1] > 1 / kFastest ? 1 / x[1] : kFastest;
  return line;
}

// Ascending latency; drops lines that are nowhere lowest.
std::vector<EnvelopeLine> LowerHull(std::vector<EnvelopeLine> lines) {
  std::sort(lines.begin(), lines.end(), [](const EnvelopeLine& a, const EnvelopeLine& b) {
    return a.latency_s != b.latency_s ? a.latency_s < b.latency_s : a.bytes_per_s > b.bytes_per_s;
  });
  // Where `b`, of higher latency and rate, comes below `a`.
  const auto crossing = [](const EnvelopeLine& a, const EnvelopeLine& b) {
    return (b.latency_s - a.latency_s) / (1 / a.bytes_per_s - 1 / b.bytes_per_s);
  };
  std::vector<EnvelopeLine> hull;
  for (const EnvelopeLine& line : lines) {
    if (!hull.empty() && line.bytes_per_s <= hull.back().bytes_per_s) continue;
    while (hull.size() >= 2 &&
           crossing(hull[hull.size() - 2], hull.back()) >= crossing(hull.back(), line)) {
      hull.pop_back();
    }
    hull.push_back(line);
  }
  return hull;
}

std::vector<EnvelopeLine> BestWithLines(const std::vector<SizedTime>& points, int count,
                                        double* loss) {
  const std::size_t n = points.size();
  std::vector<EnvelopeLine> best;
  *loss = std::numeric_limits<double>::infinity();
  const auto consider = [&](const std::vector<EnvelopeLine>& lines) {
    const std::vector<EnvelopeLine> hull = LowerHull(lines);
    const double now = EnvelopeLoss(hull, points);
    if (now >= *loss) return;
    *loss = now;
    best = hull;
  };
  if (count == 1) {
    consider({FitLine(points, 0, n)});
  } else if (count == 2) {
    for (std::size_t cut = 2; cut + 2 <= n; ++cut) {
      consider({FitLine(points, 0, cut), FitLine(points, cut, n)});
    }
  } else {
    for (std::size_t cut = 2; cut + 4 <= n; ++cut) {
      for (std::size_t next = cut + 2; next + 2 <= n; ++next) {
        consider({FitLine(points, 0, cut), FitLine(points, cut, next), FitLine(points, next, n)});
      }
    }
  }
  return best;
}

}  // namespace

std::vector<EnvelopeLine> FitEnvelope(const std::vector<SizedTime>& points, int most_lines) {
  double loss = 0;
  std::vector<EnvelopeLine> best = BestWithLines(points, 1, &loss);
  for (int count = 2; count <= std::min(most_lines, 3); ++count) {
    double now = 0;
    const std::vector<EnvelopeLine> lines = BestWithLines(points, count, &now);
    if (lines.empty() || now > 0.9 * loss || now > loss - 0.002) continue;
    best = lines;
    loss = now;
  }
  return best;
}

std::map<std::pair<CollectiveKind, int>, CollectiveEnvelope> FitCollectives(
    const std::vector<CollectiveRow>& rows, const std::string& source) {
  std::map<std::pair<CollectiveKind, int>, std::vector<SizedTime>> curves;
  for (const CollectiveRow& row : rows) {
    curves[{row.kind, row.gpus}].push_back({row.bytes, row.seconds});
  }
  std::map<std::pair<CollectiveKind, int>, CollectiveEnvelope> envelopes;
  for (auto& [key, points] : curves) {
    if (points.size() < kLeastSizes) continue;
    std::sort(points.begin(), points.end(),
              [](const SizedTime& a, const SizedTime& b) { return a.bytes < b.bytes; });
    std::vector<SizedTime> kept;
    std::vector<SizedTime> held;
    for (std::size_t i = 0; i < points.size(); ++i) (i % 2 == 0 ? kept : held).push_back(points[i]);
    CollectiveEnvelope envelope;
    envelope.quality.holdout_mape = RoundSignificant(EnvelopeLoss(FitEnvelope(kept, 3), held), 4);
    envelope.lines = FitEnvelope(points, 3);
    for (EnvelopeLine& line : envelope.lines) {
      line.latency_s = RoundSignificant(line.latency_s);
      line.bytes_per_s = RoundSignificant(line.bytes_per_s);
    }
    envelope.busbw_bytes_per_s =
        RoundSignificant(envelope.lines.back().bytes_per_s * BusFactor(key.first, key.second));
    for (const SizedTime& point : points) envelope.bytes.Add(point.bytes);
    envelope.quality.points = static_cast<int>(points.size());
    envelope.quality.holdout_points = static_cast<int>(held.size());
    envelope.quality.training_size_mape = std::numeric_limits<double>::quiet_NaN();
    envelope.quality.method = "line_envelope";
    envelope.quality.source = source;
    envelope.quality.provenance = Provenance::kCalibrated;
    envelopes[key] = envelope;
  }
  return envelopes;
}

}  // namespace aurum
