#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "real/rank_backend.h"
#include "sim/core/json.h"

namespace aurum {

// What a process that runs one rank is told, through a folder that its supervisor made: job.json in,
// rank-N.json out, and a page of progress that all map. Nothing else passes between them.
struct Job {
  std::string what;       // "execute", "calibrate"
  Json scenario;          // resolved: --set and --profile applied, catalogue names as they were
  std::string data_root;  // of the catalogue
  int ranks = 1;
  int lone_rank = -1;
  StepPlan steps;
  std::uint64_t seed = 1;
  Json options;  // of the backend, or of the measurement
};

// Small messages between the ranks before they can talk (a NCCL id), as files of the job's folder.
class Rendezvous {
 public:
  explicit Rendezvous(std::string folder) : folder_(std::move(folder)) {}
  void Put(const std::string& name, std::string_view bytes) const;  // at once or not at all
  // Waits; E0912 after `timeout_s`, or as soon as the supervisor has stopped the job.
  std::string Get(const std::string& name, double timeout_s) const;

 private:
  std::string folder_;
};

// Body of a worker process: reads the job, lowers the scenario, runs this rank, writes its part.
// Returns the exit code; what was thrown is in rank-N.json as a diagnostic.
using MakeBackend =
    std::function<std::unique_ptr<RankBackend>(const Job& job, const Rendezvous& rendezvous)>;
int RunWorker(const std::string& folder, int rank, const MakeBackend& make_backend);

// The same around any body: the process dies with its job, tells where it is through the page, its
// stderr goes to a file of the folder, and what `body` throws is written down. `body` writes what it
// has made itself (real/job_folder.h).
using WorkerBody =
    std::function<void(const Job& job, const Rendezvous& rendezvous, Progress* progress)>;
int RunWorkerBody(const std::string& folder, int rank, const WorkerBody& body);

// Runs `body` in a child process and notes in the page how it ended: for ranks that somebody else
// starts (mpirun), who would tell the supervisor only in prose. Returns what the process should exit
// with: the child's code, or 128 + its signal. Before any thread is started.
int RunWatched(const std::string& folder, int rank, const std::function<int()>& body);

}  // namespace aurum
