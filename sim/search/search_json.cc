#include "sim/core/units.h"
#include "sim/search/search.h"
#include "sim/study/document_head.h"

namespace aurum {
namespace {

Json StringsJson(const std::vector<std::string>& strings) {
  Json list = Json::Array();
  for (const std::string& each : strings) list.Append(each);
  return list;
}

Json ChoicesJson(const PlanSpace& space, const std::vector<std::string>& labels) {
  Json choices = Json::Object();
  for (std::size_t d = 0; d < labels.size(); ++d) choices.Set(space.dimensions[d].name, labels[d]);
  return choices;
}

Json PlanJson(const PlanSpace& space, const FoundPlan& plan) {
  Json out = Json::Object();
  out.Set("plan", plan.plan);
  out.Set("recipe", plan.recipe);
  if (!plan.labels.empty()) out.Set("choices", ChoicesJson(space, plan.labels));
  out.Set("set", StringsJson(plan.set));
  out.Set("step_time_s", plan.step_s);
  if (plan.bound_s > 0) out.Set("step_time_bound_s", plan.bound_s);
  out.Set("samples_per_s", plan.samples_per_s);
  out.Set("tokens_per_s", plan.tokens_per_s);
  out.Set("mfu", plan.mfu);
  out.Set("peak_gib", plan.peak_bytes / kGiB);
  out.Set("usable_gib", plan.usable_bytes / kGiB);
  out.Set("verdict", FitName(plan.verdict));
  out.Set("gpus", plan.gpus);
  out.Set("gpu_hours_per_step", plan.cost.gpu_hours);
  if (plan.cost.energy_known) out.Set("energy_kwh_per_step", plan.cost.energy_kwh);
  if (plan.cost.money_known) out.Set("money_per_step", plan.cost.money);
  out.Set("compute_s", plan.time.compute_s);
  out.Set("exposed_comm_s", plan.time.exposed_comm_s);
  out.Set("bubble_s", plan.time.bubble_s);
  out.Set("limit", LimitName(plan.limit));
  out.Set("on_front", plan.on_front);
  return out;
}

}  // namespace

Json SearchJson(const SearchReport& report, const std::string& tool_version) {
  Json out = Json::Object();
  out.Set("schema", "aurum.search/1");
  out.Set("tool_version", tool_version);
  out.Set("inputs", InputsJson(report.inputs));
  out.Set("warnings", WarningsJson(report.warnings));
  out.Set("objective", ObjectiveName(report.options.objective));
  Json space = Json::Object();
  space.Set("name", report.space.name);
  Json dimensions = Json::Array();
  for (const Dimension& d : report.space.dimensions) {
    Json dimension = Json::Object();
    dimension.Set("name", d.name);
    Json choices = Json::Array();
    for (const Choice& choice : d.choices) choices.Append(choice.label);
    dimension.Set("choices", std::move(choices));
    dimensions.Append(std::move(dimension));
  }
  space.Set("dimensions", std::move(dimensions));
  out.Set("space", std::move(space));
  Json counts = Json::Object();
  const auto count = [&](const char* name, std::uint64_t n) {
    counts.Set(name, static_cast<std::int64_t>(n));
  };
  count("executions", report.counts.total);
  count("alike", report.counts.alike);
  count("unplaceable", report.counts.unplaceable);
  count("refused", report.counts.refused);
  count("state_does_not_fit", report.counts.state);
  count("activations_do_not_fit", report.counts.kept);
  count("simulated_do_not_fit", report.counts.memory);
  count("bounded_out", report.counts.bounded);
  count("simulated_fit", report.counts.valued);
  count("bounds_computed", report.bounds);
  count("steps_simulated", report.simulations);
  out.Set("counts", std::move(counts));
  Json rejected = Json::Array();
  for (const RejectedPlans& r : report.rejected) {
    Json entry = Json::Object();
    entry.Set("code", r.code);
    entry.Set("count", static_cast<std::int64_t>(r.count));
    entry.Set("reason", r.reason);
    entry.Set("example", ChoicesJson(report.space, r.example));
    rejected.Append(std::move(entry));
  }
  out.Set("rejected", std::move(rejected));
  const auto plans = [&](const std::vector<FoundPlan>& list) {
    Json all = Json::Array();
    for (const FoundPlan& plan : list) all.Append(PlanJson(report.space, plan));
    return all;
  };
  out.Set("best", plans(report.best));
  out.Set("front", plans(report.front));
  out.Set("front_exact", report.options.pareto && !report.interrupted);
  if (report.told) {
    Json told = PlanJson(report.space, *report.told);
    told.Set("accepted", report.told_fits);
    if (!report.told_refused.empty()) told.Set("refused", report.told_refused);
    out.Set("told", std::move(told));
  }
  if (report.at_risk) out.Set("at_risk", PlanJson(report.space, *report.at_risk));
  if (report.uneven) out.Set("sought_for_mean_sample", true);
  out.Set("interrupted", report.interrupted);
  return out;
}

}  // namespace aurum
