#include "real/cuda/cuda_backend.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "calibrate/cuda/api.h"
#include "calibrate/cuda/nccl_group.h"
#include "calibrate/cuda/primitives.h"
#include "real/cuda/communicators.h"
#include "sim/core/diagnostic.h"

// A step on a GPU
// ---------------
// The host only enqueues; the device keeps the time. A step begins with a wait of a few
// milliseconds on the device (behind a barrier of all ranks), in which the host gets ahead of it,
// then the main stream notes the device's time and an event, which all other streams wait for. It
// ends with an event that waits for the last of every stream. Between both events lies what a step
// takes, without host and without instruments; a step that is timed op by op has two events around
// every op besides. The host never waits for the device within a step.
//
// Whatever is waited for is asked every fifty microseconds, with a limit, together with whether NCCL
// reports an error or the supervisor wants to stop: nothing here can hang for good.
namespace aurum {
namespace {

using cuda::Api;
using cuda::Memory;
using cuda::MemoryPlace;

constexpr double kHeadStart = 3e-3;
constexpr double kMeetTimeout = 120;
constexpr double kStepTimeout = 120;
// Pinned memory that transfers to and from the host go through, in parts.
constexpr std::size_t kPinned = std::size_t{256} << 20;
constexpr std::size_t kCheckBytes = std::size_t{1} << 20;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Text(const char* format, double a, double b = 0, double c = 0) {
  char text[200];
  std::snprintf(text, sizeof text, format, a, b, c);
  return text;
}

double OptionNumber(const Json& options, const char* key, double otherwise) {
  const Json* value = options.Find(key);
  return value != nullptr && value->IsNumber() ? value->AsNumber() : otherwise;
}

class CudaBackend : public RankBackend {
 public:
  CudaBackend(const Job& job, const Rendezvous& rendezvous, std::unique_ptr<Api> api)
      : job_(job), rendezvous_(rendezvous), api_(std::move(api)) {}

  ~CudaBackend() override {
    // Nothing is given back under a running step, and nothing at all where it hangs.
    if (api_->abandoned()) communicators_.Abort(api_.get());
    // Members go in reverse: communicators, events, streams, memory.
  }

  void Watch(Progress* progress) override { progress_ = progress; }

  void Prepare(const Program& program, const RankProgram& mine) override {
    program_ = &program;
    mine_ = &mine;
    int devices = 0;
    Must(api_->DeviceCount(&devices), "counting GPUs");
    const bool lone = job_.lone_rank >= 0;
    device_ = lone ? static_cast<int>(OptionNumber(job_.options, "device", 0)) : mine.rank;
    if (device_ < 0 || device_ >= devices) {
      ThrowInput(940,
                 "rank " + std::to_string(mine.rank) + " wants GPU " + std::to_string(device_) +
                     ", and there are " + std::to_string(devices),
                 "--rank 0 executes one rank alone, the others modelled", ExitCode::kNoHardware);
    }
    cuda::CardState card;
    if (lone && OptionNumber(job_.options, "force", 0) == 0 &&
        api_->CardFacts(device_, &card).ok() && !card.processes.empty()) {
      ThrowInput(942,
                 "GPU " + std::to_string(device_) + " is in use by process " +
                     std::to_string(card.processes.front()),
                 "wait for it, choose GPUs with CUDA_VISIBLE_DEVICES, or --force",
                 ExitCode::kNoHardware);
    }
    Must(api_->SetDevice(device_), "taking a GPU");
    Must(api_->MemoryInfo(&free_at_start_, &total_), "the GPU's memory");
    primitives_ = std::make_unique<cuda::Primitives>(api_.get(), device_, job_.seed);

    double message = 0, copied = 0;
    bool others = false;
    for (const RankOp& op : mine.ops) {
      switch (op.kind) {
        case RankOpKind::kCompute:
          PrepareKernels(op);
          break;
        case RankOpKind::kCollective:
          message = std::max(message, op.bytes + 4096);
          others = true;
          break;
        case RankOpKind::kSend:
        case RankOpKind::kReceive:
          message = std::max(message, op.bytes);
          others = true;
          break;
        case RankOpKind::kHostTransfer:
          copied = std::max(copied, op.bytes);
          break;
        case RankOpKind::kDelay:
          break;
      }
    }
    if (message > 0) primitives_->ReserveMessages(2 * message + 4096);
    if (message > 0) {
      received_ = Memory(api_.get(), MemoryPlace::kDevice, static_cast<std::size_t>(message) + 4096,
                         "received messages");
    }
    if (copied > 0) {
      const auto bytes = std::min(kPinned, static_cast<std::size_t>(copied) + 1);
      pinned_ = Memory(api_.get(), MemoryPlace::kHost, bytes, "transfers to the host");
      on_device_ = Memory(api_.get(), MemoryPlace::kDevice, bytes, "transfers to the host");
    }
    step_time_ = Memory(api_.get(), MemoryPlace::kDevice, sizeof(std::uint64_t), "a clock");
    barrier_ = Memory(api_.get(), MemoryPlace::kDevice, sizeof(float), "a barrier");
    main_ = cuda::NewStream(api_.get());
    begin_ = cuda::NewEvent(api_.get(), true);
    end_ = cuda::NewEvent(api_.get(), true);
    for (std::size_t q = 0; q < mine.queues.size(); ++q) {
      streams_.push_back(cuda::NewStream(api_.get()));
      queue_done_.push_back(cuda::NewEvent(api_.get(), false));
    }
    // An op that another queue waits for gets an event.
    done_.resize(mine.ops.size());
    for (const RankOp& op : mine.ops) {
      for (const std::uint32_t before : op.waits) {
        if (done_[before].get() == nullptr) done_[before] = cuda::NewEvent(api_.get(), false);
      }
    }
    if (others) {
      communicators_.Make(api_.get(), mine, rendezvous_, kMeetTimeout,
                          [this] { return Stopped(); });
      groups_ = true;
    }
    if (api_->CardFacts(device_, &card).ok()) clock_before_ = card.sm_clock_mhz;
    NoteMemory();
  }

  void BeginStep(std::int64_t step, bool per_op) override {
    step_ = step;
    per_op_ = per_op;
    if (per_op && op_begin_.empty()) {
      for (std::size_t i = 0; i < mine_->ops.size(); ++i) {
        op_begin_.push_back(cuda::NewEvent(api_.get(), true));
        op_end_.push_back(cuda::NewEvent(api_.get(), true));
      }
    }
    if (groups_) {
      const cuda::Result met = api_->AllReduce(barrier_.get(), 1, cuda::Element::kFp32,
                                               communicators_.world(), main_.get());
      if (met.code != cuda::kInProgress) Must(met, "a barrier");
      Settled(communicators_.world(), "a barrier");
    }
    host_begin_ = Now();
    Must(api_->Delay(nullptr, 0, kHeadStart, main_.get()), "the begin of a step");
    Must(api_->StampTime(step_time_.get(), main_.get()), "the begin of a step");
    Must(api_->EventRecord(begin_.get(), main_.get()), "the begin of a step");
    for (const cuda::OwnedStream& stream : streams_) {
      Must(api_->StreamWait(stream.get(), begin_.get()), "the begin of a step");
    }
  }

  void Launch(std::size_t index) override {
    const RankOp& op = mine_->ops[index];
    const cuda::Stream stream = streams_[op.queue].get();
    for (const std::uint32_t before : op.waits) {
      Must(api_->StreamWait(stream, done_[before].get()), "waiting for an op");
    }
    if (per_op_) Must(api_->EventRecord(op_begin_[index].get(), stream), "timing an op");
    switch (op.kind) {
      case RankOpKind::kCompute:
        if (op.kernels == kNoWork) break;
        for (std::uint32_t r = 0; r < op.repeats; ++r) {
          for (const Kernel& kernel : program_->kernels[op.kernels]) {
            primitives_->Enqueue(RoundedUp(kernel), stream);
          }
        }
        break;
      case RankOpKind::kCollective:
        Collective(op, stream);
        break;
      case RankOpKind::kSend:
      case RankOpKind::kReceive:
        Message(op, stream);
        break;
      case RankOpKind::kHostTransfer:
        HostTransfer(op, stream);
        break;
      case RankOpKind::kDelay:
        Must(api_->Delay(step_time_.get(), op.not_before_s, op.modelled_s, stream), "a delay");
        break;
    }
    if (per_op_) Must(api_->EventRecord(op_end_[index].get(), stream), "timing an op");
    if (done_[index].get() != nullptr) {
      Must(api_->EventRecord(done_[index].get(), stream), "the end of an op");
    }
  }

  StepTime EndStep() override {
    for (std::size_t q = 0; q < streams_.size(); ++q) {
      Must(api_->EventRecord(queue_done_[q].get(), streams_[q].get()), "the end of a step");
      Must(api_->StreamWait(main_.get(), queue_done_[q].get()), "the end of a step");
    }
    Must(api_->EventRecord(end_.get(), main_.get()), "the end of a step");
    const double host_s = Now() - host_begin_;
    StepTime time;
    cuda::CardState card;
    if (api_->CardFacts(device_, &card).ok()) {
      time.disturbed = (card.throttle_reasons & cuda::kDisturbing) != 0;
      clock_after_ = card.sm_clock_mhz;
      if (step_ == 0) clock_before_ = card.sm_clock_mhz;
    }
    failure_ = {};
    try {
      WaitFor(
          api_.get(), end_.get(), kStepTimeout,
          "step " + std::to_string(step_) + " of rank " + std::to_string(mine_->rank),
          [](void* self) { return static_cast<CudaBackend*>(self)->GiveUp(); }, this);
    } catch (const InputError&) {
      if (groups_) communicators_.Abort(api_.get());
      if (!failure_.ok()) cuda::Check(api_.get(), failure_, Where("a step"));
      throw;
    }
    Must(api_->EventSeconds(begin_.get(), end_.get(), &time.seconds), "timing a step");
    time.wall_s = Now() - host_begin_;
    ++steps_seen_;
    throttled_ += time.disturbed ? 1 : 0;
    if (!per_op_ && step_ >= job_.steps.warm_up) {
      steps_s_.push_back(time.seconds);
      host_shares_.push_back(host_s / (time.seconds + kHeadStart));
    }
    NoteMemory();
    return time;
  }

  std::vector<OpTime> OpTimes() override {
    std::vector<OpTime> times(mine_->ops.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      Must(api_->EventSeconds(begin_.get(), op_begin_[i].get(), &times[i].start_s), "op times");
      Must(api_->EventSeconds(op_begin_[i].get(), op_end_[i].get(), &times[i].duration_s),
           "op times");
    }
    return times;
  }

  std::vector<RunCheck> Check() override {
    std::vector<RunCheck> checks;
    if (groups_) CheckCollectives(&checks);
    CheckMemory(&checks);
    if (clock_before_ > 0 && clock_after_ > 0) {
      checks.push_back({"clocks", std::abs(clock_after_ / clock_before_ - 1) < 0.1,
                        Text("SM clock %.0f MHz in the first step, %.0f MHz in the last",
                             clock_before_, clock_after_)});
    }
    if (steps_s_.size() > 1) {
      double mean = 0, squares = 0;
      for (const double s : steps_s_) mean += s / static_cast<double>(steps_s_.size());
      for (const double s : steps_s_) squares += (s - mean) * (s - mean);
      const double cv = std::sqrt(squares / static_cast<double>(steps_s_.size() - 1)) / mean;
      checks.push_back({"variation", cv < 0.05, Text("steps vary by %.2f %%", 100 * cv)});
      double share = 0;
      for (const double s : host_shares_) share = std::max(share, s);
      checks.push_back(
          {"host", share < 0.95,
           Text("launching a step took the host %.0f %% of the time that it ran", 100 * share)});
    }
    return checks;
  }

  RankFacts Facts() override {
    RankFacts facts;
    facts.rank = mine_->rank;
    char host[256] = {};
    if (gethostname(host, sizeof host - 1) == 0) facts.host = host;
    facts.device = primitives_->properties().name;
    facts.peak_memory_bytes = peak_bytes_;
    facts.clock_before_mhz = clock_before_;
    facts.clock_after_mhz = clock_after_;
    facts.throttled_share =
        steps_seen_ == 0 ? 0 : static_cast<double>(throttled_) / static_cast<double>(steps_seen_);
    return facts;
  }

 private:
  std::string Where(const std::string& doing) const {
    return "rank " + std::to_string(mine_ == nullptr ? 0 : mine_->rank) + ", " + doing;
  }
  void Must(const cuda::Result& result, const char* doing) {
    if (!result.ok()) cuda::Check(api_.get(), result, Where(doing));
  }
  bool Stopped() const { return progress_ != nullptr && progress_->Stopped(); }
  // Asked while waiting: the supervisor's wish, and whether a communicator has failed.
  bool GiveUp() {
    if (Stopped()) return true;
    if (!groups_) return false;
    failure_ = communicators_.State(api_.get());
    return !failure_.ok();
  }
  void Settled(cuda::Comm comm, const char* doing) {
    cuda::Settle(api_.get(), comm, Where(doing), kStepTimeout, [this] { return Stopped(); });
  }

  void PrepareKernels(const RankOp& op) {
    if (op.kernels == kNoWork) return;
    for (const Kernel& kernel : program_->kernels[op.kernels]) {
      if (Stopped()) {
        ThrowInput(948, Where("given up while preparing, because another rank has stopped"),
                   "the first error of the other ranks tells why");
      }
      const Kernel whole = RoundedUp(kernel);
      if (!primitives_->Prepare(whole)) {
        ThrowInput(
            945,
            Where("no kernel on " + primitives_->properties().name + " for " + Describe(whole)),
            "another precision in the scenario");
      }
    }
  }

  void Collective(const RankOp& op, cuda::Stream stream) {
    const std::vector<int>& ranks = mine_->groups[op.group].ranks;
    const cuda::Comm comm = communicators_.At({ranks, -1});
    const auto place =
        static_cast<int>(std::find(ranks.begin(), ranks.end(), mine_->rank) - ranks.begin());
    const auto times = std::max<std::int64_t>(1, std::llround(op.times));
    for (std::int64_t t = 0; t < times; ++t) {
      Must(EnqueueCollective(api_.get(), op.collective, place, static_cast<int>(ranks.size()),
                             op.bytes, cuda::Element::kBf16, primitives_->Message(op.bytes + 2048),
                             received_.get(), comm, stream),
           "a collective");
      Settled(comm, "a collective");
    }
  }

  void Message(const RankOp& op, cuda::Stream stream) {
    const int lane = static_cast<int>(mine_->queues[op.queue].lane);
    // A dependency that moves nothing still is a message.
    const auto bytes = static_cast<std::size_t>(std::max(4.0, std::ceil(op.bytes)));
    const auto begun = [&](const cuda::Result& result, const char* doing) {
      if (result.code != cuda::kInProgress) Must(result, doing);
    };
    if (op.kind == RankOpKind::kReceive) {
      const cuda::Comm comm = communicators_.At({{op.peers[0], mine_->rank}, lane});
      begun(api_->Receive(received_.get(), bytes, 0, comm, stream), "a receive");
      Settled(comm, "a receive");
      return;
    }
    begun(api_->GroupStart(), "a send");
    cuda::Result sent;
    for (const int peer : op.peers) {
      if (!sent.ok()) break;
      sent = api_->Send(primitives_->Message(op.bytes), bytes, 1,
                        communicators_.At({{mine_->rank, peer}, lane}), stream);
      if (sent.code == cuda::kInProgress) sent = {};
    }
    const cuda::Result ended = api_->GroupEnd();
    Must(sent, "a send");
    begun(ended, "a send");
    for (const int peer : op.peers) {
      Settled(communicators_.At({{mine_->rank, peer}, lane}), "a send");
    }
  }

  void HostTransfer(const RankOp& op, cuda::Stream stream) {
    const bool in = mine_->queues[op.queue].lane == Lane::kHostIn;
    auto left = static_cast<std::size_t>(std::ceil(std::max(op.bytes, 0.0)));
    while (left > 0) {
      const std::size_t part = std::min(left, pinned_.size());
      Must(in ? api_->Copy(cuda::CopyDirection::kToDevice, on_device_.get(), pinned_.get(), part,
                           stream)
              : api_->Copy(cuda::CopyDirection::kToHost, pinned_.get(), on_device_.get(), part,
                           stream),
           "a transfer to or from the host");
      left -= part;
    }
  }

  void NoteMemory() {
    std::size_t free_bytes = 0, total = 0;
    Must(api_->MemoryInfo(&free_bytes, &total), "the GPU's memory");
    if (free_at_start_ > free_bytes) {
      peak_bytes_ = std::max(peak_bytes_, static_cast<double>(free_at_start_ - free_bytes));
    }
  }

  // The executor's buffers are rings, not a model's state; so what is checked is that the plan's
  // peak can be had on this card, by taking what is missing to it.
  void CheckMemory(std::vector<RunCheck>* checks) {
    const double predicted = mine_->predicted_peak_bytes;
    if (predicted <= 0) return;
    RunCheck check{"memory", true,
                   Text("the plan's predicted peak of %.2f GiB fits; the executor itself held "
                        "%.2f GiB",
                        predicted / 1073741824.0, peak_bytes_ / 1073741824.0)};
    if (predicted > peak_bytes_) {
      try {
        const Memory rest(api_.get(), MemoryPlace::kDevice,
                          static_cast<std::size_t>(predicted - peak_bytes_), "the plan's peak");
      } catch (const InputError& error) {
        if (error.diagnostic().code != 944) throw;
        check.passed = false;
        check.detail = error.diagnostic().message;
      }
    }
    checks->push_back(std::move(check));
  }

  void Wait(const char* doing) {
    Must(api_->EventRecord(end_.get(), main_.get()), doing);
    WaitFor(
        api_.get(), end_.get(), kStepTimeout, Where(doing),
        [](void* self) { return static_cast<CudaBackend*>(self)->GiveUp(); }, this);
  }

  // Every group sums what its members bring, and all of them get the same bits.
  void CheckCollectives(std::vector<RunCheck>* checks) {
    RunCheck sums{"sums", true, ""}, replicas{"replicas", true, ""};
    int groups = 0;
    for (const CommunicatorKey& key : CommunicatorsOf(*mine_)) {
      if (key.lane >= 0) continue;
      ++groups;
      const auto n = static_cast<int>(key.ranks.size());
      const auto place = static_cast<int>(
          std::find(key.ranks.begin(), key.ranks.end(), mine_->rank) - key.ranks.begin());
      const cuda::Comm comm = communicators_.At(key);
      Memory data(api_.get(), MemoryPlace::kDevice, kCheckBytes, "a check of sums");
      std::vector<float> values(1024, static_cast<float>(place + 1));
      const std::size_t bytes = values.size() * sizeof(float);
      Must(
          api_->Copy(cuda::CopyDirection::kToDevice, data.get(), values.data(), bytes, main_.get()),
          "a check of sums");
      Reduce(data.get(), values.size(), cuda::Element::kFp32, comm);
      Must(api_->Copy(cuda::CopyDirection::kToHost, values.data(), data.get(), bytes, main_.get()),
           "a check of sums");
      Wait("a check of sums");
      const auto expected = static_cast<float>(n * (n + 1) / 2);
      for (const float value : values) {
        if (value == expected) continue;
        sums.passed = false;
        sums.detail = Text("a sum of %.0f ranks is %.6g instead of %.6g", n, value, expected);
      }

      Must(api_->FillNormal(data.get(), kCheckBytes / 2, cuda::Numbers::kBf16,
                            job_.seed + static_cast<std::uint64_t>(place), main_.get()),
           "a check of replicas");
      Reduce(data.get(), kCheckBytes / 2, cuda::Element::kBf16, comm);
      std::vector<std::uint64_t> hashes(static_cast<std::size_t>(n), 0);
      Memory hash(api_.get(), MemoryPlace::kDevice, sizeof(std::uint64_t), "hashes");
      Memory all(api_.get(), MemoryPlace::kDevice, hashes.size() * sizeof(std::uint64_t), "hashes");
      Must(api_->Copy(cuda::CopyDirection::kToDevice, hash.get(), hashes.data(), hash.size(),
                      main_.get()),
           "a check of replicas");
      Must(
          api_->Hash(data.get(), kCheckBytes, static_cast<std::uint64_t*>(hash.get()), main_.get()),
          "a check of replicas");
      const cuda::Result gathered = api_->AllGather(hash.get(), all.get(), hash.size(),
                                                    cuda::Element::kByte, comm, main_.get());
      if (gathered.code != cuda::kInProgress) Must(gathered, "a check of replicas");
      Settled(comm, "a check of replicas");
      Must(api_->Copy(cuda::CopyDirection::kToHost, hashes.data(), all.get(), all.size(),
                      main_.get()),
           "a check of replicas");
      Wait("a check of replicas");
      for (const std::uint64_t h : hashes) {
        if (h == hashes.front()) continue;
        replicas.passed = false;
        replicas.detail = "after a sum, members of one group hold different bits";
      }
    }
    if (groups == 0) return;
    if (sums.passed) sums.detail = Text("right in all %.0f groups of this rank", groups);
    if (replicas.passed) replicas.detail = "the same bits on all members after a sum";
    checks->push_back(std::move(sums));
    checks->push_back(std::move(replicas));
  }

  void Reduce(void* data, std::size_t count, cuda::Element element, cuda::Comm comm) {
    const cuda::Result result = api_->AllReduce(data, count, element, comm, main_.get());
    if (result.code != cuda::kInProgress) Must(result, "a sum");
    Settled(comm, "a sum");
  }

  const Job job_;
  const Rendezvous rendezvous_;
  std::unique_ptr<Api> api_;  // first made, last ended
  Progress* progress_ = nullptr;
  const Program* program_ = nullptr;
  const RankProgram* mine_ = nullptr;
  int device_ = 0;
  bool groups_ = false, per_op_ = false;
  std::int64_t step_ = 0, steps_seen_ = 0, throttled_ = 0;
  std::size_t free_at_start_ = 0, total_ = 0;
  double peak_bytes_ = 0, clock_before_ = 0, clock_after_ = 0, host_begin_ = 0;
  std::vector<double> steps_s_, host_shares_;
  cuda::Result failure_;
  std::unique_ptr<cuda::Primitives> primitives_;
  Memory received_, pinned_, on_device_, step_time_, barrier_;
  cuda::OwnedStream main_;
  std::vector<cuda::OwnedStream> streams_;
  cuda::OwnedEvent begin_, end_;
  std::vector<cuda::OwnedEvent> queue_done_, done_, op_begin_, op_end_;
  Communicators communicators_;
};

}  // namespace

std::unique_ptr<RankBackend> MakeCudaBackend(const Job& job, const Rendezvous& rendezvous,
                                             std::unique_ptr<cuda::Api> api) {
  return std::make_unique<CudaBackend>(job, rendezvous, std::move(api));
}

std::unique_ptr<RankBackend> MakeCudaBackend(const Job& job, const Rendezvous& rendezvous) {
#ifdef AURUM_CUDA_BACKEND
  // Streams share eight queues to the device otherwise, and wait for each other where the program
  // does not. Read when the device is first used.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  std::string libraries;
  const Json* told = job.options.Find("libraries");
  if (told != nullptr && told->IsString()) libraries = told->AsString();
  return MakeCudaBackend(job, rendezvous, cuda::MakeRealApi(libraries));
#else
  static_cast<void>(job);
  static_cast<void>(rendezvous);
  ThrowInput(940, "this program was built without CUDA",
             "build where nvcc is found, or execute with --backend cpu", ExitCode::kNoHardware);
#endif
}

}  // namespace aurum
