#include "sim/workload/resolution.h"

#include <cmath>
#include <cstdlib>

namespace aurum {

Resolution ReadResolution(ObjectReader reader) {
  Resolution resolution;
  resolution.policy = static_cast<ResolutionPolicy>(
      reader.Choice("policy", {"native", "fixed", "bucket", "batch_max"}));
  const bool fixed = resolution.policy == ResolutionPolicy::kFixed;
  const bool sided = fixed || resolution.policy == ResolutionPolicy::kBucket;
  if (reader.Has("sides")) {
    resolution.sides = reader.Integers("sides", 1, 65536);
    if (!sided) {
      reader.Fail(633, "sides", "'sides' belongs to the policies 'fixed' and 'bucket'",
                  "remove it, or set \"policy\": \"bucket\"");
    }
  }
  if (sided && resolution.sides.empty()) {
    reader.Fail(633, "sides", "there is no size to resize images to",
                fixed ? "\"sides\": [448]" : "\"sides\": [224, 448, 896]");
  }
  if (fixed && resolution.sides.size() > 1) {
    reader.Fail(633, "sides", "the policy 'fixed' has one size",
                "one number; or \"policy\": \"bucket\"");
  }
  reader.Finish();
  return resolution;
}

void ResizeImages(const Resolution& resolution, Sample* sample) {
  const bool sided = resolution.policy == ResolutionPolicy::kFixed ||
                     resolution.policy == ResolutionPolicy::kBucket;
  if (!sided) return;
  for (MediaItem& item : sample->media) {
    if (item.kind != MediaKind::kImage) continue;
    const std::int64_t area = item.width * item.height;
    std::int64_t best = resolution.sides.front();
    for (const std::int64_t side : resolution.sides) {
      const std::int64_t off = std::abs(side * side - area);
      const std::int64_t least = std::abs(best * best - area);
      if (off < least || (off == least && side < best)) best = side;
    }
    item.width = item.height = best;
  }
}

}  // namespace aurum
