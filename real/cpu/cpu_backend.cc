#include "real/cpu/cpu_backend.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "calibrate/cpu/collectives.h"
#include "calibrate/cpu/core.h"
#include "calibrate/cpu/kernels.h"
#include "sim/core/hash.h"
#include "sim/core/random.h"
#include "sim/core/units.h"

// Clocks of ranks that share a machine
// ------------------------------------
// A prediction is compared with the step time of a machine that does nothing else, and this machine
// may be anything but that: other processes take its cores, and there may be more ranks than cores.
// Wall time then says how busy the machine was. CPU time of a rank's thread says what its work cost,
// but not how long it waited for other ranks, which in a pipeline is half of a step. So every rank
// keeps logical clocks that its CPU time advances, and messages carry them (Lamport, 1978):
//
//   compute      runs on this core; its queue's clock and the core's go on by its CPU time
//   send         the same by the CPU time of MPI_Isend; the clock at its end travels with the message
//   receive      waits for the message's clock to arrive (that wait costs nothing), then takes the
//                later of its own clock and the message's, and goes on by the CPU time of copying the
//                message, which the receiver does by itself (CMA)
//   collective   the members exchange their clocks, all take the latest, and go on by what the
//                collective cost (calibrate/cpu/collectives.h says how that is told from waiting)
//   delay        no CPU: not before its moment, then its modelled length
//
// Example: rank 0 computes 3 s of CPU (8 s by the wall, another process had the core) and sends;
// rank 1 has computed 1 s, receives, copies for 0.5 s and computes 2 s: max(1, 3) + 0.5 + 2 = 5.5 s,
// on a quiet machine and on a busy one.
//
// One core does one thing at a time, whatever the queues: an op that works starts when its queue is
// free, what it waits for has ended, and the core is free. Waiting leaves the core to ops of other
// queues that are launched later; what a receive or a collective itself works is taken from the core
// at once. So a plan that overlaps communication with kernels gets here what a core makes of it: no
// time won. (Open MPI makes no progress in the background; a simulation that is to agree says so in
// plan.overlap.)
//
// What is left of the machine's state in these clocks is what others leave in the shared cache and
// on the memory bus; a step whose kernels lost their core often enough to matter
// (Disturbed()) is marked.
namespace aurum {
namespace {

constexpr std::size_t kRotated = std::size_t{64} << 20;  // bytes of each buffer of messages
constexpr std::size_t kWitness = 256;                    // weights that a group really trains

std::size_t FloatsOf(double bytes) {
  return static_cast<std::size_t>(std::ceil(bytes / sizeof(float) - 1e-9));
}

// Buffers taken one behind the other, so that none is found in a cache.
class Rotation {
 public:
  void Fit(std::size_t largest) {
    floats_.resize(std::max({floats_.size(), 2 * largest, kRotated / sizeof(float)}), 0.5F);
  }
  float* Take(std::size_t floats) {
    if (next_ + floats > floats_.size()) next_ = 0;
    float* at = floats_.data() + next_;
    next_ += (floats + 15) / 16 * 16;
    return at;
  }

 private:
  std::vector<float> floats_;
  std::size_t next_ = 0;
};

// What travels behind a message: when its sending ended, and what its ends were.
struct Stamp {
  double clock_s = 0, floats = 0, first = 0, last = 0;
};

// A few weights of every group that reduces gradients: trained for real by what its collectives
// carry, so that a collective that mixes up ranks, or an op that one rank leaves out, shows as
// replicas that differ.
struct Replica {
  std::vector<float> gradient, weights;      // all-reduce: whole on every member
  std::vector<float> shard_gradient, shard;  // reduce-scatter: this rank's part
  std::uint64_t gathered = 0;                // hash of what a gather made of all shards
};

class CpuBackend : public RankBackend {
 public:
  CpuBackend(MPI_Comm comm, std::uint64_t seed) : comm_(comm), seed_(seed), runner_(Own(seed)) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
  }
  ~CpuBackend() override {
    for (Group& group : groups_) {
      if (group.comm != MPI_COMM_NULL) MPI_Comm_free(&group.comm);
    }
  }
  CpuBackend(const CpuBackend&) = delete;
  CpuBackend& operator=(const CpuBackend&) = delete;

  void Prepare(const Program& program, const RankProgram& mine) override;
  void BeginStep(std::int64_t step, bool per_op) override;
  void Launch(std::size_t index) override;
  StepTime EndStep() override;
  std::vector<OpTime> OpTimes() override { return times_; }
  std::vector<RunCheck> Check() override;
  RankFacts Facts() override;

 private:
  struct Group {
    std::vector<int> ranks;
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;  // of this process in it
    Replica replica;
    std::size_t Size() const { return ranks.size(); }
  };

  // Each rank draws other values.
  static std::uint64_t Own(std::uint64_t seed) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return seed + static_cast<std::uint64_t>(rank);
  }

  void MakeGroups();
  void Compute(const RankOp& op);
  double Collect(const RankOp& op, Group* group);
  void Send(const RankOp& op);
  Stamp AwaitStamp(const RankOp& op) const;
  void Fetch(const RankOp& op, const Stamp& stamp);
  void Optimise();
  void BringGradient(const RankOp& op, Group* group, std::size_t floats, float* data) const;
  void TakeResult(const RankOp& op, Group* group, std::size_t floats, const float* data,
                  const float* other);
  // Runs `body` and returns its CPU time; counts how often the core was lost meanwhile.
  template <typename Body>
  double Timed(Body body) {
    const std::int64_t switches = InvoluntarySwitches();
    const double begin = ThreadCpuSeconds();
    body();
    const double seconds = ThreadCpuSeconds() - begin;
    switches_ += InvoluntarySwitches() - switches;
    worked_s_ += seconds;
    return seconds;
  }
  OpKind KindOf(const RankOp& op) const { return program_->info[op.op].kind; }

  MPI_Comm comm_;
  std::uint64_t seed_;
  int rank_ = 0, size_ = 1;
  KernelRunner runner_;
  const Program* program_ = nullptr;
  const RankProgram* mine_ = nullptr;
  std::map<std::uint32_t, std::vector<Kernel>> kernels_;  // rounded up, by index of the program's
  std::vector<Group> groups_;                             // sorted by members
  std::vector<std::size_t> group_of_;                     // by RankProgram::groups
  Rotation data_, other_;
  std::vector<float> sent_;  // never written while messages are under way

  // Of the step.
  std::int64_t step_ = 0;
  std::vector<double> queues_;
  double core_ = 0;
  std::vector<OpTime> times_;
  double wall_begin_ = 0;
  std::int64_t switches_ = 0;  // while it worked, not while it waited
  double worked_s_ = 0;
  std::vector<MPI_Request> requests_;
  std::deque<Stamp> stamps_;

  std::string wrong_sum_, wrong_message_;
  std::size_t sums_ = 0, messages_ = 0;
  std::int64_t optimised_ = 0;
};

void CpuBackend::MakeGroups() {
  std::set<std::vector<int>> distinct;
  for (const RankGroupMembers& group : mine_->groups) distinct.insert(group.ranks);
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Comm_group(comm_, &all);
  // In the order of their members, the same on all ranks: whoever makes the least of the groups that
  // are not made yet finds all its members there.
  for (const std::vector<int>& ranks : distinct) {
    Group& group = groups_.emplace_back();
    group.ranks = ranks;
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members);
    const int tag =
        static_cast<int>(HashBytes(ranks.data(), ranks.size() * sizeof(int)).low % 32749);
    MPI_Comm_create_group(comm_, members, tag, &group.comm);
    MPI_Comm_rank(group.comm, &group.rank);
    MPI_Group_free(&members);
  }
  MPI_Group_free(&all);
  for (const RankGroupMembers& group : mine_->groups) {
    const auto at = std::distance(distinct.begin(), distinct.find(group.ranks));
    group_of_.push_back(static_cast<std::size_t>(at));
  }
}

void CpuBackend::Prepare(const Program& program, const RankProgram& mine) {
  program_ = &program;
  mine_ = &mine;
  if (size_ > 1) MakeGroups();
  std::size_t largest = 0, largest_sent = 0;
  for (const RankOp& op : mine.ops) {
    if (op.kernels != kNoWork && op.kind == RankOpKind::kCompute &&
        !kernels_.contains(op.kernels)) {
      std::vector<Kernel>& rounded = kernels_[op.kernels];
      for (const Kernel& kernel : program.kernels[op.kernels]) {
        rounded.push_back(RoundedUp(kernel));
        if (const std::string refusal = KernelRunner::Refusal(rounded.back()); !refusal.empty()) {
          ThrowInput(932,
                     "rank " + std::to_string(mine.rank) + ": the CPU backend has no " + refusal +
                         ": " + Describe(rounded.back()),
                     "plan.precision = fp32, or the backend cuda", ExitCode::kInfeasible);
        }
        runner_.Reserve(rounded.back());
      }
    }
    switch (op.kind) {
      case RankOpKind::kCollective:
        largest = std::max(largest,
                           CollectiveFloats(op.collective, op.bytes,
                                            static_cast<int>(mine.groups[op.group].ranks.size())));
        break;
      case RankOpKind::kSend:
      case RankOpKind::kReceive:
        largest_sent = std::max(
            largest_sent, CollectiveFloats(CollectiveKind::kSendRecv, std::max(op.bytes, 4.0), 2));
        break;
      case RankOpKind::kHostTransfer:
        largest = std::max(largest, FloatsOf(op.bytes));
        break;
      case RankOpKind::kCompute:
      case RankOpKind::kDelay:
        break;
    }
  }
  largest = std::max(largest, largest_sent);
  data_.Fit(largest);
  other_.Fit(largest);
  sent_.resize(largest_sent);
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    sent_[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank_) * 11) % 1009);
  }
}

void CpuBackend::BeginStep(std::int64_t step, bool) {
  // Of the step before: every message has been received by now, or will be without this rank.
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
  stamps_.clear();
  step_ = step;
  queues_.assign(mine_->queues.size(), 0);
  times_.assign(mine_->ops.size(), {});
  core_ = 0;
  switches_ = 0;
  worked_s_ = 0;
  MPI_Barrier(comm_);
  wall_begin_ = WallSeconds();
}

void CpuBackend::Launch(std::size_t index) {
  const RankOp& op = mine_->ops[index];
  double start = queues_[op.queue];
  for (const std::uint32_t before : op.waits) {
    start = std::max(start, times_[before].start_s + times_[before].duration_s);
  }
  double duration = 0;
  switch (op.kind) {
    case RankOpKind::kCompute:
      start = std::max(start, core_);
      duration = Timed([&] { Compute(op); });
      core_ = start + duration;
      if (KindOf(op) == OpKind::kOptimizer) Optimise();
      break;
    case RankOpKind::kHostTransfer: {
      const std::size_t floats = FloatsOf(op.bytes);
      const float* from = data_.Take(floats);
      float* to = other_.Take(floats);
      start = std::max(start, core_);
      duration = Timed([&] { std::memcpy(to, from, floats * sizeof(float)); });
      core_ = start + duration;
      break;
    }
    case RankOpKind::kCollective: {
      Group* group = size_ > 1 ? &groups_[group_of_[op.group]] : nullptr;
      start = std::max(start, core_);
      if (group == nullptr || group->Size() < 2) break;
      const double own = start;
      MPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MAX, group->comm);
      duration = Collect(op, group);
      core_ = own + duration;
      break;
    }
    case RankOpKind::kSend:
      start = std::max(start, core_);
      duration = Timed([&] { Send(op); });
      for (std::size_t i = 0; i < op.peers.size(); ++i) {
        Stamp& stamp = stamps_.emplace_back();
        const std::size_t floats = FloatsOf(op.bytes);
        stamp.clock_s = start + duration;
        stamp.floats = static_cast<double>(floats);
        stamp.first = floats > 0 ? sent_[0] : 0;
        stamp.last = floats > 0 ? sent_[floats - 1] : 0;
        MPI_Isend(&stamp, 4, MPI_DOUBLE, op.peers[i], static_cast<int>(2 * op.op + 1), comm_,
                  &requests_.emplace_back());
      }
      core_ = start + duration;
      break;
    case RankOpKind::kReceive: {
      const Stamp stamp = AwaitStamp(op);
      start = std::max(start, stamp.clock_s);
      duration = Timed([&] { Fetch(op, stamp); });
      // The core was free while the message was under way, for whatever is launched after this.
      if (start <= core_) start = core_;
      core_ += duration;
      break;
    }
    case RankOpKind::kDelay: {
      start = std::max(start, op.not_before_s);
      duration = op.modelled_s;
      // The wall's step shall be as long, too; a busy machine is late anyway.
      const double early = start + duration - (WallSeconds() - wall_begin_);
      if (early > 0) std::this_thread::sleep_for(std::chrono::duration<double>(early));
      break;
    }
  }
  times_[index] = {start, duration};
  queues_[op.queue] = start + duration;
}

void CpuBackend::Compute(const RankOp& op) {
  if (op.kernels == kNoWork) return;
  const std::vector<Kernel>& kernels = kernels_.at(op.kernels);
  for (std::uint32_t i = 0; i < op.repeats; ++i) {
    for (const Kernel& kernel : kernels) runner_.Run(kernel);
  }
}

// Returns the seconds of all its repetitions.
double CpuBackend::Collect(const RankOp& op, Group* group) {
  const int members = static_cast<int>(group->Size());
  const std::size_t floats = CollectiveFloats(op.collective, op.bytes, members);
  double seconds = 0;
  for (double i = 0; i < op.times; ++i) {
    float* data = data_.Take(floats);
    float* other = other_.Take(floats);
    // The first step looks at every result, the others at the few weights that are trained.
    const bool known = step_ == 0 && i == 0;
    if (known) {
      FillKnown(op.collective, group->comm, floats, data, other);
    } else {
      if (!(std::fabs(data[floats / 2]) < 1e6F)) std::fill_n(data, floats, 0.5F);
      BringGradient(op, group, floats, data);
    }
    MPI_Barrier(group->comm);
    seconds += TimeCollective(op.collective, group->comm, floats, data, other, nullptr);
    if (known) {
      ++sums_;
      if (!HoldsKnown(op.collective, group->comm, floats, data, other) && wrong_sum_.empty()) {
        wrong_sum_ = "rank " + std::to_string(rank_) + ": a wrong result of " +
                     CollectiveName(op.collective) + " of " + std::to_string(floats * 4) +
                     " bytes in " + mine_->groups[op.group].name;
      }
    } else {
      TakeResult(op, group, floats, data, other);
    }
  }
  return seconds;
}

void CpuBackend::BringGradient(const RankOp& op, Group* group, std::size_t floats,
                               float* data) const {
  const OpKind kind = KindOf(op);
  const std::size_t members = group->Size();
  const bool scatters = op.collective == CollectiveKind::kReduceScatter;
  if (kind == OpKind::kGradientReduce &&
      (scatters || op.collective == CollectiveKind::kAllReduce)) {
    const std::size_t share = scatters ? floats / members : floats;
    const std::size_t length = std::min(share, kWitness);
    for (std::size_t block = 0; block < floats / share; ++block) {
      for (std::size_t i = 0; i < length; ++i) {
        // Whole numbers: their sum is the same in any order.
        const auto stream = static_cast<std::uint64_t>(rank_) << 32U | op.op;
        const std::uint64_t bits =
            RandomBits(seed_, stream, static_cast<std::uint64_t>(step_) * kWitness + i);
        data[block * share + i] = static_cast<float>(bits % 17) - 8;
      }
    }
  } else if (kind == OpKind::kParameterGather && op.collective == CollectiveKind::kAllGather) {
    const std::size_t share = floats / members;
    const std::vector<float>& shard = group->replica.shard;
    std::copy_n(shard.begin(), std::min(share, shard.size()),
                data + share * static_cast<std::size_t>(group->rank));
  }
}

void CpuBackend::TakeResult(const RankOp& op, Group* group, std::size_t floats, const float* data,
                            const float* other) {
  const OpKind kind = KindOf(op);
  Replica& replica = group->replica;
  const auto add = [](std::vector<float>* to, const float* from, std::size_t length) {
    to->resize(std::max(to->size(), length), 0.0F);
    for (std::size_t i = 0; i < length; ++i) (*to)[i] += from[i];
  };
  if (kind == OpKind::kGradientReduce && op.collective == CollectiveKind::kAllReduce) {
    add(&replica.gradient, data, std::min(floats, kWitness));
  } else if (kind == OpKind::kGradientReduce && op.collective == CollectiveKind::kReduceScatter) {
    add(&replica.shard_gradient, other, std::min(floats / group->Size(), kWitness));
  } else if (kind == OpKind::kParameterGather && op.collective == CollectiveKind::kAllGather) {
    const std::size_t share = floats / group->Size();
    std::vector<float> all;
    for (std::size_t block = 0; block < group->Size(); ++block) {
      const float* from = data + block * share;
      all.insert(all.end(), from, from + std::min({share, kWitness, replica.shard.size()}));
    }
    if (!all.empty()) replica.gathered = HashBytes(all.data(), all.size() * sizeof(float)).low;
  }
}

void CpuBackend::Optimise() {
  ++optimised_;
  const auto step = [](std::vector<float>* weights, std::vector<float>* gradient) {
    weights->resize(std::max(weights->size(), gradient->size()), 1.0F);
    for (std::size_t i = 0; i < gradient->size(); ++i) (*weights)[i] -= (*gradient)[i] / 1024;
    std::fill(gradient->begin(), gradient->end(), 0.0F);
  };
  for (Group& group : groups_) {
    step(&group.replica.weights, &group.replica.gradient);
    step(&group.replica.shard, &group.replica.shard_gradient);
  }
}

void CpuBackend::Send(const RankOp& op) {
  const std::size_t floats = FloatsOf(op.bytes);
  if (floats == 0) return;
  for (const int peer : op.peers) {
    MPI_Isend(sent_.data(), static_cast<int>(floats), MPI_FLOAT, peer, static_cast<int>(2 * op.op),
              comm_, &requests_.emplace_back());
  }
}

Stamp CpuBackend::AwaitStamp(const RankOp& op) const {
  Stamp stamp;
  MPI_Recv(&stamp, 4, MPI_DOUBLE, op.peers[0], static_cast<int>(2 * op.op + 1), comm_,
           MPI_STATUS_IGNORE);
  return stamp;
}

void CpuBackend::Fetch(const RankOp& op, const Stamp& stamp) {
  const auto floats = static_cast<std::size_t>(stamp.floats);
  ++messages_;
  if (floats != FloatsOf(op.bytes) && wrong_message_.empty()) {
    wrong_message_ = "rank " + std::to_string(rank_) + " was sent " + std::to_string(4 * floats) +
                     " bytes by rank " + std::to_string(op.peers[0]) + " and expected " +
                     std::to_string(4 * FloatsOf(op.bytes));
  }
  if (floats == 0) return;
  if (floats > sent_.size()) {
    ThrowInput(933, wrong_message_, "a defect of Aurum: please report it with this scenario",
               ExitCode::kInternal);
  }
  float* to = other_.Take(floats);
  MPI_Recv(to, static_cast<int>(floats), MPI_FLOAT, op.peers[0], static_cast<int>(2 * op.op), comm_,
           MPI_STATUS_IGNORE);
  if ((to[0] != stamp.first || to[floats - 1] != stamp.last) && wrong_message_.empty()) {
    wrong_message_ = "rank " + std::to_string(rank_) + ": a message of rank " +
                     std::to_string(op.peers[0]) + " arrived changed";
  }
}

RankBackend::StepTime CpuBackend::EndStep() {
  StepTime time;
  time.wall_s = WallSeconds() - wall_begin_;
  for (const double clock : queues_) time.seconds = std::max(time.seconds, clock);
  time.disturbed = Disturbed(switches_, worked_s_);
  return time;
}

std::vector<RunCheck> CpuBackend::Check() {
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
  std::vector<RunCheck> checks;
  if (sums_ > 0) {
    checks.push_back({"sums", wrong_sum_.empty(),
                      wrong_sum_.empty()
                          ? "every collective of the first step gave what its members "
                            "brought"
                          : wrong_sum_});
  }
  if (messages_ > 0) {
    checks.push_back({"messages", wrong_message_.empty(),
                      wrong_message_.empty() ? "every message arrived whole" : wrong_message_});
  }
  int compared = 0;
  std::string differs;
  for (const Group& group : groups_) {
    if (group.Size() < 2) continue;
    const Replica& r = group.replica;
    const std::uint64_t own =
        HashBytes(r.weights.data(), r.weights.size() * sizeof(float)).low ^ r.gathered;
    std::array<std::uint64_t, 2> ends = {own, ~own};
    MPI_Allreduce(MPI_IN_PLACE, ends.data(), 2, MPI_UINT64_T, MPI_MAX, group.comm);
    if (r.weights.empty() && r.gathered == 0) continue;
    ++compared;
    if (ends[0] != ~ends[1] && differs.empty()) {
      differs = "rank " + std::to_string(rank_) + " and another of its group of " +
                std::to_string(group.Size()) + " hold different weights after the optimizer";
    }
  }
  if (compared > 0) {
    checks.push_back({"replicas", differs.empty(),
                      differs.empty()
                          ? "all members of every group that reduces gradients hold the "
                            "same weights after the last step"
                          : differs});
  }
  const CoreFacts core = ThisCore();
  const double share = core.memory_bytes / std::max(core.cores, size_);
  if (mine_->predicted_peak_bytes > 0) {
    char text[240];
    std::snprintf(
        text, sizeof text,
        "rank %d's state and activations would be %.2f GiB of the %.2f GiB that a core of "
        "this machine has; the synthetic operands in their place were %.2f GiB at most",
        mine_->rank, mine_->predicted_peak_bytes / kGiB, share / kGiB, PeakResidentBytes() / kGiB);
    checks.push_back({"memory", mine_->predicted_peak_bytes <= share, text});
  }
  return checks;
}

RankFacts CpuBackend::Facts() {
  RankFacts facts;
  facts.rank = mine_->rank;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  facts.host = host.data();
  const CoreFacts core = ThisCore();
  facts.device = "one core of " + (core.model.empty() ? "an unnamed processor" : core.model);
  facts.peak_memory_bytes = PeakResidentBytes();
  return facts;
}

}  // namespace

std::unique_ptr<RankBackend> MakeCpuBackend(MPI_Comm comm, std::uint64_t seed) {
  return std::make_unique<CpuBackend>(comm, seed);
}

}  // namespace aurum
