#pragma once

namespace aurum {

// Rounds to `digits` significant decimal digits, so that a file does not hang on the last bits. Zero and
// what is not finite stay as they are.
double RoundSignificant(double value, int digits = 5);

}  // namespace aurum
