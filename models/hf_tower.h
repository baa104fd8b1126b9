#pragma once

#include <cstdint>
#include <string_view>

#include "models/hf_parts.h"

namespace aurum {

// What all vision towers of the importer begin with.

Module MakeTower(int hidden);
// `value`, or E0603 at `key` if it is 0.
int NonZero(HfConfig& c, std::string_view key, int value);
int LayerCount(HfConfig& c, std::string_view key, int value);
// Numbers that one patch of three colours has.
std::int64_t PatchInputs(HfConfig& c, int patch);
void CheckTower(HfConfig& c, const Module& module);

}  // namespace aurum
