#include "sim/collectives/group_shape.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <utility>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

std::vector<std::vector<int>> SplitByDomain(const RankGroup& group, const Cluster& cluster) {
  std::vector<std::pair<int, std::vector<int>>> domains;
  std::map<int, std::size_t> place;
  for (const int gpu : group) {
    const int domain = cluster.NvLinkDomainOf(gpu);
    // Ranks of a domain mostly stand together: look at the last one first.
    if (!domains.empty() && domains.back().first == domain) {
      domains.back().second.push_back(gpu);
      continue;
    }
    const auto [found, fresh] = place.try_emplace(domain, domains.size());
    if (fresh) {
      domains.push_back({domain, {gpu}});
    } else {
      domains[found->second].second.push_back(gpu);
    }
  }
  std::vector<std::vector<int>> ranks;
  ranks.reserve(domains.size());
  for (auto& domain : domains) ranks.push_back(std::move(domain.second));
  return ranks;
}

// The leaf switch at the NIC through which `gpu` talks to `other`; -1 where the route has none.
int LeafOf(int gpu, int other, const Cluster& cluster) {
  for (const int id : cluster.Route(gpu, other)) {
    const int to = cluster.links()[id].to;
    if (cluster.vertices()[to].kind == VertexKind::kLeaf) return to;
  }
  return -1;
}

}  // namespace

GroupShape ShapeOf(const RankGroup& group, const Cluster& cluster, int channels) {
  assert(!group.empty());
  GroupShape shape;
  shape.ranks = static_cast<int>(group.size());
  shape.domains = SplitByDomain(group, cluster);
  shape.least = group.size();
  for (const std::vector<int>& domain : shape.domains) {
    shape.most = std::max(shape.most, domain.size());
    shape.least = std::min(shape.least, domain.size());
    shape.order.insert(shape.order.end(), domain.begin(), domain.end());
  }
  shape.nvlink = cluster.HasNvLink() && cluster.NvLinkDomainOf(group.front()) >= 0;
  shape.channels = shape.least;
  if (channels > 0) {
    shape.channels = std::min(shape.channels, static_cast<std::size_t>(channels));
  } else if (!shape.nvlink) {
    shape.channels =
        std::min(shape.channels, static_cast<std::size_t>(std::max(1, cluster.nics_per_node)));
  }
  return shape;
}

std::optional<std::vector<std::vector<RankGroup>>> Levels(const GroupShape& shape,
                                                          const Cluster& cluster, int depth) {
  if (!shape.SeveralDomains() || !shape.EvenDomains()) return std::nullopt;
  std::vector<std::vector<RankGroup>> levels{shape.domains};
  if (depth == 2) {
    if (shape.most < 2) return std::nullopt;
    std::vector<RankGroup>& between = levels.emplace_back();
    for (std::size_t place = 0; place < shape.most; ++place) {
      RankGroup& ring = between.emplace_back();
      for (const std::vector<int>& domain : shape.domains) ring.push_back(domain[place]);
    }
    return levels;
  }
  // Pods, in order of first appearance.
  std::vector<std::vector<std::size_t>> pods;
  std::map<int, std::size_t> pod_of_leaf;
  for (std::size_t d = 0; d < shape.domains.size(); ++d) {
    const std::size_t other = (d + 1) % shape.domains.size();
    const int leaf = LeafOf(shape.domains[d].front(), shape.domains[other].front(), cluster);
    if (leaf < 0) return std::nullopt;
    const auto [found, fresh] = pod_of_leaf.try_emplace(leaf, pods.size());
    if (fresh) pods.emplace_back();
    pods[found->second].push_back(d);
  }
  if (pods.size() < 2 || pods.front().size() < 2) return std::nullopt;
  for (const auto& pod : pods) {
    if (pod.size() != pods.front().size()) return std::nullopt;
  }
  std::vector<RankGroup> within, between;
  for (std::size_t place = 0; place < shape.most; ++place) {
    for (const auto& pod : pods) {
      RankGroup& ring = within.emplace_back();
      for (const std::size_t d : pod) ring.push_back(shape.domains[d][place]);
    }
    for (std::size_t i = 0; i < pods.front().size(); ++i) {
      RankGroup& ring = between.emplace_back();
      for (const auto& pod : pods) ring.push_back(shape.domains[pod[i]][place]);
    }
  }
  levels.push_back(std::move(within));
  levels.push_back(std::move(between));
  return levels;
}

std::optional<std::vector<SwitchPort>> SwitchPorts(const std::vector<int>& domain,
                                                   const Cluster& cluster) {
  if (domain.size() < 2) return std::nullopt;
  std::vector<SwitchPort> ports;
  for (std::size_t i = 0; i < domain.size(); ++i) {
    const int peer = domain[i == 0 ? 1 : 0];
    const std::vector<int> out = cluster.Route(domain[i], peer);
    const std::vector<int> back = cluster.Route(peer, domain[i]);
    if (out.empty() || back.empty()) return std::nullopt;
    const Link& up = cluster.links()[out.front()];
    if (up.kind != LinkKind::kNvLink || cluster.vertices()[up.to].kind != VertexKind::kNvSwitch)
      return std::nullopt;
    ports.push_back({out.front(), back.back()});
  }
  return ports;
}

// In-order numbering by the lowest set bit b of v: v's subtree is v - b + 1 … v + b - 1, and its
// parent differs from it in that bit and the next one up. Where the parent would lie beyond the
// last vertex, it is the nearest one to the left. Example, n = 6: 0 has 4; 4 has 2 and 5; 2 has 1
// and 3.
std::vector<int> BinaryTree(int n) {
  std::vector<int> parent(static_cast<std::size_t>(n), -1);
  for (int v = 1; v < n; ++v) {
    const int bit = v & -v;
    const int right = (v - bit) | (2 * bit);
    parent[static_cast<std::size_t>(v)] = right < n ? right : v - bit;
  }
  return parent;
}

std::vector<int> SecondTree(int n) {
  const std::vector<int> first = BinaryTree(n);
  const auto name = [n](int v) { return n % 2 == 0 ? n - 1 - v : (v + 1) % n; };
  std::vector<int> parent(static_cast<std::size_t>(n), -1);
  for (int v = 0; v < n; ++v) {
    const int up = first[static_cast<std::size_t>(v)];
    parent[static_cast<std::size_t>(name(v))] = up < 0 ? -1 : name(up);
  }
  return parent;
}

int TreeDepth(const std::vector<int>& parent) {
  int deepest = 0;
  for (std::size_t v = 0; v < parent.size(); ++v) {
    int depth = 0;
    for (int up = parent[v]; up >= 0; up = parent[static_cast<std::size_t>(up)]) ++depth;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

Refusal WhyNot(CollectiveAlgorithm algorithm, CollectiveKind kind, const GroupShape& shape,
               const Cluster& cluster, double compute_capability, bool sharp) {
  if (!IsDefinedFor(algorithm, kind)) {
    std::string known;
    for (const CollectiveAlgorithm other : NamedAlgorithms()) {
      if (IsDefinedFor(other, kind))
        known += (known.empty() ? "" : ", ") + CollectiveAlgorithmName(other);
    }
    return {"there is no such algorithm", "auto, or one of: " + known};
  }
  switch (algorithm) {
    case CollectiveAlgorithm::kHalvingDoubling:
      if (kind != CollectiveKind::kAllReduce &&
          !std::has_single_bit(static_cast<unsigned>(shape.ranks)))
        return {"the number of ranks is not a power of two", "auto or ring, or 2, 4, 8, … ranks"};
      return {};
    case CollectiveAlgorithm::kNvls:
      if (compute_capability < 9)
        return {"its switches do not reduce: that wants compute capability 9.0 (H100) or later",
                "ring or tree"};
      for (const std::vector<int>& domain : shape.domains) {
        if (!SwitchPorts(domain, cluster))
          return {"it wants an NVSwitch and two or more ranks in every domain", "ring or tree"};
      }
      if (shape.SeveralDomains() && (kind != CollectiveKind::kAllReduce || !shape.EvenDomains()))
        return {"between domains it does all_reduce alone, with equally many ranks in each",
                "auto or ring"};
      return {};
    case CollectiveAlgorithm::kSharp:
      if (!sharp)
        return {"the network is not said to reduce", "set the option for in-network reduction"};
      if (!shape.SeveralDomains() || !shape.EvenDomains())
        return {"it wants two or more domains with equally many ranks", "auto or ring"};
      return {};
    case CollectiveAlgorithm::kHierarchical:
      if (!Levels(shape, cluster, 2))
        return {"it wants two or more domains with equally many ranks, at least two",
                "auto or ring"};
      return {};
    case CollectiveAlgorithm::kHierarchical3:
      if (!Levels(shape, cluster, 3))
        return {"it wants two or more leaf switches with equally many domains, at least two",
                "hierarchical, auto or ring"};
      return {};
    default:
      return {};
  }
}

void CheckApplies(CollectiveAlgorithm algorithm, CollectiveKind kind, const GroupShape& shape,
                  const Cluster& cluster, double compute_capability, bool sharp) {
  const Refusal refusal = WhyNot(algorithm, kind, shape, cluster, compute_capability, sharp);
  if (refusal.empty()) return;
  ThrowInput(562,
             "algorithm \"" + CollectiveAlgorithmName(algorithm) + "\" cannot do " +
                 CollectiveName(kind) + " with " + std::to_string(shape.ranks) + " ranks of " +
                 cluster.name + ": " + refusal.why,
             refusal.help);
}

}  // namespace aurum
