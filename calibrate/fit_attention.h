#pragma once

#include <string>
#include <vector>

#include "calibrate/table.h"
#include "sim/cost/profile.h"

namespace aurum {

// Rows that a forward model is fitted on: nothing cached, at least 256 tokens, 8 sequences × heads
// and a head dimension of 64; below, a kernel does not fill the GPU and other kernels are chosen.
bool IsForwardFitSize(const AttentionRow& row);
// Those that training uses: at least 1024 tokens and 32 sequences × heads.
bool IsForwardTrainingSize(const AttentionRow& row);

// Causal forward attention in bf16. Fitted by relative error, five-fold hold-out by hash of the
// shape. A head dimension with fewer than 8 rows is left out. E0825 if none remains.
AttentionModel FitAttention(const std::vector<AttentionRow>& rows, int sm_count,
                            const std::string& source);

// Decode: one new token a sequence. Fitted on caches that take longer than a kernel's start to read
// (IsDecodeFitSize); the hold-out as above.
bool IsDecodeFitSize(const AttentionRow& row);
DecodeModel FitDecode(const std::vector<AttentionRow>& rows, const std::string& source);

}  // namespace aurum
