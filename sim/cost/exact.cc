#include "sim/cost/exact.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <tuple>
#include <utility>

namespace aurum {
namespace {

auto SortKey(const Kernel& k) {
  return std::make_tuple(k.kind, k.dtype, k.role, k.m, k.n, k.k, k.count, k.grouped, k.sequences,
                         k.heads, k.kv_heads, k.q_len, k.kv_len, k.head_dim, k.causal, k.bytes);
}

}  // namespace

Kernel ExactKey(const Kernel& kernel) {
  const Kernel whole = RoundedUp(kernel);
  Kernel key;
  key.kind = whole.kind;
  switch (whole.kind) {
    case KernelKind::kGemm:
      key.dtype = whole.dtype;
      key.role = whole.role;
      key.m = whole.m;
      key.n = whole.n;
      key.k = whole.k;
      key.count = whole.count;
      key.grouped = whole.grouped;
      break;
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
    case KernelKind::kDecodeAttention:
      key.sequences = whole.sequences;
      key.heads = whole.heads;
      key.kv_heads = whole.kv_heads;
      key.q_len = whole.q_len;
      key.kv_len = whole.kv_len;
      key.head_dim = whole.head_dim;
      key.causal = whole.causal;
      break;
    case KernelKind::kMemory:
      key.bytes = whole.bytes;
      break;
    case KernelKind::kHost:
      break;
  }
  return key;
}

ExactKernels::Key ExactKernels::KeyOf(const Kernel& kernel) { return {ExactKey(kernel)}; }

std::size_t ExactKernels::HashOf::operator()(const Key& key) const {
  const Kernel& k = key.kernel;
  // FNV-1a over words. Sizes are whole, so equal ones have equal bits.
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto mix = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3U; };
  mix(static_cast<std::uint64_t>(k.kind) << 24U | static_cast<std::uint64_t>(k.dtype) << 16U |
      static_cast<std::uint64_t>(k.role) << 8U | static_cast<std::uint64_t>(k.causal) << 1U |
      static_cast<std::uint64_t>(k.grouped));
  for (const double size : {k.m, k.n, k.k, k.count, k.sequences, k.heads, k.kv_heads, k.q_len,
                            k.kv_len, static_cast<double>(k.head_dim), k.bytes}) {
    const auto bits = std::bit_cast<std::uint64_t>(size);
    mix(bits ^ bits >> 32U);
  }
  return static_cast<std::size_t>(hash ^ hash >> 29U);
}

ExactKernels::ExactKernels(std::vector<Entry> entries, Provenance provenance, std::string source)
    : entries_(std::move(entries)), provenance_(provenance), source_(std::move(source)) {
  for (Entry& entry : entries_) entry.kernel = ExactKey(entry.kernel);
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return SortKey(a.kernel) < SortKey(b.kernel); });
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    [[maybe_unused]] const bool first = index_.emplace(KeyOf(entries_[i].kernel), i).second;
    assert(first);
  }
}

const ExactKernels::Entry* ExactKernels::Find(const Kernel& kernel) const {
  const auto found = index_.find(KeyOf(kernel));
  return found == index_.end() ? nullptr : &entries_[found->second];
}

}  // namespace aurum
