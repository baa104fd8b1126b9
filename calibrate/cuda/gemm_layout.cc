#include "calibrate/cuda/gemm_layout.h"

#include <cassert>

namespace aurum::cuda {

GemmLayout LayoutOf(GemmRole role, std::int64_t m, std::int64_t n, std::int64_t k,
                    std::int64_t batch, Numbers numbers) {
  assert(m >= 1 && n >= 1 && k >= 1 && batch >= 1);
  GemmLayout layout;
  layout.in = numbers;
  layout.out = numbers == Numbers::kFp8 ? Numbers::kBf16 : numbers;
  if (numbers == Numbers::kFp8) {
    const auto raised = [](std::int64_t size) { return (size + 15) / 16 * 16; };
    m = raised(m);
    n = raised(n);
    k = raised(k);
    role = GemmRole::kForward;
  }
  layout.rows = n;
  layout.columns = m;
  layout.inner = k;
  layout.transpose_a = role == GemmRole::kForward;
  layout.transpose_b = role == GemmRole::kWeightGradient;
  layout.a_rows = layout.transpose_a ? k : n;
  layout.a_columns = layout.transpose_a ? n : k;
  layout.b_rows = layout.transpose_b ? m : k;
  layout.b_columns = layout.transpose_b ? k : m;
  layout.lda = layout.a_rows;
  layout.ldb = layout.b_rows;
  layout.ldc = n;
  layout.batch = batch;
  layout.stride_a = n * k;
  layout.stride_b = m * k;
  layout.stride_c = m * n;
  return layout;
}

bool NumbersOf(DType dtype, Numbers* numbers) {
  switch (dtype) {
    case DType::kBf16:
      *numbers = Numbers::kBf16;
      return true;
    case DType::kFp16:
      *numbers = Numbers::kFp16;
      return true;
    case DType::kFp32:
      *numbers = Numbers::kFp32;
      return true;
    case DType::kFp8:
      *numbers = Numbers::kFp8;
      return true;
    case DType::kFp8Block:
    case DType::kNvfp4:
      return false;
  }
  return false;
}

}  // namespace aurum::cuda
