#include "sim/study/published/sources.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <variant>

#include "sim/core/diagnostic.h"
#include "sim/study/published/fields.h"

namespace aurum {
namespace {

using WholeFact = std::optional<std::int64_t> PlanFacts::*;
using RealFact = std::optional<double> PlanFacts::*;
using BoolFact = std::optional<bool> PlanFacts::*;
using TextFact = std::string PlanFacts::*;

struct Fact {
  const char* name;
  std::variant<WholeFact, RealFact, BoolFact, TextFact> where;
};
const std::array kFacts = {
    Fact{"tp", &PlanFacts::tp},
    Fact{"pp", &PlanFacts::pp},
    Fact{"vpp", &PlanFacts::vpp},
    Fact{"cp", &PlanFacts::cp},
    Fact{"ep", &PlanFacts::ep},
    Fact{"expert_tp", &PlanFacts::expert_tp},
    Fact{"zero", &PlanFacts::zero},
    Fact{"micro_batch", &PlanFacts::micro_batch},
    Fact{"global_batch", &PlanFacts::global_batch},
    Fact{"accumulation", &PlanFacts::accumulation},
    Fact{"adapter_rank", &PlanFacts::adapter_rank},
    Fact{"sequence_parallel", &PlanFacts::sequence_parallel},
    Fact{"tensor_parallel_overlap", &PlanFacts::tensor_parallel_overlap},
    Fact{"gather_overlap", &PlanFacts::gather_overlap},
    Fact{"dropout", &PlanFacts::dropout},
    Fact{"trains_embeddings", &PlanFacts::trains_embeddings},
    Fact{"reshard_after_forward", &PlanFacts::reshard_after_forward},
    Fact{"expert_imbalance", &PlanFacts::expert_imbalance},
    Fact{"offload_activations", &PlanFacts::offload_activations},
    Fact{"offload_optimizer", &PlanFacts::offload_optimizer},
    Fact{"offload_parameters", &PlanFacts::offload_parameters},
    Fact{"schedule", &PlanFacts::schedule},
    Fact{"recompute", &PlanFacts::recompute},
    Fact{"attention", &PlanFacts::attention},
    Fact{"loss", &PlanFacts::loss},
    Fact{"optimizer", &PlanFacts::optimizer},
    Fact{"adapter_targets", &PlanFacts::adapter_targets},
    Fact{"frozen", &PlanFacts::frozen},
};

template <typename T>
bool SetOptional(std::optional<T>* where, T value) {
  if (where->has_value()) return false;
  *where = value;
  return true;
}

bool SetText(std::string* where, const std::string& value) {
  if (!where->empty()) return false;
  *where = value;
  return true;
}

[[noreturn]] void FailFact(const std::string& fact, const std::string& kind) {
  ThrowInput(863,
             kind.empty() ? "'" + fact + "' is not a fact that a source may assume"
                          : "the fact '" + fact + "' is " + kind,
             "calibrate/published/sources.json; the facts are listed in docs/schema");
}

double AsRealFact(const std::string& fact, const Json& value) {
  if (!value.IsNumber()) FailFact(fact, "a number");
  return value.AsNumber();
}

std::int64_t AsWholeFact(const std::string& fact, const Json& value) {
  if (!value.IsInteger()) FailFact(fact, "a whole number");
  return value.AsInteger();
}

const std::string& AsTextFact(const std::string& fact, const Json& value) {
  if (!value.IsString()) FailFact(fact, "text");
  return value.AsString();
}

}  // namespace

std::string_view MemoryLevelName(MemoryLevel level) {
  static constexpr std::array<std::string_view, 3> kNames = {"allocated", "reserved", "device"};
  return kNames[static_cast<std::size_t>(level)];
}

bool SetFact(const std::string& fact, const Json& value, RecordFacts* facts) {
  if (fact == "sequence") return SetOptional(&facts->model.sequence, AsWholeFact(fact, value));
  if (fact == "gpus") return SetOptional(&facts->hardware.gpus, AsWholeFact(fact, value));
  if (fact == "gpus_per_node")
    return SetOptional(&facts->hardware.gpus_per_node, AsWholeFact(fact, value));
  if (fact == "precision") return SetText(&facts->precision, AsTextFact(fact, value));
  if (fact == "internode") return SetText(&facts->hardware.internode, AsTextFact(fact, value));
  if (fact == "first_dense_layers") {
    if (!facts->model.moe) return false;
    return SetOptional(&facts->model.moe->first_dense_layers, AsWholeFact(fact, value));
  }
  for (const Fact& known : kFacts) {
    if (fact != known.name) continue;
    if (const auto* whole = std::get_if<WholeFact>(&known.where))
      return SetOptional(&(facts->plan.**whole), AsWholeFact(fact, value));
    if (const auto* real = std::get_if<RealFact>(&known.where))
      return SetOptional(&(facts->plan.**real), AsRealFact(fact, value));
    if (const auto* boolean = std::get_if<BoolFact>(&known.where)) {
      if (!value.IsBool()) FailFact(fact, "true or false");
      return SetOptional(&(facts->plan.**boolean), value.AsBool());
    }
    return SetText(&(facts->plan.*std::get<TextFact>(known.where)), AsTextFact(fact, value));
  }
  FailFact(fact, "");
}

namespace {

bool ContainsAnyOf(const std::string& text, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return Contains(text, part); });
}

bool Sharded(const PlanFacts& plan) {
  const std::string printed = Lower(plan.sharding);
  return plan.zero.value_or(0) >= 2 ||
         (!printed.empty() && !printed.starts_with("no") && printed != "/" && printed != "false");
}

}  // namespace

bool SourceReading::Matches(const RecordFacts& facts) const {
  if (source != "*" && source != facts.source) return false;
  if (!facts.id.starts_with(id_prefix)) return false;
  if (!id_contains.empty() && !Contains(facts.id, id_contains)) return false;
  if (!task_contains.empty() && !Contains(Lower(facts.task), task_contains)) return false;
  if (!attention.empty() && attention != facts.plan.attention) return false;
  if (!loss.empty() && loss != facts.plan.loss) return false;
  if (single_gpu && *single_gpu != (facts.hardware.gpus == 1)) return false;
  if (dropout && dropout != facts.plan.dropout) return false;
  if (sharded && *sharded != Sharded(facts.plan)) return false;
  if (model_parallel &&
      *model_parallel != (facts.plan.tp.value_or(1) > 1 || facts.plan.pp.value_or(1) > 1))
    return false;
  if (!gpu_contains.empty() && !ContainsAnyOf(Lower(facts.hardware.gpu), gpu_contains))
    return false;
  if (!text_contains.empty() &&
      !ContainsAnyOf(Lower(facts.source + "; " + facts.precision + "; " + facts.software + "; " +
                           facts.framework + "; " + facts.citation + "; " + facts.notes),
                     text_contains))
    return false;
  if (version_from > 0 && facts.version.value_or(0) < version_from) return false;
  if (version_to > 0 && (!facts.version || *facts.version > version_to)) return false;
  return true;
}

const SourceReading* PublishedSources::FindSource(const RecordFacts& facts) const {
  for (const SourceReading& reading : sources)
    if (reading.Matches(facts)) return &reading;
  return nullptr;
}

const FlagReading* PublishedSources::FindFlag(std::string_view printed) const {
  const std::string flag = Lower(std::string(printed));
  const FlagReading* best = nullptr;
  for (const FlagReading& reading : flags) {
    if (!Contains(flag, reading.contains)) continue;
    if (best == nullptr || reading.contains.size() > best->contains.size()) best = &reading;
  }
  return best;
}

std::string PlainGpuName(std::string_view printed) {
  std::string out;
  char before = ' ';
  for (const char c : Lower(std::string(printed))) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    const char kept = letter || digit ? c : ' ';
    if (kept == ' ' && before == ' ') continue;
    out += before = kept;
    for (const std::string_view word : {"nvidia ", "geforce ", "tesla "})
      if (out == word) out.clear(), before = ' ';
    if (out == "rtx" && kept == 'x') out += before = ' ';  // "RTX4090"
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

const GpuReading* PublishedSources::FindGpu(std::string_view printed) const {
  const std::string name = PlainGpuName(printed);
  const GpuReading* best = nullptr;
  std::size_t length = 0;
  for (const GpuReading& gpu : gpus) {
    for (const std::string& prefix : gpu.prefixes) {
      if (prefix.size() <= length || !name.starts_with(prefix)) continue;
      if (name.size() > prefix.size() && name[prefix.size()] != ' ') continue;
      best = &gpu;
      length = prefix.size();
    }
  }
  return best;
}

std::string PlainModelName(std::string_view printed) {
  std::string name = Lower(std::string(printed));
  for (char& c : name)
    if (c == ' ' || c == '_') c = '-';
  return name;
}

const ModelReading* PublishedSources::FindModel(std::string_view printed) const {
  const std::string name = PlainModelName(printed);
  const ModelReading* best = nullptr;
  std::size_t length = 0;
  for (const ModelReading& model : models) {
    for (const std::string& part : model.names) {
      if (part.size() <= length || !Contains(name, part)) continue;
      best = &model;
      length = part.size();
    }
  }
  return best;
}

}  // namespace aurum
