#include "real/cuda/cuda_backend.h"

namespace aurum {

Launch CudaLaunch(const std::string& program) {
  Launch launch;
  launch.command = {program, "worker-cuda", "{folder}", "{rank}"};
  launch.per_rank = true;
  // Every shape of product is tried with several algorithms before the first step.
  launch.start_timeout_s = 240;
  launch.silence_timeout_s = 180;  // longer than the backend's own limits, which tell more
  return launch;
}

int CudaWorkerMain(const std::string& folder, int rank) {
  return RunWorker(folder, rank, [](const Job& job, const Rendezvous& rendezvous) {
    return MakeCudaBackend(job, rendezvous);
  });
}

}  // namespace aurum
