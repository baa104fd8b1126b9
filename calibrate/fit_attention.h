#pragma once

#include <string>
#include <vector>

#include "calibrate/table.h"
#include "sim/cost/profile.h"

namespace aurum {

// What is fitted, and how. The defaults are those of the tables: causal passes on a GPU, the engine's
// cache write inside.
struct AttentionFitOptions {
  // Smaller calls do not fill a GPU, and other kernels are chosen for them.
  double least_length = 256, least_calls = 8;  // tokens; sequences × heads
  int least_head_dim = 64;
  double training_length = 1024, training_calls = 32;
  bool cache_write = true;  // whether times may contain a write of keys and values to a cache
  int least_rows = 8;       // of a head dimension that is fitted
};

// Rows that a forward model is fitted on: nothing cached.
bool IsForwardFitSize(const AttentionRow& row, const AttentionFitOptions& options = {});
// Those that training uses.
bool IsForwardTrainingSize(const AttentionRow& row, const AttentionFitOptions& options = {});

// Forward attention in bf16, causal or not. Fitted by relative error, five-fold hold-out by hash of
// the shape. A head dimension with fewer than `least_rows` rows is left out. E0825 if none remains.
AttentionModel FitAttention(const std::vector<AttentionRow>& rows, int sm_count,
                            const std::string& source, const AttentionFitOptions& options = {});

// Decode: one new token a sequence. Fitted on caches that take longer than a kernel's start to read
// (IsDecodeFitSize); the hold-out as above.
bool IsDecodeFitSize(const AttentionRow& row);
DecodeModel FitDecode(const std::vector<AttentionRow>& rows, const std::string& source);

}  // namespace aurum
