#include "sim/study/budget.h"

#include <algorithm>
#include <cstdio>

#include "sim/core/units.h"

namespace aurum {
namespace {

std::string Text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

double MeanStep(const Evaluation& e) { return e.data ? e.data->mean_s : e.StepSeconds(); }

}  // namespace

double DeviceWatts(const Scenario& s) {
  const double own = s.profile->power_limit_w;
  if (own <= 0) return 0;
  double watts = own * s.cluster->GpuCount();
  for (const Pool& pool : s.pools) {
    if (pool.profile->power_limit_w <= 0) return 0;
    watts += (pool.profile->power_limit_w - own) * s.cluster->gpus_per_node *
             static_cast<double>(pool.nodes.size());
  }
  return watts;
}

std::vector<BudgetLine> JudgeBudget(const Evaluation& e) {
  const Scenario& s = e.scenario;
  std::vector<BudgetLine> lines;
  if (!s.budget) return lines;
  const auto add = [&](const char* item, const char* unit, double allowed, double used,
                       std::string basis) {
    BudgetLine line;
    line.item = item;
    line.unit = unit;
    line.allowed = allowed;
    line.used = used;
    line.exceeded = used > allowed;
    line.basis = std::move(basis);
    lines.push_back(std::move(line));
  };
  const double step = MeanStep(e);
  if (s.budget->gpus)
    add("gpus", "GPUs", *s.budget->gpus, s.cluster->GpuCount(), "all of the cluster's");
  if (s.budget->device_gib) {
    add("device_gib", "GiB", *s.budget->device_gib, e.memory.Heaviest().peak_bytes / kGiB,
        "the fullest device's peak, " + Text(e.memory.low_bytes / kGiB) + " – " +
            Text(e.memory.high_bytes / kGiB) + " with 90 % certainty");
  }
  if (s.budget->step_s) add("step_s", "s", *s.budget->step_s, step, "the mean step");
  // ReadScenario has seen to it that these have a target.
  const double seconds = s.target ? s.target->Steps() * step : 0;
  const std::string steps =
      s.target ? Text(s.target->Steps()) + " steps of " + Text(step) + " s" : "";
  const auto untold = [&] {  // phases have steps of their own (phases.h)
    lines.back().known = lines.back().exceeded = false;
    lines.back().basis = "the steps of its phases: aurum simulate adds them up";
  };
  if (s.budget->hours) {
    add("hours", "h", *s.budget->hours, seconds / kHour, steps);
    if (!s.target) untold();
  }
  if (s.budget->energy_kwh) {
    const double watts = DeviceWatts(s);
    add("energy_kwh", "kWh", *s.budget->energy_kwh, watts * seconds / kKilowattHour,
        "at most: " + Text(watts) + " W, the devices' power limits, for " + steps +
            "; hosts, network and cooling not counted. " + s.profile->power_source);
    if (!s.target) untold();
    if (watts <= 0) {
      lines.back().known = lines.back().exceeded = false;
      lines.back().basis = "profile '" + s.profile->name + "' does not tell its power limit";
    }
  }
  return lines;
}

bool Exceeded(const std::vector<BudgetLine>& lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [](const BudgetLine& line) { return line.exceeded; });
}

std::string DescribeExceeded(const std::vector<BudgetLine>& lines) {
  std::string text;
  for (const BudgetLine& line : lines) {
    if (!line.exceeded) continue;
    text += (text.empty() ? "" : ", ") + line.item + ": " + Text(line.used) + " of " +
            Text(line.allowed) + " " + line.unit;
  }
  return text;
}

Json BudgetJson(const std::vector<BudgetLine>& lines) {
  Json out = Json::Array();
  for (const BudgetLine& line : lines) {
    Json entry = Json::Object();
    entry.Set("item", line.item);
    entry.Set("unit", line.unit);
    entry.Set("allowed", line.allowed);
    if (line.known) entry.Set("used", line.used);
    entry.Set("verdict", std::string(!line.known     ? "not known"
                                     : line.exceeded ? "exceeded"
                                                     : "within"));
    entry.Set("basis", line.basis);
    out.Append(std::move(entry));
  }
  return out;
}

}  // namespace aurum
