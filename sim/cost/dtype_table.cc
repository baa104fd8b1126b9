#include "sim/cost/dtype_table.h"

#include <algorithm>

namespace aurum {
namespace {

double Rate(const Profile& profile, DType dtype) {
  const auto found = profile.gemm.find(dtype);
  return found == profile.gemm.end() ? 0 : found->second.rate_flops;
}

}  // namespace

std::string MatrixUnitName(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::kNone:
      return "none";
    case MatrixUnit::kCudaCores:
      return "CUDA cores";
    case MatrixUnit::kTensorCores:
      return "tensor cores";
  }
  return "";
}

bool HasMatrixUnits(const Profile& profile, DType dtype) {
  const double rate = Rate(profile, dtype);
  if (rate <= 0) return false;
  if (dtype == DType::kFp32) return false;
  // A tenth above the general units is noise of a ratio, not a unit.
  return rate > 1.1 * Rate(profile, DType::kFp32);
}

double Bf16Slowdown(const Profile& profile) {
  const double narrow = Rate(profile, DType::kBf16), half = Rate(profile, DType::kFp16);
  return narrow > 0 && half > narrow ? half / narrow : 1;
}

std::vector<DTypeRow> DTypeTable(const Profile& profile) {
  std::vector<DTypeRow> rows;
  const double general = Rate(profile, DType::kFp32);
  for (const DType dtype :
       {DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp8, DType::kFp8Block, DType::kNvfp4}) {
    DTypeRow row;
    row.dtype = dtype;
    row.bytes = BytesOf(dtype);
    row.rate_flops = Rate(profile, dtype);
    if (row.rate_flops > 0) {
      row.unit = HasMatrixUnits(profile, dtype) ? MatrixUnit::kTensorCores : MatrixUnit::kCudaCores;
      row.sustained_flops = row.rate_flops / profile.SustainedFactor(dtype);
      row.over_fp32 = general > 0 ? row.rate_flops / general : 0;
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace aurum
