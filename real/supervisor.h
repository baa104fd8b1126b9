#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "real/worker.h"

namespace aurum {

// How the processes of a job are started: one command a rank (cuda), or one that starts them all
// (mpirun). "{folder}" and "{rank}" in an argument are replaced.
struct Launch {
  std::vector<std::string> command;
  bool per_rank = true;
  std::vector<std::pair<std::string, std::string>> environment;  // on top of ours
  double start_timeout_s = 60;    // until every rank has begun its first step
  double silence_timeout_s = 60;  // a rank that makes no progress for so long hangs
};

// Runs a job in processes of its own and waits for all of them. Whatever happens, none of them is
// left when this returns, nor the folder: they are a process group that is killed as one, and they
// die with their parent. `narrate` gets a line when ranks start (with their process ids) and when a
// phase ends. Errors:
//   E0910 a rank ended before its time (signal or code, step and op), with the last line it wrote
//   E0911 a rank hangs: which, in which step, at which op, and which ranks wait for it
//   E0912 a rank did not start
//   and what a rank itself threw.
// `interrupted` (may be null) is asked several times a second; true ends the job: E0913, exit 130.
std::vector<RankRun> RunJob(const Job& job, const Launch& launch,
                            const std::function<void(const std::string&)>& narrate,
                            const std::function<bool()>& interrupted);

// The same for a job that calibrates (`job.what` "calibrate", `job.options` a MeasurementPlan as
// JSON): the text of the measurements that rank 0 took, to be read by ReadMeasurements. Same errors.
std::string RunMeasurementJob(const Job& job, const Launch& launch,
                              const std::function<void(const std::string&)>& narrate,
                              const std::function<bool()>& interrupted);

}  // namespace aurum
