#pragma once

#include <cstdint>

namespace aurum {

// Counter-based random numbers: a function of what they are for, with no state. So they are the
// same whatever the order in which they are asked for, and on any number of threads. Three rounds
// of the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014) over the key.
std::uint64_t RandomBits(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter);

// Uniform in (0, 1): 53 bits, never an end.
double RandomUniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter);

// Mean 0, standard deviation 1 (Box and Muller, 1958).
double RandomNormal(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter);

}  // namespace aurum
