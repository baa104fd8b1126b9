#include "calibrate/devices.h"

#include "calibrate/least_squares.h"
#include "sim/core/units.h"

// Peak rates are dense (half of what datasheets quote with sparsity) with fp32 accumulation; memory is
// what nvidia-smi reports where it runs on the device.

namespace aurum {
namespace {

constexpr const char* kStudy = "step-time study, fixed set: ";
constexpr const char* kBand10 =
    "step-time study: 8.9 % mean error on training sources left out (p90 16 %), their constants "
    "unknown";
constexpr const char* kFp8 =
    "step-time study: largest fp8 over bf16 rates of training kernels, not the "
    "inference tables; one constant predicts fp8 training within 3…10 %";
constexpr const char* kFp8Assumed = "assumed: between Hopper's 1.65 and Blackwell's 1.8";
constexpr const char* kFp4 =
    "step-time study: ratio of the largest nvfp4 and bf16 rates of the tables";
constexpr const char* kNarrow =
    "; products of 8 and 4 bits 1.11 times bf16 / ratio, fitted on NeMo 24.07's H100 rows, which "
    "predicts the fp8 rows of other sources within 3…10 %";
// Solved for beside the constants of stacks (fit_stacks.h): what all runs on a chip have in common.
constexpr const char* kFittedA100 =
    "published training steps on A100 and A800, what all stacks have in common (aurum-fit-stacks); "
    "agrees with 8192³ at 295 TFLOP/s on zeros, 257 on normal data: 1.15";
constexpr const char* kFittedH100 =
    "published training steps on H100, H200 and H800, what all stacks have in common "
    "(aurum-fit-stacks); 8 bits apart, over 1.65 times the 16-bit rate";
constexpr const char* kFittedB200 =
    "published training steps on B200, B300, GB200 and GB300, what all stacks have in common "
    "(aurum-fit-stacks); 8 and 4 bits apart, over their ratios to the 16-bit rate";
constexpr const char* kFitted4090 =
    "published fine-tuning steps on the RTX 4090, what all stacks have in common "
    "(aurum-fit-stacks)";
constexpr const char* kSustainedAssumed =
    "assumed: the A100's 1.15, for want of training runs on this device";
constexpr const char* kUnmeasured = "assumed: nothing was measured on this device";
constexpr const char* kNoRuns =
    "assumed: twice the A100's, no training run on this device was in the study";
constexpr const char* kUnaligned =
    "step-time study: ×1.33 where an inner or output size is no multiple of 64 lowers the mean "
    "error "
    "of all its dense rows from 7.3 to 6.8 %, and moves the rows concerned by 11 %";

// The time of a plain vision transformer is matrices / factor + memory-bound kernels · μ, μ one number a
// kind of run: fused kernels move less than the eager count that the prediction starts from.
constexpr const char* kEncodersCompiled =
    "timm's published benchmark tables (huggingface/pytorch-image-models), plain vision "
    "transformers, "
    "16-bit inference, compiled: time = matrices and attention of this profile "
    "without the factor, at its sustained factor, over the factor, + 0.3 times the memory-bound "
    "kernels";
constexpr const char* kEncodersTraining =
    "timm's published benchmark tables (huggingface/pytorch-image-models), plain vision "
    "transformers, "
    "training steps under autocast, eager: time = matrices and attention of this profile without "
    "the "
    "factor, at its sustained factor, over the factor, + 1.05 times the memory-bound kernels";
constexpr const char* kBandEncoders =
    "spread of the measured rate over models, 10…15 % either way, doubled: encoders are not "
    "language "
    "models";

struct Sheet {
  const char* name;
  double memory_mib, bandwidth_gb, bf16_tflops, fp8_tflops;
  int sm_count;
  double capability;
  const char* source;
};

DeviceFacts Facts(const Sheet& sheet) {
  DeviceFacts facts;
  facts.name = sheet.name;
  facts.memory_bytes = sheet.memory_mib * kMiB;
  facts.memory_bandwidth_bytes_per_s = RoundSignificant(sheet.bandwidth_gb * kGiga);
  facts.peak_bf16_flops = RoundSignificant(sheet.bf16_tflops * kTera);
  facts.peak_fp8_flops = RoundSignificant(sheet.fp8_tflops * kTera);
  facts.sm_count = sheet.sm_count;
  facts.compute_capability = sheet.capability;
  facts.source = std::string(sheet.source) + "; memory as nvidia-smi reports it";
  return facts;
}

std::vector<Device> MakeDevices() {
  std::vector<Device> devices;
  devices.push_back(
      {.profile = "a100",
       .table = "a100_sxm",
       .facts = Facts({"NVIDIA A100 SXM 80 GB", 81920, 2039, 312, 0, 108, 8.0,
                       "NVIDIA A100 datasheet (2021)"}),
       .peak_fp32_flops = 19.5 * kTera,
       .sustained_factor = 1.18,
       .sustained_fp8_factor = 1.18,
       .sustained_source = kFittedA100,
       .power_limit_w = 400,
       .unaligned_factor = 1.33,
       .unaligned_source = kUnaligned,
       .error_band = 0.1,
       .error_band_source = kBand10,
       .description = "A100 SXM 80 GB in an HGX board (NVSwitch). Fitted on public tables."});
  devices.push_back(
      {.profile = "a100-40",
       .relative = "a100",
       .facts = Facts({"NVIDIA A100 SXM 40 GB", 40960, 1555, 312, 0, 108, 8.0,
                       "NVIDIA A100 datasheet (2020)"}),
       .peak_fp32_flops = 19.5 * kTera,
       .sustained_factor = 1.18,
       .sustained_fp8_factor = 1.18,
       .sustained_source = kFittedA100,
       .power_limit_w = 400,
       .unaligned_factor = 1.33,
       .unaligned_source = kUnaligned,
       .error_band = 0.12,
       .error_band_source = "the 80 GB card's 10 %, and 2 % for the bandwidth ratio",
       .description =
           "A100 SXM 40 GB: the 80 GB card's fits with every bandwidth scaled by 1555/2039.",
       .same_chip = true,
       .link_ratio = 1});
  devices.push_back(
      {.profile = "a800",
       .relative = "a100",
       .facts = Facts({"NVIDIA A800 SXM 80 GB", 81920, 2039, 312, 0, 108, 8.0,
                       "NVIDIA A800 datasheet: an A100 with NVLink of 400 GB/s, not 600"}),
       .peak_fp32_flops = 19.5 * kTera,
       .sustained_factor = 1.18,
       .sustained_fp8_factor = 1.18,
       .sustained_source = kFittedA100,
       .power_limit_w = 400,
       .unaligned_factor = 1.33,
       .unaligned_source = kUnaligned,
       .error_band = 0.12,
       .error_band_source = "the A100's 10 %, and 2 % for its links",
       .description = "A800 SXM 80 GB: the A100's fits, with the wire time of collectives for "
                      "NVLink of 400 GB/s in place of 600.",
       .same_chip = true,
       .link_ratio = 400.0 / 600});
  devices.push_back({.profile = "a100-pcie-80",
                     .relative = "a100",
                     .facts = Facts({"NVIDIA A100 PCIe 80 GB", 81920, 1935, 312, 0, 108, 8.0,
                                     "NVIDIA A100 80 GB PCIe datasheet"}),
                     .peak_fp32_flops = 19.5 * kTera,
                     .sustained_factor = 1.18,
                     .sustained_fp8_factor = 1.18,
                     .sustained_source = kFittedA100,
                     .power_limit_w = 300,
                     .unaligned_factor = 1.33,
                     .unaligned_source = kUnaligned,
                     .error_band = 0.2,
                     .error_band_source = "assumed: the A100's 10 %, and 10 % for the power law",
                     .description = "A100 PCIe 80 GB: the SXM card's fits at 300 W.",
                     .same_chip = true});
  devices.push_back(
      {.profile = "a100-pcie-40",
       .relative = "a100",
       .facts = Facts({"NVIDIA A100 PCIe 40 GB", 40960, 1555, 312, 0, 108, 8.0,
                       "NVIDIA A100 40 GB PCIe datasheet"}),
       .peak_fp32_flops = 19.5 * kTera,
       .sustained_factor = 1.18,
       .sustained_fp8_factor = 1.18,
       .sustained_source = kFittedA100,
       .power_limit_w = 250,
       .unaligned_factor = 1.33,
       .unaligned_source = kUnaligned,
       .error_band = 0.2,
       .error_band_source = "assumed: the A100's 10 %, and 10 % for the power law",
       .description = "A100 PCIe 40 GB: the SXM card's fits at 250 W, with its own bandwidth.",
       .same_chip = true});
  devices.push_back(
      {.profile = "a30",
       .relative = "a100",
       .facts = Facts({"NVIDIA A30 24 GB", 24576, 933, 165, 0, 56, 8.0, "NVIDIA A30 datasheet"}),
       .peak_fp32_flops = 10.3 * kTera,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 165,
       .unaligned_factor = 1.33,
       .unaligned_source = kUnaligned,
       .error_band = 0.3,
       .error_band_source = kUnmeasured,
       .description = "A30, derived from the A100, which has the same kind of SM."});
  devices.push_back(
      {.profile = "h100",
       .table = "h100_sxm",
       .facts = Facts({"NVIDIA H100 SXM 80 GB", 81559, 3350, 989.4, 1978.9, 132, 9.0,
                       "NVIDIA H100 datasheet, half of the sparse rates"}),
       .peak_fp32_flops = 66.9 * kTera,
       .fp8_ratio = 1.65,
       .fp8_source = kFp8,
       .sustained_factor = 1.3,
       .sustained_fp8_factor = 0.97,
       .sustained_source = kFittedH100,
       .power_limit_w = 700,
       .error_band = 0.1,
       .error_band_source = kBand10,
       .description = "H100 SXM 80 GB in an HGX board (NVSwitch, NVLS). Fitted on public tables."});
  devices.push_back(
      {.profile = "h800",
       .relative = "h100",
       .facts = Facts({"NVIDIA H800 SXM 80 GB", 81559, 3350, 989.4, 1978.9, 132, 9.0,
                       "NVIDIA H800 datasheet: an H100 with NVLink of 400 GB/s, not 900"}),
       .peak_fp32_flops = 66.9 * kTera,
       .fp8_ratio = 1.65,
       .fp8_source = kFp8,
       .sustained_factor = 1.3,
       .sustained_fp8_factor = 0.97,
       .sustained_source = kFittedH100,
       .power_limit_w = 700,
       .error_band = 0.12,
       .error_band_source = "the H100's 10 %, and 2 % for its links",
       .description = "H800 SXM 80 GB: the H100's fits, with the wire time of collectives for "
                      "NVLink of 400 GB/s in place of 900.",
       .same_chip = true,
       .link_ratio = 400.0 / 900});
  devices.push_back(
      {.profile = "h100-pcie",
       .relative = "h100",
       .facts = Facts({"NVIDIA H100 PCIe 80 GB", 81559, 2039, 756, 1513, 114, 9.0,
                       "NVIDIA H100 PCIe datasheet, half of the sparse rates"}),
       .peak_fp32_flops = 51.2 * kTera,
       .fp8_ratio = 1.65,
       .fp8_source = kFp8,
       .sustained_factor = 1.3,
       .sustained_fp8_factor = 0.97,
       .sustained_source = kFittedH100,
       .power_limit_w = 350,
       .error_band = 0.25,
       .error_band_source = kUnmeasured,
       .description = "H100 PCIe 80 GB, derived from the SXM card. Half of its power limit: long "
                      "products may be slower than this says."});
  devices.push_back(
      {.profile = "h100-96",
       .relative = "h100",
       .facts = Facts({"NVIDIA H100 SXM 96 GB (HBM2e)", 97871, 2400, 989.4, 1978.9, 132, 9.0,
                       "torchtitan's documentation of its machines: HBM2e at 2.4 TB/s; the chip is "
                       "the H100 SXM's"}),
       .peak_fp32_flops = 66.9 * kTera,
       .fp8_ratio = 1.65,
       .fp8_source = kFp8,
       .sustained_factor = 1.3,
       .sustained_fp8_factor = 0.97,
       .sustained_source = kFittedH100,
       .power_limit_w = 700,
       .error_band = 0.15,
       .error_band_source =
           "the 80 GB card's 10 %, and 5 % for the bandwidth ratio and the power law",
       .description = "H100 SXM with 96 GB of HBM2e: the 80 GB card's fits with the bandwidth "
                      "scaled. Clouds run it at "
                      "500 W: say so with the cluster's power_limit_w."});
  devices.push_back({.profile = "h100-nvl",
                     .relative = "h100",
                     .facts = Facts({"NVIDIA H100 NVL 94 GB", 95830, 3938, 835.5, 1671, 132, 9.0,
                                     "NVIDIA H100 NVL datasheet, half of the sparse rates"}),
                     .peak_fp32_flops = 60 * kTera,
                     .fp8_ratio = 1.65,
                     .fp8_source = kFp8,
                     .sustained_factor = 1.3,
                     .sustained_fp8_factor = 0.97,
                     .sustained_source = kFittedH100,
                     .power_limit_w = 400,
                     .error_band = 0.25,
                     .error_band_source = kUnmeasured,
                     .description = "H100 NVL 94 GB, derived from the SXM card."});
  devices.push_back(
      {.profile = "h20",
       .relative = "h100",
       .facts = Facts({"NVIDIA H20 SXM 96 GB", 97871, 4000, 148, 296, 78, 9.0,
                       "NVIDIA H20 datasheet, dense rates"}),
       .peak_fp32_flops = 44 * kTera,
       .fp8_ratio = 1.65,
       .fp8_source = kFp8,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.11,
       .sustained_source = "assumed: the A100's 1.15: few SMs under a wide power limit should "
                           "throttle less than an H100" +
                           std::string(kNarrow),
       .power_limit_w = 400,
       .error_band = 0.25,
       .error_band_source = kUnmeasured,
       .description =
           "H20 SXM 96 GB, derived from the H100: the same NVLink, a seventh of its arithmetic.",
       .link_ratio = 1});
  devices.push_back(
      {.profile = "h200",
       .table = "h200_sxm",
       .facts = Facts({"NVIDIA H200 SXM 141 GB", 143771, 4800, 989.4, 1978.9, 132, 9.0,
                       "NVIDIA H200 datasheet, half of the sparse rates"}),
       .peak_fp32_flops = 66.9 * kTera,
       .fp8_ratio = 1.65,
       .fp8_source = kFp8,
       .sustained_factor = 1.3,
       .sustained_fp8_factor = 0.97,
       .sustained_source = kFittedH100,
       .power_limit_w = 700,
       .error_band = 0.1,
       .error_band_source = kBand10,
       .description = "H200 SXM in an HGX board (NVSwitch, NVLS). Fitted on public tables."});
  devices.push_back(
      {.profile = "b200",
       .table = "b200_sxm",
       .facts =
           Facts({"NVIDIA B200 SXM 180 GB", 183359, 8000, 2250, 4500, 148, 10.0,
                  "NVIDIA HGX B200 datasheet, half of the sparse rates, an eighth of the board"}),
       .peak_fp32_flops = 75 * kTera,
       .fp8_ratio = 1.8,
       .fp8_source = kFp8,
       .nvfp4_ratio = 2.8,
       .nvfp4_source = kFp4,
       .sustained_factor = 1.56,
       .sustained_fp8_factor = 1.05,
       .sustained_source = kFittedB200,
       .power_limit_w = 1000,
       .error_band = 0.15,
       .error_band_source = "step-time study: 8.3 % on the one dense B200 source, whose factor was "
                            "fitted on it: widened",
       .description = "B200 SXM in an HGX board (NVSwitch, NVLS). Fitted on public tables."});
  devices.push_back({.profile = "b300",
                     .relative = "b200",
                     .facts = Facts({"NVIDIA B300 SXM 288 GB", 275040, 8000, 2250, 4500, 148, 10.3,
                                     "NVIDIA HGX B300 datasheet, an eighth of the board"}),
                     .peak_fp32_flops = 75 * kTera,
                     .fp8_ratio = 1.8,
                     .fp8_source = kFp8,
                     .nvfp4_ratio = 2.8,
                     .nvfp4_source = "as the B200's; that its datasheet rate is 1.5 times the "
                                     "B200's has not been measured in training",
                     .sustained_factor = 1.56,
                     .sustained_fp8_factor = 1.05,
                     .sustained_source = kFittedB200,
                     .power_limit_w = 1100,
                     .error_band = 0.25,
                     .error_band_source = kUnmeasured,
                     .description = "B300 SXM, derived from the B200: the same dense bf16 rate, "
                                    "bandwidth and NVLink, more memory.",
                     .link_ratio = 1});
  devices.push_back(
      {.profile = "gb200",
       .table = "gb200",
       .facts =
           Facts({"NVIDIA GB200 186 GB", 189471, 8000, 2500, 5000, 152, 10.0,
                  "NVIDIA GB200 NVL72 datasheet, half of the sparse rates, a 72nd of the rack"}),
       .peak_fp32_flops = 80 * kTera,
       .fp8_ratio = 1.9,
       .fp8_source = kFp8,
       .nvfp4_ratio = 2.85,
       .nvfp4_source = kFp4,
       .sustained_factor = 1.56,
       .sustained_fp8_factor = 1.05,
       .sustained_source = kFittedB200,
       .power_limit_w = 1200,
       .error_band = 0.2,
       .error_band_source = "step-time study: 17.5 % on NVIDIA's fp8 Blackwell rows with the fixed "
                            "set, which predicts them too slow",
       .description = "GB200 in an NVL72 rack; collectives measured up to 4 GPUs. Its GEMM table "
                      "varies by 40 % for like shapes, clocks we suppose, which no model follows. "
                      "Fitted on public tables."});
  devices.push_back({.profile = "gb300",
                     .relative = "gb200",
                     .facts = Facts({"NVIDIA GB300 288 GB", 284208, 8000, 2500, 5000, 152, 10.3,
                                     "NVIDIA GB300 NVL72 datasheet, a 72nd of the rack"}),
                     .peak_fp32_flops = 80 * kTera,
                     .fp8_ratio = 1.9,
                     .fp8_source = kFp8,
                     .nvfp4_ratio = 2.85,
                     .nvfp4_source = "as the GB200's; that its datasheet rate is 1.5 times the "
                                     "GB200's has not been measured in training",
                     .sustained_factor = 1.56,
                     .sustained_fp8_factor = 1.05,
                     .sustained_source = kFittedB200,
                     .power_limit_w = 1400,
                     .error_band = 0.25,
                     .error_band_source = "the GB200's 20 %, and 5 % for the ratio between the two",
                     .description = "GB300 in an NVL72 rack, derived from the GB200.",
                     .rate_ratio = 1.2,
                     .rate_source = "step-time study: GB300 rows of Megatron-Bridge run at 1.2 "
                                    "times the GB200's rates (its power limit is 1400 W, not 1200)",
                     .link_ratio = 1});
  devices.push_back(
      {.profile = "l40s",
       .table = "l40s",
       .facts = Facts({"NVIDIA L40S 48 GB", 46068, 864, 362.05, 733, 142, 8.9,
                       "NVIDIA L40S datasheet, dense rates"}),
       .peak_fp32_flops = 91.6 * kTera,
       .fp8_ratio = 1.7,
       .fp8_source = kFp8Assumed,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 350,
       .error_band = 0.2,
       .error_band_source = kNoRuns,
       .description = "L40S on PCIe 4.0. Fitted on public tables. Collectives only for pairs: the "
                      "measured box reached 1.4 GB/s on 8 GPUs and 5 on 4, without peer-to-peer "
                      "across sockets, which says more of the box than of the card.",
       .most_collective_gpus = 2});
  devices.push_back(
      {.profile = "l40",
       .relative = "l40s",
       .facts = Facts({"NVIDIA L40 48 GB", 46068, 864, 181.05, 362, 142, 8.9,
                       "NVIDIA L40 datasheet, half of the sparse rates"}),
       .peak_fp32_flops = 90.5 * kTera,
       .fp8_ratio = 1.7,
       .fp8_source = kFp8Assumed,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 300,
       .error_band = 0.4,
       .error_band_source = kUnmeasured,
       .description = "L40, derived from the L40S, the same chip with half of its tensor rate."});
  devices.push_back(
      {.profile = "rtx6000-ada",
       .relative = "l40s",
       .facts = Facts({"NVIDIA RTX 6000 Ada Generation 48 GB", 49140, 960, 364.2, 728.5, 142, 8.9,
                       "NVIDIA RTX 6000 Ada Generation datasheet, half of the sparse rates"}),
       .peak_fp32_flops = 91.1 * kTera,
       .fp8_ratio = 1.7,
       .fp8_source = kFp8Assumed,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 300,
       .error_band = 0.4,
       .error_band_source = kUnmeasured,
       .description =
           "RTX 6000 Ada, derived from the L40S, the same chip, at 300 W in place of 350.",
       .same_chip = true});
  devices.push_back(
      {.profile = "l4",
       .relative = "l40s",
       .facts = Facts({"NVIDIA L4 24 GB", 23034, 300, 121, 242.5, 58, 8.9,
                       "NVIDIA L4 datasheet, half of the sparse rates"}),
       .peak_fp32_flops = 30.3 * kTera,
       .fp8_ratio = 1.7,
       .fp8_source = kFp8Assumed,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 72,
       .error_band = 0.4,
       .error_band_source = kUnmeasured,
       .description = "L4, derived from the L40S. Its 72 W are a fifth of the L40S's for a third "
                      "of the rate: long products may be slower than this says."});
  devices.push_back(
      {.profile = "orin-nx",
       .relative = "a100",
       .facts =
           Facts({"NVIDIA Jetson Orin NX 16 GB", 16384, 102.4, 15.0, 0, 8, 8.7,
                  "NVIDIA Jetson Orin NX datasheet: 8 SMs at 918 MHz, 102.4 GB/s, 16 GB shared "
                  "with the CPU (not all of it usable); dense fp16 is 2048 FLOP a clock and SM, "
                  "half of the dense int8 rate behind the 60 sparse TOPS of its GPU"}),
       .peak_fp32_flops = 1.88 * kTera,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 25,
       .error_band = 0.4,
       .error_band_source = kUnmeasured,
       .description = "Jetson Orin NX 16 GB, derived from the A100 (Ampere too). Nobody has "
                      "measured these figures: they order plans and say what fits, no more."});
  devices.push_back(
      {.profile = "orin-agx",
       .relative = "a100",
       .facts = Facts({"NVIDIA Jetson AGX Orin 64 GB", 65536, 204.8, 42.5, 0, 16, 8.7,
                       "NVIDIA Jetson AGX Orin datasheet: 16 SMs at 1.3 GHz, 204.8 GB/s, 64 GB "
                       "shared with the CPU (not all of it usable); dense fp16 is 2048 FLOP a "
                       "clock and SM, a quarter of the sparse int8 rate of 170 TOPS of its GPU"}),
       .peak_fp32_flops = 5.3 * kTera,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 60,
       .error_band = 0.4,
       .error_band_source = kUnmeasured,
       .description = "Jetson AGX Orin 64 GB, derived from the A100 (Ampere too). Nobody has "
                      "measured these figures: they order plans and say what fits, no more."});
  devices.push_back({.profile = "v100-32",
                     .relative = "a100",
                     .facts = Facts({"NVIDIA V100 SXM2 32 GB", 32510, 900, 125, 0, 80, 7.0,
                                     "NVIDIA V100 datasheet: 125 TFLOP/s of fp16; it has no bf16"}),
                     .peak_fp32_flops = 15.7 * kTera,
                     .sustained_factor = 1.15,
                     .sustained_fp8_factor = 1.15,
                     .sustained_source = kSustainedAssumed,
                     .power_limit_w = 300,
                     .error_band = 0.3,
                     .error_band_source = kUnmeasured,
                     .description = "V100 SXM2 32 GB, derived from the A100. Tensor cores take "
                                    "fp16 alone: bf16 runs on CUDA cores, at fp32's rate."});
  devices.push_back({.profile = "v100-16",
                     .relative = "a100",
                     .facts = Facts({"NVIDIA V100 SXM2 16 GB", 16160, 900, 125, 0, 80, 7.0,
                                     "NVIDIA V100 datasheet: 125 TFLOP/s of fp16; it has no bf16"}),
                     .peak_fp32_flops = 15.7 * kTera,
                     .sustained_factor = 1.15,
                     .sustained_fp8_factor = 1.15,
                     .sustained_source = kSustainedAssumed,
                     .power_limit_w = 300,
                     .error_band = 0.3,
                     .error_band_source = kUnmeasured,
                     .description = "V100 SXM2 16 GB, derived from the A100. Tensor cores take "
                                    "fp16 alone: bf16 runs on CUDA cores, at fp32's rate."});
  devices.push_back({.profile = "t4",
                     .relative = "a100",
                     .facts = Facts({"NVIDIA T4 16 GB", 15360, 320, 65, 0, 40, 7.5,
                                     "NVIDIA T4 datasheet: 65 TFLOP/s of fp16; it has no bf16"}),
                     .peak_fp32_flops = 8.1 * kTera,
                     .sustained_factor = 1.15,
                     .sustained_fp8_factor = 1.15,
                     .sustained_source = kSustainedAssumed,
                     .power_limit_w = 70,
                     .error_band = 0.4,
                     .error_band_source = kUnmeasured,
                     .description = "T4, derived from the A100. Tensor cores take fp16 alone: bf16 "
                                    "runs on CUDA cores, at fp32's rate. Its 70 W hardly carry its "
                                    "peak: long products may be slower than this says."});
  devices.push_back(
      {.profile = "rtx-pro-6000",
       .table = "rtx_pro_6000_server",
       .facts = Facts({"NVIDIA RTX PRO 6000 Blackwell Server Edition 96 GB", 97887, 1597, 480, 960,
                       188, 12.0,
                       "NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet: 120 TFLOP/s fp32, "
                       "1597 GB/s; dense bf16 is 4 and fp8 8 times fp32, as NVIDIA's RTX Blackwell "
                       "PRO architecture paper has it for the workstation card"}),
       .peak_fp32_flops = 120 * kTera,
       .fp8_ratio = 1.7,
       .fp8_source = kFp8Assumed,
       .nvfp4_ratio = 3.0,
       .nvfp4_source = "largest nvfp4 and bf16 rates of the tables: 1473 and 450 TFLOP/s, means of "
                       "the ten largest 1323 and 433",
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 600,
       .error_band = 0.2,
       .error_band_source = kNoRuns,
       .description =
           "RTX PRO 6000 Blackwell Server Edition on PCIe 5.0. Fitted on public tables."});
  devices.push_back(
      {.profile = "rtx-pro-6000-max-q",
       .relative = "rtx-pro-6000",
       .facts =
           Facts({"NVIDIA RTX PRO 6000 Blackwell Max-Q 96 GB", 97887, 1792, 438.9, 877.8, 188, 12.0,
                  "NVIDIA RTX PRO 6000 Blackwell Max-Q datasheet: 110 TFLOP/s fp32, 1792 GB/s; "
                  "dense bf16 is 4 and fp8 8 times fp32, as for the server card"}),
       .peak_fp32_flops = 109.7 * kTera,
       .fp8_ratio = 1.7,
       .fp8_source = kFp8Assumed,
       .nvfp4_ratio = 3.0,
       .nvfp4_source = "as the server card's",
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 300,
       .error_band = 0.25,
       .error_band_source = kBandEncoders,
       .description = "RTX PRO 6000 Blackwell Max-Q, derived from the server card, the same chip, "
                      "at 300 W in place of 600.",
       .same_chip = true,
       .measured = {
           .factor = 0.94, .low = 0.84, .high = 1.05, .rows = 47, .source = kEncodersCompiled}});
  devices.push_back(
      {.profile = "rtx5090",
       .relative = "rtx-pro-6000",
       .facts = Facts({"NVIDIA GeForce RTX 5090 32 GB", 32607, 1792, 209.5, 419, 170, 12.0,
                       "NVIDIA RTX Blackwell architecture paper: dense, fp32 accumulation, half "
                       "the rate of fp16 accumulation"}),
       .peak_fp32_flops = 104.8 * kTera,
       .fp8_ratio = 1.7,
       .fp8_source = kFp8Assumed,
       .nvfp4_ratio = 3.0,
       .nvfp4_source = "assumed: as the RTX PRO 6000's",
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 575,
       .error_band = 0.25,
       .error_band_source = kBandEncoders,
       .description = "GeForce RTX 5090, derived from the RTX PRO 6000, the same kind of SM. No "
                      "peer-to-peer, so no collectives were measured.",
       .measured = {
           .factor = 1.34, .low = 1.23, .high = 1.47, .rows = 25, .source = kEncodersCompiled}});
  devices.push_back(
      {.profile = "rtx4090",
       .relative = "rtx-pro-6000",
       .facts = Facts({"NVIDIA GeForce RTX 4090 24 GB", 24564, 1008, 165.2, 330.3, 128, 8.9,
                       "NVIDIA Ada architecture paper: dense, fp32 accumulation, half the rate of "
                       "fp16 accumulation"}),
       .peak_fp32_flops = 82.6 * kTera,
       .fp8_ratio = 1.7,
       .fp8_source = kFp8Assumed,
       .sustained_factor = 1.08,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kFitted4090,
       .power_limit_w = 450,
       .error_band = 0.25,
       .error_band_source = kBandEncoders,
       .description =
           "GeForce RTX 4090, derived from the RTX PRO 6000: the L40S is the same chip but reaches "
           "0.6 of its peak, its 350 W being the likely reason, where the RTX PRO 6000 reaches "
           "0.9; scaled from the L40S, fine-tuning rows came out 40…60 % too slow. Vision "
           "transformers run faster than its datasheet's clock allows: such cards boost beyond it. "
           "No peer-to-peer, so no collectives were measured.",
       .measured = {
           .factor = 1.4, .low = 1.21, .high = 1.51, .rows = 30, .source = kEncodersCompiled}});
  devices.push_back(
      {.profile = "rtx3090",
       .relative = "rtx-pro-6000",
       .facts = Facts({"NVIDIA GeForce RTX 3090 24 GB", 24576, 936, 71, 0, 82, 8.6,
                       "NVIDIA Ampere GA102 architecture paper: dense, fp32 accumulation, half the "
                       "rate of fp16 accumulation"}),
       .peak_fp32_flops = 35.6 * kTera,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 350,
       .error_band = 0.25,
       .error_band_source = kBandEncoders,
       .description = "GeForce RTX 3090, derived from the RTX PRO 6000, the nearest measured card "
                      "with GDDR memory and a GeForce's balance of rates.",
       .measured = {
           .factor = 1.42, .low = 1.02, .high = 1.6, .rows = 57, .source = kEncodersTraining}});
  devices.push_back({.profile = "a6000",
                     .relative = "rtx-pro-6000",
                     .facts = Facts({"NVIDIA RTX A6000 48 GB", 49140, 768, 154.8, 0, 84, 8.6,
                                     "NVIDIA RTX A6000 datasheet, half of the sparse rates"}),
                     .peak_fp32_flops = 38.7 * kTera,
                     .sustained_factor = 1.15,
                     .sustained_fp8_factor = 1.15,
                     .sustained_source = kSustainedAssumed,
                     .power_limit_w = 300,
                     .error_band = 0.4,
                     .error_band_source = kUnmeasured,
                     .description = "RTX A6000, derived from the RTX PRO 6000, the nearest "
                                    "measured card with GDDR memory."});
  devices.push_back({.profile = "a5000",
                     .relative = "rtx-pro-6000",
                     .facts = Facts({"NVIDIA RTX A5000 24 GB", 24564, 768, 111.1, 0, 64, 8.6,
                                     "NVIDIA RTX A5000 datasheet, half of the sparse rates"}),
                     .peak_fp32_flops = 27.8 * kTera,
                     .sustained_factor = 1.15,
                     .sustained_fp8_factor = 1.15,
                     .sustained_source = kSustainedAssumed,
                     .power_limit_w = 230,
                     .error_band = 0.4,
                     .error_band_source = kUnmeasured,
                     .description = "RTX A5000, derived from the RTX PRO 6000, the nearest "
                                    "measured card with GDDR memory."});
  devices.push_back(
      {.profile = "a40",
       .relative = "rtx-pro-6000",
       .facts = Facts({"NVIDIA A40 48 GB", 46068, 696, 149.7, 0, 84, 8.6,
                       "NVIDIA A40 datasheet, half of the sparse rates"}),
       .peak_fp32_flops = 37.4 * kTera,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 300,
       .error_band = 0.4,
       .error_band_source = kUnmeasured,
       .description =
           "A40, derived from the RTX PRO 6000, the nearest measured card with GDDR memory."});
  devices.push_back(
      {.profile = "a10",
       .relative = "rtx-pro-6000",
       .facts = Facts({"NVIDIA A10 24 GB", 23028, 600, 125, 0, 72, 8.6,
                       "NVIDIA A10 datasheet, half of the sparse rates"}),
       .peak_fp32_flops = 31.2 * kTera,
       .sustained_factor = 1.15,
       .sustained_fp8_factor = 1.15,
       .sustained_source = kSustainedAssumed,
       .power_limit_w = 150,
       .error_band = 0.4,
       .error_band_source = kUnmeasured,
       .description =
           "A10, derived from the RTX PRO 6000, the nearest measured card with GDDR memory. Its "
           "150 W hardly carry its peak: long products may be slower than this says."});
  return devices;
}

}  // namespace

const std::vector<Device>& Devices() {
  static const std::vector<Device> devices = MakeDevices();
  return devices;
}

}  // namespace aurum
