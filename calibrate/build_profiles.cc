#include "calibrate/build_profiles.h"

#include <algorithm>
#include <map>

#include "calibrate/devices.h"
#include "calibrate/fit_attention.h"
#include "calibrate/fit_collective.h"
#include "calibrate/fit_gemm.h"
#include "calibrate/least_squares.h"
#include "calibrate/table.h"
#include "sim/core/json.h"
#include "sim/core/text_file.h"
#include "sim/core/units.h"

// Facts of the devices: devices.cc. Everything else is fitted here, or scaled from a relative's fits.

namespace aurum {
namespace {

constexpr const char* kTables = "ai-dynamo/aiconfigurator measured tables (Apache-2.0), ";

constexpr const char* kIdle =
    "board power of the datasheet; idle: assumed to be a tenth of it (nvidia-smi shows 5…15 %)";
constexpr double kIdleShare = 0.1;

FitQuality RatioQuality(const std::string& source, Provenance provenance) {
  FitQuality quality;
  quality.method = "ratio";
  quality.source = source;
  quality.provenance = provenance;
  quality.holdout_mape = kUnknownError;
  quality.training_size_mape = kUnknownError;
  return quality;
}

// The other element types, from a model of the tensor cores' 16-bit products: the kernels have the
// same shape, so only the rate differs. Before compute capability 8 tensor cores have no bf16, and its
// products run on CUDA cores.
void AddTypes(const Device& device, const GemmModel& tensor, Profile* profile) {
  GemmModel fp32 = tensor;
  fp32.rate_flops =
      RoundSignificant(tensor.rate_flops * device.peak_fp32_flops / device.facts.peak_bf16_flops);
  fp32.quality =
      RatioQuality("bf16 × ratio of the datasheet's fp32 (CUDA cores, no TF32) and bf16 rates",
                   Provenance::kDatasheet);
  profile->gemm[DType::kFp32] = fp32;
  if (device.facts.compute_capability < 8) {
    profile->gemm[DType::kFp16] = tensor;
    fp32.quality = RatioQuality("fp32's: tensor cores of this generation take no bf16",
                                Provenance::kDatasheet);
    profile->gemm[DType::kBf16] = fp32;
    return;
  }
  profile->gemm[DType::kBf16] = tensor;
  GemmModel fp16 = tensor;
  fp16.quality =
      RatioQuality("equal tensor-core rates of bf16 and fp16, datasheet", profile->provenance);
  profile->gemm[DType::kFp16] = fp16;
  const auto narrow = [&](DType type, double ratio, const std::string& source) {
    if (ratio == 0) return;
    GemmModel model = tensor;
    model.rate_flops = RoundSignificant(tensor.rate_flops * ratio);
    model.quality = RatioQuality(
        "bf16 × " + Json(ratio).Dump() + "; " + source,
        source.starts_with("assumed") ? Provenance::kAssumed : Provenance::kCalibrated);
    profile->gemm[type] = model;
  };
  narrow(DType::kFp8, device.fp8_ratio, device.fp8_source);
  narrow(DType::kFp8Block, device.fp8_ratio,
         device.fp8_source +
             "; taken as equal with scales of blocks, whose finding is counted as a "
             "kernel of its own");
  narrow(DType::kNvfp4, device.nvfp4_ratio, device.nvfp4_source);
}

void Describe(const Device& device, Profile* profile) {
  profile->name = device.profile;
  profile->description = device.description;
  profile->device = device.facts;
  profile->error_band = device.error_band;
  profile->error_band_source = device.error_band_source;
  profile->sustained_factor = device.sustained_factor;
  profile->sustained_fp8_factor = device.sustained_fp8_factor;
  profile->sustained_source = device.sustained_source;
  profile->power_limit_w = device.power_limit_w;
  profile->idle_power_w = RoundSignificant(device.power_limit_w * kIdleShare);
  profile->power_source = kIdle;
  profile->unaligned_factor = device.unaligned_factor;
  profile->unaligned_source = device.unaligned_source;
  profile->measured_rate = device.measured;
  profile->launch_gap_s = 0;
  profile->launch_gap_source =
      "every t0 was fitted on whole calls, which the gap is part of; the tables cannot tell the "
      "two apart";
}

Profile FitFromTables(const Device& device, const std::string& folder) {
  Profile profile;
  Describe(device, &profile);
  profile.provenance = Provenance::kCalibrated;
  const auto path = [&](const std::string& kind, const std::string& suffix) {
    return folder + "/" + kind + "_" + device.table + suffix + ".csv";
  };
  const int sms = device.facts.sm_count;
  const std::string gemm = path("gemm", "_bfloat16");
  AddTypes(device,
           ChooseGemm(ReadGemmTable(ReadTextFile(gemm), gemm, "bfloat16"), sms,
                      std::string(kTables) + "gemm, bf16"),
           &profile);
  profile.memory_bound_t0_s = profile.gemm[DType::kBf16].t0_s;
  profile.memory_bound_efficiency = 0.8;
  profile.memory_bound_source =
      "t0: a kernel's start and drain, from the GEMM fit; 0.8 of the datasheet's bandwidth: "
      "step-time study";
  const std::string context = path("context_attention", "");
  profile.attention =
      FitAttention(ReadAttentionTable(ReadTextFile(context), context, "bfloat16"), sms,
                   std::string(kTables) +
                       "context attention, bf16, causal; backward 2.5 times the "
                       "FLOPs at 1/1.1 of the rate: step-time study");
  const std::string decode = path("generation_attention", "");
  profile.decode = FitDecode(ReadAttentionTable(ReadTextFile(decode), decode, "bfloat16"),
                             std::string(kTables) + "generation attention, bf16");
  const std::string nccl = path("nccl", "");
  profile.collectives = FitCollectives(ReadCollectiveTable(ReadTextFile(nccl), nccl, "half"),
                                       std::string(kTables) + "nccl, half");
  std::erase_if(profile.collectives, [&](const auto& entry) {
    return entry.first.second > device.most_collective_gpus;
  });
  return profile;
}

// Links `ratio` times as fast: every byte takes as much longer on the wire as it does at the highest
// rate. What small messages wait for, latencies and the flags of the low-latency protocols, stays.
void SlowLinks(double ratio, CollectiveEnvelope* envelope) {
  const double extra = (1 / ratio - 1) / envelope->lines.back().bytes_per_s;
  const double before = envelope->lines.back().bytes_per_s;
  for (EnvelopeLine& line : envelope->lines) {
    line.bytes_per_s = RoundSignificant(1 / (1 / line.bytes_per_s + extra));
  }
  envelope->busbw_bytes_per_s =
      RoundSignificant(envelope->busbw_bytes_per_s * envelope->lines.back().bytes_per_s / before);
}

// The relative's fits with rates and bandwidths scaled by the datasheets' ratios; of the same chip at
// another power limit, by what the limit leaves of the clock; and by what was measured where anything
// was. Fixed times stay: they are launches and latencies, which follow none of them.
Profile Derive(const Device& device, const Profile& relative) {
  Profile profile = relative;
  Describe(device, &profile);
  const double bandwidth =
      device.facts.memory_bandwidth_bytes_per_s / relative.device.memory_bandwidth_bytes_per_s;
  double rate = device.facts.peak_bf16_flops / relative.device.peak_bf16_flops;
  std::string source = "profile " + relative.name + " × ratios of the datasheets' peak rates (";
  if (device.rate_ratio > 0) {
    rate = device.rate_ratio;
    source = "profile " + relative.name + " × measured ratio of rates (";
  }
  std::string ratios = Json(RoundSignificant(rate, 4)).Dump();
  if (device.rate_ratio > 0) ratios += ": " + device.rate_source;
  ratios += ") and bandwidths (" + Json(RoundSignificant(bandwidth, 4)).Dump() + ")";
  if (device.same_chip && device.power_limit_w < relative.power_limit_w) {
    const Profile limited = WithPowerLimit(relative, device.power_limit_w);
    const double share =
        limited.gemm.at(DType::kBf16).rate_flops / relative.gemm.at(DType::kBf16).rate_flops;
    rate *= share;
    ratios += ", rates × " + Json(RoundSignificant(share, 4)).Dump() + " for " +
              Json(device.power_limit_w).Dump() + " W";
  }
  if (device.measured.rows > 0) {
    rate *= device.measured.factor;
    ratios += ", rates × " + Json(device.measured.factor).Dump() + " as measured (measured_rate)";
  }
  source += ratios;
  profile.provenance = device.same_chip && rate == 1 ? Provenance::kCalibrated
                       : device.measured.rows > 0    ? Provenance::kCalibrated
                                                     : Provenance::kDatasheet;
  profile.gemm.clear();
  GemmModel gemm = relative.gemm.at(DType::kBf16);
  gemm.rate_flops = RoundSignificant(gemm.rate_flops * rate);
  gemm.bandwidth_bytes_per_s = RoundSignificant(gemm.bandwidth_bytes_per_s * bandwidth);
  gemm.quality = RatioQuality(source, profile.provenance);
  AddTypes(device, gemm, &profile);
  for (auto& known : profile.attention.per_head_dim) {
    known.rate_flops = RoundSignificant(known.rate_flops * rate);
  }
  for (double* value :
       {&profile.attention.bandwidth_bytes_per_s, &profile.attention.cache_write_bytes_per_s,
        &profile.decode.bandwidth_bytes_per_s}) {
    *value = RoundSignificant(*value * bandwidth);
  }
  profile.attention.quality = RatioQuality(source, profile.provenance);
  profile.decode.quality = RatioQuality(source, profile.provenance);
  if (device.link_ratio == 0) profile.collectives.clear();  // another board, other links
  for (auto& [key, envelope] : profile.collectives) {
    if (device.link_ratio == 1) continue;
    SlowLinks(device.link_ratio, &envelope);
    envelope.quality =
        RatioQuality("profile " + relative.name + " with links " +
                         Json(RoundSignificant(device.link_ratio, 4)).Dump() + " times as fast",
                     Provenance::kDatasheet);
  }
  return profile;
}

}  // namespace

std::vector<Profile> BuildProfiles(const std::string& kernels_folder,
                                   const std::vector<std::string>& only) {
  std::map<std::string, Profile> made;
  const auto wanted = [&](const std::string& name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  for (const Device& device : Devices()) {
    if (device.table.empty()) continue;
    bool needed = wanted(device.profile);
    for (const Device& other : Devices()) {
      needed = needed || (other.relative == device.profile && wanted(other.profile));
    }
    if (needed) made[device.profile] = FitFromTables(device, kernels_folder);
  }
  for (const Device& device : Devices()) {
    if (!device.table.empty() || !wanted(device.profile)) continue;
    made[device.profile] = Derive(device, made.at(device.relative));
  }
  std::vector<Profile> profiles;
  for (auto& [name, profile] : made) {
    if (wanted(name)) profiles.push_back(std::move(profile));
  }
  return profiles;
}

std::string ProfileText(const Profile& profile) { return WriteProfile(profile).Dump(2) + "\n"; }

}  // namespace aurum
