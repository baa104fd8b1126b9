// Calibration on a machine whose truth is known: what is fitted must be it.
#include "calibrate/measure.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "calibrate/fit_profile.h"
#include "calibrate/virtual_bench.h"
#include "sim/core/random.h"
#include "sim/cost/exact.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Profile Catalogue(const std::string& name) { return ReadProfile(OpenProfile(name, ".")); }

// A truth with one of the plain forms; rates as an H100's.
Profile Truth(const std::string& form) {
  Profile truth = Catalogue("h100");
  GemmModel model;
  model.form = form;
  model.t0_s = 3.2e-6;
  model.rate_flops = 7.6e14;
  model.bandwidth_bytes_per_s = 2.6e12;
  if (form == "k_saturation" || form == "p_norm") model.k_half = 135;
  if (form == "p_norm") {
    model.m_half = 40;
    model.n_half = 60;
    model.norm = 4;
  }
  truth.gemm = {{DType::kBf16, model}};
  truth.launch_gap_s = 1.4e-6;
  truth.attention.cache_write_bytes_per_s = 0;
  return truth;
}

// A CPU core that has products in 32 bits, memory and a pair's collectives, nothing else.
Profile CpuTruth() {
  Profile truth = Truth("p_norm");
  GemmModel model = truth.gemm.at(DType::kBf16);
  model.t0_s = 1.5e-6;
  model.rate_flops = 1.2e11;
  model.bandwidth_bytes_per_s = 1.1e10;
  model.k_half = 30;
  model.m_half = 12;
  model.n_half = 8;
  truth.gemm = {{DType::kFp32, model}};
  truth.device.compute_capability = 0;
  truth.device.sm_count = 1;
  truth.device.peak_bf16_flops = 0;
  truth.device.memory_bandwidth_bytes_per_s = 1.2e10;
  truth.attention.per_head_dim.clear();
  truth.decode = {};
  truth.collectives.clear();
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kSendRecv}) {
    CollectiveEnvelope envelope;
    envelope.lines = {{5e-6, 2e9}, {20e-6, 4e9}};
    truth.collectives[{kind, 2}] = envelope;
  }
  return truth;
}

struct Calibrated {
  Measurements measurements;
  ProfileFit fit;
};

Calibrated Calibrate(const Profile& truth, double noise, std::uint64_t seed,
                     const ExactCalls& exact = {}) {
  VirtualBenchOptions bench_options;
  bench_options.noise = noise;
  bench_options.seed = seed;
  VirtualBench bench(truth, bench_options);
  MeasurementOptions options;
  options.seed = seed;
  const MeasurementPlan plan = PlanMeasurements(bench.Describe(), exact, options);
  MeasureHooks hooks;
  hooks.clock = [&] { return bench.ClockSeconds(); };
  Calibrated out;
  out.measurements = Measure(&bench, plan, hooks);
  FitProfileOptions fit_options;
  fit_options.name = "recovered";
  out.fit = FitProfileWithReport(out.measurements, fit_options);
  return out;
}

Kernel Gemm(double m, double n, double k, DType dtype) {
  Kernel kernel;
  kernel.kind = KernelKind::kGemm;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.dtype = dtype;
  return kernel;
}

// The largest error on 300 products that were not measured.
double WorstProduct(const Profile& truth, const Profile& fitted, DType dtype, double low,
                    double high) {
  double worst = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const auto size = [&](std::uint64_t which) {
      return std::round(low * std::pow(high / low, RandomUniform(99, which, i)));
    };
    const Kernel kernel = Gemm(size(1), size(2), size(3), dtype);
    worst = std::max(worst, std::abs(KernelSeconds(kernel, fitted, BareStack()) /
                                         KernelSeconds(kernel, truth, BareStack()) -
                                     1));
  }
  return worst;
}

TEST_CASE("calibration: every plain form of truth is recovered at training sizes") {
  for (const char* form : {"roofline", "k_saturation", "p_norm"}) {
    for (const double noise : {0.0, 0.01}) {
      CAPTURE(form);
      CAPTURE(noise);
      const Profile truth = Truth(form);
      const Calibrated c = Calibrate(truth, noise, 7);
      const double worst = WorstProduct(truth, c.fit.profile, DType::kBf16, 1024, 16384);
      MESSAGE(form, " noise ", noise, ": worst training-size product off by ", worst * 100,
              " %, form ", c.fit.profile.gemm.at(DType::kBf16).quality.method, ", hold-out ",
              c.fit.profile.gemm.at(DType::kBf16).quality.training_size_mape * 100, " %");
      CHECK(worst < 0.012);
    }
  }
}

}  // namespace
}  // namespace aurum
