#include "sim/study/published/to_scenario.h"

#include <algorithm>
#include <numeric>
#include <utility>

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
  PlanNumbers numbers;
};

// The scenario of facts in which everything needed is told.
Built Build(const RecordFacts& f, const SourceReading& reading, const PublishedSources& sources,
            const ModelReading* named, const Translation& names, std::vector<std::string>* assumed,
            std::string* skip) {
  Built built;
  *skip = CountPlan(f, &built.numbers, assumed);
  if (!skip->empty()) return built;
  if (!f.model.sequence) {
    *skip = "sequence length not told";
    return built;
  }
  Json plan = PlanDocument(f, sources, built.numbers, named, assumed, skip);
  if (!skip->empty()) return built;
  Json workload = WorkloadDocument(f, built.numbers, named, skip);
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
