#include "sim/cost/kernel_io.h"

#include <cstdint>

namespace aurum {
namespace {

constexpr double kMost = 1e15;
constexpr int kKernelKinds = static_cast<int>(KernelKind::kHost) + 1;
constexpr int kRoles = static_cast<int>(GemmRole::kWeightGradient) + 1;
constexpr int kTypes = static_cast<int>(DType::kFp32) + 1;
constexpr int kCollectives = static_cast<int>(CollectiveKind::kSendRecv) + 1;

template <typename Enumeration, typename Name>
std::vector<std::string> Names(int count, Name name) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) names.push_back(name(static_cast<Enumeration>(i)));
  return names;
}

}  // namespace

const std::vector<std::string>& DTypeNames() {
  static const std::vector<std::string> names = Names<DType>(kTypes, DTypeName);
  return names;
}

const std::vector<std::string>& CollectiveNames() {
  static const std::vector<std::string> names = Names<CollectiveKind>(kCollectives, CollectiveName);
  return names;
}

Json WriteKernel(const Kernel& kernel) {
  Json json = Json::Object();
  json.Set("kind", KernelKindName(kernel.kind));
  switch (kernel.kind) {
    case KernelKind::kGemm:
      json.Set("dtype", DTypeName(kernel.dtype));
      json.Set("role", GemmRoleName(kernel.role));
      json.Set("m", kernel.m);
      json.Set("n", kernel.n);
      json.Set("k", kernel.k);
      if (kernel.grouped) json.Set("grouped", kernel.count);
      break;
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
    case KernelKind::kDecodeAttention:
      json.Set("sequences", kernel.sequences);
      json.Set("heads", kernel.heads);
      json.Set("kv_heads", kernel.kv_heads);
      json.Set("q_len", kernel.q_len);
      json.Set("kv_len", kernel.kv_len);
      json.Set("head_dim", kernel.head_dim);
      json.Set("causal", kernel.causal);
      break;
    case KernelKind::kMemory:
      json.Set("bytes", kernel.bytes);
      break;
    case KernelKind::kHost:
      json.Set("host_s", kernel.host_s);
      break;
  }
  return json;
}

Kernel ReadKernel(ObjectReader reader) {
  static const std::vector<std::string> kinds = Names<KernelKind>(kKernelKinds, KernelKindName);
  static const std::vector<std::string> roles = Names<GemmRole>(kRoles, GemmRoleName);
  Kernel kernel;
  kernel.kind = static_cast<KernelKind>(reader.Choice("kind", kinds));
  switch (kernel.kind) {
    case KernelKind::kGemm:
      kernel.dtype = static_cast<DType>(reader.Choice("dtype", DTypeNames()));
      kernel.role = static_cast<GemmRole>(reader.Choice("role", roles));
      kernel.m = reader.Number("m", 1, kMost);
      kernel.n = reader.Number("n", 1, kMost);
      kernel.k = reader.Number("k", 1, kMost);
      kernel.grouped = reader.Has("grouped");
      kernel.count = reader.NumberOr("grouped", 1, 1, kMost);
      break;
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
    case KernelKind::kDecodeAttention:
      kernel.sequences = reader.Number("sequences", 0, kMost);
      kernel.heads = reader.Number("heads", 0, kMost);
      kernel.kv_heads = reader.Number("kv_heads", 0, kMost);
      kernel.q_len = reader.Number("q_len", 0, kMost);
      kernel.kv_len = reader.Number("kv_len", 0, kMost);
      kernel.head_dim = static_cast<int>(reader.Integer("head_dim", 1, 65536));
      kernel.causal = reader.Bool("causal");
      break;
    case KernelKind::kMemory:
      kernel.bytes = reader.Number("bytes", 0, kMost);
      break;
    case KernelKind::kHost:
      kernel.host_s = reader.Number("host_s", 0, 1e6);
      break;
  }
  reader.Finish();
  return kernel;
}

}  // namespace aurum
