#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/cuda/api.h"

namespace aurum::cuda {

// Libraries that do nothing but keep count: memory is the host's, products are computed where they
// are small, any call can be made to fail. For error paths alone: its times mean nothing.
struct FakeState {
  // What to do.
  int devices = 1;
  long fail_at = 0;  // this call of all that can fail, counted from 1
  int fail_code = 700;
  std::set<Library> missing;
  std::vector<unsigned> processes;
  bool events_happen = true;
  bool sdpa = true;
  double sdpa_error = 0;  // that Compare finds
  Result comm_state;
  std::size_t most_bytes = std::size_t{1} << 40;
  // What happened.
  long calls = 0;
  std::string failed;
  Library failed_library = Library::kCuda;
  std::map<std::string, int> live;
  int aborted = 0, splits = 0, sdpa_runs = 0;
  std::vector<std::string> log;  // of collectives

  int Live() const {
    int sum = 0;
    for (const auto& [what, count] : live) sum += count;
    return sum;
  }
};

class FakeApi : public Api {
 public:
  explicit FakeApi(FakeState* state) : s_(*state) {}

  std::vector<std::pair<std::string, std::string>> Versions() override {
    return {{"CUDA runtime", "fake"}};
  }
  std::string Missing(Library library) override {
    return s_.missing.contains(library) ? "no lib" + LibraryName(library) + " in /nowhere" : "";
  }
  Result DeviceCount(int* count) override {
    *count = s_.devices;
    return Call("DeviceCount");
  }
  Result Properties(int, DeviceProperties* p) override {
    p->name = "fake";
    p->memory_bytes = 80e9;
    p->l2_bytes = 1 << 20;
    p->sm_count = 132;
    p->major = 9;
    return Call("Properties");
  }
  Result SetDevice(int) override { return Call("SetDevice"); }
  Result MemoryInfo(std::size_t* free_bytes, std::size_t* total) override {
    *free_bytes = std::size_t{40} << 30;
    *total = std::size_t{80} << 30;
    return Call("MemoryInfo");
  }
  Result Allocate(MemoryPlace, std::size_t bytes, void** memory) override {
    if (bytes > s_.most_bytes) return {kOutOfMemory, Library::kCuda, "out of memory"};
    Result r = Call("Allocate");
    if (!r.ok()) return r;
    *memory = std::malloc(bytes);
    ++s_.live["memory"];
    return r;
  }
  void Free(MemoryPlace, void* memory) override {
    std::free(memory);
    --s_.live["memory"];
  }
  Result CardFacts(int, CardState* state) override {
    if (s_.missing.contains(Library::kNvml)) return {kMissing, Library::kNvml, ""};
    state->sm_clock_mhz = 1980;
    state->power_limit_w = 700;
    state->processes = s_.processes;
    return Call("CardFacts", Library::kNvml);
  }
  Result CanAccessPeer(int, int, bool* can) override {
    *can = true;
    return Call("CanAccessPeer");
  }
  Result EnablePeer(int) override { return Call("EnablePeer"); }
  Result StreamCreate(Stream* stream) override { return New("stream", stream); }
  void StreamDestroy(Stream stream) override { Delete("stream", stream); }
  Result EventCreate(bool, Event* event) override { return New("event", event); }
  void EventDestroy(Event event) override { Delete("event", event); }
  Result EventRecord(Event, Stream) override { return Call("EventRecord"); }
  Result StreamWait(Stream, Event) override { return Call("StreamWait"); }
  Result EventQuery(Event) override {
    if (!s_.events_happen) return {kNotReady, Library::kCuda, "not ready"};
    return Call("EventQuery");
  }
  Result EventSeconds(Event, Event, double* seconds) override {
    *seconds = 2e-3;
    return Call("EventSeconds");
  }
  Result CaptureBegin(Stream) override { return Call("CaptureBegin"); }
  Result CaptureEnd(Stream, GraphRun* graph) override { return New("graph", graph); }
  Result GraphLaunch(GraphRun, Stream) override { return Call("GraphLaunch"); }
  void GraphDestroy(GraphRun graph) override { Delete("graph", graph); }
  Result Copy(CopyDirection direction, void* to, const void* from, std::size_t bytes,
              Stream) override {
    Result r = Call("Copy");
    if (r.ok() && direction != CopyDirection::kOnDevice && bytes < 1 << 20) {
      std::memcpy(to, from, bytes);
    }
    return r;
  }
  Result CopyPeer(void*, int, const void*, int, std::size_t, Stream) override {
    return Call("CopyPeer");
  }
  Result FillNormal(void*, std::size_t, Numbers, std::uint64_t, Stream) override {
    return Call("FillNormal");
  }
  Result ReadWrite(const void*, void*, std::size_t, Stream) override { return Call("ReadWrite"); }
  Result SoftmaxForward(const void*, void*, void*, std::size_t, int, int, bool, bool,
                        Stream) override {
    return Call("SoftmaxForward");
  }
  Result SoftmaxBackward(const void*, const void*, void*, std::size_t, int, double, bool,
                         Stream) override {
    return Call("SoftmaxBackward");
  }
  Result Empty(Stream) override { return Call("Empty"); }
  Result StampTime(void*, Stream) override { return Call("StampTime"); }
  Result Delay(const void*, double, double, Stream) override { return Call("Delay"); }
  Result Compare(const void*, const void*, std::size_t, Numbers, double* sums, Stream) override {
    sums[0] += s_.sdpa_error;
    sums[1] += 1;
    return Call("Compare");
  }
  Result Hash(const void*, std::size_t, std::uint64_t*, Stream) override { return Call("Hash"); }

  Result GemmCreate(const GemmLayout& layout, std::size_t, int, Gemm* gemm,
                    int* algorithms) override {
    if (s_.missing.contains(Library::kCublas)) return {kMissing, Library::kCublas, ""};
    Result r = Call("GemmCreate", Library::kCublas);
    if (!r.ok()) return r;
    *gemm = new GemmLayout(layout);
    *algorithms = 2;
    ++s_.live["gemm"];
    return r;
  }
  // Column by column, as BLAS counts: an independent reading of the layout.
  Result GemmRun(Gemm gemm, int, double alpha, const void* a, const void* b, void* c, const void*,
                 void*, std::size_t, Stream) override {
    Result r = Call("GemmRun", Library::kCublas);
    const GemmLayout& l = *static_cast<GemmLayout*>(gemm);
    if (!r.ok() || l.in != Numbers::kBf16 || l.batch != 1 || l.rows * l.columns * l.inner > 65536) {
      return r;
    }
    const auto at = [](const void* m, std::int64_t i) {
      const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(m)[i]} << 16;
      float f = 0;
      std::memcpy(&f, &bits, sizeof f);
      return f;
    };
    for (std::int64_t j = 0; j < l.columns; ++j) {
      for (std::int64_t i = 0; i < l.rows; ++i) {
        float sum = 0;
        for (std::int64_t k = 0; k < l.inner; ++k) {
          sum += at(a, l.transpose_a ? k + i * l.lda : i + k * l.lda) *
                 at(b, l.transpose_b ? j + k * l.ldb : k + j * l.ldb);
        }
        sum *= static_cast<float>(alpha);
        std::uint32_t bits = 0;
        std::memcpy(&bits, &sum, sizeof bits);
        static_cast<std::uint16_t*>(c)[i + j * l.ldc] = static_cast<std::uint16_t>(bits >> 16);
      }
    }
    return r;
  }
  void GemmDestroy(Gemm gemm) override {
    delete static_cast<GemmLayout*>(gemm);
    --s_.live["gemm"];
  }
  Result SdpaCreate(const SdpaShape&, Sdpa* sdpa, std::size_t* workspace) override {
    if (!s_.sdpa) return {3000, Library::kCudnn, "not supported"};
    *workspace = 1 << 20;
    return New("sdpa", sdpa, Library::kCudnn);
  }
  Result SdpaRun(Sdpa, const SdpaBuffers&, void*, Stream) override {
    ++s_.sdpa_runs;
    return Call("SdpaRun", Library::kCudnn);
  }
  void SdpaDestroy(Sdpa sdpa) override { Delete("sdpa", sdpa); }

  Result NcclUniqueId(NcclId*) override { return Call("NcclUniqueId", Library::kNccl); }
  Result CommInit(int, const NcclId&, int, Comm* comm) override {
    return New("comm", comm, Library::kNccl);
  }
  Result CommSplit(Comm, int color, int, Comm* comm) override {
    ++s_.splits;
    if (color == kNoColor) return Call("CommSplit", Library::kNccl);
    return New("comm", comm, Library::kNccl);
  }
  Result CommState(Comm) override {
    if (!s_.comm_state.ok()) return s_.comm_state;
    return Call("CommState", Library::kNccl);
  }
  void CommDestroy(Comm comm) override { Delete("comm", comm); }
  void CommAbort(Comm comm) override {
    ++s_.aborted;
    Delete("comm", comm);
  }
  Result GroupStart() override { return Call("GroupStart", Library::kNccl); }
  Result GroupEnd() override { return Call("GroupEnd", Library::kNccl); }
  Result AllReduce(void* data, std::size_t count, Element element, Comm, Stream) override {
    s_.log.push_back("all_reduce " + std::to_string(count));
    Result r = Call("AllReduce", Library::kNccl);
    // Of two ranks that bring 1 and 2.
    if (r.ok() && element == Element::kFp32 && count == 1024) {
      for (std::size_t i = 0; i < count; ++i) static_cast<float*>(data)[i] = 3;
    }
    return r;
  }
  Result AllGather(const void*, void* to, std::size_t sent, Element, Comm, Stream) override {
    s_.log.push_back("all_gather " + std::to_string(sent));
    if (sent == 8) std::memset(to, 7, 16);
    return Call("AllGather", Library::kNccl);
  }
  Result ReduceScatter(const void*, void*, std::size_t received, Element, Comm, Stream) override {
    s_.log.push_back("reduce_scatter " + std::to_string(received));
    return Call("ReduceScatter", Library::kNccl);
  }
  Result Broadcast(void*, std::size_t count, Element, int, Comm, Stream) override {
    s_.log.push_back("broadcast " + std::to_string(count));
    return Call("Broadcast", Library::kNccl);
  }
  Result Send(const void*, std::size_t bytes, int peer, Comm, Stream) override {
    s_.log.push_back("send " + std::to_string(bytes) + " to " + std::to_string(peer));
    return Call("Send", Library::kNccl);
  }
  Result Receive(void*, std::size_t bytes, int peer, Comm, Stream) override {
    s_.log.push_back("receive " + std::to_string(bytes) + " from " + std::to_string(peer));
    return Call("Receive", Library::kNccl);
  }

 private:
  Result Call(const char* name, Library library = Library::kCuda) {
    if (++s_.calls != s_.fail_at) return {};
    s_.failed = name;
    s_.failed_library = library;
    return {s_.fail_code, library, "made to fail"};
  }
  Result New(const char* what, void** handle, Library library = Library::kCuda) {
    Result r = Call(what, library);
    if (!r.ok()) return r;
    *handle = new char;
    ++s_.live[what];
    return r;
  }
  void Delete(const char* what, void* handle) {
    delete static_cast<char*>(handle);
    --s_.live[what];
  }

  FakeState& s_;
};

}  // namespace aurum::cuda
