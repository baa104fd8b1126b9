#pragma once

#include <vector>

#include "sim/explain/explain.h"

namespace aurum {

// A step that links without limit would shorten by less does not depend on its topology.
inline constexpr double kTopologyMatters = 0.05;

// What the figures of an explanation say, in words: what binds the step, whether its topology matters, what
// fills the memory, what would help. Of the topics alone; each sentence rests on simulated figures.
std::vector<Finding> MakeFindings(const Evaluation& evaluation, const Explanation& explanation,
                                  const ExplainTopics& topics);

}  // namespace aurum
