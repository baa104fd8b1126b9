// Calibration on a machine whose truth is known: what is fitted must be it.
#include "calibrate/measure.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
      if (noise == 0 && std::string(form) != "p_norm") continue;  // the easier ones
      CAPTURE(form);
      CAPTURE(noise);
      const Profile truth = Truth(form);
      const Calibrated c = Calibrate(truth, noise, 7);
      const double worst = WorstProduct(truth, c.fit.profile, DType::kBf16, 1024, 16384);
      MESSAGE(std::string(form), " noise ", noise, ": worst training-size product off by ",
              worst * 100, " %, form ", c.fit.profile.gemm.at(DType::kBf16).quality.method,
              ", hold-out ", c.fit.profile.gemm.at(DType::kBf16).quality.training_size_mape * 100,
              " %");
      CHECK(worst < 0.012);
    }
  }
}

TEST_CASE("calibration: a CPU core's products, memory and collectives are recovered") {
  for (const double noise : {0.0, 0.01}) {
    CAPTURE(noise);
    const Profile truth = CpuTruth();
    const Calibrated c = Calibrate(truth, noise, 3);
    const Profile& fitted = c.fit.profile;
    // 1e6 … 1e9 FLOP: sizes of 80 … 800.
    const double worst = WorstProduct(truth, fitted, DType::kFp32, 80, 800);
    MESSAGE("CPU, noise ", noise, ": worst product off by ", worst * 100, " %");
    CHECK(worst < 0.012);
    for (const double bytes : {1e5, 1e6, 3e7}) {
      CHECK(fitted.MemoryBoundSeconds(bytes) ==
            doctest::Approx(truth.MemoryBoundSeconds(bytes)).epsilon(0.01));
      for (const auto& [key, envelope] : truth.collectives) {
        const CollectiveEnvelope* found = fitted.Envelope(key.first, key.second);
        REQUIRE(found != nullptr);
        CHECK(EnvelopeSeconds(*found, bytes) ==
              doctest::Approx(EnvelopeSeconds(envelope, bytes)).epsilon(0.02));
      }
    }
    // What nobody measured is missing, and asking for it says so.
    CHECK(!fitted.Supports(DType::kBf16));
    const Diagnostic d =
        ThrownBy([&] { fitted.AttentionForwardSeconds(1, 8, 8, 128, 128, 64, true); });
    CHECK(d.code == 805);
    CHECK(d.help.find("--base") != std::string::npos);
    // The file of such a profile reads back.
    CHECK(WriteProfile(ReadProfile(ParseJson(WriteProfile(fitted).Dump(), "p"))).Dump() ==
          WriteProfile(fitted).Dump());
  }
}

TEST_CASE("calibration: attention, memory, launches, sustained clock and collectives of a GPU") {
  const Profile truth = Truth("k_saturation");
  const Calibrated c = Calibrate(truth, 0.005, 11);
  const Profile& fitted = c.fit.profile;
  for (const double tokens : {1024, 4096, 8192}) {
    for (const int dim : {64, 128}) {
      for (const bool causal : {true, false}) {
        CAPTURE(tokens);
        CAPTURE(dim);
        CHECK(fitted.AttentionForwardSeconds(4, 32, 8, tokens, tokens, dim, causal) ==
              doctest::Approx(truth.AttentionForwardSeconds(4, 32, 8, tokens, tokens, dim, causal))
                  .epsilon(0.02));
        CHECK(fitted.AttentionBackwardSeconds(4, 32, 8, tokens, tokens, dim, causal) ==
              doctest::Approx(truth.AttentionBackwardSeconds(4, 32, 8, tokens, tokens, dim, causal))
                  .epsilon(0.03));
      }
    }
  }
  for (const double bytes : {1e6, 1e8, 1e9}) {
    CHECK(fitted.MemoryBoundSeconds(bytes) ==
          doctest::Approx(truth.MemoryBoundSeconds(bytes)).epsilon(0.01));
  }
  CHECK(fitted.launch_gap_s == doctest::Approx(truth.launch_gap_s).epsilon(0.01));
  CHECK(fitted.sustained_factor == doctest::Approx(truth.sustained_factor).epsilon(1e-4));
  int compared = 0;
  for (const auto& [key, envelope] : truth.collectives) {
    const CollectiveEnvelope* found = fitted.Envelope(key.first, key.second);
    if (found == nullptr) continue;
    ++compared;
    for (const double bytes : {1e5, 1e7, 4e8}) {
      CAPTURE(CollectiveName(key.first));
      CAPTURE(bytes);
      CHECK(EnvelopeSeconds(*found, bytes) ==
            doctest::Approx(EnvelopeSeconds(envelope, bytes)).epsilon(0.05));
    }
  }
  CHECK(compared >= 8);
  // No overlap in this truth; its slow-downs are told, and none is invented.
  REQUIRE(c.fit.overlaps.size() == 6);
  for (const OverlapSlowdown& o : c.fit.overlaps)
    CHECK(o.factor == doctest::Approx(1).epsilon(0.02));
  // Half a percent of noise, an error band of little more.
  CHECK(fitted.error_band > 0);
  CHECK(fitted.error_band < 0.06);
  CHECK(fitted.error_band_source.find("2.06") != std::string::npos);
}

TEST_CASE("calibration: kernels of the plan are looked up, whatever the model says") {
  // A truth that one shape does not follow: what an exact row is for.
  Profile truth = CpuTruth();
  const Kernel odd = Gemm(257, 688, 256, DType::kFp32);
  const Kernel even = Gemm(256, 688, 256, DType::kFp32);
  const double twice = 2 * KernelSeconds(even, truth, BareStack()) / truth.sustained_factor;
  truth.exact = std::make_shared<const ExactKernels>(
      std::vector<ExactKernels::Entry>{{odd, twice, 0, 1}}, Provenance::kMeasured, "the test");
  const Calibrated without = Calibrate(truth, 0, 5);
  const Calibrated with = Calibrate(truth, 0, 5, {{odd}, {}});
  const double real = KernelSeconds(odd, truth, BareStack());
  CHECK(KernelSeconds(odd, without.fit.profile, BareStack()) < 0.6 * real);
  CHECK(KernelSeconds(odd, with.fit.profile, BareStack()) == doctest::Approx(real).epsilon(1e-4));
  // Not quite whole sizes are run rounded up.
  Kernel shard = odd;
  shard.m = 256.5;
  CHECK(KernelSeconds(shard, with.fit.profile, BareStack()) == doctest::Approx(real).epsilon(1e-4));
  CHECK(KernelSeconds(even, with.fit.profile, BareStack()) ==
        doctest::Approx(KernelSeconds(even, truth, BareStack())).epsilon(0.012));
  REQUIRE(with.fit.profile.exact != nullptr);
  CHECK(with.fit.profile.exact->provenance() == Provenance::kMeasured);
  const std::string text = WriteProfile(with.fit.profile).Dump(2);
  const Profile again = ReadProfile(ParseJson(text, "profile.json"));
  REQUIRE(again.exact != nullptr);
  CHECK(KernelSeconds(odd, again, BareStack()) == doctest::Approx(real).epsilon(1e-4));
  CHECK(WriteProfile(again).Dump(2) == text);
}

TEST_CASE("calibration: the same seed gives the same bytes, another seed other ones") {
  const auto text = [](std::uint64_t seed) {
    const Calibrated c = Calibrate(CpuTruth(), 0.01, seed);
    return WriteMeasurements(c.measurements).Dump() + WriteProfile(c.fit.profile).Dump();
  };
  const std::string once = text(1);
  CHECK(once == text(1));
  CHECK(once != text(2));
}

TEST_CASE("calibration: a plan holds what it should, in random order, and the burn is last") {
  VirtualBench bench(Truth("roofline"), {});
  const BenchDevice device = bench.Describe();
  const ExactCalls exact = {
      {Gemm(12345, 64, 77, DType::kBf16), Gemm(9, 9, 9, DType::kFp8)},
      {{CollectiveKind::kAllReduce, 8, 1000.5}, {CollectiveKind::kAllReduce, 16, 1000}}};
  const MeasurementPlan plan = PlanMeasurements(device, exact, {});
  CHECK(plan.items == PlanMeasurements(device, exact, {}).items);
  int random_products = 0, attention = 0, memory = 0, beside = 0, exact_rows = 0, descents = 0;
  std::set<std::pair<CollectiveKind, int>> shapes;
  double before = 0;
  for (const MeasuredItem& item : plan.items) {
    CHECK(item.kernel == RoundedUp(item.kernel));
    if (item.exact) ++exact_rows;
    if (item.kind == MeasuredKind::kBeside) ++beside;
    if (item.kind == MeasuredKind::kCollective && !item.exact)
      shapes.insert({item.collective, item.gpus});
    if (item.kind != MeasuredKind::kKernel || item.exact) continue;
    if (item.kernel.kind == KernelKind::kMemory) ++memory;
    if (item.kernel.kind == KernelKind::kAttentionForward) ++attention;
    if (item.kernel.kind != KernelKind::kGemm) continue;
    ++random_products;
    descents += KernelFlops(item.kernel) < before;
    before = KernelFlops(item.kernel);
  }
  // 60 shapes in three layouts, and two alone beside two collectives.
  CHECK(random_products == 180 + 4);
  CHECK(descents > 60);  // a shuffled list turns down at half of its steps
  CHECK(descents < 130);
  CHECK(attention == 20);
  CHECK(memory == 12 + 2);
  CHECK(beside == 6);
  // fp8 and 16 devices are not there.
  CHECK(exact_rows == 2);
  CHECK(shapes.size() == 4 * 3 + 1);  // 2, 4, 8; messages between two
  CHECK(plan.items.back().kind == MeasuredKind::kBurn);
}

TEST_CASE("calibration: a budget that runs out leaves the less important out, and says so") {
  VirtualBench bench(Truth("roofline"), {});
  MeasurementOptions options;
  options.budget_s = 15.2;
  options.burn_s = 15;
  const MeasurementPlan plan =
      PlanMeasurements(bench.Describe(), {{Gemm(4096, 4096, 4096, DType::kBf16)}, {}}, options);
  MeasureHooks hooks;
  hooks.clock = [&] { return bench.ClockSeconds(); };
  std::vector<std::string> lines;
  hooks.narrate = [&](const std::string& line) { lines.push_back(line); };
  const Measurements measured = Measure(&bench, plan, hooks);
  CHECK(measured.rows.size() + measured.left_out.size() == plan.items.size());
  const auto budget = std::count_if(measured.left_out.begin(), measured.left_out.end(),
                                    [](const auto& left) { return left.reason == "budget"; });
  CHECK(budget > 20);
  CHECK(measured.rows.back().item.kind == MeasuredKind::kBurn);
  CHECK(measured.elapsed_s < 16);
  REQUIRE(!lines.empty());
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("the budget of 15 s is used up") != std::string::npos;
  }));
}

TEST_CASE("calibration: measurements are read back, and refused with their place") {
  const Calibrated c = Calibrate(CpuTruth(), 0.01, 1, {{Gemm(64, 64, 64, DType::kFp32)}, {}});
  const std::string text = WriteMeasurements(c.measurements).Dump(2);
  const Measurements again = ReadMeasurements(ParseJson(text, "m.json"));
  CHECK(WriteMeasurements(again).Dump(2) == text);
  CHECK(WriteProfile(FitProfile(again, "recovered")).Dump() == WriteProfile(c.fit.profile).Dump());
  const MeasurementPlan plan = PlanMeasurements(c.measurements.device, {}, {});
  CHECK(ReadMeasurementPlan(ParseJson(WriteMeasurementPlan(plan).Dump(), "plan")).items ==
        plan.items);

  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, from.size(), to);
    return ThrownBy([&] { ReadMeasurements(ParseJson(changed, "m.json")); });
  };
  Diagnostic d = refused("aurum.measurements/1", "aurum.profile/1");
  CHECK(d.code == 830);
  CHECK(d.where.line == 2);
  d = refused("\"seconds\": [", "\"seconds\": [-1, ");
  CHECK(d.code == 107);
  CHECK(d.where.file == "m.json");
  d = refused("\"m\": 64.0,", "\"m\": 64.5,");
  CHECK(d.code == 831);
  CHECK(d.message.find("not whole") != std::string::npos);
  d = refused("\"fp32\"\n    ]", "\"fp23\"\n    ]");
  CHECK(d.code == 108);
  CHECK(d.help.find("fp32") != std::string::npos);
}

TEST_CASE("calibration: measurements that cannot make a profile are refused") {
  Calibrated c = Calibrate(Truth("roofline"), 0, 1);
  const auto kept = [&](auto keep) {
    Measurements some = c.measurements;
    std::erase_if(some.rows, [&](const MeasuredRow& row) { return !keep(row); });
    return some;
  };
  const Measurements no_products =
      kept([](const MeasuredRow& row) { return row.item.kernel.kind != KernelKind::kGemm; });
  Diagnostic d = ThrownBy([&] { FitProfile(no_products, "x"); });
  CHECK(d.code == 833);
  CHECK(d.message.find("matrix products") != std::string::npos);
  CHECK(d.help.find("--base") != std::string::npos);
  const Measurements no_memory = kept([](const MeasuredRow& row) {
    return row.item.kind != MeasuredKind::kKernel || row.item.kernel.kind != KernelKind::kMemory;
  });
  d = ThrownBy([&] { FitProfile(no_memory, "x"); });
  CHECK(d.code == 833);
  CHECK(d.message.find("memory") != std::string::npos);
  // A base lends what is missing, and every part says so.
  const Profile base = Catalogue("a100");
  FitProfileOptions options;
  options.name = "x";
  options.base = &base;
  const ProfileFit lent = FitProfileWithReport(no_memory, options);
  CHECK(lent.profile.memory_bound_t0_s == base.memory_bound_t0_s);
  CHECK(lent.profile.memory_bound_source.find("profile a100: ") == 0);
  CHECK(lent.profile.gemm.at(DType::kFp32).quality.source.find("profile a100: ") == 0);
  CHECK(lent.profile.gemm.at(DType::kBf16).quality.source.find("measured on") == 0);
  CHECK(lent.profile.error_band >= base.error_band);
  // A machine that something else was running on.
  for (MeasuredRow& row : c.measurements.rows) row.samples.disturbed = 20;
  d = ThrownBy([&] { FitProfile(c.measurements, "x"); });
  CHECK(d.code == 834);
  CHECK(d.help.find("measure again") != std::string::npos);
}

}  // namespace
}  // namespace aurum
