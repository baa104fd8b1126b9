#pragma once

#include <string>
#include <vector>

#include "sim/cost/profile.h"

namespace aurum {

// Tables of measured kernel times: comma-separated text, `#` comments, one header line, one call a
// line. calibrate/kernels/ holds them (source: ai-dynamo/aiconfigurator, Apache-2.0),
// calibrate/README.md the columns. Each reader wants exactly its columns, in its order. Errors
// carry file, line and column:
//   E0820 header is not the expected one · E0821 wrong number of fields · E0822 not a number
//   E0823 number out of range · E0824 unknown operation or type · E0825 no rows

struct GemmRow {
  double m = 0, n = 0, k = 0;
  double seconds = 0;
};
// m,n,k,dtype,latency_us; only rows of `dtype` ("bfloat16").
std::vector<GemmRow> ReadGemmTable(const std::string& text, const std::string& name,
                                   const std::string& dtype);

struct AttentionRow {
  double batch = 0, seq_len = 0, past_len = 0, heads = 0, kv_heads = 0;
  int head_dim = 0;
  double seconds = 0;
  bool causal = true;  // of a forward pass; the tables hold nothing else
};
// batch,seq_len,past_len,heads,kv_heads,head_dim,dtype,latency_us; kv_heads 0 means as many as
// heads. seq_len new tokens on top of past_len cached ones: 0 cached for a forward pass, 1 new for
// a decode.
std::vector<AttentionRow> ReadAttentionTable(const std::string& text, const std::string& name,
                                             const std::string& dtype);

struct CollectiveRow {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int gpus = 0;
  double bytes = 0;  // as CollectiveEnvelope counts them
  double seconds = 0;
};
// op,dtype,gpus,bytes,latency_us; ops all_reduce, all_gather, reduce_scatter, alltoall.
std::vector<CollectiveRow> ReadCollectiveTable(const std::string& text, const std::string& name,
                                               const std::string& dtype);

}  // namespace aurum
