#include "calibrate/cuda/api.h"

#include <chrono>
#include <cstdio>
#include <thread>

#include "sim/core/diagnostic.h"

namespace aurum::cuda {
namespace {

std::string GiB(std::size_t bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / 1073741824.0);
  return text;
}

int CodeOf(Library library) {
  int code = 943;
  if (library == Library::kCublas) code = 945;
  if (library == Library::kCudnn) code = 946;
  if (library == Library::kNccl) code = 947;
  return code;
}

const char* RemedyOf(Library library) {
  switch (library) {
    case Library::kCuda:
    case Library::kNvml:
      return "nvidia-smi tells whether the GPU is healthy; after an error of the device the "
             "process "
             "has to be started again";
    case Library::kCublas:
      return "a cuBLAS of the CUDA version that is named by `aurum version`";
    case Library::kCudnn:
      return "without cuDNN attention is run as products: AURUM_NO_CUDNN=1";
    case Library::kNccl:
      return "NCCL_DEBUG=WARN tells more";
  }
  return "";
}

}  // namespace

std::string LibraryName(Library library) {
  switch (library) {
    case Library::kCuda:
      return "CUDA";
    case Library::kCublas:
      return "cuBLASLt";
    case Library::kCudnn:
      return "cuDNN";
    case Library::kNccl:
      return "NCCL";
    case Library::kNvml:
      return "NVML";
  }
  return "";
}

void Check(Api* api, const Result& result, const std::string& doing) {
  if (result.ok()) return;
  const std::string name = LibraryName(result.library);
  if (result.code == kMissing) {
    ThrowInput(941, name + " is needed for " + doing + ": " + api->Missing(result.library),
               "install it, or name its folder in AURUM_CUDA_LIBS (of a PyTorch installation: "
               "site-packages/nvidia/*/lib)",
               ExitCode::kNoHardware);
  }
  if (result.library == Library::kCuda) {
    if (result.code == kOldDriver) {
      ThrowInput(940, "no NVIDIA driver that this CUDA can use (" + result.text + ")",
                 "install a driver of at least the version that this CUDA wants, or run on a "
                 "machine that has one",
                 ExitCode::kNoHardware);
    }
    if (result.code == kNoDevice) {
      ThrowInput(940, "no NVIDIA GPU here (" + result.text + ")",
                 "run on a machine with a GPU, look at CUDA_VISIBLE_DEVICES, or take --backend cpu",
                 ExitCode::kNoHardware);
    }
    if (result.code == kOutOfMemory) {
      ThrowInput(944, "the GPU's memory is full: " + doing,
                 "a smaller micro-batch, more recomputation, or end what else runs on this GPU",
                 ExitCode::kInfeasible);
    }
  }
  ThrowInput(CodeOf(result.library),
             name + " error " + std::to_string(result.code) + " (" + result.text + "): " + doing,
             RemedyOf(result.library));
}

Memory::Memory(Api* api, MemoryPlace place, std::size_t bytes, const std::string& what)
    : api_(api), place_(place), size_(bytes) {
  const Result result = api->Allocate(place, bytes, &memory_);
  if (result.ok()) return;
  memory_ = nullptr;
  std::string doing = GiB(bytes) + " for " + what;
  std::size_t free_bytes = 0, total = 0;
  if (result.library == Library::kCuda && result.code == kOutOfMemory) {
    if (place == MemoryPlace::kHost) {
      doing += ", pinned on the host";
    } else if (api->MemoryInfo(&free_bytes, &total).ok()) {
      doing += " asked, " + GiB(free_bytes) + " of " + GiB(total) + " free";
    }
  }
  Check(api, result, doing);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this != &other) {
    Release();
    api_ = other.api_;
    place_ = other.place_;
    memory_ = std::exchange(other.memory_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Memory::Release() {
  if (memory_ != nullptr && !api_->abandoned()) api_->Free(place_, memory_);
  memory_ = nullptr;
  size_ = 0;
}

OwnedStream NewStream(Api* api) {
  Stream stream = nullptr;
  Check(api, api->StreamCreate(&stream), "a stream");
  return {api, stream};
}

OwnedEvent NewEvent(Api* api, bool timing) {
  Event event = nullptr;
  Check(api, api->EventCreate(timing, &event), "an event");
  return {api, event};
}

void WaitFor(Api* api, Event event, double timeout_s, const std::string& what, StopQuestion stopped,
             void* context) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (long polls = 0;; ++polls) {
    const Result result = api->EventQuery(event);
    if (result.ok()) return;
    if (result.library != Library::kCuda || result.code != kNotReady) Check(api, result, what);
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (stopped != nullptr && stopped(context)) {
      api->Abandon();
      ThrowInput(948,
                 what + ": given up after " + std::to_string(waited) +
                     " s, because another rank has stopped or a collective has failed",
                 "the first error of the other ranks tells why");
    }
    if (waited > timeout_s) {
      api->Abandon();
      ThrowInput(948, what + ": not ended on the GPU after " + std::to_string(timeout_s) + " s",
                 "nvidia-smi -q and the kernel's log (Xid) tell whether the GPU hangs");
    }
    // Busy for the first while, which is all that most waits take; then out of the way.
    if (polls > 2000) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace aurum::cuda
