#include "sim/plan/uneven.h"

#include <algorithm>

#include "sim/workload/changed_load.h"
#include "sim/workload/typical_load.h"

namespace aurum {
namespace {

StepShape ShapeOf(const Scenario& s) {
  StepShape shape;
  shape.replicas = s.plan.dp;
  shape.micro_batches = s.plan.micro_batches;
  shape.micro_batch_size = s.plan.micro_batch_size;
  const bool colocated =
      std::any_of(s.plan.modules.begin(), s.plan.modules.end(),
                  [](const ModulePlan& part) { return part.placement == Placement::kColocatedDp; });
  if (colocated) shape.encoder_ranks = s.plan.tp * s.plan.cp;
  return shape;
}

// One row of a micro-batch of `rows`.
SampleLoad RowOf(SampleLoad load, double rows) {
  for (ModuleLoad& module : load.modules) {
    for (SequenceBatch& batch : module.batches) batch.sequences /= rows;
    module.tokens /= rows;
    module.output_tokens /= rows;
    module.real_tokens /= rows;
    module.source_tokens /= rows;
  }
  load.backbone_tokens /= rows;
  load.cross_modal_tokens /= rows;
  load.cross_attention_tokens /= rows;
  load.real_tokens /= rows;
  load.samples /= rows;
  return load;
}

}  // namespace

void DrawData(Scenario* scenario) {
  if (!scenario->workload.Uneven()) return;
  const StepShape shape = ShapeOf(*scenario);
  std::vector<StepLoads> steps = DrawSteps(*scenario->model, scenario->workload, shape);
  const Adapter& adapter = scenario->plan.adapter;
  if (adapter.kind == AdapterKind::kPrompt) {
    for (StepLoads& step : steps) {
      for (SampleLoad& load : step.micro_batches)
        AddPromptTokens(*scenario->model, adapter.prompt_tokens, &load);
    }
  }
  scenario->sample =
      RowOf(MeanMicroBatch(steps), static_cast<double>(scenario->plan.micro_batch_size));
  scenario->steps = std::make_shared<const std::vector<StepLoads>>(std::move(steps));
}

Scenario WithHeaviestSample(const Scenario& scenario) {
  Scenario heaviest = scenario;
  heaviest.sample = RowOf(LongestLoad(*scenario.model, scenario.workload, *scenario.steps),
                          static_cast<double>(scenario.plan.micro_batch_size));
  if (scenario.plan.adapter.kind == AdapterKind::kPrompt)
    AddPromptTokens(*scenario.model, scenario.plan.adapter.prompt_tokens, &heaviest.sample);
  heaviest.steps.reset();
  heaviest.step = nullptr;
  return heaviest;
}

}  // namespace aurum
