#include "sim/cost/stack.h"

#include <cassert>
#include <vector>

#include "sim/core/diagnostic.h"
#include "sim/core/object_reader.h"

// The file format "aurum.stack/1": groups of numbers, each group with its source. One table of
// fields below is both the reader and the writer, so that the two cannot drift apart. Keys carry
// the units.

namespace aurum {
namespace {

constexpr const char* kStackSchema = "aurum.stack/1";

struct Field {
  const char* group;
  const char* key;
  double Stack::*member;
  double low;
  double high;
};
struct Switch {
  const char* group;
  const char* key;
  bool Stack::*member;
};

const std::vector<Field>& Fields() {
  static const std::vector<Field> fields = {
      {"state", "weight_bytes_per_parameter", &Stack::weight_bytes, 0.25, 8},
      {"state", "gradient_bytes_per_parameter", &Stack::gradient_bytes, 0, 8},
      {"state", "master_bytes_per_parameter", &Stack::master_bytes, 0, 32},
      {"state", "moment_bytes_per_parameter", &Stack::moment_bytes, 0, 32},
      {"state", "moment_8bit_bytes_per_parameter", &Stack::moment_8bit_bytes, 0, 16},
      {"state", "moment_4bit_bytes_per_parameter", &Stack::moment_4bit_bytes, 0, 16},
      {"state", "narrow_copy_bytes_per_parameter", &Stack::narrow_copy_bytes, 0, 8},
      {"state", "adapter_weight_bytes_per_parameter", &Stack::adapter_weight_bytes, 0.25, 8},
      {"state", "adapter_gradient_bytes_per_parameter", &Stack::adapter_gradient_bytes, 0, 8},
      {"state", "adapter_optimizer_bytes_per_parameter", &Stack::adapter_optimizer_bytes, 0, 64},
      {"state", "gradient_exchange_bytes_per_parameter", &Stack::gradient_exchange_bytes, 0, 8},
      {"state", "parameter_exchange_bytes_per_parameter", &Stack::parameter_exchange_bytes, 0, 8},
      {"state", "optimizer_traffic_bytes_per_parameter", &Stack::optimizer_traffic_bytes, 0, 200},
      {"state", "optimizer_temporary_bytes_per_parameter", &Stack::optimizer_temporary_bytes, 0,
       16},
      {"state", "gradient_accumulation_bytes_per_parameter", &Stack::gradient_accumulation_bytes, 0,
       50},
      {"state", "dummy_gradient_bytes_per_parameter", &Stack::dummy_gradient_bytes, 0, 8},
      {"state", "dequantised_bytes_per_element", &Stack::dequantised_bytes, 0, 16},
      {"state", "dequantised_gptq_bytes_per_element", &Stack::dequantised_gptq_bytes, 0, 16},
      {"kept", "norm_input_bytes_per_element", &Stack::norm_input_bytes, 0, 16},
      {"kept", "layer_norm_input_bytes_per_element", &Stack::layer_norm_input_bytes, 0, 16},
      {"kept", "norm_copy_bytes_per_element", &Stack::norm_copy_bytes, 0, 16},
      {"kept", "linear_input_bytes_per_element", &Stack::linear_input_bytes, 0, 16},
      {"kept", "query_bytes_per_element", &Stack::query_bytes, 0, 16},
      {"kept", "key_value_bytes_per_element", &Stack::key_value_bytes, 0, 16},
      {"kept", "attention_output_bytes_per_element", &Stack::attention_output_bytes, 0, 16},
      {"kept", "up_bytes_per_element", &Stack::up_bytes, 0, 16},
      {"kept", "gated_copy_bytes_per_element", &Stack::gated_copy_bytes, 0, 16},
      {"kept", "activation_copy_bytes_per_element", &Stack::activation_copy_bytes, 0, 16},
      {"kept", "head_bytes_per_token", &Stack::kept_head_bytes, 0, 200},
      {"kept", "score_bytes_per_score", &Stack::score_bytes, 0, 50},
      {"kept", "router_bytes_per_expert", &Stack::router_bytes, 0, 100},
      {"kept", "recompute_input_bytes_per_element", &Stack::recompute_input_bytes, 0, 50},
      {"kept", "work_share", &Stack::work_share, 0, 4},
      {"kept", "gathered_work_bytes_per_element", &Stack::gathered_work_bytes, 0, 100},
      {"kept", "activation_factor", &Stack::activation_factor, 0.3, 3},
      {"loss", "traffic_bytes_per_logit", &Stack::loss_traffic_bytes, 0, 200},
      {"communication", "gather_windows", &Stack::gather_windows, 0, 100},
      {"communication", "root_window_share", &Stack::root_window_share, 0, 1},
      {"communication", "buffer_bytes", &Stack::buffer_bytes, 0, 1e12},
      {"communication", "offload_units_in_flight", &Stack::offload_units, 1, 1000},
      {"traffic", "norm_forward_bytes_per_element", &Stack::norm_forward_bytes, 0, 200},
      {"traffic", "norm_backward_bytes_per_element", &Stack::norm_backward_bytes, 0, 200},
      {"traffic", "residual_forward_bytes_per_element", &Stack::residual_forward_bytes, 0, 200},
      {"traffic", "residual_backward_bytes_per_element", &Stack::residual_backward_bytes, 0, 200},
      {"traffic", "rope_bytes_per_element", &Stack::rope_bytes, 0, 200},
      {"traffic", "gated_forward_bytes_per_element", &Stack::gated_forward_bytes, 0, 200},
      {"traffic", "gated_backward_bytes_per_element", &Stack::gated_backward_bytes, 0, 200},
      {"traffic", "gelu_forward_bytes_per_element", &Stack::gelu_forward_bytes, 0, 200},
      {"traffic", "gelu_backward_bytes_per_element", &Stack::gelu_backward_bytes, 0, 200},
      {"traffic", "cast_forward_bytes_per_element", &Stack::cast_forward_bytes, 0, 200},
      {"traffic", "cast_backward_bytes_per_element", &Stack::cast_backward_bytes, 0, 200},
      {"traffic", "cast_transpose_bytes_per_element", &Stack::cast_transpose_bytes, 0, 200},
      {"time", "gemm_factor", &Stack::gemm_factor, 0.1, 20},
      {"time", "grouped_gemm_factor", &Stack::grouped_gemm_factor, 0.1, 20},
      {"time", "memory_bound_factor", &Stack::memory_bound_factor, 0.1, 20},
      {"time", "attention_factor", &Stack::attention_factor, 0.1, 20},
      {"time", "tp_communication_factor", &Stack::tp_communication_factor, 0.1, 20},
      {"time", "network_efficiency", &Stack::network_efficiency, 0.01, 2},
      {"time", "dp_overlap_share", &Stack::dp_overlap, 0, 1},
      {"time", "overlap_slowdown_share", &Stack::overlap_slowdown, 0, 2},
      {"time", "tp_overlap_slowdown_share", &Stack::tp_overlap_slowdown, 0, 2},
      {"time", "step_overhead_s", &Stack::step_overhead_s, 0, 100},
      {"time", "layer_overhead_s", &Stack::layer_overhead_s, 0, 10},
      {"time", "host_per_layer_s", &Stack::host_per_layer_s, 0, 10},
      {"time", "host_per_expert_layer_s", &Stack::host_per_expert_layer_s, 0, 10},
      {"time", "band_share", &Stack::time_band_share, 0, 1},
      {"runtime", "runtime_bytes", &Stack::runtime_bytes, 0, 1e12},
      {"runtime", "communicator_bytes", &Stack::communicator_bytes, 0, 1e12},
      {"runtime", "workspace_bytes", &Stack::workspace_bytes, 0, 1e12},
      {"runtime", "fragmentation_share", &Stack::fragmentation, 0, 2},
      {"runtime", "expert_fragmentation_share", &Stack::expert_fragmentation, 0, 2},
      {"runtime", "state_margin_share", &Stack::state_margin, 0, 1},
      {"runtime", "load_bytes_per_parameter", &Stack::load_bytes, 0, 64},
      {"runtime", "band_share", &Stack::band_share, 0, 1},
  };
  return fields;
}

const std::vector<Switch>& Switches() {
  static const std::vector<Switch> switches = {
      {"state", "adapters_joint", &Stack::adapters_joint},
      {"state", "gradients_persist", &Stack::gradients_persist},
      {"state", "embedding_moments_narrow", &Stack::embedding_moments_narrow},
      {"state", "optimizer_shards_context", &Stack::optimizer_shards_context},
      {"state", "quantised_weights_sharded", &Stack::quantised_weights_sharded},
      {"kept", "fused_attention", &Stack::fused_attention},
      {"kept", "keys_expanded", &Stack::keys_expanded},
      {"kept", "hidden_dropout", &Stack::hidden_dropout},
      {"kept", "quantised_linears_keep_input", &Stack::quantised_linears_keep_input},
      {"kept", "adapter_padding", &Stack::adapter_padding},
      {"kept", "elementwise_recomputed", &Stack::elementwise_recomputed},
      {"kept", "selective_by_operator", &Stack::selective_by_operator},
      {"time", "eager", &Stack::eager},
      {"communication", "expert_tokens_once_per_node", &Stack::experts_once_per_node},
      {"communication", "ddp_copies_gradients", &Stack::ddp_copies_gradients},
  };
  return switches;
}

const std::vector<std::string>& Groups() {
  static const std::vector<std::string> groups = {"state",   "kept", "loss",   "communication",
                                                  "traffic", "time", "runtime"};
  return groups;
}

const std::vector<std::string>& LossKernels() {
  static const std::vector<std::string> kernels = {"plain",   "fused", "native_fused",
                                                   "chunked", "liger", "loss_parallel"};
  return kernels;
}

const std::vector<std::string>& AttentionFamilies() {
  static const std::vector<std::string> families = {"unfused", "flash1", "flash2", "flash3"};
  return families;
}

void ReadLoss(ObjectReader* reader, bool based, Stack* stack) {
  if (!based || reader->Has("kernel"))
    stack->loss_kernel = LossKernels()[reader->Choice("kernel", LossKernels())];
  if (!based || reader->Has("kept_bytes_per_logit")) {
    ObjectReader kernels = reader->Object("kept_bytes_per_logit");
    stack->logit_bytes_of.clear();
    for (const std::string& kernel : LossKernels()) {
      if (kernels.Has(kernel)) stack->logit_bytes_of[kernel] = kernels.Number(kernel, 0, 100);
    }
    kernels.Finish();
  }
  if (!stack->logit_bytes_of.contains(stack->loss_kernel)) {
    reader->Fail(810, "kernel", "the stack's own loss kernel has no bytes per logit",
                 "add \"" + stack->loss_kernel + "\" to kept_bytes_per_logit");
  }
}

}  // namespace

std::string AttentionFamilyName(AttentionFamily family) {
  return AttentionFamilies()[static_cast<std::size_t>(family)];
}

std::string BaseOfStack(const JsonDocument& document) {
  const Json* base = document.root.IsObject() ? document.root.Find("base") : nullptr;
  return base != nullptr && base->IsString() ? base->AsString() : "";
}

Stack ReadStack(const JsonDocument& document, const Stack* base) {
  ObjectReader root(document, document.root, "");
  const std::string schema = root.String("schema");
  if (schema != kStackSchema) {
    root.Fail(801, "schema", "this is '" + schema + "', not a stack",
              "a stack says \"schema\": \"" + std::string(kStackSchema) + "\"");
  }
  Stack stack;
  if (base != nullptr) stack = *base;
  root.String("base", "");
  stack.name = root.String("name");
  stack.description = root.String("description");
  stack.provenance = static_cast<Provenance>(
      root.Choice("provenance", {"measured", "calibrated", "datasheet", "assumed"}));
  stack.source = root.String("source");
  for (const std::string& group : Groups()) {
    const bool based = base != nullptr;
    if (based && !root.Has(group)) continue;
    ObjectReader reader = root.Object(group);
    stack.sources[group] = reader.String("source");
    for (const Switch& of : Switches()) {
      if (group == of.group && (!based || reader.Has(of.key)))
        stack.*of.member = reader.Bool(of.key);
    }
    for (const Field& field : Fields()) {
      if (group == field.group && (!based || reader.Has(field.key)))
        stack.*field.member = reader.Number(field.key, field.low, field.high);
    }
    if (group == "loss") ReadLoss(&reader, based, &stack);
    if (group == "time" && (!based || reader.Has("attention_kernel")))
      stack.attention_kernel =
          static_cast<AttentionFamily>(reader.Choice("attention_kernel", AttentionFamilies()));
    if (group == "kept" && !stack.fused_attention && stack.score_bytes == 0) {
      reader.Fail(
          810, "score_bytes_per_score", "attention is not fused, yet its scores take no memory",
          "unfused attention keeps 2 bytes a score, 5 with dropout; or set fused_attention");
    }
    if (group == "state" && stack.parameter_exchange_bytes > stack.weight_bytes) {
      reader.Fail(810, "parameter_exchange_bytes_per_parameter",
                  "a gathered parameter is larger than the parameter that is kept",
                  "it is at most weight_bytes_per_parameter");
    }
    reader.Finish();
  }
  root.Finish();
  return stack;
}

Json WriteStack(const Stack& stack) {
  Json json = Json::Object();
  json.Set("schema", kStackSchema);
  json.Set("name", stack.name);
  json.Set("description", stack.description);
  json.Set("provenance", ProvenanceName(stack.provenance));
  json.Set("source", stack.source);
  for (const std::string& group : Groups()) {
    Json& object = json.Set(group, Json::Object());
    const auto source = stack.sources.find(group);
    object.Set("source", source == stack.sources.end() ? "" : source->second);
    for (const Switch& of : Switches()) {
      if (group == of.group) object.Set(of.key, stack.*of.member);
    }
    if (group == "loss") {
      object.Set("kernel", stack.loss_kernel);
      Json& kernels = object.Set("kept_bytes_per_logit", Json::Object());
      for (const auto& [kernel, bytes] : stack.logit_bytes_of) kernels.Set(kernel, bytes);
    }
    if (group == "time")
      object.Set("attention_kernel", AttentionFamilyName(stack.attention_kernel));
    for (const Field& field : Fields()) {
      if (group == field.group) object.Set(field.key, stack.*field.member);
    }
  }
  return json;
}

double LogitBytes(const Stack& stack, const std::string& kernel, double tp) {
  const std::string& asked = kernel.empty() ? stack.loss_kernel : kernel;
  const auto parallel = stack.logit_bytes_of.find("loss_parallel");
  if (asked == "plain" && tp > 1 && parallel != stack.logit_bytes_of.end()) return parallel->second;
  const auto found = stack.logit_bytes_of.find(asked);
  assert(found != stack.logit_bytes_of.end());
  return found->second;
}

// Families of attention kernels, against what the profiles' tables measured
//
// FlashAttention 1 keeps the scores on chip but rescales and writes its output once per block of keys, and its Triton
// form has one warp layout for all head sizes. FlashAttention 2 splits over queries and leaves half of the tensor cores'
// rate on Hopper, because it waits for each product; 3 (and cuDNN's) overlaps products, softmax and copies there.
//
//   Ampere, Ada: the tables are FlashAttention 2.        1: 1.7
//   Hopper, Blackwell: the tables are 3 or cuDNN's.      2: 1.5, 1: 3.2
//
// Sources: Dao 2023 (arXiv:2307.08691, A100: version 1 reaches 0.5…0.75 of version 2) and Shah et al. 2024
// (arXiv:2407.08608: version 3 is 1.5…2 times as fast as 2 on H100); the figures for 1 are the step-time study's, set on
// the llm-foundry rows, and Blackwell's are Hopper's for want of better.
static double FamilyFactor(AttentionFamily family, double compute_capability) {
  const bool tables_are_3 = compute_capability >= 9 && compute_capability < 12;
  switch (family) {
    case AttentionFamily::kFlash1:
      return tables_are_3 ? 3.2 : 1.7;
    case AttentionFamily::kFlash2:
      return tables_are_3 ? 1.5 : 1;
    case AttentionFamily::kUnfused:
    case AttentionFamily::kFlash3:
      return 1;
  }
  return 1;
}

double AttentionFactor(const Stack& stack, double compute_capability) {
  return stack.attention_factor * FamilyFactor(stack.attention_kernel, compute_capability);
}

Stack LoadStack(const std::string& name_or_file, const std::string& data_root) {
  const JsonDocument document = OpenStack(name_or_file, data_root);
  const std::string base_name = BaseOfStack(document);
  if (base_name.empty()) return ReadStack(document);
  const JsonDocument base_document = OpenStack(base_name, data_root);
  if (!BaseOfStack(base_document).empty()) {
    ThrowInput(811,
               "stack '" + name_or_file + "' changes '" + base_name +
                   "', which itself changes another stack",
               "name '" + BaseOfStack(base_document) + "' as its base, or write the stack out");
  }
  const Stack base = ReadStack(base_document);
  return ReadStack(document, &base);
}

}  // namespace aurum
