#include "sim/collectives/protocol.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/collectives/flows.h"

namespace aurum {

// LL sends 4 bytes of flag with 4 of data, so the receiver polls data itself and a step is as long as
// the links; half the rate is lost. LL128 has 8 bytes of flag in 128, but rests on NVLink's keeping
// 128 bytes together. Simple sends whole chunks and signals after each with a fence: full rate, long
// steps. So small messages go by LL, medium ones by LL128, large ones by Simple, and time over size is
// an envelope of three lines:
//
//   t = base + steps · (links + software) + bytes / (rate · share)      the least of the three
//
// Figures, µs, of NCCL 2.30 (src/tuning/cost_model.cc: baseLatencies, hwLatencies; ring.cc, tree.cc:
// shares of the rate). Its step is 0.6 on NVLink, 1.0 on PCIe and 2.7 between nodes for LL, which is
// what the links of Aurum's clusters add up to; the rest of each figure is software here.
//
//                        LL            LL128              Simple
//   base                 6.6           14.0               8.4
//   ring:  NVLink        0.6           1.9                3.4
//          PCIe          1.0           2.5                5.7
//          network       2.7           4.0                14.0
//   tree:  NVLink        0.6           1.25               4.0
//          PCIe          1.0           1.9                4.0
//          network       5.0           8.5                14.0
//   share, ring          1/2           0.92               1
//          tree          1/3.8         120/128            0.92
//
// LL on one GPU's links is at most 87.7 GB/s of busbw on Ampere in one node, 22.5 on two, 19 on more;
// 141, 45, 35 on Hopper; twice that on Blackwell; 39, 39, 20.4 on Volta (llMaxBws). NVLS is Simple
// alone: 25 µs in the node and 20.9 a step of the tree between nodes, latency.cc.
//
// Transports. InfiniBand: 96 of 100 GB/s is what 4 × 200 Gbit/s are expected to give (NVIDIA/nccl
// issue 1048); packets of 4,096 bytes have 62 of headers and gaps (0.985), completions and credits
// take the rest. EFA: frames of 8,928 bytes; the step of its SRD is 20 µs longer than an InfiniBand
// step: all-reduces of 8 bytes on two p5 nodes take 69 µs (aws-samples/awsome-distributed-training,
// micro-benchmarks/nccl-tests), where NCCL's figures alone say 25 for the tree's two steps; the
// plugin itself tells NCCL 75 µs on p5 and 35 on later ones (aws-ofi-nccl, src/platform-aws.c). It
// also sets NCCL_NVLSTREE_MAX_CHUNKSIZE to 512 KiB. RoCE and Slingshot carry the same payload in larger
// headers (Ethernet, IP, UDP: 0.98) and share it with congestion control; 0.93 is assumed, and
// all-reduces of 8 bytes on two Slingshot nodes take 18 µs (eth-cscs/cscs-docs), NCCL's figures alone
// 20. Omni-Path has no GPUDirect in NCCL: messages are copied through host memory, 0.5 assumed. TCP:
// copied by the kernel on both sides; 0.4 of a fast NIC and 30 µs assumed.

namespace {

constexpr TransportFacts kInfiniBandFacts{0.96, 0, 0, "96 of 100 GB/s: NVIDIA/nccl issue 1048"};
constexpr TransportFacts kRoceFacts{0.93, 0, 0, "headers 0.98 and congestion control: assumed"};
constexpr TransportFacts kEfaFacts{
    0.96, 20e-6, 512 * 1024.0,
    "20 µs: 8-byte all-reduces on p5 nodes; chunks: aws-ofi-nccl, src/platform-aws.c"};
constexpr TransportFacts kSlingshotFacts{0.93, 0, 0, "as RoCE: assumed"};
constexpr TransportFacts kOmniPathFacts{0.5, 5e-6, 0, "no GPUDirect: assumed"};
constexpr TransportFacts kTcpFacts{0.4, 30e-6, 0, "copied by the kernel: assumed"};

struct Figures {
  Protocol protocol;
  double base_s;
  double ring_nvlink_s, ring_pcie_s, ring_network_s;
  double tree_nvlink_s, tree_pcie_s, tree_network_s;
  double ring_share, tree_share;
};
constexpr std::array<Figures, 3> kFigures{{
    {Protocol::kLl, 6.6e-6, 0.6e-6, 1.0e-6, 2.7e-6, 0.6e-6, 1.0e-6, 5.0e-6, 0.5, 1 / 3.8},
    {Protocol::kLl128, 14e-6, 1.9e-6, 2.5e-6, 4.0e-6, 1.25e-6, 1.9e-6, 8.5e-6, 0.92, 0.9375},
    {Protocol::kSimple, 8.4e-6, 3.4e-6, 5.7e-6, 14e-6, 4.0e-6, 4.0e-6, 14e-6, 1, 0.92},
}};
// Of the above, what the links themselves take.
constexpr double kNvLinkLinks_s = 0.6e-6, kPcieLinks_s = 1.0e-6, kNetworkLinks_s = 2.7e-6;

// busbw, B/s: one node, two, more.
double MostByLl(double compute_capability, int nodes) {
  const std::size_t at = nodes <= 1 ? 0 : nodes == 2 ? 1 : 2;
  if (compute_capability >= 10) return std::array{282e9, 90e9, 70e9}[at];
  if (compute_capability >= 9) return std::array{141e9, 45e9, 35e9}[at];
  if (compute_capability >= 8) return std::array{87.7e9, 22.5e9, 19e9}[at];
  return std::array{39e9, 39e9, 20.4e9}[at];
}

// Of an NVLS tree with `streams` = channels · GPUs of a node, each of which has one chunk on its way:
// long messages in chunks of `most`, shorter ones in 256, 128, 64 and 32 KiB (src/enqueue.cc).
double NvlsTreeChunk(double bytes, double streams, double most) {
  double chunk = most;
  const auto at_most = [&](double times, double kib) {
    if (bytes < times * streams * most) chunk = std::min(chunk, kib * 1024);
  };
  at_most(32, 256);
  at_most(16, 128);
  at_most(4, 64);
  at_most(1, 32);
  return chunk;
}

int NodesOf(const GroupShape& shape, const Cluster& cluster) {
  int nodes = 0, last = -1;
  for (const int gpu : shape.order) {
    if (cluster.NodeOf(gpu) != last) ++nodes;
    last = cluster.NodeOf(gpu);
  }
  return nodes;
}

}  // namespace

std::string ProtocolName(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLl:
      return "LL";
    case Protocol::kLl128:
      return "LL128";
    case Protocol::kSimple:
      return "Simple";
  }
  return "";
}

const TransportFacts& FactsOf(Transport transport) {
  switch (transport) {
    case Transport::kInfiniBand:
      return kInfiniBandFacts;
    case Transport::kRoce:
      return kRoceFacts;
    case Transport::kEfa:
      return kEfaFacts;
    case Transport::kSlingshot:
      return kSlingshotFacts;
    case Transport::kOmniPath:
      return kOmniPathFacts;
    case Transport::kTcp:
      return kTcpFacts;
  }
  return kInfiniBandFacts;
}

// src/graph/topo.h, per link: 20 of 25 GB/s (V100, A100), 20.6 of 25 (H100), 40.1 of 50 (B200); on
// Ampere no more than 235 of 300 for 12 links (src/graph/tuning.cc).
double NcclNvLinkShare(double compute_capability) {
  if (compute_capability >= 10) return 40.1 / 50;
  if (compute_capability >= 9) return 20.6 / 25;
  if (compute_capability >= 8) return 235.0 / 300;
  return 20.0 / 25;
}

double NvlsShare(double compute_capability) {
  if (compute_capability >= 10) return 0.74;
  return compute_capability >= 9 ? 0.85 : 0;
}

bool NvlsBeatsRing(double compute_capability, int ranks) {
  return NvlsShare(compute_capability) * BusFactor(CollectiveKind::kAllReduce, ranks) >
         1 + 1.0 / ranks;
}

bool HasProtocols(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::kRing || algorithm == CollectiveAlgorithm::kTree ||
         algorithm == CollectiveAlgorithm::kNvls || algorithm == CollectiveAlgorithm::kDirect;
}

ProtocolTime BestProtocol(CollectiveAlgorithm algorithm, CollectiveKind kind, double bytes,
                          const GroupShape& shape, const Cluster& cluster,
                          double compute_capability, double intra_s, double network_s,
                          bool over_network, double flow_s) {
  assert(HasProtocols(algorithm));
  const TransportFacts& transport = FactsOf(cluster.transport);
  const double message_s = over_network ? transport.message_s : 0;
  if (algorithm == CollectiveAlgorithm::kNvls) {
    StepLatencies step{intra_s, network_s + message_s};
    if (over_network) {
      const double channels = compute_capability >= 10 ? 32 : 16;
      const double most = transport.chunk_bytes > 0 ? transport.chunk_bytes : kChunkBytes;
      step.chunk_bytes =
          channels * NvlsTreeChunk(bytes, channels * static_cast<double>(shape.most), most);
    }
    const double depth = std::ceil(std::log2(static_cast<double>(shape.domains.size())));
    return {Protocol::kSimple,
            LatencySeconds(algorithm, kind, bytes, shape, cluster, step, flow_s) +
                2 * depth * message_s,
            flow_s};
  }
  const bool tree = algorithm == CollectiveAlgorithm::kTree;
  const int nodes = NodesOf(shape, cluster);
  const double on_bus = bytes * BusFactor(kind, shape.ranks);
  ProtocolTime best;
  double least = std::numeric_limits<double>::infinity();
  for (const Figures& figures : kFigures) {
    const bool nvlink_only = figures.protocol == Protocol::kLl128;
    if (nvlink_only && (!shape.nvlink || compute_capability < 7)) continue;
    if (nvlink_only && algorithm == CollectiveAlgorithm::kDirect) continue;  // point to point
    const double nvlink_s = tree ? figures.tree_nvlink_s : figures.ring_nvlink_s;
    const double pcie_s = tree ? figures.tree_pcie_s : figures.ring_pcie_s;
    StepLatencies step;
    step.intra_s = intra_s + (shape.nvlink ? nvlink_s - kNvLinkLinks_s : pcie_s - kPcieLinks_s);
    step.between_s = step.intra_s;
    if (over_network) {
      step.between_s = network_s - kNetworkLinks_s + message_s +
                       (tree ? figures.tree_network_s : figures.ring_network_s);
    }
    double share = tree ? figures.tree_share : figures.ring_share;
    // Two nodes: either tree crosses each way once, half of what NCCL reckons, so NCCL leaves it for
    // the ring as early as with more nodes. Priced as it reckons.
    if (tree && nodes == 2) share /= 2;
    ProtocolTime time;
    time.protocol = figures.protocol;
    time.flow_s = flow_s / share;
    if (figures.protocol == Protocol::kLl)
      time.flow_s = std::max(time.flow_s, on_bus / MostByLl(compute_capability, nodes));
    time.latency_s =
        figures.base_s + LatencySeconds(algorithm, kind, bytes, shape, cluster, step, time.flow_s);
    if (time.latency_s + time.flow_s >= least) continue;
    least = time.latency_s + time.flow_s;
    best = time;
  }
  return best;
}

}  // namespace aurum
