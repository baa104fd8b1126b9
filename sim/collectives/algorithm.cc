#include "sim/collectives/algorithm.h"

#include "sim/core/diagnostic.h"

namespace aurum {

std::string CollectiveAlgorithmName(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::kAuto:
      return "auto";
    case CollectiveAlgorithm::kRing:
      return "ring";
    case CollectiveAlgorithm::kTree:
      return "tree";
    case CollectiveAlgorithm::kHalvingDoubling:
      return "halving-doubling";
    case CollectiveAlgorithm::kDirect:
      return "direct";
    case CollectiveAlgorithm::kNvls:
      return "nvls";
    case CollectiveAlgorithm::kSharp:
      return "sharp";
    case CollectiveAlgorithm::kHierarchical:
      return "hierarchical";
    case CollectiveAlgorithm::kHierarchical3:
      return "hierarchical-3";
    case CollectiveAlgorithm::kPipelined:
      return "pipelined";
  }
  return "";
}

const std::vector<CollectiveAlgorithm>& NamedAlgorithms() {
  static const std::vector<CollectiveAlgorithm> all = {
      CollectiveAlgorithm::kRing,         CollectiveAlgorithm::kTree,
      CollectiveAlgorithm::kNvls,         CollectiveAlgorithm::kSharp,
      CollectiveAlgorithm::kDirect,       CollectiveAlgorithm::kHalvingDoubling,
      CollectiveAlgorithm::kHierarchical, CollectiveAlgorithm::kHierarchical3,
      CollectiveAlgorithm::kPipelined};
  return all;
}

CollectiveAlgorithm CollectiveAlgorithmByName(std::string_view name) {
  std::vector<std::string> names{"auto"};
  if (name == "auto") return CollectiveAlgorithm::kAuto;
  for (const CollectiveAlgorithm algorithm : NamedAlgorithms()) {
    names.push_back(CollectiveAlgorithmName(algorithm));
    if (names.back() == name) return algorithm;
  }
  std::string help;
  if (const std::string nearest = NearestName(name, names); !nearest.empty())
    help = "did you mean " + nearest + "? ";
  help += "known:";
  for (const std::string& known : names) help += " " + known;
  ThrowInput(561, "unknown collective algorithm \"" + std::string(name) + "\"", help);
}

bool IsDefinedFor(CollectiveAlgorithm algorithm, CollectiveKind kind) {
  const bool reduces_to_all = kind == CollectiveKind::kAllReduce;
  const bool half = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter;
  const bool broadcast = kind == CollectiveKind::kBroadcast;
  switch (algorithm) {
    case CollectiveAlgorithm::kAuto:
    case CollectiveAlgorithm::kDirect:
      return true;
    case CollectiveAlgorithm::kRing:
    case CollectiveAlgorithm::kNvls:
      return reduces_to_all || half || broadcast;
    case CollectiveAlgorithm::kTree:
      return reduces_to_all || broadcast;
    case CollectiveAlgorithm::kHalvingDoubling:
      return reduces_to_all || half;
    case CollectiveAlgorithm::kSharp:
      return reduces_to_all;
    case CollectiveAlgorithm::kHierarchical:
    case CollectiveAlgorithm::kHierarchical3:
      return kind != CollectiveKind::kSendRecv;
    case CollectiveAlgorithm::kPipelined:
      return kind == CollectiveKind::kAllGather;
  }
  return false;
}

}  // namespace aurum
