#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/core/provenance.h"

namespace aurum {

// What the hardware does: costs of kernels and collectives of one device, fitted on measurements or
// derived from its datasheet. Everything in seconds, bytes and FLOP. Cost functions are pure,
// positive, finite and non-decreasing in every size argument; profile.cc has the equations and why
// they are so.

// kFp8 has one scale a tensor, kFp8Block one for a block of elements (32 in mxfp8, 128 in DeepSeek's
// recipe), kNvfp4 one for 16.
enum class DType { kBf16, kFp16, kFp8, kFp8Block, kNvfp4, kFp32 };
std::string DTypeName(DType dtype);  // "bf16", "fp8_block"
double BytesOf(DType dtype);         // of an element, its share of a block's scale included
// Whether elements have 8 bits or fewer.
constexpr bool IsNarrow(DType dtype) {
  return dtype == DType::kFp8 || dtype == DType::kFp8Block || dtype == DType::kNvfp4;
}

enum class CollectiveKind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSendRecv
};
std::string CollectiveName(CollectiveKind kind);  // "all_reduce"

// The error of a fit of which nothing was held out.
inline constexpr double kUnknownError = std::numeric_limits<double>::quiet_NaN();

// How well a fitted model does on points that it has not seen.
struct FitQuality {
  int points = 0;  // used for the fit
  int holdout_points = 0;
  double holdout_mape = 0;  // mean absolute relative error, 0…1
  // The same over the sizes that training steps use; NaN where there are none
  double training_size_mape = 0;
  std::string method;  // "tile", "k_saturation", "roofline", "ratio"
  std::string source;
  Provenance provenance = Provenance::kAssumed;
};

// Sizes that a model was fitted on, both ends included; high = 0: not told. A prediction outside is
// an extrapolation.
struct SizeRange {
  double low = 0;
  double high = 0;
  bool Holds(double size) const { return high == 0 || (size >= low && size <= high); }
  void Add(double size);  // widens the range to hold `size`
};

// t(m,n,k) = t0 + the joint time of compute and bytes / bandwidth. Compute: 2·m·n·k / rate with
// saturation, and for `tile` and `split_k` models quantisation into tiles and waves over the SMs
// (see profile.cc for the equations).
struct GemmModel {
  std::string form;  // "roofline", "k_saturation", "p_norm", "tile", "split_k"
  double t0_s = 0;
  double rate_flops = 0;
  double bandwidth_bytes_per_s = 0;
  double k_half = 0;  // k at which the rate is half: rate·k/(k + k_half)
  double m_half = 0;  // the same of rows and columns, in p_norm
  double n_half = 0;
  int norm = 0;                              // 0: max(compute, memory); 2, 4: their p-norm
  double wave_alpha = 0;                     // 0 = no wave quantisation, 1 = whole waves
  std::vector<std::array<double, 3>> tiles;  // {tile_m, tile_n, efficiency}
  int most_splits = 1;                       // of k, in powers of two; over 1 in split_k only
  double split_overhead_s = 0;               // of any split: one more kernel, or a wait
  double settling_slowdown = 0;              // a long product takes 1 + this times as long …
  double settling_s = 0;                     // … half of it at this length
  // A product takes so many times as long in a backward pass as its sizes would in a forward one,
  // whose operands lie otherwise in memory. KernelSeconds has them, GemmSeconds not.
  double input_gradient_factor = 1;
  double weight_gradient_factor = 1;
  SizeRange m, n, k;  // of the fit
  FitQuality quality;
};

// The burst time of one GEMM by `model`, without any sustained factor: what a fit compares with a
// table. m×k times k×n, all ≥ 1; inputs of `input_bytes` and an output of `output_bytes` per
// element.
double GemmBurstSeconds(const GemmModel& model, int sm_count, double input_bytes,
                        double output_bytes, double m, double n, double k);
// Bytes per element that a GEMM with `dtype` inputs writes: fp8 products leave in bf16.
double GemmOutputBytes(DType dtype);

// Forward: t0 + max(FLOPs·(1 + h/s)/rate, bytes/bandwidth), rate and h per head dimension. The
// FLOPs include `tail` times the longest block of queries on every SM: a kernel ends with its last
// block. Between known head dimensions the cost per pair of tokens is interpolated, so that it
// never falls.
struct AttentionModel {
  struct PerHeadDim {
    int head_dim = 0;
    double rate_flops = 0;
    double half_length = 0;  // h
  };
  double t0_s = 0;
  double bandwidth_bytes_per_s = 0;
  double backward_flops_ratio = 2.5;
  double backward_time_factor = 1.1;  // on top of the ratio: the backward kernel's lower rate
  double tail = 0;                    // 0 = perfect balance over the SMs
  // The tables come from an inference engine, whose forward pass also writes keys and values to a
  // paged cache: bytes over this rate on top of the kernel. The fit needs it, training does not pay
  // it. 0 = none.
  double cache_write_bytes_per_s = 0;
  std::vector<PerHeadDim> per_head_dim;  // ascending; empty: nobody measured attention
  SizeRange length;                      // tokens of a sequence, of the fit
  SizeRange calls;                       // sequences × heads
  FitQuality quality;
};

// The burst time of one forward pass by `model`; arguments as Profile::AttentionForwardSeconds.
double AttentionBurstSeconds(const AttentionModel& model, int sm_count, double sequences,
                             double heads, double kv_heads, double q_len, double kv_len,
                             int head_dim, bool causal);

// Decode with a KV cache: t0 + bytes of the cache / bandwidth. Each sequence and head reads at
// least `row_tokens` tokens more than its cache holds: pages, queries, results, partial sums.
struct DecodeModel {
  double t0_s = 0;
  double row_tokens = 0;
  double bandwidth_bytes_per_s = 0;  // 0: nobody measured it
  SizeRange length;                  // tokens of the cache, of the fit
  SizeRange calls;                   // sequences × heads of keys
  FitQuality quality;
};

// One collective on n GPUs inside the measured node: t = min_i max-free lines: min over i of (a_i +
// bytes/b_i) … as an envelope of straight lines, lowest wins. `bytes` as nccl-tests counts them:
// the whole buffer of an all-reduce, the gathered output of an all-gather, the input of a
// reduce-scatter, the send buffer of an all-to-all, per rank.
struct EnvelopeLine {
  double latency_s = 0;
  double bytes_per_s = 0;
};
struct CollectiveEnvelope {
  std::vector<EnvelopeLine> lines;
  double busbw_bytes_per_s = 0;  // asymptotic bus bandwidth: b·(nccl-tests' factor)
  // Measured over the links of the very machine that is planned on, and so never scaled to a
  // cluster's; false: over the nominal ones of the device.
  bool own_links = false;
  SizeRange bytes;  // of the fit
  FitQuality quality;
};

struct DeviceFacts {
  std::string name;
  double memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;  // datasheet
  double peak_bf16_flops = 0;               // datasheet, dense, no sparsity: the denominator of MFU
  double peak_fp8_flops = 0;                // 0 = none
  int sm_count = 0;
  double compute_capability = 0;
  std::string source;
};

// What whole models measured on the device say of its rates, over those that its datasheet promises
// beside a relative: the median over models, already inside of the profile's rates.
struct MeasuredRate {
  double factor = 1;
  double low = 1;   // of the models, the lower
  double high = 1;  // and the upper decile
  int rows = 0;     // 0 = nothing was measured
  std::string source;
};

class ExactKernels;  // exact.h

class Profile {
 public:
  std::string name;
  DeviceFacts device;
  std::string description;
  // Relative half-width that a step time resting on this profile is quoted with
  double error_band = 0;
  std::string error_band_source;
  Provenance provenance = Provenance::kAssumed;
  // Training GEMMs run this many times as long as the short bursts of the tables, at the power limit
  // below; those of 8 and 4 bits have a factor of their own
  double sustained_factor = 1;
  double sustained_fp8_factor = 1;
  std::string sustained_source;
  // Watts: the board's limit that the rates hold for, and what it draws without work; 0 = not told
  double power_limit_w = 0;
  double idle_power_w = 0;
  std::string power_source;
  // A product takes this many times as long where a size that lies contiguous in memory is no
  // multiple of `alignment`; 1 = it makes no difference
  double unaligned_factor = 1;
  double alignment = 64;
  std::string unaligned_source;
  double launch_gap_s = 0;  // between two kernels of one stream, on top of each kernel's t0
  std::string launch_gap_source;
  double memory_bound_t0_s = 0;
  double memory_bound_efficiency = 0.8;  // share of the datasheet bandwidth
  std::string memory_bound_source;
  MeasuredRate measured_rate;
  std::map<DType, GemmModel> gemm;
  AttentionModel attention;
  DecodeModel decode;
  std::map<std::pair<CollectiveKind, int>, CollectiveEnvelope> collectives;  // by kind and GPUs
  // Kernels that were measured in the very sizes of a plan: KernelSeconds takes them before any
  // model. Bursts, as the models'. Null: none.
  std::shared_ptr<const ExactKernels> exact;

  // Whether there is a GEMM model for `dtype`: an A100 has none for fp8.
  bool Supports(DType dtype) const { return gemm.contains(dtype); }
  // Of GEMMs of this type, over their bursts.
  double SustainedFactor(DType dtype) const {
    return IsNarrow(dtype) ? sustained_fp8_factor : sustained_factor;
  }
  // m×k times k×n. m, n, k ≥ 1 (real-valued: shards may not be whole). Burst time ×
  // SustainedFactor, × unaligned_factor where n or k is whole and no multiple of `alignment`; with
  // `sums_tokens` (a weight's gradient, whose inputs are stored by tokens) m or n instead. E0803
  // where the device has no such type.
  double GemmSeconds(double m, double n, double k, DType dtype, bool sums_tokens = false) const;
  // `sequences` independent sequences. Causal halves the FLOPs when q_len == kv_len; otherwise the
  // last query sees the last key (FlashAttention's bottom-right mask): q·kv − q²/2 pairs for q_len
  // < kv_len, kv²/2 beyond. Forward only. E0805 where nobody measured attention.
  double AttentionForwardSeconds(double sequences, double heads, double kv_heads, double q_len,
                                 double kv_len, int head_dim, bool causal) const;
  double AttentionBackwardSeconds(double sequences, double heads, double kv_heads, double q_len,
                                  double kv_len, int head_dim, bool causal) const;
  double DecodeAttentionSeconds(double sequences, double kv_heads, double kv_len,
                                int head_dim) const;  // E0805
  double MemoryBoundSeconds(double bytes) const;
  // nullptr where nothing was measured for this kind and group size.
  const CollectiveEnvelope* Envelope(CollectiveKind kind, int gpus) const;

  // Whether a size lies outside of what the model was fitted on; false where the model does not tell
  // its range. A head dimension between two that were measured is interpolated, not extrapolated.
  bool ExtrapolatesGemm(double m, double n, double k, DType dtype) const;
  bool ExtrapolatesAttention(double sequences, double heads, double q_len, double kv_len,
                             int head_dim) const;
  bool ExtrapolatesDecode(double sequences, double kv_heads, double kv_len) const;
  // True too where nothing was measured for this kind and group size.
  bool ExtrapolatesCollective(CollectiveKind kind, int gpus, double bytes) const;
};

// The profile of a card that runs at another power limit: rates of matrices and attention ×
// ((watts − idle)/(power_limit_w − idle))^(1/3), everything else as it was (why: profile.cc). E0804
// where the profile does not tell its power, or `watts` is not above idle, or above the card's own
// limit.
Profile WithPowerLimit(const Profile& profile, double watts);

// Seconds of one call by its envelope, bytes ≥ 0.
double EnvelopeSeconds(const CollectiveEnvelope& envelope, double bytes);

Profile ReadProfile(const JsonDocument& document);  // E08xx
Json WriteProfile(const Profile& profile);
// `name_or_file` as in OpenModel; calibrate/profiles/NAME.json. E0230 unknown profile.
JsonDocument OpenProfile(const std::string& name_or_file, const std::string& data_root);
std::vector<std::string> ProfileCatalogue(const std::string& data_root);

}  // namespace aurum
