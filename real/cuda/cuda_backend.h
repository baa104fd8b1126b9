#pragma once

#include <memory>
#include <string>

#include "real/supervisor.h"
#include "real/worker.h"

namespace aurum {
namespace cuda {
class Api;
}

// One rank on one GPU: a stream for every queue of its program, events where an op waits for another
// queue's, communicators split from one of all ranks. A lone rank needs no NCCL: what other ranks
// take part in is a wait on the device of the modelled length. Of `job.options`: "device" (GPU of a
// lone rank; else a rank takes the GPU of its number), "libraries", "force" (also beside other
// processes). Errors: those of calibrate/cuda/cuda_bench.h.
std::unique_ptr<RankBackend> MakeCudaBackend(const Job& job, const Rendezvous& rendezvous);
// The same over another implementation of the libraries.
std::unique_ptr<RankBackend> MakeCudaBackend(const Job& job, const Rendezvous& rendezvous,
                                             std::unique_ptr<cuda::Api> api);

// Body of the hidden command that a job's ranks are: aurum worker-cuda FOLDER RANK.
int CudaWorkerMain(const std::string& folder, int rank);

// How to start a job's ranks, one process each. `program`: this executable.
Launch CudaLaunch(const std::string& program);

}  // namespace aurum
