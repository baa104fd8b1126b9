#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "calibrate/cuda/api.h"
#include "calibrate/cuda/cudnn.h"
#include "calibrate/cuda/kernels.h"

// The API over the real libraries. cudart is linked statically, the others are loaded when first
// asked for, so that the program starts anywhere and works with what there is.

namespace aurum::cuda {
namespace {

static_assert(kNotReady == cudaErrorNotReady && kOutOfMemory == cudaErrorMemoryAllocation &&
              kOldDriver == cudaErrorInsufficientDriver && kNoDevice == cudaErrorNoDevice);
static_assert(kInProgress == ncclInProgress && kNoColor == NCCL_SPLIT_NOCOLOR &&
              sizeof(NcclId) == sizeof(ncclUniqueId));

Result Cuda(cudaError_t error) {
  if (error == cudaSuccess) return {};
  if (error != cudaErrorNotReady) cudaGetLastError();  // not sticky for the next launch's check
  return {static_cast<int>(error), Library::kCuda,
          std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error)};
}
Result Cuda(int error) { return Cuda(static_cast<cudaError_t>(error)); }

Result MissingResult(Library library) { return {kMissing, library, "not found"}; }

cudaStream_t S(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t E(Event event) { return static_cast<cudaEvent_t>(event); }
ncclComm_t C(Comm comm) { return static_cast<ncclComm_t>(comm); }

// A library, loaded at most once.
struct Loaded {
  void* handle = nullptr;
  std::string path;     // that was opened
  std::string missing;  // where it was looked for
};

Loaded Load(const std::vector<std::string>& folders, const std::vector<std::string>& names,
            int flags) {
  Loaded loaded;
  std::string looked, reason;
  const auto open = [&](const std::string& path) {
    loaded.handle = dlopen(path.c_str(), flags);
    if (loaded.handle != nullptr) {
      loaded.path = path;
      return true;
    }
    const char* error = dlerror();
    // Of a file that is there, why it does not load is worth more than that others are not there.
    const bool there = path.find('/') != std::string::npos && access(path.c_str(), F_OK) == 0;
    if (error != nullptr && (reason.empty() || there)) reason = error;
    return false;
  };
  for (const std::string& name : names) {
    for (const std::string& folder : folders) {
      if (open(folder + "/" + name)) return loaded;
    }
    if (open(name)) return loaded;
    if (open("/usr/local/cuda/lib64/" + name)) return loaded;
  }
  for (const std::string& folder : folders) looked += folder + ", ";
  loaded.missing = "no " + names.front() + " in " + looked +
                   "LD_LIBRARY_PATH, the system's folders and /usr/local/cuda/lib64 (" + reason +
                   ")";
  return loaded;
}

template <typename F>
bool Find(const Loaded& library, const char* name, F* function) {
  *function =
      library.handle == nullptr ? nullptr : reinterpret_cast<F>(dlsym(library.handle, name));
  return *function != nullptr;
}

// --- cuBLASLt ---

struct Blas {
  Loaded library;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  std::map<int, cublasLtHandle_t> handles;  // by device

  bool Open(const std::vector<std::string>& folders) {
    library = Load(folders, {"libcublasLt.so.13", "libcublasLt.so.12"}, RTLD_NOW | RTLD_LOCAL);
    const bool all =
        Find(library, "cublasLtCreate", &create) && Find(library, "cublasLtDestroy", &destroy) &&
        Find(library, "cublasLtGetVersion", &version) && Find(library, "cublasLtMatmul", &matmul) &&
        Find(library, "cublasLtMatmulDescCreate", &desc_create) &&
        Find(library, "cublasLtMatmulDescDestroy", &desc_destroy) &&
        Find(library, "cublasLtMatmulDescSetAttribute", &desc_set) &&
        Find(library, "cublasLtMatrixLayoutCreate", &layout_create) &&
        Find(library, "cublasLtMatrixLayoutDestroy", &layout_destroy) &&
        Find(library, "cublasLtMatrixLayoutSetAttribute", &layout_set) &&
        Find(library, "cublasLtMatmulPreferenceCreate", &preference_create) &&
        Find(library, "cublasLtMatmulPreferenceDestroy", &preference_destroy) &&
        Find(library, "cublasLtMatmulPreferenceSetAttribute", &preference_set) &&
        Find(library, "cublasLtMatmulAlgoGetHeuristic", &heuristic);
    if (!all && library.missing.empty()) library.missing = library.path + " lacks functions";
    return all;
  }
};

Result BlasResult(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  const char* text = "unknown";
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      text = "not initialised";
      break;
    case CUBLAS_STATUS_ALLOC_FAILED:
      text = "allocation failed";
      break;
    case CUBLAS_STATUS_INVALID_VALUE:
      text = "invalid value";
      break;
    case CUBLAS_STATUS_ARCH_MISMATCH:
      text = "not on this GPU";
      break;
    case CUBLAS_STATUS_EXECUTION_FAILED:
      text = "execution failed";
      break;
    case CUBLAS_STATUS_INTERNAL_ERROR:
      text = "internal error";
      break;
    case CUBLAS_STATUS_NOT_SUPPORTED:
      text = "not supported";
      break;
    default:
      break;
  }
  return {static_cast<int>(status), Library::kCublas, text};
}

struct RealGemm {
  const Blas* blas = nullptr;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms;
  bool scaled = false;
  const void* scale_set = nullptr;
  ~RealGemm() {
    if (a != nullptr) blas->layout_destroy(a);
    if (b != nullptr) blas->layout_destroy(b);
    if (c != nullptr) blas->layout_destroy(c);
    if (desc != nullptr) blas->desc_destroy(desc);
  }
};

cudaDataType_t TypeOf(Numbers numbers) {
  switch (numbers) {
    case Numbers::kBf16:
      return CUDA_R_16BF;
    case Numbers::kFp16:
      return CUDA_R_16F;
    case Numbers::kFp32:
      return CUDA_R_32F;
    case Numbers::kFp8:
      return CUDA_R_8F_E4M3;
  }
  return CUDA_R_16BF;
}

// --- NCCL ---

struct Nccl {
  Loaded library;
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetErrorString) text = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommSplit) split = nullptr;
  decltype(&ncclCommGetAsyncError) state = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;

  bool Open(const std::vector<std::string>& folders) {
    library = Load(folders, {"libnccl.so.2"}, RTLD_NOW | RTLD_LOCAL);
    const bool all =
        Find(library, "ncclGetVersion", &version) && Find(library, "ncclGetErrorString", &text) &&
        Find(library, "ncclGetUniqueId", &unique_id) &&
        Find(library, "ncclCommInitRankConfig", &init) && Find(library, "ncclCommSplit", &split) &&
        Find(library, "ncclCommGetAsyncError", &state) &&
        Find(library, "ncclCommDestroy", &destroy) && Find(library, "ncclCommAbort", &abort) &&
        Find(library, "ncclGroupStart", &group_start) &&
        Find(library, "ncclGroupEnd", &group_end) && Find(library, "ncclAllReduce", &all_reduce) &&
        Find(library, "ncclAllGather", &all_gather) &&
        Find(library, "ncclReduceScatter", &reduce_scatter) &&
        Find(library, "ncclBroadcast", &broadcast) && Find(library, "ncclSend", &send) &&
        Find(library, "ncclRecv", &receive);
    if (!all && library.missing.empty()) {
      library.missing = library.path + " is older than NCCL 2.18, which brought ncclCommSplit";
    }
    return all;
  }
};

ncclDataType_t TypeOf(Element element) {
  switch (element) {
    case Element::kBf16:
      return ncclBfloat16;
    case Element::kFp16:
      return ncclFloat16;
    case Element::kFp32:
      return ncclFloat32;
    case Element::kByte:
      return ncclUint8;
  }
  return ncclUint8;
}

// --- NVML: no header of it here; the few functions and constants below are its documented ABI. ---

struct NvmlProcess {
  unsigned pid = 0;
  unsigned long long used_memory = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
struct Nvml {
  Loaded library;
  int (*init)() = nullptr;
  int (*by_bus)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*power_limit)(void*, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*processes)(void*, unsigned*, NvmlProcess*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  bool works = false;
  std::map<int, void*> devices;

  void Open(const std::vector<std::string>& folders) {
    library = Load(folders, {"libnvidia-ml.so.1"}, RTLD_NOW | RTLD_LOCAL);
    Find(library, "nvmlDeviceGetClockInfo", &clock);
    Find(library, "nvmlDeviceGetEnforcedPowerLimit", &power_limit);
    Find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &reasons);
    Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &processes);
    Find(library, "nvmlSystemGetDriverVersion", &driver);
    works = Find(library, "nvmlInit_v2", &init) &&
            Find(library, "nvmlDeviceGetHandleByPciBusId_v2", &by_bus) && init() == 0;
    if (!works && library.missing.empty()) library.missing = library.path + " does not initialise";
  }
};

class RealApi : public Api {
 public:
  explicit RealApi(const std::string& libraries) {
    const char* more = std::getenv("AURUM_CUDA_LIBS");
    for (const std::string& list : {libraries, std::string(more == nullptr ? "" : more)}) {
      std::size_t begin = 0;
      while (begin < list.size()) {
        const std::size_t end = std::min(list.find(':', begin), list.size());
        if (end > begin) folders_.push_back(list.substr(begin, end - begin));
        begin = end + 1;
      }
    }
  }
  ~RealApi() override {
    if (abandoned()) return;
    for (const auto& [device, handle] : blas_.handles) blas_.destroy(handle);
    if (cudnn_ != nullptr) CudnnClose(cudnn_);
    // The libraries stay loaded: unloading them beside a live context is asking for trouble.
  }

  std::vector<std::pair<std::string, std::string>> Versions() override {
    std::vector<std::pair<std::string, std::string>> versions;
    const auto dotted = [](int version, int major, int minor) {
      return std::to_string(version / major) + "." + std::to_string(version % major / minor) +
             (minor > 1 && version % minor / 10 == 0 && major == 1000
                  ? ""
                  : "." + std::to_string(version % minor));
    };
    versions.emplace_back("CUDA runtime", dotted(CUDART_VERSION, 1000, 10));
    int driver = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) {
      versions.emplace_back("CUDA of the driver", dotted(driver, 1000, 10));
    }
    char text[96] = {};
    if (NvmlLoaded() && nvml_.driver != nullptr && nvml_.driver(text, sizeof text) == 0) {
      versions.emplace_back("driver", text);
    }
    if (BlasLoaded()) {
      const auto version = static_cast<int>(blas_.version());
      versions.emplace_back("cuBLASLt", dotted(version, 10000, 100));
    }
    if (CudnnLoaded()) {
      versions.emplace_back("cuDNN", dotted(static_cast<int>(CudnnVersion(cudnn_)), 10000, 100));
    }
    int nccl = 0;
    if (NcclLoaded() && nccl_.version(&nccl) == ncclSuccess) {
      versions.emplace_back("NCCL", dotted(nccl, 10000, 100));
    }
    return versions;
  }
  std::string Missing(Library library) override {
    switch (library) {
      case Library::kCuda:
        return "";
      case Library::kCublas:
        return BlasLoaded() ? "" : blas_.library.missing;
      case Library::kCudnn:
        return CudnnLoaded() ? "" : cudnn_library_.missing;
      case Library::kNccl:
        return NcclLoaded() ? "" : nccl_.library.missing;
      case Library::kNvml:
        return NvmlLoaded() ? "" : nvml_.library.missing;
    }
    return "";
  }

  Result DeviceCount(int* count) override { return Cuda(cudaGetDeviceCount(count)); }
  Result Properties(int device, DeviceProperties* out) override {
    cudaDeviceProp properties{};
    if (Result r = Cuda(cudaGetDeviceProperties(&properties, device)); !r.ok()) return r;
    out->name = properties.name;
    out->memory_bytes = static_cast<double>(properties.totalGlobalMem);
    out->l2_bytes = properties.l2CacheSize;
    out->sm_count = properties.multiProcessorCount;
    out->major = properties.major;
    out->minor = properties.minor;
    int clock_khz = 0, bus_bits = 0;
    if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, device) == cudaSuccess &&
        cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, device) == cudaSuccess) {
      // Two transfers a clock and pin: what CUDA's own deviceQuery sample shows.
      out->memory_bandwidth_bytes_per_s = 2.0 * clock_khz * 1e3 * bus_bits / 8.0;
    }
    char bus[32] = {};
    if (Result r = Cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, device)); !r.ok()) return r;
    out->pci_bus = bus;
    return {};
  }
  Result SetDevice(int device) override { return Cuda(cudaSetDevice(device)); }
  Result MemoryInfo(std::size_t* free_bytes, std::size_t* total_bytes) override {
    return Cuda(cudaMemGetInfo(free_bytes, total_bytes));
  }
  Result Allocate(MemoryPlace place, std::size_t bytes, void** memory) override {
    return Cuda(place == MemoryPlace::kDevice
                    ? cudaMalloc(memory, bytes)
                    : cudaHostAlloc(memory, bytes, cudaHostAllocPortable));
  }
  void Free(MemoryPlace place, void* memory) override {
    place == MemoryPlace::kDevice ? cudaFree(memory) : cudaFreeHost(memory);
  }
  Result CardFacts(int device, CardState* state) override {
    if (!NvmlLoaded()) return MissingResult(Library::kNvml);
    void*& handle = nvml_.devices[device];
    if (handle == nullptr) {
      char bus[32] = {};
      if (Result r = Cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, device)); !r.ok()) return r;
      if (const int code = nvml_.by_bus(bus, &handle); code != 0) {
        return {code, Library::kNvml, "no device at " + std::string(bus)};
      }
    }
    unsigned value = 0;
    if (nvml_.clock != nullptr && nvml_.clock(handle, 1, &value) == 0) state->sm_clock_mhz = value;
    if (nvml_.power_limit != nullptr && nvml_.power_limit(handle, &value) == 0) {
      state->power_limit_w = value / 1000.0;
    }
    unsigned long long reasons = 0;
    if (nvml_.reasons != nullptr && nvml_.reasons(handle, &reasons) == 0) {
      state->throttle_reasons = reasons;
    }
    std::array<NvmlProcess, 64> processes{};
    unsigned count = processes.size();
    if (nvml_.processes != nullptr && nvml_.processes(handle, &count, processes.data()) == 0) {
      for (unsigned i = 0; i < count && i < processes.size(); ++i) {
        if (processes[i].pid != static_cast<unsigned>(getpid())) {
          state->processes.push_back(processes[i].pid);
        }
      }
    }
    return {};
  }
  Result CanAccessPeer(int device, int peer, bool* can) override {
    int value = 0;
    const Result r = Cuda(cudaDeviceCanAccessPeer(&value, device, peer));
    *can = value != 0;
    return r;
  }
  Result EnablePeer(int peer) override {
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      cudaGetLastError();
      return {};
    }
    return Cuda(error);
  }

  Result StreamCreate(Stream* stream) override {
    cudaStream_t made = nullptr;
    const Result r = Cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    *stream = made;
    return r;
  }
  void StreamDestroy(Stream stream) override { cudaStreamDestroy(S(stream)); }
  Result EventCreate(bool timing, Event* event) override {
    cudaEvent_t made = nullptr;
    const Result r =
        Cuda(cudaEventCreateWithFlags(&made, timing ? cudaEventDefault : cudaEventDisableTiming));
    *event = made;
    return r;
  }
  void EventDestroy(Event event) override { cudaEventDestroy(E(event)); }
  Result EventRecord(Event event, Stream stream) override {
    return Cuda(cudaEventRecord(E(event), S(stream)));
  }
  Result StreamWait(Stream stream, Event event) override {
    return Cuda(cudaStreamWaitEvent(S(stream), E(event), 0));
  }
  Result EventQuery(Event event) override { return Cuda(cudaEventQuery(E(event))); }
  Result EventSeconds(Event start, Event end, double* seconds) override {
    float ms = 0;
    const Result r = Cuda(cudaEventElapsedTime(&ms, E(start), E(end)));
    *seconds = ms * 1e-3;
    return r;
  }
  Result CaptureBegin(Stream stream) override {
    return Cuda(cudaStreamBeginCapture(S(stream), cudaStreamCaptureModeThreadLocal));
  }
  Result CaptureEnd(Stream stream, GraphRun* graph) override {
    cudaGraph_t captured = nullptr;
    if (Result r = Cuda(cudaStreamEndCapture(S(stream), &captured)); !r.ok()) {
      if (captured != nullptr) cudaGraphDestroy(captured);
      return r;
    }
    cudaGraphExec_t made = nullptr;
    const Result r = Cuda(cudaGraphInstantiate(&made, captured, 0));
    cudaGraphDestroy(captured);
    *graph = made;
    return r;
  }
  Result GraphLaunch(GraphRun graph, Stream stream) override {
    return Cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), S(stream)));
  }
  void GraphDestroy(GraphRun graph) override {
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
  }

  Result Copy(CopyDirection direction, void* to, const void* from, std::size_t bytes,
              Stream stream) override {
    const cudaMemcpyKind kind = direction == CopyDirection::kToDevice ? cudaMemcpyHostToDevice
                                : direction == CopyDirection::kToHost ? cudaMemcpyDeviceToHost
                                                                      : cudaMemcpyDeviceToDevice;
    return Cuda(cudaMemcpyAsync(to, from, bytes, kind, S(stream)));
  }
  Result CopyPeer(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                  Stream stream) override {
    return Cuda(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, S(stream)));
  }
  Result FillNormal(void* memory, std::size_t elements, Numbers numbers, std::uint64_t seed,
                    Stream stream) override {
    return Cuda(kernels::FillNormal(memory, elements, static_cast<int>(numbers), seed, stream));
  }
  Result ReadWrite(const void* from, void* to, std::size_t bytes, Stream stream) override {
    return Cuda(kernels::ReadWrite(from, to, bytes, stream));
  }
  Result SoftmaxForward(const void* scores, void* probabilities, void* stats, std::size_t rows,
                        int columns, int row_period, bool causal, bool bf16,
                        Stream stream) override {
    return Cuda(kernels::SoftmaxForward(scores, probabilities, static_cast<float*>(stats), rows,
                                        columns, row_period, causal, bf16, stream));
  }
  Result SoftmaxBackward(const void* probabilities, const void* gradient, void* result,
                         std::size_t rows, int columns, double scale, bool bf16,
                         Stream stream) override {
    return Cuda(kernels::SoftmaxBackward(probabilities, gradient, result, rows, columns,
                                         static_cast<float>(scale), bf16, stream));
  }
  Result Empty(Stream stream) override { return Cuda(kernels::Empty(stream)); }
  Result StampTime(void* device_time, Stream stream) override {
    return Cuda(kernels::StampTime(device_time, stream));
  }
  Result Delay(const void* device_time, double not_before_s, double for_s, Stream stream) override {
    const auto ns = [](double seconds) {
      return static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 10.0) * 1e9);
    };
    return Cuda(kernels::Delay(device_time, ns(not_before_s), ns(for_s), stream));
  }
  Result Compare(const void* a, const void* b, std::size_t elements, Numbers numbers,
                 double* device_sums, Stream stream) override {
    return Cuda(kernels::Compare(a, b, elements, static_cast<int>(numbers), device_sums, stream));
  }
  Result Hash(const void* memory, std::size_t bytes, std::uint64_t* device_hash,
              Stream stream) override {
    return Cuda(kernels::Hash(memory, bytes, device_hash, stream));
  }

  Result GemmCreate(const GemmLayout& layout, std::size_t workspace_bytes, int most, Gemm* gemm,
                    int* algorithms) override {
    if (!BlasLoaded()) return MissingResult(Library::kCublas);
    int device = 0;
    if (Result r = Cuda(cudaGetDevice(&device)); !r.ok()) return r;
    cublasLtHandle_t& handle = blas_.handles[device];
    if (handle == nullptr) {
      if (Result r = BlasResult(blas_.create(&handle)); !r.ok()) return r;
    }
    auto made = std::make_unique<RealGemm>();
    made->blas = &blas_;
    made->handle = handle;
    made->scaled = layout.in == Numbers::kFp8;
    Result r = BlasResult(blas_.desc_create(&made->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      if (r.ok()) r = BlasResult(blas_.desc_set(made->desc, attribute, &value, sizeof value));
    };
    const cublasOperation_t a_op = layout.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t b_op = layout.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, a_op);
    set(CUBLASLT_MATMUL_DESC_TRANSB, b_op);
    const auto shape = [&](cublasLtMatrixLayout_t* out, Numbers numbers, std::int64_t rows,
                           std::int64_t columns, std::int64_t ld, std::int64_t stride) {
      if (r.ok()) {
        r = BlasResult(blas_.layout_create(out, TypeOf(numbers), static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(columns), ld));
      }
      if (r.ok() && layout.batch > 1) {
        const auto batch = static_cast<std::int32_t>(layout.batch);
        r = BlasResult(
            blas_.layout_set(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
        if (r.ok()) {
          r = BlasResult(blas_.layout_set(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &stride, sizeof stride));
        }
      }
    };
    shape(&made->a, layout.in, layout.a_rows, layout.a_columns, layout.lda, layout.stride_a);
    shape(&made->b, layout.in, layout.b_rows, layout.b_columns, layout.ldb, layout.stride_b);
    shape(&made->c, layout.out, layout.rows, layout.columns, layout.ldc, layout.stride_c);
    cublasLtMatmulPreference_t preference = nullptr;
    if (r.ok()) r = BlasResult(blas_.preference_create(&preference));
    if (r.ok()) {
      r = BlasResult(blas_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                          &workspace_bytes, sizeof workspace_bytes));
    }
    if (r.ok()) {
      made->algorithms.resize(static_cast<std::size_t>(most));
      int found = 0;
      r = BlasResult(blas_.heuristic(handle, made->desc, made->a, made->b, made->c, made->c,
                                     preference, most, made->algorithms.data(), &found));
      made->algorithms.resize(static_cast<std::size_t>(r.ok() ? found : 0));
      std::erase_if(made->algorithms,
                    [](const auto& a) { return a.state != CUBLAS_STATUS_SUCCESS; });
      if (r.ok() && made->algorithms.empty()) {
        r = BlasResult(CUBLAS_STATUS_NOT_SUPPORTED);
      }
    }
    if (preference != nullptr) blas_.preference_destroy(preference);
    if (!r.ok()) return r;
    *algorithms = static_cast<int>(made->algorithms.size());
    *gemm = made.release();
    return {};
  }
  Result GemmRun(Gemm gemm, int algorithm, double alpha, const void* a, const void* b, void* c,
                 const void* unit_scale, void* workspace, std::size_t workspace_bytes,
                 Stream stream) override {
    auto* product = static_cast<RealGemm*>(gemm);
    if (product->scaled && product->scale_set != unit_scale) {
      for (const auto attribute :
           {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER}) {
        if (Result r = BlasResult(
                blas_.desc_set(product->desc, attribute, &unit_scale, sizeof unit_scale));
            !r.ok()) {
          return r;
        }
      }
      product->scale_set = unit_scale;
    }
    const auto scale = static_cast<float>(alpha);
    const float zero = 0;
    return BlasResult(blas_.matmul(product->handle, product->desc, &scale, a, product->a, b,
                                   product->b, &zero, c, product->c, c, product->c,
                                   &product->algorithms[static_cast<std::size_t>(algorithm)].algo,
                                   workspace, workspace_bytes, S(stream)));
  }
  void GemmDestroy(Gemm gemm) override { delete static_cast<RealGemm*>(gemm); }

  Result SdpaCreate(const SdpaShape& shape, Sdpa* sdpa, std::size_t* workspace_bytes) override {
    if (!CudnnLoaded()) return MissingResult(Library::kCudnn);
    return CudnnCreate(cudnn_, shape, sdpa, workspace_bytes);
  }
  Result SdpaRun(Sdpa sdpa, const SdpaBuffers& buffers, void* workspace, Stream stream) override {
    return CudnnRun(cudnn_, sdpa, buffers, workspace, stream);
  }
  void SdpaDestroy(Sdpa sdpa) override { CudnnDestroy(cudnn_, sdpa); }

  Result NcclUniqueId(NcclId* id) override {
    if (!NcclLoaded()) return MissingResult(Library::kNccl);
    return NcclResult(nccl_.unique_id(reinterpret_cast<ncclUniqueId*>(id)));
  }
  Result CommInit(int ranks, const NcclId& id, int rank, Comm* comm) override {
    if (!NcclLoaded()) return MissingResult(Library::kNccl);
    ncclUniqueId unique{};
    std::copy(std::begin(id.bytes), std::end(id.bytes), std::begin(unique.internal));
    ncclConfig_t config = Config();
    ncclComm_t made = nullptr;
    const Result r = NcclResult(nccl_.init(&made, ranks, unique, rank, &config));
    *comm = made;
    return r;
  }
  Result CommSplit(Comm parent, int color, int key, Comm* comm) override {
    ncclConfig_t config = Config();
    ncclComm_t made = nullptr;
    const Result r = NcclResult(nccl_.split(C(parent), color, key, &made, &config));
    // Non-blocking: the child may be written later, when the parent is ready again.
    for (int i = 0; r.code == kInProgress && i < 600000; ++i) {
      ncclResult_t state = ncclSuccess;
      if (nccl_.state(C(parent), &state) != ncclSuccess || state != ncclInProgress) break;
      usleep(100);
    }
    *comm = made;
    return r;
  }
  Result CommState(Comm comm) override {
    ncclResult_t state = ncclSuccess;
    if (Result r = NcclResult(nccl_.state(C(comm), &state)); !r.ok()) return r;
    return NcclResult(state);
  }
  void CommDestroy(Comm comm) override { nccl_.destroy(C(comm)); }
  void CommAbort(Comm comm) override { nccl_.abort(C(comm)); }
  Result GroupStart() override {
    if (!NcclLoaded()) return MissingResult(Library::kNccl);
    return NcclResult(nccl_.group_start());
  }
  Result GroupEnd() override { return NcclResult(nccl_.group_end()); }
  Result AllReduce(void* data, std::size_t count, Element element, Comm comm,
                   Stream stream) override {
    return NcclResult(
        nccl_.all_reduce(data, data, count, TypeOf(element), ncclSum, C(comm), S(stream)));
  }
  Result AllGather(const void* from, void* to, std::size_t sent, Element element, Comm comm,
                   Stream stream) override {
    return NcclResult(nccl_.all_gather(from, to, sent, TypeOf(element), C(comm), S(stream)));
  }
  Result ReduceScatter(const void* from, void* to, std::size_t received, Element element, Comm comm,
                       Stream stream) override {
    return NcclResult(
        nccl_.reduce_scatter(from, to, received, TypeOf(element), ncclSum, C(comm), S(stream)));
  }
  Result Broadcast(void* data, std::size_t count, Element element, int root, Comm comm,
                   Stream stream) override {
    return NcclResult(
        nccl_.broadcast(data, data, count, TypeOf(element), root, C(comm), S(stream)));
  }
  Result Send(const void* data, std::size_t bytes, int peer, Comm comm, Stream stream) override {
    return NcclResult(nccl_.send(data, bytes, ncclUint8, peer, C(comm), S(stream)));
  }
  Result Receive(void* data, std::size_t bytes, int peer, Comm comm, Stream stream) override {
    return NcclResult(nccl_.receive(data, bytes, ncclUint8, peer, C(comm), S(stream)));
  }

 private:
  bool BlasLoaded() {
    if (!blas_tried_) blas_loaded_ = blas_.Open(folders_);
    blas_tried_ = true;
    return blas_loaded_;
  }
  bool NcclLoaded() {
    if (!nccl_tried_) nccl_loaded_ = nccl_.Open(folders_);
    nccl_tried_ = true;
    return nccl_loaded_;
  }
  bool NvmlLoaded() {
    if (!nvml_tried_) nvml_.Open(folders_);
    nvml_tried_ = true;
    return nvml_.works;
  }
  bool CudnnLoaded() {
    if (cudnn_tried_) return cudnn_ != nullptr;
    cudnn_tried_ = true;
    if (std::getenv("AURUM_NO_CUDNN") != nullptr) {
      cudnn_library_.missing = "switched off by AURUM_NO_CUDNN";
      return false;
    }
    // cuDNN looks for this one by name when it compiles a kernel: where ours are, it may not.
    nvrtc_ = Load(folders_, {"libnvrtc.so.13", "libnvrtc.so.12"}, RTLD_NOW | RTLD_GLOBAL);
    cudnn_library_ = Load(folders_, {"libcudnn.so.9"}, RTLD_NOW | RTLD_GLOBAL);
    if (cudnn_library_.handle == nullptr) return false;
    cudnn_ = CudnnOpen(cudnn_library_.handle,
                       [](void* library, const char* name) { return dlsym(library, name); });
    if (cudnn_ == nullptr) cudnn_library_.missing = cudnn_library_.path + " does not initialise";
    return cudnn_ != nullptr;
  }
  Result NcclResult(ncclResult_t result) const {
    if (result == ncclSuccess) return {};
    return {static_cast<int>(result), Library::kNccl, nccl_.text(result)};
  }
  static ncclConfig_t Config() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }

  std::vector<std::string> folders_;
  Blas blas_;
  Nccl nccl_;
  Nvml nvml_;
  Loaded cudnn_library_, nvrtc_;
  Cudnn* cudnn_ = nullptr;
  bool blas_tried_ = false, blas_loaded_ = false, nccl_tried_ = false, nccl_loaded_ = false;
  bool nvml_tried_ = false, cudnn_tried_ = false;
};

}  // namespace

std::unique_ptr<Api> MakeRealApi(const std::string& libraries) {
  return std::make_unique<RealApi>(libraries);
}

}  // namespace aurum::cuda
