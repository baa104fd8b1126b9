#include "calibrate/cuda/primitives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "sim/core/diagnostic.h"

namespace aurum::cuda {
namespace {

constexpr std::size_t kAlign = 512;
constexpr std::size_t kGemmWorkspace = std::size_t{64} << 20;
constexpr int kAlgorithms = 8;
// Scores of one part of an unfused attention.
constexpr double kScoreBytes = 1024.0 * 1024 * 1024;
constexpr double kWait = 60;  // seconds for one call, whatever it is

// As device memory is cut for operands.
std::size_t AlignedBytes(double bytes) {
  const auto whole = static_cast<std::size_t>(std::ceil(std::max(bytes, 1.0)));
  return (whole + kAlign - 1) / kAlign * kAlign;
}

double Sum(std::initializer_list<double> operands) {
  double sum = 0;
  for (const double bytes : operands) sum += static_cast<double>(AlignedBytes(bytes));
  return sum;
}

std::int64_t Whole(double size) { return std::max<std::int64_t>(1, std::llround(std::ceil(size))); }

SdpaShape ShapeOf(const Kernel& k) {
  SdpaShape shape;
  shape.batch = Whole(k.sequences);
  shape.kv_heads = Whole(k.kv_heads > 0 ? k.kv_heads : k.heads);
  // Shards of heads may have become uneven by rounding up: a group is whole.
  shape.heads = (Whole(k.heads) + shape.kv_heads - 1) / shape.kv_heads * shape.kv_heads;
  shape.q_len = k.kind == KernelKind::kDecodeAttention ? 1 : Whole(k.q_len);
  shape.kv_len = Whole(k.kv_len);
  shape.head_dim = k.head_dim;
  shape.causal = k.causal && k.kind != KernelKind::kDecodeAttention;
  shape.backward = k.kind == KernelKind::kAttentionBackward;
  shape.bf16 = k.dtype != DType::kFp16;
  return shape;
}

double QueryBytes(const SdpaShape& s) {
  return 2.0 * static_cast<double>(s.batch * s.heads * s.q_len * s.head_dim);
}
double KeyBytes(const SdpaShape& s) {
  return 2.0 * static_cast<double>(s.batch * s.kv_heads * s.kv_len * s.head_dim);
}
double StatsBytes(const SdpaShape& s) {
  return 4.0 * static_cast<double>(s.batch * s.heads * s.q_len);
}

const void* At(const void* memory, double bytes) {
  return static_cast<const char*>(memory) + static_cast<std::size_t>(bytes);
}
void* At(void* memory, double bytes) {
  return static_cast<char*>(memory) + static_cast<std::size_t>(bytes);
}

}  // namespace

void Ring::Reserve(double bytes, double least, const std::string& what, Stream stream) {
  const std::size_t size = AlignedBytes(std::max(bytes, least));
  at_ = 0;
  if (size <= memory_.size()) return;
  memory_ = Memory();  // the old one first: both may not fit
  memory_ = Memory(api_, MemoryPlace::kDevice, size, what);
  if (!numbers_) return;
  const auto elements =
      static_cast<std::size_t>(static_cast<double>(size) / BytesOfNumbers(*numbers_));
  Check(api_, api_->FillNormal(memory_.get(), elements, *numbers_, seed_, stream), what);
}

void* Ring::Take(double bytes) {
  const std::size_t size = AlignedBytes(bytes);
  if (at_ + size > memory_.size()) at_ = 0;
  void* taken = memory_.bytes() + at_;
  at_ += size;
  return taken;
}

UnfusedAttention::UnfusedAttention(Api* api, const SdpaShape& shape) : api_(api), shape_(shape) {
  rows_ = shape.heads / shape.kv_heads * shape.q_len;
  const double one = 2.0 * static_cast<double>(rows_ * shape.kv_len);
  parts_ = shape.batch * shape.kv_heads;
  part_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(kScoreBytes / one), 1, parts_);
}

double UnfusedAttention::ScratchBytes() const {
  const double scores = 2.0 * static_cast<double>(part_ * rows_ * shape_.kv_len);
  return shape_.backward ? Sum({scores, scores}) : Sum({scores});
}

std::vector<GemmLayout> UnfusedAttention::Layouts(std::int64_t heads) const {
  const Numbers numbers = shape_.bf16 ? Numbers::kBf16 : Numbers::kFp16;
  const std::int64_t q = rows_, kv = shape_.kv_len, d = shape_.head_dim;
  std::vector<GemmLayout> layouts = {
      aurum::cuda::LayoutOf(GemmRole::kForward, q, kv, d, heads, numbers),         // S, dP
      aurum::cuda::LayoutOf(GemmRole::kInputGradient, q, d, kv, heads, numbers)};  // O, dQ
  if (shape_.backward) {
    layouts.push_back(
        aurum::cuda::LayoutOf(GemmRole::kWeightGradient, kv, d, q, heads, numbers));  // dK, dV
  }
  return layouts;
}

void UnfusedAttention::Enqueue(const SdpaBuffers& b,
                               const std::map<std::int64_t, Products>& products, void* scratch,
                               void* workspace, std::size_t workspace_bytes, Stream stream) const {
  const double scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim));
  const double q_bytes = 2.0 * static_cast<double>(rows_ * shape_.head_dim);
  const double kv_bytes = 2.0 * static_cast<double>(shape_.kv_len * shape_.head_dim);
  const double score_bytes = 2.0 * static_cast<double>(part_ * rows_ * shape_.kv_len);
  const auto columns = static_cast<int>(shape_.kv_len);
  for (std::int64_t first = 0; first < parts_; first += part_) {
    const std::int64_t heads = std::min(part_, parts_ - first);
    const Products& p = products.at(heads);
    const auto run = [&](const TunedGemm& g, double alpha, const void* weights, const void* rows,
                         void* out) {
      // BLAS sees the transposed product: the second operand of ours is its first.
      Check(api_,
            api_->GemmRun(g.gemm.get(), g.algorithm, alpha, weights, rows, out, nullptr, workspace,
                          workspace_bytes, stream),
            "a product of attention");
    };
    const auto n = static_cast<double>(first);
    const void* q = At(const_cast<const void*>(b.q), n * q_bytes);
    const void* k = At(const_cast<const void*>(b.k), n * kv_bytes);
    const void* v = At(const_cast<const void*>(b.v), n * kv_bytes);
    const auto rows = static_cast<std::size_t>(heads * rows_);
    void* probabilities = scratch;
    run(*p.scores, scale, k, q, probabilities);
    void* stats = b.stats == nullptr || shape_.backward
                      ? nullptr
                      : At(b.stats, 4.0 * n * static_cast<double>(rows_));
    Check(api_,
          api_->SoftmaxForward(probabilities, probabilities, stats, rows, columns,
                               static_cast<int>(shape_.q_len), shape_.causal, shape_.bf16, stream),
          "a softmax");
    if (!shape_.backward) {
      run(*p.output, 1, v, probabilities, At(b.o, n * q_bytes));
      continue;
    }
    const void* d_o = At(const_cast<const void*>(b.d_o), n * q_bytes);
    void* d_scores = At(scratch, static_cast<double>(AlignedBytes(score_bytes)));
    run(*p.d_value, 1, d_o, probabilities, At(b.d_v, n * kv_bytes));
    run(*p.d_probabilities, 1, v, d_o, d_scores);
    Check(api_,
          api_->SoftmaxBackward(probabilities, d_scores, d_scores, rows, columns, scale,
                                shape_.bf16, stream),
          "the gradient of a softmax");
    run(*p.d_query, 1, k, d_scores, At(b.d_q, n * q_bytes));
    run(*p.d_key, 1, q, d_scores, At(b.d_k, n * kv_bytes));
  }
}

struct Primitives::Prepared {
  Kernel kernel;
  bool runs = false;
  std::shared_ptr<TunedGemm> gemm;
  // Attention.
  SdpaShape shape;
  OwnedSdpa fused;
  std::size_t fused_workspace = 0;
  std::optional<UnfusedAttention> unfused;
  std::map<std::int64_t, UnfusedAttention::Products> products;
  Memory stats;  // of a fused backward: from a forward over the same lengths
};

Primitives::Primitives(Api* api, int device, std::uint64_t seed)
    : api_(api), device_(device), seed_(seed), workspace_bytes_(kGemmWorkspace) {
  Check(api_, api_->Properties(device, &properties_), "the facts of GPU " + std::to_string(device));
  Check(api_, api_->SetDevice(device), "taking GPU " + std::to_string(device));
  setup_ = NewStream(api_);
  begin_ = NewEvent(api_, true);
  end_ = NewEvent(api_, true);
  drained_ = NewEvent(api_, false);
  unit_scale_ = Memory(api_, MemoryPlace::kDevice, sizeof(float), "a scale");
  sums_ = Memory(api_, MemoryPlace::kDevice, 3 * sizeof(double), "sums");
  const float one = 1;
  Check(api_,
        api_->Copy(CopyDirection::kToDevice, unit_scale_.get(), &one, sizeof one, setup_.get()),
        "a scale");
  Drain(setup_.get(), "a scale");
}

Primitives::~Primitives() = default;

void Primitives::Drain(Stream stream, const std::string& what) {
  Check(api_, api_->EventRecord(drained_.get(), stream), what);
  WaitFor(api_, drained_.get(), kWait, what);
}

double Primitives::Least() const { return std::max(4.0 * properties_.l2_bytes, 64.0 * 1048576); }

Ring& Primitives::In(Numbers numbers) {
  const auto found = in_.find(numbers);
  if (found != in_.end()) return found->second;
  return in_.emplace(numbers, Ring(api_, numbers, seed_ + static_cast<std::uint64_t>(numbers)))
      .first->second;
}

Ring& Primitives::Out() {
  if (!out_made_) out_ = Ring(api_, std::nullopt, 0);
  out_made_ = true;
  return out_;
}

void* Primitives::WorkspaceOf(Stream stream, std::size_t bytes) {
  Memory& memory = workspaces_[stream];
  if (memory.size() < bytes) {
    if (memory.size() > 0) Drain(stream, "a workspace in use");
    memory = Memory();
    memory = Memory(api_, MemoryPlace::kDevice, bytes, "a workspace");
  }
  return memory.get();
}

void Primitives::ReserveMessages(double bytes) {
  In(Numbers::kBf16).Reserve(bytes, Least(), "messages", setup_.get());
  Drain(setup_.get(), "messages");
}

void* Primitives::Message(double bytes) { return In(Numbers::kBf16).Take(bytes); }

// The fastest of what the heuristic proposes, each run a few times on operands that are not in the
// cache.
std::shared_ptr<TunedGemm> Primitives::Tuned(const GemmLayout& layout) {
  for (const auto& [known, tuned] : gemms_) {
    if (known == layout) return tuned;
  }
  Gemm gemm = nullptr;
  auto tuned = std::make_shared<TunedGemm>();
  tuned->layout = layout;
  const Result created =
      api_->GemmCreate(layout, kGemmWorkspace, kAlgorithms, &gemm, &tuned->algorithms);
  if (!created.ok() && created.library == Library::kCublas && created.code != kMissing) {
    gemms_.emplace_back(layout, nullptr);  // no such product on this device
    return nullptr;
  }
  Check(api_, created, "a product");
  tuned->gemm = OwnedGemm(api_, gemm);
  Ring& in = In(layout.in);
  in.Reserve(Sum({layout.a_bytes(), layout.b_bytes()}), Least(), "operands of a product",
             setup_.get());
  Out().Reserve(Sum({layout.c_bytes()}), Least(), "the result of a product", setup_.get());
  void* workspace = WorkspaceOf(setup_.get(), workspace_bytes_);
  const auto run = [&](int algorithm) {
    return api_->GemmRun(gemm, algorithm, 1, in.Take(layout.a_bytes()), in.Take(layout.b_bytes()),
                         Out().Take(layout.c_bytes()), unit_scale_.get(), workspace, kGemmWorkspace,
                         setup_.get());
  };
  double best = 0;
  Result last;
  for (int a = 0; a < tuned->algorithms; ++a) {
    // Whether it runs at all: a heuristic may propose what then refuses these pointers.
    last = run(a);
    if (!last.ok()) continue;
    int runs = 2;
    double seconds = 0;
    for (int round = 0; round < 2; ++round) {
      Check(api_, api_->EventRecord(begin_.get(), setup_.get()), "timing a product");
      for (int i = 0; i < runs; ++i) Check(api_, run(a), "a product");
      Check(api_, api_->EventRecord(end_.get(), setup_.get()), "timing a product");
      WaitFor(api_, end_.get(), kWait, "a product");
      double total = 0;
      Check(api_, api_->EventSeconds(begin_.get(), end_.get(), &total), "timing a product");
      seconds = total / runs;
      // Hopeless, or timed well enough.
      if (seconds > 1e-3 || (best > 0 && seconds > 2 * best)) break;
      runs = std::clamp(static_cast<int>(1e-3 / std::max(seconds, 1e-6)), 3, 20);
    }
    if (best == 0 || seconds < best) {
      best = seconds;
      tuned->algorithm = a;
    }
  }
  if (best == 0 && !last.ok()) Check(api_, last, "a product, by any of its algorithms");
  gemms_.emplace_back(layout, tuned);
  return tuned;
}

// The three roles compute what they say, on small whole numbers.
void Primitives::SelfCheckGemm() {
  gemm_checked_ = true;
  // 16-bit products of small whole numbers are exact in any order, so every role has one right
  // answer, computed here on the host.
  constexpr int kM = 16, kN = 32, kK = 64;
  const auto number = [](int i, int salt) { return (i * 7 + salt * 3) % 5 - 2; };
  const auto bf16 = [](int value) {
    const auto f = static_cast<float>(value);
    std::uint32_t bits = 0;
    static_assert(sizeof bits == sizeof f);
    std::copy_n(reinterpret_cast<const unsigned char*>(&f), sizeof f,
                reinterpret_cast<unsigned char*>(&bits));
    return static_cast<std::uint16_t>(bits >> 16);
  };
  for (const GemmRole role :
       {GemmRole::kForward, GemmRole::kInputGradient, GemmRole::kWeightGradient}) {
    const GemmLayout layout = LayoutOf(role, kM, kN, kK, 1, Numbers::kBf16);
    // Of ours: left[m, k] (stored k × m for a weight's gradient), right[n, k] or [k, n].
    const bool left_turned = role == GemmRole::kWeightGradient;
    const bool right_turned = role != GemmRole::kForward;
    std::vector<std::uint16_t> left(kM * kK), right(kN * kK), expected(kM * kN), got(kM * kN);
    for (int i = 0; i < kM * kK; ++i) left[static_cast<std::size_t>(i)] = bf16(number(i, 1));
    for (int i = 0; i < kN * kK; ++i) right[static_cast<std::size_t>(i)] = bf16(number(i, 2));
    for (int m = 0; m < kM; ++m) {
      for (int n = 0; n < kN; ++n) {
        int sum = 0;
        for (int k = 0; k < kK; ++k) {
          sum += number(left_turned ? k * kM + m : m * kK + k, 1) *
                 number(right_turned ? k * kN + n : n * kK + k, 2);
        }
        expected[static_cast<std::size_t>(m * kN + n)] = bf16(sum);
      }
    }
    Memory a(api_, MemoryPlace::kDevice, right.size() * 2, "a check of products");
    Memory b(api_, MemoryPlace::kDevice, left.size() * 2, "a check of products");
    Memory c(api_, MemoryPlace::kDevice, got.size() * 2, "a check of products");
    const auto tuned = Tuned(layout);
    if (!tuned) {
      ThrowInput(945, "cuBLASLt has no bf16 product on " + properties_.name,
                 "a GPU of compute capability 8.0 or later", ExitCode::kNoHardware);
    }
    const auto copy = [&](CopyDirection direction, void* to, const void* from, std::size_t bytes) {
      Check(api_, api_->Copy(direction, to, from, bytes, setup_.get()), "a check of products");
    };
    copy(CopyDirection::kToDevice, a.get(), right.data(), a.size());
    copy(CopyDirection::kToDevice, b.get(), left.data(), b.size());
    Check(api_,
          api_->GemmRun(tuned->gemm.get(), tuned->algorithm, 1, a.get(), b.get(), c.get(),
                        unit_scale_.get(), WorkspaceOf(setup_.get(), workspace_bytes_),
                        kGemmWorkspace, setup_.get()),
          "a check of products");
    copy(CopyDirection::kToHost, got.data(), c.get(), c.size());
    Drain(setup_.get(), "a check of products");
    // Sums within ±256 have no more than 8 bits: exact in bf16, whose truncation above is then none.
    if (got != expected) {
      ThrowInput(
          949,
          "products of the role " + GemmRoleName(role) + " come out wrong on " + properties_.name,
          "a driver and a cuBLAS that belong together; times of wrong results are not kept");
    }
  }
}

namespace {

std::string KeyOf(const SdpaShape& s) {
  std::string key = s.backward ? "backward" : "forward";
  key += ", head " + std::to_string(s.head_dim) + (s.causal ? ", causal" : "") +
         (s.bf16 ? "" : ", fp16");
  if (s.heads != s.kv_heads) key += ", " + std::to_string(s.heads / s.kv_heads) + " to a group";
  return key;
}

}  // namespace

// Whether cuDNN computes on a small problem of the kind what our own path does. Its times are not
// believed otherwise.
bool Primitives::FusedWorks(const SdpaShape& asked) {
  const std::string key = KeyOf(asked);
  const auto known = fused_checks_.find(key);
  if (known != fused_checks_.end()) return known->second.empty();
  std::string& reason = fused_checks_[key];
  const std::string missing = api_->Missing(Library::kCudnn);
  if (!missing.empty()) {
    reason = missing;
    return false;
  }
  SdpaShape small = asked;
  small.batch = 2;
  small.kv_heads = 2;
  small.heads = small.kv_heads * (asked.heads / asked.kv_heads);
  small.q_len = small.kv_len = 256;
  const Numbers numbers = small.bf16 ? Numbers::kBf16 : Numbers::kFp16;
  const double q_bytes = QueryBytes(small), kv_bytes = KeyBytes(small);

  // Inputs, two sets of results, products of our path.
  const auto memory = [&](double bytes) {
    return Memory(api_, MemoryPlace::kDevice, AlignedBytes(bytes), "a check of attention");
  };
  Memory q = memory(q_bytes), k = memory(kv_bytes), v = memory(kv_bytes), d_o = memory(q_bytes);
  Memory o = memory(q_bytes), o2 = memory(q_bytes), stats = memory(StatsBytes(small)),
         stats2 = memory(StatsBytes(small));
  Memory d_q = memory(q_bytes), d_k = memory(kv_bytes), d_v = memory(kv_bytes);
  Memory d_q2 = memory(q_bytes), d_k2 = memory(kv_bytes), d_v2 = memory(kv_bytes);
  std::uint64_t salt = seed_ + 17;
  for (const Memory* m : {&q, &k, &v, &d_o}) {
    Check(api_, api_->FillNormal(m->get(), m->size() / 2, numbers, ++salt, setup_.get()),
          "a check of attention");
  }
  const auto ours = [&](bool backward, const SdpaBuffers& buffers) {
    SdpaShape shape = small;
    shape.backward = backward;
    const UnfusedAttention attention(api_, shape);
    std::map<std::int64_t, UnfusedAttention::Products> products;
    const std::vector<GemmLayout> layouts = attention.Layouts(attention.part());
    UnfusedAttention::Products& p = products[attention.part()];
    p.scores = p.d_probabilities = Tuned(layouts[0]);
    p.output = p.d_query = Tuned(layouts[1]);
    if (backward) p.d_key = p.d_value = Tuned(layouts[2]);
    if (!p.scores || !p.output || (backward && !p.d_key)) return false;
    Memory scratch = memory(attention.ScratchBytes());
    attention.Enqueue(buffers, products, scratch.get(), WorkspaceOf(setup_.get(), workspace_bytes_),
                      kGemmWorkspace, setup_.get());
    Drain(setup_.get(), "a check of attention");
    return true;
  };
  SdpaBuffers reference;
  reference.q = q.get(), reference.k = k.get(), reference.v = v.get();
  reference.o = o.get(), reference.stats = stats.get(), reference.d_o = d_o.get();
  reference.d_q = d_q.get(), reference.d_k = d_k.get(), reference.d_v = d_v.get();
  if (!ours(false, reference) || (small.backward && !ours(true, reference))) {
    reason = "no products to check it with";
    return false;
  }
  SdpaBuffers fused = reference;
  if (!small.backward) fused.o = o2.get(), fused.stats = stats2.get();
  fused.d_q = d_q2.get(), fused.d_k = d_k2.get(), fused.d_v = d_v2.get();
  Sdpa handle = nullptr;
  std::size_t workspace = 0;
  const Result created = api_->SdpaCreate(small, &handle, &workspace);
  if (!created.ok()) {
    reason = "cuDNN: " + created.text;
    return false;
  }
  const OwnedSdpa owned(api_, handle);
  const Memory work = memory(static_cast<double>(workspace));
  const Result ran = api_->SdpaRun(handle, fused, work.get(), setup_.get());
  if (!ran.ok()) {
    reason = "cuDNN: " + ran.text;
    return false;
  }
  Drain(setup_.get(), "a check of cuDNN");
  struct Pair {
    const char* name;
    const Memory *mine, *theirs;
    Numbers numbers;
    double bytes;
  };
  std::vector<Pair> pairs;
  if (small.backward) {
    pairs = {{"dq", &d_q, &d_q2, numbers, q_bytes},
             {"dk", &d_k, &d_k2, numbers, kv_bytes},
             {"dv", &d_v, &d_v2, numbers, kv_bytes}};
  } else {
    pairs = {{"o", &o, &o2, numbers, q_bytes},
             {"log-sum-exp", &stats, &stats2, Numbers::kFp32, StatsBytes(small)}};
  }
  for (const Pair& pair : pairs) {
    std::array<double, 3> sums{};
    Check(api_,
          api_->Copy(CopyDirection::kToDevice, sums_.get(), sums.data(), sizeof sums, setup_.get()),
          "a check of attention");
    Check(api_,
          api_->Compare(pair.theirs->get(), pair.mine->get(),
                        static_cast<std::size_t>(pair.bytes / BytesOfNumbers(pair.numbers)),
                        pair.numbers, static_cast<double*>(sums_.get()), setup_.get()),
          "a check of attention");
    Check(api_,
          api_->Copy(CopyDirection::kToHost, sums.data(), sums_.get(), sizeof sums, setup_.get()),
          "a check of attention");
    Drain(setup_.get(), "a check of attention");
    const double error = sums[1] > 0 ? sums[0] / sums[1] : 1;
    // Both round probabilities and results to 16 bits: 2^-8 each in bf16, a few of them in a row.
    if (sums[2] > 0 || !(error < 0.03)) {
      char text[160];
      std::snprintf(text, sizeof text,
                    "cuDNN's %s of '%s' is off ours by %.1f %%, %.0f values not finite", pair.name,
                    key.c_str(), 100 * error, sums[2]);
      reason = text;
      return false;
    }
  }
  return true;
}

bool Primitives::PrepareAttention(const Kernel& kernel, Prepared* p) {
  p->shape = ShapeOf(kernel);
  const SdpaShape& s = p->shape;
  if (s.head_dim < 1) return false;
  const Numbers numbers = s.bf16 ? Numbers::kBf16 : Numbers::kFp16;
  const double q = QueryBytes(s), kv = KeyBytes(s);
  std::string why;
  // Of one new token a sequence there is no training kernel to choose: it reads the cache.
  if (kernel.kind != KernelKind::kDecodeAttention && FusedWorks(s)) {
    Sdpa handle = nullptr;
    const Result created = api_->SdpaCreate(s, &handle, &p->fused_workspace);
    if (created.ok()) p->fused = OwnedSdpa(api_, handle);
    why = created.text;
  } else if (kernel.kind != KernelKind::kDecodeAttention) {
    why = fused_checks_[KeyOf(s)];
  } else {
    why = "decoding";
  }
  In(numbers).Reserve(Sum({q, kv, kv, q, q}), Least(), "operands of attention", setup_.get());
  if (p->fused.get() != nullptr) {
    workspace_bytes_ = std::max(workspace_bytes_, p->fused_workspace);
    Out().Reserve(Sum({q, kv, kv, StatsBytes(s)}), Least(), "results of attention", setup_.get());
    if (s.backward) {
      // Sums of exponentials that belong to such scores: of a forward pass over other values of the
      // same distribution. On random ones the gradients would be of another magnitude.
      SdpaShape forward = s;
      forward.backward = false;
      Sdpa handle = nullptr;
      std::size_t workspace = 0;
      const Result created = api_->SdpaCreate(forward, &handle, &workspace);
      if (!created.ok()) {
        why = "no forward pass for it: " + created.text;
        p->fused.Release();
      } else {
        const OwnedSdpa owned(api_, handle);
        workspace_bytes_ = std::max(workspace_bytes_, workspace);
        p->stats = Memory(api_, MemoryPlace::kDevice, AlignedBytes(StatsBytes(s)), "statistics");
        SdpaBuffers b;
        b.q = In(numbers).Take(q), b.k = In(numbers).Take(kv), b.v = In(numbers).Take(kv);
        b.o = Out().Take(q), b.stats = p->stats.get();
        Check(api_,
              api_->SdpaRun(handle, b, WorkspaceOf(setup_.get(), workspace_bytes_), setup_.get()),
              "attention");
        Drain(setup_.get(), "attention");
      }
    }
  }
  if (p->fused.get() != nullptr) {
    fused_used_ = true;
    return true;
  }
  if (kernel.kind != KernelKind::kDecodeAttention) {
    unfused_used_ = true;
    if (unfused_reason_.empty()) unfused_reason_ = why;
  }
  p->unfused.emplace(api_, s);
  const std::int64_t parts = s.batch * s.kv_heads;
  std::vector<std::int64_t> sizes = {p->unfused->part()};
  if (parts % p->unfused->part() != 0) sizes.push_back(parts % p->unfused->part());
  for (const std::int64_t heads : sizes) {
    const std::vector<GemmLayout> layouts = p->unfused->Layouts(heads);
    UnfusedAttention::Products& products = p->products[heads];
    products.scores = products.d_probabilities = Tuned(layouts[0]);
    products.output = products.d_query = Tuned(layouts[1]);
    if (s.backward) products.d_key = products.d_value = Tuned(layouts[2]);
    if (!products.scores || !products.output || (s.backward && !products.d_key)) return false;
  }
  // Tuning grew the rings by its own needs; these are the attention's.
  In(numbers).Reserve(Sum({q, kv, kv, q, q}), Least(), "operands of attention", setup_.get());
  Out().Reserve(Sum({q, kv, kv, p->unfused->ScratchBytes()}), Least(), "scores of attention",
                setup_.get());
  return true;
}

Primitives::Prepared* Primitives::PreparedFor(const Kernel& kernel) {
  for (const auto& p : prepared_) {
    if (p->kernel == kernel) return p.get();
  }
  return nullptr;
}

bool Primitives::Prepare(const Kernel& kernel) {
  if (const Prepared* known = PreparedFor(kernel)) return known->runs;
  Check(api_, api_->SetDevice(device_), "taking a GPU");
  auto p = std::make_unique<Prepared>();
  p->kernel = kernel;
  switch (kernel.kind) {
    case KernelKind::kGemm: {
      Numbers numbers{};
      if (!NumbersOf(kernel.dtype, &numbers)) break;
      if (numbers == Numbers::kFp8 && properties_.major * 10 + properties_.minor < 89) break;
      if (!gemm_checked_) SelfCheckGemm();
      p->gemm = Tuned(LayoutOf(kernel.role, Whole(kernel.m), Whole(kernel.n), Whole(kernel.k),
                               Whole(kernel.count), numbers));
      p->runs = p->gemm != nullptr;
      break;
    }
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
    case KernelKind::kDecodeAttention:
      if (!gemm_checked_) SelfCheckGemm();
      p->runs = PrepareAttention(kernel, p.get());
      break;
    case KernelKind::kMemory: {
      In(Numbers::kBf16).Reserve(kernel.bytes / 2, Least(), "a memory-bound kernel", setup_.get());
      Out().Reserve(kernel.bytes / 2, Least(), "a memory-bound kernel", setup_.get());
      p->runs = true;
      break;
    }
    case KernelKind::kHost:
      p->runs = true;
      break;
  }
  Drain(setup_.get(), "preparing " + Describe(kernel));
  const bool runs = p->runs;
  prepared_.push_back(std::move(p));
  return runs;
}

void Primitives::Enqueue(const Kernel& kernel, Stream stream) {
  const Prepared* p = PreparedFor(kernel);
  if (p == nullptr || !p->runs) {
    ThrowInput(945, "no kernel on " + properties_.name + " for " + Describe(kernel),
               "another type in the scenario's precision");
  }
  switch (kernel.kind) {
    case KernelKind::kGemm: {
      const GemmLayout& l = p->gemm->layout;
      Ring& in = In(l.in);
      in.Together(Sum({l.a_bytes(), l.b_bytes()}));
      void* a = in.Take(l.a_bytes());
      void* b = in.Take(l.b_bytes());
      Check(api_,
            api_->GemmRun(p->gemm->gemm.get(), p->gemm->algorithm, 1, a, b, Out().Take(l.c_bytes()),
                          unit_scale_.get(), WorkspaceOf(stream, workspace_bytes_), kGemmWorkspace,
                          stream),
            Describe(kernel));
      return;
    }
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
    case KernelKind::kDecodeAttention: {
      const SdpaShape& s = p->shape;
      Ring& in = In(s.bf16 ? Numbers::kBf16 : Numbers::kFp16);
      const double q = QueryBytes(s), kv = KeyBytes(s);
      const bool fused = p->fused.get() != nullptr;
      in.Together(Sum({q, kv, kv, q, q}));
      Out().Together(Sum({q, kv, kv}) +
                     (fused ? Sum({StatsBytes(s)}) : Sum({p->unfused->ScratchBytes()})));
      SdpaBuffers b;
      b.q = in.Take(q), b.k = in.Take(kv), b.v = in.Take(kv);
      if (s.backward) {
        b.d_o = in.Take(q);
        if (fused) b.o = in.Take(q);
        b.d_q = Out().Take(q), b.d_k = Out().Take(kv), b.d_v = Out().Take(kv);
        b.stats = p->stats.get();
      } else {
        b.o = Out().Take(q);
        if (fused) b.stats = Out().Take(StatsBytes(s));
      }
      void* workspace = WorkspaceOf(stream, workspace_bytes_);
      if (fused) {
        Check(api_, api_->SdpaRun(p->fused.get(), b, workspace, stream), Describe(kernel));
      } else {
        p->unfused->Enqueue(b, p->products, Out().Take(p->unfused->ScratchBytes()), workspace,
                            kGemmWorkspace, stream);
      }
      return;
    }
    case KernelKind::kMemory:
      Check(api_,
            api_->ReadWrite(In(Numbers::kBf16).Take(kernel.bytes / 2), Out().Take(kernel.bytes / 2),
                            static_cast<std::size_t>(std::ceil(kernel.bytes / 2)), stream),
            Describe(kernel));
      return;
    case KernelKind::kHost:
      Check(api_, api_->Delay(nullptr, 0, kernel.host_s, stream), Describe(kernel));
      return;
  }
}

std::vector<std::pair<std::string, std::string>> Primitives::Methods() const {
  std::vector<std::pair<std::string, std::string>> methods;
  std::string attention;
  if (fused_used_) attention = "cuDNN, checked against products and a softmax";
  if (unfused_used_) {
    attention +=
        (attention.empty() ? "" : "; in part ") + ("products and a softmax: " + unfused_reason_);
  }
  if (!attention.empty()) methods.emplace_back("attention", attention);
  if (!gemms_.empty()) {
    methods.emplace_back("products",
                         "fastest of up to " + std::to_string(kAlgorithms) + " algorithms");
  }
  return methods;
}

}  // namespace aurum::cuda
