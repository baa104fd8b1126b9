#include "sim/collectives/interference.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "sim/collectives/protocol.h"

namespace aurum {

// A collective of NCCL is a kernel. Each of its channels is one thread block of up to 640 threads,
// which fills an SM; the SMs that hold one are lost to a GEMM for as long as the collective runs. Its
// blocks also read and write device memory, which a memory-bound kernel then lacks.
//
// SMs. NCCL logs 24 channels for collectives on A100 and H100 nodes with NVSwitch and 32 on
// Blackwell ("24 coll channels, 16 nvls channels, 32 p2p channels"). NVLS takes 16 on Hopper, 24 on
// Blackwell in one node and 32 on several (NCCL, src/transport/nvls.cc: NVLS_NCHANNELS_SM90,
// _SM100_NVL, _SM100): the switch does the additions. Between nodes rings and trees have two channels
// a NIC (src/graph/connect.cc doubles what the search finds), 16 with eight. On PCIe alone the search
// finds one ring, doubled. All-to-all and send-receive run on point-to-point channels: 32 on NVLink,
// two a NIC between nodes. A short message gets fewer: a block of 512 threads wants 64 bytes each
// (NCCL_SIMPLE_THREAD_THRESHOLD), 32 KiB a channel.
//
// Memory. Per byte that a GPU sends in a ring: reduce-scatter reads the received byte and its own and
// the neighbour's write lands in memory, 2 reads and 1 write; all-gather reads the received byte,
// copies it to the output, and again the neighbour's write lands, 1 read and 2 writes; all-reduce is
// one after the other. So 3 each. Through a NIC the byte is first written to a buffer that the NIC
// reads: 2 more of that part. NVLS works on buffers of its own, which are filled from the input and
// emptied into the output: the switch reads and writes each byte of the buffer once, the two copies
// read and write it once more each: 6 a byte of the message, not of the bus. Point to point: read,
// write into the peer's buffer, read there, write to the output: 3 at a GPU that sends and receives.
// The second-level cache may save part of this while nothing else runs; beside a kernel that streams
// through it, it does not.
//
// What the kernel beside it feels. Arithmetic is spread over fewer SMs: 1 / (1 - share). For the
// memory both queue in proportion to what they ask for: kernel C, which it would get alone, and
// collective H, so 1 + H/C. The longer of the two is the kernel's time. Example, H100, ring between
// nodes at 380 GB/s of busbw on 16 SMs: compute-bound 132/116 = 1.14, memory-bound 1 + 1.24/2.68 =
// 1.46.
//
// Published for comparison: compute 18.9 % slower on average beside communication and 40 % at most
// (GPT and LLaMA on 4 A100, H100, MI210, MI250; "Characterizing Compute-Communication Overlap in
// GPU-Accelerated Distributed Deep Learning", arXiv 2507.03114, 2025); a GEMM of exactly 132 tiles on
// H100 beside a 24-block all-gather falls from 80 % to 47 % of peak, 1.7 times as long (NVIDIA
// developer forum, topic 337991): WaveSlowdown's second wave.

namespace {

constexpr double kBytesOfChannel = 64 * 512;
constexpr double kMostShare = 0.5;

int NvLinkChannels(double compute_capability) { return compute_capability >= 10 ? 32 : 24; }

int NvlsChannels(double compute_capability, bool several_domains) {
  if (compute_capability < 10) return 16;
  return several_domains ? 32 : 24;
}

// Whether a measured all-reduce inside a domain stands for NVLS: there alone it is the fastest
// (envelope.cc).
bool ByNvls(CollectiveKind kind, const GroupShape& shape, const Cluster& cluster,
            const Profile& profile, const CollectiveCost& cost) {
  if (cost.algorithm == CollectiveAlgorithmName(CollectiveAlgorithm::kNvls)) return true;
  return cost.algorithm == "envelope" && kind == CollectiveKind::kAllReduce &&
         NvlsBeatsRing(profile.device.compute_capability, shape.ranks) &&
         WhyNot(CollectiveAlgorithm::kNvls, kind, shape, cluster, profile.device.compute_capability,
                false)
             .empty();
}

}  // namespace

Interference InterferenceOf(CollectiveKind kind, double bytes, const RankGroup& group,
                            const Cluster& cluster, const Profile& profile,
                            const CollectiveCost& cost) {
  assert(std::isfinite(bytes) && bytes >= 0);
  if (group.size() < 2 || bytes <= 0 || cost.seconds <= 0) return {};
  const GroupShape shape = ShapeOf(group, cluster, 0);
  const double cc = profile.device.compute_capability;
  const bool several = shape.SeveralDomains();
  const bool nvls = ByNvls(kind, shape, cluster, profile, cost);
  const bool pairs = kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kSendRecv;
  int channels = 2;  // PCIe
  if (nvls) {
    channels = NvlsChannels(cc, several);
  } else if (several) {
    const int nics = std::max(1, cluster.nics_per_node);
    channels = pairs ? 2 : 2 * nics;
    if (pairs && shape.nvlink && shape.most > 1) channels = 32;
  } else if (shape.nvlink) {
    channels = pairs ? 32 : NvLinkChannels(cc);
  }
  channels = std::min(channels, static_cast<int>(std::ceil(bytes / kBytesOfChannel)));

  double accesses = 0;  // bytes of memory traffic
  if (nvls) {
    accesses = 6 * bytes;
    if (several) accesses += 4 * bytes / static_cast<double>(shape.most);
  } else {
    const double sent = bytes * BusFactor(kind, shape.ranks);
    accesses = 3 * sent;
    if (several) accesses += 2 * sent / static_cast<double>(pairs ? 1 : shape.channels);
  }
  Interference taken;
  const int sms = profile.device.sm_count;
  if (sms > 0) taken.sm_share = std::min(kMostShare, static_cast<double>(channels) / sms);
  taken.hbm_bytes_per_s = accesses / cost.seconds;
  return taken;
}

double ComputeSlowdown(const Interference& interference, const Profile& profile, double compute_s,
                       double memory_s) {
  assert(compute_s >= 0 && memory_s >= 0 && compute_s + memory_s > 0);
  const double reached =
      profile.device.memory_bandwidth_bytes_per_s * profile.memory_bound_efficiency;
  const double crowded = reached > 0 ? 1 + interference.hbm_bytes_per_s / reached : 1;
  const double beside = std::max(compute_s / (1 - interference.sm_share), memory_s * crowded);
  return beside / std::max(compute_s, memory_s);
}

double WaveSlowdown(const Interference& interference, const Profile& profile, double tiles) {
  assert(tiles >= 1);
  const double sms = profile.device.sm_count;
  if (sms <= 0) return 1;
  const double left = std::max(1.0, std::round(sms * (1 - interference.sm_share)));
  return std::ceil(tiles / left) / std::ceil(tiles / sms);
}

}  // namespace aurum
