#include "sim/collectives/health.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>
#include <utility>

#include "sim/core/units.h"

namespace aurum {

// A cause is a hypothesis that can be priced: the same collective without NVLS, with one NIC less,
// over TCP, with GPUs that talk through PCIe. What it predicts for the large messages is laid beside
// the measurement, and those that come within kMatch are named, the nearest first. Example: 8 H100
// measure 362 GB/s of 480; without NVLS 366 are expected, with one NVLink less 453: "a ring instead
// of NVLS".

namespace {

constexpr double kLarge = 32 * kMiB;
constexpr double kMatch = 0.12;

double Middle(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Cause {
  double distance = 0;
  std::string text;
};

class Search {
 public:
  Search(const Health& health, const RankGroup& group, const Cluster& cluster,
         const Profile& profile, const ExpectOptions& options)
      : health_(health),
        group_(group),
        cluster_(cluster),
        profile_(profile),
        options_(options),
        shape_(ShapeOf(group, cluster, 0)) {
    for (const SizeHealth& size : health.sizes) {
      if (size.expected.bytes < kLarge) continue;
      bytes_.push_back(size.expected.bytes);
      measured_.push_back(size.measured_busbw_bytes_per_s);
    }
  }

  std::vector<std::string> Run() {
    if (bytes_.empty()) {
      return {
          "only small messages: what they take is latency, of CPU affinity, power states, "
          "GPUDirect or the network's"};
    }
    const bool between = shape_.SeveralDomains();
    if (options_.nvls && health_.kind == CollectiveKind::kAllReduce && UsesNvls()) {
      ExpectOptions rings = options_;
      rings.nvls = false;
      Try(cluster_, profile_, rings,
          "a ring instead of NVLS: NCCL_NVLS_ENABLE, Fabric Manager, NCCL 2.18 or later, and in "
          "virtual machines the multicast of NVSwitch");
    }
    if (between) {
      const int nics = cluster_.nics_per_node;
      for (int missing = 1; missing < nics && missing <= nics / 2; ++missing) {
        const double left = static_cast<double>(nics - missing) / nics;
        Try(cluster_.WithScaledLinks(1, 1, left), profile_, options_,
            std::to_string(missing) + " of " + std::to_string(nics) +
                " rails missing: NCCL_IB_HCA, links down (ibstat), cables");
      }
      Cluster tcp = cluster_;
      tcp.transport = Transport::kTcp;
      Try(tcp, profile_, options_,
          "TCP instead of " + std::string(TransportName(cluster_.transport)) +
              ": NCCL_IB_DISABLE, the network plugin, NCCL_SOCKET_IFNAME (NCCL_DEBUG=INFO says "
              "NET/…)");
      if (nics > 1) {
        Cluster one = cluster_.WithScaledLinks(1, 1, 1.0 / nics);
        Try(one, profile_, options_, "one NIC of " + std::to_string(nics) + " in use: NCCL_IB_HCA");
        one.transport = Transport::kTcp;
        Try(one, profile_, options_,
            "TCP over one interface instead of " + std::string(TransportName(cluster_.transport)) +
                ": NCCL_IB_DISABLE, the network plugin, NCCL_SOCKET_IFNAME");
      }
    }
    if (shape_.nvlink && shape_.most > 1) {
      double pcie = 0, nvlink = 0;
      for (const Link& link : cluster_.links()) {
        if (link.kind == LinkKind::kPcie) pcie = std::max(pcie, link.bandwidth_bytes_per_s);
        if (IsGpuLink(link.kind)) nvlink = std::max(nvlink, link.bandwidth_bytes_per_s);
      }
      if (pcie > 0 && nvlink > pcie) {
        // Half a PCIe link: without peer-to-peer each byte crosses it to the host and back.
        for (const double share : {1.0, 0.5}) {
          Profile bare;
          bare.device = profile_.device;
          ExpectOptions rings = options_;
          rings.nvls = false;
          Try(cluster_.WithScaledLinks(share * pcie / nvlink, 1, 1), bare, rings,
              share == 1 ? "PCIe instead of NVLink: NCCL_P2P_LEVEL, nvidia-smi nvlink -s"
                         : "no peer-to-peer, copies through host memory: NCCL_P2P_DISABLE, ACS and "
                           "IOMMU of the PCIe switches");
        }
      }
    }
    std::stable_sort(causes_.begin(), causes_.end(),
                     [](const Cause& a, const Cause& b) { return a.distance < b.distance; });
    std::vector<std::string> texts;
    for (const Cause& cause : causes_) {
      if (texts.size() < 3) texts.push_back(cause.text);
    }
    if (between && Falls())
      texts.insert(
          texts.begin(),
          "busbw falls as messages grow: a congested or oversubscribed fabric, ECN or PFC");
    if (texts.empty()) {
      texts.push_back(
          between ? "none of the usual ones fits: look for one slow node (the same test on pairs), "
                    "GPUDirect RDMA (nvidia_peermem), PCIe links trained down"
                  : "none of the usual ones fits: look for clocks held down, other processes, "
                    "NVLinks that are off (nvidia-smi nvlink -s)");
    }
    return texts;
  }

 private:
  bool UsesNvls() const {
    return std::any_of(health_.sizes.begin(), health_.sizes.end(),
                       [](const SizeHealth& size) { return size.expected.algorithm == "nvls"; });
  }

  // The largest message at under 0.85 of the best.
  bool Falls() const {
    return measured_.back() < 0.85 * *std::max_element(measured_.begin(), measured_.end());
  }

  void Try(const Cluster& cluster, const Profile& profile, const ExpectOptions& options,
           std::string text) {
    const std::vector<Expectation> expected =
        Expect(health_.kind, group_, bytes_, cluster, profile, options);
    std::vector<double> distances;
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      distances.push_back(std::abs(std::log(measured_[i] / expected[i].busbw_bytes_per_s)));
    const double distance = Middle(distances);
    if (distance < kMatch) causes_.push_back({distance, std::move(text)});
  }

  const Health& health_;
  const RankGroup& group_;
  const Cluster& cluster_;
  const Profile& profile_;
  const ExpectOptions& options_;
  GroupShape shape_;
  std::vector<double> bytes_, measured_;
  std::vector<Cause> causes_;
};

}  // namespace

std::string VerdictName(HealthVerdict verdict) {
  switch (verdict) {
    case HealthVerdict::kHealthy:
      return "healthy";
    case HealthVerdict::kBelow:
      return "below expectation";
    case HealthVerdict::kAbove:
      return "above expectation";
  }
  return "";
}

Health Examine(const NcclTestRun& run, CollectiveKind kind, int gpus, const Cluster& cluster,
               const Profile& profile, const ExpectOptions& options) {
  assert(gpus >= 2 && gpus <= cluster.GpuCount());
  Health health;
  health.kind = kind;
  health.gpus = gpus;
  RankGroup group;
  for (int gpu = 0; gpu < gpus; ++gpu) group.push_back(gpu);
  // A type of one byte is added by no switch.
  ExpectOptions asked = options;
  asked.nvls = options.nvls && std::none_of(run.rows.begin(), run.rows.end(), [](const auto& row) {
                 return row.type == "int8" || row.type == "uint8";
               });
  std::vector<double> bytes;
  for (const NcclTestRow& row : run.rows) bytes.push_back(row.bytes);
  const std::vector<Expectation> expected = Expect(kind, group, bytes, cluster, profile, asked);
  std::vector<double> shares, large;
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const NcclTestRow& row = run.rows[i];
    SizeHealth& size = health.sizes.emplace_back();
    size.expected = expected[i];
    // By the times, which have more digits than a busbw of 0.00.
    double least_s = row.out_of_place_s;
    if (row.in_place_s > 0 && (least_s <= 0 || row.in_place_s < least_s)) least_s = row.in_place_s;
    size.measured_busbw_bytes_per_s = row.bytes * BusFactor(kind, gpus) / least_s;
    size.share = size.measured_busbw_bytes_per_s / size.expected.busbw_bytes_per_s;
    size.wrong = row.wrong;
    health.wrong = health.wrong || row.wrong;
    if (size.measured_busbw_bytes_per_s < size.expected.busbw_low_bytes_per_s)
      size.verdict = HealthVerdict::kBelow;
    if (size.measured_busbw_bytes_per_s > size.expected.busbw_high_bytes_per_s)
      size.verdict = HealthVerdict::kAbove;
    if (size.verdict == HealthVerdict::kBelow) {
      if (health.below_from_bytes == 0 || row.bytes < health.below_from_bytes)
        health.below_from_bytes = row.bytes;
      health.below_to_bytes = std::max(health.below_to_bytes, row.bytes);
    }
    shares.push_back(size.share);
    if (row.bytes >= kLarge) large.push_back(size.share);
  }
  health.share = Middle(large.empty() ? shares : large);
  // The verdict of most of the sizes that count.
  int below = 0, above = 0, counted = 0;
  for (const SizeHealth& size : health.sizes) {
    if (!large.empty() && size.expected.bytes < kLarge) continue;
    ++counted;
    below += size.verdict == HealthVerdict::kBelow ? 1 : 0;
    above += size.verdict == HealthVerdict::kAbove ? 1 : 0;
  }
  if (2 * below >= counted) health.verdict = HealthVerdict::kBelow;
  if (2 * above > counted) health.verdict = HealthVerdict::kAbove;
  if (health.verdict == HealthVerdict::kBelow)
    health.causes = Search(health, group, cluster, profile, asked).Run();
  if (health.verdict == HealthVerdict::kAbove)
    health.causes = {
        "the cluster described is slower than the one measured: more or faster NICs or "
        "NVLinks, or fewer GPUs in the test"};
  return health;
}

}  // namespace aurum
