#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace aurum {

// A 128-bit content hash (XXH3), the same on every machine. Used for input hashes, point ids and signatures.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  std::string Hex() const;  // 32 hexadecimal digits
};

Hash128 HashBytes(const void* data, std::size_t size);
inline Hash128 HashText(std::string_view text) { return HashBytes(text.data(), text.size()); }

}  // namespace aurum
