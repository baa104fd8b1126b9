#include "sim/cost/profile.h"

#include <cmath>

#include "tests/fuzz/entry.h"

// Costs of an accepted profile are times: positive and finite.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](std::string text) {
    const aurum::Profile profile =
        aurum::ReadProfile(aurum::ParseJson(std::move(text), "fuzz.json"));
    const auto is_time = [](double seconds) { return std::isfinite(seconds) && seconds >= 0; };
    aurum::Require(is_time(profile.GemmSeconds(1, 1, 1, aurum::DType::kBf16)), "GEMM 1×1×1");
    aurum::Require(is_time(profile.GemmSeconds(4096, 11008, 4096, aurum::DType::kBf16)), "GEMM");
    aurum::Require(is_time(profile.AttentionForwardSeconds(1, 32, 8, 4096, 4096, 128, true)),
                   "attention");
    aurum::Require(is_time(profile.DecodeAttentionSeconds(1, 8, 4096, 128)), "decode");
    aurum::Require(is_time(profile.MemoryBoundSeconds(1e9)), "memory-bound");
    const std::string written = aurum::WriteProfile(profile).Dump(2);
    const aurum::Profile again = aurum::ReadProfile(aurum::ParseJson(written, "written.json"));
    aurum::Require(aurum::WriteProfile(again).Dump(2) == written, "writing is stable");
  });
}
