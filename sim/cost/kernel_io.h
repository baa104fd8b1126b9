#pragma once

#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/core/object_reader.h"
#include "sim/cost/kernel.h"

namespace aurum {

// Kernels in documents: {"kind": "gemm", "dtype": "bf16", "role": "forward", "m": …, "n": …, "k": …}
// ("grouped": 8 of experts in one call),
// {"kind": "attention_forward", "sequences": …, "heads": …, "kv_heads": …, "q_len": …, "kv_len": …,
// "head_dim": …, "causal": …}, {"kind": "memory", "bytes": …}, {"kind": "host", "host_s": …}. Only
// what the kind uses is written; the rest keeps its default.
Json WriteKernel(const Kernel& kernel);
Kernel ReadKernel(ObjectReader reader);

// Names of all of them, in the order of the enumerations.
const std::vector<std::string>& DTypeNames();
const std::vector<std::string>& CollectiveNames();

}  // namespace aurum
