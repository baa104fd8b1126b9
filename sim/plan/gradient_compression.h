#pragma once

#include "sim/plan/plan.h"

namespace aurum {

// What sparse gradients cost. Figures are of one GPU and of `entries` gradient entries of a module.

// B that every rank gives to the all-gather: kept values with their indices.
double PayloadBytes(const GradientCompression& compression, double entries);
// Device memory traffic, B, of choosing and packing what is sent.
double SelectionTraffic(const GradientCompression& compression, double entries);
// And of adding up the payloads of `ranks` in a dense gradient.
double MergeTraffic(const GradientCompression& compression, double entries, int ranks);
// B per entry that last for the whole step: what was not sent, and the weights of the selection.
double StateBytesPerEntry(const GradientCompression& compression);
// The share of entries below which `ranks` exchange fewer bytes than by a dense ring all-reduce of
// `dense_bytes` per entry: keep · (value + index) · (n − 1) = 2 (n − 1)/n · dense, so
// keep = 2 · dense / (n · (value + index)). In bf16 with 32-bit indices 1/3 for two ranks, 1/12 for eight.
double BreakEvenKeep(const GradientCompression& compression, double dense_bytes, int ranks);
// As keys of a plan name them: "all", "topk", "covariance_topk".
std::string GradientSelectionName(GradientSelection selection);

}  // namespace aurum
