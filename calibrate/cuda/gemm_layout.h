#pragma once

#include <cstdint>

#include "sim/cost/kernel.h"

namespace aurum::cuda {

// How numbers lie in memory.
enum class Numbers : std::uint8_t { kBf16, kFp16, kFp32, kFp8 };
constexpr double BytesOfNumbers(Numbers numbers) {
  return numbers == Numbers::kFp32 ? 4 : numbers == Numbers::kFp8 ? 1 : 2;
}

// A product as BLAS wants it: column by column. Our matrices lie row by row, and a matrix that lies
// row by row is its transpose, column by column. So the product computed is the transpose of ours,
// with the operands changed over:
//   yᵀ[n, m] = op(A)[n, k] · op(B)[k, m]
//   kForward          A = w,  transposed, ld k     B = x,   as it is,    ld k    ("TN")
//   kInputGradient    A = w,  as it is,   ld n     B = dy,  as it is,    ld k    ("NN")
//   kWeightGradient   A = x,  as it is,   ld n     B = dy,  transposed,  ld m    ("NT")
// The result always has ld n. Eight-bit operands come as "TN" whatever the role: Hopper's tensor
// cores take nothing else, frameworks keep a transposed copy for it.
struct GemmLayout {
  std::int64_t rows = 0;     // of the column-major result: our n
  std::int64_t columns = 0;  // our m
  std::int64_t inner = 0;    // k
  bool transpose_a = false, transpose_b = false;
  std::int64_t a_rows = 0, a_columns = 0, lda = 0;  // as they are stored
  std::int64_t b_rows = 0, b_columns = 0, ldb = 0;
  std::int64_t ldc = 0;
  std::int64_t batch = 1;
  // Elements from one matrix of the batch to the next.
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  Numbers in = Numbers::kBf16;
  Numbers out = Numbers::kBf16;  // eight-bit products leave in bf16
  friend bool operator==(const GemmLayout&, const GemmLayout&) = default;

  double a_bytes() const { return BytesOfNumbers(in) * static_cast<double>(stride_a * batch); }
  double b_bytes() const { return BytesOfNumbers(in) * static_cast<double>(stride_b * batch); }
  double c_bytes() const { return BytesOfNumbers(out) * static_cast<double>(stride_c * batch); }
};

// m, n, k, batch whole and ≥ 1. Sizes of eight-bit products are raised to multiples of 16, which
// cuBLASLt asks for.
GemmLayout LayoutOf(GemmRole role, std::int64_t m, std::int64_t n, std::int64_t k,
                    std::int64_t batch, Numbers numbers);

// Whether there is such a type for products here, and which. Block-scaled eight and four bits are
// not run yet.
bool NumbersOf(DType dtype, Numbers* numbers);

}  // namespace aurum::cuda
