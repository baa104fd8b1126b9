#include "sim/cost/stack.h"

#include <vector>

#include "sim/core/diagnostic.h"
#include "sim/core/object_reader.h"

// The file format "aurum.stack/1": groups of numbers, each group with its source. One table of
// fields below is both the reader and the writer, so that the two cannot drift apart. Keys carry
// the units.

namespace aurum {
namespace {

constexpr const char* kSchema = "aurum.stack/1";

struct Field {
  const char* group;
  const char* key;
  double Stack::*member;
  double low;
  double high;
};

const std::vector<Field>& Fields() {
  static const std::vector<Field> fields = {
      {"state", "weight_bytes_per_parameter", &Stack::weight_bytes, 0.25, 8},
      {"state", "gradient_bytes_per_parameter", &Stack::gradient_bytes, 0, 8},
      {"state", "optimizer_bytes_per_parameter", &Stack::optimizer_bytes, 0, 64},
      {"state", "gradient_exchange_bytes_per_parameter", &Stack::gradient_exchange_bytes, 0, 8},
      {"state", "parameter_exchange_bytes_per_parameter", &Stack::parameter_exchange_bytes, 0, 8},
      {"state", "optimizer_traffic_bytes_per_parameter", &Stack::optimizer_traffic_bytes, 0, 200},
      {"state", "gradient_accumulation_bytes_per_parameter", &Stack::gradient_accumulation_bytes, 0,
       50},
      {"state", "dummy_gradient_bytes_per_parameter", &Stack::dummy_gradient_bytes, 0, 8},
      {"kept", "hidden_bytes_per_element", &Stack::kept_hidden_bytes, 0, 200},
      {"kept", "q_bytes_per_element", &Stack::kept_q_bytes, 0, 200},
      {"kept", "kv_bytes_per_element", &Stack::kept_kv_bytes, 0, 200},
      {"kept", "mlp_gated_bytes_per_element", &Stack::kept_mlp_gated_bytes, 0, 200},
      {"kept", "mlp_bytes_per_element", &Stack::kept_mlp_bytes, 0, 200},
      {"kept", "head_bytes_per_token", &Stack::kept_head_bytes, 0, 200},
      {"kept", "score_bytes_per_score", &Stack::score_bytes, 0, 50},
      {"kept", "recompute_input_bytes_per_element", &Stack::recompute_input_bytes, 0, 50},
      {"loss", "kept_bytes_per_logit", &Stack::logit_bytes, 0, 100},
      {"loss", "traffic_bytes_per_logit", &Stack::loss_traffic_bytes, 0, 200},
      {"traffic", "norm_forward_bytes_per_element", &Stack::norm_forward_bytes, 0, 200},
      {"traffic", "norm_backward_bytes_per_element", &Stack::norm_backward_bytes, 0, 200},
      {"traffic", "residual_forward_bytes_per_element", &Stack::residual_forward_bytes, 0, 200},
      {"traffic", "residual_backward_bytes_per_element", &Stack::residual_backward_bytes, 0, 200},
      {"traffic", "rope_bytes_per_element", &Stack::rope_bytes, 0, 200},
      {"traffic", "gated_forward_bytes_per_element", &Stack::gated_forward_bytes, 0, 200},
      {"traffic", "gated_backward_bytes_per_element", &Stack::gated_backward_bytes, 0, 200},
      {"traffic", "gelu_forward_bytes_per_element", &Stack::gelu_forward_bytes, 0, 200},
      {"traffic", "gelu_backward_bytes_per_element", &Stack::gelu_backward_bytes, 0, 200},
      {"time", "memory_bound_factor", &Stack::memory_bound_factor, 0.1, 20},
      {"time", "attention_factor", &Stack::attention_factor, 0.1, 20},
      {"time", "attention_factor_hopper", &Stack::attention_factor_hopper, 0.1, 20},
      {"time", "tp_communication_factor", &Stack::tp_communication_factor, 0.1, 20},
      {"time", "network_efficiency", &Stack::network_efficiency, 0.01, 2},
      {"time", "dp_overlap_share", &Stack::dp_overlap, 0, 1},
      {"time", "overlap_slowdown_share", &Stack::overlap_slowdown, 0, 2},
      {"time", "step_overhead_s", &Stack::step_overhead_s, 0, 100},
      {"time", "layer_overhead_s", &Stack::layer_overhead_s, 0, 10},
      {"time", "host_per_layer_s", &Stack::host_per_layer_s, 0, 10},
      {"runtime", "runtime_bytes", &Stack::runtime_bytes, 0, 1e12},
      {"runtime", "fragmentation_share", &Stack::fragmentation, 0, 2},
  };
  return fields;
}

const std::vector<std::string>& Groups() {
  static const std::vector<std::string> groups = {"state",   "kept", "loss",
                                                  "traffic", "time", "runtime"};
  return groups;
}

}  // namespace

Stack ReadStack(const JsonDocument& document) {
  ObjectReader root(document, document.root, "");
  const std::string schema = root.String("schema");
  if (schema != kSchema) {
    root.Fail(801, "schema", "this is '" + schema + "', not a stack",
              "a stack says \"schema\": \"" + std::string(kSchema) + "\"");
  }
  Stack stack;
  stack.name = root.String("name");
  stack.description = root.String("description");
  stack.provenance = static_cast<Provenance>(
      root.Choice("provenance", {"measured", "calibrated", "datasheet", "assumed"}));
  stack.source = root.String("source");
  for (const std::string& group : Groups()) {
    ObjectReader reader = root.Object(group);
    stack.sources[group] = reader.String("source");
    if (group == "kept") stack.fused_attention = reader.Bool("fused_attention");
    for (const Field& field : Fields()) {
      if (group == field.group)
        stack.*field.member = reader.Number(field.key, field.low, field.high);
    }
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
  json.Set("schema", kSchema);
  json.Set("name", stack.name);
  json.Set("description", stack.description);
  json.Set("provenance", ProvenanceName(stack.provenance));
  json.Set("source", stack.source);
  for (const std::string& group : Groups()) {
    Json& object = json.Set(group, Json::Object());
    const auto source = stack.sources.find(group);
    object.Set("source", source == stack.sources.end() ? "" : source->second);
    if (group == "kept") object.Set("fused_attention", stack.fused_attention);
    for (const Field& field : Fields()) {
      if (group == field.group) object.Set(field.key, stack.*field.member);
    }
  }
  return json;
}

double AttentionFactor(const Stack& stack, double compute_capability) {
  const bool hopper = compute_capability >= 9 && compute_capability < 10;
  return stack.attention_factor * (hopper ? stack.attention_factor_hopper : 1);
}

}  // namespace aurum
