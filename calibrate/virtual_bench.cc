#include "calibrate/virtual_bench.h"

#include <algorithm>
#include <utility>

#include "sim/core/random.h"

namespace aurum {
namespace {

constexpr int kWarmUps = 3;
constexpr std::uint64_t kMostSamples = 1 << 16;  // of one call

}  // namespace

VirtualBench::VirtualBench(Profile truth, const VirtualBenchOptions& options)
    : truth_(std::move(truth)),
      sustained_(truth_.sustained_factor),
      sustained_narrow_(truth_.sustained_fp8_factor),
      options_(options) {
  truth_.sustained_factor = 1;
  truth_.sustained_fp8_factor = 1;
}

BenchDevice VirtualBench::Describe() {
  BenchDevice device;
  device.backend = "virtual";
  device.facts = truth_.device;
  for (const auto& [dtype, model] : truth_.gemm) device.dtypes.push_back(dtype);
  for (const auto& [key, envelope] : truth_.collectives) {
    device.devices = std::max(device.devices, key.second);
  }
  device.versions = {{"truth", truth_.name}};
  device.power_limit_w = truth_.power_limit_w;
  return device;
}

Samples VirtualBench::Draw(double seconds, int samples) {
  const std::uint64_t first = call_++ * kMostSamples;
  Samples out;
  clock_s_ += kWarmUps * seconds;
  for (int i = 0; i < samples; ++i) {
    const std::uint64_t which = first + static_cast<std::uint64_t>(i);
    const double fate = RandomUniform(options_.seed, 1, which);
    // A normal deviate within four standard deviations: a time is never negative.
    const double deviate = std::clamp(RandomNormal(options_.seed, 2, which), -4.0, 4.0);
    double taken = seconds * std::max(1 + options_.noise * deviate, 0.01);
    if (fate < options_.disturbed_share) {
      clock_s_ += 3 * taken;
      ++out.disturbed;
      continue;
    }
    if (fate < options_.disturbed_share + options_.outlier_share) taken *= 1.5;
    clock_s_ += taken;
    out.seconds.push_back(taken);
  }
  return out;
}

bool VirtualBench::Knows(const Kernel& kernel) const {
  switch (kernel.kind) {
    case KernelKind::kGemm:
      return truth_.Supports(kernel.dtype);
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
      return !truth_.attention.per_head_dim.empty();
    case KernelKind::kDecodeAttention:
      return truth_.decode.bandwidth_bytes_per_s > 0;
    case KernelKind::kMemory:
      return true;
    case KernelKind::kHost:
      return false;
  }
  return false;
}

double VirtualBench::BurstSeconds(const Kernel& kernel) const {
  return KernelSeconds(kernel, truth_, BareStack());
}

Samples VirtualBench::Time(const Kernel& kernel, int samples) {
  if (!Knows(kernel)) return {};
  return Draw(BurstSeconds(kernel), samples);
}

Samples VirtualBench::LaunchGap(bool /*graph*/, int samples) {
  if (truth_.launch_gap_s <= 0) return {};
  return Draw(truth_.launch_gap_s, samples);
}

Samples VirtualBench::Copy(CopyKind kind, double bytes, int samples) {
  if (kind != CopyKind::kDevice) return {};
  return Draw(truth_.MemoryBoundSeconds(2 * bytes), samples);
}

Samples VirtualBench::Collective(CollectiveKind kind, int gpus, double bytes, DType /*dtype*/,
                                 int samples) {
  const CollectiveEnvelope* envelope = truth_.Envelope(kind, gpus);
  if (envelope == nullptr) return {};
  return Draw(EnvelopeSeconds(*envelope, bytes), samples);
}

Samples VirtualBench::Beside(const Kernel& kernel, CollectiveKind kind, double /*bytes*/,
                             int samples) {
  if (!Knows(kernel) || truth_.Envelope(kind, Describe().devices) == nullptr) return {};
  return Draw(BurstSeconds(kernel) * options_.overlap_slowdown, samples);
}

Bench::Burn VirtualBench::BurnFor(const Kernel& kernel, double seconds) {
  if (!Knows(kernel) || kernel.kind != KernelKind::kGemm) return {};
  const double burst = BurstSeconds(kernel);
  clock_s_ += seconds;
  return {.first_s = burst,
          .last_s = burst * (IsNarrow(kernel.dtype) ? sustained_narrow_ : sustained_),
          .clock_first_mhz = 0,
          .clock_last_mhz = 0};
}

}  // namespace aurum
