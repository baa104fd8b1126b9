#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "real/rank_program.h"
#include "sim/core/json.h"

namespace aurum {

// What one execution of a plan was: written by `execute`, read by `validate --measured`. The file
// (docs/schema/run.schema.json, "aurum.run/1") is at the same time a trace that Perfetto and
// chrome://tracing open: its timeline stands under "traceEvents".

// One op of one rank in one step that was timed op by op.
struct TimedOp {
  int rank = 0;
  OpId op = kNoOp;
  RankOpKind kind = RankOpKind::kCompute;
  Lane lane = Lane::kMain;
  bool receives = false;
  OpKind what = OpKind::kForward;
  std::int16_t module = -1;
  std::int32_t micro_batch = -1;
  double start_s = 0;     // since the step began on rank 0's clock
  double duration_s = 0;  // median over the timed steps
  double modelled_s = 0;
};

struct RankFacts {
  int rank = 0;
  std::string host, device;      // "NVIDIA H200", "one core of AMD EPYC"
  double peak_memory_bytes = 0;  // that the executor held at most; 0 = not known
  double clock_before_mhz = 0, clock_after_mhz = 0;  // 0 = not known
  double throttled_share = 0;
};

struct RunCheck {
  std::string name;  // "sums", "replicas", "memory", "variation", "clocks"
  bool passed = true;
  std::string detail;
};

struct RunRecord {
  std::string tool_version, command_line, date;
  std::string backend;  // "virtual", "cpu", "cuda"
  std::string scenario_name;
  Json scenario;      // the document that was executed, --set applied
  std::string shape;  // ShapeOf the program
  std::uint64_t seed = 0;
  int lone_rank = -1;  // executed alone; -1: all ranks
  std::string clock;   // "logical", "thread CPU time", "device"
  std::vector<std::pair<std::string, std::string>> versions;  // {"CUDA", "13.0"}, …
  std::vector<RankFacts> ranks;
  int warm_up = 0;
  std::vector<double> steps_s;        // whole steps, not instrumented: slowest rank each
  std::vector<double> clean_steps_s;  // of them, those that nothing disturbed
  std::vector<double> wall_steps_s;   // by wall clock, where `clock` is another
  double step_time_s = 0;             // median of the clean ones
  double variation = 0;               // their coefficient of variation
  std::vector<RunCheck> checks;
  std::vector<TimedOp> ops;  // by rank, in launch order
  std::vector<std::string> warnings;
};

// The file's text, one line an op. Deterministic.
std::string RunRecordText(const RunRecord& record);
// E0901 not a run record, or a field of it is wrong.
RunRecord ReadRunRecord(const JsonDocument& document);

}  // namespace aurum
