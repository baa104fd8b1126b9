#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/core/provenance.h"

namespace aurum {

// What a training framework makes of the hardware. Every field is physical and has its source in
// the stack's file.
struct Stack {
  std::string name;
  std::string description;
  // Bytes per parameter.
  double weight_bytes = 2;
  double gradient_bytes = 4;            // what backward accumulates into
  double optimizer_bytes = 12;          // master weights and moments
  double gradient_exchange_bytes = 4;   // per parameter, what data parallelism reduces
  double parameter_exchange_bytes = 2;  // per parameter, what is gathered
  double optimizer_traffic_bytes = 30;  // HBM traffic of one optimizer step per parameter
  // Activations kept for backward, bytes per token of one layer (Korthikanti et al.; memory study).
  //   replicated part: kept_hidden · hidden (divided by tp only with sequence parallelism);
  //   sharded part: kept_qkv · (q + kv widths) + kept_mlp(_gated) · intermediate, divided by tp.
  double kept_hidden_bytes = 8;
  double kept_q_bytes = 4;
  double kept_kv_bytes = 4;
  double kept_mlp_gated_bytes = 6;
  double kept_mlp_bytes = 4;
  bool fused_attention = true;  // false: attention scores are kept too
  double score_bytes = 5;       // per score, where not fused
  double kept_head_bytes = 4;   // per token and head: the log-sum-exp that fused attention keeps
  double recompute_input_bytes = 2;  // hidden, kept per layer under full recompute
  // Per parameter of the widest layer: a cached gradient that a fused accumulation never reads.
  double dummy_gradient_bytes = 0;
  double logit_bytes = 6;  // per logit at the loss
  // Elementwise HBM traffic, bytes per token and element of width.
  double norm_forward_bytes = 8, norm_backward_bytes = 12;
  double residual_forward_bytes = 12, residual_backward_bytes = 4;
  double rope_bytes = 4;  // per element of q and k, each way
  // Per element of the intermediate width.
  double gated_forward_bytes = 6, gated_backward_bytes = 10;
  double gelu_forward_bytes = 4, gelu_backward_bytes = 6;
  double loss_traffic_bytes = 12;          // per logit
  double gradient_accumulation_bytes = 8;  // per parameter and micro-batch
  double memory_bound_factor = 1.3;        // measured over modelled time of memory-bound kernels
  double attention_factor = 1.1;           // the same for attention kernels
  // On top, on compute capability 9.x: kernels older than FlashAttention 3.
  double attention_factor_hopper = 1;
  double tp_communication_factor = 1.0;  // TP collectives in a step over nccl-tests
  double network_efficiency = 0.85;      // share of the NIC rate that collectives reach
  double dp_overlap = 0.8;  // share of data-parallel communication that can hide behind compute
  double overlap_slowdown = 0.18;  // of compute, per hidden second of communication
  // Host time per step: data loading hand-over, logging, optimizer launch.
  double step_overhead_s = 0.015;
  double layer_overhead_s = 0;  // host time per layer pass that the GPU waits for
  // Host time to enqueue one pass of a layer; hidden where the GPU takes longer.
  double host_per_layer_s = 0;
  double runtime_bytes = 2e9;   // CUDA context, NCCL, workspaces: not the allocator's
  double fragmentation = 0.03;  // reserved over allocated
  Provenance provenance = Provenance::kAssumed;
  std::string source;
  std::map<std::string, std::string> sources;  // by group of the file: "state", "kept", "loss", ...
};

// Reads "aurum.stack/1", strictly: every number is there, nothing has a default. E01xx for its
// form, E0801 for another schema, E0810 for values that contradict each other.
Stack ReadStack(const JsonDocument& document);
// The inverse: reads back equal in every field.
Json WriteStack(const Stack& stack);
// Measured over modelled time of attention kernels of this stack on a device of that compute
// capability.
double AttentionFactor(const Stack& stack, double compute_capability);
JsonDocument OpenStack(const std::string& name_or_file,
                       const std::string& data_root);  // E0240 unknown stack
std::vector<std::string> StackCatalogue(const std::string& data_root);

}  // namespace aurum
