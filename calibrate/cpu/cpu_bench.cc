#include "calibrate/cpu/cpu_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "calibrate/cpu/collectives.h"
#include "calibrate/cpu/core.h"

namespace aurum {
namespace {

// A sample shorter than this is of several calls: reading the clock costs half a microsecond.
constexpr double kShortestSample = 100e-6;
// Samples that were preempted are taken again, so often in all.
constexpr int kTriesPerSample = 4;
constexpr std::size_t kMostRotated = std::size_t{64} << 20;  // bytes of a collective's buffers

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

std::string MpiVersion() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

CpuBench::CpuBench(MPI_Comm comm, std::uint64_t seed) : comm_(comm), runner_(seed) {
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

CpuBench::~CpuBench() {
  for (auto& [size, comm] : groups_) {
    if (comm != MPI_COMM_NULL && comm != comm_) MPI_Comm_free(&comm);
  }
}

// Takes samples until every rank has enough clean ones, or all tries are used. `body` returns the
// seconds of one and whether it was disturbed.
template <typename Body>
Samples CpuBench::Take(int samples, Body body) {
  Samples out;
  for (int tries = 0; tries < kTriesPerSample * samples; ++tries) {
    int least = static_cast<int>(out.seconds.size());
    // Also the moment at which all begin.
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, comm_);
    if (least >= samples) break;
    bool disturbed = false;
    const double seconds = body(&disturbed);
    if (disturbed) {
      ++out.disturbed;
    } else {
      out.seconds.push_back(seconds);
    }
  }
  if (out.seconds.size() > static_cast<std::size_t>(samples)) {
    out.seconds.resize(static_cast<std::size_t>(samples));
  }
  return out;
}

Samples CpuBench::Time(const Kernel& kernel, int samples) {
  if (!KernelRunner::Refusal(kernel).empty()) return {};
  runner_.Reserve(kernel);
  // Warm-up, which tells how many calls make a sample; the same number on all ranks.
  double once = 0;
  for (int i = 0; i < 2; ++i) {
    const double begin = ThreadCpuSeconds();
    runner_.Run(kernel);
    once = ThreadCpuSeconds() - begin;
  }
  MPI_Allreduce(MPI_IN_PLACE, &once, 1, MPI_DOUBLE, MPI_MIN, comm_);
  const int calls = static_cast<int>(std::clamp(kShortestSample / std::max(once, 1e-8), 1.0, 1e4));
  return Take(samples, [&](bool* disturbed) {
    const std::int64_t switches = InvoluntarySwitches();
    const double begin = ThreadCpuSeconds();
    for (int i = 0; i < calls; ++i) runner_.Run(kernel);
    const double seconds = ThreadCpuSeconds() - begin;
    *disturbed = Disturbed(InvoluntarySwitches() - switches, seconds);
    return seconds / calls;
  });
}

Samples CpuBench::LaunchGap(bool, int) { return {}; }
Samples CpuBench::Beside(const Kernel&, CollectiveKind, double, int) { return {}; }

Samples CpuBench::Copy(CopyKind kind, double bytes, int samples) {
  if (kind == CopyKind::kPeer) return {};
  const auto floats = static_cast<std::size_t>(std::max(std::ceil(bytes / 4), 1.0));
  // Several places, so that neither end is found in a cache.
  const std::size_t places = std::clamp<std::size_t>(kMostRotated / 4 / floats, 2, 4096);
  Buffer(&data_, places * floats);
  Buffer(&other_, places * floats);
  std::size_t place = 0;
  return Take(samples, [&](bool* disturbed) {
    place = (place + 1) % places;
    const std::int64_t switches = InvoluntarySwitches();
    const double begin = ThreadCpuSeconds();
    std::memcpy(other_.data() + place * floats, data_.data() + place * floats, floats * 4);
    const double seconds = ThreadCpuSeconds() - begin;
    *disturbed = Disturbed(InvoluntarySwitches() - switches, seconds);
    return seconds;
  });
}

MPI_Comm CpuBench::GroupsOf(int gpus) {
  const auto known = groups_.find(gpus);
  if (known != groups_.end()) return known->second;
  MPI_Comm comm = comm_;
  if (gpus != size_) {
    const bool whole = rank_ / gpus < size_ / gpus;
    MPI_Comm_split(comm_, whole ? rank_ / gpus : MPI_UNDEFINED, rank_, &comm);
  }
  groups_[gpus] = comm;
  return comm;
}

std::vector<float>& CpuBench::Buffer(std::vector<float>* buffer, std::size_t floats) const {
  if (buffer->size() < floats) buffer->resize(floats, 0.5F);
  return *buffer;
}

Samples CpuBench::Collective(CollectiveKind kind, int gpus, double bytes, DType dtype,
                             int samples) {
  if (gpus < 2 || gpus > size_ || dtype != DType::kFp32) return {};
  const MPI_Comm group = GroupsOf(gpus);
  const std::size_t floats = CollectiveFloats(kind, bytes, gpus);
  const std::size_t places = std::clamp<std::size_t>(kMostRotated / 4 / floats, 2, 4096);
  Buffer(&data_, places * floats);
  Buffer(&other_, places * floats);
  std::size_t place = 0;
  const auto once = [&](bool* disturbed) {
    place = (place + 1) % places;
    float* data = data_.data() + place * floats;
    // Sums in place grow; begun anew before they leave what a float holds.
    if (std::fabs(data[0]) > 1e6F) std::fill_n(data, floats, 0.5F);
    double seconds = 0;
    bool lost = false;
    if (group != MPI_COMM_NULL) {
      MPI_Barrier(group);
      seconds = TimeCollective(kind, group, floats, data, other_.data() + place * floats, &lost);
    }
    std::array<double, 2> all = {seconds, lost ? 1.0 : 0.0};
    MPI_Allreduce(MPI_IN_PLACE, all.data(), 2, MPI_DOUBLE, MPI_MAX, comm_);
    *disturbed = all[1] > 0;
    return all[0];
  };
  for (int i = 0; i < 3; ++i) {
    bool ignored = false;
    once(&ignored);
  }
  return Take(samples, once);
}

Bench::Burn CpuBench::BurnFor(const Kernel& kernel, double seconds) {
  Burn burn;
  if (!KernelRunner::Refusal(kernel).empty()) return burn;
  runner_.Reserve(kernel);
  std::vector<std::pair<double, double>> calls;  // when, how long
  const double begin = WallSeconds();
  for (;;) {
    const double at = WallSeconds() - begin;
    int over = at >= seconds ? 1 : 0;
    MPI_Bcast(&over, 1, MPI_INT, 0, comm_);
    if (over != 0) break;
    const double cpu = ThreadCpuSeconds();
    runner_.Run(kernel);
    calls.emplace_back(at, ThreadCpuSeconds() - cpu);
  }
  std::vector<double> first, last;
  for (const auto& [at, length] : calls) {
    if (at < seconds / 10) first.push_back(length);
    if (at >= seconds / 3) last.push_back(length);
  }
  burn.first_s = Median(std::move(first));
  burn.last_s = Median(std::move(last));
  return burn;
}

BenchDevice CpuBench::Describe() {
  const CoreFacts core = ThisCore();
  BenchDevice device;
  device.backend = "cpu";
  device.devices = size_;
  device.dtypes = {DType::kFp32};
  device.facts.name =
      "one core of " + (core.model.empty() ? std::string("an unnamed processor") : core.model);
  device.facts.memory_bytes = core.memory_bytes / std::max(core.cores, size_);
  device.facts.sm_count = 1;
  Kernel product;
  product.kind = KernelKind::kGemm;
  product.dtype = DType::kFp32;
  product.m = product.n = product.k = 768;
  Kernel stream;
  stream.kind = KernelKind::kMemory;
  stream.bytes = 64.0 * 1024 * 1024;
  constexpr int kCalls = 9;
  const auto best = [&](const Kernel& kernel) {
    std::vector<double> seconds = Time(kernel, kCalls).seconds;
    double least = seconds.empty() ? 0 : *std::min_element(seconds.begin(), seconds.end());
    MPI_Bcast(&least, 1, MPI_DOUBLE, 0, comm_);
    return least;
  };
  if (const double s = best(product); s > 0)
    device.facts.peak_bf16_flops = KernelFlops(product) / s;
  if (const double s = best(stream); s > 0) {
    device.facts.memory_bandwidth_bytes_per_s = stream.bytes / s;
  }
  char text[320];
  std::snprintf(text, sizeof text,
                "memory: this machine's over its cores; rate (fp32, there is no bf16): best of %d "
                "products of 768 × 768 × 768; bandwidth: best of %d streams that read 32 MiB and "
                "write 32 MiB; both measured, on %d rank%s at once",
                kCalls, kCalls, size_, size_ == 1 ? "" : "s");
  device.facts.source = text;
  device.versions = {{"BLAS", BlasVersion()},
                     {"MPI", MpiVersion()},
                     {"messages", SingleCopy(comm_) ? "single copy (CMA)" : "through buffers"}};
  return device;
}

}  // namespace aurum
