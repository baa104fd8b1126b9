#include "calibrate/exact_calls.h"

#include <algorithm>
#include <cmath>

#include "sim/cost/exact.h"
#include "sim/plan/lower.h"
#include "sim/plan/rank_groups.h"

namespace aurum {
namespace {

template <typename T>
void AddOnce(const T& value, std::vector<T>* to) {
  if (std::find(to->begin(), to->end(), value) == to->end()) to->push_back(value);
}

}  // namespace

std::vector<Kernel> KernelsOf(const Program& program) {
  std::vector<Kernel> kernels;
  for (const OpWork& work : program.work) {
    if (work.kernels == kNoWork) continue;
    for (const Kernel& kernel : program.kernels[work.kernels]) {
      if (kernel.kind != KernelKind::kHost) AddOnce(ExactKey(kernel), &kernels);
    }
  }
  return kernels;
}

std::vector<ExactCollective> CollectivesOf(const Program& program, const Scenario& scenario) {
  std::vector<ExactCollective> calls;
  for (const Communication& asked : program.communications) {
    if (asked.bytes <= 0) continue;
    ExactCollective call;
    call.kind = asked.transfer ? CollectiveKind::kSendRecv : asked.kind;
    call.gpus =
        asked.transfer ? 2 : static_cast<int>(GroupSize(scenario.plan, asked.stage, asked.groups));
    call.bytes = std::ceil(asked.bytes);
    if (call.gpus > 1) AddOnce(call, &calls);
  }
  return calls;
}

void AddCallsOf(const Scenario& scenario, ExactCalls* calls) {
  LowerOptions options;
  options.for_execution = true;
  const Program program = Lower(scenario, options);
  for (const Kernel& kernel : KernelsOf(program)) AddOnce(kernel, &calls->kernels);
  for (const ExactCollective& call : CollectivesOf(program, scenario)) {
    AddOnce(call, &calls->collectives);
  }
}

}  // namespace aurum
