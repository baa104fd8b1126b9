#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/core/text_file.h"
#include "sim/core/units.h"
#include "tests/collectives/fixtures.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// Public measurements between nodes, with the catalogue's cluster of the same GPUs and NIC rates.
// Nothing is fitted on them: profiles hold one node's measurements, the rest are datasheets and
// the constants of flows.cc and collective.cc.
struct Row {
  std::string id, cluster, profile;
  // Bounds on the mean relative error of the sizes from `large` on, and of the signed one.
  double large, mean_most, signed_least, signed_most;
};

const std::vector<Row> kRows = {
    // 32 EFA ports of 100 Gbit/s a node: the eight of 400 Gbit/s that the cluster has.
    {"aws-p5-2n-allreduce", "16xh100-ndr", "h100", kGiB, 0.06, -0.06, 0},
    {"stas-b200-4n-allreduce", "32xb200-ndr", "b200", kGiB, 0.13, 0, 0.13},
    // Twenty racks; a rack is one NVLink domain.
    {"coreweave-gb200-1440-allreduce", "1440xgb200-nvl72", "gb200", kGiB, 0.19, -0.19, 0},
};

TEST_CASE("all-reduces between nodes that others measured") {
  const std::string path = SharedPath("data/measured/collectives.json");
  if (path.empty()) return;
  const nlohmann::json document = nlohmann::json::parse(ReadTextFile(path));
  for (const Row& row : kRows) {
    CAPTURE(row.id);
    const auto found = std::find_if(document.begin(), document.end(),
                                    [&](const auto& entry) { return entry["id"] == row.id; });
    REQUIRE(found != document.end());
    const Cluster cluster = Named(row.cluster);
    const Profile profile = ReadProfile(OpenProfile(row.profile, "."));
    const RankGroup group = Range(0, (*found)["gpus"].get<int>());
    struct Band {
      std::string name;
      double from, to;
      double sum = 0, signed_sum = 0;
      int count = 0;
    };
    std::vector<Band> bands{{"below 64 KiB", 0, 64 * 1024.0},
                            {"64 KiB to 64 MiB", 64 * 1024.0, 64 * kMiB},
                            {"64 MiB to 1 GiB", 64 * kMiB, kGiB},
                            {"1 GiB and more", kGiB, 1e18}};
    for (std::size_t i = 0; i < (*found)["sizes_bytes"].size(); ++i) {
      const auto& time = (*found)["time_us"][i];
      if (!time.is_number() || time.get<double>() <= 0) continue;
      const double bytes = (*found)["sizes_bytes"][i].get<double>();
      const CollectiveCost cost = PriceCollective(CollectiveKind::kAllReduce, bytes, {group},
                                                  cluster, profile, {.want_pattern = false});
      const double error = cost.seconds / (time.get<double>() * 1e-6) - 1;
      for (Band& band : bands) {
        if (bytes < band.from || bytes >= band.to) continue;
        band.sum += std::abs(error);
        band.signed_sum += error;
        ++band.count;
      }
    }
    std::string report;
    for (const Band& band : bands) {
      if (band.count == 0) continue;
      report += "; " + band.name + ": " + std::to_string(100 * band.sum / band.count) +
                " % (signed " + std::to_string(100 * band.signed_sum / band.count) + " %), " +
                std::to_string(band.count) + " sizes";
    }
    MESSAGE(row.id, report);
    const Band& large = bands.back();
    REQUIRE(large.count > 0);
    CHECK(large.sum / large.count < row.mean_most);
    CHECK(large.signed_sum / large.count > row.signed_least);
    CHECK(large.signed_sum / large.count < row.signed_most);
  }
}

TEST_CASE("all-to-all between nodes: a NIC gives DeepEP what the model gives it") {
  const std::string path = SharedPath("data/measured/collectives.json");
  if (path.empty()) return;
  const nlohmann::json document = nlohmann::json::parse(ReadTextFile(path));
  int rows = 0;
  for (const auto& entry : document) {
    const std::string id = entry["id"].get<std::string>();
    if (id.find("deepep-internode") != 0) continue;
    const int gpus = entry["gpus"].get<int>();
    const Cluster cluster = Named(std::to_string(gpus) + "xh100-ndr");
    // 64 MB from everybody, of which the share of other nodes goes through the NIC.
    const CollectiveCost cost = PriceCollective(CollectiveKind::kAllToAll, 64e6, {Range(0, gpus)},
                                                cluster, Unmeasured(), {});
    const double rate = 64e6 * (gpus - 8) / gpus / (cost.seconds - cost.latency_s);
    for (const auto& [phase, measured] : entry["bottleneck_GBps"].items()) {
      MESSAGE(id, " ", phase, ": measured ", measured.get<double>(), " GB/s, model ", rate / 1e9);
      CHECK(Deviation(rate / 1e9, measured.get<double>()) < 0.11);
      ++rows;
    }
  }
  CHECK(rows == 6);
}

}  // namespace
}  // namespace aurum
