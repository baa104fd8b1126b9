#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "calibrate/measure.h"
#include "sim/core/random.h"

// What to ask, in what order
// ==========================
//
// A model is only as good as the sizes that it has seen, so shapes are drawn log-uniformly over what
// training has, not on a grid: a grid of powers of two never meets the tiles that do not fit. Every
// linear layer is measured in its three products, as a training step has them:
//
//   forward          y  = x · wᵀ     m = tokens, n = out,  k = in
//   input gradient   dx = dy · w     m = tokens, n = in,   k = out
//   weight gradient  dw = dyᵀ · x    m = out,    n = in,   k = tokens
//
// A GPU gets sizes of 256 … 16384, cut where a product would run for longer than some milliseconds;
// a CPU core products of 10^6 … 1.2·10^9 FLOP, which are those that it can train with.
//
// The order is random, so that a machine that warms up while it is measured does not make large
// products look slower than small ones. But a budget may run out: so everything is dealt to two
// hands, both shuffled, and what a profile cannot do without (the plan's own calls, the first half of
// the random shapes, copies, collectives of every second size) is in the first. Kernels beside
// collectives come after them, the burn last: it leaves the device hot.
//
// Every draw is a function of (seed, what for, which), so a plan can be made again from its seed, and
// one more shape changes no other.

namespace aurum {
namespace {

enum Stream : std::uint64_t { kGemmStream = 1, kAttentionStream, kDecodeStream, kOrderStream };

// A second of drawing; `which` advances.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream, std::uint64_t item)
      : seed_(seed), stream_(stream), counter_(item * 64) {}
  double Uniform() { return RandomUniform(seed_, stream_, counter_++); }
  double LogUniform(double low, double high) { return low * std::pow(high / low, Uniform()); }
  template <typename T, std::size_t n>
  T Of(const std::array<T, n>& choices) {
    return choices[std::min(n - 1, static_cast<std::size_t>(Uniform() * n))];
  }

 private:
  std::uint64_t seed_, stream_, counter_;
};

double ToMultiple(double size, double multiple, double least) {
  return std::max(least, std::round(size / multiple) * multiple);
}

struct Layer {
  double tokens = 0, in = 0, out = 0;
};

Layer DrawForGpu(Draws* draws, double most_flops) {
  Layer layer;
  layer.tokens = draws->LogUniform(256, 16384);
  layer.in = draws->LogUniform(256, 16384);
  layer.out = draws->LogUniform(256, 16384);
  // Too long a product: all three sizes shrink alike.
  const double flops = 2 * layer.tokens * layer.in * layer.out;
  if (flops > most_flops) {
    const double shrink = std::cbrt(most_flops / flops);
    layer.tokens *= shrink;
    layer.in *= shrink;
    layer.out *= shrink;
  }
  // Three in four as a model's sizes are, the fourth aligned to 16 bytes alone.
  const double multiple = draws->Uniform() < 0.75 ? 64 : 8;
  layer.tokens = ToMultiple(layer.tokens, draws->Uniform() < 0.75 ? 64 : 1, 256);
  layer.in = ToMultiple(layer.in, multiple, 256);
  layer.out = ToMultiple(layer.out, multiple, 256);
  return layer;
}

constexpr double kLeastCpuFlops = 1e6, kMostCpuFlops = 1.2e9;

Layer DrawForCpu(Draws* draws) {
  const double volume = draws->LogUniform(kLeastCpuFlops, kMostCpuFlops) / 2;
  const double side = std::cbrt(volume);
  Layer layer;
  layer.tokens = ToMultiple(side * draws->LogUniform(1 / 3.0, 3), 8, 16);
  layer.in = ToMultiple(side * draws->LogUniform(1 / 3.0, 3), 8, 16);
  layer.out = ToMultiple(volume / (layer.tokens * layer.in), 8, 16);
  return layer;
}

Kernel Product(const Layer& layer, GemmRole role, DType dtype) {
  Kernel kernel;
  kernel.kind = KernelKind::kGemm;
  kernel.role = role;
  kernel.dtype = dtype;
  switch (role) {
    case GemmRole::kForward:
      kernel.m = layer.tokens;
      kernel.n = layer.out;
      kernel.k = layer.in;
      break;
    case GemmRole::kInputGradient:
      kernel.m = layer.tokens;
      kernel.n = layer.in;
      kernel.k = layer.out;
      break;
    case GemmRole::kWeightGradient:
      kernel.m = layer.out;
      kernel.n = layer.in;
      kernel.k = layer.tokens;
      break;
  }
  return kernel;
}

Kernel DrawAttention(Draws* draws, int head_dim, bool cpu, double most_flops) {
  Kernel kernel;
  kernel.kind = KernelKind::kAttentionForward;
  kernel.head_dim = head_dim;
  kernel.causal = draws->Uniform() < 0.7;
  kernel.heads =
      cpu ? draws->Of(std::array{1.0, 2.0, 4.0}) : draws->Of(std::array{8.0, 16.0, 32.0});
  const double shared = draws->Of(std::array{1.0, 1.0, 4.0, 8.0});
  kernel.kv_heads = std::max(1.0, kernel.heads / shared);
  kernel.q_len =
      ToMultiple(cpu ? draws->LogUniform(32, 1024) : draws->LogUniform(512, 16384), 8, 32);
  kernel.sequences = std::round(cpu ? draws->LogUniform(1, 8) : draws->LogUniform(1, 16));
  const double flops = [&] {
    return 4 * kernel.sequences * kernel.heads * kernel.q_len * kernel.q_len * head_dim;
  }();
  if (flops > most_flops) {
    // Fewer sequences first, then shorter ones.
    const double least = flops / kernel.sequences;
    kernel.sequences = std::max(1.0, std::floor(most_flops / least));
    if (least > most_flops)
      kernel.q_len = ToMultiple(kernel.q_len * std::sqrt(most_flops / least), 8, 32);
  }
  kernel.kv_len = kernel.q_len;
  return kernel;
}

// Rounded to whole multiples of `multiple`, log-spaced, both ends in.
std::vector<double> Ladder(double low, double high, int sizes, double multiple) {
  std::vector<double> ladder;
  for (int i = 0; i < sizes; ++i) {
    const double share = sizes == 1 ? 1 : static_cast<double>(i) / (sizes - 1);
    const double size = ToMultiple(low * std::pow(high / low, share), multiple, multiple);
    if (ladder.empty() || size > ladder.back()) ladder.push_back(size);
  }
  return ladder;
}

std::vector<int> GroupSizes(int devices) {
  std::vector<int> sizes;
  for (int n = 2; n < devices; n *= 2) sizes.push_back(n);
  if (devices > 1) sizes.push_back(devices);
  return sizes;
}

class Planner {
 public:
  Planner(const BenchDevice& device, const ExactCalls& exact, const MeasurementOptions& options)
      : device_(device),
        exact_(exact),
        options_(options),
        cpu_(device.facts.compute_capability <= 0) {}

  MeasurementPlan Plan() {
    Exact();
    Products();
    Attention();
    Memory();
    LaunchesAndCopies();
    Collectives();
    MeasurementPlan plan;
    plan.seed = options_.seed;
    plan.budget_s = options_.budget_s;
    std::uint64_t drawn = 0;
    for (std::vector<MeasuredItem>* hand : {&first_, &second_}) {
      // Fisher and Yates.
      for (std::size_t i = hand->size(); i > 1; --i) {
        const double uniform = RandomUniform(options_.seed, kOrderStream, drawn++);
        std::swap((*hand)[i - 1],
                  (*hand)[static_cast<std::size_t>(uniform * static_cast<double>(i))]);
      }
      std::move(hand->begin(), hand->end(), std::back_inserter(plan.items));
    }
    Beside(&plan);
    Burn(&plan);
    return plan;
  }

 private:
  bool Has(DType dtype) const {
    return std::find(device_.dtypes.begin(), device_.dtypes.end(), dtype) != device_.dtypes.end();
  }

  MeasuredItem Item(MeasuredKind kind) const {
    MeasuredItem item;
    item.kind = kind;
    item.samples = options_.samples;
    return item;
  }
  MeasuredItem Of(const Kernel& kernel) const {
    MeasuredItem item = Item(MeasuredKind::kKernel);
    item.kernel = kernel;
    return item;
  }

  void Exact() {
    for (const Kernel& kernel : exact_.kernels) {
      if (kernel.kind == KernelKind::kGemm && !Has(kernel.dtype)) continue;
      if (kernel.kind == KernelKind::kHost) continue;
      MeasuredItem item = Of(kernel);
      item.exact = true;
      item.samples = options_.samples * 2 - 1;
      first_.push_back(item);
    }
    for (const ExactCollective& call : exact_.collectives) {
      if (call.gpus < 2 || call.gpus > device_.devices) continue;
      MeasuredItem item = Collective(call.kind, call.gpus, std::ceil(call.bytes));
      item.exact = true;
      first_.push_back(item);
    }
  }

  // Those named, else bf16 and what the plans have; where the device has none of them, its first.
  std::vector<DType> Types() const {
    std::vector<DType> types;
    const auto add = [&](DType dtype) {
      if (Has(dtype) && std::find(types.begin(), types.end(), dtype) == types.end())
        types.push_back(dtype);
    };
    for (const DType dtype : options_.dtypes) add(dtype);
    if (!options_.dtypes.empty()) return types;
    add(DType::kBf16);
    for (const Kernel& kernel : exact_.kernels) {
      if (kernel.kind == KernelKind::kGemm) add(kernel.dtype);
    }
    if (types.empty() && !device_.dtypes.empty()) types.push_back(device_.dtypes.front());
    return types;
  }

  // FLOP of the longest call that is worth its time: about 10 ms at the datasheet's rate.
  double MostFlops() const {
    if (cpu_) return kMostCpuFlops;
    const double peak = device_.facts.peak_bf16_flops;
    return peak > 0 ? std::clamp(peak * 0.01, 1e11, 9e12) : 4e12;
  }

  void Products() {
    for (const DType dtype : Types()) {
      for (int i = 0; i < options_.gemm_shapes; ++i) {
        // The same shapes in every type.
        Draws draws(options_.seed, kGemmStream, static_cast<std::uint64_t>(i));
        const Layer layer = cpu_ ? DrawForCpu(&draws) : DrawForGpu(&draws, MostFlops());
        for (const GemmRole role :
             {GemmRole::kForward, GemmRole::kInputGradient, GemmRole::kWeightGradient}) {
          Deal(Of(Product(layer, role, dtype)), i, options_.gemm_shapes);
        }
      }
    }
  }

  void Attention() {
    // Head dimensions of the plans, the most frequent shapes' otherwise; two at most, so that each
    // gets enough shapes.
    std::vector<int> dims;
    bool decodes = false;
    for (const Kernel& kernel : exact_.kernels) {
      const bool attends = kernel.kind == KernelKind::kAttentionForward ||
                           kernel.kind == KernelKind::kAttentionBackward;
      decodes = decodes || kernel.kind == KernelKind::kDecodeAttention;
      if (attends && dims.size() < 2 &&
          std::find(dims.begin(), dims.end(), kernel.head_dim) == dims.end())
        dims.push_back(kernel.head_dim);
    }
    for (const int usual : {128, 64}) {
      if (dims.size() < 2 && std::find(dims.begin(), dims.end(), usual) == dims.end())
        dims.push_back(usual);
    }
    for (int i = 0; i < options_.attention_shapes; ++i) {
      Draws draws(options_.seed, kAttentionStream, static_cast<std::uint64_t>(i));
      Kernel kernel =
          DrawAttention(&draws, dims[static_cast<std::size_t>(i) % 2], cpu_, MostFlops() / 2);
      Deal(Of(kernel), i, options_.attention_shapes);
      kernel.kind = KernelKind::kAttentionBackward;
      Deal(Of(kernel), i, options_.attention_shapes);
    }
    constexpr int kDecodeShapes = 12;
    for (int i = 0; decodes && i < kDecodeShapes; ++i) {
      Draws draws(options_.seed, kDecodeStream, static_cast<std::uint64_t>(i));
      Kernel kernel;
      kernel.kind = KernelKind::kDecodeAttention;
      kernel.head_dim = dims.front();
      kernel.sequences = std::round(draws.LogUniform(1, cpu_ ? 8 : 64));
      kernel.kv_heads = draws.Of(std::array{4.0, 8.0});
      kernel.heads = kernel.kv_heads * draws.Of(std::array{1.0, 4.0});
      kernel.q_len = 1;
      kernel.kv_len = ToMultiple(draws.LogUniform(64, cpu_ ? 2048 : 16384), 8, 64);
      kernel.causal = true;
      Deal(Of(kernel), i, kDecodeShapes);
    }
  }

  void Memory() {
    const std::vector<double> sizes =
        Ladder(65536, cpu_ ? 64 << 20 : 1 << 30, options_.memory_sizes, 4096);
    for (const double bytes : sizes) {
      Kernel kernel;
      kernel.kind = KernelKind::kMemory;
      kernel.bytes = bytes;
      first_.push_back(Of(kernel));
    }
  }

  void LaunchesAndCopies() {
    MeasuredItem gap = Item(MeasuredKind::kLaunchGap);
    first_.push_back(gap);
    gap.graph = true;
    first_.push_back(gap);
    for (const CopyKind kind :
         {CopyKind::kHostToDevice, CopyKind::kDeviceToHost, CopyKind::kPeer, CopyKind::kDevice}) {
      if (kind == CopyKind::kPeer && device_.devices < 2) continue;
      int i = 0;
      for (const double bytes : Ladder(65536, cpu_ ? 16 << 20 : 256 << 20, 4, 4096)) {
        MeasuredItem copy = Item(MeasuredKind::kCopy);
        copy.copy = kind;
        copy.bytes = bytes;
        Deal(copy, i++, 4);
      }
    }
  }

  MeasuredItem Collective(CollectiveKind kind, int gpus, double bytes) const {
    MeasuredItem item = Item(MeasuredKind::kCollective);
    item.collective = kind;
    item.gpus = gpus;
    item.bytes = bytes;
    item.dtype = Has(DType::kBf16) ? DType::kBf16 : DType::kFp32;
    return item;
  }

  void Collectives() {
    for (const int gpus : GroupSizes(device_.devices)) {
      for (const CollectiveKind kind :
           {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
            CollectiveKind::kAllToAll, CollectiveKind::kSendRecv}) {
        if (kind == CollectiveKind::kSendRecv && gpus != 2) continue;
        int i = 0;
        // Whole elements for every rank of the group.
        const double multiple = 64.0 * gpus;
        const std::vector<double> sizes =
            Ladder(8192, cpu_ ? 64 << 20 : 512 << 20, options_.collective_sizes, multiple);
        for (const double bytes : sizes) {
          (i++ % 2 == 0 ? first_ : second_).push_back(Collective(kind, gpus, bytes));
        }
      }
    }
  }

  // Half of them in each hand.
  void Deal(const MeasuredItem& item, int index, int of) {
    (2 * index < of ? first_ : second_).push_back(item);
  }

  // A large and a small product and a memory-bound kernel beside each of two collectives.
  void Beside(MeasurementPlan* plan) const {
    if (device_.devices < 2 || Types().empty()) return;
    const double side = cpu_ ? 512 : 4096;
    Kernel large = Product({side, side, side}, GemmRole::kForward, Types().front());
    Kernel small = Product({side / 4, side / 2, side / 2}, GemmRole::kForward, Types().front());
    Kernel memory;
    memory.kind = KernelKind::kMemory;
    memory.bytes = cpu_ ? 8 << 20 : 256 << 20;
    for (const Kernel& kernel : {large, small, memory}) {
      for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather}) {
        MeasuredItem item = Item(MeasuredKind::kBeside);
        item.kernel = kernel;
        item.collective = kind;
        item.gpus = device_.devices;
        item.bytes = cpu_ ? 4 << 20 : 64 << 20;
        // Alone, in the same moment of the run: what it is compared with.
        plan->items.push_back(Of(kernel));
        plan->items.push_back(item);
      }
    }
  }

  void Burn(MeasurementPlan* plan) const {
    if (options_.burn_s <= 0 || Types().empty()) return;
    const double side = cpu_ ? 512 : 8192;
    MeasuredItem item = Item(MeasuredKind::kBurn);
    item.kernel = Product({side, side, side}, GemmRole::kForward, Types().front());
    item.burn_s = options_.burn_s;
    plan->items.push_back(item);
  }

  const BenchDevice& device_;
  const ExactCalls& exact_;
  const MeasurementOptions& options_;
  const bool cpu_;
  std::vector<MeasuredItem> first_, second_;
};

}  // namespace

MeasurementPlan PlanMeasurements(const BenchDevice& device, const ExactCalls& exact,
                                 const MeasurementOptions& options) {
  return Planner(device, exact, options).Plan();
}

}  // namespace aurum
