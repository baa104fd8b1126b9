#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/study/evaluate.h"

namespace aurum {

// What the data of a step cost beyond its kernels, for results and tables to show.

// Of a model with experts on more than one GPU, or whose routing is told.
struct ExpertFigures {
  double imbalance = 1;         // tokens of the busiest rank over the mean
  double dropped_share = 0;     // of the tokens' choices
  double all_to_all_bytes = 0;  // that a GPU hands to its all-to-alls in a step, on average
  double all_to_all_s = 0;      // how long those take, undisturbed by what they wait for
  double share = 0;             // of the step
  double exposed_s = 0;         // that the busiest stage waits for them
};
std::optional<ExpertFigures> FiguresOfExperts(const Evaluation& evaluation);

// Share of the tokens of the backbone's sequences that are padding.
double PaddingShare(const Evaluation& evaluation);
// Model FLOPs of the whole step, padding and dummies included, over its real tokens. Padding that is
// saved and attention pairs that are left out lower it; a kernel that does the same work faster, such
// as FlashAttention, does not.
double FlopsPerUsefulToken(const Evaluation& evaluation);

// Adds "useful" and, where there are such, "experts" and "loader" to a result.
void AddDataJson(const Evaluation& evaluation, Json* result);
// The same for a table: name and text.
std::vector<std::pair<std::string, std::string>> DescribeData(const Evaluation& evaluation);

}  // namespace aurum
