#include "real/virtual/virtual_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "sim/core/random.h"

// Logical clocks
// --------------
// Every queue of a rank has a clock. An op starts at its queue's clock, or when the last op that it
// waits for has ended, and ends a duration later. A collective starts when its last member has come; a
// message arrives when its sending has ended, and a receive ends no earlier (Lamport, "Time, Clocks, and
// the Ordering of Events in a Distributed System", 1978, with durations). So the clocks are those of an
// undisturbed machine on which ops take what the truth says, whatever the threads' real order: nothing
// but the order of launches, the messages' tags and the groups decide, which are what a real execution
// depends on too.
//
// Example: rank 0 sends after 3 s a message of 1 s, rank 1 waits for it from 2 s on and computes 5 s:
// its clock is max(2, 3 + 1) + 5 = 9 s.
namespace aurum {
namespace {

// What the threads share. Every wait is for a message or for members of a collective.
class World {
 public:
  World(const Executable& e, const VirtualRun& run) : e_(e), run_(run) {
    at_.resize(static_cast<std::size_t>(e.Ranks()));
  }

  using Key = std::tuple<std::int64_t, OpId, int>;  // step, op, receiver or group's first rank

  void Send(const Key& key, double clock_s) {
    const std::lock_guard lock(mutex_);
    messages_[key] = clock_s;
    Moved();
  }
  double Receive(const Key& key, int rank) {
    std::unique_lock lock(mutex_);
    Wait(&lock, rank, [&] { return messages_.contains(key); });
    const auto found = messages_.find(key);
    const double clock_s = found->second;
    messages_.erase(found);
    return clock_s;
  }
  // The latest of the members' clocks. `sum`: of what each brings, checked by the caller.
  struct Met {
    double clock_s = 0;
    std::int64_t sum = 0;
  };
  Met Meet(const Key& key, int rank, std::size_t members, double clock_s) {
    std::unique_lock lock(mutex_);
    Meeting& meeting = meetings_[key];
    meeting.met.clock_s = std::max(meeting.met.clock_s, clock_s);
    meeting.met.sum += rank + 1;
    ++meeting.arrived;
    Moved();
    Wait(&lock, rank, [&] { return meetings_[key].arrived == members; });
    const Met met = meetings_[key].met;
    if (++meetings_[key].left == members) meetings_.erase(key);
    return met;
  }
  void Barrier(std::int64_t step, int rank) {
    Meet({step, kNoOp, -1}, rank, static_cast<std::size_t>(e_.Ranks()), 0);
  }

  void At(int rank, std::int64_t step, std::size_t index, std::string where) {
    const std::lock_guard lock(mutex_);
    Where& at = at_[static_cast<std::size_t>(rank)];
    at.step = step;
    at.index = index;
    at.where = std::move(where);
    ++moves_;  // nobody waits for this
  }
  void Fail(int rank, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      error_ = std::move(error);
      failed_rank_ = rank;
    }
    stopped_ = true;
    changed_.notify_all();
  }
  bool Stopped() const { return stopped_; }
  const std::exception_ptr& error() const { return error_; }

 private:
  struct Meeting {
    std::size_t arrived = 0, left = 0;
    Met met;
  };
  struct Where {
    std::int64_t step = 0;
    std::size_t index = 0;
    std::string where;
    bool waits = false;
  };
  struct Abandoned {};

  void Moved() {
    ++moves_;
    changed_.notify_all();
  }
  template <typename Ready>
  void Wait(std::unique_lock<std::mutex>* lock, int rank, Ready ready) {
    at_[static_cast<std::size_t>(rank)].waits = true;
    std::uint64_t moves = moves_;
    while (!ready() && !stopped_) {
      const auto limit = std::chrono::duration<double>(run_.silence_timeout_s);
      if (changed_.wait_for(*lock, limit) == std::cv_status::timeout && moves == moves_ &&
          !ready() && !stopped_) {
        stopped_ = true;
        changed_.notify_all();
        ThrowHang();
      }
      moves = moves_;
    }
    at_[static_cast<std::size_t>(rank)].waits = false;
    if (!ready()) throw RankStopped{};
  }
  [[noreturn]] void ThrowHang() {
    std::string hangs, waiting;
    for (std::size_t r = 0; r < at_.size(); ++r) {
      const std::string told = "rank " + std::to_string(r) + " in step " +
                               std::to_string(at_[r].step) + " at " + at_[r].where;
      std::string& list = at_[r].waits ? waiting : hangs;
      list += (list.empty() ? "" : "; ") + told;
    }
    if (hangs.empty()) {
      ThrowInput(911, "all ranks wait for each other: " + waiting,
                 "a defect of Aurum: please report it with this scenario", ExitCode::kInternal);
    }
    ThrowInput(911, hangs + " hangs" + (waiting.empty() ? "" : "; waiting for it: " + waiting),
               "the op named is where it stopped", ExitCode::kPartial);
  }

 public:
  struct RankStopped {};  // another rank has failed

 private:
  const Executable& e_;
  const VirtualRun& run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, double> messages_;
  std::map<Key, Meeting> meetings_;
  std::vector<Where> at_;
  std::uint64_t moves_ = 0;
  std::atomic<bool> stopped_ = false;
  std::exception_ptr error_;
  int failed_rank_ = -1;
};

class VirtualBackend : public RankBackend {
 public:
  VirtualBackend(World* world, const Executable& truth, const VirtualRun& run)
      : world_(*world),
        device_(truth.scenario.profile->device.name),
        truth_(truth.program),
        run_(run) {}

  void Prepare(const Program&, const RankProgram& mine) override { mine_ = &mine; }

  void BeginStep(std::int64_t step, bool) override {
    step_ = step;
    clocks_.assign(mine_->queues.size(), 0);
    times_.assign(mine_->ops.size(), {});
    world_.Barrier(step, mine_->rank);
  }

  void Launch(std::size_t index) override {
    const RankOp& op = mine_->ops[index];
    if (run_.disturb) run_.disturb(mine_->rank, step_, index);
    double& clock = clocks_[op.queue];
    double start = clock;
    for (const std::uint32_t before : op.waits)
      start = std::max(start, times_[before].start_s + times_[before].duration_s);
    double duration = 0;
    switch (op.kind) {
      case RankOpKind::kCompute:
      case RankOpKind::kHostTransfer:
        duration = Truth(op.op, mine_->rank);
        break;
      case RankOpKind::kCollective: {
        const std::vector<int>& members = mine_->groups[op.group].ranks;
        const World::Met met =
            world_.Meet({step_, op.op, members.front()}, mine_->rank, members.size(), start);
        start = met.clock_s;
        duration = Truth(op.op, members.front());
        std::int64_t expected = 0;
        for (const int member : members) expected += member + 1;
        sums_hold_ = sums_hold_ && met.sum == expected;
        break;
      }
      case RankOpKind::kSend:
        duration = op.modelled_s > 0 ? Truth(op.op, mine_->rank) : 0;
        for (const int peer : op.peers) world_.Send({step_, op.op, peer}, start + duration);
        break;
      case RankOpKind::kReceive:
        start = std::max(start, world_.Receive({step_, op.op, mine_->rank}, mine_->rank));
        break;
      case RankOpKind::kDelay:
        start = std::max(start, op.not_before_s);
        duration = op.modelled_s;
        break;
    }
    times_[index] = {start, duration};
    clock = start + duration;
  }

  StepTime EndStep() override {
    StepTime time;
    for (const double clock : clocks_) time.seconds = std::max(time.seconds, clock);
    return time;
  }
  std::vector<OpTime> OpTimes() override { return times_; }
  std::vector<RunCheck> Check() override {
    return {{"sums", sums_hold_,
             sums_hold_ ? "every collective met all members of its group and no other"
                        : "rank " + std::to_string(mine_->rank) + " met ranks of another group"}};
  }
  RankFacts Facts() override {
    RankFacts facts;
    facts.host = "logical";
    facts.device = device_ + " (virtual)";
    return facts;
  }

 private:
  // Seconds of the op by the hidden truth. All members of a collective draw the same noise.
  double Truth(OpId op, int rank) const {
    const double seconds = Seconds(truth_.graph.duration(op));
    if (run_.noise <= 0) return seconds;
    const auto stream = static_cast<std::uint64_t>(rank) << 32U | op;
    const double drawn = RandomNormal(run_.seed, stream, static_cast<std::uint64_t>(step_));
    return seconds * std::max(1 + run_.noise * drawn, 0.1);
  }

  World& world_;
  std::string device_;
  const Program& truth_;
  const VirtualRun& run_;
  const RankProgram* mine_ = nullptr;
  std::int64_t step_ = 0;
  std::vector<double> clocks_;
  std::vector<OpTime> times_;
  bool sums_hold_ = true;
};

class VirtualProgress : public Progress {
 public:
  VirtualProgress(World* world, const Executable& e, const RankProgram& mine, int slot)
      : world_(*world), e_(e), mine_(mine), slot_(slot) {}
  void At(std::int64_t step, std::size_t op) override {
    if (world_.Stopped()) throw World::RankStopped{};
    world_.At(slot_, step, op,
              op < mine_.ops.size() ? "'" + NameOf(e_.program, e_.scenario, mine_.ops[op].op) + "'"
                                    : "its begin");
  }
  bool Stopped() const override { return world_.Stopped(); }

 private:
  World& world_;
  const Executable& e_;
  const RankProgram& mine_;
  int slot_;
};

}  // namespace

std::vector<RankRun> RunVirtually(const Executable& e, const Executable& truth,
                                  const VirtualRun& run) {
  const int ranks = e.Ranks();
  if (ShapeOf(e.program) != ShapeOf(truth.program)) {
    ThrowInput(905, "under the truth's profile the plan is another program",
               "layers_per_stage told, so that the split of layers does not follow the profile",
               ExitCode::kInfeasible);
  }
  World world(e, run);
  std::vector<RankRun> runs(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        RankProgram mine = e.RankAt(r);
        VirtualBackend backend(&world, truth, run);
        const int told = mine.rank;
        mine.rank = r;  // alone, a rank is the world's first
        VirtualProgress progress(&world, e, mine, r);
        RankRun& out = runs[static_cast<std::size_t>(r)];
        out = RunRank(&backend, e.program, mine, run.steps, &progress);
        out.facts.rank = told;
      } catch (const World::RankStopped&) {
      } catch (...) {
        world.Fail(r, std::current_exception());
      }
    });
  }
  threads.clear();
  if (world.error()) std::rethrow_exception(world.error());
  return runs;
}

}  // namespace aurum
