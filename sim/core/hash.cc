#include "sim/core/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cinttypes>
#include <cstdio>

namespace aurum {

std::string Hash128::Hex() const {
  char buffer[33];
  std::snprintf(buffer, sizeof buffer, "%016" PRIx64 "%016" PRIx64, high, low);
  return buffer;
}

Hash128 HashBytes(const void* data, std::size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  return {hash.high64, hash.low64};
}

}  // namespace aurum
