#include "sim/plan/scenario.h"

#include "sim/study/axis.h"
#include "tests/fuzz/entry.h"

// A scenario that was accepted has a plan that adds up. Catalogue files are read once and kept.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static aurum::InputCache cache(".");
  return aurum::Try(data, size, [](std::string text) {
    const aurum::JsonDocument document = aurum::ParseJson(std::move(text), "fuzz.json");
    aurum::ReadAxes(document);
    const aurum::Scenario scenario = aurum::ReadScenario(document, &cache);
    const aurum::Plan& plan = scenario.plan;
    int replica = plan.tp * plan.cp * plan.pp;
    for (const aurum::ModulePlan& part : plan.modules) {
      if (part.placement == aurum::Placement::kOwnRanks) replica += part.tp * part.pp;
    }
    aurum::Require(replica * plan.dp == scenario.cluster->GpuCount(),
                   "(tp · cp · pp and the encoders' own ranks) · dp is the number of GPUs");
    aurum::Require(
        plan.micro_batches * plan.micro_batch_size * plan.dp == scenario.workload.global_batch_size,
        "the micro-batches are the batch");
    aurum::Require(plan.modules.size() == scenario.model->modules.size(),
                   "every module has a plan");
  });
}
