#include "models/model.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <string>

namespace aurum {
namespace {

// Every count is written once and instantiated twice: exactly, and in floating point for the check
// that an exact count cannot overflow.
template <typename Count>
Count CountAttention(const Attention& a, Count hidden) {
  const Count heads = a.heads;
  const Count kv_heads = a.kv_heads;
  const Count head_dim = a.head_dim;
  const Count value_dim = a.value_head_dim;
  const Count query_width = heads * head_dim;
  const Count value_width = heads * value_dim;
  const Count gate = a.output_gate ? hidden * value_width : Count{0};
  const Count output = value_width * hidden + (a.output_bias ? hidden : Count{0}) + gate;
  switch (a.kind) {
    case AttentionKind::kLatent: {
      // DeepSeek-V2 (arXiv:2405.04434, section 2.1): queries and keys have a rotary part of their
      // own; the keys' rotary part is shared by the heads and skips the low-rank bottleneck.
      const Count rank = a.kv_lora_rank;
      const Count rope = a.rope_head_dim;
      const Count q_out = heads * (head_dim + rope);
      const Count queries =
          a.q_lora_rank > 0 ? (hidden + q_out) * static_cast<Count>(a.q_lora_rank) : hidden * q_out;
      return queries + hidden * (rank + rope) + rank * heads * (head_dim + value_dim) + output;
    }
    case AttentionKind::kLinear:
      return hidden * (2 * kv_heads * head_dim + value_width) + output;
    case AttentionKind::kSelf:
    case AttentionKind::kCross:
      break;
  }
  const Count source =
      a.kind == AttentionKind::kCross && a.kv_input > 0 ? static_cast<Count>(a.kv_input) : hidden;
  const Count key_width = kv_heads * head_dim;
  const Count values = a.shared_key_value ? Count{0} : kv_heads * value_dim;
  Count total = hidden * query_width + source * (key_width + values) + output;
  if (a.qkv_bias) total += query_width + values + (a.key_bias ? key_width : Count{0});
  return total;
}

template <typename Count>
Count CountMatrices(const Mlp& mlp, Count hidden, Count intermediate) {
  const Count inner = mlp.gated ? 2 : 1;
  return (inner + 1) * hidden * intermediate +
         (mlp.bias ? inner * intermediate + hidden : Count{0});
}

template <typename Count>
Count CountMlp(const Mlp& mlp, Count hidden, bool active) {
  if (mlp.experts == 0) {
    return mlp.intermediate == 0 ? Count{0} : CountMatrices<Count>(mlp, hidden, mlp.intermediate);
  }
  const Count experts = mlp.experts;
  const Count used = active ? static_cast<Count>(mlp.experts_per_token) : experts;
  Count total =
      hidden * experts + used * CountMatrices<Count>(mlp, hidden, mlp.expert_intermediate);
  if (mlp.shared_intermediate > 0) {
    total += CountMatrices<Count>(mlp, hidden, mlp.shared_intermediate);
  }
  return total;
}

template <typename Count>
Count CountLayer(const Layer& layer, Count hidden, bool active) {
  Count total =
      CountAttention<Count>(layer.attention, hidden) + CountMlp<Count>(layer.mlp, hidden, active) +
      static_cast<Count>(layer.norm_parameters) + static_cast<Count>(layer.other_parameters);
  if (layer.cross.heads > 0) total += CountAttention<Count>(layer.cross, hidden);
  return total;
}

template <typename Count>
Count CountLinear(const Linear& linear) {
  const Count out = static_cast<Count>(linear.out);
  return static_cast<Count>(linear.in) * out + (linear.bias ? out : Count{0});
}

// Without the token embedding; `head` says whether the output head counts (a tied one has no
// parameters of its own).
template <typename Count>
Count CountBody(const Module& module, bool active, bool head) {
  const Count hidden = module.hidden;
  Count total = static_cast<Count>(module.embedding_parameters);
  for (const Linear& linear : module.input) total += CountLinear<Count>(linear);
  for (const LayerRun& run : module.runs) {
    total += static_cast<Count>(run.count) * CountLayer<Count>(run.layer, hidden, active);
  }
  for (const Linear& linear : module.output) total += CountLinear<Count>(linear);
  if (module.resampler.queries > 0) {
    total += (static_cast<Count>(module.resampler.queries) +
              static_cast<Count>(module.resampler.kv_input)) *
                 hidden +
             4 * hidden * hidden + 4 * hidden;
  }
  total += static_cast<Count>(module.queries) * hidden;
  if (head) total += static_cast<Count>(module.head_vocabulary) * hidden;
  return total;
}

template <typename Count>
Count CountMtp(const Module& module, bool active) {
  if (module.mtp_layers == 0) return Count{0};
  const Count hidden = module.hidden;
  const Count norms = (module.mtp_layer.layer_norm ? 6 : 3) * hidden;
  return static_cast<Count>(module.mtp_layers) *
         (CountLayer<Count>(module.mtp_layer, hidden, active) + 2 * hidden * hidden + norms +
          (active ? static_cast<Count>(module.head_vocabulary) * hidden : Count{0}));
}

template <typename Count>
Count CountModule(const Module& module) {
  return CountBody<Count>(module, /*active=*/false, /*head=*/!module.tied_head) +
         CountMtp<Count>(module, /*active=*/false) +
         static_cast<Count>(module.vocabulary) * static_cast<Count>(module.hidden);
}

template <typename Count>
Count CountModel(const Model& model) {
  Count total = 0;
  for (const Module& module : model.modules) total += CountModule<Count>(module);
  return total;
}

}  // namespace

int Module::Layers() const {
  int layers = 0;
  for (const LayerRun& run : runs) layers += run.count;
  return layers;
}

const Module* Model::Find(const std::string& module_name) const {
  for (const Module& module : modules) {
    if (module.name == module_name) return &module;
  }
  return nullptr;
}

const Module& Model::Backbone() const {
  assert(!modules.empty());
  return modules.back();
}

std::int64_t AttentionParameters(const Layer& layer, int hidden) {
  return CountAttention<std::int64_t>(layer.attention, hidden) +
         (layer.cross.heads > 0 ? CountAttention<std::int64_t>(layer.cross, hidden) : 0);
}

std::int64_t MlpParameters(const Layer& layer, int hidden) {
  return CountMlp<std::int64_t>(layer.mlp, hidden, /*active=*/false);
}

std::int64_t ActiveMlpParameters(const Layer& layer, int hidden) {
  return CountMlp<std::int64_t>(layer.mlp, hidden, /*active=*/true);
}

std::int64_t LayerParameters(const Layer& layer, int hidden) {
  return CountLayer<std::int64_t>(layer, hidden, /*active=*/false);
}

std::int64_t ModuleParameters(const Module& module) { return CountModule<std::int64_t>(module); }

std::int64_t ModelParameters(const Model& model) { return CountModel<std::int64_t>(model); }

std::int64_t MtpParameters(const Module& module) {
  return CountMtp<std::int64_t>(module, /*active=*/false);
}

std::int64_t ActiveMtpParameters(const Module& module) {
  return CountMtp<std::int64_t>(module, /*active=*/true);
}

std::int64_t ActiveParameters(const Model& model) {
  return CountBody<std::int64_t>(model.Backbone(), /*active=*/true, /*head=*/true);
}

double ApproximateParameters(const Model& model) { return CountModel<double>(model); }

ShapeProblem CheckAttention(const Attention& a) {
  const auto number = [](int value) { return std::to_string(value); };
  if (a.heads < 1) return {"num_attention_heads", "an attention needs at least one head"};
  if (a.kv_heads < 1)
    return {"num_key_value_heads", "an attention needs at least one key/value head"};
  if (a.heads % a.kv_heads != 0) {
    return {"num_key_value_heads",
            "num_attention_heads = " + number(a.heads) +
                " is not a multiple of num_key_value_heads = " + number(a.kv_heads)};
  }
  if (a.head_dim < 1) return {"head_dim", "a head needs at least one dimension"};
  if (a.value_head_dim < 1) return {"v_head_dim", "a value head needs at least one dimension"};
  if (a.kind == AttentionKind::kLatent && a.kv_lora_rank < 1) {
    return {"kv_lora_rank", "latent attention needs a rank of its keys and values"};
  }
  if (a.shared_key_value && a.head_dim != a.value_head_dim) {
    return {"v_head_dim", "values that are the keys must have their width: " +
                              number(a.value_head_dim) + " is not " + number(a.head_dim)};
  }
  return {};
}

ShapeProblem CheckMlp(const Mlp& mlp) {
  if (mlp.experts == 0) {
    if (mlp.intermediate < 1)
      return {"intermediate_size",
              "a layer needs an MLP: intermediate_size is 0 and it has no experts"};
    if (mlp.experts_per_token != 0 || mlp.expert_intermediate != 0 ||
        mlp.shared_intermediate != 0) {
      return {"num_local_experts",
              "the layer has no experts, but says how wide they are or how many a token uses"};
    }
    return {};
  }
  if (mlp.intermediate != 0) {
    return {"intermediate_size",
            "a layer of experts has no dense MLP: what every token passes is "
            "shared_expert_intermediate_size"};
  }
  if (mlp.experts_per_token < 1 || mlp.experts_per_token > mlp.experts) {
    return {"num_experts_per_tok", "a token uses " + std::to_string(mlp.experts_per_token) +
                                       " of " + std::to_string(mlp.experts) + " experts"};
  }
  if (mlp.expert_intermediate < 1) return {"moe_intermediate_size", "an expert needs a width"};
  return {};
}

ShapeProblem CheckModel(const Model& model, std::size_t* module) {
  *module = model.modules.size();
  std::set<std::string> names;
  for (std::size_t i = 0; i < model.modules.size(); ++i) {
    const Module& m = model.modules[i];
    *module = i;
    if (m.name.empty()) return {"name", "a module needs a name"};
    if (!names.insert(m.name).second) return {"name", "two modules are called '" + m.name + "'"};
    if (m.hidden < 1) return {"hidden_size", "module '" + m.name + "' has no width"};
    if (m.kind != ModuleKind::kConnector && m.Layers() < 1)
      return {"layers", "module '" + m.name + "' has no layers"};
    if (m.layers_skipped > 0 && m.layers_skipped >= m.Layers()) {
      return {"layers_skipped", "module '" + m.name + "' skips " +
                                    std::to_string(m.layers_skipped) + " of its " +
                                    std::to_string(m.Layers()) + " layers"};
    }
    if (m.tied_head && m.head_vocabulary != m.vocabulary) {
      return {"tie_word_embeddings", "a head of " + std::to_string(m.head_vocabulary) +
                                         " columns cannot share an embedding of " +
                                         std::to_string(m.vocabulary) + " rows"};
    }
    if (m.queries > 0) {
      const bool reads = std::any_of(m.runs.begin(), m.runs.end(), [](const LayerRun& run) {
        return run.layer.cross.heads > 0 || run.layer.attention.kind == AttentionKind::kCross;
      });
      if (m.kind != ModuleKind::kConnector || !reads) {
        return {"queries", "module '" + m.name +
                               "' has queries: it must be a connector, and one of its layers must "
                               "read the input by cross-attention"};
      }
      if (m.resampler.queries > 0) {
        return {"queries", "module '" + m.name + "' has queries of its own and a resampler's"};
      }
    }
    if (m.deepstack > 0 && m.kind != ModuleKind::kConnector) {
      return {"deepstack", "module '" + m.name + "' is no connector: it has no deepstack outputs"};
    }
    if (m.mtp_layers > 0 && (m.kind != ModuleKind::kBackbone || m.head_vocabulary == 0)) {
      return {"multi_token_prediction",
              "module '" + m.name + "' predicts further tokens, but has no output head to do it"};
    }
    if (m.resampler.queries > 0 && (m.resampler.heads < 1 || m.hidden % m.resampler.heads != 0)) {
      return {"resampler", "the resampler's width " + std::to_string(m.hidden) +
                               " is not a multiple of its " + std::to_string(m.resampler.heads) +
                               " heads"};
    }
    if (m.kind == ModuleKind::kBackbone && i + 1 != model.modules.size()) {
      return {"kind",
              "module '" + m.name +
                  "' is a backbone, but not the last module: encoders and connectors come before"};
    }
  }
  *module = model.modules.size();
  if (model.modules.empty()) return {"modules", "a model needs modules"};
  if (model.Backbone().kind != ModuleKind::kBackbone)
    return {"modules", "the model has no backbone: its last module must be one"};
  if (ApproximateParameters(model) > kMostParameters)
    return {"modules", "these shapes have more than 10^17 parameters"};
  return {};
}

void AppendLayer(Module* module, const Layer& layer) {
  if (!module->runs.empty() && module->runs.back().layer == layer) {
    ++module->runs.back().count;
  } else {
    module->runs.push_back({1, layer});
  }
}

}  // namespace aurum
