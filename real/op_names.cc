#include "real/op_names.h"

namespace aurum {

const std::vector<std::string>& LaneNames() {
  static const std::vector<std::string> kNames = {
      "main",       "tp",          "cp",        "ep",   "expert_tp",
      "pp_forward", "pp_backward", "pp_around", "dp",   "expert_dp",
      "shard",      "replica",     "align",     "host", "host_in"};
  static_assert(kLanes == 15, "a new lane needs its name here");
  return kNames;
}

const std::vector<std::string>& OpKindNames() {
  static const std::vector<std::string> kNames = {"host",
                                                  "forward",
                                                  "backward",
                                                  "optimizer",
                                                  "decode",
                                                  "tp_collective",
                                                  "pipeline_transfer",
                                                  "parameter_gather",
                                                  "gradient_reduce",
                                                  "alignment",
                                                  "context_collective",
                                                  "expert_collective",
                                                  "host_transfer",
                                                  "weight_gradient"};
  static_assert(static_cast<int>(OpKind::kWeightGradient) == 13, "a new kind needs its name here");
  return kNames;
}

const std::vector<std::string>& RankOpKindNames() {
  static const std::vector<std::string> kNames = {"compute", "collective",    "send",
                                                  "receive", "host_transfer", "delay"};
  static_assert(static_cast<int>(RankOpKind::kDelay) == 5, "a new kind needs its name here");
  return kNames;
}

}  // namespace aurum
