#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/study/evaluate.h"
#include "sim/study/time_parts.h"

namespace aurum {

// What one class of ranks says to others, by parallel group, module and collective.

enum class CommGroup : std::uint8_t {
  kTensor,
  kContext,
  kExpert,
  kData,
  kPipeline,
  kTokens,
  kHost
};
std::string_view CommGroupName(CommGroup group);  // "tensor parallel", "data parallel", …

// One collective of an item: sequence parallelism's reduce-scatters and all-gathers are two of one.
struct CommUse {
  std::string
      collective;  // "all_gather"; "all_gather or reduce_scatter" where its steps cannot be told apart
  std::int64_t calls = 0;
  double bytes = 0, running_s = 0, bus_bytes = 0;
};

struct CommItem {
  CommGroup group = CommGroup::kTensor;
  TimePart part;  // busy, exposed, bytes, ops: of the step
  std::string
      collective;  // "all_reduce", "transfer", "copy"; several: "all_gather, reduce_scatter"
  std::vector<CommUse> uses;  // by collective
  int ranks = 2;              // of one group
  bool over_network = false;  // a group spans nodes
  double running_s = 0;       // sum of all ops; over `part.busy` where several run at once
  // By nccl-tests' bus bandwidth (a transfer: bytes over time): what is reached over the time that it
  // runs, and what the narrowest link would allow without latency and protocol. 0: not told, as of copies
  // to a host whose link nobody tells.
  double bus_bytes_per_s = 0, possible_bytes_per_s = 0;
  LinkKind bottleneck = LinkKind::kNetwork;  // of what is possible
  double Attained() const {
    return possible_bytes_per_s > 0 ? bus_bytes_per_s / possible_bytes_per_s : 0;
  }
  // Less than half of what the link allows: latency, many small messages, protocol, others on it.
  bool LinkBinds() const { return Attained() >= 0.5; }
};

struct CommTree {
  std::vector<CommItem> items;  // by group, then the most exposed first
  double running_s = 0;         // of all items
  double exposed_s = 0;         // the compute stream waits for one of them
  double elsewhere_s = 0;       // or for transfers between other stages, on the way of its data
  double step_s = 0;
  double ExposedShare() const { return running_s > 0 ? exposed_s / running_s : 0; }  // of what runs
  double StepShare() const { return step_s > 0 ? (exposed_s + elsewhere_s) / step_s : 0; }
};

// Lowers the plan once more, with its communications.
CommTree MakeCommTree(const Evaluation& evaluation, const std::vector<TimePart>& parts,
                      int rank_class);

}  // namespace aurum
