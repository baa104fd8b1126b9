#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "calibrate/cuda/cuda_bench.h"
#include "calibrate/cuda/gemm_layout.h"
#include "calibrate/cuda/nccl_group.h"
#include "calibrate/cuda/primitives.h"
#include "real/cuda/communicators.h"
#include "real/cuda/cuda_backend.h"
#include "real/job_folder.h"
#include "sim/core/diagnostic.h"
#include "tests/real/cuda/fake_api.h"

#ifdef AURUM_TEST_CUDNN
#include <dlfcn.h>

#include "calibrate/cuda/cudnn.h"
#endif

// The host's side of CUDA, over a fake of its libraries: no GPU is needed, and none is used.
namespace aurum {
namespace {

using cuda::FakeApi;
using cuda::FakeState;
using cuda::GemmLayout;
using cuda::Library;
using cuda::Numbers;

Kernel Gemm(double m, double n, double k, DType dtype = DType::kBf16) {
  Kernel kernel;
  kernel.kind = KernelKind::kGemm;
  kernel.m = m, kernel.n = n, kernel.k = k;
  kernel.dtype = dtype;
  return kernel;
}

Kernel Attention(bool backward) {
  Kernel kernel;
  kernel.kind = backward ? KernelKind::kAttentionBackward : KernelKind::kAttentionForward;
  kernel.sequences = 2, kernel.heads = 8, kernel.kv_heads = 2;
  kernel.q_len = kernel.kv_len = 512;
  kernel.head_dim = 64;
  kernel.causal = true;
  return kernel;
}

std::optional<Diagnostic> Thrown(const std::function<void()>& body, ExitCode* exit = nullptr) {
  try {
    body();
  } catch (const InputError& error) {
    if (exit != nullptr) *exit = error.exit_code();
    return error.diagnostic();
  }
  return std::nullopt;
}

std::unique_ptr<Bench> BenchOf(FakeState* state, bool beside_others = false) {
  CudaBenchOptions options;
  options.beside_others = beside_others;
  return MakeCudaBench(options, std::make_unique<FakeApi>(state));
}

TEST_CASE("layouts of products: what is stored, what is transposed, leading dimensions") {
  // y[8, 16] = x[8, 32] · w[16, 32]ᵀ: yᵀ = w · xᵀ, both stored with 32 in a column.
  const GemmLayout forward = cuda::LayoutOf(GemmRole::kForward, 8, 16, 32, 1, Numbers::kBf16);
  CHECK(forward.rows == 16);
  CHECK(forward.columns == 8);
  CHECK(forward.inner == 32);
  CHECK(forward.transpose_a);
  CHECK_FALSE(forward.transpose_b);
  CHECK(forward.a_rows == 32);
  CHECK(forward.a_columns == 16);
  CHECK(forward.lda == 32);
  CHECK(forward.ldb == 32);
  CHECK(forward.ldc == 16);
  // dx[8, 16] = dy[8, 32] · w[32, 16].
  const GemmLayout input = cuda::LayoutOf(GemmRole::kInputGradient, 8, 16, 32, 3, Numbers::kFp32);
  CHECK_FALSE(input.transpose_a);
  CHECK_FALSE(input.transpose_b);
  CHECK(input.lda == 16);
  CHECK(input.ldb == 32);
  CHECK(input.stride_a == 16 * 32);
  CHECK(input.stride_b == 8 * 32);
  CHECK(input.stride_c == 8 * 16);
  CHECK(input.b_bytes() == 4.0 * 3 * 8 * 32);
  // dw[8, 16] = dy[32, 8]ᵀ · x[32, 16].
  const GemmLayout weight = cuda::LayoutOf(GemmRole::kWeightGradient, 8, 16, 32, 1, Numbers::kBf16);
  CHECK_FALSE(weight.transpose_a);
  CHECK(weight.transpose_b);
  CHECK(weight.lda == 16);
  CHECK(weight.ldb == 8);
  CHECK(weight.b_rows == 8);
  CHECK(weight.b_columns == 32);
  // Eight bits: multiples of 16, transposed whatever the role, and bf16 comes out.
  const GemmLayout narrow = cuda::LayoutOf(GemmRole::kWeightGradient, 17, 16, 1, 1, Numbers::kFp8);
  CHECK(narrow.columns == 32);
  CHECK(narrow.inner == 16);
  CHECK(narrow.transpose_a);
  CHECK_FALSE(narrow.transpose_b);
  CHECK(narrow.out == Numbers::kBf16);
}

TEST_CASE("sizes of collectives follow nccl-tests") {
  using enum CollectiveKind;
  // 1 MiB of bf16 among 8: half a million elements, an eighth of them each.
  CHECK(cuda::SizesOf(kAllReduce, 8, 1 << 20, cuda::Element::kBf16).count == 524288);
  CHECK(cuda::SizesOf(kAllGather, 8, 1 << 20, cuda::Element::kBf16).count == 65536);
  CHECK(cuda::SizesOf(kReduceScatter, 8, 1 << 20, cuda::Element::kFp32).count == 32768);
  CHECK(cuda::SizesOf(kAllToAll, 8, 1 << 20, cuda::Element::kBf16).buffer == 1 << 20);
  CHECK(cuda::SizesOf(kAllGather, 8, 10, cuda::Element::kBf16).count == 1);  // never nothing
}

TEST_CASE("a bench asks everything, and gives everything back") {
  FakeState state;
  {
    const auto bench = BenchOf(&state);
    const BenchDevice device = bench->Describe();
    CHECK(device.backend == "cuda");
    CHECK(device.facts.compute_capability == 9.0);
    CHECK(std::find(device.dtypes.begin(), device.dtypes.end(), DType::kFp8) !=
          device.dtypes.end());
    const Samples gemm = bench->Time(Gemm(256, 256, 256), 3);
    CHECK(gemm.seconds.size() == 3);
    CHECK(gemm.clock_mhz == 1980);
    CHECK(bench->Time(Attention(false), 2).seconds.size() == 2);
    CHECK(bench->Time(Attention(true), 2).seconds.size() == 2);
    CHECK(state.sdpa_runs > 0);
    CHECK(bench->Time(Gemm(64, 64, 64, DType::kNvfp4), 2).seconds.empty());
    CHECK(bench->LaunchGap(true, 2).seconds.size() == 2);
    CHECK(bench->Copy(CopyKind::kHostToDevice, 1e6, 2).seconds.size() == 2);
    CHECK(bench->Copy(CopyKind::kPeer, 1e6, 2).seconds.empty());  // one GPU
    CHECK(bench->Collective(CollectiveKind::kAllReduce, 2, 1e6, DType::kBf16, 2).seconds.empty());
    CHECK(bench->BurnFor(Gemm(256, 256, 256), 0).first_s > 0);
  }
  CHECK(state.Live() == 0);
}

TEST_CASE("two GPUs: collectives, peers, kernels beside collectives") {
  FakeState state;
  state.devices = 2;
  {
    const auto bench = BenchOf(&state);
    CHECK(bench->Collective(CollectiveKind::kAllToAll, 2, 4096, DType::kBf16, 2).seconds.size() ==
          2);
    CHECK(std::count(state.log.begin(), state.log.end(), "send 2048 to 1") > 0);
    CHECK(bench->Copy(CopyKind::kPeer, 1e6, 2).seconds.size() == 2);
    CHECK(bench->Beside(Gemm(256, 256, 256), CollectiveKind::kAllReduce, 1e6, 2).seconds.size() ==
          2);
    CHECK(bench->Collective(CollectiveKind::kAllReduce, 4, 1e6, DType::kBf16, 2).seconds.empty());
  }
  CHECK(state.Live() == 0);
}

// Runs `body` once for every call that it makes, with that call failing.
void EveryFailure(int devices, const std::function<void(FakeState*)>& body) {
  FakeState counting;
  counting.devices = devices;
  body(&counting);
  CHECK(counting.Live() == 0);
  REQUIRE(counting.calls > 20);
  for (long n = 1; n <= counting.calls; ++n) {
    FakeState state;
    state.devices = devices;
    state.fail_at = n;
    const std::optional<Diagnostic> error = Thrown([&] { body(&state); });
    CAPTURE(n);
    CAPTURE(state.failed);
    if (state.failed.empty()) continue;  // the count of polls may differ
    // A failure of the device is never swallowed, one of NCCL neither. Without NVML no clocks are
    // noted, without cuDNN attention is made of products, and a product without an algorithm is
    // left out.
    if (state.failed_library == Library::kCuda && state.failed != "CanAccessPeer") {
      REQUIRE(error);
      CHECK(error->code == 943);
      CHECK(error->message.find("700") != std::string::npos);
      CHECK_FALSE(error->help.empty());
    } else if (state.failed_library == Library::kNccl) {
      REQUIRE(error);
      CHECK(error->code == 947);
    } else if (error) {
      CHECK(error->code >= 945);
      CHECK(error->code <= 946);
    }
    CHECK(state.Live() == 0);
  }
}

TEST_CASE("every call of a bench failing in turn: told, and nothing left") {
  EveryFailure(1, [](FakeState* state) {
    const auto bench = BenchOf(state);
    bench->Time(Gemm(64, 64, 64), 1);
    bench->Time(Attention(true), 1);
    bench->LaunchGap(true, 1);
    bench->Copy(CopyKind::kDeviceToHost, 1e8, 1);
    bench->BurnFor(Gemm(64, 64, 64), 0);
    bench->Describe();
  });
  EveryFailure(2, [](FakeState* state) {
    const auto bench = BenchOf(state);
    bench->Collective(CollectiveKind::kReduceScatter, 2, 1e6, DType::kFp32, 1);
    bench->Collective(CollectiveKind::kAllToAll, 2, 1e6, DType::kBf16, 1);
    bench->Copy(CopyKind::kPeer, 1e8, 1);
  });
}

TEST_CASE("no driver, no GPU: exit code 7 and what to do") {
  for (const int code : {cuda::kOldDriver, cuda::kNoDevice}) {
    FakeState state;
    state.fail_at = 1;
    state.fail_code = code;
    ExitCode exit{};
    const auto error = Thrown([&] { BenchOf(&state); }, &exit);
    REQUIRE(error);
    CHECK(error->code == 940);
    CHECK(exit == ExitCode::kNoHardware);
    CHECK_FALSE(error->help.empty());
  }
  FakeState none;
  none.devices = 0;
  ExitCode exit{};
  CHECK(Thrown([&] { BenchOf(&none); }, &exit)->code == 940);
  CHECK(exit == ExitCode::kNoHardware);
}

TEST_CASE("a GPU in use is refused, unless it is said to be all right") {
  FakeState state;
  state.processes = {4711};
  const auto error = Thrown([&] { BenchOf(&state); });
  REQUIRE(error);
  CHECK(error->code == 942);
  CHECK(error->message.find("4711") != std::string::npos);
  CHECK(state.Live() == 0);
  CHECK(BenchOf(&state, true)->Time(Gemm(64, 64, 64), 1).seconds.size() == 1);
}

TEST_CASE("missing libraries: cuBLASLt is told, without the others there is less") {
  FakeState state;
  state.missing = {Library::kCublas};
  ExitCode exit{};
  const auto error = Thrown([&] { BenchOf(&state); }, &exit);
  REQUIRE(error);
  CHECK(error->code == 941);
  CHECK(exit == ExitCode::kNoHardware);
  CHECK(error->message.find("/nowhere") != std::string::npos);
  CHECK(error->help.find("AURUM_CUDA_LIBS") != std::string::npos);
  CHECK(state.Live() == 0);

  FakeState less;
  less.devices = 2;
  less.missing = {Library::kCudnn, Library::kNccl, Library::kNvml};
  const auto bench = BenchOf(&less);
  CHECK(bench->Time(Attention(true), 1).seconds.size() == 1);
  CHECK(less.sdpa_runs == 0);
  CHECK(bench->Collective(CollectiveKind::kAllReduce, 2, 1e6, DType::kBf16, 1).seconds.empty());
  const BenchDevice device = bench->Describe();
  CHECK(device.devices == 1);
  const auto method = std::find_if(device.versions.begin(), device.versions.end(),
                                   [](const auto& v) { return v.first == "attention"; });
  REQUIRE(method != device.versions.end());
  CHECK(method->second.find("products") != std::string::npos);
  CHECK(method->second.find("/nowhere") != std::string::npos);
}

TEST_CASE("cuDNN that computes something else is not believed") {
  FakeState state;
  state.sdpa_error = 0.5;
  const auto bench = BenchOf(&state);
  CHECK(bench->Time(Attention(false), 1).seconds.size() == 1);
  CHECK(state.sdpa_runs == 1);  // the check, and never again
  CHECK(bench->Describe().versions.back().first == "products");
  for (const auto& [what, text] : bench->Describe().versions) {
    if (what == "attention") CHECK(text.find("off ours by 50.0 %") != std::string::npos);
  }
}

TEST_CASE("memory that is not there: what was asked, what is free") {
  FakeState state;
  state.most_bytes = 1 << 29;
  cuda::FakeApi api(&state);
  const auto error = Thrown([&] {
    const cuda::Memory memory(&api, cuda::MemoryPlace::kDevice, std::size_t{1} << 30, "a ring");
  });
  REQUIRE(error);
  CHECK(error->code == 944);
  CHECK(error->message.find("1.00 GiB for a ring asked, 40.00 GiB of 80.00 GiB free") !=
        std::string::npos);
  // Of a bench: that kernel is left out, and the next is measured.
  const auto bench = BenchOf(&state);
  CHECK(bench->Time(Gemm(32768, 32768, 4096), 1).seconds.empty());
  CHECK(bench->Time(Gemm(64, 64, 64), 1).seconds.size() == 1);
}

TEST_CASE("splits: every rank in one group a round, the same rounds in whatever order told") {
  const std::vector<CommunicatorKey> keys = {{{0, 1}, -1}, {{2, 3}, -1}, {{0, 2}, -1},
                                             {{1, 3}, -1}, {{0, 2}, 5},  {{2, 0}, 6}};
  const auto rounds = SplitRounds(keys);
  std::vector<CommunicatorKey> turned(keys.rbegin(), keys.rend());
  turned.insert(turned.end(), keys.begin(), keys.end());
  CHECK(SplitRounds(turned) == rounds);
  std::size_t made = 0;
  for (const auto& round : rounds) {
    std::set<int> seen;
    for (const CommunicatorKey& key : round) {
      for (const int rank : key.ranks) CHECK(seen.insert(rank).second);
      ++made;
    }
  }
  CHECK(made == keys.size());
  CHECK(rounds.size() == 4);  // rank 0 is in four
  CHECK(ReadCommunicators(CommunicatorsText(keys)) == keys);
}

// A rank that computes, reduces with another, sends, receives and waits.
struct SmallJob {
  std::optional<ProgressPage> page;  // which makes a folder one of a job
  Program program;
  RankProgram mine;
  Job job;
  std::filesystem::path folder;

  explicit SmallJob(bool lone) {
    program.kernels = {{Gemm(64, 64, 64), Kernel{}}, {Attention(true)}};
    program.kernels[0][1].bytes = 1e6;
    mine.ranks = lone ? 1 : 2;
    mine.queues = {{Lane::kMain, false}, {Lane::kTp, false}, {Lane::kPpForward, true}};
    mine.groups = {{{0, 1}, "tp 0"}};
    mine.ops.resize(6);
    mine.ops[0].kernels = 0;
    mine.ops[0].repeats = 2;
    mine.ops[1].kind = lone ? RankOpKind::kDelay : RankOpKind::kCollective;
    mine.ops[1].queue = 1;
    mine.ops[1].waits = {0};
    mine.ops[1].group = 0;
    mine.ops[1].collective = CollectiveKind::kAllReduce;
    mine.ops[1].bytes = 4096;
    mine.ops[1].modelled_s = 1e-3;
    mine.ops[2].kernels = 1;
    mine.ops[2].waits = {1};
    mine.ops[3].kind = lone ? RankOpKind::kDelay : RankOpKind::kSend;
    mine.ops[3].queue = 2;
    mine.ops[3].peers = {1};
    mine.ops[3].bytes = 1000;
    mine.ops[4].kind = lone ? RankOpKind::kDelay : RankOpKind::kReceive;
    mine.ops[4].queue = 2;
    mine.ops[4].peers = {1};
    mine.ops[4].bytes = 0;
    mine.ops[5].kind = RankOpKind::kHostTransfer;
    mine.ops[5].bytes = 1e6;
    mine.predicted_peak_bytes = 1e9;
    job.ranks = mine.ranks;
    job.lone_rank = lone ? 0 : -1;
    job.steps = {1, 2, 1};
    folder = std::filesystem::temp_directory_path() /
             ("aurum-cuda-host-" + std::to_string(std::rand()) + (lone ? "l" : "g"));
    std::filesystem::create_directories(folder);
    page.emplace(ProgressPage::Create(folder.string(), 2));
    // What rank 1 would have told.
    RankProgram other = mine;
    other.rank = 1;
    other.ops[3].peers = other.ops[4].peers = {0};
    Rendezvous(folder.string()).Put("nccl-groups-1", CommunicatorsText(CommunicatorsOf(other)));
  }
  ~SmallJob() { std::filesystem::remove_all(folder); }

  RankRun Run(FakeState* state, Progress* progress) const {
    const auto backend =
        MakeCudaBackend(job, Rendezvous(folder.string()), std::make_unique<FakeApi>(state));
    return RunRank(backend.get(), program, mine, job.steps, progress);
  }
};

class TestProgress : public Progress {
 public:
  void At(std::int64_t step, std::size_t) override { step_ = step; }
  bool Stopped() const override { return stopped; }
  bool stopped = false;

 private:
  std::int64_t step_ = 0;
};

TEST_CASE("a rank alone needs no NCCL") {
  FakeState state;
  state.missing = {Library::kNccl};
  TestProgress progress;
  const SmallJob job(true);
  const RankRun run = job.Run(&state, &progress);
  CHECK(run.steps.size() == 2);
  CHECK(run.steps[0].seconds == 2e-3);
  REQUIRE(run.timed.size() == 1);
  CHECK(run.timed[0].size() == 6);
  CHECK(run.facts.device == "fake");
  CHECK(state.log.empty());
  CHECK(state.Live() == 0);
  const auto memory = std::find_if(run.checks.begin(), run.checks.end(),
                                   [](const RunCheck& c) { return c.name == "memory"; });
  REQUIRE(memory != run.checks.end());
  CHECK(memory->passed);
}

TEST_CASE("ranks together: communicators of groups and of each direction, checks of sums") {
  FakeState state;
  state.devices = 2;
  TestProgress progress;
  const SmallJob job(false);
  const RankRun run = job.Run(&state, &progress);
  // The group {0, 1} and both directions of the pair: three rounds.
  CHECK(state.splits == 3);
  CHECK(std::count(state.log.begin(), state.log.end(), "all_reduce 2048") == 4);  // of each step
  CHECK(std::count(state.log.begin(), state.log.end(), "send 1000 to 1") == 4);
  CHECK(std::count(state.log.begin(), state.log.end(), "receive 4 from 0") == 4);
  for (const RunCheck& check : run.checks) {
    if (check.name == "sums" || check.name == "replicas") CHECK(check.passed);
  }
  CHECK(state.Live() == 0);
}

TEST_CASE("every call of a rank failing in turn: told with the rank, and nothing left") {
  for (const bool lone : {true, false}) {
    const SmallJob job(lone);
    EveryFailure(2, [&](FakeState* state) {
      TestProgress progress;
      job.Run(state, &progress);
    });
  }
}

TEST_CASE("an error of NCCL while a step runs ends all communicators") {
  FakeState state;
  state.devices = 2;
  TestProgress progress;
  const SmallJob job(false);
  const auto backend =
      MakeCudaBackend(job.job, Rendezvous(job.folder.string()), std::make_unique<FakeApi>(&state));
  backend->Watch(&progress);
  backend->Prepare(job.program, job.mine);
  backend->BeginStep(0, false);
  state.events_happen = false;
  state.comm_state = {6, Library::kNccl, "remote error"};
  const auto error = Thrown([&] { backend->EndStep(); });
  REQUIRE(error);
  CHECK(error->code == 947);
  CHECK(error->message.find("rank 0") != std::string::npos);
  CHECK(state.aborted == 4);  // of all ranks, a group, two directions
  CHECK(state.live["comm"] == 0);
}

TEST_CASE("a step that does not end is given up when another rank has stopped") {
  FakeState state;
  TestProgress progress;
  const SmallJob job(true);
  const auto backend =
      MakeCudaBackend(job.job, Rendezvous(job.folder.string()), std::make_unique<FakeApi>(&state));
  backend->Watch(&progress);
  backend->Prepare(job.program, job.mine);
  backend->BeginStep(0, false);
  state.events_happen = false;
  progress.stopped = true;
  const auto error = Thrown([&] { backend->EndStep(); });
  REQUIRE(error);
  CHECK(error->code == 948);
}

TEST_CASE("what does not end is told after its time") {
  FakeState state;
  state.events_happen = false;
  cuda::FakeApi api(&state);
  const cuda::OwnedEvent event = cuda::NewEvent(&api, false);
  const auto error = Thrown([&] { cuda::WaitFor(&api, event.get(), 0.01, "a test"); });
  REQUIRE(error);
  CHECK(error->code == 948);
  CHECK(api.abandoned());
}

#ifdef AURUM_TEST_CUDNN
TEST_CASE("cuDNN takes the description of attention, where it is installed") {
  void* library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) library = dlopen(AURUM_TEST_CUDNN, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    MESSAGE("skipped: no libcudnn.so.9");
    return;
  }
  cuda::Cudnn* cudnn =
      cuda::CudnnOpen(library, [](void* l, const char* name) { return dlsym(l, name); });
  REQUIRE(cudnn != nullptr);
  for (const bool backward : {false, true}) {
    for (const bool causal : {false, true}) {
      for (const std::int64_t kv_heads : {8, 2}) {
        cuda::SdpaShape shape{2, 8, kv_heads, 1024, 1024, 128, causal, backward, true};
        CHECK(cuda::CudnnDescribes(cudnn, shape) == "");
      }
    }
  }
  cuda::SdpaShape longer{2, 8, 8, 512, 1024, 128, true, false, true};
  CHECK(cuda::CudnnDescribes(cudnn, longer) != "");
  cuda::CudnnClose(cudnn);
}
#endif

TEST_CASE("the libraries of this machine: an answer, not a crash") {
  CudaBenchOptions options;
  ExitCode exit{};
  const auto error = Thrown([&] { MakeCudaBench(options); }, &exit);
  if (!error) {
    MESSAGE("this machine has a GPU: not measured here");
    return;
  }
  MESSAGE(error->message);
  CHECK(error->code >= 940);
  CHECK(error->code <= 943);
  if (error->code != 943) CHECK(exit == ExitCode::kNoHardware);
}

}  // namespace
}  // namespace aurum
