#include "sim/collectives/flows.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

namespace aurum {

// Symbols: n ranks in a group, D domains (NVLink domains; without NVLink, nodes) with r ranks of
// the group each, S bytes as nccl-tests counts them, F = BusFactor(kind, n) the bytes on the
// busiest link of a ring per byte of S, c channels, a intra step, e step between domains.
//
// ring. NCCL runs c parallel rings ("channels"), each through all n ranks, each leaving a node at
// another rank, through that rank's own NIC; each carries 1/c of the data. So rank k of a domain
// sends F·S/c to rank k of the next domain, and to its neighbour inside what the rings carry that
// do not leave at it: F·S·(c − 1)/c if one does, F·S if none does. c = r with NVLink, else min(r,
// NICs of the node). Latency: passes · ((n − D)·a + D·e), passes 2 for all-reduce, 1 for the
// others. A broadcast's chunks go down a chain in every domain, and from domain to domain: 2·(r −
// 1)·a + (D − 1)·e. (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009.)
//
// tree. Half the data goes over each of two binary trees of which either's inner vertices are the
// other's leaves (Sanders, Speck, Träff, 2009), so that no rank sends or receives more than 2·S for
// an all-reduce, and a depth of ⌈log2⌉ takes the ring's place in the latency. As in NCCL, the
// vertices are domains, chained inside: x0 … x(r-1), where x0, another rank on each channel, talks
// to the other domains. Latency 2·((r − 1)·a + depth·e). With one domain the vertices are ranks. A
// broadcast's root feeds both trees from outside. Chunks (ChunkOf) move as soon as they
// arrive; until the last vertex has the first one, hops · chunk / rate passes.
//
// halving-doubling. In step s rank i trades S/2^(s+1) with i xor 2^s, then back again: log2 n steps
// a pass and (n − 1)/n·S of bytes (Rabenseifner, "Optimization of collective reduction operations",
// 2004; Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
// MPICH", 2005). Near partners trade the large pieces. Ranks beyond a power of two fold into a
// neighbour before, S, and are told after, S.
//
// direct. All-to-all: S/n from each to each; all-gather and reduce-scatter likewise; one-shot
// all-reduce and broadcast: S to each. kPeersAtOnce partners at a time.
//
// nvls. The NVSwitch adds up what all ranks of a domain hold of a shard on its way to the shard's
// owner, and copies what the owner stores to all: an all-reduce puts S + S/n on a GPU's link each
// way, where a ring puts 2·S·(n − 1)/n (Klenk et al., "An in-network architecture for accelerating
// shared-memory multiprocessor collectives", ISCA 2020). Between domains ("NVLSTree") shard owners
// of one place do a double tree of S/r.
//
// sharp. As nvls, with the network's switches (Graham et al., "Scalable hierarchical aggregation
// protocol (SHArP)", 2016): every rank sends its S/r once to its leaf and receives it once.
// Above the leaf streams are already added up and are fewer than below: they do not limit.
//
// hierarchical. Reduce-scatter inside, all-reduce of S/r between, all-gather inside, each a ring;
// three-level: with one more level between. One after the other, so their times add up.
//
// pipelined. A ring whose blocks of S/n are cut into chunks that are passed on at once: a link that
// is busy with the rest of a block hides the latency of its first chunk. Of (n − 1) steps of
// latency one remains where a block takes longer than a step.
//
// Send-receive sends S from each rank to the next.
//
// Constants, and where they are from: a ring step took 2 µs inside a node and 12 µs between nodes
// in the fit of Aurum's op-level model to 202 measured training runs; on the NVLink and same-rail
// routes that those ran on the links account for 0.6 and 2.7 µs (the LL latencies of NCCL,
// src/graph/tuning.cc), so the rest is software: 1.4 and 9.3 µs on top of the route's latency.

namespace {

// Neighbour to neighbour. A broadcast's last rank sends nothing.
void AddRing(const std::vector<int>& ranks, double bytes, bool closed, int phase, WirePlan* plan) {
  const std::size_t n = ranks.size();
  for (std::size_t i = 0; i + (closed ? 0 : 1) < n; ++i)
    plan->Add({ranks[i], ranks[(i + 1) % n], bytes}, phase);
}

void AddRingOfDomains(const GroupShape& shape, double bytes, bool closed, WirePlan* plan) {
  const auto& domains = shape.domains;
  const std::size_t channels = shape.channels;
  const double per_channel = bytes / static_cast<double>(channels);
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const std::vector<int>& here = domains[d];
    const std::vector<int>& next = domains[(d + 1) % domains.size()];
    std::vector<bool> leaves(here.size(), false);
    for (std::size_t channel = 0; channel < channels; ++channel) {
      leaves[channel * here.size() / channels] = true;
      if (!closed && d + 1 == domains.size()) continue;
      plan->Add({RankOfChannel(here, channel, channels), RankOfChannel(next, channel, channels),
                 per_channel});
    }
    if (here.size() == 1) continue;
    for (std::size_t i = 0; i < here.size(); ++i) {
      const double carried = per_channel * static_cast<double>(channels - (leaves[i] ? 1 : 0));
      if (carried > 0) plan->Add({here[i], here[(i + 1) % here.size()], carried});
    }
  }
}

// S/n (or S) from each to each. Inside a domain every pair. Between domains every pair too, or,
// where `most` flows are too few for that, a sample that stands for the others: (domain + q, rank +
// s) of every (domain, rank) is a permutation, so a few evenly spread (q, s) put on the links what
// all of them do, in fewer flows.
void AddEachToEach(const GroupShape& shape, double share, std::size_t most, WirePlan* plan) {
  const auto& domains = shape.domains;
  const std::size_t n = static_cast<std::size_t>(shape.ranks);
  const bool all = n * (n - 1) <= most;
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const std::vector<int>& here = domains[d];
    const std::size_t outside = n - here.size();
    const std::size_t sampled =
        std::clamp<std::size_t>(most / n, 1, std::max<std::size_t>(1, outside));
    for (std::size_t i = 0; i < here.size(); ++i) {
      for (const int peer : here) {
        if (peer != here[i]) plan->Add({here[i], peer, share});
      }
      for (std::size_t q = 1; all && q < domains.size(); ++q) {
        for (const int peer : domains[(d + q) % domains.size()]) plan->Add({here[i], peer, share});
      }
      for (std::size_t k = 0; !all && outside > 0 && k < sampled; ++k) {
        const std::size_t q = 1 + k * (domains.size() - 1) / sampled;
        const std::vector<int>& there = domains[(d + q) % domains.size()];
        plan->Add({here[i], there[(i + k) % there.size()],
                   share * static_cast<double>(outside) / static_cast<double>(sampled)});
      }
    }
  }
}

// Edges of both trees over n vertices: (child, parent).
template <typename Edge>
void ForTreeEdges(int n, Edge edge) {
  for (const auto& parent : {BinaryTree(n), SecondTree(n)}) {
    for (int v = 0; v < n; ++v) {
      if (parent[static_cast<std::size_t>(v)] >= 0) edge(v, parent[static_cast<std::size_t>(v)]);
    }
  }
}

void AddTree(CollectiveKind kind, double bytes, const GroupShape& shape, WirePlan* plan) {
  const bool both_ways = kind == CollectiveKind::kAllReduce;
  if (!shape.SeveralDomains()) {
    const auto rank = [&](int v) { return shape.order[static_cast<std::size_t>(v)]; };
    const int outside = both_ways ? 0 : 1;  // a broadcast's root
    ForTreeEdges(shape.ranks - outside, [&](int child, int parent) {
      if (both_ways) plan->Add({rank(child), rank(parent), bytes / 2});
      plan->Add({rank(parent + outside), rank(child + outside), bytes / 2});
    });
    if (!both_ways) {
      const auto roots = {BinaryTree(shape.ranks - 1), SecondTree(shape.ranks - 1)};
      for (const auto& tree : roots) {
        for (std::size_t v = 0; v < tree.size(); ++v) {
          if (tree[v] < 0) plan->Add({rank(0), rank(static_cast<int>(v) + 1), bytes / 2});
        }
      }
    }
    return;
  }
  const std::size_t c = shape.channels;
  const double half = bytes / static_cast<double>(2 * c);
  const int first = both_ways ? 0 : 1;
  const auto between = [&](int from, int to) {
    for (std::size_t channel = 0; channel < c; ++channel)
      plan->Add({RankOfChannel(shape.domains[static_cast<std::size_t>(from)], channel, c),
                 RankOfChannel(shape.domains[static_cast<std::size_t>(to)], channel, c), half});
  };
  const int vertices = static_cast<int>(shape.domains.size()) - first;
  ForTreeEdges(vertices, [&](int child, int parent) {
    if (both_ways) between(child, parent);
    between(parent + first, child + first);
  });
  if (!both_ways) {
    for (const auto& tree : {BinaryTree(vertices), SecondTree(vertices)}) {
      for (std::size_t v = 0; v < tree.size(); ++v) {
        if (tree[v] < 0) between(0, static_cast<int>(v) + 1);
      }
    }
  }
  // The chain of channel k starts at its rank and goes round: over the edge into rank i go all
  // channels but those that start there.
  for (std::size_t d = 0; d < shape.domains.size(); ++d) {
    const std::vector<int>& here = shape.domains[d];
    if (here.size() == 1) continue;
    std::vector<std::size_t> start_here(here.size(), 0);
    if (!both_ways && d == 0) {
      start_here[0] = c;  // a broadcast's root holds all
    } else {
      for (std::size_t channel = 0; channel < c; ++channel) ++start_here[channel * here.size() / c];
    }
    for (std::size_t i = 0; i < here.size(); ++i) {
      const int before = here[(i + here.size() - 1) % here.size()];
      const double carried = 2 * half * static_cast<double>(c - start_here[i]);
      if (carried <= 0) continue;
      if (both_ways) plan->Add({here[i], before, carried});
      plan->Add({before, here[i], carried});
    }
  }
}

void AddHalvingDoubling(CollectiveKind kind, double bytes, const GroupShape& shape,
                        WirePlan* plan) {
  int phase = 0;
  for (const HalvingStep& step : HalvingSteps(kind, shape.ranks)) {
    for (const auto& [src, dst] : step.sends)
      plan->Add({shape.order[static_cast<std::size_t>(src)],
                 shape.order[static_cast<std::size_t>(dst)], bytes * step.share},
                phase);
    ++phase;
  }
}

void AddNvls(CollectiveKind kind, double bytes, const GroupShape& shape, const Cluster& cluster,
             WirePlan* plan) {
  for (const std::vector<int>& domain : shape.domains) {
    const auto ports = SwitchPorts(domain, cluster);
    assert(ports);
    const double shard = bytes / static_cast<double>(domain.size());
    for (std::size_t i = 0; i < domain.size(); ++i) {
      double up = 0, down = 0;
      if (kind == CollectiveKind::kAllReduce) up = down = bytes + shard;
      if (kind == CollectiveKind::kReduceScatter) up = bytes, down = shard;
      if (kind == CollectiveKind::kAllGather) up = shard, down = bytes;
      if (kind == CollectiveKind::kBroadcast) up = i == 0 ? bytes : 0, down = bytes;
      const int links[] = {(*ports)[i].up, (*ports)[i].down};
      if (up > 0) plan->AddPath({links, 1}, up);
      plan->AddPath({links + 1, 1}, down);
    }
  }
  if (!shape.SeveralDomains()) return;
  const double half = bytes / static_cast<double>(2 * shape.most);
  ForTreeEdges(static_cast<int>(shape.domains.size()), [&](int child, int parent) {
    for (std::size_t i = 0; i < shape.most; ++i) {
      const int lower = shape.domains[static_cast<std::size_t>(child)][i];
      const int upper = shape.domains[static_cast<std::size_t>(parent)][i];
      plan->Add({lower, upper, half});
      plan->Add({upper, lower, half});
    }
  });
}

void AddSharp(double bytes, const GroupShape& shape, const Cluster& cluster, WirePlan* plan) {
  const double shard = bytes / static_cast<double>(shape.most);
  const std::size_t domains = shape.domains.size();
  for (std::size_t d = 0; d < domains; ++d) {
    for (std::size_t i = 0; i < shape.most; ++i) {
      const int here = shape.domains[d][i];
      for (const int peer : shape.domains[d]) {
        if (peer != here) plan->Add({here, peer, 2 * shard});
      }
      const SharpPath path = SharpPathOf(here, shape.domains[(d + 1) % domains][i], cluster);
      plan->AddPath(path.up, shard);
      plan->AddPath(path.down, shard);
    }
  }
}

void AddLevels(CollectiveKind kind, double bytes, const GroupShape& shape, const Cluster& cluster,
               int depth, WirePlan* plan) {
  const auto levels = Levels(shape, cluster, depth);
  assert(levels);
  int phase = 0;
  for (const LevelStep& step : LevelSteps(kind, *levels)) {
    for (const RankGroup& ring : *step.rings) {
      const int n = static_cast<int>(ring.size());
      if (n < 2) continue;
      const double on_bus = bytes * step.share * BusFactor(step.kind, n);
      if (step.kind == CollectiveKind::kAllToAll) {
        for (const int src : ring) {
          for (const int dst : ring) {
            if (src != dst) plan->Add({src, dst, bytes * step.share / n}, phase);
          }
        }
      } else {
        AddRing(ring, on_bus, step.kind != CollectiveKind::kBroadcast, phase, plan);
      }
      // Of a broadcast's highest level only the root's ring moves; what the others would is nothing.
      if (step.kind == CollectiveKind::kBroadcast && phase == 0) break;
    }
    ++phase;
  }
}

}  // namespace

void AddFlows(CollectiveAlgorithm algorithm, CollectiveKind kind, double bytes,
              const GroupShape& shape, const Cluster& cluster, std::size_t most_flows,
              WirePlan* plan) {
  const double on_bus = bytes * BusFactor(kind, shape.ranks);
  switch (algorithm) {
    case CollectiveAlgorithm::kAuto:
      assert(false);
      return;
    case CollectiveAlgorithm::kRing:
    case CollectiveAlgorithm::kPipelined: {
      const bool closed = kind != CollectiveKind::kBroadcast;
      if (shape.SeveralDomains()) return AddRingOfDomains(shape, on_bus, closed, plan);
      return AddRing(shape.order, on_bus, closed, 0, plan);
    }
    case CollectiveAlgorithm::kTree:
      return AddTree(kind, bytes, shape, plan);
    case CollectiveAlgorithm::kHalvingDoubling:
      return AddHalvingDoubling(kind, bytes, shape, plan);
    case CollectiveAlgorithm::kDirect:
      if (kind == CollectiveKind::kBroadcast) {
        for (std::size_t i = 1; i < shape.order.size(); ++i)
          plan->Add({shape.order.front(), shape.order[i], bytes});
        return;
      }
      return AddEachToEach(shape, kind == CollectiveKind::kAllReduce ? bytes : bytes / shape.ranks,
                           most_flows, plan);
    case CollectiveAlgorithm::kNvls:
      return AddNvls(kind, bytes, shape, cluster, plan);
    case CollectiveAlgorithm::kSharp:
      return AddSharp(bytes, shape, cluster, plan);
    case CollectiveAlgorithm::kHierarchical:
      return AddLevels(kind, bytes, shape, cluster, 2, plan);
    case CollectiveAlgorithm::kHierarchical3:
      return AddLevels(kind, bytes, shape, cluster, 3, plan);
  }
}

}  // namespace aurum
