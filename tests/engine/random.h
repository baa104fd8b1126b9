#pragma once

#include <cstdint>
#include <random>

namespace aurum {

// The same 32 random bits on every machine, as an unsigned of that width.
class Random {
 public:
  using result_type = std::uint32_t;
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  result_type operator()() { return static_cast<result_type>(engine_()); }
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xffffffffU; }

 private:
  std::mt19937 engine_;
};

}  // namespace aurum
