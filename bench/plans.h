#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/op_graph.h"

namespace aurum {

// The shape of a lowered plan: a 1F1B pipeline whose passes are `layers` ops of compute and as many
// collectives each, on two streams per stage, with a transfer between stages. Collectives of stage
// s use pattern s, transfers pattern kNoPattern unless told. Ops: stages · batches · 2 passes · (2
// · layers + 1).
struct PlanShape {
  int stages = 8;
  int batches = 16;
  int layers = 19;
  std::vector<PatternId> collective{};  // by stage; empty = plain ops
};

inline void BuildPlan(const PlanShape& shape, OpGraph* graph) {
  std::vector<std::vector<std::pair<OpId, OpId>>> passes(2 *
                                                         shape.stages);  // (first, last) of each
  for (int s = 0; s < shape.stages; ++s) {
    const StreamId compute = graph->AddStream();
    const StreamId communication = graph->AddStream();
    const PatternId pattern = shape.collective.empty() ? kNoPattern : shape.collective[s];
    const auto pass = [&](bool backward) {
      const Time kernel{backward ? 2'000'000 : 1'000'000};
      OpId first = kNoOp, last = kNoOp;
      for (int layer = 0; layer < shape.layers; ++layer) {
        const OpId op = graph->AddOp(compute, kernel);
        if (first == kNoOp) first = op;
        if (last != kNoOp) graph->AddDependency(last, op);
        last = graph->AddTransfer(communication, {300'000}, {5'000}, pattern);
        graph->AddDependency(op, last);
      }
      const OpId send = graph->AddOp(communication, {100'000});
      graph->AddDependency(last, send);
      passes[2 * s + (backward ? 1 : 0)].emplace_back(first, send);
    };
    const int warm_up = std::min(shape.batches, shape.stages - s);
    for (int i = 0; i < warm_up; ++i) pass(false);
    for (int i = 0; i < shape.batches; ++i) {
      pass(true);
      if (warm_up + i < shape.batches) pass(false);
    }
  }
  for (int s = 0; s + 1 < shape.stages; ++s) {
    for (int b = 0; b < shape.batches; ++b) {
      graph->AddDependency(passes[2 * s][b].second, passes[2 * s + 2][b].first);
      graph->AddDependency(passes[2 * s + 3][b].second, passes[2 * s + 1][b].first);
    }
  }
}

}  // namespace aurum
