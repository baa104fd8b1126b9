#include "calibrate/cpu/core.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

namespace aurum {
namespace {

// The text behind "key" and a colon in a file of /proc; "" where there is none.
std::string ProcField(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t from = line.find_first_not_of(" \t", colon + 1);
    return from == std::string::npos ? "" : line.substr(from);
  }
  return "";
}

double NumberIn(const std::string& file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? value : 0;
}

double LastLevelBytes() {
  double largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    double size = 0;
    char unit = ' ';
    if (!(in >> size)) continue;
    in >> unit;
    largest = std::max(largest, size * (unit == 'K' ? 1024.0 : unit == 'M' ? 1048576.0 : 1.0));
  }
  return largest;
}

struct Vectors {
  bool avx2_fma = false, avx512 = false;
};
Vectors VectorsOfCore() {
  Vectors found;
#if defined(__x86_64__)
  // These ask the operating system, too: it has to save the registers.
  __builtin_cpu_init();
  found.avx2_fma = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  found.avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#endif
  return found;
}

}  // namespace

CoreFacts ThisCore() {
  CoreFacts facts;
  facts.model = ProcField("/proc/cpuinfo", "model name");
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) facts.cores = CPU_COUNT(&allowed);
  facts.cores = std::max(facts.cores, 1);
  std::istringstream total(ProcField("/proc/meminfo", "MemTotal"));
  double kib = 0;
  if (total >> kib) facts.memory_bytes = kib * 1024;
  // Of a container: the second version of control groups, then the first. "max" is no number.
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const double limit = NumberIn(file);
    if (limit > 0 && limit < facts.memory_bytes) facts.memory_bytes = limit;
  }
  facts.last_level_bytes = LastLevelBytes();
  facts.most_mhz = NumberIn("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") / 1000;
  const Vectors vectors = VectorsOfCore();
  if (vectors.avx512) {
    facts.instructions = "avx512f";
    facts.flops_per_cycle = 64;  // two units of 16 lanes, two operations each
  } else if (vectors.avx2_fma) {
    facts.instructions = "avx2";
    facts.flops_per_cycle = 32;  // two units of 8 lanes
  }
  return facts;
}

std::string BlasCoreType() {
  const Vectors vectors = VectorsOfCore();
  if (vectors.avx512) return "SKYLAKEX";
  if (!vectors.avx2_fma) return "";
  return ProcField("/proc/cpuinfo", "vendor_id") == "AuthenticAMD" ? "ZEN" : "HASWELL";
}

double ThreadCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double WallSeconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t InvoluntarySwitches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

bool Disturbed(std::int64_t switches, double seconds) {
  constexpr double kRefill = 50e-6;
  constexpr double kBorne = 0.02;
  return static_cast<double>(switches) * kRefill > kBorne * seconds;
}

double PeakResidentBytes() {
  std::istringstream in(ProcField("/proc/self/status", "VmHWM"));
  double kib = 0;
  return in >> kib ? kib * 1024 : 0;
}

void FlushDenormals() {
#if defined(__x86_64__)
  // Bit 15: results to zero; bit 6: operands.
  _mm_setcsr(_mm_getcsr() | 0x8040U);
#elif defined(__aarch64__)
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | (std::uint64_t{1} << 24)));
#endif
}

}  // namespace aurum
