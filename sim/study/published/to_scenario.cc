#include "sim/study/published/to_scenario.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/core/hash.h"
#include "sim/study/published/fields.h"

// How a record becomes a scenario
//
//   facts ─▶ what the source's tables mean (stack, memory level)     sources.json
//         ─▶ silent facts: a value with a reason, listed by name     "assume"
//         ─▶ model from its dimensions, or a named one of the catalogue
//         ─▶ cluster: a family of the catalogue, changed to what is told
//         ─▶ plan and workload in the grammar of a scenario
//
// A fact that moves the answer and that nobody told ("ends") makes one more scenario for each of its
// values; the predictions at these ends bound the answer. What is missing beyond that, or means
// something that Aurum does not simulate, ends the translation with its reason.

namespace aurum {
namespace {

constexpr std::size_t kMostEnds = 9;

struct Numbers {
  std::int64_t tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1, dp = 1;
  std::int64_t micro_batch = 1, global_batch = 1;
};

std::string Show(const Json& value) { return value.IsString() ? value.AsString() : value.Dump(); }

void AddNote(std::vector<std::string>* notes, std::string note) {
  if (std::find(notes->begin(), notes->end(), note) == notes->end())
    notes->push_back(std::move(note));
}

// Degrees and batch, from what is told and what follows from it.
std::string Count(const RecordFacts& f, Numbers* n, std::vector<std::string>* assumed) {
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

Json ShardingOf(const PlanFacts& p, const Numbers& n, Json* plan, std::string* skip) {
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

// "" = none; what the plan says in the words of its source → the grammar.
std::optional<Json> RecomputeOf(const RecordFacts& f, const PublishedSources& sources,
                                const Numbers& n, std::string* skip) {
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
  for (std::size_t from = 0; from <= targets.size();) {
    const std::size_t end = std::min(targets.find(',', from), targets.size());
    list.Append(targets.substr(from, end - from));
    from = end + 1;
  }
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
  if (optimizer == 0 &&
      (Contains(printed, "fused optimizer") || Contains(printed, "cpu optimizer")))
    optimizer = 1;
  if (optimizer > 0) offload.Set("optimizer", std::min(1.0, optimizer));
  return offload;
}

Json PlanOf(const RecordFacts& f, const PublishedSources& sources, const Numbers& n,
            const ModelReading* named, std::vector<std::string>* assumed, std::string* skip) {
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
  if (!p.frozen.empty() && named != nullptr && !named->catalogue.empty())
    plan.Set("frozen", Json::Array({Json(p.frozen)}));

  Json backbone = Json::Object();
  backbone.Set("tp", n.tp);
  if (n.tp > 1) backbone.Set("sequence_parallel", p.sequence_parallel.value_or(false));
  if (n.cp > 1) backbone.Set("cp", n.cp);
  if (n.ep > 1) backbone.Set("ep", n.ep);
  if (f.model.moe && p.expert_tp) backbone.Set("expert_tp", *p.expert_tp);
  if (n.pp > 1) {
    backbone.Set("pp", n.pp);
    if (n.vpp > 1) backbone.Set("vpp", n.vpp);
    const std::int64_t positions = n.pp * n.vpp;
    if (f.model.layers && *f.model.layers % positions != 0) {
      if (*f.model.layers < positions) {
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

Json WorkloadOf(const RecordFacts& f, const Numbers& n, const ModelReading* named,
                std::string* skip) {
  Json workload = Json::Object();
  workload.Set("task", "train");
  workload.Set("global_batch_size", n.global_batch);
  std::int64_t text = *f.model.sequence;
  const auto picture = [&](std::int64_t width, std::int64_t height) {
    Json image = Json::Object();
    image.Set("width", width);
    image.Set("height", height);
    image.Set("count", std::int64_t{1});
    workload.Set("images", Json::Array({std::move(image)}));
  };
  if (f.model.TwoTowers()) picture(f.model.vision_tower->image, f.model.vision_tower->image);
  if (named != nullptr && named->image_width > 0) {
    text -= named->visual_tokens;
    if (text < 1) {
      *skip = "the sample is shorter than its image";
      return {};
    }
    picture(named->image_width, named->image_height);
  }
  workload.Set("text_tokens", text);
  return workload;
}

// Shapes of GPT-like models that a table does not print: the source's habit.
void FillShape(const SourceReading& reading, RecordFacts* f, std::vector<std::string>* assumed) {
  ModelFacts& m = f->model;
  if (m.gated.value_or(true)) return;
  std::string filled;
  const auto fill = [&](std::optional<bool>* where, const std::optional<bool>& habit,
                        const char* name) {
    if (where->has_value() || !habit) return;
    *where = *habit;
    filled += std::string(filled.empty() ? "" : ", ") + (*habit ? "" : "no ") + name;
  };
  fill(&m.biased, reading.biased, "biases");
  fill(&m.tied, reading.tied, "tied head");
  fill(&m.layer_norm, reading.layer_norm, "LayerNorm");
  if (!m.positions && reading.positions) {
    m.positions = *reading.positions ? m.sequence.value_or(0) : 0;
    filled += std::string(filled.empty() ? "" : ", ") +
              (*reading.positions ? "learned positions" : "no learned positions");
  }
  if (!filled.empty()) AddNote(assumed, "shape of the model not told in full: " + filled);
}

// Named models bring the dimensions that the record leaves out.
void FillDimensions(const ModelReading& named, ModelFacts* m) {
  ModelFacts filled = named.facts;
  filled.name = m->name;
  filled.sequence = m->sequence;
  filled.parameters = m->parameters;
  filled.vision = m->vision;
  if (m->layers) filled.layers = m->layers;  // "cut to 4 layers"
  *m = filled;
}

// Whether a fact says anything about this record: an assumption that does not is not listed.
bool Matters(const std::string& fact, const RecordFacts& facts) {
  const std::string task = Lower(facts.task);
  if (fact.starts_with("adapter_") || fact == "dropout" || fact == "trains_embeddings")
    return Contains(task, "lora") || Contains(task, "dora");
  if (fact == "sequence_parallel" || fact == "tensor_parallel_overlap")
    return facts.plan.tp.value_or(1) > 1;
  return true;
}

struct Built {
  Json scenario;
  Numbers numbers;
};

// The scenario of facts in which everything needed is told.
Built Build(const RecordFacts& f, const SourceReading& reading, const PublishedSources& sources,
            const ModelReading* named, const Translation& names, std::vector<std::string>* assumed,
            std::string* skip) {
  Built built;
  *skip = Count(f, &built.numbers, assumed);
  if (!skip->empty()) return built;
  if (!f.model.sequence) {
    *skip = "sequence length not told";
    return built;
  }
  Json plan = PlanOf(f, sources, built.numbers, named, assumed, skip);
  if (!skip->empty()) return built;
  Json workload = WorkloadOf(f, built.numbers, named, skip);
  if (!skip->empty()) return built;
  Json& s = built.scenario = Json::Object();
  s.Set("schema", "aurum.scenario/1");
  s.Set("name", f.id);
  s.Set("model", names.model_name);
  s.Set("cluster", names.cluster_name);
  s.Set("stack", reading.stack);
  s.Set("workload", std::move(workload));
  s.Set("plan", std::move(plan));
  return built;
}

// All combinations of the end values of facts that the record does not tell.
std::vector<RecordFacts> EndFacts(const RecordFacts& told, const SourceReading& reading) {
  std::vector<RecordFacts> combinations = {told};
  bool any = false;
  for (const Ends& ends : reading.ends) {
    std::vector<RecordFacts> next;
    for (const RecordFacts& base : combinations) {
      for (const Json& value : ends.values) {
        RecordFacts changed = base;
        if (!SetFact(ends.fact, value, &changed)) continue;
        next.push_back(std::move(changed));
      }
    }
    if (next.empty() || next.size() > kMostEnds) continue;
    combinations = std::move(next);
    any = true;
  }
  return any ? combinations : std::vector<RecordFacts>{};
}

}  // namespace

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

Translation ToScenario(const RecordFacts& facts, const PublishedSources& sources,
                       const std::string& data_root) {
  Translation out;
  out.skip = facts.not_simulated;
  if (!out.skip.empty()) return out;
  if (!facts.flags.empty()) {
    out.skip = "flagged: " + facts.flags.front();
    return out;
  }
  const SourceReading* reading = sources.FindSource(facts);
  if (reading == nullptr) {
    out.skip = "source '" + facts.source + "' is not described in sources.json";
    return out;
  }
  out.skip = reading->skip;
  out.skip_time = reading->skip_time;
  out.skip_memory = reading->skip_memory;
  if (!out.skip.empty()) return out;
  if (!out.skip_time.empty() && !out.skip_memory.empty()) {
    out.skip = out.skip_time;
    return out;
  }
  out.level = reading->level;
  out.rank = reading->rank;
  out.memory_unit_bytes = reading->memory_unit_bytes;
  out.time_of_micro_batch = reading->time_of_micro_batch;

  RecordFacts told = facts;
  const ModelReading* named = nullptr;
  const bool shaped = told.model.layers && told.model.hidden && told.model.heads;
  if (!shaped || told.model.vision) {
    named =
        sources.FindModel(told.model.reference.empty() ? told.model.name : told.model.reference);
    if (named == nullptr && !shaped) {
      out.skip = "model dimensions not told, and '" + told.model.name + "' is not a known model";
      return out;
    }
    if (named == nullptr || (told.model.vision && named->catalogue.empty())) {
      out.skip = "multimodal model without its encoder's dimensions";
      return out;
    }
  }
  if (told.multimodal && !told.model.joint_sequence && !told.model.TwoTowers() &&
      (named == nullptr || named->image_width == 0)) {
    // Packed samples fill the backbone whatever their media are; a frozen tower keeps no activations.
    if (named == nullptr || named->catalogue.empty() || told.plan.frozen.empty()) {
      out.skip = "what the samples' media are is not told";
      return out;
    }
    if (out.skip_time.empty()) out.skip_time = "what the samples' media are is not told";
    AddNote(&out.assumed, "media of the packed samples not told: the frozen encoder is idle");
  }
  if (told.model.encoder_only && named == nullptr) {
    out.skip = "not a language model: its blocks are not told as dimensions";
    return out;
  }
  if (named != nullptr && named->catalogue.empty()) FillDimensions(*named, &told.model);

  RecordFacts filled = told;
  for (const Assumption& assumption : reading->assume) {
    if (!SetFact(assumption.fact, assumption.value, &filled)) continue;
    if (!Matters(assumption.fact, told)) continue;
    std::string fact = assumption.fact;
    std::replace(fact.begin(), fact.end(), '_', ' ');
    AddNote(&out.assumed,
            fact + " not told: " + Show(assumption.value) + " (" + assumption.why + ")");
  }
  FillShape(*reading, &filled, &out.assumed);
  if (told.model.joint_sequence) {
    AddNote(&out.assumed,
            "diffusion transformer: blocks over the joint sequence of text and latents, "
            "encoders and latents precomputed");
  }

  const GpuReading* gpu = sources.FindGpu(filled.hardware.gpu);
  if (gpu == nullptr) {
    out.skip = "GPU '" + filled.hardware.gpu + "' is not described in sources.json";
    return out;
  }
  if (out.skip_time.empty()) out.skip_time = gpu->no_time;
  const auto cluster = ClusterDocument(filled.hardware, *gpu, data_root, &out.assumed, &out.skip);
  if (!cluster) return out;
  out.cluster = *cluster;
  out.cluster_name = cluster->Find("name")->AsString();
  if (named != nullptr && !named->catalogue.empty()) {
    out.model_name = named->catalogue;
  } else {
    out.model = ModelDocument(filled.model, &out.skip);
    if (!out.skip.empty()) return out;
    out.model_name =
        filled.model.name + " as told, " + HashText(out.model.Dump()).Hex().substr(0, 8);
  }

  const Built nominal = Build(filled, *reading, sources, named, out, &out.assumed, &out.skip);
  if (!out.skip.empty()) return out;
  out.scenario = nominal.scenario;
  out.samples_per_step = static_cast<double>(nominal.numbers.global_batch);
  out.tokens_per_sample = static_cast<double>(*filled.model.sequence);
  out.gpus = static_cast<double>(*filled.hardware.gpus);
  out.micro_batches = nominal.numbers.global_batch /
                      std::max<std::int64_t>(1, nominal.numbers.dp * nominal.numbers.micro_batch);

  for (RecordFacts& end : EndFacts(told, *reading)) {
    std::vector<std::string> ignored;
    std::string reason;
    for (const Assumption& assumption : reading->assume)
      SetFact(assumption.fact, assumption.value, &end);
    FillShape(*reading, &end, &ignored);
    Built built = Build(end, *reading, sources, named, out, &ignored, &reason);
    if (!reason.empty() || built.scenario.Dump() == out.scenario.Dump()) continue;
    out.ends.push_back(std::move(built.scenario));
  }
  return out;
}

}  // namespace aurum
