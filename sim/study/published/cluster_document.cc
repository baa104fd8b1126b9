#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "sim/core/hash.h"
#include "sim/study/published/fields.h"
#include "sim/study/published/to_scenario.h"
#include "topologies/cluster.h"

// The cluster of a record: a family of the catalogue whose node and network are changed to what the
// record tells. Everything that it does not tell stays the family's and is listed as assumed.

namespace aurum {

std::optional<Nics> ReadNics(const std::string& internode, std::int64_t gpus_per_node) {
  std::string text = Lower(internode);
  std::string printed = internode;
  // "Storage: 2x …, Compute: 8x …": the compute network's.
  if (const std::size_t compute = text.find("compute:"); compute != std::string::npos) {
    text = text.substr(compute);
    printed = printed.substr(compute);
  }
  // The first "<count>x<rate>" whose rate is a rate; words may stand between.
  std::size_t at = 0;
  const auto number = [&](std::size_t from, std::size_t* end) -> std::optional<double> {
    std::size_t i = from;
    while (i < text.size() && (std::isdigit(static_cast<unsigned char>(text[i])) != 0)) ++i;
    if (i == from) return std::nullopt;
    *end = i;
    return std::stod(text.substr(from, std::min<std::size_t>(i - from, 9)));
  };
  // Gbit/s of a unit that begins at `from`: "gb", "gbps", "gb/s" are bits in this field's tables;
  // "GB/s" as printed is bytes.
  const auto unit = [&](std::size_t from) -> double {
    while (from < text.size() && text[from] == ' ') ++from;
    if (text.compare(from, 2, "gb") != 0) return 0;
    return printed.compare(from, 4, "GB/s") == 0 ? 8 : 1;
  };
  for (; at < text.size(); ++at) {
    std::size_t end = at;
    if (at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0) continue;
    const auto first = number(at, &end);
    if (!first) continue;
    if (end < text.size() && text[end] == 'x') {
      // "4x Omni-Path 100Gb/s", "8x400Gb/s", "4x100Gb"
      for (std::size_t from = end + 1; from < text.size(); ++from) {
        std::size_t rate_end = from;
        const auto rate = number(from, &rate_end);
        if (!rate) continue;
        const double factor = unit(rate_end);
        if (factor > 0) return Nics{static_cast<std::int64_t>(*first), *rate * factor};
        from = rate_end;
      }
      continue;
    }
    const double factor = unit(end);
    if (factor == 0 || gpus_per_node < 1) continue;
    const double rate = *first * factor;
    if (Contains(text, "per gpu")) return Nics{gpus_per_node, rate};
    if (Contains(text, "per node"))
      return Nics{gpus_per_node, rate / static_cast<double>(gpus_per_node)};
  }
  // "4x HDR200", "8x NDR InfiniBand": a count and a generation of InfiniBand (4 lanes).
  const std::size_t times = text.find("x ");
  if (times != std::string::npos && times > 0 &&
      std::isdigit(static_cast<unsigned char>(text[times - 1])) != 0) {
    std::size_t from = times;
    while (from > 0 && std::isdigit(static_cast<unsigned char>(text[from - 1])) != 0) --from;
    const std::int64_t count = FirstNumber(text, from).value_or(0);
    for (const auto& [name, rate] : {std::pair{"xdr", 800.0},
                                     {"ndr200", 200.0},
                                     {"ndr", 400.0},
                                     {"hdr100", 100.0},
                                     {"hdr", 200.0},
                                     {"edr", 100.0}}) {
      if (text.find(name, times) != std::string::npos && count > 0) return Nics{count, rate};
    }
  }
  return std::nullopt;
}

std::string ProfileOf(const GpuReading& gpu, const std::string& data_root) {
  for (const std::string& profile : gpu.profiles) {
    std::error_code error;
    if (std::filesystem::exists(data_root + "/calibrate/profiles/" + profile + ".json", error))
      return profile;
  }
  return "";
}

namespace {

void SetPowerLimit(const HardwareFacts& hardware, Json* gpu) {
  if (hardware.power_limit_w) gpu->Set("power_limit_w", *hardware.power_limit_w);
}

// "PCIe 4.0", "PCIe4 x16, no P2P/NVLink"; not "NVLink + PCIe".
bool OnlyPcie(const std::string& intranode) {
  const std::string text = Lower(intranode);
  if (!Contains(text, "pcie")) return false;
  return !Contains(text, "nvlink") || Contains(text, "no nvlink") || Contains(text, "no p2p");
}

Json Number(std::int64_t value) { return Json(value); }

// A node of `gpus` GPUs with the family's links: fewer switches and sockets where they do not share
// out evenly.
void ShrinkHgx(std::int64_t gpus, Json* node) {
  const std::int64_t sockets = gpus % 2 == 0 ? 2 : 1;
  node->Set("sockets", Number(sockets));
  node->Set("gpus", Number(gpus));
  Json* pcie = node->Find("pcie");
  if (pcie != nullptr && pcie->Find("switches") != nullptr) {
    const std::int64_t switches = pcie->Find("switches")->AsInteger();
    if (gpus % switches != 0 || switches % sockets != 0) pcie->Set("switches", Number(sockets));
  }
}

// One GPU: a card in a slot.
void MakeSingle(Json* node) {
  const Json* pcie = node->Find("pcie");
  Json link = pcie == nullptr ? Json::Object() : *pcie;
  if (pcie == nullptr) {
    const Json* chip = node->Find("chip_to_chip");
    if (chip != nullptr) link = *chip;
  }
  Remove(&link, "switches");
  link.Set("peer_to_peer", true);
  Json single = Json::Object();
  single.Set("kind", "pcie");
  single.Set("gpus", Number(1));
  single.Set("sockets", Number(1));
  if (const Json* host = node->Find("host_memory_gib")) single.Set("host_memory_gib", *host);
  single.Set("pcie", std::move(link));
  *node = std::move(single);
}

}  // namespace

std::optional<Json> ClusterDocument(const HardwareFacts& hardware, const GpuReading& gpu,
                                    const std::string& data_root, std::vector<std::string>* assumed,
                                    std::string* skip) {
  if (!hardware.gpus || *hardware.gpus < 1) {
    *skip = "GPU count not told";
    return std::nullopt;
  }
  const std::int64_t gpus = *hardware.gpus;
  const bool family = gpu.cluster.find_first_of("0123456789") != 0;
  const auto open = [&](std::int64_t count) {
    return OpenCluster(family ? std::to_string(count) + "x" + gpu.cluster : gpu.cluster, data_root)
        .root;
  };
  Json base = open(family ? 8 : 1);  // of every family a whole number of nodes
  if (OnlyPcie(hardware.intranode) && base.Find("node")->Find("nvlink") != nullptr &&
      hardware.gpus_per_node.value_or(gpus) >= gpus) {
    // Cards in slots instead of the family's baseboard.
    Json cards = OpenCluster("1x4090", data_root).root;
    cards.Set("gpu", *base.Find("gpu"));
    Json* link = cards.Find("node")->Find("pcie");
    link->Set("peer_to_peer", true);
    if (const Json* pcie = base.Find("node")->Find("pcie"))
      link->Set("gb_per_s_per_direction", *pcie->Find("gb_per_s_per_direction"));
    base = std::move(cards);
  }
  Json* node = base.Find("node");
  const std::int64_t family_gpus = node->Find("gpus")->AsInteger();
  std::int64_t per_node = hardware.gpus_per_node.value_or(std::min(gpus, family_gpus));
  per_node = std::min(per_node, gpus);
  if (per_node < 1 || gpus % per_node != 0) {
    *skip = std::to_string(gpus) + " GPUs do not fill nodes of " + std::to_string(per_node);
    return std::nullopt;
  }
  const std::int64_t nodes = gpus / per_node;
  if (nodes > 1 && base.Find("fabric") == nullptr) {
    *skip = "several nodes of a GPU whose catalogue entry has no network";
    return std::nullopt;
  }

  const std::string kind = node->Find("kind")->AsString();
  if (per_node != family_gpus) {
    if (per_node == 1 && nodes == 1) {
      MakeSingle(node);
    } else if (kind == "hgx") {
      ShrinkHgx(per_node, node);
    } else {
      node->Set("gpus", Number(per_node));
      node->Set("sockets", Number(1));
    }
  }
  std::string network;
  if (nodes == 1) {
    Remove(node, "nics");
    Remove(&base, "fabric");
  } else {
    Json* nics = node->Find("nics");
    std::int64_t count = nics->Find("count")->AsInteger();
    double rate = nics->Find("gbit_per_s")->AsNumber();
    const std::optional<Nics> told = ReadNics(hardware.internode, per_node);
    if (told && told->count >= 1 && told->count <= 64 && told->gbit_per_s > 0) {
      count = told->count;
      rate = told->gbit_per_s;
      if (count > per_node) {  // several ports of one GPU count as one NIC
        rate *= static_cast<double>(count) / static_cast<double>(per_node);
        count = per_node;
      }
      nics->Set("source", "the record: " + hardware.internode);
    } else {
      if (gpu.nics > 0) count = gpu.nics;
      if (gpu.nic_gbit_per_s > 0) rate = gpu.nic_gbit_per_s;
      count = std::min(count, per_node);
      while (per_node % count != 0) --count;
      assumed->push_back("network not told: " + std::to_string(count) + " NICs of " +
                         Json(rate).Dump() + " Gbit/s a node");
    }
    if (per_node % count != 0) {
      *skip = std::to_string(count) + " NICs do not share out evenly to " +
              std::to_string(per_node) + " GPUs of a node";
      return std::nullopt;
    }
    nics->Set("count", Number(count));
    nics->Set("gbit_per_s", rate);
    network = ", " + std::to_string(count) + " NICs of " + Json(rate).Dump() + " Gbit/s";
    if (gpu.domain_nodes > 0 && node->Find("nvlink") != nullptr)
      node->Find("nvlink")->Set("domain_nodes", Number(gpu.domain_nodes));
  }

  Json* spec = base.Find("gpu");
  if (!gpu.name.empty()) spec->Set("name", gpu.name);
  const std::string profile = ProfileOf(gpu, data_root);
  if (!profile.empty()) spec->Set("profile", profile);
  SetPowerLimit(hardware, spec);
  if (gpu.memory_gib > 0) spec->Set("memory_gib", gpu.memory_gib);
  if (Json* nvlink = node->Find("nvlink"); nvlink != nullptr && gpu.nvlinks > 0) {
    nvlink->Set("links_per_gpu", Number(gpu.nvlinks));
    if (nvlink->Find("switches")->AsInteger() > gpu.nvlinks)
      nvlink->Set("switches", Number(gpu.nvlinks));
  }
  if (Json* pcie = node->Find("pcie"); pcie != nullptr) {
    if (gpu.pcie_gb_per_s > 0) pcie->Set("gb_per_s_per_direction", gpu.pcie_gb_per_s);
    if (gpu.peer_to_peer && pcie->Find("peer_to_peer") != nullptr)
      pcie->Set("peer_to_peer", *gpu.peer_to_peer);
  }
  const bool own = gpu.profiles.size() > 1 && profile == gpu.profiles.front();
  if (!gpu.assumed.empty() && !own) assumed->push_back(gpu.assumed);
  base.Set("nodes", Number(nodes));
  base.Set("provenance", "assumed");
  const std::string hash =
      HashText(base.Dump()).Hex().substr(0, 8);  // the same name, the same cluster
  base.Set("name", std::to_string(gpus) + " x " + spec->Find("name")->AsString() + ", " +
                       std::to_string(per_node) + " a node" + network + ", " + hash);
  return base;
}

}  // namespace aurum
