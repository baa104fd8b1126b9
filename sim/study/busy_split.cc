#include "sim/study/busy_split.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/plan/lower.h"

namespace aurum {
namespace {

// Bytes per element of attention's operands.
constexpr double kHalf = 2;

struct Parts {
  double compute_s = 0, memory_s = 0, host_s = 0;
};

Parts PartsOf(const std::vector<Kernel>& kernels, const Profile& profile, const Stack& stack) {
  Parts parts;
  for (const Kernel& kernel : kernels) {
    const double seconds = KernelSeconds(kernel, profile, stack);
    if (kernel.kind == KernelKind::kHost) {
      parts.host_s += seconds;
      continue;
    }
    const KernelSides sides = SidesOf(kernel, profile);
    (sides.arithmetic_s >= sides.memory_s && sides.arithmetic_s > 0 ? parts.compute_s
                                                                    : parts.memory_s) += seconds;
  }
  return parts;
}

// Stage, kind, module, head, chunk, micro-batch: what ops of several classes have in common.
using OpKey = std::tuple<int, OpKind, int, bool, int, int>;
OpKey KeyOf(const Program& program, OpId op) {
  const OpInfo& info = program.info[op];
  return {program.classes[info.rank_class].stage,
          info.kind,
          info.module,
          info.head,
          info.chunk,
          info.micro_batch};
}

bool IsCommunication(GapCause cause) {
  switch (cause) {
    case GapCause::kTp:
    case GapCause::kCp:
    case GapCause::kEp:
    case GapCause::kHost:
    case GapCause::kDpGather:
    case GapCause::kDpReduce:
    case GapCause::kPpTransfer:
      return true;
    default:
      return false;
  }
}

}  // namespace

KernelSides SidesOf(const Kernel& k, const Profile& profile) {
  KernelSides sides;
  const double bandwidth =
      profile.device.memory_bandwidth_bytes_per_s * profile.memory_bound_efficiency;
  switch (k.kind) {
    case KernelKind::kGemm: {
      const GemmModel& model = profile.gemm.at(k.dtype);
      sides.arithmetic_s = KernelFlops(k) / model.rate_flops;
      const double bytes =
          (k.m * k.k + k.k * k.n) * BytesOf(k.dtype) + k.m * k.n * GemmOutputBytes(k.dtype);
      sides.memory_s = k.count * bytes / bandwidth;
      break;
    }
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
    case KernelKind::kDecodeAttention: {
      // A fused kernel reads queries, keys and values and writes its output: scores stay on the chip.
      const double queries = k.sequences * k.heads * std::max(k.q_len, 1.0) * k.head_dim;
      const double keys = k.sequences * k.kv_heads * k.kv_len * k.head_dim;
      const double passes = k.kind == KernelKind::kAttentionBackward ? 2 : 1;
      sides.memory_s = passes * kHalf * (2 * queries + 2 * keys) / bandwidth;
      // Where bf16 runs on the general units and fp16 on its own (V100, T4), the kernel's type decides.
      auto gemm = profile.gemm.find(k.dtype == DType::kBf16 ? DType::kBf16 : DType::kFp16);
      if (gemm == profile.gemm.end()) gemm = profile.gemm.find(DType::kBf16);
      const double peak =
          gemm != profile.gemm.end() ? gemm->second.rate_flops : profile.device.peak_bf16_flops;
      if (peak > 0) sides.arithmetic_s = KernelFlops(k) / peak;
      break;
    }
    case KernelKind::kMemory:
      sides.memory_s = k.bytes / bandwidth;
      break;
    case KernelKind::kHost:
      break;
  }
  return sides;
}

std::vector<BusySplit> SplitBusyTime(const Evaluation& e) {
  LowerOptions options;
  options.for_execution = true;
  const Program program = Lower(e.scenario, options);
  const Profile& profile = *e.scenario.profile;
  const Stack& stack = *e.scenario.stack;
  std::vector<Parts> parts;
  for (const std::vector<Kernel>& kernels : program.kernels)
    parts.push_back(PartsOf(kernels, profile, stack));
  // Kernels are listed of a program without traffic, whose classes may be fewer. What ops of one kind do
  // in a stage divides alike in all its classes.
  std::map<OpKey, Parts> alike;
  for (OpId op = 0; op < program.info.size(); ++op) {
    const std::uint32_t list = program.work[op].kernels;
    if (list == kNoWork) continue;
    Parts& sum = alike[KeyOf(program, op)];
    sum.compute_s += parts[list].compute_s;
    sum.memory_s += parts[list].memory_s;
    sum.host_s += parts[list].host_s;
  }
  std::vector<BusySplit> out(e.program.classes.size());
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.lane != Lane::kMain) continue;
    BusySplit& split = out[info.rank_class];
    const double seconds = Seconds(e.program.graph.duration(op));
    const auto found = alike.find(KeyOf(e.program, op));
    const Parts p = found == alike.end() ? Parts{} : found->second;
    const double all = p.compute_s + p.memory_s + p.host_s;
    if (info.kind == OpKind::kHost) {
      split.idle_s += seconds;
    } else if (all <= 0) {
      split.memory_bound_s += seconds;
    } else {
      split.compute_bound_s += seconds * p.compute_s / all;
      split.memory_bound_s += seconds * p.memory_s / all;
      split.idle_s += seconds * p.host_s / all;
    }
  }
  for (std::size_t c = 0; c < out.size(); ++c) {
    for (const Gap& gap : e.outcome.gaps[c]) {
      const double seconds = Seconds(gap.end - gap.start);
      (IsCommunication(gap.cause) ? out[c].communication_s : out[c].idle_s) += seconds;
    }
  }
  return out;
}

Json BusyJson(const Evaluation& e) {
  Json out = Json::Array();
  const std::vector<BusySplit> split = SplitBusyTime(e);
  for (std::size_t c = 0; c < split.size(); ++c) {
    Json entry = Json::Object();
    entry.Set("rank_class", RankName(e.program, static_cast<int>(c)));
    entry.Set("compute_bound_s", split[c].compute_bound_s);
    entry.Set("memory_bound_s", split[c].memory_bound_s);
    entry.Set("communication_s", split[c].communication_s);
    entry.Set("idle_s", split[c].idle_s);
    entry.Set("utilisation", split[c].Utilisation());
    out.Append(std::move(entry));
  }
  return out;
}

}  // namespace aurum
