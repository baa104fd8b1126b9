#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/profile.h"

namespace aurum {

// How a collective is done. flows.cc has what each puts on the links, chunk_steps.cc the steps.
enum class CollectiveAlgorithm {
  kAuto,             // the least predicted time among those that a library would consider
  kRing,             // neighbour to neighbour, one ring a channel (Patarasuk and Yuan, 2009)
  kTree,             // double binary tree (Sanders, Speck, Träff, 2009)
  kHalvingDoubling,  // recursive halving and doubling (Rabenseifner, 2004; Thakur et al., 2005)
  kDirect,           // each to each, in one shot
  kNvls,             // reduced and multicast by the NVSwitch; between domains a double tree
  kSharp,            // reduced by the switches of the network (Graham et al., 2016)
  kHierarchical,     // inside the domain, between domains, inside again
  kHierarchical3,    // domain, pod of one leaf switch, core
  kPipelined         // an all-gather's ring whose blocks are cut into chunks, passed on at once
};
std::string CollectiveAlgorithmName(CollectiveAlgorithm algorithm);  // "halving-doubling"
// E0561 unknown name, with the nearest.
CollectiveAlgorithm CollectiveAlgorithmByName(std::string_view name);
const std::vector<CollectiveAlgorithm>& NamedAlgorithms();  // all but kAuto, in tie-break order

// Whether there is such an algorithm for the kind at all, on some group and some cluster.
bool IsDefinedFor(CollectiveAlgorithm algorithm, CollectiveKind kind);

}  // namespace aurum
