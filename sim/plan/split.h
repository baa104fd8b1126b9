#pragma once

#include <string>

#include "sim/plan/plan.h"

namespace aurum {

// Whether the module's GPUs, two or more, share its tokens instead of its heads.
//
// With T GPUs and a stream of S bytes a layer, heads cost an all-reduce of S behind each half, or a
// gather before and a reduce-scatter after it: 4·S·(T − 1)/T bytes on a GPU's link forward. Tokens
// cost four all-to-alls of S/T around attention (queries, keys, values and what attention gives):
// 4·S/T·(T − 1)/T, a T-th; but every GPU holds all weights, and their gradients are added up over
// the T GPUs too (Jacobs et al., "DeepSpeed Ulysses", 2023).
inline bool SplitsTokens(const ModulePlan& plan) {
  return plan.split == SplitAxis::kTokens && plan.tp > 1;
}

inline std::string SplitAxisName(SplitAxis split) {  // "hidden", "tokens"
  return split == SplitAxis::kTokens ? "tokens" : "hidden";
}

}  // namespace aurum
