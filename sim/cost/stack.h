#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/core/provenance.h"

namespace aurum {

// Kernels that compute attention. kUnfused forms the scores in memory.
enum class AttentionFamily { kUnfused, kFlash1, kFlash2, kFlash3 };
std::string AttentionFamilyName(AttentionFamily family);  // "flash2"

// What a training framework makes of the hardware. Every field is physical and has its source in
// the stack's file. "Element": one value of a tensor; bytes kept are those of 16-bit training.
struct Stack {
  std::string name;
  std::string description;

  // State, bytes per parameter.
  double weight_bytes = 2;
  double gradient_bytes = 4;      // what backward accumulates into
  bool gradients_persist = true;  // in buffers that last; false: freed after the optimizer's step
  double master_bytes = 4;        // the optimizer's own copies: 32-bit weights and gradients
  double moment_bytes = 8;        // of Adam, both together
  double moment_8bit_bytes = 2.03, moment_4bit_bytes = 1.06;  // scales included
  bool embedding_moments_narrow =
      false;                     // false: 8-bit optimizers keep an embedding's moments wide
  double narrow_copy_bytes = 0;  // quantised copies of layers' matrices, beside the weights
  double adapter_weight_bytes = 4, adapter_gradient_bytes = 4, adapter_optimizer_bytes = 8;
  bool adapters_joint =
      false;  // one adapter beside a joint product (QKV; gate and up), not one each
  double gradient_exchange_bytes = 4;      // per parameter, what data parallelism reduces
  double parameter_exchange_bytes = 2;     // per parameter, what is gathered
  double optimizer_traffic_bytes = 30;     // HBM traffic of one optimizer step per parameter
  double optimizer_temporary_bytes = 0;    // while the optimizer steps
  double gradient_accumulation_bytes = 8;  // HBM traffic per parameter and micro-batch
  double dummy_gradient_bytes = 0;         // of one layer: a cached gradient that nobody reads
  bool optimizer_shards_context = true;    // states over dp · cp; false: over dp alone
  bool quantised_weights_sharded = true;   // 4- and 8-bit weights, where parameters are sharded
  double dequantised_bytes = 2;            // per element of the one matrix that is unpacked
  double dequantised_gptq_bytes = 8;       // the same, of GPTQ kernels

  // Kept from forward for backward, bytes per token and element (sim/workload/kept.cc).
  bool fused_attention = true;        // false: attention scores are kept
  double norm_input_bytes = 2;        // each norm's input, as it is kept: 4 = a 32-bit copy
  double layer_norm_input_bytes = 2;  // the same of LayerNorm, which has a kernel of its own
  double norm_copy_bytes = 0;         // normalised copy that a trained RMSNorm's scale needs
  double linear_input_bytes = 2;      // of linears that need it
  double query_bytes = 2, key_value_bytes = 2, attention_output_bytes = 2;
  double up_bytes = 2;               // outputs of the up and of the gate projection, each
  double gated_copy_bytes = 0;       // of the gate's activation, where it is not fused
  double activation_copy_bytes = 0;  // of an activation without gate (squared ReLU)
  double kept_head_bytes = 4;        // per token and head: fused attention's log-sum-exp
  double score_bytes = 5;            // per score, where attention is not fused
  double router_bytes = 8;           // per token and expert
  double recompute_input_bytes = 2;  // a layer's input, where the whole layer is recomputed
  bool keys_expanded = false;        // keys and values repeated to all query heads
  bool hidden_dropout = false;       // both halves of a layer end in dropout: its masks are kept
  bool quantised_linears_keep_input = false;  // bitsandbytes, though the weight is frozen
  bool adapter_padding =
      false;  // adapters of a joint QKV are padded by index_copy, which keeps its
              // source
  bool elementwise_recomputed = false;  // a compiler forms what only an adapter reads again
  bool selective_by_operator = false;   // "selective" keeps every second matrix product
  double work_share = 0;  // memory beside what is kept, while a layer's backward runs, over the
                          // layer's own
  double gathered_work_bytes =
      0;  // the same per token and element of whole sequences, under tensor
          // parallelism

  double activation_factor = 1;  // measured over counted bytes of what layers keep

  // The loss, bytes per logit by kernel: "plain", "fused", "native_fused", "chunked", "liger",
  // "loss_parallel" (what "plain" becomes under tensor parallelism, where it is told).
  std::string loss_kernel = "plain";
  std::map<std::string, double> logit_bytes_of = {{"plain", 6}};
  double loss_traffic_bytes = 12;  // per logit

  // Buffers of communication.
  double gather_windows = 2;     // FSDP: units whose whole parameters are there at once
  double root_window_share = 1;  // FSDP: of embedding and head, what stays gathered
  double buffer_bytes = 0;       // ZeRO: buckets, prefetched and live parameters
  double offload_units = 5;      // whose activations may be on their way to the host at once
  bool experts_once_per_node =
      false;  // a token crosses to a node once, whatever experts it has there
  bool ddp_copies_gradients = false;  // DDP: buckets are copies of the gradients

  // Elementwise HBM traffic, bytes per token and element of width; norm and residual of one half of a
  // layer.
  double norm_forward_bytes = 4, norm_backward_bytes = 6;
  double residual_forward_bytes = 6, residual_backward_bytes = 2;
  double rope_bytes = 4;  // per element of q and k, each way
  // Per element of the intermediate width.
  double gated_forward_bytes = 6, gated_backward_bytes = 10;
  double gelu_forward_bytes = 4, gelu_backward_bytes = 6;
  // Casting the inputs of 8- and 4-bit products, per element, beyond what the op before writes anyway.
  double cast_forward_bytes = 4, cast_backward_bytes = 4;
  double cast_transpose_bytes =
      0;  // of both inputs of a weight's gradient, where copies are turned

  // Measured over modelled time of kernels in a step.
  double gemm_factor = 1;            // on top of the profile's sustained factor
  double grouped_gemm_factor = 1;    // of experts' products, on top of gemm_factor
  double memory_bound_factor = 1.3;  // of memory-bound kernels
  double attention_factor = 1.1;     // of attention, on top of its family's
  AttentionFamily attention_kernel = AttentionFamily::kFlash3;
  double tp_communication_factor = 1.0;  // TP collectives in a step over nccl-tests
  double network_efficiency = 0.85;      // share of the NIC rate that collectives reach
  double dp_overlap = 0.8;  // share of data-parallel communication that can hide behind compute
  double overlap_slowdown = 0.18;  // of compute, per hidden second of communication
  // The same of tensor-parallel collectives where the plan overlaps them: products cut into chunks.
  double tp_overlap_slowdown = 0.5;
  bool eager = false;  // kernels are enqueued one by one from Python
  // Host time per step: data loading hand-over, logging, optimizer launch.
  double step_overhead_s = 0.015;
  double layer_overhead_s = 0;  // host time per layer pass that the GPU waits for
  // Host time to enqueue one pass of a layer; hidden where the GPU takes longer.
  double host_per_layer_s = 0;
  double host_per_expert_layer_s = 0;  // the same of a layer with routed experts
  // 90 % of measured step times of runs that the constants were not fitted on lie so near.
  double time_band_share = 0.2;

  double runtime_bytes = 1e9;          // of a process beside the allocator: context, libraries
  double communicator_bytes = 1e9;     // the same of NCCL, where there is more than one GPU
  double workspace_bytes = 0;          // of libraries, from the allocator
  double fragmentation = 0.03;         // reserved over allocated, of memory that comes and goes
  double expert_fragmentation = 0.07;  // the same with routed experts, whose sizes vary
  double state_margin = 0;  // held beyond the counted state, over it (nvidia-smi figures)
  double load_bytes = 0;  // per parameter of the whole model, beside the state, while it is loaded
  double band_share = 0.1;  // 90 % of measured peaks lie so near, over what is allocated

  Provenance provenance = Provenance::kAssumed;
  std::string source;
  std::map<std::string, std::string> sources;  // by group of the file: "state", "kept", "loss", ...
};

// Reads "aurum.stack/1", strictly: every number is there, nothing has a default, unless the document
// names a "base": then what it leaves out is the base's, which the caller reads first. E01xx for its
// form, E0801 for another schema, E0810 for values that contradict each other.
Stack ReadStack(const JsonDocument& document, const Stack* base = nullptr);
// The name of the stack that a document changes; "" = it stands alone.
std::string BaseOfStack(const JsonDocument& document);
// Opens and reads a stack and, first, its base. `name_or_file` as in OpenStack; E0240, E0811 for a
// base that has a base.
Stack LoadStack(const std::string& name_or_file, const std::string& data_root);
// The inverse: reads back equal in every field.
Json WriteStack(const Stack& stack);
// Measured over modelled time of this stack's attention kernel on a device of that compute
// capability: its family against what the profile's tables measured (FlashAttention 2 on Ampere, 3
// or cuDNN on Hopper, cuDNN on Blackwell).
double AttentionFactor(const Stack& stack, double compute_capability);
// Bytes per logit of one of the stack's loss kernels on tp GPUs; "" = the stack's own. Asking for a
// kernel that the stack does not name is a programming error.
double LogitBytes(const Stack& stack, const std::string& kernel, double tp);
JsonDocument OpenStack(const std::string& name_or_file,
                       const std::string& data_root);  // E0240 unknown stack
std::vector<std::string> StackCatalogue(const std::string& data_root);

}  // namespace aurum
