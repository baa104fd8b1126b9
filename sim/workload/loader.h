#pragma once

#include "sim/core/object_reader.h"
#include "sim/workload/workload.h"

namespace aurum {

// Reads "loader". E01xx.
Loader ReadLoader(ObjectReader reader);

// What a sample is to a loader, on average: media as they are stored, before any resolution policy.
struct SampleVolume {
  double text_tokens = 0;
  double pixels = 0;  // of images and of the frames that videos are sampled to
  double audio_s = 0;
};
// Over as many samples as LoadOfSample looks at.
SampleVolume MeanVolume(const Workload& workload);

// How long the workers of one node are at its part of a batch.
struct LoaderWork {
  double read_s = 0;    // storage to host, all workers at once
  double decode_s = 0;  // shared out among the workers
  double copy_s = 0;    // of what was decoded, in host memory
  double read_bytes = 0, decoded_bytes = 0;
  double Seconds() const { return read_s + decode_s + copy_s; }
};

// Workers are synchronous, as torch's are: each reads a sample, decodes it, and copies it on, so that
// the three add up. Decoded media are 3 bytes a pixel, audio 16,000 32-bit samples a second, a token
// of text a 64-bit number. `workers`: all of the node.
LoaderWork WorkOfBatch(const Loader& loader, const SampleVolume& sample, double samples,
                       int workers);

// What a loader puts together when it fills a batch up to a budget of cost instead of a number.
struct DynamicBatch {
  double samples = 0;      // of one kind, on average
  double utilisation = 0;  // cost over budget
};
// Of samples that cost `cost` each: as many as Σ cost ≤ budget allows, one at least.
DynamicBatch BatchWithin(double cost, double budget);

}  // namespace aurum
