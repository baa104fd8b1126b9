// A rank without hardware for tests of the supervisor: FOLDER RANK. It runs three steps of two ops, a
// "forward" and a "gradient reduction" that waits for the other rank, and misbehaves as the job's
// options tell: {"misbehaves": "kill" | "stop" | "exit" | "throw" | "late" | "loop" | "", "rank": 1}.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "real/job_folder.h"
#include "real/worker.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

void Misbehave(const std::string& how) {
  std::fputs("about to misbehave\n", stderr);
  if (how == "kill") kill(getpid(), SIGKILL);
  if (how == "stop") raise(SIGSTOP);
  if (how == "exit") std::_Exit(3);
  if (how == "loop") {
    while (getpid() > 0) usleep(1000);
  }
  if (how == "throw") ThrowInput(932, "no such kernel", "another", ExitCode::kInfeasible);
}

void Body(const std::string& folder, int rank, const Job& job, const Rendezvous& meet,
          Progress* progress) {
  const std::string how = job.options.Find("misbehaves")->AsString();
  const bool bad = rank == job.options.Find("rank")->AsInteger();
  if (how == "late" && bad) {
    std::fputs("still looking for a device\n", stderr);
    while (getpid() > 0) usleep(1000);
  }
  WriteOps(folder, rank,
           {{"forward of backbone, micro-batch 0", 7, {}},
            {"gradient reduction of backbone", 9, {1 - rank}}});
  for (std::int64_t step = 0; step < 3; ++step) {
    progress->At(step, 0);
    const std::string name = std::to_string(step) + "-";
    progress->At(step, 0);
    if (bad && step == 2 && !how.empty()) Misbehave(how);
    progress->At(step, 1);
    meet.Put(name + std::to_string(rank), "here");
    if (meet.Get(name + std::to_string(1 - rank), 300) != "here") std::_Exit(9);
  }
  RankRun run;
  run.facts.rank = rank;
  run.facts.host = "host";
  run.facts.device = "none";
  run.steps = {{0.25 + rank, 0.5, rank == 1}};
  run.timed = {{{0, 0.125}, {0.125, 0.5}}};
  run.checks = {{"sums", true, "fine"}};
  WriteTextFile(ResultFile(folder, rank), WriteRankRun(run).Dump() + "\n");
}

}  // namespace
}  // namespace aurum

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string folder = argv[1];
  const int rank = std::atoi(argv[2]);
  return aurum::RunWorkerBody(
      folder, rank,
      [&](const aurum::Job& job, const aurum::Rendezvous& meet, aurum::Progress* progress) {
        aurum::Body(folder, rank, job, meet, progress);
      });
}
