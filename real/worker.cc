#include "real/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "real/execution.h"
#include "real/job_folder.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

constexpr auto kWatchEvery = std::chrono::milliseconds(100);

bool Alive(int pid) { return pid <= 0 || kill(pid, 0) == 0 || errno == EPERM; }

// Ends this process when its parent ends, however that happens.
void DieWithParent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

// Where this rank is, told through the page.
class WorkerProgress : public Progress {
 public:
  WorkerProgress(const ProgressPage* page, int rank) : page_(*page), slot_(page->At(rank)) {}

  void At(std::int64_t step, std::size_t op) override {
    // A step is announced before it begins: there all ranks wait for each other.
    const bool begins = step != step_ && op == 0;
    step_ = step;
    slot_.step.store(step, std::memory_order_relaxed);
    slot_.op.store(begins ? -1 : static_cast<std::int64_t>(op), std::memory_order_relaxed);
    slot_.phase.store(static_cast<std::int32_t>(RankPhase::kRunning), std::memory_order_relaxed);
    slot_.beats.fetch_add(1, std::memory_order_release);
  }
  bool Stopped() const override { return page_.Stopped(); }

 private:
  const ProgressPage& page_;
  RankSlot& slot_;
  std::int64_t step_ = -1;
};

void Execute(const std::string& folder, int rank, const Job& job, const Rendezvous& rendezvous,
             Progress* progress, const MakeBackend& make_backend) {
  InputCache cache(job.data_root);
  const JsonDocument document = ParseJson(job.scenario.Dump(2), "the job's scenario");
  const Executable executable = MakeExecutable(ReadScenario(document, &cache), job.lone_rank);
  const RankProgram mine = executable.RankAt(rank);
  WriteOps(folder, rank, OpsOfRank(executable.program, executable.scenario, mine));
  const std::unique_ptr<RankBackend> backend = make_backend(job, rendezvous);
  const RankRun run = RunRank(backend.get(), executable.program, mine, job.steps, progress);
  WriteTextFile(ResultFile(folder, rank), WriteRankRun(run).Dump() + "\n");
}

}  // namespace

void Rendezvous::Put(const std::string& name, std::string_view bytes) const {
  WriteTextFile(folder_ + "/meet-" + name, bytes);
}

std::string Rendezvous::Get(const std::string& name, double timeout_s) const {
  const std::string file = folder_ + "/meet-" + name;
  const ProgressPage page = ProgressPage::Open(folder_);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  while (!std::filesystem::exists(file)) {
    if (page.Stopped() || std::chrono::steady_clock::now() >= until) {
      ThrowInput(912,
                 page.Stopped() ? "the job was stopped while a rank waited for '" + name + "'"
                                : "no rank has told '" + name + "' in " +
                                      std::to_string(static_cast<int>(timeout_s)) + " s",
                 "the first rank that failed says why", ExitCode::kPartial);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return ReadTextFile(file);
}

int RunWorkerBody(const std::string& folder, int rank, const WorkerBody& body) {
  DieWithParent();
  const int file = open(ErrorFile(folder, rank).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file >= 0) {
    dup2(file, STDERR_FILENO);
    close(file);
  }
  ExitCode code = ExitCode::kOk;
  try {
    const ProgressPage page = ProgressPage::Open(folder);
    if (rank < 0 || rank >= page.ranks()) {
      ThrowInput(
          912,
          "a rank " + std::to_string(rank) + " of a job that has " + std::to_string(page.ranks()),
          "this program is started by aurum, not by hand");
    }
    // The parent may have died before this process asked to be told.
    if (page.Stopped() || !Alive(page.guardian())) return static_cast<int>(ExitCode::kPartial);
    RankSlot& slot = page.At(rank);
    slot.pid.store(getpid());
    slot.phase.store(static_cast<std::int32_t>(RankPhase::kStarted));
    slot.beats.fetch_add(1);
    // The kernel's signal reaches children only; the supervisor may stand further up.
    std::atomic<bool> ended = false;
    std::thread watch([&page, &ended] {
      while (!ended.load()) {
        if (page.Stopped() || !Alive(page.guardian())) {
          std::_Exit(static_cast<int>(ExitCode::kPartial));
        }
        std::this_thread::sleep_for(kWatchEvery);
      }
    });
    std::exception_ptr failure;
    try {
      WorkerProgress progress(&page, rank);
      body(ReadJob(ReadJsonFile(JobFile(folder))), Rendezvous(folder), &progress);
      slot.phase.store(static_cast<std::int32_t>(RankPhase::kDone));
    } catch (...) {
      failure = std::current_exception();
    }
    ended.store(true);
    watch.join();
    if (failure) std::rethrow_exception(failure);
    return static_cast<int>(ExitCode::kOk);
  } catch (const InputError& error) {
    code = error.exit_code();
    std::fprintf(stderr, "%s", FormatDiagnostic(error.diagnostic()).c_str());
    try {
      WriteTextFile(ResultFile(folder, rank), WriteRankError(error).Dump() + "\n");
    } catch (const std::exception&) {
      // The line on stderr is left.
    }
  } catch (const std::exception& error) {
    code = ExitCode::kInternal;
    std::fprintf(stderr, "internal error: %s\n", error.what());
  }
  return static_cast<int>(code);
}

int RunWorker(const std::string& folder, int rank, const MakeBackend& make_backend) {
  return RunWorkerBody(folder, rank,
                       [&](const Job& job, const Rendezvous& rendezvous, Progress* progress) {
                         Execute(folder, rank, job, rendezvous, progress, make_backend);
                       });
}

int RunWatched(const std::string& folder, int rank, const std::function<int()>& body) {
  DieWithParent();
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    return static_cast<int>(ExitCode::kInternal);
  }
  if (child == 0) {
    DieWithParent();
    const int code = body();
    std::fflush(nullptr);
    std::_Exit(code);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  try {
    const ProgressPage page = ProgressPage::Open(folder);
    if (rank >= 0 && rank < page.ranks()) page.Ended(rank, status);
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace aurum
