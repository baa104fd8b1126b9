#include "sim/search/published_plans.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "sim/study/published/to_scenario.h"
#include "sim/study/published/validation.h"

namespace aurum {
namespace {

// Notes of a translation that say that model, cluster or batch are not told.
constexpr const char* kIncomplete[] = {"shape of the model not told", "network not told",
                                       "global batch not told",       "source '",
                                       "pictures of a sample",        "projector not told"};

bool Complete(const Translation& t) {
  return std::none_of(t.assumed.begin(), t.assumed.end(), [](const std::string& note) {
    return std::any_of(std::begin(kIncomplete), std::end(kIncomplete), [&](const char* part) {
      return note.compare(0, std::string(part).size(), part) == 0;
    });
  });
}

std::string Text(const char* format, double value) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Seconds(double s) { return Text(s < 10 ? "%.2f" : "%.1f", s); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::string InWords(const FoundPlan& plan) { return plan.plan + "; " + plan.recipe; }

}  // namespace

std::vector<PublishedPlan> CompletePlans(const std::vector<Record>& records,
                                         const PublishedSources& sources,
                                         const std::string& data_root, InputCache* cache) {
  std::vector<PublishedPlan> plans;
  std::map<std::string, std::size_t> known;  // by the scenario without its name
  for (const Record& record : records) {
    const Translation t = ToScenario(record.facts, sources, data_root);
    if (!t.skip.empty() || !t.skip_time.empty() || t.time_of_micro_batch || t.gpus < 2 ||
        !Complete(t))
      continue;
    const std::optional<double> measured = MeasuredStep(record.measured, t);
    if (!measured) continue;
    Json plain = t.scenario;
    plain.Set("name", "");
    // Models and clusters may be called the same and be others.
    const std::string key = plain.Dump() + t.model.Dump() + t.cluster.Dump();
    if (const auto found = known.find(key); found != known.end()) {
      plans[found->second].ids.push_back(record.facts.id);
      continue;
    }
    PublishedPlan plan;
    try {
      const auto add = [&](const Json& json, const std::string& name) {
        return ParseJson(json.Dump(2), name);
      };
      if (!t.model.IsNull()) cache->AddModel(t.model_name, add(t.model, t.model_name));
      if (!t.cluster.IsNull()) cache->AddCluster(t.cluster_name, add(t.cluster, t.cluster_name));
      plan.document = add(t.scenario, "scenario of " + record.facts.id);
      const Scenario s = ReadScenario(plan.document, cache);
      if (s.workload.task != Task::kTrain || s.workload.Uneven()) continue;
      plan.combinations = DefaultSpace(s).Combinations();
      plan.model = record.facts.model.name;
      plan.gpus = std::to_string(s.cluster->GpuCount()) + " " + record.facts.hardware.gpu;
      plan.sequence = static_cast<std::int64_t>(s.sample.backbone_tokens + 0.5);
      plan.batch = s.workload.global_batch_size;
    } catch (const InputError&) {
      continue;  // not simulated: `aurum validate --published` says why
    }
    plan.ids = {record.facts.id};
    plan.source = record.facts.source;
    plan.measured_s = *measured;
    known.emplace(key, plans.size());
    plans.push_back(std::move(plan));
  }
  return plans;
}

PlanRank RankOf(const PublishedPlan& published, InputCache* cache, std::size_t kept, int jobs) {
  PlanRank rank;
  try {
    const Scenario scenario = ReadScenario(published.document, cache);
    const PlanSpace space = DefaultSpace(scenario);
    rank.combinations = space.Combinations();
    SearchOptions options;
    options.top = kept;
    options.jobs = jobs;
    // What was run did fit. Where we are not sure of it, others like it may stand beside it.
    options.accept_at_risk = true;
    const SearchReport report = Search(published.document, space, cache, options);
    rank.simulations = report.simulations;
    if (!report.told) {
      rank.failed = report.told_refused;
      return rank;
    }
    rank.plan = InWords(*report.told);
    rank.step_s = report.told->step_s;
    rank.fits = report.told_fits || report.told->verdict != Fit::kDoesNotFit;
    rank.best = rank.plan;
    rank.best_step_s = rank.step_s;
    const auto better =
        std::count_if(report.best.begin(), report.best.end(),
                      [&](const FoundPlan& plan) { return plan.step_s < rank.step_s; });
    rank.rank = static_cast<std::size_t>(better) + 1;
    rank.behind_all = static_cast<std::size_t>(better) == kept;
    if (better > 0) {
      rank.best = InWords(report.best.front());
      rank.best_step_s = report.best.front().step_s;
    }
  } catch (const InputError& error) {
    rank.failed = error.diagnostic().CodeName() + ": " + error.diagnostic().message;
  }
  return rank;
}

std::string PublishedPlanLine(const PublishedPlan& p, const PlanRank& r) {
  const std::string row = p.ids.size() > 1
                              ? p.ids.front() + " and " + std::to_string(p.ids.size() - 1) + " more"
                              : p.ids.front();
  std::string line = "| " + row + " | " + p.model + " | " + p.gpus + " | " +
                     std::to_string(p.sequence) + " × " + std::to_string(p.batch) + " | ";
  if (!r.failed.empty()) return line + "not ranked: " + r.failed + " | | | | |";
  const std::string rank =
      (r.behind_all ? "> " + std::to_string(r.rank - 1) : std::to_string(r.rank)) +
      (r.fits ? "" : " (does not fit, we say)");
  line += r.plan + " | " + Seconds(p.measured_s) + " | " + Seconds(r.step_s) + " | " + rank + " | ";
  if (r.Gain() == 0) return line + "– | 0 % |";
  return line + r.best + " | " + Text("%.1f", r.Gain() * 100) + " % |";
}

std::string PublishedPlansPage(const std::vector<PublishedPlan>& published,
                               const std::vector<PlanRank>& ranks) {
  struct Summary {
    std::vector<double> gains;
    int best = 0, near = 0, ten = 0;
  };
  std::map<std::string, Summary> sources;
  std::uint64_t combinations = 0, simulations = 0;
  const auto add = [](const PlanRank& r, Summary* s) {
    s->gains.push_back(r.Gain());
    s->best += r.rank == 1 ? 1 : 0;
    s->ten += r.rank <= 10 ? 1 : 0;
    s->near += r.Gain() <= 0.05 ? 1 : 0;
  };
  for (std::size_t i = 0; i < published.size(); ++i) {
    if (!ranks[i].failed.empty()) continue;
    combinations += ranks[i].combinations;
    simulations += ranks[i].simulations;
    add(ranks[i], &sources[published[i].source]);
    add(ranks[i], &sources[""]);
  }
  std::string text =
      "# Published plans among those that a search finds\n\n"
      "Written by the test `published_plans` with AURUM_UPDATE_GOLDEN=1 from the rows of "
      "`calibrate/published/`; the handbook reads it "
      "([The best plan](handbook.md#the-best-plan)).\n\n"
      "Every configuration that was run on two GPUs or more and timed, and of which nothing of "
      "model, cluster and batch had to be assumed. "
      "Its plan is simulated as told, and `aurum search` looks for better ones with the same "
      "model, cluster, sequence, batch, precision and "
      "software stack: other degrees of parallelism, micro-batches, recomputation, sharding, "
      "offload, order of ranks. Plans whose memory is at "
      "risk count. The rank is 1 and the number of plans that fit and take less time; the gain is "
      "what the best saves of the published plan's "
      "predicted step; `> 10` stands where ten plans or more are better, at which the search "
      "stops. A gain within the error band of a step (about 20 %) may "
      "be none; people also choose plans for reasons that no step time knows.\n\n";
  text += std::to_string(combinations) + " combinations, " + std::to_string(simulations) +
          " of them simulated.\n\n";
  text +=
      "| source | configurations | the best | among the ten best | gain at most 5 % | median gain "
      "| largest gain |\n"
      "|---|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const Summary& s) {
    const auto n = static_cast<double>(s.gains.size());
    text += "| " + name + " | " + std::to_string(s.gains.size()) + " | " + std::to_string(s.best) +
            " | " + std::to_string(s.ten) + " | " + Text("%.0f", 100 * s.near / n) + " % | " +
            Text("%.1f", 100 * Median(s.gains)) + " % | " +
            Text("%.1f", 100 * *std::max_element(s.gains.begin(), s.gains.end())) + " % |\n";
  };
  for (const auto& [name, summary] : sources) {
    if (!name.empty()) line(name, summary);
  }
  if (sources.contains("")) line("all", sources[""]);
  text +=
      "\n## All\n\nSteps in seconds.\n\n"
      "| row | model | GPUs | tokens × samples | published plan | measured | predicted | rank | "
      "best plan found | gain |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < published.size(); ++i)
    text += PublishedPlanLine(published[i], ranks[i]) + "\n";
  return text;
}

}  // namespace aurum
