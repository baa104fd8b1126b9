#include "sim/cost/profile.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "sim/core/diagnostic.h"
#include "sim/cost/exact.h"

// The equations
// =============
//
// Every kernel is t0 + max(work / rate, bytes / bandwidth): a fixed start and drain, then the
// slower of arithmetic and memory (the roofline of Williams, Waterman and Patterson, CACM 2009).
// What differs is how `work` departs from the plain count of FLOPs.
//
// GEMM, m×k times k×n. Five forms; the fit keeps the one that predicts unseen shapes best.
//
//   roofline: work = 2·m·n·k.
//
//   k_saturation: work = 2·m·n·(k + k_half). Filling and draining the pipeline of a thread block
//   costs as much as k_half more steps of its inner loop, whatever k is.
//
//   p_norm: work = 2·(m + m_half)·(n + n_half)·(k + k_half): rows and columns saturate too, as a
//   smooth picture of tiles that are not full. Arithmetic and memory overlap less than perfectly
//   near the ridge, so their times join as (C^p + M^p)^(1/p), p = 2 or 4, in place of the maximum.
//
//   tile: the output is cut into tiles of tm × tn, one per thread block and SM, which makes
//   x = ⌈m/tm⌉·⌈n/tn⌉ / SMs waves. Static tiles need ⌈x⌉ waves; stream-K and uneven clocks soften
//   that, so waves = α·⌈x⌉ + (1 − α)·max(x, 1). The library picks the best tile:
//   work = min over tiles of waves · SMs · 2·tm·tn·(k + k_half) / efficiency(tile).
//
//   Example, H100, 132 SMs, one tile of 128×256, α = 1: 4096×4096 is 512 tiles, 3.88 waves, so 4:
//   97 % full. 4352×4096 is 544 tiles, 4.12 waves, so 5: 82 % full, and 6 % more work takes 25 %
//   longer.
//
//   split_k: tiles, and where they do not fill the SMs k may be cut into s = 2, 4, 8 parts, each a
//   tile's worth of blocks: x·s waves of k/s + k_half steps. The s partial results of 4 bytes are
//   written and read again through the L2 cache, taken as eight times the memory's rate, and a split
//   costs a fixed time. A library does this for few tiles and a long k: 1024×1024×16384 has 32 tiles
//   of 128×256 for 132 SMs, a quarter of the GPU, but 128 at s = 4. (Osama et al., "Stream-K", PPoPP
//   2023, have the general form.) Measured A100 shapes of that kind are predicted 40 % too slow
//   without it.
//
//   Settling: a burst starts at the highest clock; within a millisecond or so power management lowers
//   it to what the limit allows. compute is multiplied by 1 + slowdown · compute/(compute +
//   settling_s).
//   On H100 and H200 it is 5…10 % between a 20 µs and a 5 ms product. Any form may have it.
//
// Attention forward, FlashAttention (Dao, 2023): s queries against the keys below each, in blocks
// of 128 queries. work = 4·d·pairs + 2·d·q·h per head: pairs is s²/2 under a causal mask, and h, in
// tokens, is the cost of a query block's prologue and epilogue. With a causal mask that is
// 2·d·s²·(1 + h/s). To it comes, by Graham's bound for list scheduling, a share `tail` of the
// longest block on every SM: blocks at the end of a causal sequence are twice as long as the mean,
// and the last one keeps the kernel alive. Backward: 5 matrix products instead of 2, hence 2.5
// times the FLOPs, at a lower rate. The cost of a pair and of a query is interpolated between the
// head dimensions that were measured, and proportional to the dimension outside of them.
//
// Decode reads the whole cache once: t0 + bytes/bandwidth. A memory-bound kernel is the same with a
// share of the datasheet's bandwidth.
//
// Why nothing here falls when a size grows: ⌈·⌉, products of non-negative growing terms, sums,
// minima over a fixed set and maxima all keep order, and those are the only steps. tests/cost
// sweeps it. A split is offered while fewer blocks than SMs are busy: growing m and n can only take it
// away, and k does not decide it. Only misalignment (below) breaks the order, and only between
// sizes of different alignment.
//
// Sustained rate, power
// =====================
//
// The tables are bursts; training GEMMs take SustainedFactor times as long, as measured training
// steps have it. The factor holds at the board's own power limit. Under another one the clock
// settles where the draw meets the limit: dynamic power is C·V²·f, and along the range where boards
// are limited the voltage rises about in step with the clock, so power above idle ~ f³ and
//
//   rate(P) = rate(TDP) · ((P − idle)/(TDP − idle))^(1/3)
//
// for kernels that the clock decides, matrices and attention. A memory-bound kernel waits for HBM,
// whose clock a power limit leaves alone, and draws too little to meet the limit. Example: an H100
// of 700 W, 70 at idle, limited to 500: (430/630)^(1/3) = 0.88. torchtitan's published H100 steps ran at
// 500 W and are 15…18 % slower than predicted for 700 W; this explains most of it.
//
// Alignment: Ampere loads tiles in lines of 128 bytes. Where the contiguous size of an input or of the
// output is no multiple of 64 elements of 2 bytes, cuBLAS falls back to kernels that take a third
// longer. Hopper's and Blackwell's loads (TMA) do not mind, and their tables show nothing.
//
// Cost of a call, CPU time of one core: 16…50 ns for forms without tiles and for attention, 90…200 ns for
// tiles and splits, more the smaller the product; no allocation.

namespace aurum {
namespace {

constexpr double kQueryBlock = 128;  // queries per thread block of FlashAttention 2 and 3

// ⌈x⌉ for 0 ≤ x < 2^53 without a library call.
double Ceil(double x) {
  const auto floor = static_cast<double>(static_cast<std::int64_t>(x));
  return floor < x ? floor + 1 : floor;
}

constexpr double kPartialBytes = 2 * 4;  // a partial result of fp32, written and read
constexpr double kCacheSpeed = 8;        // L2's rate over the memory's, as the tables want it

// Seconds of the compute side with the best tile and, in split_k, the best split.
double TileSeconds(const GemmModel& model, double sm_count, double m, double n, double k) {
  double whole = std::numeric_limits<double>::infinity();  // in tile areas over efficiency
  double split = std::numeric_limits<double>::infinity();  // in seconds
  const double second = 2 * sm_count / model.rate_flops;   // of one such unit and step of k
  for (const auto& [tile_m, tile_n, efficiency] : model.tiles) {
    const double blocks = Ceil(m / tile_m) * Ceil(n / tile_n);
    const double area = tile_m * tile_n / efficiency;
    const auto waves = [&](double x) {
      return model.wave_alpha * Ceil(x) + (1 - model.wave_alpha) * std::max(x, 1.0);
    };
    whole = std::min(whole, waves(blocks / sm_count) * area);
    double parts = 2;
    for (; parts <= model.most_splits && blocks * parts < 16 * sm_count; parts *= 2) {
      const double compute =
          waves(blocks * parts / sm_count) * area * (k / parts + model.k_half) * second;
      const double traffic =
          parts * m * n * kPartialBytes / (kCacheSpeed * model.bandwidth_bytes_per_s);
      split = std::min(split, compute + traffic + model.split_overhead_s);
    }
  }
  return std::min(whole * (k + model.k_half) * second, split);
}

// max(a, b) for norm 0, else (a^norm + b^norm)^(1/norm), by square roots alone: exact rounding is the
// same everywhere.
double Join(double a, double b, int norm) {
  const double high = std::max(a, b);
  if (norm == 0 || high <= 0) return high;
  const double share = std::min(a, b) / high;
  const double square = share * share;
  if (norm == 2) return high * std::sqrt(1 + square);
  return high * std::sqrt(std::sqrt(1 + square * square));
}

bool IsAligned(double size, double alignment) {
  const double units = size / alignment;
  return size != Ceil(size) || units == Ceil(units);
}

[[noreturn]] void NotMeasured(const Profile& profile, const std::string& what) {
  ThrowInput(
      805, "profile '" + profile.name + "' does not say what " + what + " costs",
      "nobody has measured it on this device: calibrate with --base PROFILE, or take a model "
      "without it");
}

// Pairs of a query and a key that it may see, for one head.
double Pairs(double q_len, double kv_len, bool causal) {
  if (!causal) return q_len * kv_len;
  return q_len < kv_len ? q_len * (kv_len - q_len / 2) : kv_len * kv_len / 2;
}

}  // namespace

std::string DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return "bf16";
    case DType::kFp16:
      return "fp16";
    case DType::kFp8:
      return "fp8";
    case DType::kFp8Block:
      return "fp8_block";
    case DType::kNvfp4:
      return "nvfp4";
    case DType::kFp32:
      return "fp32";
  }
  return "fp32";
}

double BytesOf(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kFp8:
      return 1;
    case DType::kFp8Block:
      return 1 + 1.0 / 32;  // a scale of 8 bits for 32 (mxfp8), or of 32 bits for 128
    case DType::kNvfp4:
      return 0.5 + 1.0 / 16;  // a scale of 8 bits for 16
    case DType::kFp32:
      return 4;
  }
  return 4;
}

double GemmOutputBytes(DType dtype) { return IsNarrow(dtype) ? 2 : BytesOf(dtype); }

void SizeRange::Add(double size) {
  low = high == 0 ? size : std::min(low, size);
  high = std::max(high, size);
}

std::string CollectiveName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kSendRecv:
      return "send_recv";
  }
  return "send_recv";
}

double GemmBurstSeconds(const GemmModel& model, int sm_count, double input_bytes,
                        double output_bytes, double m, double n, double k) {
  assert(m > 0 && n > 0 && k > 0);
  const double bytes = input_bytes * (m + n) * k + output_bytes * m * n;
  double compute = model.tiles.empty() ? 2 * (m + model.m_half) * (n + model.n_half) *
                                             (k + model.k_half) / model.rate_flops
                                       : TileSeconds(model, sm_count, m, n, k);
  if (model.settling_slowdown > 0) {
    compute *= 1 + model.settling_slowdown * compute / (compute + model.settling_s);
  }
  return model.t0_s + Join(compute, bytes / model.bandwidth_bytes_per_s, model.norm);
}

double AttentionBurstSeconds(const AttentionModel& model, int sm_count, double sequences,
                             double heads, double kv_heads, double q_len, double kv_len,
                             int head_dim, bool causal) {
  assert(!model.per_head_dim.empty());
  // Seconds per FLOP-free pair and per query, interpolated over the head dimension. A running
  // maximum keeps both non-decreasing even where a measured table says otherwise.
  double pair = 0, query = 0;  // at the known dimension at or below head_dim
  double below = 0;
  const auto d = static_cast<double>(head_dim);
  bool above_all = true;
  for (const auto& known : model.per_head_dim) {
    const auto dim = static_cast<double>(known.head_dim);
    const double next_pair = std::max(pair, 4 * dim / known.rate_flops);
    const double next_query = std::max(query, 2 * dim * known.half_length / known.rate_flops);
    if (d <= dim) {
      const double share = (d - below) / (dim - below);
      pair += share * (next_pair - pair);
      query += share * (next_query - query);
      above_all = false;
      break;
    }
    pair = next_pair;
    query = next_query;
    below = dim;
  }
  if (above_all) {
    pair *= d / below;
    query *= d / below;
  }
  const double calls = sequences * heads;
  const double block = std::min(q_len, kQueryBlock);
  const double compute = calls * (pair * Pairs(q_len, kv_len, causal) + query * q_len) +
                         model.tail * sm_count * block * kv_len * pair;
  const double bytes = 2 * sequences * d * (2 * heads * q_len + 2 * kv_heads * kv_len);
  return model.t0_s + std::max(compute, bytes / model.bandwidth_bytes_per_s);
}

double Profile::GemmSeconds(double m, double n, double k, DType dtype, bool sums_tokens) const {
  const auto found = gemm.find(dtype);
  if (found == gemm.end()) {
    std::string known;
    for (const auto& [type, model] : gemm) known += (known.empty() ? "" : ", ") + DTypeName(type);
    ThrowInput(803, "profile '" + name + "' has no " + DTypeName(dtype) + " GEMM",
               "the device does not have that type, or nobody has measured it; known: " + known);
  }
  const double burst = GemmBurstSeconds(found->second, device.sm_count, BytesOf(dtype),
                                        GemmOutputBytes(dtype), m, n, k);
  const bool unaligned = unaligned_factor != 1 &&
                         !(IsAligned(n, alignment) && IsAligned(sums_tokens ? m : k, alignment));
  return SustainedFactor(dtype) * (unaligned ? unaligned_factor : 1) * burst;
}

double Profile::AttentionForwardSeconds(double sequences, double heads, double kv_heads,
                                        double q_len, double kv_len, int head_dim,
                                        bool causal) const {
  if (attention.per_head_dim.empty()) NotMeasured(*this, "attention");
  return AttentionBurstSeconds(attention, device.sm_count, sequences, heads, kv_heads, q_len,
                               kv_len, head_dim, causal);
}

double Profile::AttentionBackwardSeconds(double sequences, double heads, double kv_heads,
                                         double q_len, double kv_len, int head_dim,
                                         bool causal) const {
  return attention.backward_flops_ratio * attention.backward_time_factor *
         AttentionForwardSeconds(sequences, heads, kv_heads, q_len, kv_len, head_dim, causal);
}

double Profile::DecodeAttentionSeconds(double sequences, double kv_heads, double kv_len,
                                       int head_dim) const {
  if (decode.bandwidth_bytes_per_s <= 0) NotMeasured(*this, "attention of decoding");
  const double bytes = 2 * 2 * sequences * kv_heads * kv_len * head_dim;  // bf16 keys and values
  return decode.t0_s + bytes / decode.bandwidth_bytes_per_s;
}

double Profile::MemoryBoundSeconds(double bytes) const {
  return memory_bound_t0_s +
         bytes / (memory_bound_efficiency * device.memory_bandwidth_bytes_per_s);
}

const CollectiveEnvelope* Profile::Envelope(CollectiveKind kind, int gpus) const {
  const auto found = collectives.find({kind, gpus});
  return found == collectives.end() ? nullptr : &found->second;
}

bool Profile::ExtrapolatesGemm(double m, double n, double k, DType dtype) const {
  const auto found = gemm.find(dtype);
  if (found == gemm.end()) return true;
  const GemmModel& model = found->second;
  return !model.m.Holds(m) || !model.n.Holds(n) || !model.k.Holds(k);
}

bool Profile::ExtrapolatesAttention(double sequences, double heads, double q_len, double kv_len,
                                    int head_dim) const {
  return attention.per_head_dim.empty() || !attention.length.Holds(q_len) ||
         !attention.length.Holds(kv_len) || !attention.calls.Holds(sequences * heads) ||
         head_dim < attention.per_head_dim.front().head_dim ||
         head_dim > attention.per_head_dim.back().head_dim;
}

bool Profile::ExtrapolatesDecode(double sequences, double kv_heads, double kv_len) const {
  return decode.bandwidth_bytes_per_s <= 0 || !decode.length.Holds(kv_len) ||
         !decode.calls.Holds(sequences * kv_heads);
}

bool Profile::ExtrapolatesCollective(CollectiveKind kind, int gpus, double bytes) const {
  const CollectiveEnvelope* envelope = Envelope(kind, gpus);
  return envelope == nullptr || !envelope->bytes.Holds(bytes);
}

Profile WithPowerLimit(const Profile& profile, double watts) {
  const auto fail = [&](const std::string& message, const std::string& help) {
    ThrowInput(804, message, help);
  };
  const auto shown = [](double value) {
    const auto whole = static_cast<std::int64_t>(value);
    return (static_cast<double>(whole) == value ? std::to_string(whole) : Json(value).Dump()) +
           " W";
  };
  if (profile.power_limit_w <= 0) {
    fail("profile '" + profile.name + "' does not say which power limit its rates hold for",
         "add sustained.power_limit_w and idle_power_w to the profile, or leave the limit out");
  }
  if (watts <= profile.idle_power_w || watts > profile.power_limit_w) {
    fail("a power limit of " + shown(watts) + " for '" + profile.device.name + "'",
         "above the " + shown(profile.idle_power_w) +
             " that it draws at idle, up to its own limit of " + shown(profile.power_limit_w));
  }
  Profile limited = profile;
  if (watts == profile.power_limit_w) return limited;
  const double share =
      std::cbrt((watts - profile.idle_power_w) / (profile.power_limit_w - profile.idle_power_w));
  for (auto& [dtype, model] : limited.gemm) model.rate_flops *= share;
  for (auto& known : limited.attention.per_head_dim) known.rate_flops *= share;
  if (profile.exact) {
    // What was measured, times what the limit does to the model of the same size; where there is no
    // model, to the rate.
    std::vector<ExactKernels::Entry> entries = profile.exact->entries();
    Profile before = profile;
    before.exact = nullptr;
    limited.exact = nullptr;
    for (ExactKernels::Entry& entry : entries) {
      const bool attends = entry.kernel.kind == KernelKind::kAttentionForward ||
                           entry.kernel.kind == KernelKind::kAttentionBackward;
      const bool product = entry.kernel.kind == KernelKind::kGemm;
      if (!attends && !product) continue;
      const bool modelled =
          product ? profile.Supports(entry.kernel.dtype) : !profile.attention.per_head_dim.empty();
      entry.seconds *= modelled ? KernelSeconds(entry.kernel, limited, BareStack()) /
                                      KernelSeconds(entry.kernel, before, BareStack())
                                : 1 / share;
    }
    limited.exact = std::make_shared<const ExactKernels>(
        std::move(entries), Provenance::kCalibrated,
        "for another power limit by the models: " + profile.exact->source());
  }
  limited.power_limit_w = watts;
  limited.power_source = "limited to " + shown(watts) + " from " + shown(profile.power_limit_w) +
                         "; " + profile.power_source;
  return limited;
}

double EnvelopeSeconds(const CollectiveEnvelope& envelope, double bytes) {
  assert(!envelope.lines.empty() && bytes >= 0);
  double best = std::numeric_limits<double>::infinity();
  for (const EnvelopeLine& line : envelope.lines) {
    best = std::min(best, line.latency_s + bytes / line.bytes_per_s);
  }
  return best;
}

}  // namespace aurum
