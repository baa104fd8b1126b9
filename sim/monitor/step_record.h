#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace aurum {

// What one rank did in a step: seconds, the same parts as TimeBreakdown's (sim/plan/simulate.h), the
// exposed communication by what it was for. Parts that a log does not have are 0.
struct RankTimes {
  int rank = 0, node = 0;
  double compute_s = 0, optimizer_s = 0;
  double tp_s = 0, cp_s = 0, ep_s = 0, dp_s = 0, pp_s = 0, host_s = 0;  // exposed communication
  double bubble_s = 0, straggler_wait_s = 0, alignment_wait_s = 0, data_wait_s = 0;
  double CommunicationSeconds() const { return tp_s + cp_s + ep_s + dp_s + pp_s; }
};

// What a node's NICs counted in a step.
struct NodeCounters {
  int node = 0;
  double retransmitted_share = 0;  // of what was sent, 0…1
};

// One line of a training log: a step, as docs/monitor.md describes it.
struct StepRecord {
  std::int64_t step = 0;
  std::optional<double> time_s;       // when it ended, on any clock
  std::optional<double> step_time_s;  // its own, or since the step before by time_s
  // Aligned over all cross-modal tokens (MAR). Nothing where the step had none, or the log does not
  // tell: 0/0 is not known, and neither 0 nor 1.
  std::optional<double> mar;
  std::optional<double> tokens_per_s, loss;
  std::map<std::string, double> modality_tokens;  // by modality
  std::string run_id;
  std::vector<RankTimes> ranks;  // for --diagnose; empty: not told
  std::vector<NodeCounters> nodes;
};

// Turns lines into records. A line that is none is counted, with the reason of the first of its kind,
// and never ends the reading: logs hold prints of libraries, halves of lines and NaN.
class StepReader {
 public:
  // Nothing where the line is blank, or no record. NaN and Infinity, which Python writes and JSON does
  // not have, are taken as null.
  std::optional<StepRecord> Read(std::string_view line);

  struct Reason {
    std::string text;  // "not JSON", "no step_time_s"
    std::int64_t lines = 0;
    std::int64_t first_line = 0;
  };
  std::int64_t lines() const { return lines_; }
  std::int64_t records() const { return records_; }
  std::int64_t bad_lines() const { return bad_lines_; }
  const std::vector<Reason>& reasons() const { return reasons_; }
  std::int64_t restarts() const { return restarts_; }  // the step number went back
  // A line that was too long to be kept (LineBuffer).
  void CountOverlong();

 private:
  void Count(const std::string& reason);

  std::int64_t lines_ = 0, records_ = 0, bad_lines_ = 0, restarts_ = 0;
  std::vector<Reason> reasons_;
  std::optional<StepRecord> before_;
};

// The same record as a line, without its newline.
std::string StepLine(const StepRecord& record);

}  // namespace aurum
