#include "sim/core/provenance.h"

namespace aurum {

std::string_view ProvenanceName(Provenance provenance) {
  switch (provenance) {
    case Provenance::kMeasured:
      return "measured";
    case Provenance::kCalibrated:
      return "calibrated";
    case Provenance::kDatasheet:
      return "datasheet";
    case Provenance::kAssumed:
      return "assumed";
  }
  return "assumed";
}

}  // namespace aurum
