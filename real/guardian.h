#pragma once

#include <string>
#include <vector>

#include "real/job_folder.h"

namespace aurum {

// A process of a job: what is executed, the rank that it is (−1: it starts all of them), and the file
// that its stdout and stderr go to.
struct GuardedProcess {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // the whole of it, "NAME=value"
  int rank = -1;
  std::string error_file;
};

// A process between the caller and those of a job, which sees to it that none of these outlives the
// job or the caller.
//
// Killing a process group is not enough: mpirun gives every rank a group of its own. Signals on a
// parent's death (PR_SET_PDEATHSIG) are not enough: they reach children, not grandchildren, and do not
// fire where a parent is merely done with them. The guardian is their subreaper instead: whoever
// descends from it and loses its parent becomes its child. So it kills its children until it has none,
// which reaches every descendant, whatever group it is in and whatever it forked meanwhile.
//
//   caller ──pipe── guardian ── mpirun ── rank 0 (watching) ── rank 0
//                                      └─ rank 1 (watching) ── rank 1
//
// The caller holds the pipe's other end. If the caller dies, even by SIGKILL, the pipe is at its end:
// the guardian kills all and removes the folder. If the guardian is killed, its children get SIGKILL
// from the kernel, theirs likewise (worker.cc), and every rank looks after the guardian's pid besides.
class Guardian {
 public:
  // Forks. What happens between fork and exec is kept to system calls and what was made before.
  Guardian(const std::vector<GuardedProcess>& processes, const ProgressPage& page,
           const std::string& folder);
  ~Guardian();  // KillAll()
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  int pid() const { return pid_; }
  // All processes have ended by themselves.
  bool Ended();
  // Kills every descendant and waits until all are gone.
  void KillAll();

 private:
  int pid_ = -1;
  int pipe_ = -1;
};

}  // namespace aurum
