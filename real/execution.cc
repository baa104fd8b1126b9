#include "real/execution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/core/units.h"
#include "sim/memory/memory.h"

namespace aurum {
namespace {

// Processes, or threads, of one job.
constexpr int kMostRanks = 1024;

void Refuse(const std::string& what, const std::string& help) {
  ThrowInput(903, what + " cannot be executed", help, ExitCode::kInfeasible);
}

void CheckExecutable(const Scenario& s) {
  const WhatIf& w = s.what_if;
  if (w.flops_per_token || w.comm_bw_bytes_per_s || w.align_ratio || w.nvlink_factor != 1 ||
      w.pcie_factor != 1 || w.network_factor != 1 || w.gemm_speedup != 1 ||
      w.attention_speedup != 1 || w.memory_speedup != 1)
    Refuse("what_if imposes what the machine does not have: it", "remove what_if");
  if (s.plan.expert_buffer_bytes > 0) {
    ThrowInput(767, "expert_buffer_mb is simulated, not executed: libraries choose their buffers",
               "leave it out to execute this plan", ExitCode::kInfeasible);
  }
  if (!s.pools.empty())
    Refuse("a cluster of several kinds of devices", "remove pools: one backend runs one kind");
  if (s.faults.Any()) Refuse("a fault that is told", "remove faults: a real machine has its own");
  if (s.variation.seeds > 0)
    Refuse("a variation that is drawn", "remove variation: a real machine has its own");
  if (s.steps != nullptr)
    Refuse("a step whose samples differ",
           "one size for all samples: text_tokens and images without distributions");
  if (s.plan.offload.optimizer > 0)
    Refuse("an optimizer on the host", "plan.offload.optimizer = 0; states on the GPU");
}

double VariationOf(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  return mean > 0 ? std::sqrt(squares / static_cast<double>(values.size() - 1)) / mean : 0;
}

}  // namespace

RankProgram Executable::RankAt(int rank) const {
  RankProgram mine = lone_rank >= 0
                         ? LoneRankProgramOf(program, outcome.schedule, scenario, lone_rank)
                         : RankProgramOf(program, scenario, rank);
  const auto at = static_cast<std::size_t>(lone_rank >= 0 ? 0 : rank);
  mine.predicted_peak_bytes = at < peak_bytes.size() ? peak_bytes[at] : 0;
  return mine;
}

double Executable::PredictedSeconds() const {
  if (lone_rank < 0) return outcome.StepSeconds();
  double end = 0;
  for (const RankOp& op : RankAt(lone_rank).ops)
    end = std::max(end, Seconds(outcome.schedule.end[op.op]));
  return end;
}

Executable MakeExecutable(Scenario scenario, int lone_rank) {
  CheckExecutable(scenario);
  Executable e;
  e.scenario = std::move(scenario);
  e.lone_rank = lone_rank;
  const int gpus = e.scenario.cluster->GpuCount();
  if (lone_rank >= gpus) {
    ThrowInput(902, "there is no rank " + std::to_string(lone_rank),
               "the cluster has ranks 0 to " + std::to_string(gpus - 1), ExitCode::kUsage);
  }
  if (lone_rank < 0 && gpus > kMostRanks) {
    ThrowInput(904,
               "this plan has " + std::to_string(gpus) + " ranks; a job on one machine has " +
                   std::to_string(kMostRanks) + " at most",
               "--rank 0: one rank alone, the others modelled", ExitCode::kInfeasible);
  }
  LowerOptions options;
  options.fold = lone_rank >= 0 ? Fold::kOn : Fold::kOff;
  options.for_execution = true;
  e.program = Lower(e.scenario, options);
  e.outcome = Simulate(e.program, Level::kAnalytic);
  const MemoryReport memory = MeasureMemory(e.scenario, e.program, e.outcome);
  if (lone_rank >= 0) {
    e.peak_bytes = {memory.classes[e.program.ClassOf(lone_rank)].peak_bytes};
  } else {
    for (int gpu = 0; gpu < gpus; ++gpu)
      e.peak_bytes.push_back(memory.classes[e.program.ClassOf(gpu)].peak_bytes);
  }
  return e;
}

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string NameOf(const Program& program, const Scenario& scenario, OpId op) {
  const OpInfo& info = program.info[op];
  std::string name;
  switch (info.kind) {
    case OpKind::kHost:
      name = "host";
      break;
    case OpKind::kForward:
      name = info.head ? "forward of the head" : "forward";
      break;
    case OpKind::kBackward:
      name = info.head ? "backward of the head" : "backward";
      break;
    case OpKind::kOptimizer:
      name = "optimizer";
      break;
    case OpKind::kDecode:
      name = "decode";
      break;
    case OpKind::kTpCollective:
      name = "tensor-parallel collective";
      break;
    case OpKind::kPipelineTransfer:
      name = "pipeline transfer";
      break;
    case OpKind::kParameterGather:
      name = "parameter gather";
      break;
    case OpKind::kGradientReduce:
      name = "gradient reduction";
      break;
    case OpKind::kAlignment:
      name = "alignment exchange";
      break;
    case OpKind::kContextCollective:
      name = "context-parallel collective";
      break;
    case OpKind::kExpertCollective:
      name = "expert collective";
      break;
    case OpKind::kHostTransfer:
      name = "host transfer";
      break;
    case OpKind::kWeightGradient:
      name = "weight gradient";
      break;
  }
  if (info.module >= 0)
    name += " of " + scenario.model->modules[static_cast<std::size_t>(info.module)].name;
  if (info.micro_batch >= 0) name += ", micro-batch " + std::to_string(info.micro_batch);
  return name;
}

RunRecord MakeRunRecord(const Executable& e, const std::vector<RankRun>& runs,
                        const StepPlan& plan) {
  RunRecord record;
  record.scenario_name = e.scenario.name;
  record.shape = ShapeOf(e.program);
  record.lone_rank = e.lone_rank;
  record.warm_up = plan.warm_up;
  for (std::size_t step = 0; step < static_cast<std::size_t>(plan.steps); ++step) {
    double slowest = 0, wall = 0;
    bool clean = true;
    for (const RankRun& run : runs) {
      slowest = std::max(slowest, run.steps[step].seconds);
      wall = std::max(wall, run.steps[step].wall_s);
      clean = clean && !run.steps[step].disturbed;
    }
    record.steps_s.push_back(slowest);
    if (clean) record.clean_steps_s.push_back(slowest);
    if (wall > 0) record.wall_steps_s.push_back(wall);
  }
  const std::vector<double>& counted =
      record.clean_steps_s.empty() ? record.steps_s : record.clean_steps_s;
  record.step_time_s = MedianOf(counted);
  record.variation = VariationOf(counted);
  for (const RankRun& run : runs) {
    record.ranks.push_back(run.facts);
    for (const RunCheck& check : run.checks) {
      // A check that all ranks pass is told once.
      const auto same = std::find_if(
          record.checks.begin(), record.checks.end(),
          [&](const RunCheck& c) { return c.name == check.name && c.passed == check.passed; });
      if (same == record.checks.end() || !check.passed) record.checks.push_back(check);
    }
    const int rank = run.facts.rank;
    const RankProgram mine = e.RankAt(rank);
    for (std::size_t i = 0; i < mine.ops.size() && !run.timed.empty(); ++i) {
      const RankOp& op = mine.ops[i];
      const OpInfo& info = e.program.info[op.op];
      std::vector<double> starts, durations;
      for (const auto& step : run.timed) {
        starts.push_back(step[i].start_s);
        durations.push_back(step[i].duration_s);
      }
      TimedOp timed;
      timed.rank = rank;
      timed.op = op.op;
      timed.kind = op.kind;
      timed.lane = mine.queues[op.queue].lane;
      timed.receives = mine.queues[op.queue].receives;
      timed.what = info.kind;
      timed.module = info.module;
      timed.micro_batch = info.micro_batch;
      timed.start_s = MedianOf(std::move(starts));
      timed.duration_s = MedianOf(std::move(durations));
      timed.modelled_s = op.modelled_s;
      record.ops.push_back(timed);
    }
  }
  return record;
}

}  // namespace aurum
