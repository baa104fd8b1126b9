#include "calibrate/build_profiles.h"

#include <algorithm>
#include <limits>
#include <map>

#include "calibrate/fit_attention.h"
#include "calibrate/fit_collective.h"
#include "calibrate/fit_gemm.h"
#include "calibrate/least_squares.h"
#include "calibrate/table.h"
#include "sim/core/json.h"
#include "sim/core/text_file.h"
#include "sim/core/units.h"

// What the tables do not say: datasheet figures, and what the step-time study adds to them. Each
// device has one entry; everything else is fitted.

namespace aurum {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kTables = "ai-dynamo/aiconfigurator measured tables (Apache-2.0), ";

// Assumed for devices without a study of their own.
constexpr const char* kSustainedAssumed =
    "assumed: the A100's 1.15, for want of training runs on this device";

struct Device {
  std::string profile;
  std::string table;     // in the names of the files; "" = derived from `relative`
  std::string relative;  // the profile that a derived one is scaled from
  DeviceFacts facts;
  double peak_fp32_flops = 0;  // CUDA cores, no TF32
  double fp8_ratio = 0;        // training GEMM rate over bf16; 0 = no fp8
  std::string fp8_source;
  double sustained_factor = 1;
  std::string sustained_source;
  double error_band = 0;
  std::string error_band_source;
  std::string description;
  int most_collective_gpus = 8;
};

DeviceFacts Facts(const std::string& name, double memory_mib, double bandwidth_gb,
                  double bf16_tflops, double fp8_tflops, int sm_count, double capability,
                  const std::string& source) {
  DeviceFacts facts;
  facts.name = name;
  facts.memory_bytes = memory_mib * kMiB;
  facts.memory_bandwidth_bytes_per_s = RoundSignificant(bandwidth_gb * kGiga);
  facts.peak_bf16_flops = RoundSignificant(bf16_tflops * kTera);
  facts.peak_fp8_flops = RoundSignificant(fp8_tflops * kTera);
  facts.sm_count = sm_count;
  facts.compute_capability = capability;
  facts.source = source + "; memory as nvidia-smi reports it";
  return facts;
}

const std::vector<Device>& Devices() {
  const std::string study = "step-time study, fixed set: ";
  const std::string band10 =
      "step-time study: 8.9 % mean error on training sources left out (p90 16 %), their constants "
      "unknown";
  const std::string fp8 =
      "step-time study: largest fp8 over bf16 rates of training kernels, not the "
      "inference tables; one constant predicts fp8 training within 3…10 %";
  const std::string fp8_assumed = "assumed: between Hopper's 1.65 and Blackwell's 1.8";
  static const std::vector<Device> devices = {
      {"a100", "a100_sxm", "",
       Facts("NVIDIA A100 SXM 80 GB", 81920, 2039, 312, 0, 108, 8.0,
             "NVIDIA A100 datasheet (2021)"),
       19.5e12, 0, "", 1.15,
       study + "training GEMMs take 1.15 times the tables; agrees with 8192³ at 295 TFLOP/s on "
               "zeros, 257 on "
               "normal data",
       0.10, band10, "A100 SXM 80 GB in an HGX board (NVSwitch). Fitted on public tables."},
      {"a100-40", "", "a100",
       Facts("NVIDIA A100 SXM 40 GB", 40960, 1555, 312, 0, 108, 8.0,
             "NVIDIA A100 datasheet (2020)"),
       19.5e12, 0, "", 1.15, study + "1.15, as for the 80 GB card", 0.12,
       "the 80 GB card's 10 %, and 2 % for the bandwidth ratio",
       "A100 SXM 40 GB: the 80 GB card's fits with every bandwidth scaled by 1555/2039."},
      {"h100", "h100_sxm", "",
       Facts("NVIDIA H100 SXM 80 GB", 81559, 3350, 989.4, 1978.9, 132, 9.0,
             "NVIDIA H100 datasheet, half of the sparse rates"),
       66.9e12, 1.65, fp8, 1.25,
       study + "training GEMMs take 1.25 times the tables (1.2…1.3 by source)", 0.10, band10,
       "H100 SXM 80 GB in an HGX board (NVSwitch, NVLS). Fitted on public tables."},
      {"h200", "h200_sxm", "",
       Facts("NVIDIA H200 SXM 141 GB", 143771, 4800, 989.4, 1978.9, 132, 9.0,
             "NVIDIA H200 datasheet, half of the sparse rates"),
       66.9e12, 1.65, fp8, 1.25, study + "1.25, as for the H100, the same chip", 0.10, band10,
       "H200 SXM in an HGX board (NVSwitch, NVLS). Fitted on public tables."},
      {"b200", "b200_sxm", "",
       Facts("NVIDIA B200 SXM 180 GB", 183359, 8000, 2250, 4500, 148, 10.0,
             "NVIDIA HGX B200 datasheet, half of the sparse rates, an eighth of the board"),
       75e12, 1.8, fp8, 1.5,
       study + "training GEMMs take about 1.5 times the tables; one source (SimuMax)", 0.15,
       "step-time study: 8.3 % on the one dense B200 source, whose factor was fitted on it: "
       "widened",
       "B200 SXM in an HGX board (NVSwitch, NVLS). Fitted on public tables."},
      {"gb200", "gb200", "",
       Facts("NVIDIA GB200 186 GB", 189471, 8000, 2500, 5000, 152, 10.0,
             "NVIDIA GB200 NVL72 datasheet, half of the sparse rates, a 72nd of the rack"),
       80e12, 1.9, fp8, 1.5, study + "1.5, as for the B200", 0.20,
       "step-time study: 17.5 % on NVIDIA's fp8 Blackwell rows with the fixed set, which predicts "
       "them too slow",
       "GB200 in an NVL72 rack; collectives measured up to 4 GPUs. Its GEMM table varies by 40 % "
       "for like shapes "
       ", clocks we suppose, which no model follows. Fitted on public tables."},
      {"l40s", "l40s", "",
       Facts("NVIDIA L40S 48 GB", 46068, 864, 362.05, 733, 142, 8.9,
             "NVIDIA L40S datasheet, dense rates"),
       91.6e12, 1.7, fp8_assumed, 1.15, kSustainedAssumed, 0.20,
       "assumed: twice the A100's, no training run on this device was in the study",
       "L40S on PCIe 4.0. Fitted on public tables. Collectives only for pairs: the measured box "
       "reached 1.4 GB/s on 8 "
       "GPUs and 5 on 4, without peer-to-peer across sockets, which says more of the box than of "
       "the card.",
       2},
      {"orin-nx", "", "a100",
       Facts(
           "NVIDIA Jetson Orin NX 16 GB", 16384, 102.4, 15.0, 0, 8, 8.7,
           "NVIDIA Jetson Orin NX datasheet: 8 SMs at 918 MHz, 102.4 GB/s, 16 GB shared with the "
           "CPU (not all of it usable); dense fp16 is 2048 "
           "FLOP a clock and SM, half of the dense int8 rate behind the 60 sparse TOPS of its GPU"),
       1.88e12, 0, "", 1.15, kSustainedAssumed, 0.40,
       "assumed: nothing was measured on this device",
       "Jetson Orin NX 16 GB, derived from the A100 (Ampere too) by ratios of peak rate and "
       "bandwidth. Nobody has measured "
       "these figures: they order plans and say what fits, no more."},
      {"rtx-pro-6000", "rtx_pro_6000_server", "",
       Facts("NVIDIA RTX PRO 6000 Blackwell Server Edition 96 GB", 97887, 1597, 480, 960, 188, 12.0,
             "NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet: 120 TFLOP/s fp32, 1597 GB/s; "
             "dense bf16 is 4 "
             "and fp8 8 times fp32, as NVIDIA's RTX Blackwell PRO architecture paper has it for "
             "the workstation card"),
       120e12, 1.7, fp8_assumed, 1.15, kSustainedAssumed, 0.20,
       "assumed: twice the A100's, no training run on this device was in the study",
       "RTX PRO 6000 Blackwell Server Edition on PCIe 5.0. Fitted on public tables."},
      {"rtx4090", "", "rtx-pro-6000",
       Facts("NVIDIA GeForce RTX 4090 24 GB", 24564, 1008, 165.2, 330.3, 128, 8.9,
             "NVIDIA Ada architecture paper: dense, fp32 accumulation, half the rate of fp16 "
             "accumulation"),
       82.6e12, 1.7, fp8_assumed, 1.15, kSustainedAssumed, 0.40,
       "assumed: nothing was measured on this device",
       "GeForce RTX 4090, derived from the RTX PRO 6000 by ratios of peak rate and bandwidth: the "
       "L40S is the same chip but "
       "reaches 0.6 of its peak, its 350 W being the likely reason, where the RTX PRO 6000 reaches "
       "0.9; scaled from the L40S, "
       "fine-tuning rows came out 40…60 % too slow. No peer-to-peer, so no collectives were "
       "measured."},
  };
  return devices;
}

FitQuality RatioQuality(const std::string& source, Provenance provenance) {
  FitQuality quality;
  quality.method = "ratio";
  quality.source = source;
  quality.provenance = provenance;
  quality.holdout_mape = kNaN;
  quality.training_size_mape = kNaN;
  return quality;
}

// The other element types, from the bf16 model: the kernels have the same shape, so only the rate
// differs.
void AddOtherTypes(const Device& device, Profile* profile) {
  const GemmModel& bf16 = profile->gemm.at(DType::kBf16);
  GemmModel fp16 = bf16;
  fp16.quality =
      RatioQuality("equal tensor-core rates of bf16 and fp16, datasheet", profile->provenance);
  GemmModel fp32 = bf16;
  fp32.rate_flops =
      RoundSignificant(bf16.rate_flops * device.peak_fp32_flops / device.facts.peak_bf16_flops);
  fp32.quality =
      RatioQuality("bf16 × ratio of the datasheet's fp32 (CUDA cores, no TF32) and bf16 rates",
                   Provenance::kDatasheet);
  GemmModel fp8 = bf16;
  fp8.rate_flops = RoundSignificant(bf16.rate_flops * device.fp8_ratio);
  fp8.quality = RatioQuality(
      "bf16 × " + Json(device.fp8_ratio).Dump() + "; " + device.fp8_source,
      device.fp8_source.starts_with("assumed") ? Provenance::kAssumed : Provenance::kCalibrated);
  profile->gemm[DType::kFp16] = fp16;
  profile->gemm[DType::kFp32] = fp32;
  if (device.fp8_ratio > 0) profile->gemm[DType::kFp8] = fp8;
}

void Describe(const Device& device, Profile* profile) {
  profile->name = device.profile;
  profile->description = device.description;
  profile->device = device.facts;
  profile->error_band = device.error_band;
  profile->error_band_source = device.error_band_source;
  profile->sustained_factor = device.sustained_factor;
  profile->sustained_source = device.sustained_source;
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
  profile.gemm[DType::kBf16] = ChooseGemm(ReadGemmTable(ReadTextFile(gemm), gemm, "bfloat16"), sms,
                                          std::string(kTables) + "gemm, bf16");
  AddOtherTypes(device, &profile);
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

// The relative's fits with rates and bandwidths scaled by the datasheets' ratios. Fixed times stay:
// they are launches and latencies, which do not follow either ratio.
Profile Derive(const Device& device, const Profile& relative) {
  Profile profile = relative;
  Describe(device, &profile);
  const double bandwidth =
      device.facts.memory_bandwidth_bytes_per_s / relative.device.memory_bandwidth_bytes_per_s;
  const double rate = device.facts.peak_bf16_flops / relative.device.peak_bf16_flops;
  const bool same_chip = rate == 1;
  profile.provenance = same_chip ? Provenance::kCalibrated : Provenance::kDatasheet;
  const std::string source =
      "profile " + relative.name + " × ratios of the datasheets' peak rates and bandwidths";
  profile.gemm.clear();
  GemmModel gemm = relative.gemm.at(DType::kBf16);
  gemm.rate_flops = RoundSignificant(gemm.rate_flops * rate);
  gemm.bandwidth_bytes_per_s = RoundSignificant(gemm.bandwidth_bytes_per_s * bandwidth);
  gemm.quality = RatioQuality(source, profile.provenance);
  profile.gemm[DType::kBf16] = gemm;
  AddOtherTypes(device, &profile);
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
  if (!same_chip) profile.collectives.clear();  // another board, other links
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
