#include "sim/study/published/to_scenario.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/reader.h"
#include "sim/core/hash.h"
#include "sim/study/published/fields.h"
#include "sim/study/published/plan_document.h"

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

std::string Show(const Json& value) { return value.IsString() ? value.AsString() : value.Dump(); }

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
  const ModelFacts& known = named.facts;
  if (!m->layers) m->layers = known.layers;  // a told number may be fewer: "cut to 4 layers"
  m->hidden = known.hidden;
  m->heads = known.heads;
  m->kv_heads = known.kv_heads;
  m->head_dim = known.head_dim;
  m->intermediate = known.intermediate;
  m->vocabulary = known.vocabulary;
  m->gated = known.gated;
  m->tied = known.tied;
  m->biased = known.biased;
  m->layer_norm = known.layer_norm;
  m->positions = known.positions;
  m->moe = known.moe;
  m->window = known.window;
  m->encoder_only = false;
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

// What the flags of a record spoil.
void ReadFlags(const RecordFacts& facts, const PublishedSources& sources, Translation* out) {
  for (const std::string& flag : facts.flags) {
    const FlagReading* reading = sources.FindFlag(flag);
    const auto spoils = reading == nullptr ? FlagReading::Spoils::kEverything : reading->spoils;
    std::string reason = "flagged: " + flag;
    if (reading != nullptr && !reading->why.empty()) reason += " (" + reading->why + ")";
    if (spoils == FlagReading::Spoils::kEverything && out->skip.empty()) out->skip = reason;
    if (spoils == FlagReading::Spoils::kTime && out->skip_time.empty()) out->skip_time = reason;
    if (spoils == FlagReading::Spoils::kMemory && out->skip_memory.empty())
      out->skip_memory = reason;
  }
}

// Assumptions of a source, where the record is silent and the fact does not follow from others.
void Assume(const SourceReading& reading, const RecordFacts& told, RecordFacts* filled,
            std::vector<std::string>* notes) {
  for (const Assumption& assumption : reading.assume) {
    if (assumption.fact == "micro_batch" && told.plan.global_batch && told.plan.accumulation)
      continue;
    if (!SetFact(assumption.fact, assumption.value, filled)) continue;
    if (notes == nullptr || !Matters(assumption.fact, told)) continue;
    std::string fact = assumption.fact;
    std::replace(fact.begin(), fact.end(), '_', ' ');
    AddNote(notes, fact + " not told: " + Show(assumption.value) + " (" + assumption.why + ")");
  }
}

MemoryLevel LevelOf(const RecordFacts& facts, const SourceReading& reading) {
  if (reading.source != "*" || facts.memory_counts.empty()) return reading.level;
  if (facts.memory_counts == "allocated") return MemoryLevel::kAllocated;
  return facts.memory_counts == "reserved" ? MemoryLevel::kReserved : MemoryLevel::kDevice;
}

struct Built {
  Json scenario;
  PlanNumbers numbers;
};

// The scenario of facts in which everything needed is told.
Built Build(const RecordFacts& f, const SourceReading& reading, const PublishedSources& sources,
            const MediaFacts& media, const std::vector<std::string>& modules,
            const Translation& names, std::vector<std::string>* assumed, std::string* skip) {
  Built built;
  *skip = CountPlan(f, &built.numbers, assumed);
  if (!skip->empty()) return built;
  if (!f.model.sequence) {
    *skip = "sequence length not told";
    return built;
  }
  Json plan = PlanDocument(f, sources, built.numbers, modules, assumed, skip);
  if (!skip->empty()) return built;
  Json workload = WorkloadDocument(f, built.numbers, media, skip);
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

Translation ToScenario(const RecordFacts& facts, const PublishedSources& sources,
                       const std::string& data_root) {
  Translation out;
  out.skip = facts.not_simulated;
  if (out.skip.empty()) ReadFlags(facts, sources, &out);
  if (!out.skip.empty()) return out;
  const SourceReading* reading = sources.FindSource(facts);
  if (reading == nullptr) {
    out.skip = "source '" + facts.source + "' is not described in sources.json";
    return out;
  }
  out.skip = reading->skip;
  if (out.skip_time.empty()) out.skip_time = reading->skip_time;
  if (out.skip_memory.empty()) out.skip_memory = reading->skip_memory;
  if (out.skip.empty()) out.skip = KindNotSimulated(facts);
  if (!out.skip.empty()) return out;
  if (out.skip_time.empty() && facts.model.sequence_is_limit)
    out.skip_time = "samples of natural length: their mean is not told";
  if (!out.skip_time.empty() && !out.skip_memory.empty()) {
    out.skip = out.skip_time;
    return out;
  }
  out.level = LevelOf(facts, *reading);
  out.rank = reading->rank;
  out.memory_unit_bytes = reading->memory_unit_bytes;
  out.time_of_micro_batch = reading->time_of_micro_batch;
  if (reading->source == "*") {
    AddNote(&out.assumed, "source '" + facts.source + "' is not described: read by its words as " +
                              reading->stack);
  }

  RecordFacts told = facts;
  const ModelReading* named = nullptr;
  const bool shaped =
      (told.model.layers && told.model.hidden && told.model.heads) || told.model.TwoTowers();
  const bool pictures = told.model.vision && !told.model.TwoTowers();
  if (!shaped || pictures) {
    if (!told.model.reference.empty()) named = sources.FindModel(told.model.reference);
    if (named == nullptr) named = sources.FindModel(told.model.name);
    if (named == nullptr && !shaped) {
      out.skip = "model dimensions not told, and '" + told.model.name + "' is not a known model";
      return out;
    }
  }
  if (told.model.encoder_only && named == nullptr) {
    out.skip = "not a language model: its blocks are not told as dimensions";
    return out;
  }
  if (named != nullptr && named->catalogue.empty()) FillDimensions(*named, &told.model);
  const bool catalogued = named != nullptr && !named->catalogue.empty();

  RecordFacts filled = told;
  Assume(*reading, told, &filled, &out.assumed);
  FillShape(*reading, &filled, &out.assumed);
  if (told.model.joint_sequence) {
    AddNote(&out.assumed,
            "diffusion transformer: blocks over the joint sequence of text and latents, "
            "encoders and latents precomputed");
  }

  const GpuReading* gpu = sources.FindGpu(filled.hardware.gpu);
  const std::string plain_gpu = PlainGpuName(filled.hardware.gpu);
  if (plain_gpu.empty() || plain_gpu.starts_with("not told")) {
    out.skip = "the GPU is not told";
    return out;
  }
  if (gpu == nullptr) {
    out.skip = "GPU '" + filled.hardware.gpu + "' is not described in sources.json";
    return out;
  }
  if (out.skip_time.empty()) out.skip_time = gpu->no_time;
  if (out.skip_time.empty() && !gpu->profiles.empty() && ProfileOf(*gpu, data_root).empty())
    out.skip_time = "no kernel measurements of this GPU";
  const auto cluster = ClusterDocument(filled.hardware, *gpu, data_root, &out.assumed, &out.skip);
  if (!cluster) return out;
  out.cluster = *cluster;
  out.cluster_name = cluster->Find("name")->AsString();

  // The model, and what of it a plan may freeze.
  std::optional<Model> model;
  if (catalogued) {
    out.model_name = named->catalogue;
    model = ReadModel(OpenModel(named->catalogue, data_root));
    filled.model.layers = model->Backbone().Layers();
  } else {
    out.model = ModelDocument(filled.model, &out.skip);
    if (!out.skip.empty()) return out;
    if (pictures) {
      if (!AddEncoder(filled.model, &out.model)) {
        out.skip = "multimodal model without its encoder's dimensions";
        return out;
      }
      AddNote(&out.assumed, "projector not told: two matrices, as LLaVA-1.5's");
    }
    out.model_name =
        filled.model.name + " as told, " + HashText(out.model.Dump()).Hex().substr(0, 8);
    if (pictures || told.model.TwoTowers())
      model = ReadModel(ParseJson(out.model.Dump(), "model of " + facts.id));
  }
  std::vector<std::string> modules;
  if (!model) modules.emplace_back("backbone");
  if (model)
    for (const Module& module : model->modules) modules.push_back(module.name);
  if (modules.size() > 1 && filled.plan.frozen.empty() && Matters("adapter_rank", filled)) {
    told.plan.frozen = filled.plan.frozen = "vision,connector";
    AddNote(&out.assumed,
            "frozen modules not told: encoder and connector; adapters of them are "
            "not simulated");
  }

  MediaReading media;
  if (facts.multimodal && !told.model.joint_sequence) {
    if (modules.size() < 2) {
      out.skip = "what the samples' media are is not told";
      return out;
    }
    media = ReadMedia(filled, named, *model);
    if (!media.assumed.empty()) AddNote(&out.assumed, media.assumed);
    if (out.skip_time.empty()) out.skip_time = media.skip_time;
  }

  const Built nominal =
      Build(filled, *reading, sources, media.nominal, modules, out, &out.assumed, &out.skip);
  if (!out.skip.empty()) return out;
  out.scenario = nominal.scenario;
  out.samples_per_step = static_cast<double>(nominal.numbers.global_batch);
  out.tokens_per_sample = static_cast<double>(*filled.model.sequence);
  out.gpus = static_cast<double>(*filled.hardware.gpus);
  out.micro_batches = nominal.numbers.global_batch /
                      std::max<std::int64_t>(1, nominal.numbers.dp * nominal.numbers.micro_batch);

  const auto end = [&](const RecordFacts& f, const SourceReading& read,
                       const MediaFacts& pictures_of_end) {
    std::vector<std::string> ignored;
    std::string reason;
    Built built = Build(f, read, sources, pictures_of_end, modules, out, &ignored, &reason);
    if (!reason.empty()) return;
    const auto same = [&](const Json& other) { return other.Dump() == built.scenario.Dump(); };
    if (same(out.scenario) || std::any_of(out.ends.begin(), out.ends.end(), same)) return;
    out.ends.push_back(std::move(built.scenario));
  };
  for (RecordFacts& changed : EndFacts(told, *reading)) {
    Assume(*reading, told, &changed, nullptr);
    std::vector<std::string> ignored;
    FillShape(*reading, &changed, &ignored);
    changed.model.layers = filled.model.layers;
    // Another attention kernel is another stack.
    const SourceReading* read = sources.FindSource(changed);
    end(changed, read == nullptr || !read->skip.empty() ? *reading : *read, media.nominal);
  }
  for (const MediaFacts& pictures_of_end : media.ends) end(filled, *reading, pictures_of_end);
  return out;
}

}  // namespace aurum
