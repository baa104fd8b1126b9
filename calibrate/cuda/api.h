#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/cuda/gemm_layout.h"
#include "sim/cost/profile.h"

namespace aurum::cuda {

// Everything that Aurum asks of CUDA, cuBLASLt, cuDNN, NCCL and NVML, one call a function and no
// policy: what a fake replaces where there is no GPU. Handles are opaque, so that only the file that
// implements this (real_api.cc) needs CUDA's headers.

enum class Library : std::uint8_t { kCuda, kCublas, kCudnn, kNccl, kNvml };
std::string LibraryName(Library library);  // "CUDA", "cuBLASLt", …

// What a call returned: CUDA's, cuBLAS's, … own number and text; 0 is success.
struct Result {
  int code = 0;
  Library library = Library::kCuda;
  std::string text;
  bool ok() const { return code == 0; }
};
inline constexpr int kNotReady = 600;   // cudaErrorNotReady
inline constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation
inline constexpr int kOldDriver = 35;   // cudaErrorInsufficientDriver
inline constexpr int kNoDevice = 100;   // cudaErrorNoDevice
inline constexpr int kMissing = -1;     // of any library: it is not there
inline constexpr int kInProgress = 7;   // ncclInProgress

using Stream = void*;
using Event = void*;
using GraphRun = void*;  // an instantiated graph
using Comm = void*;
using Gemm = void*;
using Sdpa = void*;

struct DeviceProperties {
  std::string name;
  double memory_bytes = 0;
  double l2_bytes = 0;
  int sm_count = 0;
  int major = 0, minor = 0;
  double memory_bandwidth_bytes_per_s = 0;  // 0 = not told
  std::string pci_bus;                      // "0000:1B:00.0"
};

// A state of the card, as NVML tells it; read only. Zero or empty = not told.
struct CardState {
  double sm_clock_mhz = 0;
  double power_limit_w = 0;
  std::uint64_t throttle_reasons = 0;  // NVML's bits
  std::vector<unsigned> processes;     // that compute on it, ours not among them
};
// Of CardState::throttle_reasons: thermal and hardware slow-downs. The power cap is not among them:
// a product that draws the limit is how training runs.
inline constexpr std::uint64_t kDisturbing = 0x8 | 0x20 | 0x40 | 0x80;

struct SdpaShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, kv_len = 0;
  int head_dim = 0;
  bool causal = false;  // the last query sees the last key
  bool backward = false;
  bool bf16 = true;  // else fp16
};
// Device memory of one attention: rows of head_dim values, by sequence, head and token; `stats`
// float, by sequence, head and query: the logarithm of the sum of exponentials.
struct SdpaBuffers {
  void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *stats = nullptr;
  void *d_o = nullptr, *d_q = nullptr, *d_k = nullptr, *d_v = nullptr;  // of a backward
};

enum class CopyDirection : std::uint8_t { kToDevice, kToHost, kOnDevice };
// kHost: pinned.
enum class MemoryPlace : std::uint8_t { kDevice, kHost };

// An element of a collective. Sums are of this type.
enum class Element : std::uint8_t { kBf16, kFp16, kFp32, kByte };

inline constexpr int kNoColor = -1;  // NCCL_SPLIT_NOCOLOR
struct NcclId {
  char bytes[128] = {};
};

class Api {
 public:
  virtual ~Api() = default;

  // Libraries that were found, with their versions: {"CUDA runtime", "13.0"}, …; of a library that
  // was not: where it was looked for, as a sentence. "" = it is there.
  virtual std::vector<std::pair<std::string, std::string>> Versions() = 0;
  virtual std::string Missing(Library library) = 0;

  // Devices, memory. All calls below are of the device that was set last in this thread.
  virtual Result DeviceCount(int* count) = 0;
  virtual Result Properties(int device, DeviceProperties* properties) = 0;
  virtual Result SetDevice(int device) = 0;
  virtual Result MemoryInfo(std::size_t* free_bytes, std::size_t* total_bytes) = 0;
  virtual Result Allocate(MemoryPlace place, std::size_t bytes, void** memory) = 0;
  virtual void Free(MemoryPlace place, void* memory) = 0;
  virtual Result CardFacts(int device, CardState* state) = 0;
  virtual Result CanAccessPeer(int device, int peer, bool* can) = 0;
  virtual Result EnablePeer(int peer) = 0;  // fine if it is already

  // Streams, events, graphs.
  virtual Result StreamCreate(Stream* stream) = 0;
  virtual void StreamDestroy(Stream stream) = 0;
  virtual Result EventCreate(bool timing, Event* event) = 0;
  virtual void EventDestroy(Event event) = 0;
  virtual Result EventRecord(Event event, Stream stream) = 0;
  virtual Result StreamWait(Stream stream, Event event) = 0;
  virtual Result EventQuery(Event event) = 0;  // kNotReady while it is not
  virtual Result EventSeconds(Event start, Event end, double* seconds) = 0;
  virtual Result CaptureBegin(Stream stream) = 0;
  virtual Result CaptureEnd(Stream stream, GraphRun* graph) = 0;  // also ends a failed capture
  virtual Result GraphLaunch(GraphRun graph, Stream stream) = 0;
  virtual void GraphDestroy(GraphRun graph) = 0;

  // Copies and kernels of ours (kernels.h).
  virtual Result Copy(CopyDirection direction, void* to, const void* from, std::size_t bytes,
                      Stream stream) = 0;
  virtual Result CopyPeer(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, Stream stream) = 0;
  virtual Result FillNormal(void* memory, std::size_t elements, Numbers numbers, std::uint64_t seed,
                            Stream stream) = 0;
  virtual Result ReadWrite(const void* from, void* to, std::size_t bytes, Stream stream) = 0;
  virtual Result SoftmaxForward(const void* scores, void* probabilities, void* stats,
                                std::size_t rows, int columns, int row_period, bool causal,
                                bool bf16, Stream stream) = 0;
  virtual Result SoftmaxBackward(const void* probabilities, const void* gradient, void* result,
                                 std::size_t rows, int columns, double scale, bool bf16,
                                 Stream stream) = 0;
  virtual Result Empty(Stream stream) = 0;
  virtual Result StampTime(void* device_time, Stream stream) = 0;
  // Waits on the device until *device_time + not_before_s (if later than now), then for_s longer;
  // ten seconds at most, whatever is asked.
  virtual Result Delay(const void* device_time, double not_before_s, double for_s,
                       Stream stream) = 0;
  // Adds |a − b|, |b| (sums of doubles) and the count of values that are not finite: three doubles.
  virtual Result Compare(const void* a, const void* b, std::size_t elements, Numbers numbers,
                         double* device_sums, Stream stream) = 0;
  // An order-independent 64-bit hash of bytes (a multiple of 4), added to *device_hash.
  virtual Result Hash(const void* memory, std::size_t bytes, std::uint64_t* device_hash,
                      Stream stream) = 0;

  // cuBLASLt. `algorithms`: how many were found, best guess first.
  virtual Result GemmCreate(const GemmLayout& layout, std::size_t workspace_bytes, int most,
                            Gemm* gemm, int* algorithms) = 0;
  virtual Result GemmRun(Gemm gemm, int algorithm, double alpha, const void* a, const void* b,
                         void* c, const void* unit_scale, void* workspace,
                         std::size_t workspace_bytes, Stream stream) = 0;
  virtual void GemmDestroy(Gemm gemm) = 0;

  // cuDNN. Not every shape has an engine: that is a Result, not a failure of the library.
  virtual Result SdpaCreate(const SdpaShape& shape, Sdpa* sdpa, std::size_t* workspace_bytes) = 0;
  virtual Result SdpaRun(Sdpa sdpa, const SdpaBuffers& buffers, void* workspace, Stream stream) = 0;
  virtual void SdpaDestroy(Sdpa sdpa) = 0;

  // NCCL, non-blocking: what returns kInProgress has begun; CommState tells when it has ended.
  virtual Result NcclUniqueId(NcclId* id) = 0;
  virtual Result CommInit(int ranks, const NcclId& id, int rank, Comm* comm) = 0;
  virtual Result CommSplit(Comm parent, int color, int key, Comm* comm) = 0;
  virtual Result CommState(Comm comm) = 0;
  virtual void CommDestroy(Comm comm) = 0;
  virtual void CommAbort(Comm comm) = 0;
  virtual Result GroupStart() = 0;
  virtual Result GroupEnd() = 0;
  virtual Result AllReduce(void* data, std::size_t count, Element element, Comm comm,
                           Stream stream) = 0;
  virtual Result AllGather(const void* from, void* to, std::size_t sent, Element element, Comm comm,
                           Stream stream) = 0;
  virtual Result ReduceScatter(const void* from, void* to, std::size_t received, Element element,
                               Comm comm, Stream stream) = 0;
  virtual Result Broadcast(void* data, std::size_t count, Element element, int root, Comm comm,
                           Stream stream) = 0;
  virtual Result Send(const void* data, std::size_t bytes, int peer, Comm comm, Stream stream) = 0;
  virtual Result Receive(void* data, std::size_t bytes, int peer, Comm comm, Stream stream) = 0;

  // Something on the device does not end: nothing is given back from now on, because giving back
  // would wait for it. The process is about to end.
  void Abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

 private:
  bool abandoned_ = false;
};

// The real one. Never throws: what is missing shows in its answers. `libraries`: a folder to look in
// first (several: separated by colons), as AURUM_CUDA_LIBS.
std::unique_ptr<Api> MakeRealApi(const std::string& libraries);

// Throws where `result` is a failure: E0940 no GPU or driver, E0941 a library that is missing, E0943
// CUDA, E0944 out of memory, E0945 cuBLASLt, E0946 cuDNN, E0947 NCCL. `doing`: what for, in a few
// words.
void Check(Api* api, const Result& result, const std::string& doing);

// Owners.
class Memory {
 public:
  Memory() = default;
  // E0944 with what was asked and what is free.
  Memory(Api* api, MemoryPlace place, std::size_t bytes, const std::string& what);
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { Release(); }
  void Release();
  void* get() const { return memory_; }
  char* bytes() const { return static_cast<char*>(memory_); }
  std::size_t size() const { return size_; }

 private:
  Api* api_ = nullptr;
  MemoryPlace place_ = MemoryPlace::kDevice;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

// A handle of the API and how it is given back.
template <void (Api::*kDestroy)(void*)>
class Owned {
 public:
  Owned() = default;
  Owned(Api* api, void* handle) : api_(api), handle_(handle) {}
  Owned(Owned&& other) noexcept { *this = std::move(other); }
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      Release();
      api_ = other.api_;
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Release(); }
  void Release() {
    if (handle_ != nullptr && !api_->abandoned()) (api_->*kDestroy)(handle_);
    handle_ = nullptr;
  }
  void* get() const { return handle_; }
  void* release() { return std::exchange(handle_, nullptr); }

 private:
  Api* api_ = nullptr;
  void* handle_ = nullptr;
};
using OwnedStream = Owned<&Api::StreamDestroy>;
using OwnedEvent = Owned<&Api::EventDestroy>;
using OwnedGraph = Owned<&Api::GraphDestroy>;
using OwnedGemm = Owned<&Api::GemmDestroy>;
using OwnedSdpa = Owned<&Api::SdpaDestroy>;
using OwnedComm = Owned<&Api::CommDestroy>;
OwnedStream NewStream(Api* api);
OwnedEvent NewEvent(Api* api, bool timing);

// Waits until `event` has happened. `stopped` (may be null) is asked meanwhile; E0948 where it says
// yes or `timeout_s` is over: the API is then abandoned, since nothing on the device can be ended.
using StopQuestion = bool (*)(void* context);
void WaitFor(Api* api, Event event, double timeout_s, const std::string& what,
             StopQuestion stopped = nullptr, void* context = nullptr);

}  // namespace aurum::cuda
