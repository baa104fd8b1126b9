#include "sim/workload/recipe.h"

#include <algorithm>

namespace aurum {

std::string PrecisionName(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp16:
      return "fp16";
    case Precision::kFp32:
      return "fp32";
    case Precision::kFp8:
      return "fp8";
    case Precision::kFp8Block:
      return "fp8-block";
    case Precision::kMxfp8:
      return "mxfp8";
    case Precision::kNvfp4:
      return "nvfp4";
  }
  return "";
}

DType StorageType(Precision precision) {
  if (precision == Precision::kFp32) return DType::kFp32;
  return precision == Precision::kFp16 ? DType::kFp16 : DType::kBf16;
}

DType MatrixType(Precision precision) {
  switch (precision) {
    case Precision::kFp8:
      return DType::kFp8;
    case Precision::kFp8Block:
    case Precision::kMxfp8:
      return DType::kFp8Block;
    case Precision::kNvfp4:
      return DType::kNvfp4;
    default:
      return StorageType(precision);
  }
}

bool Adapter::Has(std::string_view target) const {
  return kind != AdapterKind::kNone &&
         std::find(targets.begin(), targets.end(), target) != targets.end();
}

// int8: one byte and a 16-bit scale for each row, too small to count. nf4: half a byte and an fp32
// scale for every 64; double quantisation stores those scales in 8 bits, with one fp32 for 256 of
// them (QLoRA, section 3). GPTQ at group 128: a 16-bit scale and a 4-bit zero for every 128.
double BytesOf(QuantisedBase base) {
  switch (base) {
    case QuantisedBase::kNone:
      return 2;
    case QuantisedBase::kInt8:
      return 1;
    case QuantisedBase::kNf4:
      return 0.5 + 4.0 / 64;
    case QuantisedBase::kNf4Double:
      return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
    case QuantisedBase::kGptq4:
      return 0.5 + 2.5 / 128;
  }
  return 2;
}

std::string QuantisedBaseName(QuantisedBase base) {
  switch (base) {
    case QuantisedBase::kNone:
      return "bf16";
    case QuantisedBase::kInt8:
      return "int8";
    case QuantisedBase::kNf4:
      return "nf4";
    case QuantisedBase::kNf4Double:
      return "nf4-double";
    case QuantisedBase::kGptq4:
      return "gptq4";
  }
  return "";
}

}  // namespace aurum
