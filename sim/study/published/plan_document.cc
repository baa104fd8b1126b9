#include "sim/study/published/plan_document.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include "sim/study/published/fields.h"
#include "sim/study/published/to_scenario.h"

namespace aurum {
namespace {

std::optional<std::string> PrecisionOf(const RecordFacts& f, const PublishedSources& sources,
                                       std::vector<std::string>* assumed) {
  const std::string printed = Lower(f.precision);
  if (printed.empty()) {
    AddNote(assumed, "precision not told: bf16");
    return "bf16";
  }
  for (const auto& [part, plan] : sources.precision)
    if (Contains(printed, part)) return plan;
  return std::nullopt;
}

Json ShardingOf(const PlanFacts& p, const PlanNumbers& n, Json* plan, std::string* skip) {
  const std::string printed = Lower(p.sharding);
  if (Contains(printed, "not resharded") || p.reshard_after_forward == false)
    plan->Set("reshard_after_forward", false);
  if (const std::size_t at = printed.find("sharding group "); at != std::string::npos) {
    const std::int64_t group = FirstNumber(printed, at).value_or(0);
    if (group > 0 && group < n.dp * n.cp) {
      plan->Set("shard_group", group);
      return "hsdp";
    }
    return "fsdp";
  }
  if (printed.starts_with("no")) return "zero1";  // "no (DDP / distributed optimizer)"
  if (!printed.empty() && printed != "/" && printed != "none" && printed != "false") return "fsdp";
  if (!p.zero) {
    *skip = "sharding not told";
    return {};
  }
  static const char* const kStages[] = {"ddp", "zero1", "zero2", "fsdp"};
  if (*p.zero > 3) {
    *skip = "ZeRO stage " + std::to_string(*p.zero) + " is not known";
    return {};
  }
  return kStages[*p.zero];
}

// "selective: core_attn, moe_act", "core_attn, mlp": Megatron-LM's names of modules in a row. Nothing
// where one of them is another word.
std::optional<Json> RecomputeParts(const std::string& printed) {
  static const std::pair<const char*, const char*> kParts[] = {{"core_attn", "attention"},
                                                               {"attention", "attention"},
                                                               {"attn", "attention"},
                                                               {"layernorm", "norm"},
                                                               {"norm", "norm"},
                                                               {"gdn_norm_out", "norm"},
                                                               {"moe_act", "activation"},
                                                               {"act", "activation"},
                                                               {"activation", "activation"},
                                                               {"mlp", "mlp"},
                                                               {"moe", "moe"},
                                                               {"shared_experts", "mlp"},
                                                               {"mla_up_proj", "up_projection"}};
  std::string list = printed;
  if (const std::size_t colon = list.find(':'); colon != std::string::npos)
    list = list.substr(colon + 1);
  Json parts = Json::Array();
  std::string word;
  const auto take = [&] {
    if (word.empty()) return true;
    const auto* found = std::find_if(std::begin(kParts), std::end(kParts),
                                     [&](const auto& part) { return word == part.first; });
    word.clear();
    if (found == std::end(kParts)) return false;
    for (const Json& part : parts.items())
      if (part.AsString() == found->second) return true;
    parts.Append(found->second);
    return true;
  };
  for (const char c : list) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
    } else if (!take()) {
      return std::nullopt;
    }
  }
  if (!take() || parts.items().empty()) return std::nullopt;
  Json recompute = Json::Object();
  recompute.Set("scope", "selective");
  recompute.Set("parts", std::move(parts));
  return recompute;
}

// "" = none; what the plan says in the words of its source → the grammar.
std::optional<Json> RecomputeOf(const RecordFacts& f, const PublishedSources& sources,
                                const PlanNumbers& n, std::string* skip) {
  const std::string printed = Lower(f.plan.recompute);
  if (printed.empty()) {
    *skip = "recompute not told";
    return std::nullopt;
  }
  for (const auto& [text, plan] : sources.recompute) {
    if (printed != text) continue;
    if (plan.IsString() && plan.AsString() == "every second layer") {
      Json half = Json::Object();
      half.Set("scope", "full");
      half.Set("layers", f.model.layers.value_or(2) / (2 * n.pp * n.vpp));
      return half;
    }
    return plan;
  }
  if (auto parts = RecomputeParts(printed)) return parts;
  *skip = "recompute '" + f.plan.recompute + "' is not described in sources.json";
  return std::nullopt;
}

std::optional<Json> AdapterOf(const RecordFacts& f, std::vector<std::string>* assumed,
                              std::string* skip) {
  const std::string task = Lower(f.task);
  if (Contains(task, "adapter")) {
    *skip = "adapter kind not simulated: " + f.task;
    return std::nullopt;
  }
  const bool low_rank = Contains(task, "lora") || Contains(task, "dora");
  if (!low_rank) return std::nullopt;
  Json adapter = Json::Object();
  adapter.Set("kind", Contains(task, "dora") && !Contains(task, "lora") ? "dora" : "lora");
  if (!f.plan.adapter_rank) AddNote(assumed, "adapter rank not told: 8");
  adapter.Set("rank", f.plan.adapter_rank.value_or(8));
  std::string targets = f.plan.adapter_targets;
  if (targets.empty()) {
    targets = "q,k,v,o,gate,up,down";
    AddNote(assumed, "adapter targets not told: every matrix of a layer");
  }
  Json list = Json::Array();
  for (const std::string& target : SplitList(targets)) list.Append(target);
  adapter.Set("targets", std::move(list));
  if (f.plan.dropout) adapter.Set("dropout", *f.plan.dropout);
  const std::string printed = Lower(f.precision);
  const bool quantised = Contains(task, "qlora");
  std::string base = "bf16";
  if (Contains(printed, "nf4-dq"))
    base = "nf4-double";
  else if (Contains(printed, "nf4"))
    base = "nf4";
  else if (Contains(printed, "gptq") || Contains(printed, "int4"))
    base = "gptq4";
  else if (Contains(printed, "int8"))
    base = "int8";
  else if (quantised) {
    base = "nf4-double";
    AddNote(assumed, "format of the quantised base not told: nf4, double quantisation");
  }
  adapter.Set("base", base);
  if (Contains(task, "emb") || f.plan.trains_embeddings.value_or(false))
    adapter.Set("trains_embeddings", true);
  return adapter;
}

// `gathered`: parameters come unit by unit, so that those in host memory can too.
Json OffloadOf(const PlanFacts& p, bool gathered) {
  Json offload = Json::Object();
  const std::string printed = Lower(p.offload);
  double activations = p.offload_activations.value_or(0);
  double parameters = p.offload_parameters.value_or(0);
  const bool ratio = Contains(printed, "ratio");
  if (activations == 0 && !ratio && Contains(printed, "activations")) activations = 1;
  if (parameters == 0 &&
      (Contains(printed, "params to cpu") || Contains(printed, "optimizer + parameters") ||
       Contains(printed, "cpu offload")))
    parameters = 1;
  if (activations > 0) offload.Set("activations", std::min(1.0, activations));
  if (parameters > 0 && gathered) offload.Set("parameters", std::min(1.0, parameters));
  double optimizer = p.offload_optimizer.value_or(0);
  if (optimizer == 0 && (Contains(printed, "optimizer") && !Contains(printed, "no optimizer")))
    optimizer = 1;
  if (optimizer > 0) offload.Set("optimizer", std::min(1.0, optimizer));
  return offload;
}

}  // namespace

void AddNote(std::vector<std::string>* notes, std::string note) {
  if (std::find(notes->begin(), notes->end(), note) == notes->end())
    notes->push_back(std::move(note));
}

// Degrees and batch, from what is told and what follows from it.
std::string CountPlan(const RecordFacts& f, PlanNumbers* n, std::vector<std::string>* assumed) {
  const PlanFacts& p = f.plan;
  const std::int64_t gpus = f.hardware.gpus.value_or(0);
  n->tp = p.tp.value_or(1);
  n->pp = p.pp.value_or(1);
  n->cp = p.cp.value_or(1);
  n->ep = p.ep.value_or(1);
  n->vpp = n->pp > 1 ? p.vpp.value_or(1) : 1;
  if (n->pp > 1 && n->vpp == 1 && Contains(Lower(p.schedule), "interleaved")) {
    n->vpp = 2;
    AddNote(assumed, "chunks of an interleaved stage not told: 2");
  }
  if (n->tp < 1 || n->pp < 1 || n->cp < 1 || n->ep < 1 || n->vpp < 1)
    return "a degree of parallelism is 0";
  if (n->tp > 1 << 20 || n->pp > 1 << 20 || n->cp > 1 << 20)
    return "a degree of parallelism is out of reason";
  const std::int64_t model_ranks = n->tp * n->pp * n->cp;
  if (gpus < 1) return "GPU count not told";
  if (gpus % model_ranks != 0) {
    return "tp·pp·cp = " + std::to_string(model_ranks) + " does not divide the " +
           std::to_string(gpus) + " GPUs";
  }
  n->dp = gpus / model_ranks;
  if (p.dp && *p.dp != n->dp) {
    return "contradictory: tp·pp·cp·dp = " + std::to_string(model_ranks * *p.dp) + " as printed, " +
           std::to_string(gpus) + " GPUs";
  }
  if (p.micro_batch) {
    n->micro_batch = *p.micro_batch;
  } else if (p.global_batch && p.accumulation && *p.accumulation > 0 &&
             *p.global_batch % (n->dp * *p.accumulation) == 0) {
    n->micro_batch = *p.global_batch / (n->dp * *p.accumulation);
  } else {
    return "micro-batch not told";
  }
  if (n->micro_batch < 1) return "micro-batch not told";
  if (p.global_batch) {
    n->global_batch = *p.global_batch;
  } else {
    const std::int64_t steps = p.accumulation.value_or(n->pp);
    n->global_batch = n->micro_batch * n->dp * steps;
    if (!p.accumulation) {
      AddNote(assumed, "global batch not told: " + std::to_string(n->global_batch) + " samples, " +
                           std::to_string(steps) + " micro-batch" + (steps > 1 ? "es" : "") +
                           " a replica");
    }
  }
  return "";
}

Json PlanDocument(const RecordFacts& f, const PublishedSources& sources, const PlanNumbers& n,
                  const std::vector<std::string>& modules, std::vector<std::string>* assumed,
                  std::string* skip) {
  const PlanFacts& p = f.plan;
  Json plan = Json::Object();
  plan.Set("micro_batch_size", n.micro_batch);
  plan.Set("sharding", ShardingOf(p, n, &plan, skip));
  if (!skip->empty()) return {};
  const auto recompute = RecomputeOf(f, sources, n, skip);
  if (!recompute) return {};
  plan.Set("recompute", *recompute);
  const auto precision = PrecisionOf(f, sources, assumed);
  if (!precision) {
    *skip = "precision '" + f.precision + "' is not described in sources.json";
    return {};
  }
  plan.Set("precision", *precision);
  if (!p.attention_kernel.empty()) plan.Set("attention", p.attention_kernel);
  const std::string optimizer = Lower(p.optimizer);
  if (Contains(optimizer, "8-bit") || Contains(optimizer, "8bit"))
    plan.Set("optimizer", "adam-8bit");
  if (Contains(optimizer, "4-bit")) plan.Set("optimizer", "adam-4bit");
  if (auto adapter = AdapterOf(f, assumed, skip)) plan.Set("adapter", std::move(*adapter));
  if (!skip->empty()) return {};
  const std::string sharding = plan.Find("sharding")->AsString();
  if (Json offload = OffloadOf(p, sharding == "fsdp" || sharding == "hsdp");
      !offload.members().empty())
    plan.Set("offload", std::move(offload));
  Json overlap = Json::Object();
  if (p.tensor_parallel_overlap && n.tp > 1)
    overlap.Set("tensor_parallel", *p.tensor_parallel_overlap);
  if (p.gather_overlap) overlap.Set("parameter_gather", *p.gather_overlap);
  if (!overlap.members().empty()) plan.Set("overlap", std::move(overlap));
  Json frozen = Json::Array();
  for (const std::string& module : SplitList(p.frozen)) {
    const bool known = std::find(modules.begin(), modules.end(), module) != modules.end();
    if (known && (module != "backbone" || plan.Find("adapter") == nullptr)) frozen.Append(module);
  }
  if (!frozen.items().empty()) plan.Set("frozen", std::move(frozen));

  Json backbone = Json::Object();
  backbone.Set("tp", n.tp);
  if (n.tp > 1) backbone.Set("sequence_parallel", p.sequence_parallel.value_or(false));
  if (n.cp > 1) backbone.Set("cp", n.cp);
  if (n.ep > 1) backbone.Set("ep", n.ep);
  if (f.model.moe && p.expert_tp) backbone.Set("expert_tp", *p.expert_tp);
  if (f.model.moe && p.expert_imbalance.value_or(1) > 1)
    backbone.Set("expert_imbalance", *p.expert_imbalance);
  if (n.pp > 1) {
    backbone.Set("pp", n.pp);
    if (n.vpp > 1) backbone.Set("vpp", n.vpp);
    const std::int64_t positions = n.pp * n.vpp;
    const std::vector<std::int64_t>& told = p.layers_per_stage;
    if (static_cast<std::int64_t>(told.size()) == positions && f.model.layers &&
        std::accumulate(told.begin(), told.end(), std::int64_t{0}) == *f.model.layers) {
      Json list = Json::Array();
      for (const std::int64_t layers : told) list.Append(layers);
      backbone.Set("layers_per_stage", std::move(list));
    } else if (f.model.layers && *f.model.layers % positions != 0) {
      // Embedding and head may be chunks of their own (94 layers on 96 chunks).
      if (*f.model.layers + 2 < positions) {
        *skip = "fewer layers than pipeline chunks";
        return {};
      }
      const std::vector<std::int64_t> split = SplitLayers(*f.model.layers, positions);
      Json list = Json::Array();
      for (const std::int64_t layers : split) list.Append(layers);
      backbone.Set("layers_per_stage", std::move(list));
      AddNote(assumed, "layers of each stage not told: " + std::to_string(split.front()) + ", " +
                           std::to_string(split[split.size() / 2]) + " … " +
                           std::to_string(split.back()));
    }
  }
  plan.Set(f.model.TwoTowers() ? "text" : "backbone", std::move(backbone));
  return plan;
}

Json WorkloadDocument(const RecordFacts& f, const PlanNumbers& n, const MediaFacts& media,
                      std::string* skip) {
  Json workload = Json::Object();
  workload.Set("task", "train");
  workload.Set("global_batch_size", n.global_batch);
  const std::int64_t text = *f.model.sequence - media.images * media.visual_tokens;
  if (media.images > 0) {
    if (text < 1) {
      *skip = "the sample is shorter than its image";
      return {};
    }
    Json image = Json::Object();
    image.Set("width", media.width);
    image.Set("height", media.height);
    image.Set("count", media.images);
    workload.Set("images", Json::Array({std::move(image)}));
  }
  workload.Set("text_tokens", text);
  return workload;
}

std::vector<std::int64_t> SplitLayers(std::int64_t layers, std::int64_t positions) {
  std::vector<std::int64_t> split(static_cast<std::size_t>(positions), layers / positions);
  std::int64_t left = layers % positions;
  if (left == 0) return split;
  if (positions > 1 && (layers + 2) % positions == 0) {
    std::fill(split.begin(), split.end(), (layers + 2) / positions);
    --split.front();
    --split.back();
    return split;
  }
  for (std::size_t i = 1; left > 0; i = (i + 1) % split.size(), --left) ++split[i];
  return split;
}

}  // namespace aurum
