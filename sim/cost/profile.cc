#include "sim/cost/profile.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "sim/core/diagnostic.h"

// The equations
// =============
//
// Every kernel is t0 + max(work / rate, bytes / bandwidth): a fixed start and drain, then the
// slower of arithmetic and memory (the roofline of Williams, Waterman and Patterson, CACM 2009).
// What differs is how `work` departs from the plain count of FLOPs.
//
// GEMM, m×k times k×n. Three forms; the fit keeps the one that predicts unseen shapes best.
//
//   roofline: work = 2·m·n·k.
//
//   k_saturation: work = 2·m·n·(k + k_half). Filling and draining the pipeline of a thread block
//   costs as much as k_half more steps of its inner loop, whatever k is.
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
// sweeps it.
//
// Cost of a call: 16…25 ns for the first two forms of GEMM and for attention, 60…90 ns for tiles
// (on one core of a shared machine); no allocation.

namespace aurum {
namespace {

constexpr double kQueryBlock = 128;  // queries per thread block of FlashAttention 2 and 3

// ⌈x⌉ for 0 ≤ x < 2^53 without a library call.
double Ceil(double x) {
  const auto floor = static_cast<double>(static_cast<std::int64_t>(x));
  return floor < x ? floor + 1 : floor;
}

double TileWork(const GemmModel& model, double sm_count, double m, double n, double k) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [tile_m, tile_n, efficiency] : model.tiles) {
    const double x = Ceil(m / tile_m) * Ceil(n / tile_n) / sm_count;
    const double waves = model.wave_alpha * Ceil(x) + (1 - model.wave_alpha) * std::max(x, 1.0);
    best = std::min(best, waves * tile_m * tile_n / efficiency);
  }
  return best * sm_count * 2 * (k + model.k_half);
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
    case DType::kFp32:
      return 4;
  }
  return 4;
}

double GemmOutputBytes(DType dtype) { return dtype == DType::kFp8 ? 2 : BytesOf(dtype); }

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
  const double work =
      model.tiles.empty() ? 2 * m * n * (k + model.k_half) : TileWork(model, sm_count, m, n, k);
  return model.t0_s + std::max(work / model.rate_flops, bytes / model.bandwidth_bytes_per_s);
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

double Profile::GemmSeconds(double m, double n, double k, DType dtype) const {
  const auto found = gemm.find(dtype);
  if (found == gemm.end()) {
    std::string known;
    for (const auto& [type, model] : gemm) known += (known.empty() ? "" : ", ") + DTypeName(type);
    ThrowInput(803, "profile '" + name + "' has no " + DTypeName(dtype) + " GEMM",
               "the device does not have that type, or nobody has measured it; known: " + known);
  }
  return sustained_factor * GemmBurstSeconds(found->second, device.sm_count, BytesOf(dtype),
                                             GemmOutputBytes(dtype), m, n, k);
}

double Profile::AttentionForwardSeconds(double sequences, double heads, double kv_heads,
                                        double q_len, double kv_len, int head_dim,
                                        bool causal) const {
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

double EnvelopeSeconds(const CollectiveEnvelope& envelope, double bytes) {
  assert(!envelope.lines.empty() && bytes >= 0);
  double best = std::numeric_limits<double>::infinity();
  for (const EnvelopeLine& line : envelope.lines) {
    best = std::min(best, line.latency_s + bytes / line.bytes_per_s);
  }
  return best;
}

}  // namespace aurum
