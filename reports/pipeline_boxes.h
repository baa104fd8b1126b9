#pragma once

#include "models/model.h"
#include "reports/pipeline_text.h"
#include "sim/plan/program.h"
#include "sim/plan/simulate.h"

namespace aurum {

// What a program's stages did over time, as boxes for PipelineText: one row a stage, that of its first class of ranks
// (the class's name says which GPU, where a stage has several). Kernels of one kind, micro-batch and chunk that follow
// each other make one box, and what the pass waits for inside of itself (its tensor-, context- and expert-parallel
// collectives, gathered parameters, host transfers) belongs to it; waits for another stage part boxes. The host's
// preparation of the step is idle time of the GPU. O(ops log ops).
PipelineDrawing DrawPipeline(const Model& model, const Program& program, const Outcome& outcome,
                             int width = 100);

}  // namespace aurum
