#pragma once

#include "sim/core/object_reader.h"
#include "sim/workload/sample_source.h"
#include "sim/workload/workload.h"

namespace aurum {

// {"policy": "fixed", "sides": [448]}. E0633 sides that the policy does not take.
Resolution ReadResolution(ObjectReader reader);

// The sample with its images as the policy hands them to the model: kFixed and kBucket resize to a
// square, so that tokens change and nothing is padded. kNative and kBatchMax leave single samples as
// they are: what kBatchMax adds depends on the micro-batch (step_draw.h). Frames of videos stay.
void ResizeImages(const Resolution& resolution, Sample* sample);

}  // namespace aurum
