#include "calibrate/cuda/cuda_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "calibrate/cuda/api.h"
#include "calibrate/cuda/nccl_group.h"
#include "calibrate/cuda/primitives.h"
#include "sim/core/diagnostic.h"

// How a time is taken
// -------------------
// Two events around a batch of calls in one stream, so many that the batch takes a millisecond and a
// half: an event's clock ticks in half microseconds. Before the first event stands a kernel that
// waits until the host has put the whole batch behind it; without it, calls shorter than their
// launch would measure the host. What comes out is the period of the call in a full stream: the
// kernel and the gap to the next, which is what a call costs inside of a step.
namespace aurum {
namespace {

using cuda::Api;
using cuda::Check;
using cuda::Memory;
using cuda::MemoryPlace;
using cuda::OwnedEvent;
using cuda::OwnedStream;
using cuda::Result;
using cuda::Stream;

constexpr double kBatchSeconds = 1.5e-3;
constexpr int kMostCalls = 50;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A failure of one question that leaves the device sound: the next may be asked.
bool OfThisCallOnly(const InputError& error) {
  return error.diagnostic().code == 944 || error.diagnostic().code == 945;
}

class CudaBench : public Bench {
 public:
  CudaBench(const CudaBenchOptions& options, std::unique_ptr<Api> api)
      : options_(options), api_(std::move(api)) {
    Check(api_.get(), api_->DeviceCount(&devices_), "counting GPUs");
    if (options.device < 0 || options.device >= devices_) {
      ThrowInput(940,
                 "there is no GPU " + std::to_string(options.device) + ": " +
                     std::to_string(devices_) + " here",
                 devices_ == 0 ? "run on a machine with a GPU" : "a smaller number",
                 ExitCode::kNoHardware);
    }
    // Before anything of ours is on the card: inside of a container the numbers of processes are
    // not those that the driver tells, so that ours could not be told from others.
    for (int d = 0; d < devices_; ++d) RefuseOthers(d);
    Machine(options.device);
    const std::string no_blas = api_->Missing(cuda::Library::kCublas);
    if (!no_blas.empty()) {
      Check(api_.get(), {cuda::kMissing, cuda::Library::kCublas, ""}, "products");
    }
    nccl_ = api_->Missing(cuda::Library::kNccl).empty();
  }

  ~CudaBench() override {
    if (!api_->abandoned()) return;
    // What hangs in a collective ends when its communicator does.
    for (auto& [gpus, comms] : comms_) {
      for (cuda::OwnedComm& comm : comms) {
        if (void* handle = comm.release(); handle != nullptr) api_->CommAbort(handle);
      }
    }
  }

  BenchDevice Describe() override {
    const cuda::DeviceProperties& p = One().primitives->properties();
    BenchDevice out;
    out.backend = "cuda";
    out.facts.name = p.name;
    out.facts.memory_bytes = p.memory_bytes;
    out.facts.memory_bandwidth_bytes_per_s = p.memory_bandwidth_bytes_per_s;
    out.facts.sm_count = p.sm_count;
    out.facts.compute_capability = p.major + 0.1 * p.minor;
    out.facts.source = "the CUDA driver";
    out.dtypes = {DType::kBf16, DType::kFp16, DType::kFp32};
    if (p.major * 10 + p.minor >= 89) out.dtypes.insert(out.dtypes.begin() + 2, DType::kFp8);
    out.devices = nccl_ ? devices_ : 1;
    out.versions = api_->Versions();
    for (auto& method : One().primitives->Methods()) out.versions.push_back(std::move(method));
    if (!nccl_ && devices_ > 1) {
      out.versions.emplace_back("NCCL", api_->Missing(cuda::Library::kNccl));
    }
    cuda::CardState state;
    if (api_->CardFacts(options_.device, &state).ok()) out.power_limit_w = state.power_limit_w;
    return out;
  }

  Samples Time(const Kernel& kernel, int samples) override {
    return Guarded([&]() -> Samples {
      PerDevice& one = One();
      if (kernel.kind == KernelKind::kHost || !one.primitives->Prepare(kernel)) return {};
      return TimeCalls([&] { one.primitives->Enqueue(kernel, one.stream.get()); }, samples);
    });
  }

  Samples LaunchGap(bool graph, int samples) override {
    PerDevice& one = One();
    const Stream stream = one.stream.get();
    if (!graph) {
      return TimeCalls([&] { Must(api_->Empty(stream), "an empty kernel"); }, samples);
    }
    constexpr int kNodes = 64;
    Must(api_->CaptureBegin(stream), "capturing a graph");
    Result launched;
    for (int i = 0; i < kNodes && launched.ok(); ++i) launched = api_->Empty(stream);
    cuda::GraphRun made = nullptr;
    const Result ended = api_->CaptureEnd(stream, &made);
    const cuda::OwnedGraph owned(api_.get(), made);
    Must(launched, "an empty kernel");
    Must(ended, "capturing a graph");
    Samples out =
        TimeCalls([&] { Must(api_->GraphLaunch(made, stream), "launching a graph"); }, samples);
    for (double& seconds : out.seconds) seconds /= kNodes;
    return out;
  }

  Samples Copy(CopyKind kind, double bytes, int samples) override {
    return Guarded([&]() -> Samples {
      PerDevice& one = One();
      const auto size = static_cast<std::size_t>(std::max(1.0, std::ceil(bytes)));
      const Stream stream = one.stream.get();
      const bool host = kind == CopyKind::kHostToDevice || kind == CopyKind::kDeviceToHost;
      int peer = -1;
      if (kind == CopyKind::kPeer) {
        for (int d = 0; d < devices_ && peer < 0; ++d) {
          bool can = false;
          if (d == options_.device) continue;
          if (api_->CanAccessPeer(options_.device, d, &can).ok() && can) peer = d;
        }
        if (peer < 0) return {};
        Select(options_.device);
        Must(api_->EnablePeer(peer), "access to a peer");
        Select(peer);
      }
      // Twice the size, used in turn; small copies within a buffer larger than the L2.
      const double l2 = one.primitives->properties().l2_bytes;
      const std::size_t turns = std::clamp<std::size_t>(
          static_cast<std::size_t>(2 * l2 / static_cast<double>(size)), 2, 4096);
      const std::size_t step = (size + 511) / 512 * 512;
      Memory to;
      if (peer >= 0) to = Memory(api_.get(), MemoryPlace::kDevice, step * turns, "a copy");
      Select(options_.device);
      Memory from(api_.get(), MemoryPlace::kDevice, step * turns, "a copy");
      if (kind == CopyKind::kDevice) {
        to = Memory(api_.get(), MemoryPlace::kDevice, step * turns, "a copy");
      }
      Memory pinned;
      if (host) pinned = Memory(api_.get(), MemoryPlace::kHost, step * turns, "a copy");
      std::size_t turn = 0;
      return TimeCalls(
          [&] {
            const std::size_t at = turn++ % turns * step;
            switch (kind) {
              case CopyKind::kHostToDevice:
                Must(api_->Copy(cuda::CopyDirection::kToDevice, from.bytes() + at,
                                pinned.bytes() + at, size, stream),
                     "a copy to the device");
                return;
              case CopyKind::kDeviceToHost:
                Must(api_->Copy(cuda::CopyDirection::kToHost, pinned.bytes() + at,
                                from.bytes() + at, size, stream),
                     "a copy to the host");
                return;
              case CopyKind::kDevice:
                Must(api_->Copy(cuda::CopyDirection::kOnDevice, to.bytes() + at, from.bytes() + at,
                                size, stream),
                     "a copy on the device");
                return;
              case CopyKind::kPeer:
                Must(api_->CopyPeer(to.bytes() + at, peer, from.bytes() + at, options_.device, size,
                                    stream),
                     "a copy to a peer");
                return;
            }
          },
          samples);
    });
  }

  Samples Collective(CollectiveKind kind, int gpus, double bytes, DType dtype,
                     int samples) override {
    return Guarded([&]() -> Samples {
      cuda::Element element{};
      if (!nccl_ || gpus < 2 || gpus > devices_ || !ElementOf(dtype, &element)) return {};
      std::vector<Member> members = Group(gpus, kind, bytes, element);
      const auto call = [&] { EnqueueOnAll(kind, bytes, element, &members); };
      Samples out = TimeCalls(call, samples, &members);
      Select(options_.device);
      return out;
    });
  }

  Samples Beside(const Kernel& kernel, CollectiveKind kind, double bytes, int samples) override {
    return Guarded([&]() -> Samples {
      if (!nccl_ || devices_ < 2) return {};
      std::vector<Member> members = Group(devices_, kind, bytes, cuda::Element::kBf16);
      for (int d = 0; d < devices_; ++d) {
        Select(d);
        if (!Machine(d).primitives->Prepare(kernel)) return {};
      }
      const auto collective = [&] { EnqueueOnAll(kind, bytes, cuda::Element::kBf16, &members); };
      const auto kernels = [&] {
        for (int d = 0; d < devices_; ++d) {
          Select(d);
          Machine(d).primitives->Enqueue(kernel, Machine(d).stream.get());
        }
      };
      // How long each takes alone says how many collectives cover the batch of kernels.
      const Samples alone = TimeCalls(collective, 1, &members);
      Select(options_.device);
      const Samples single = TimeCalls(kernels, 1);
      if (alone.seconds.empty() || single.seconds.empty()) return {};
      const int calls = Calls(single.seconds.front());
      const int covering = std::min(
          400, 2 + static_cast<int>(1.5 * calls * single.seconds.front() / alone.seconds.front()));
      Samples out;
      for (int i = 0; i < samples; ++i) {
        for (int c = 0; c < covering; ++c) collective();
        Select(options_.device);
        Must(api_->EventRecord(begin_.get(), One().stream.get()), "timing");
        for (int c = 0; c < calls; ++c) kernels();
        Select(options_.device);
        Must(api_->EventRecord(end_.get(), One().stream.get()), "timing");
        const bool disturbed = Disturbed(&out);
        WaitFor(api_.get(), end_.get(), options_.timeout_s, "a kernel beside a collective");
        double seconds = 0;
        Must(api_->EventSeconds(begin_.get(), end_.get(), &seconds), "timing");
        DrainAll(&members);
        if (disturbed) {
          ++out.disturbed;
        } else {
          out.seconds.push_back(seconds / calls);
        }
      }
      return out;
    });
  }

  Burn BurnFor(const Kernel& kernel, double seconds) override {
    Burn burn;
    PerDevice& one = One();
    if (!one.primitives->Prepare(kernel)) return burn;
    const Samples single = TimeCalls([&] { one.primitives->Enqueue(kernel, one.stream.get()); }, 1);
    if (single.seconds.empty()) return burn;
    // Batches of some ten milliseconds; the next is enqueued before the last has ended, so that the
    // device never rests.
    const int calls =
        std::clamp(static_cast<int>(std::ceil(10e-3 / single.seconds.front())), 1, 200);
    OwnedEvent events[3] = {cuda::NewEvent(api_.get(), true), cuda::NewEvent(api_.get(), true),
                            cuda::NewEvent(api_.get(), true)};
    struct Batch {
      double at = 0, each = 0, clock = 0;
    };
    std::vector<Batch> batches;
    const double begin = Now();
    Must(api_->EventRecord(events[0].get(), one.stream.get()), "a burn");
    const auto enqueue = [&](std::size_t index) {
      for (int c = 0; c < calls; ++c) one.primitives->Enqueue(kernel, one.stream.get());
      Must(api_->EventRecord(events[index % 3].get(), one.stream.get()), "a burn");
    };
    enqueue(1);
    for (std::size_t i = 1; Now() - begin < seconds || batches.size() < 10; ++i) {
      enqueue(i + 1);
      WaitFor(api_.get(), events[i % 3].get(), options_.timeout_s, "a burn");
      double took = 0;
      Must(api_->EventSeconds(events[(i - 1) % 3].get(), events[i % 3].get(), &took), "a burn");
      cuda::CardState state;
      const bool told = api_->CardFacts(options_.device, &state).ok();
      batches.push_back({Now() - begin, took / calls, told ? state.sm_clock_mhz : 0});
    }
    one.primitives->Drain(one.stream.get(), "a burn");
    const double length = batches.back().at;
    int firsts = 0, lasts = 0;
    for (const Batch& batch : batches) {
      if (batch.at <= 0.1 * length || firsts == 0) {
        burn.first_s += batch.each;
        burn.clock_first_mhz += batch.clock;
        ++firsts;
      }
      if (batch.at >= length / 3) {
        burn.last_s += batch.each;
        burn.clock_last_mhz += batch.clock;
        ++lasts;
      }
    }
    burn.first_s /= firsts;
    burn.clock_first_mhz /= firsts;
    burn.last_s /= lasts;
    burn.clock_last_mhz /= lasts;
    return burn;
  }

 private:
  struct PerDevice {
    std::unique_ptr<cuda::Primitives> primitives;
    OwnedStream stream;
  };
  // Of a group of GPUs, one.
  struct Member {
    int device = 0;
    cuda::Comm comm = nullptr;
    OwnedStream stream;
    OwnedEvent begin, end;
    Memory from, to;
  };

  void Must(const Result& result, const std::string& doing) { Check(api_.get(), result, doing); }
  void Select(int device) { Must(api_->SetDevice(device), "taking GPU " + std::to_string(device)); }

  void RefuseOthers(int device) {
    cuda::CardState state;
    if (options_.beside_others || !api_->CardFacts(device, &state).ok()) return;
    if (state.processes.empty()) return;
    std::string list;
    for (const unsigned process : state.processes) {
      list += (list.empty() ? "" : ", ") + std::to_string(process);
    }
    ThrowInput(942,
               "GPU " + std::to_string(device) + " is in use by other processes (" + list +
                   "): times taken beside them would be wrong",
               "wait for them, choose GPUs with CUDA_VISIBLE_DEVICES, or --force to measure all "
               "the same",
               ExitCode::kNoHardware);
  }

  PerDevice& Machine(int device) {
    PerDevice& one = machines_[device];
    if (!one.primitives) {
      one.primitives = std::make_unique<cuda::Primitives>(api_.get(), device, options_.seed);
      one.stream = cuda::NewStream(api_.get());
      if (device == options_.device) {
        begin_ = cuda::NewEvent(api_.get(), true);
        end_ = cuda::NewEvent(api_.get(), true);
      }
    }
    return one;
  }
  PerDevice& One() { return Machine(options_.device); }

  template <typename Body>
  Samples Guarded(const Body& body) {
    try {
      return body();
    } catch (const InputError& error) {
      if (!OfThisCallOnly(error) || api_->abandoned()) throw;
      // Too large for this card, or no algorithm: nothing of such a kernel here.
      One().primitives->Drain(One().stream.get(), "a call that failed");
      return {};
    }
  }

  static bool ElementOf(DType dtype, cuda::Element* element) {
    switch (dtype) {
      case DType::kBf16:
        *element = cuda::Element::kBf16;
        return true;
      case DType::kFp16:
        *element = cuda::Element::kFp16;
        return true;
      case DType::kFp32:
        *element = cuda::Element::kFp32;
        return true;
      default:
        return false;
    }
  }

  static int Calls(double seconds) {
    return std::clamp(static_cast<int>(std::ceil(kBatchSeconds / std::max(seconds, 1e-7))), 1,
                      kMostCalls);
  }

  // Notes the clock; whether the card slows itself down for heat or a fault right now.
  bool Disturbed(Samples* samples) {
    cuda::CardState state;
    if (!api_->CardFacts(options_.device, &state).ok()) return false;
    samples->clock_mhz = state.sm_clock_mhz;
    return (state.throttle_reasons & cuda::kDisturbing) != 0;
  }

  // `members`: of collectives, each with a stream and events of its own; the slowest counts.
  Samples TimeCalls(const std::function<void()>& call, int samples,
                    std::vector<Member>* members = nullptr) {
    Samples out;
    call();
    Drain(members);
    const double enqueue_begin = Now();
    Begin(0, members);
    call();
    call();
    const double host_s = (Now() - enqueue_begin) / 2;
    const int calls = Calls(Finish(members) / 2);
    const double head_start = std::min(5e-3, 30e-6 + 1.3 * host_s * calls);
    for (int i = 0; i < samples; ++i) {
      Begin(head_start, members);
      for (int c = 0; c < calls; ++c) call();
      const bool disturbed = Disturbed(&out);
      const double seconds = Finish(members);
      if (disturbed) {
        ++out.disturbed;
      } else {
        out.seconds.push_back(seconds / calls);
      }
    }
    return out;
  }

  void Begin(double head_start, std::vector<Member>* members) {
    if (members == nullptr) {
      const Stream stream = One().stream.get();
      if (head_start > 0) Must(api_->Delay(nullptr, 0, head_start, stream), "a head start");
      Must(api_->EventRecord(begin_.get(), stream), "timing");
      return;
    }
    for (Member& m : *members) {
      Select(m.device);
      if (head_start > 0) Must(api_->Delay(nullptr, 0, head_start, m.stream.get()), "timing");
      Must(api_->EventRecord(m.begin.get(), m.stream.get()), "timing");
    }
  }

  double Finish(std::vector<Member>* members) {
    double seconds = 0;
    if (members == nullptr) {
      Must(api_->EventRecord(end_.get(), One().stream.get()), "timing");
      WaitFor(api_.get(), end_.get(), options_.timeout_s, "a batch of calls");
      Must(api_->EventSeconds(begin_.get(), end_.get(), &seconds), "timing");
      return seconds;
    }
    for (Member& m : *members) {
      Select(m.device);
      Must(api_->EventRecord(m.end.get(), m.stream.get()), "timing");
    }
    for (Member& m : *members) {
      Select(m.device);
      Must(api_->CommState(m.comm), "a collective");
      WaitFor(api_.get(), m.end.get(), options_.timeout_s, "a collective");
      double one = 0;
      Must(api_->EventSeconds(m.begin.get(), m.end.get(), &one), "timing");
      seconds = std::max(seconds, one);
    }
    return seconds;
  }

  void Drain(std::vector<Member>* members) {
    if (members == nullptr) {
      One().primitives->Drain(One().stream.get(), "warming up");
    } else {
      DrainAll(members);
    }
  }
  void DrainAll(std::vector<Member>* members) {
    for (Member& m : *members) {
      Select(m.device);
      Must(api_->EventRecord(m.end.get(), m.stream.get()), "a collective");
    }
    for (Member& m : *members) {
      WaitFor(api_.get(), m.end.get(), options_.timeout_s, "a collective");
    }
  }

  void EnqueueOnAll(CollectiveKind kind, double bytes, cuda::Element element,
                    std::vector<Member>* members) {
    const auto ranks = static_cast<int>(members->size());
    const auto begun = [&](const Result& result) {
      if (result.code != cuda::kInProgress) Must(result, "a group of collectives");
    };
    begun(api_->GroupStart());
    Result enqueued;
    for (Member& m : *members) {
      if (enqueued.ok()) enqueued = api_->SetDevice(m.device);
      if (!enqueued.ok()) break;
      enqueued = EnqueueCollective(api_.get(), kind, m.device, ranks, bytes, element, m.from.get(),
                                   m.to.get(), m.comm, m.stream.get());
    }
    const Result ended = api_->GroupEnd();
    Must(enqueued, CollectiveName(kind));
    begun(ended);
    for (Member& m : *members) {
      Settle(api_.get(), m.comm, CollectiveName(kind), options_.timeout_s);
    }
  }

  // The first `gpus` devices, with buffers for the collective.
  std::vector<Member> Group(int gpus, CollectiveKind kind, double bytes, cuda::Element element) {
    std::vector<cuda::OwnedComm>& comms = comms_[gpus];
    if (comms.empty()) {
      cuda::NcclId id;
      Must(api_->NcclUniqueId(&id), "a group of GPUs");
      const auto begun = [&](const Result& result) {
        if (result.code != cuda::kInProgress) Must(result, "a group of GPUs");
      };
      begun(api_->GroupStart());
      std::vector<cuda::OwnedComm> made;
      Result started;
      for (int d = 0; d < gpus && started.ok(); ++d) {
        started = api_->SetDevice(d);
        if (!started.ok()) break;
        cuda::Comm comm = nullptr;
        started = api_->CommInit(gpus, id, d, &comm);
        if (started.code == cuda::kInProgress) started = {};
        if (comm != nullptr) made.emplace_back(api_.get(), comm);
      }
      const Result ended = api_->GroupEnd();
      Must(started, "a group of GPUs");
      begun(ended);
      for (const cuda::OwnedComm& comm : made) {
        Settle(api_.get(), comm.get(), "a group of GPUs", options_.timeout_s);
      }
      comms = std::move(made);
    }
    std::vector<Member> members(static_cast<std::size_t>(gpus));
    const cuda::CollectiveSizes sizes = SizesOf(kind, gpus, bytes, element);
    const cuda::Numbers numbers = element == cuda::Element::kFp32   ? cuda::Numbers::kFp32
                                  : element == cuda::Element::kFp16 ? cuda::Numbers::kFp16
                                                                    : cuda::Numbers::kBf16;
    for (int d = 0; d < gpus; ++d) {
      Member& m = members[static_cast<std::size_t>(d)];
      Select(d);
      m.device = d;
      m.comm = comms[static_cast<std::size_t>(d)].get();
      m.stream = cuda::NewStream(api_.get());
      m.begin = cuda::NewEvent(api_.get(), true);
      m.end = cuda::NewEvent(api_.get(), true);
      m.from = Memory(api_.get(), MemoryPlace::kDevice, sizes.buffer + 512, "a collective");
      m.to = Memory(api_.get(), MemoryPlace::kDevice, sizes.buffer + 512, "a collective");
      const auto elements =
          static_cast<std::size_t>(static_cast<double>(sizes.buffer) / BytesOfNumbers(numbers));
      Must(api_->FillNormal(m.from.get(), elements, numbers, options_.seed + 1000, m.stream.get()),
           "a collective");
    }
    return members;
  }

  CudaBenchOptions options_;
  std::unique_ptr<Api> api_;  // first made, last ended
  int devices_ = 0;
  bool nccl_ = false;
  OwnedEvent begin_, end_;
  std::map<int, PerDevice> machines_;
  std::map<int, std::vector<cuda::OwnedComm>> comms_;  // by size of the group
};

}  // namespace

std::unique_ptr<Bench> MakeCudaBench(const CudaBenchOptions& options,
                                     std::unique_ptr<cuda::Api> api) {
  return std::make_unique<CudaBench>(options, std::move(api));
}

std::unique_ptr<Bench> MakeCudaBench(const CudaBenchOptions& options) {
#ifdef AURUM_WITH_CUDA
  return MakeCudaBench(options, cuda::MakeRealApi(options.libraries));
#else
  static_cast<void>(options);
  ThrowInput(940, "this program was built without CUDA",
             "build where nvcc is found, or measure with --backend cpu", ExitCode::kNoHardware);
#endif
}

}  // namespace aurum
