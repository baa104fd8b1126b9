#include "sim/explain/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "sim/core/parallel.h"
#include "sim/study/fixes.h"

// Why simulate again instead of adding up seconds: a step is a maximum of sums. Ten percent off a collective
// that is hidden buys nothing until it is the longest chain, and ten percent off kernels may bring a hidden
// collective to light. The answer is of this size of change at this point, and is told as such.
//
// Elasticities of all resources sum to less than 1: the rest is what none of them speeds up (latencies,
// launches, the host, the loader). Cost: one simulation a line.
namespace aurum {
namespace {

struct Change {
  std::string path;  // dotted, in the scenario
  Json value;
};

constexpr double kNoLimit = 1000;  // times a link's rate

std::string SetWord(const Change& change) {
  return change.path + "=" +
         (change.value.IsString() ? change.value.AsString() : change.value.Dump());
}

// The document with all but the last change made, and that one left to EvaluateWith.
std::optional<Evaluation> EvaluateChanged(const JsonDocument& document,
                                          const std::vector<Change>& changes, InputCache* cache,
                                          Level level) {
  JsonDocument changed = document;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i)
    SetPath(&changed, changes[i].path, changes[i].value, "--set " + SetWord(changes[i]));
  return EvaluateWith(changed, changes.back().path, changes.back().value, cache, level);
}

Change Times(const std::string& key, double now, double factor) {
  return {"what_if." + key, Json(now * factor)};
}

// Whether some link of the kind is there to be made faster.
bool HasLinks(const Cluster& cluster, bool (*is)(LinkKind)) {
  return std::any_of(cluster.links().begin(), cluster.links().end(),
                     [&](const Link& link) { return is(link.kind); });
}

struct LinkKnob {
  const char* name;
  const char* key;
  double now;
};
std::vector<LinkKnob> LinkKnobs(const Scenario& s) {
  std::vector<LinkKnob> knobs;
  if (s.cluster->GpuCount() < 2) return knobs;
  if (s.cluster->nodes > 1)
    knobs.push_back({"network", "network_factor", s.what_if.network_factor});
  if (HasLinks(*s.cluster, [](LinkKind kind) { return IsGpuLink(kind); })) {
    const bool xgmi = HasLinks(*s.cluster, [](LinkKind kind) { return kind == LinkKind::kXgmi; });
    knobs.push_back({xgmi ? "xGMI" : "NVLink", "nvlink_factor", s.what_if.nvlink_factor});
  }
  if (HasLinks(*s.cluster, [](LinkKind kind) { return kind == LinkKind::kPcie; }))
    knobs.push_back({"PCIe", "pcie_factor", s.what_if.pcie_factor});
  return knobs;
}

struct Candidate {
  std::string name;
  std::vector<Change> changes;
  double factor = 1;
  bool resource = true;
};

std::vector<Candidate> Resources(const Scenario& s, double factor) {
  std::vector<Candidate> list;
  const WhatIf& now = s.what_if;
  const Change gemm = Times("gemm_speedup", now.gemm_speedup, factor);
  const Change attention = Times("attention_speedup", now.attention_speedup, factor);
  const Change memory = Times("memory_speedup", now.memory_speedup, factor);
  list.push_back({"device speed", {gemm, attention, memory}, factor});
  list.push_back({"matrix FLOP/s", {gemm}, factor});
  list.push_back({"attention FLOP/s", {attention}, factor});
  list.push_back({"HBM bandwidth", {memory}, factor});
  for (const LinkKnob& knob : LinkKnobs(s))
    list.push_back({knob.name, {Times(knob.key, knob.now, factor)}, factor});
  if (s.workload.loader && s.data_stall_s > 0) {
    const int workers = s.workload.loader->workers;
    list.push_back(
        {"loader workers " + std::to_string(workers) + " → " + std::to_string(2 * workers),
         {{"workload.loader.workers", Json(2 * workers)}},
         2});
  }
  return list;
}

std::string Arrow(const std::string& what, std::int64_t from, std::int64_t to) {
  return what + " " + std::to_string(from) + " → " + std::to_string(to);
}

std::vector<Candidate> Choices(const Scenario& s) {
  std::vector<Candidate> list;
  const std::int64_t batch = s.workload.global_batch_size;
  list.push_back({Arrow("batch", batch, 2 * batch),
                  {{"workload.global_batch_size", Json(2 * batch)}},
                  2,
                  false});
  const std::int64_t size = s.plan.micro_batch_size;
  const std::int64_t rows = size * s.plan.micro_batches;  // of a replica
  const auto add = [&](std::int64_t other) {
    if (other < 1 || rows % other != 0) return;
    list.push_back({Arrow("micro-batch", size, other),
                    {{"plan.micro_batch_size", Json(other)}},
                    static_cast<double>(other) / static_cast<double>(size),
                    false});
  };
  add(2 * size);
  if (size % 2 == 0) add(size / 2);
  return list;
}

double SamplesPerStep(const Evaluation& e) {
  return static_cast<double>(e.scenario.workload.global_batch_size);
}

}  // namespace

std::optional<SensitivityBase> BaseOf(const JsonDocument& document, InputCache* cache,
                                      Level level) {
  const Json* now = FindPath(document.root, "what_if.gemm_speedup");
  const auto e =
      EvaluateWith(document, "what_if.gemm_speedup", now != nullptr ? *now : Json(1), cache, level);
  if (!e) return std::nullopt;
  const double step = e->StepSeconds();
  return SensitivityBase{step, SamplesPerStep(*e) / step, TokensPerStep(e->scenario) / step};
}

std::vector<Sensitivity> MeasureSensitivities(const Evaluation& evaluation,
                                              const JsonDocument& document, InputCache* cache,
                                              const SensitivityOptions& options) {
  const auto base = BaseOf(document, cache, options.level);
  if (!base) return {};
  std::vector<Candidate> candidates = Resources(evaluation.scenario, options.factor);
  for (Candidate& choice : Choices(evaluation.scenario)) candidates.push_back(std::move(choice));
  std::vector<std::optional<Sensitivity>> found(candidates.size());
  InParallel(candidates.size(), options.jobs, [&](std::size_t, std::size_t i) {
    const Candidate& candidate = candidates[i];
    const auto e = EvaluateChanged(document, candidate.changes, cache, options.level);
    if (!e) return;
    Sensitivity s;
    s.name = candidate.name;
    for (const Change& change : candidate.changes) s.set.push_back(SetWord(change));
    s.factor = candidate.factor;
    s.resource = candidate.resource;
    s.step_s = e->StepSeconds();
    s.step_share = 1 - s.step_s / base->step_s;
    s.samples_per_s = SamplesPerStep(*e) / s.step_s;
    s.tokens_per_s = TokensPerStep(e->scenario) / s.step_s;
    s.throughput_share = s.tokens_per_s / base->tokens_per_s - 1;
    if (s.resource) s.elasticity = -std::log(s.step_s / base->step_s) / std::log(s.factor);
    s.peak_bytes = e->memory.Heaviest().peak_bytes;
    s.verdict = e->memory.verdict;
    found[i] = std::move(s);
  });
  std::vector<Sensitivity> out;
  for (std::optional<Sensitivity>& s : found) {
    if (s) out.push_back(std::move(*s));
  }
  std::stable_sort(out.begin(), out.end(), [](const Sensitivity& a, const Sensitivity& b) {
    if (a.resource != b.resource) return a.resource;
    return a.throughput_share > b.throughput_share;
  });
  return out;
}

std::vector<MicroBatchRow> MicroBatchLadder(const Evaluation& evaluation,
                                            const JsonDocument& document, InputCache* cache,
                                            const SensitivityOptions& options) {
  constexpr std::size_t kMostRows = 10;
  const Plan& plan = evaluation.scenario.plan;
  const std::int64_t rows = plan.micro_batch_size * plan.micro_batches;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= rows && sizes.size() + 1 < kMostRows; size *= 2) {
    if (rows % size == 0) sizes.push_back(size);
  }
  for (const std::int64_t size : {plan.micro_batch_size, rows}) {
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::optional<MicroBatchRow>> found(sizes.size());
  InParallel(sizes.size(), options.jobs, [&](std::size_t, std::size_t i) {
    const Change change{"plan.micro_batch_size", Json(sizes[i])};
    const auto e = EvaluateChanged(document, {change}, cache, options.level);
    if (!e) return;
    MicroBatchRow row;
    row.size = sizes[i];
    row.set = {SetWord(change)};
    row.as_told = sizes[i] == plan.micro_batch_size;
    row.step_s = e->StepSeconds();
    row.samples_per_s = SamplesPerStep(*e) / row.step_s;
    row.peak_bytes = e->memory.Heaviest().peak_bytes;
    row.verdict = e->memory.verdict;
    found[i] = std::move(row);
  });
  std::vector<MicroBatchRow> out;
  for (std::optional<MicroBatchRow>& row : found) {
    if (row) out.push_back(std::move(*row));
  }
  return out;
}

std::vector<Recipe> OtherRecipes(const Evaluation& evaluation, const JsonDocument& document,
                                 InputCache* cache, const SensitivityOptions& options) {
  const Scenario& s = evaluation.scenario;
  const std::size_t backbone = s.model->modules.size() - 1;
  if (s.workload.task != Task::kTrain || s.plan.adapter.kind != AdapterKind::kNone ||
      s.plan.modules[backbone].frozen)
    return {};
  constexpr int kRank = 16;
  std::vector<Recipe> out;
  for (const char* base : {"bf16", "nf4"}) {
    const bool quantised = std::string(base) != "bf16";
    Json adapter = Json::Object();
    adapter.Set("kind", "lora");
    adapter.Set("rank", kRank);
    if (quantised) adapter.Set("base", base);
    const Change change{"plan.adapter", std::move(adapter)};
    Recipe recipe;
    recipe.name = (quantised ? "QLoRA, rank " : "LoRA, rank ") + std::to_string(kRank);
    recipe.set = {SetWord(change)};
    JsonDocument changed = document;
    SetPath(&changed, change.path, change.value, "--set " + recipe.set.front());
    recipe.micro_batches = MicroBatchLadder(evaluation, changed, cache, options);
    if (!recipe.micro_batches.empty()) out.push_back(std::move(recipe));
  }
  return out;
}

std::vector<LinkLimit> MeasureLinkLimits(const Evaluation& evaluation, const JsonDocument& document,
                                         InputCache* cache, const SensitivityOptions& options) {
  const Cluster& cluster = *evaluation.scenario.cluster;
  const auto base = BaseOf(document, cache, options.level);
  if (!base || cluster.GpuCount() < 2) return {};
  struct Lifted {
    std::string name;
    std::vector<LinkKind> kinds;
  };
  std::vector<Lifted> lifted{{"all links", {}}};
  for (const LinkKind kind : {LinkKind::kNetwork, LinkKind::kNvLink, LinkKind::kXgmi,
                              LinkKind::kPcie, LinkKind::kInterSocket, LinkKind::kChipToChip}) {
    if (!std::any_of(cluster.links().begin(), cluster.links().end(),
                     [&](const Link& link) { return link.kind == kind; }))
      continue;
    lifted.front().kinds.push_back(kind);
    lifted.push_back({std::string(LinkKindName(kind)), {kind}});
  }
  if (lifted.size() == 2) lifted.pop_back();  // one kind is all
  std::vector<std::optional<LinkLimit>> found(lifted.size());
  InParallel(lifted.size(), options.jobs, [&](std::size_t, std::size_t i) {
    // There is no what-if factor for every kind of link, so the cluster itself is another.
    Scenario s = ReadScenario(document, cache);
    if (s.steps != nullptr && s.steps->size() > 1) {
      s.steps =
          std::make_shared<const std::vector<StepLoads>>(s.steps->begin(), s.steps->begin() + 1);
    }
    s.variation = {};
    s.goodput.reset();
    std::vector<double> factors;
    for (const Link& link : s.cluster->links()) {
      const std::vector<LinkKind>& kinds = lifted[i].kinds;
      const bool here = std::find(kinds.begin(), kinds.end(), link.kind) != kinds.end();
      factors.push_back(here ? kNoLimit : 1);
    }
    s.cluster = std::make_shared<const Cluster>(s.cluster->WithLinkFactors(factors));
    LinkLimit limit;
    limit.name = lifted[i].name;
    limit.step_s = Evaluate(std::move(s), options.level).StepSeconds();
    limit.step_share = 1 - limit.step_s / base->step_s;
    found[i] = std::move(limit);
  });
  std::vector<LinkLimit> out;
  for (std::optional<LinkLimit>& limit : found) {
    if (limit) out.push_back(std::move(*limit));
  }
  return out;
}

Fit FitWith(const MemoryReport& memory, double memory_factor) {
  const double usable = UsableBytes(memory.device_bytes * memory_factor);
  const double peak = memory.Heaviest().peak_bytes;
  if (peak > kFailsAbove * usable) return Fit::kDoesNotFit;
  return peak >= kFitsBelow * usable ? Fit::kAtRisk : Fit::kFits;
}

}  // namespace aurum
