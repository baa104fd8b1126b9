#include "sim/plan/goodput.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>

#include "sim/core/diagnostic.h"
#include "sim/core/random.h"
#include "sim/core/units.h"

namespace aurum {
namespace {

constexpr double kDay = 86400;
constexpr double kMostExponent = 40;  // e⁴⁰ tries of a segment: longer than any machine lives

double FailureRate(const GoodputSpec& spec, int gpus, int nodes) {
  assert(gpus >= 1 && nodes >= 1);
  return (spec.mtbf_of_node ? nodes : gpus) / spec.mtbf_s;
}

// No longer than the training itself, which ends with a checkpoint.
double Interval(const GoodputSpec& spec, double rate) {
  const double interval =
      spec.interval_s ? *spec.interval_s : BestInterval(rate, spec.checkpoint_s);
  return std::min(interval, spec.days * kDay);
}

void CheckEnds(const GoodputSpec& spec, double rate, double interval) {
  const double exponent = rate * (interval + spec.checkpoint_s + spec.restart_s);
  if (exponent <= kMostExponent) return;
  ThrowInput(762,
             "this training never ends: the fleet fails every " + std::to_string(1 / rate) +
                 " s, and an interval with its checkpoint and restart takes " +
                 std::to_string(exponent / rate) + " s",
             "checkpoint more often, restart faster, or take fewer or more reliable GPUs",
             ExitCode::kInfeasible);
}

// (e^(λs) − 1) · e^(λR) · (1/λ + D).
double SegmentSeconds(const GoodputSpec& spec, double rate, double work) {
  return std::expm1(rate * (work + spec.checkpoint_s)) * std::exp(rate * spec.restart_s) *
         (1 / rate + spec.detection_s);
}

// The work is cut into whole intervals and what remains.
struct WorkCut {
  double whole = 0;  // intervals
  double rest_s = 0;
};
WorkCut CutWork(double work, double interval) {
  WorkCut cut;
  cut.whole = std::floor(work / interval);
  cut.rest_s = work - cut.whole * interval;
  if (cut.rest_s < 1e-9 * interval) cut.rest_s = 0;
  return cut;
}

// Exponential with mean 1, the `counter`th of a run.
double Exponential(std::uint64_t seed, std::uint64_t run, std::uint64_t counter) {
  return -std::log(RandomUniform(seed, run, counter));
}

// One run. Only the time in which a failure can strike counts down to the next one.
class Run {
 public:
  Run(const GoodputSpec& spec, double rate, std::uint64_t seed, std::uint64_t run)
      : spec_(spec), rate_(rate), seed_(seed), run_(run), left_(Next()) {}

  double Seconds(double work, double interval) {
    const WorkCut cut = CutWork(work, interval);
    const double segment = interval + spec_.checkpoint_s;
    double whole = cut.whole;
    while (whole > 0) {
      // As many segments as the next failure allows, at once.
      const double done = std::min(whole, std::floor(left_ / segment));
      clock_ += done * segment;
      left_ -= done * segment;
      whole -= done;
      if (whole > 0) Fail();
    }
    if (cut.rest_s > 0) {
      const double last = cut.rest_s + spec_.checkpoint_s;
      while (left_ < last) Fail();
      clock_ += last;
    }
    return clock_;
  }

 private:
  double Next() { return Exponential(seed_, run_, counter_++) / rate_; }

  // Up to the failure, which is noticed, and restarts until one holds.
  void Fail() {
    clock_ += left_ + spec_.detection_s;
    left_ = Next();
    while (left_ < spec_.restart_s) {
      clock_ += left_ + spec_.detection_s;
      left_ = Next();
    }
    clock_ += spec_.restart_s;
    left_ -= spec_.restart_s;
  }

  const GoodputSpec& spec_;
  double rate_;
  std::uint64_t seed_, run_;
  std::uint64_t counter_ = 0;
  double left_;
  double clock_ = 0;
};

}  // namespace

GoodputSpec ReadGoodput(ObjectReader reader) {
  GoodputSpec spec;
  const bool per_gpu = reader.Has("mtbf_gpu_hours");
  spec.mtbf_of_node = reader.Has("mtbf_node_hours");
  if (per_gpu == spec.mtbf_of_node) {
    reader.Fail(760, per_gpu ? "mtbf_node_hours" : "",
                per_gpu ? "a mean time between failures of a GPU, and of a node"
                        : "no mean time between failures",
                "give one of 'mtbf_gpu_hours' and 'mtbf_node_hours'");
  }
  spec.mtbf_s = reader.Number(per_gpu ? "mtbf_gpu_hours" : "mtbf_node_hours", 1e-3, 1e9) * kHour;
  spec.checkpoint_s = reader.Number("checkpoint_s", 0, 1e6);
  if (reader.Has("checkpoint_interval_s"))
    spec.interval_s = reader.Number("checkpoint_interval_s", 1e-3, 1e8);
  if (!spec.interval_s && spec.checkpoint_s < 1e-3) {
    reader.Fail(
        761, "checkpoint_s",
        "a checkpoint that costs next to nothing has no best interval: the shorter the better",
        "say how long training stands still for one, or give 'checkpoint_interval_s'");
  }
  spec.restart_s = reader.Number("restart_s", 0, 1e6);
  spec.detection_s = reader.Number("detection_s", 0, 1e6);
  spec.days = reader.Number("days", 1e-6, 36500);
  reader.Finish();
  return spec;
}

Goodput ExpectedGoodput(const GoodputSpec& spec, int gpus, int nodes) {
  Goodput result;
  const double rate = FailureRate(spec, gpus, nodes);
  const double interval = Interval(spec, rate);
  CheckEnds(spec, rate, interval);
  result.failures_per_s = rate;
  result.interval_s = interval;
  const double segment = SegmentSeconds(spec, rate, interval);
  result.fraction = interval / segment;
  result.checkpoint_share = spec.checkpoint_s / segment;
  // Failures in a segment, and with those of its restarts.
  const double failures = std::expm1(rate * (interval + spec.checkpoint_s));
  const double all_failures = failures * std::exp(rate * spec.restart_s);
  result.detection_share = all_failures * spec.detection_s / segment;
  result.restart_share = failures * std::expm1(rate * spec.restart_s) / rate / segment;
  // Of the time in which the job runs, 1/λ a failure, what is neither work that lasts nor its
  // checkpoint.
  result.lost_work_share = (failures / rate - interval - spec.checkpoint_s) / segment;
  const double work = spec.days * kDay;
  const WorkCut cut = CutWork(work, interval);
  result.expected_s = cut.whole * segment;
  result.interruptions = cut.whole * all_failures;
  if (cut.rest_s > 0) {
    result.expected_s += SegmentSeconds(spec, rate, cut.rest_s);
    result.interruptions +=
        std::expm1(rate * (cut.rest_s + spec.checkpoint_s)) * std::exp(rate * spec.restart_s);
  }
  return result;
}

double BestInterval(double failures_per_s, double checkpoint_s) {
  assert(failures_per_s > 0 && checkpoint_s > 0);
  // 1 − (1 − x) eˣ = 1 − e^(−λC) with x = λτ in (0, 1); the left side is Σ_{k≥2} (k − 1)/k! xᵏ, which
  // grows with x and loses no digits where x is small.
  const double target = -std::expm1(-failures_per_s * checkpoint_s);
  const auto left = [](double x) {
    double sum = 0;
    double term = x;  // xᵏ/k!
    for (int k = 2; k < 30; ++k) {
      term *= x / k;
      sum += (k - 1) * term;
    }
    return sum;
  };
  double low = 0;
  double high = 1;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (left(middle) < target ? low : high) = middle;
  }
  return high / failures_per_s;
}

double YoungInterval(double failures_per_s, double checkpoint_s) {
  return std::sqrt(2 * checkpoint_s / failures_per_s);
}

double DalyInterval(double failures_per_s, double checkpoint_s) {
  const double half = failures_per_s * checkpoint_s / 2;  // C / 2M
  if (half >= 1) return 1 / failures_per_s;
  return YoungInterval(failures_per_s, checkpoint_s) * (1 + std::sqrt(half) / 3 + half / 9) -
         checkpoint_s;
}

GoodputSamples SampleGoodput(const GoodputSpec& spec, int gpus, int nodes, std::uint64_t seed,
                             int runs) {
  assert(runs >= 2);
  const double rate = FailureRate(spec, gpus, nodes);
  const double interval = Interval(spec, rate);
  CheckEnds(spec, rate, interval);
  GoodputSamples samples;
  samples.wall_s.reserve(static_cast<std::size_t>(runs));
  for (int run = 0; run < runs; ++run) {
    const auto number = static_cast<std::uint64_t>(run);
    samples.wall_s.push_back(Run(spec, rate, seed, number).Seconds(spec.days * kDay, interval));
  }
  std::sort(samples.wall_s.begin(), samples.wall_s.end());
  double sum = 0;
  for (const double wall : samples.wall_s) sum += wall;
  samples.mean_s = sum / runs;
  double squares = 0;
  for (const double wall : samples.wall_s)
    squares += (wall - samples.mean_s) * (wall - samples.mean_s);
  samples.standard_error_s = std::sqrt(squares / (runs - 1) / runs);
  const auto rank = [&](double share) {
    const double at = std::ceil(share * runs) - 1;
    return samples.wall_s[static_cast<std::size_t>(std::max(at, 0.0))];
  };
  samples.p50_s = rank(0.50);
  samples.p99_s = rank(0.99);
  return samples;
}

}  // namespace aurum
