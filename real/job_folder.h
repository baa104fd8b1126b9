#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "real/worker.h"

namespace aurum {

// What passes between a supervisor and the ranks of a job: files of one private folder.
//
//   job.json        what to do
//   progress        a page that all map: where every rank is
//   rank-N.ops      written by rank N before its first step: what each of its ops is, and for whom it waits
//   rank-N.json     written by rank N at its end: its RankRun, or a diagnostic
//   rank-N.err      what rank N wrote to stderr
//   launcher.err    what the program wrote that started the ranks, where one starts them all
//   measurements.json   of a job that calibrates, by rank 0

std::string JobFile(const std::string& folder);
std::string ProgressFile(const std::string& folder);
std::string OpsFile(const std::string& folder, int rank);
std::string ResultFile(const std::string& folder, int rank);
std::string ErrorFile(const std::string& folder, int rank);
std::string LauncherErrorFile(const std::string& folder);
std::string MeasurementsFile(const std::string& folder);

Json WriteJob(const Job& job);
Job ReadJob(const JsonDocument& document);  // errors of ObjectReader
Json WriteRankRun(const RankRun& run);
RankRun ReadRankRun(const JsonDocument& document);
// {"error": …}: what a rank threw.
Json WriteRankError(const InputError& error);
std::optional<InputError> ReadRankError(const JsonDocument& document);

// What an op of a rank is, for messages about it; the ranks without which it cannot end.
struct OpOfRank {
  std::string name;
  OpId op = kNoOp;  // of the Program: equal among the members of a collective
  std::vector<int> needs;
  friend bool operator==(const OpOfRank&, const OpOfRank&) = default;
};
std::vector<OpOfRank> OpsOfRank(const Program& program, const Scenario& scenario,
                                const RankProgram& mine);
void WriteOps(const std::string& folder, int rank, const std::vector<OpOfRank>& ops);
std::vector<OpOfRank> ReadOps(const std::string& folder, int rank);  // empty: not written yet

// Where a rank is. Written by the rank (and its parent, when it has ended), read by the supervisor.
struct alignas(64) RankSlot {
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> phase;  // RankPhase
  std::atomic<std::int64_t> step;
  std::atomic<std::int64_t> op;      // index of the rank's ops; −1: none of them
  std::atomic<std::uint64_t> beats;  // grows with every sign of life
  std::atomic<std::int32_t> ended;   // 0: runs; n: the n-th of the job to end
  std::atomic<std::int32_t> status;  // as of waitpid, when `ended`
};
enum class RankPhase : std::int32_t { kNone, kStarted, kRunning, kDone };

// The page. Lock-free: a rank may be stopped or killed at any moment.
class ProgressPage {
 public:
  static ProgressPage Create(const std::string& folder, int ranks);
  static ProgressPage Open(const std::string& folder);  // E0912 where there is none
  ProgressPage(ProgressPage&& other) noexcept;
  ProgressPage& operator=(ProgressPage&&) = delete;
  ~ProgressPage();

  int ranks() const { return header_->ranks; }
  RankSlot& At(int rank) const { return slots_[rank]; }
  // For a rank's parent, after waitpid.
  void Ended(int rank, int status) const;
  bool Stopped() const { return header_->stopped.load(std::memory_order_acquire) != 0; }
  void Stop() const { header_->stopped.store(1, std::memory_order_release); }
  // The process that all die with.
  int guardian() const { return header_->guardian.load(); }
  void SetGuardian(int pid) const { header_->guardian.store(pid); }

 private:
  struct alignas(64) Header {
    std::uint64_t magic;
    std::int32_t ranks;
    std::atomic<std::int32_t> stopped, guardian, endings;
  };
  ProgressPage(void* memory, std::size_t bytes);
  void* memory_;
  std::size_t bytes_;
  Header* header_;
  RankSlot* slots_;
};

}  // namespace aurum
