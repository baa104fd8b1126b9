#include "sim/plan/scenario.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/prune.h"
#include "models/reader.h"
#include "sim/core/hash.h"
#include "sim/core/object_reader.h"
#include "sim/plan/pools.h"
#include "sim/plan/uneven.h"
#include "sim/plan/what_if.h"
#include "sim/workload/changed_load.h"

namespace aurum {

template <typename T, typename Open, typename Read>
InputCache::Entry<T> InputCache::Get(std::unordered_map<std::string, Entry<T>>* known,
                                     const std::string& name, Open open, Read read) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known->find(name); found != known->end()) return found->second;
  }
  // Read outside of the lock: two threads may both read, and agree.
  const JsonDocument document = open(name, data_root_);
  Entry<T> entry{std::make_shared<const T>(read(document)), HashText(document.root.Dump()).Hex()};
  const std::lock_guard lock(mutex_);
  return known->emplace(name, std::move(entry)).first->second;
}

template <typename T, typename Read>
void InputCache::Add(std::unordered_map<std::string, Entry<T>>* known, const std::string& name,
                     const JsonDocument& document, Read read) {
  {
    const std::lock_guard lock(mutex_);
    if (known->contains(name)) return;
  }
  Entry<T> entry{std::make_shared<const T>(read(document)), HashText(document.root.Dump()).Hex()};
  const std::lock_guard lock(mutex_);
  known->emplace(name, std::move(entry));
}

InputCache::Entry<Model> InputCache::GetModel(const std::string& name) {
  return Get<Model>(&models_, name, OpenModel, ReadModel);
}
InputCache::Entry<Cluster> InputCache::GetCluster(const std::string& name) {
  return Get<Cluster>(&clusters_, name, OpenCluster, ReadCluster);
}
InputCache::Entry<Profile> InputCache::GetProfile(const std::string& name) {
  return Get<Profile>(&profiles_, name, OpenProfile, ReadProfile);
}
InputCache::Entry<Stack> InputCache::GetStack(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = stacks_.find(name);
    if (found != stacks_.end()) return found->second;
  }
  Stack stack = LoadStack(name, data_root_);
  // The hash covers what a base brings.
  const std::string hash = HashText(WriteStack(stack).Dump()).Hex();
  const std::lock_guard lock(mutex_);
  return stacks_.try_emplace(name, Entry<Stack>{std::make_shared<const Stack>(stack), hash})
      .first->second;
}

void InputCache::AddModel(const std::string& name, const JsonDocument& document) {
  Add<Model>(&models_, name, document, ReadModel);
}
void InputCache::AddCluster(const std::string& name, const JsonDocument& document) {
  Add<Cluster>(&clusters_, name, document, ReadCluster);
}
void InputCache::AddProfile(const std::string& name, const Profile& profile) {
  const std::string hash = HashText(WriteProfile(profile).Dump()).Hex();
  const std::lock_guard lock(mutex_);
  profiles_[name] = {std::make_shared<const Profile>(profile), hash};
}
void InputCache::AddStack(const std::string& name, const Stack& stack) {
  const std::string hash = HashText(WriteStack(stack).Dump()).Hex();
  const std::lock_guard lock(mutex_);
  stacks_[name] = {std::make_shared<const Stack>(stack), hash};
}

namespace {

// Softmax and its input, without dropout (Korthikanti et al. 2022).
constexpr double kUnfusedScoreBytes = 4;

// An error about a name gets the place where the scenario names it.
template <typename Action>
auto AtKey(const ObjectReader& reader, std::string_view key, Action action) {
  try {
    return action();
  } catch (const InputError& error) {
    const Diagnostic& d = error.diagnostic();
    if (!d.where.file.empty()) throw;  // the error lies inside of the named file
    reader.Fail(d.code, key, d.message, d.help, d.note, error.exit_code());
  }
}

// The stack with what the plan chooses of it: the attention kernel, the loss kernel.
std::shared_ptr<const Stack> StackOfPlan(const Scenario& s, const ObjectReader& plan) {
  const auto& kernels = s.stack->logit_bytes_of;
  if (!s.plan.loss.empty() && !kernels.contains(s.plan.loss)) {
    std::string known;
    for (const auto& [name, bytes] : kernels) known += (known.empty() ? "" : ", ") + name;
    plan.Fail(386, "loss", "stack '" + s.stack->name + "' has no loss kernel '" + s.plan.loss + "'",
              "loss kernels of this stack: " + known);
  }
  if (s.plan.attention == AttentionKernel::kStack) return s.stack;
  auto stack = std::make_shared<Stack>(*s.stack);
  stack->fused_attention = s.plan.attention != AttentionKernel::kUnfused;
  if (s.plan.attention == AttentionKernel::kUnfused && stack->score_bytes == 0)
    stack->score_bytes = kUnfusedScoreBytes;
  switch (s.plan.attention) {
    case AttentionKernel::kStack:
      break;
    case AttentionKernel::kUnfused:
      stack->attention_kernel = AttentionFamily::kUnfused;
      break;
    case AttentionKernel::kFlash1:
      stack->attention_kernel = AttentionFamily::kFlash1;
      break;
    case AttentionKernel::kFlash2:
      stack->attention_kernel = AttentionFamily::kFlash2;
      break;
    case AttentionKernel::kFlash3:
      stack->attention_kernel = AttentionFamily::kFlash3;
      break;
  }
  return stack;
}

// The model becomes a changed copy; the inputs say how.
PrunedModel Prune(const ObjectReader& reader, Scenario* s) {
  PrunedModel pruned =
      PruneModel(*s->model, reader, s->workload.task == Task::kTrain, &s->warnings);
  if (pruned.any_tokens && s->workload.Uneven()) {
    reader.Fail(654, "", "tokens are merged in samples that are all alike",
                "say one sample with text_tokens and images, or remove keep_tokens");
  }
  if (pruned.told.empty()) return pruned;
  s->model = std::make_shared<const Model>(pruned.model);
  s->inputs.push_back({"prune", pruned.told, HashText(reader.value().Dump()).Hex()});
  return pruned;
}

Budget ReadBudget(ObjectReader reader, bool has_target) {
  Budget budget;
  const auto number = [&](const char* key, std::optional<double>* to) {
    if (reader.Has(key)) *to = reader.Number(key, 1e-9, 1e15);
  };
  if (reader.Has("gpus")) budget.gpus = static_cast<int>(reader.Integer("gpus", 1, 100'000'000));
  number("device_gib", &budget.device_gib);
  number("hours", &budget.hours);
  number("energy_kwh", &budget.energy_kwh);
  number("step_s", &budget.step_s);
  for (const char* key : {"hours", "energy_kwh"}) {
    if (has_target || !reader.Has(key)) continue;
    reader.Fail(655, key,
                std::string("'") + key +
                    "' is of a whole training, and nothing says how "
                    "many steps that is",
                "target.steps, or step_s for a single step");
  }
  reader.Finish();
  return budget;
}

Prices ReadPrices(ObjectReader reader) {
  Prices prices;
  prices.currency = reader.String("currency", "USD");
  prices.gpu_hour = reader.Number("gpu_hour", 0, 1e9);
  prices.kwh = reader.NumberOr("kwh", 0, 0, 1e9);
  reader.Finish();
  return prices;
}

Target ReadTarget(ObjectReader reader) {
  Target target;
  target.steps = reader.Number("steps", 1e-3, 1e15);
  target.steps_factor = reader.NumberOr("steps_factor", 1, 1e-6, 1e6);
  reader.Finish();
  return target;
}

}  // namespace

double StepBand(const Scenario& scenario) {
  const Profile& profile = *scenario.profile;
  const bool measured =
      profile.provenance == Provenance::kMeasured || profile.provenance == Provenance::kCalibrated;
  // A stack whose band is of no fit adds nothing to what the profile says of itself.
  const bool bare = scenario.stack->time_band_share == 0;
  const double band =
      std::hypot(scenario.stack->time_band_share, measured && !bare ? 0 : profile.error_band);
  return std::min(band, 0.9);
}

WhatIf ReadWhatIf(ObjectReader* reader, const Scenario& scenario) {
  WhatIf w;
  if (reader->Has("flops_gflop_per_token"))
    w.flops_per_token = reader->Number("flops_gflop_per_token", 1e-3, 1e7) * 1e9;
  if (reader->Has("comm_bw_gb_per_s"))
    w.comm_bw_bytes_per_s = reader->Number("comm_bw_gb_per_s", 1e-3, 1e6) * 1e9;
  if (reader->Has("align_ratio")) w.align_ratio = reader->Number("align_ratio", 0, 1);
  w.nvlink_factor = reader->NumberOr("nvlink_factor", 1, 1e-3, 1e3);
  w.pcie_factor = reader->NumberOr("pcie_factor", 1, 1e-3, 1e3);
  w.network_factor = reader->NumberOr("network_factor", 1, 1e-3, 1e3);
  w.gemm_speedup = reader->NumberOr("gemm_speedup", 1, 1e-3, 1e6);
  w.attention_speedup = reader->NumberOr("attention_speedup", 1, 1e-3, 1e6);
  w.memory_speedup = reader->NumberOr("memory_speedup", 1, 1e-3, 1e6);
  const int gpus = scenario.cluster->GpuCount();
  if (w.comm_bw_bytes_per_s && gpus == 1) {
    reader->Fail(331, "comm_bw_gb_per_s", "one GPU has no one to communicate with",
                 "remove comm_bw_gb_per_s, or take a cluster with more GPUs", "",
                 ExitCode::kInfeasible);
  }
  if (w.align_ratio && *w.align_ratio < 1 && gpus == 1) {
    reader->Fail(330, "align_ratio", "on one GPU every token is produced where it is consumed",
                 "align_ratio = 1, or a cluster with more GPUs", "", ExitCode::kInfeasible);
  }
  if (w.align_ratio && *w.align_ratio < 1 && scenario.sample.cross_modal_tokens == 0) {
    reader->Fail(330, "align_ratio",
                 "this workload has no cross-modal tokens that could be misaligned",
                 "remove align_ratio, or add images", "", ExitCode::kInfeasible);
  }
  reader->Finish();
  return w;
}

Scenario ReadScenario(const JsonDocument& document, InputCache* cache) {
  ObjectReader reader(document, document.root, "");
  Scenario scenario;
  reader.Choice("schema", {"aurum.scenario/1"});
  scenario.name = reader.String("name", "");
  scenario.question = reader.String("question", "");
  reader.Ignore("sweep");
  reader.Ignore("search");
  reader.Ignore("phases");
  reader.String("$schema", "");  // an editor's, not ours

  const auto input = [&](const std::string& role, const std::string& name,
                         const std::string& hash) {
    scenario.inputs.push_back({role, name, hash});
  };
  const std::string model = reader.String("model");
  const auto model_entry = AtKey(reader, "model", [&] { return cache->GetModel(model); });
  scenario.model = model_entry.value;
  input("model", model, model_entry.hash);
  const std::string cluster = reader.String("cluster");
  const auto cluster_entry = AtKey(reader, "cluster", [&] { return cache->GetCluster(cluster); });
  scenario.cluster = cluster_entry.value;
  input("cluster", cluster, cluster_entry.hash);
  const std::string profile = reader.String("profile", scenario.cluster->gpu.profile);
  const auto profile_entry = AtKey(reader, reader.Has("profile") ? "profile" : "cluster",
                                   [&] { return cache->GetProfile(profile); });
  scenario.profile = profile_entry.value;
  if (const double watts = scenario.cluster->gpu.power_limit_w; watts > 0) {
    scenario.profile = AtKey(reader, "cluster", [&] {
      return std::make_shared<const Profile>(WithPowerLimit(*profile_entry.value, watts));
    });
  }
  input("profile", profile, profile_entry.hash);
  const std::string stack = reader.String("stack", "megatron-core");
  const auto stack_entry = AtKey(reader, "stack", [&] { return cache->GetStack(stack); });
  scenario.stack = stack_entry.value;
  input("stack", stack, stack_entry.hash);

  scenario.workload = ReadWorkload(reader.Object("workload"), cache->samples());
  std::optional<PrunedModel> pruned;
  if (auto prune = reader.ObjectIf("prune")) pruned = Prune(*prune, &scenario);
  scenario.sample = AtKey(reader, "workload", [&] {
    return LoadOfSample(*scenario.model, scenario.workload, &scenario.warnings);
  });
  if (pruned && pruned->any_tokens) {
    AtKey(reader, "prune",
          [&] { KeepMediaTokens(*scenario.model, pruned->modules, &scenario.sample); });
  }
  if (auto what_if = reader.ObjectIf("what_if")) {
    scenario.what_if = ReadWhatIf(&*what_if, scenario);
    const WhatIf& w = scenario.what_if;
    const auto idle_knob = [&](const char* key, double factor, bool matters, const char* why) {
      if (factor == 1 || matters) return;
      Diagnostic d;
      d.code = 1332;
      d.warning = true;
      d.message = std::string(key) + " changes nothing: " + why;
      d.help = "remove it, or take another cluster";
      d.where = document.Locate(*what_if->value().Find(key), what_if->pointer() + "/" + key);
      scenario.warnings.push_back(std::move(d));
    };
    idle_knob("network_factor", w.network_factor, scenario.cluster->nodes > 1,
              "the cluster is one node");
    idle_knob("nvlink_factor", w.nvlink_factor, scenario.cluster->HasNvLink(),
              "the cluster has no NVLink");
    if (w.nvlink_factor != 1 || w.pcie_factor != 1 || w.network_factor != 1) {
      scenario.cluster = std::make_shared<const Cluster>(
          scenario.cluster->WithScaledLinks(w.nvlink_factor, w.pcie_factor, w.network_factor));
    }
  }
  if (reader.Has("faults")) {
    scenario.faults = ReadFaults(reader.Objects("faults"), *scenario.cluster);
    if (!scenario.faults.link_factor.empty()) {
      scenario.cluster = std::make_shared<const Cluster>(
          scenario.cluster->WithLinkFactors(scenario.faults.link_factor));
    }
  }
  if (auto variation = reader.ObjectIf("variation")) scenario.variation = ReadVariation(*variation);
  if (auto goodput = reader.ObjectIf("goodput")) scenario.goodput = ReadGoodput(*goodput);
  if (auto target = reader.ObjectIf("target")) scenario.target = ReadTarget(*target);
  if (auto prices = reader.ObjectIf("prices")) scenario.prices = ReadPrices(*prices);
  if (auto budget = reader.ObjectIf("budget"))
    scenario.budget = ReadBudget(
        *budget, scenario.target.has_value() || reader.value().Find("phases") != nullptr);
  if (reader.Has("pools")) {
    scenario.pools = ReadPools(reader.Objects("pools"), *scenario.cluster, cache);
    for (const Pool& pool : scenario.pools)
      input("pool", pool.profile_name, cache->GetProfile(pool.profile_name).hash);
    if (scenario.workload.Uneven() || scenario.workload.task == Task::kGenerate) {
      reader.Fail(357, "pools",
                  scenario.workload.Uneven()
                      ? "samples that differ are simulated on devices that are all alike"
                      : "generation is simulated on devices that are all alike",
                  "remove pools, or the mixture; or task = train or forward", "",
                  ExitCode::kInfeasible);
    }
  }
  if (reader.Has("plan")) {
    scenario.plan = ReadPlan(reader.Object("plan"), *scenario.model, *scenario.cluster,
                             *scenario.profile, scenario.workload, &scenario.warnings);
    if (scenario.plan.rank_order != kDefaultRankOrder &&
        (!scenario.faults.gpu_slowdown.empty() || !scenario.pools.empty())) {
      reader.Object("plan").Fail(
          393, "rank_order",
          "faults and pools name GPUs, and a rank order moves the ranks among them",
          "remove rank_order, or the faults and pools", "", ExitCode::kInfeasible);
    }
    scenario.stack = StackOfPlan(scenario, reader.Object("plan"));
    const Adapter& adapter = scenario.plan.adapter;
    if (adapter.kind == AdapterKind::kPrompt)
      AddPromptTokens(*scenario.model, adapter.prompt_tokens, &scenario.sample);
    AtKey(reader, "workload", [&] { DrawData(&scenario); });
  } else {
    reader.Fail(102, "", "missing key 'plan'",
                "an empty plan {} is data-parallel over all GPUs with ZeRO-1");
  }
  reader.Finish();
  return scenario;
}

}  // namespace aurum
