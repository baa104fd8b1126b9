#include "sim/plan/faults.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "sim/core/random.h"

namespace aurum {
namespace {

enum class FaultTarget { kGpus, kNics, kLinks };
constexpr const char* kTargetKeys[] = {"gpus", "nics", "links"};

// Cables by the names of their ends, "a - b"; the number is the cable's.
std::map<std::string, int> CableNames(const Cluster& cluster) {
  std::map<std::string, int> names;
  for (std::size_t link = 0; link < cluster.links().size(); link += 2) {
    const Link& l = cluster.links()[link];
    const std::string a = VertexName(cluster.vertices()[static_cast<std::size_t>(l.from)]);
    const std::string b = VertexName(cluster.vertices()[static_cast<std::size_t>(l.to)]);
    const int cable = static_cast<int>(link / 2);
    names.emplace(a + " - " + b, cable);  // of parallel cables the first
    names.emplace(b + " - " + a, cable);
  }
  return names;
}

// The cable by which each NIC hangs on the network.
std::map<std::string, int> NicCables(const Cluster& cluster) {
  std::map<std::string, int> nics;
  for (std::size_t link = 0; link < cluster.links().size(); link += 2) {
    const Link& l = cluster.links()[link];
    if (l.kind != LinkKind::kNetwork) continue;
    for (const int end : {l.from, l.to}) {
      const Vertex& vertex = cluster.vertices()[static_cast<std::size_t>(end)];
      if (vertex.kind == VertexKind::kNic)
        nics.emplace(VertexName(vertex), static_cast<int>(link / 2));
    }
  }
  return nics;
}

// round(share · count) of 0 … count − 1, at least one: those with the smallest random numbers.
std::vector<int> Draw(double share, std::uint64_t seed, FaultTarget target, int count) {
  std::vector<std::pair<std::uint64_t, int>> order;
  for (int i = 0; i < count; ++i) {
    order.emplace_back(
        RandomBits(seed, static_cast<std::uint64_t>(target), static_cast<std::uint64_t>(i)), i);
  }
  std::sort(order.begin(), order.end());
  const auto taken = std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(share * count)),
                                             count > 0 ? 1 : 0, order.size());
  std::vector<int> drawn;
  for (std::size_t i = 0; i < taken; ++i) drawn.push_back(order[i].second);
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

// What a list names twice, it names once.
void Once(std::vector<int>* devices) {
  std::sort(devices->begin(), devices->end());
  devices->erase(std::unique(devices->begin(), devices->end()), devices->end());
}

// The first few names, and how many more there are.
std::string Some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

class FaultReader {
 public:
  explicit FaultReader(const Cluster& cluster) : cluster_(cluster) {}

  void Read(ObjectReader& reader) {
    int targets = 0;
    FaultTarget target = FaultTarget::kGpus;
    for (const FaultTarget t : {FaultTarget::kGpus, FaultTarget::kNics, FaultTarget::kLinks}) {
      if (!reader.Has(kTargetKeys[static_cast<int>(t)])) continue;
      target = t;
      ++targets;
    }
    if (targets != 1) {
      reader.Fail(351, "", "a fault has one of the keys gpus, nics and links",
                  R"({"gpus": [13], "slowdown": 1.3} or {"nics": ["node0/nic0"], "factor": 0.5})");
    }
    if (target == FaultTarget::kGpus) {
      ReadGpus(reader);
    } else {
      ReadLinks(reader, target);
    }
    reader.Finish();
  }

  // Faults that overlap on one link multiply.
  Faults Take() {
    for (const auto& [link, stretches] : stretches_) {
      std::vector<Time> moments;
      for (const Stretch& stretch : stretches) {
        moments.push_back(stretch.from);
        if (stretch.until < kTimeMax) moments.push_back(stretch.until);
      }
      std::sort(moments.begin(), moments.end());
      moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
      for (const Time at : moments) {
        double factor = 1;
        for (const Stretch& stretch : stretches) {
          if (stretch.from <= at && at < stretch.until) factor *= stretch.factor;
        }
        faults_.link_changes.push_back({at, link, factor});
      }
    }
    return std::move(faults_);
  }

 private:
  // `count` devices: {"share": 0.01, "seed": 1}. False where the value is a list.
  static bool DrawnFrom(ObjectReader& reader, FaultTarget target, int count,
                        std::vector<int>* drawn) {
    const char* key = kTargetKeys[static_cast<int>(target)];
    if (!reader.Value(key).IsObject()) return false;
    ObjectReader some = reader.Object(key);
    const double share = some.Number("share", 1e-9, 1);
    const auto seed = static_cast<std::uint64_t>(some.IntegerOr("seed", 0, 0, 1LL << 53));
    some.Finish();
    *drawn = Draw(share, seed, target, count);
    return true;
  }

  void ReadGpus(ObjectReader& reader) {
    const int count = cluster_.GpuCount();
    std::vector<int> gpus;
    if (!DrawnFrom(reader, FaultTarget::kGpus, count, &gpus)) {
      for (const std::int64_t gpu : reader.Integers("gpus", 0, 1LL << 53)) {
        if (gpu >= count) {
          reader.Fail(350, "gpus",
                      "there is no GPU " + std::to_string(gpu) + " in " + cluster_.name,
                      "GPUs 0 to " + std::to_string(count - 1));
        }
        gpus.push_back(static_cast<int>(gpu));
      }
      if (gpus.empty()) reader.Fail(350, "gpus", "an empty list", "name at least one GPU");
      Once(&gpus);
    }
    if (!reader.Has("slowdown"))
      reader.Fail(351, "", "a slow GPU has a slowdown", "\"slowdown\": 1.3");
    const double slowdown = reader.Number("slowdown", 1, 1e3);
    std::vector<std::string> names;
    for (const int gpu : gpus) names.push_back(std::to_string(gpu));
    faults_.told.push_back((gpus.size() == 1 ? "GPU " : "GPUs ") + Some(names) + ": kernels take " +
                           Short(slowdown) + " times as long");
    if (slowdown == 1) return;
    faults_.gpu_slowdown.resize(static_cast<std::size_t>(count), 1);
    for (const int gpu : gpus) {
      faults_.gpu_slowdown[static_cast<std::size_t>(gpu)] *= slowdown;
    }
  }

  std::vector<int> Cables(ObjectReader& reader, FaultTarget target) {
    const char* key = kTargetKeys[static_cast<int>(target)];
    const std::map<std::string, int> names =
        target == FaultTarget::kNics ? NicCables(cluster_) : CableNames(cluster_);
    if (names.empty()) {
      reader.Fail(350, key, "no NIC of " + cluster_.name + " hangs on a network",
                  "a cluster of several nodes, or name a link");
    }
    std::vector<int> cables;
    if (target == FaultTarget::kNics) {
      for (const auto& [name, cable] : names) cables.push_back(cable);
    } else {
      for (int cable = 0; cable < static_cast<int>(cluster_.links().size() / 2); ++cable)
        cables.push_back(cable);
    }
    std::vector<int> drawn;
    if (DrawnFrom(reader, target, static_cast<int>(cables.size()), &drawn)) {
      for (int& index : drawn) index = cables[static_cast<std::size_t>(index)];
      return drawn;
    }
    for (const std::string& name : reader.Strings(key)) {
      const auto found = names.find(name);
      if (found == names.end()) {
        std::vector<std::string> known;
        for (const auto& [other, cable] : names) known.push_back(other);
        std::string help = "the names that aurum topology shows, e.g. \"" + known.front() + "\"";
        if (const std::string near = NearestName(name, known); !near.empty())
          help = "did you mean '" + near + "'?";
        reader.Fail(
            350, key,
            std::string(target == FaultTarget::kNics ? "there is no NIC '" : "there is no link '") +
                name + "' in " + cluster_.name,
            help);
      }
      drawn.push_back(found->second);
    }
    if (drawn.empty()) reader.Fail(350, key, "an empty list", "name at least one");
    Once(&drawn);
    return drawn;
  }

  void ReadLinks(ObjectReader& reader, FaultTarget target) {
    const std::vector<int> cables = Cables(reader, target);
    if (reader.Has("factor") == reader.Has("retransmission_rate")) {
      reader.Fail(351, "", "a link's fault is either a factor or a retransmission_rate",
                  "\"factor\": 0.5, or \"retransmission_rate\": 0.01");
    }
    const double factor = reader.Has("factor")
                              ? reader.Number("factor", 0, 1)
                              : 1 - reader.Number("retransmission_rate", 0, 0.999999);
    const bool timed = reader.Has("from_s") || reader.Has("until_s");
    const double from = reader.NumberOr("from_s", 0, 0, 1e6);
    const double until = reader.Has("until_s") ? reader.Number("until_s", 0, 1e6) : 0;
    if (reader.Has("until_s") && until <= from)
      reader.Fail(352, "until_s", "the fault ends before it begins", "until_s after from_s");
    if (factor == 0 && !reader.Has("until_s")) {
      reader.Fail(353, "factor", "a link that is down for good ends no transfer",
                  "give until_s, or a factor above 0; a job that loses a link restarts without it",
                  "", ExitCode::kInfeasible);
    }
    std::vector<std::string> ends;
    for (const int cable : cables) {
      const Link& link = cluster_.links()[static_cast<std::size_t>(2 * cable)];
      ends.push_back(VertexName(cluster_.vertices()[static_cast<std::size_t>(link.from)]) + " - " +
                     VertexName(cluster_.vertices()[static_cast<std::size_t>(link.to)]));
    }
    std::string told =
        Some(ends) + (factor == 0 ? ": down" : ": " + Short(factor) + " of the rate");
    if (timed) {
      told += " from " + Short(from) + " s";
      if (reader.Has("until_s")) told += " to " + Short(until) + " s";
    }
    faults_.told.push_back(told);
    for (const int cable : cables) {
      for (const int link : {2 * cable, 2 * cable + 1}) {
        if (timed) {
          stretches_[static_cast<std::uint32_t>(link)].push_back(
              {TimeFromSeconds(from), reader.Has("until_s") ? TimeFromSeconds(until) : kTimeMax,
               factor});
        } else if (factor < 1) {
          faults_.link_factor.resize(cluster_.links().size(), 1);
          faults_.link_factor[static_cast<std::size_t>(link)] *= factor;
        }
      }
    }
  }

  struct Stretch {
    Time from, until;
    double factor;
  };

  const Cluster& cluster_;
  Faults faults_;
  std::map<std::uint32_t, std::vector<Stretch>> stretches_;  // by link
};

}  // namespace

Faults ReadFaults(std::vector<ObjectReader> readers, const Cluster& cluster) {
  FaultReader faults(cluster);
  for (ObjectReader& reader : readers) faults.Read(reader);
  return faults.Take();
}

Variation ReadVariation(ObjectReader reader) {
  Variation variation;
  variation.kernel_cv = reader.NumberOr("kernel_cv", 0, 0, 10);
  variation.communication_cv = reader.NumberOr("communication_cv", 0, 0, 10);
  variation.seeds = static_cast<int>(reader.Integer("seeds", 1, 100000));
  if (variation.kernel_cv == 0 && variation.communication_cv == 0) {
    reader.Fail(351, "", "nothing varies", "kernel_cv or communication_cv above 0");
  }
  reader.Finish();
  return variation;
}

}  // namespace aurum
