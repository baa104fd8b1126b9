#include "real/rank_backend.h"

namespace aurum {
namespace {

RankBackend::StepTime RunStep(RankBackend* backend, const RankProgram& mine, std::int64_t step,
                              bool per_op, Progress* progress) {
  progress->At(step, 0);
  backend->BeginStep(step, per_op);
  for (std::size_t i = 0; i < mine.ops.size(); ++i) {
    progress->At(step, i);
    backend->Launch(i);
  }
  return backend->EndStep();
}

}  // namespace

RankRun RunRank(RankBackend* backend, const Program& program, const RankProgram& mine,
                const StepPlan& plan, Progress* progress) {
  backend->Watch(progress);
  backend->Prepare(program, mine);
  RankRun run;
  std::int64_t step = 0;
  for (int i = 0; i < plan.warm_up; ++i) RunStep(backend, mine, step++, false, progress);
  for (int i = 0; i < plan.steps; ++i)
    run.steps.push_back(RunStep(backend, mine, step++, false, progress));
  for (int i = 0; i < plan.timed_steps; ++i) {
    RunStep(backend, mine, step++, true, progress);
    run.timed.push_back(backend->OpTimes());
  }
  run.checks = backend->Check();
  run.facts = backend->Facts();
  run.facts.rank = mine.rank;
  return run;
}

}  // namespace aurum
