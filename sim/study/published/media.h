#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"
#include "sim/study/published/record.h"
#include "sim/study/published/sources.h"

namespace aurum {

// The pictures of a sample, all of one size.
struct MediaFacts {
  std::int64_t images = 0, width = 0, height = 0;
  std::int64_t visual_tokens = 0;  // of one, among the sample's tokens

  bool operator==(const MediaFacts&) const = default;
};

// What the samples of a record with pictures are.
struct MediaReading {
  MediaFacts nominal;
  std::vector<MediaFacts> ends;    // where the size is not told: as small and as large as may be
  std::string assumed, skip_time;  // "" = nothing
};

// Sizes, in this order: the habit of the named model's users (ModelReading), the record's, the one
// size that the model scales every picture to, the size that fills the model's budget of tokens or
// the record's most pixels, else 448 x 448 with 224 and 896 as ends. A picture counts one unless the
// record tells how many. `model`: with the encoder; its rule gives the tokens.
// Of sizes that nothing tells no step time follows; the peak does not depend on them much.
MediaReading ReadMedia(const RecordFacts& facts, const ModelReading* named, const Model& model);

}  // namespace aurum
