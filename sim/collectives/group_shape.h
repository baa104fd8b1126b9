#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/algorithm.h"
#include "topologies/cluster.h"

namespace aurum {

// A group of ranks that take part in one collective: GPU ids in ring order.
using RankGroup = std::vector<int>;

// How a group lies in the cluster.
struct GroupShape {
  int ranks = 0;
  RankGroup order;                        // by domain: `domains` one after the other
  std::vector<std::vector<int>> domains;  // in order of first appearance, each in ring order
  std::size_t most = 0, least = 0;        // ranks of a domain
  std::size_t channels = 1;               // parallel rings between domains
  bool nvlink = false;
  bool SeveralDomains() const { return domains.size() > 1; }
  bool EvenDomains() const { return most == least; }
};

// Domains: NVLink domains; without NVLink, nodes. `channels` 0: the ranks of the smallest domain,
// and without NVLink no more than the node has NICs; else that many, no more than the smallest
// domain has ranks.
GroupShape ShapeOf(const RankGroup& group, const Cluster& cluster, int channels);

// The rank of `domain` through which channel c of `channels` goes.
inline int RankOfChannel(const std::vector<int>& domain, std::size_t c, std::size_t channels) {
  return domain[c * domain.size() / channels];
}

// What a collective that is done level by level works on: rings[l] are the subgroups of level l,
// in which every rank of the group is once. depth 2: domains; ranks of one place in their domains.
// depth 3: domains; the same place within a pod (the domains whose first rank's NIC is at one leaf
// switch); the same place in different pods. nullopt where the parts are not equal or a level has
// one member.
std::optional<std::vector<std::vector<RankGroup>>> Levels(const GroupShape& shape,
                                                          const Cluster& cluster, int depth);

// The link from each rank of a domain into its NVSwitch plane, and the one back; nullopt where the
// domain has none.
struct SwitchPort {
  int up = 0, down = 0;
};
std::optional<std::vector<SwitchPort>> SwitchPorts(const std::vector<int>& domain,
                                                   const Cluster& cluster);

// A binary tree over 0 … n-1 with root 0, in-order, whose odd numbers are leaves: parent of each
// vertex, -1 for the root.
std::vector<int> BinaryTree(int n);
// The second tree: the first one's leaves are inner vertices here. Mirrored if n is even, else
// shifted by one (Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan", 2009).
std::vector<int> SecondTree(int n);
int TreeDepth(const std::vector<int>& parent);

// Why an algorithm cannot do `kind` on this group, and what to do instead; empty where it can.
// `sharp`: the network's switches reduce.
struct Refusal {
  std::string why, help;
  bool empty() const { return why.empty(); }
};
Refusal WhyNot(CollectiveAlgorithm algorithm, CollectiveKind kind, const GroupShape& shape,
               const Cluster& cluster, double compute_capability, bool sharp);
// Throws E0562 where there is a refusal.
void CheckApplies(CollectiveAlgorithm algorithm, CollectiveKind kind, const GroupShape& shape,
                  const Cluster& cluster, double compute_capability, bool sharp);

}  // namespace aurum
