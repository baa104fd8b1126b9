#include "sim/core/random.h"

#include <cmath>
#include <numbers>

namespace aurum {
namespace {

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t RandomBits(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  return Mix(Mix(Mix(seed) ^ stream) ^ counter);
}

double RandomUniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  return (static_cast<double>(RandomBits(seed, stream, counter) >> 11) + 0.5) * 0x1p-53;
}

double RandomNormal(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  const double radius = std::sqrt(-2 * std::log(RandomUniform(seed, stream, 2 * counter)));
  const double angle = 2 * std::numbers::pi * RandomUniform(seed, stream, 2 * counter + 1);
  return radius * std::cos(angle);
}

}  // namespace aurum
