#include <algorithm>
#include <cmath>
#include <string>

#include "sim/core/hash.h"
#include "sim/study/published/fields.h"
#include "sim/study/published/to_scenario.h"
#include "topologies/cluster.h"

// The cluster of a record: a family of the catalogue whose node and network are changed to what the
// record tells. Everything that it does not tell stays the family's and is listed as assumed.

namespace aurum {

std::optional<Nics> ReadNics(const std::string& internode, std::int64_t gpus_per_node) {
  const std::string text = Lower(internode);
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
    return internode.compare(from, 4, "GB/s") == 0 ? 8 : 1;
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
  return std::nullopt;
}

namespace {

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

void Remove(Json* object, std::string_view key) {
  std::erase_if(object->members(), [&](const auto& member) { return member.first == key; });
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
      count = std::min(count, per_node);
      assumed->push_back("network not told: " + std::to_string(count) + " NICs a node as in " +
                         gpu.cluster);
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
  if (!gpu.profile.empty()) spec->Set("profile", gpu.profile);
  if (gpu.memory_gib > 0) spec->Set("memory_gib", gpu.memory_gib);
  if (Json* nvlink = node->Find("nvlink"); nvlink != nullptr && gpu.nvlinks > 0) {
    nvlink->Set("links_per_gpu", Number(gpu.nvlinks));
    if (nvlink->Find("switches")->AsInteger() > gpu.nvlinks)
      nvlink->Set("switches", Number(gpu.nvlinks));
  }
  if (!gpu.assumed.empty()) assumed->push_back(gpu.assumed);
  base.Set("nodes", Number(nodes));
  base.Set("provenance", "assumed");
  const std::string hash =
      HashText(base.Dump()).Hex().substr(0, 8);  // the same name, the same cluster
  base.Set("name", std::to_string(gpus) + " x " + spec->Find("name")->AsString() + ", " +
                       std::to_string(per_node) + " a node" + network + ", " + hash);
  return base;
}

}  // namespace aurum
