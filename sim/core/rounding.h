#pragma once

namespace aurum {

// Rounds to `digits` significant decimal digits, so that a file does not hang on the last bits. Zero and
// what is not finite stay as they are.
double RoundSignificant(double value, int digits = 5);

// a / b, rounded up. Precondition: a >= 0, b > 0.
template <typename Integer>
constexpr Integer CeilDivide(Integer a, Integer b) {
  return (a + b - 1) / b;
}

}  // namespace aurum
