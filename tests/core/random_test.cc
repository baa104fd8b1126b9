#include "sim/core/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

namespace aurum {
namespace {

TEST_CASE("random numbers are functions of their key") {
  CHECK(RandomBits(1, 2, 3) == RandomBits(1, 2, 3));
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t stream = 0; stream < 10; ++stream) {
      for (std::uint64_t counter = 0; counter < 10; ++counter)
        seen.insert(RandomBits(seed, stream, counter));
    }
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("uniform and normal numbers have their moments") {
  constexpr int kSamples = 200000;
  double sum = 0, square = 0, normal = 0, normal_square = 0, cube = 0;
  for (int i = 0; i < kSamples; ++i) {
    const auto counter = static_cast<std::uint64_t>(i);
    const double u = RandomUniform(7, 1, counter);
    CHECK_UNARY(u > 0 && u < 1);
    sum += u;
    square += u * u;
    const double z = RandomNormal(7, 2, counter);
    normal += z;
    normal_square += z * z;
    cube += z * z * z;
  }
  // Five standard errors.
  CHECK(std::abs(sum / kSamples - 0.5) < 5 * std::sqrt(1.0 / 12 / kSamples));
  CHECK(std::abs(square / kSamples - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kSamples));
  CHECK(std::abs(normal / kSamples) < 5 / std::sqrt(kSamples));
  CHECK(std::abs(normal_square / kSamples - 1) < 5 * std::sqrt(2.0 / kSamples));
  CHECK(std::abs(cube / kSamples) < 5 * std::sqrt(15.0 / kSamples));
}

}  // namespace
}  // namespace aurum
