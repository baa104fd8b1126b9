#include "sim/study/cost.h"

#include "sim/core/units.h"
#include "sim/study/budget.h"

namespace aurum {
namespace {

Json Part(const Scenario& s, const RunCost& cost) {
  Json out = Json::Object();
  out.Set("gpu_hours", cost.gpu_hours);
  if (cost.energy_known) out.Set("energy_kwh", cost.energy_kwh);
  if (cost.money_known) {
    out.Set("money", cost.money);
    out.Set("currency", s.prices->currency);
  }
  return out;
}

}  // namespace

RunCost CostOf(const Scenario& s, double step_s) {
  RunCost cost;
  cost.seconds = step_s;
  cost.gpu_hours = s.cluster->GpuCount() * step_s / kHour;
  const double watts = DeviceWatts(s);
  cost.energy_known = watts > 0;
  cost.energy_kwh = watts * step_s / kKilowattHour;
  if (!s.prices) return cost;
  cost.money_known = s.prices->kwh == 0 || cost.energy_known;
  if (cost.money_known)
    cost.money = cost.gpu_hours * s.prices->gpu_hour + cost.energy_kwh * s.prices->kwh;
  return cost;
}

RunCost Times(RunCost cost, double times) {
  cost.seconds *= times;
  cost.gpu_hours *= times;
  cost.energy_kwh *= times;
  cost.money *= times;
  return cost;
}

Json CostJson(const Scenario& s, double step_s) {
  const RunCost step = CostOf(s, step_s);
  Json out = Json::Object();
  out.Set("step", Part(s, step));
  if (s.target) out.Set("target", Part(s, Times(step, s.target->Steps())));
  std::string basis = "all GPUs of the cluster, for as long as it takes";
  if (step.energy_known) {
    basis +=
        "; energy at most: devices at their power limits; hosts, network and cooling not counted";
  }
  if (s.prices && !step.money_known) {
    basis += "; money is not told: a kWh has a price, and a profile does not tell its power limit";
  }
  out.Set("basis", basis);
  return out;
}

}  // namespace aurum
