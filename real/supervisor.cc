#include "real/supervisor.h"

#include <signal.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "real/guardian.h"
#include "real/job_folder.h"
#include "sim/core/text_file.h"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to us

namespace aurum {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(20);
// What a job of thousands of timed ops may write, with room to spare.
constexpr double kRoomBytes = 256.0 * 1024 * 1024;

double Since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// The job's folder: private, and in memory where there is room, so that neither the page of progress
// nor the segments of a message library ever wait for a disk. Removed with everything in it.
class JobFolder {
 public:
  JobFolder() {
    const char* told = std::getenv("TMPDIR");
    struct statvfs shared {};
    std::string place = "/tmp";
    if (told != nullptr && *told != '\0') {
      place = told;
    } else if (statvfs("/dev/shm", &shared) == 0 && access("/dev/shm", W_OK | X_OK) == 0 &&
               static_cast<double>(shared.f_bavail) * static_cast<double>(shared.f_bsize) >
                   kRoomBytes) {
      place = "/dev/shm";
    }
    path_ = place + "/aurum-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
      ThrowInput(912, "cannot make a folder in '" + place + "': " + std::strerror(errno),
                 "set TMPDIR to a folder that can be written", ExitCode::kPartial);
    }
  }
  ~JobFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::vector<GuardedProcess> ProcessesOf(const Launch& launch, const std::string& folder,
                                        int ranks) {
  std::vector<GuardedProcess> processes;
  for (int rank = 0; rank < (launch.per_rank ? ranks : 1); ++rank) {
    GuardedProcess& process = processes.emplace_back();
    const auto fill = [&](const std::string& text) {
      return Replaced(Replaced(text, "{folder}", folder), "{rank}", std::to_string(rank));
    };
    for (const std::string& word : launch.command) process.command.push_back(fill(word));
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string name(*entry, std::strcspn(*entry, "="));
      const bool told = std::any_of(launch.environment.begin(), launch.environment.end(),
                                    [&](const auto& pair) { return pair.first == name; });
      if (!told) process.environment.emplace_back(*entry);
    }
    for (const auto& [name, value] : launch.environment) {
      process.environment.push_back(name + "=" + fill(value));
    }
    process.rank = launch.per_rank ? rank : -1;
    process.error_file = launch.per_rank ? ErrorFile(folder, rank) : LauncherErrorFile(folder);
  }
  return processes;
}

// The last line that says something: launchers frame theirs with dashes.
std::string LastLine(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    line.erase(std::remove_if(line.begin(), line.end(),
                              [](unsigned char c) { return c < ' ' && c != '\t'; }),
               line.end());
    if (line.find_first_not_of("- \t*=") != std::string::npos) last = line;
  }
  constexpr std::size_t kMost = 300;
  return last.size() > kMost ? last.substr(0, kMost) + " …" : last;
}

// The state of a process by /proc: 'T' stopped, 't' traced; ' ' where it is gone.
char StateOf(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::size_t end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() ? text[end + 2] : ' ';
}

std::string Counted(int ranks) { return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }

// Watches one job from its start to its end.
class Watch {
 public:
  Watch(const Job& job, const Launch& launch,
        const std::function<void(const std::string&)>& narrate,
        const std::function<bool()>& interrupted)
      : job_(job),
        launch_(launch),
        narrate_(narrate),
        interrupted_(interrupted),
        page_(ProgressPage::Create(folder_.path(), job.ranks)),
        seen_(static_cast<std::size_t>(job.ranks)) {}

  // Returns when all ranks are done; throws with none of them left.
  void Run() {
    WriteTextFile(JobFile(folder_.path()), WriteJob(job_).Dump() + "\n");
    Guardian guardian(ProcessesOf(launch_, folder_.path(), job_.ranks), page_, folder_.path());
    try {
      Follow(&guardian);
    } catch (...) {
      page_.Stop();
      guardian.KillAll();
      throw;
    }
  }

  const std::string& folder() const { return folder_.path(); }

 private:
  struct Seen {
    std::uint64_t beats = 0;
    Clock::time_point moved = Clock::now();
  };

  RankPhase PhaseOf(int rank) const { return static_cast<RankPhase>(page_.At(rank).phase.load()); }
  bool AllAtLeast(RankPhase phase) const {
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (PhaseOf(rank) < phase) return false;
    }
    return true;
  }
  void Narrate(const std::string& line) const {
    if (narrate_) narrate_(line);
  }

  void Follow(Guardian* guardian) {
    const Clock::time_point begun = Clock::now();
    for (Seen& seen : seen_) seen.moved = begun;
    for (;;) {
      // Asked first: what ended before it did is on the page.
      const bool over = guardian->Ended();
      if (interrupted_ && interrupted_()) {
        ThrowInput(913, "interrupted" + WhereAll(), "nothing was written", ExitCode::kInterrupted);
      }
      NarrateProgress();
      LookForEnds();
      if (AllAtLeast(RankPhase::kDone) && over) return;
      if (over) NotStarted("its launcher ended");
      if (!AllAtLeast(RankPhase::kRunning) && Since(begun) > launch_.start_timeout_s) {
        NotStarted("it did not begin its first step within " +
                   std::to_string(static_cast<int>(launch_.start_timeout_s)) + " s");
      }
      LookForHangs();
      std::this_thread::sleep_for(kLookEvery);
    }
  }

  // The rank that ended first and not as it should; the others follow for its sake.
  void LookForEnds() {
    int first = -1;
    std::int32_t order = 0;
    for (int rank = 0; rank < job_.ranks; ++rank) {
      const RankSlot& slot = page_.At(rank);
      const std::int32_t ended = slot.ended.load(std::memory_order_acquire);
      const bool well = ended != 0 && PhaseOf(rank) == RankPhase::kDone && slot.status.load() == 0;
      if (ended == 0 || well) continue;
      if (first < 0 || ended < order) {
        first = rank;
        order = ended;
      }
    }
    if (first < 0) return;
    if (std::filesystem::exists(ResultFile(folder(), first))) {
      const std::optional<InputError> thrown =
          ReadRankError(ReadJsonFile(ResultFile(folder(), first)));
      if (thrown) throw InputError(*thrown);
    }
    const int status = page_.At(first).status.load();
    const std::string how =
        WIFSIGNALED(status)
            ? " was killed by signal " + std::to_string(WTERMSIG(status))
            : " exited with code " + std::to_string(WEXITSTATUS(status)) + " before its time";
    const std::string last = LastOf(first);
    if (PhaseOf(first) < RankPhase::kRunning) {
      ThrowInput(912,
                 "rank " + std::to_string(first) + " did not start: it" + how +
                     (last.empty() ? "" : ": " + last),
                 "the program that runs a rank is beside aurum in its build folder; run it alone "
                 "to see what it lacks",
                 ExitCode::kPartial);
    }
    ThrowInput(910,
               "rank " + std::to_string(first) + how + Where(first) + Waiting(first, " while ") +
                   (last.empty() ? "" : "; its last line: " + last),
               WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                   ? "signal 9 without a sender is often the kernel, out of memory: see its log"
                   : "nothing was written; run it again with -v, or report it",
               ExitCode::kPartial);
  }

  [[noreturn]] void NotStarted(const std::string& why) const {
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (PhaseOf(rank) >= RankPhase::kRunning) continue;
      const std::string last = LastOf(rank);
      ThrowInput(912,
                 "rank " + std::to_string(rank) + " did not start: " + why +
                     (last.empty() ? "" : ": " + last),
                 "the program that runs a rank is beside aurum in its build folder; run it alone "
                 "to see what it lacks",
                 ExitCode::kPartial);
    }
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (PhaseOf(rank) == RankPhase::kDone) continue;
      ThrowInput(910, "rank " + std::to_string(rank) + " ended before its time" + Where(rank),
                 "nothing was written; run it again", ExitCode::kPartial);
    }
    ThrowInput(910, "the job's launcher was ended by another", "nothing was written; run it again",
               ExitCode::kPartial);
  }

  // A rank hangs if it is silent for long and waits for nobody, or if all are silent.
  void LookForHangs() {
    std::vector<int> silent, unfinished;
    for (int rank = 0; rank < job_.ranks; ++rank) {
      const RankSlot& slot = page_.At(rank);
      Seen& seen = seen_[static_cast<std::size_t>(rank)];
      const std::uint64_t beats = slot.beats.load(std::memory_order_acquire);
      if (beats != seen.beats || PhaseOf(rank) < RankPhase::kRunning) {
        seen.beats = beats;
        seen.moved = Clock::now();
      }
      if (PhaseOf(rank) == RankPhase::kDone && slot.ended.load() != 0) continue;
      unfinished.push_back(rank);
      if (Since(seen.moved) > launch_.silence_timeout_s) silent.push_back(rank);
    }
    if (silent.empty()) return;
    std::vector<int> guilty;
    std::string state;
    for (const int rank : silent) {
      const char letter = StateOf(page_.At(rank).pid.load());
      if (letter == 'T' || letter == 't') guilty.push_back(rank);
    }
    if (!guilty.empty()) {
      state = " (its process is stopped)";
    } else {
      for (const int rank : silent) {
        if (Needs(rank).empty()) guilty.push_back(rank);
      }
      if (guilty.empty() && silent.size() < unfinished.size())
        return;  // they wait for one that works
    }
    if (guilty.empty()) {
      ThrowInput(911, "all ranks wait for each other" + WhereAll(),
                 "a defect of Aurum: please report it with this scenario", ExitCode::kPartial);
    }
    const int rank = guilty.front();
    ThrowInput(911,
               "rank " + std::to_string(rank) + " hangs" + state + Where(rank) +
                   Waiting(rank, " while ") + "; it made no progress for " +
                   std::to_string(static_cast<int>(launch_.silence_timeout_s)) + " s",
               "the op named is where it stopped; nothing was written", ExitCode::kPartial);
  }

  // Ranks that the one cannot go on without, where it is now.
  std::vector<int> Needs(int rank) const {
    const RankSlot& slot = page_.At(rank);
    if (PhaseOf(rank) == RankPhase::kDone || slot.ended.load() != 0) return {};
    const std::int64_t op = slot.op.load();
    if (op < 0) {  // a step begins when all have come
      std::vector<int> needs;
      for (int other = 0; other < job_.ranks; ++other) {
        const bool behind = page_.At(other).op.load() >= 0 ||
                            page_.At(other).step.load() < slot.step.load() ||
                            PhaseOf(other) < RankPhase::kRunning;
        if (other != rank && behind) needs.push_back(other);
      }
      return needs;
    }
    const std::vector<OpOfRank> ops = ReadOps(folder(), rank);
    return static_cast<std::size_t>(op) < ops.size() ? ops[static_cast<std::size_t>(op)].needs
                                                     : std::vector<int>();
  }
  // "'backward of backbone, micro-batch 2'", "the step's begin".
  std::string Op(int rank) const {
    const std::int64_t op = page_.At(rank).op.load();
    if (op < 0) return "the step's begin";
    const std::vector<OpOfRank> ops = ReadOps(folder(), rank);
    return static_cast<std::size_t>(op) < ops.size()
               ? "'" + ops[static_cast<std::size_t>(op)].name + "'"
               : "op " + std::to_string(op);
  }
  // " in step 3 at 'backward of backbone, micro-batch 2'"
  std::string Where(int rank) const {
    if (PhaseOf(rank) < RankPhase::kRunning) return " before its first step";
    if (PhaseOf(rank) == RankPhase::kDone) return " after its last step";
    const std::string unit = job_.what == "calibrate" ? " in measurement " : " in step ";
    const std::string step = unit + std::to_string(page_.At(rank).step.load());
    return job_.what == "calibrate" ? step : step + " at " + Op(rank);
  }
  std::string WhereAll() const {
    std::string text;
    for (int rank = 0; rank < std::min(job_.ranks, 8); ++rank) {
      text += (rank == 0 ? ": rank " : ", rank ") + std::to_string(rank) + Where(rank);
    }
    return text + (job_.ranks > 8 ? " …" : "");
  }
  // " while rank 0 waited for it at 'gradient reduction'"
  std::string Waiting(int rank, const std::string& before) const {
    std::string text;
    int more = 0;
    for (int other = 0; other < job_.ranks; ++other) {
      if (other == rank || PhaseOf(other) != RankPhase::kRunning) continue;
      const std::vector<int> needs = Needs(other);
      if (std::find(needs.begin(), needs.end(), rank) == needs.end()) continue;
      constexpr int kTold = 3;
      if (more++ < kTold) {
        text += (text.empty() ? before : ", ") + "rank " + std::to_string(other) +
                " waited for it at " + Op(other);
      }
    }
    return more > 3 ? text + " and " + std::to_string(more - 3) + " more" : text;
  }
  std::string LastOf(int rank) const {
    const std::string own = LastLine(ErrorFile(folder(), rank));
    return own.empty() ? LastLine(LauncherErrorFile(folder())) : own;
  }

  void NarrateProgress() {
    if (!told_pids_ && AllAtLeast(RankPhase::kStarted)) {
      told_pids_ = true;
      std::string line = Counted(job_.ranks) + (job_.ranks == 1 ? ", process" : ", processes");
      for (int rank = 0; rank < job_.ranks; ++rank) {
        line += (rank == 0 ? " " : ", ") + std::to_string(page_.At(rank).pid.load());
      }
      Narrate(line);
    }
    if (job_.what != "execute" || !AllAtLeast(RankPhase::kRunning)) return;
    std::int64_t slowest = page_.At(0).step.load();
    for (int rank = 0; rank < job_.ranks; ++rank) {
      slowest = PhaseOf(rank) == RankPhase::kDone ? slowest
                                                  : std::min(slowest, page_.At(rank).step.load());
    }
    if (AllAtLeast(RankPhase::kDone)) slowest = 1LL << 60;
    const StepPlan& plan = job_.steps;
    const std::int64_t ends[] = {plan.warm_up, plan.warm_up + plan.steps,
                                 plan.warm_up + plan.steps + plan.timed_steps};
    const char* const names[] = {"warm-up", "whole steps", "steps timed op by op"};
    const int counts[] = {plan.warm_up, plan.steps, plan.timed_steps};
    for (; told_phases_ < 3 && slowest >= ends[told_phases_]; ++told_phases_) {
      if (counts[told_phases_] == 0) continue;
      Narrate(std::string(names[told_phases_]) + " done (" + std::to_string(counts[told_phases_]) +
              ")");
    }
  }

  const Job& job_;
  const Launch& launch_;
  const std::function<void(const std::string&)>& narrate_;
  const std::function<bool()>& interrupted_;
  JobFolder folder_;
  ProgressPage page_;
  std::vector<Seen> seen_;
  bool told_pids_ = false;
  int told_phases_ = 0;
};

}  // namespace

std::vector<RankRun> RunJob(const Job& job, const Launch& launch,
                            const std::function<void(const std::string&)>& narrate,
                            const std::function<bool()>& interrupted) {
  Watch watch(job, launch, narrate, interrupted);
  watch.Run();
  std::vector<RankRun> runs;
  for (int rank = 0; rank < job.ranks; ++rank) {
    runs.push_back(ReadRankRun(ReadJsonFile(ResultFile(watch.folder(), rank))));
  }
  return runs;
}

std::string RunMeasurementJob(const Job& job, const Launch& launch,
                              const std::function<void(const std::string&)>& narrate,
                              const std::function<bool()>& interrupted) {
  Watch watch(job, launch, narrate, interrupted);
  watch.Run();
  return ReadTextFile(MeasurementsFile(watch.folder()));
}

}  // namespace aurum
