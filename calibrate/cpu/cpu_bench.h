#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <vector>

#include "calibrate/bench.h"
#include "calibrate/cpu/kernels.h"

namespace aurum {

// Cores of this machine, one a rank of MPI. All ranks make the same calls in the same order and run the
// same kernels at the same time, so that what they take from each other (memory bandwidth, the shared
// cache) is in the samples. Kernels: this rank's own CPU time; collectives: TimeCollective's, the
// slowest group's.
//
// There are no launches to wait for and nothing runs beside anything on a core (Open MPI makes no
// progress in the background): LaunchGap, Beside and copies between devices give no samples.
class CpuBench : public Bench {
 public:
  CpuBench(MPI_Comm comm, std::uint64_t seed);
  ~CpuBench() override;
  CpuBench(const CpuBench&) = delete;
  CpuBench& operator=(const CpuBench&) = delete;

  BenchDevice Describe() override;
  Samples Time(const Kernel& kernel, int samples) override;
  Samples LaunchGap(bool graph, int samples) override;
  Samples Copy(CopyKind kind, double bytes, int samples) override;
  Samples Collective(CollectiveKind kind, int gpus, double bytes, DType dtype,
                     int samples) override;
  Samples Beside(const Kernel& kernel, CollectiveKind kind, double bytes, int samples) override;
  Burn BurnFor(const Kernel& kernel, double seconds) override;

 private:
  template <typename Body>
  Samples Take(int samples, Body body);
  MPI_Comm GroupsOf(int gpus);
  std::vector<float>& Buffer(std::vector<float>* buffer, std::size_t floats) const;

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  KernelRunner runner_;
  std::map<int, MPI_Comm> groups_;  // by size; MPI_COMM_NULL on ranks that are left over
  std::vector<float> data_, other_;
};

// "Open MPI v4.1.4, package: …" up to the first comma.
std::string MpiVersion();

}  // namespace aurum
