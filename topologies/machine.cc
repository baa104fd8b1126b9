#include "topologies/machine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <utility>

#include "sim/core/units.h"
#include "topologies/node_graph.h"

namespace aurum {
namespace {

// Steps of NCCL's own model (src/graph/tuning.cc, hwLat, ring, LL), as in the catalogue.
constexpr double kNvLinkStep = 0.6e-6;
constexpr double kPcieLink = 0.5e-6;
constexpr double kSocketLink = 0.5e-6;
constexpr char kLatencySource[] = "; latency: NCCL's model, hwLat in src/graph/tuning.cc";

constexpr double kDefaultNic = 100;     // Gbit/s
constexpr double kDefaultSockets = 16;  // GB/s
constexpr int kDefaultSwitchPorts = 64;

std::string Text(double value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::general, 6)
                       .ptr;
  return {buffer.data(), end};
}

}  // namespace

SourceLocation TextSource::At(std::size_t offset) const {
  SourceLocation at;
  at.file = name_;
  offset = std::min(offset, text_.size());
  at.line = 1 + static_cast<int>(std::count(
                    text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  const std::size_t before = offset == 0 ? std::string::npos : text_.rfind('\n', offset - 1);
  const std::size_t start = before == std::string::npos ? 0 : before + 1;
  at.column = static_cast<int>(offset - start) + 1;
  std::size_t end = text_.find('\n', start);
  if (end == std::string::npos) end = text_.size();
  at.text = text_.substr(start, end - start);
  return at;
}

std::string TextSource::file() const { return std::filesystem::path(name_).filename().string(); }

void TextSource::Fail(int code, std::size_t offset, std::string message, std::string help) const {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  d.where = At(offset);
  throw InputError(std::move(d));
}

double PcieBytesPerSecond(double gigatransfers_per_s, int lanes) {
  const double coding = gigatransfers_per_s <= 5    ? 8.0 / 10
                        : gigatransfers_per_s <= 32 ? 128.0 / 130
                                                    : 242.0 / 256;
  return gigatransfers_per_s * kGiga * lanes * coding / 8;
}

double PcieGigatransfers(int generation) {
  constexpr double kRates[] = {2.5, 5, 8, 16, 32, 64};
  return generation >= 1 && generation <= 6 ? kRates[generation - 1] : 0;
}

Machine::Machine(const TopologyImportOptions& options, const TextSource* source)
    : options_(options), source_(source) {}

void Machine::Warn(int code, std::size_t offset, std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.warning = true;
  d.message = std::move(message);
  d.help = std::move(help);
  if (offset == kNoPlace) {
    d.where.file = source_->name();
  } else {
    d.where = source_->At(offset);
  }
  warnings_.push_back(std::move(d));
}

const GpuFacts& Machine::ChooseGpu(const GpuFacts* found, std::size_t offset,
                                   const std::string& told) {
  std::string known;
  for (const std::string& key : GpuKeys()) known += (known.empty() ? "" : ", ") + key;
  if (!options_.gpu.empty()) {
    gpu_ = FindGpuByKey(options_.gpu);
    if (gpu_ == nullptr) {
      const std::string nearest = NearestName(options_.gpu, GpuKeys());
      ThrowInput(545, "--gpu: there is no '" + options_.gpu + "'",
                 (nearest.empty() ? "" : "did you mean '" + nearest + "'? ") + "known: " + known,
                 ExitCode::kUsage);
    }
  } else if (found != nullptr) {
    gpu_ = found;
  } else {
    source_->Fail(545, offset, told, "say it with --gpu NAME; known: " + known);
  }
  if (!gpu_->has_profile && options_.profile.empty()) {
    Warn(1544, offset,
         "nobody has measured a profile of " + std::string(gpu_->name) + ": the document names '" +
             std::string(gpu_->profile) + "', which does not exist",
         "name one in the scenario, or with --profile here");
  }
  return *gpu_;
}

int Machine::AddVertex(VertexKind kind, std::string label) {
  parts_.push_back({kind, Count(kind), std::move(label)});
  return static_cast<int>(parts_.size()) - 1;
}

void Machine::SetNic(int vertex, double bytes_per_s, bool gpu_direct) {
  Part& part = parts_[static_cast<std::size_t>(vertex)];
  part.nic_bytes_per_s = bytes_per_s;
  part.gpu_direct = gpu_direct;
}

void Machine::SetGpuDirect(int vertex, bool gpu_direct) {
  parts_[static_cast<std::size_t>(vertex)].gpu_direct = gpu_direct;
}

void Machine::AddCable(int a, int b, LinkKind kind, double bytes_per_s, double latency_s,
                       std::string source) {
  cables_.push_back({a, b, kind, bytes_per_s, latency_s, std::move(source)});
}

void Machine::AddGpuLinks(int gpu, int other, LinkKind kind, int links, const std::string& where) {
  const bool plane = other == plane_;
  AddCable(gpu, other, kind, links * gpu_->gb_per_s_per_link * kGiga,
           plane ? kNvLinkStep / 2 : kNvLinkStep,
           std::to_string(links) + " links, " + where + "; " + Text(gpu_->gb_per_s_per_link) +
               " GB/s each: " + std::string(gpu_->name) + ", datasheet" + kLatencySource);
}

void Machine::AddPlaneLinks(int gpu, int links, const std::string& where) {
  if (plane_ < 0) plane_ = AddVertex(VertexKind::kNvSwitch, "");
  AddGpuLinks(gpu, plane_, LinkKind::kNvLink, links, where);
}

void Machine::AddPcie(int child, int parent, double gigatransfers_per_s, int lanes,
                      const std::string& where) {
  AddCable(child, parent, LinkKind::kPcie, PcieBytesPerSecond(gigatransfers_per_s, lanes),
           kPcieLink,
           "PCIe " + Text(gigatransfers_per_s) + " GT/s x" + std::to_string(lanes) + ", " + where +
               kLatencySource);
}

void Machine::AddUnknownPcie(int child, int parent) {
  const bool told = options_.pcie_generation > 0;
  const int generation = told ? options_.pcie_generation : gpu_->pcie_generation;
  const std::string source =
      told ? "--pcie-gen" : "assumed: the generation of " + std::string(gpu_->name);
  if (!told && !warned_pcie_) {
    warned_pcie_ = true;
    Warn(1540, kNoPlace,
         "the file does not tell the speed of PCIe links: generation " +
             std::to_string(generation) + " x16 assumed, " +
             Text(PcieBytesPerSecond(PcieGigatransfers(generation), 16) / kGiga) +
             " GB/s per direction, what " + std::string(gpu_->name) + " can do",
         "--pcie-gen N says it");
  }
  AddPcie(child, parent, PcieGigatransfers(generation), 16, source);
}

void Machine::JoinSockets(double bytes_per_s, const std::string& source) {
  std::vector<int> cpus;
  for (std::size_t v = 0; v < parts_.size(); ++v) {
    if (parts_[v].kind == VertexKind::kCpu) cpus.push_back(static_cast<int>(v));
  }
  if (cpus.size() < 2) return;
  double rate = bytes_per_s;
  std::string why = source;
  if (options_.inter_socket_gb_per_s > 0) {
    rate = options_.inter_socket_gb_per_s * kGiga;
    why = "--inter-socket-gb-per-s";
  } else if (rate <= 0) {
    rate = kDefaultSockets * kGiga;
    why = "assumed: what NCCL plans with between AMD sockets (src/graph/topo.h, AMD_ZEN12_BW)";
    Warn(1542, kNoPlace,
         "the file does not tell what the CPUs are: " + Text(kDefaultSockets) +
             " GB/s per direction between sockets assumed, what NCCL plans with between AMD "
             "sockets (src/graph/topo.h, AMD_ZEN12_BW)",
         "--inter-socket-gb-per-s N says it");
  }
  for (std::size_t a = 0; a < cpus.size(); ++a) {
    for (std::size_t b = a + 1; b < cpus.size(); ++b)
      AddCable(cpus[a], cpus[b], LinkKind::kInterSocket, rate, kSocketLink,
               why + "; latency assumed like a PCIe link");
  }
}

double Machine::UnknownNicRate(std::size_t offset, const std::string& nic) {
  if (options_.nic_gbit_per_s > 0) return BytesPerSecondFromGbit(options_.nic_gbit_per_s);
  if (options_.nodes > 1) {
    source_->Fail(553, offset, "the file does not tell the rate of the NIC " + nic,
                  "with several nodes it decides the result: --nic-gbit N");
  }
  if (!warned_nic_) {
    warned_nic_ = true;
    Warn(1541, offset,
         "the file does not tell the rate of the NIC " + nic + ": " + Text(kDefaultNic) +
             " Gbit/s assumed for all such, as NCCL's NET_BW (src/graph/topo.h)",
         "--nic-gbit N says it; a cluster of one node does not use it");
  }
  return BytesPerSecondFromGbit(kDefaultNic);
}

int Machine::Count(VertexKind kind) const {
  return static_cast<int>(std::count_if(parts_.begin(), parts_.end(),
                                        [&](const Part& part) { return part.kind == kind; }));
}

// Where more NICs than GPUs hang on one switch, NCCL stripes a GPU's channels over its share of them;
// here a GPU has one NIC, so the share becomes one NIC of the summed rate.
void Machine::JoinNics() {
  std::map<int, std::vector<int>> gpus, nics;  // by the vertex that they hang on
  std::map<int, std::size_t> cable_of;
  for (std::size_t c = 0; c < cables_.size(); ++c) {
    const Cable& cable = cables_[c];
    if (cable.kind != LinkKind::kPcie) continue;
    const VertexKind parent = parts_[static_cast<std::size_t>(cable.b)].kind;
    if (parent != VertexKind::kPcieSwitch) continue;
    const VertexKind child = parts_[static_cast<std::size_t>(cable.a)].kind;
    if (child == VertexKind::kGpu) gpus[cable.b].push_back(cable.a);
    if (child != VertexKind::kNic) continue;
    nics[cable.b].push_back(cable.a);
    cable_of[cable.a] = c;
  }
  std::string joined;
  for (const auto& [parent, here] : nics) {
    const std::size_t served = gpus[parent].size();
    if (served == 0 || here.size() <= served || here.size() % served != 0) continue;
    const std::size_t each = here.size() / served;
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (i % each == 0) continue;
      Part& first = parts_[static_cast<std::size_t>(here[i - i % each])];
      Part& more = parts_[static_cast<std::size_t>(here[i])];
      first.nic_bytes_per_s += more.nic_bytes_per_s;
      first.gpu_direct = first.gpu_direct && more.gpu_direct;
      first.label += "+" + more.label;
      more.gone = true;
      Cable& cable = cables_[cable_of[here[i - i % each]]];
      cable.bytes_per_s += cables_[cable_of[here[i]]].bytes_per_s;
      if (i % each == each - 1) {
        cable.source += "; " + std::to_string(each) + " NICs together";
        joined += (joined.empty() ? "" : ", ") + first.label;
      }
    }
  }
  if (joined.empty()) return;
  Warn(1547, kNoPlace,
       "NICs that serve one GPU are joined into one of their summed rate: " + joined,
       "split them in the document if they are for something else");
}

Json Machine::NodeJson() const {
  NodeGraph graph;
  graph.peer_to_peer = gpu_->peer_to_peer;
  std::map<VertexKind, int> count;
  std::vector<int> renamed(parts_.size(), -1);
  for (std::size_t v = 0; v < parts_.size(); ++v) {
    const Part& part = parts_[v];
    if (part.gone) continue;
    renamed[v] = static_cast<int>(graph.vertices.size());
    NodeVertex vertex;
    vertex.kind = part.kind;
    vertex.index = count[part.kind]++;
    vertex.name = std::string(VertexKindName(part.kind)) + std::to_string(vertex.index);
    vertex.label = part.label;
    vertex.nic_bytes_per_s = part.nic_bytes_per_s;
    vertex.gpu_direct = part.gpu_direct;
    graph.vertices.push_back(std::move(vertex));
  }
  for (const Cable& cable : cables_) {
    const int a = renamed[static_cast<std::size_t>(cable.a)];
    const int b = renamed[static_cast<std::size_t>(cable.b)];
    if (a < 0 || b < 0) continue;
    graph.links.push_back({a, b, cable.kind, cable.bytes_per_s, cable.latency_s});
    graph.links.push_back({b, a, cable.kind, cable.bytes_per_s, cable.latency_s});
    graph.cable_sources.push_back(cable.source);
  }
  return NodeGraphJson(graph);
}

Json Machine::FabricJson() {
  const int ports = options_.switch_ports > 0 ? options_.switch_ports : kDefaultSwitchPorts;
  if (options_.switch_ports == 0) {
    Warn(1548, kNoPlace,
         "no topology file tells what joins nodes: a rail-optimised fat tree of " +
             std::to_string(ports) +
             "-port switches without oversubscription assumed, as in the DGX SuperPOD reference "
             "architecture",
         "--switch-ports N, or edit 'fabric' in the document");
  }
  Json fabric = Json::Object();
  fabric.Set("kind", "rail_optimised_fat_tree");
  fabric.Set("leaf_ports", ports);
  fabric.Set("nic_link_latency_us", 0.35);
  fabric.Set("switch_link_latency_us", 0.25);
  fabric.Set(
      "source",
      "assumed, with the latencies of the catalogue's fabrics: NCCL's network step of 2.7 us "
      "less the links inside the nodes; 130 ns and 25 m of fibre between switches");
  return fabric;
}

ImportedCluster Machine::Finish(const std::string& what) {
  JoinNics();
  Json document = Json::Object();
  document.Set("schema", "aurum.cluster/1");
  document.Set("name", options_.name);
  document.Set("description", what);
  Json gpu = Json::Object();
  gpu.Set("name", gpu_->name);
  gpu.Set("profile", options_.profile.empty() ? std::string(gpu_->profile) : options_.profile);
  gpu.Set("memory_gib", options_.gpu_memory_gib > 0 ? options_.gpu_memory_gib : gpu_->memory_gib);
  gpu.Set("source", options_.gpu_memory_gib > 0 ? "--gpu-memory-gib" : std::string(gpu_->source));
  document.Set("gpu", std::move(gpu));
  document.Set("nodes", options_.nodes);
  document.Set("node", NodeJson());
  if (options_.nodes > 1) document.Set("fabric", FabricJson());
  Json warnings = Json::Array();
  for (const Diagnostic& warning : warnings_)
    warnings.Append(warning.CodeName() + ": " + warning.message);
  if (!warnings_.empty()) document.Set("warnings", std::move(warnings));
  document.Set("source", what + "; each cable names its own source");
  document.Set("provenance", warnings_.empty() ? "datasheet" : "assumed");
  // What is written is what is read.
  ReadCluster(ParseJson(document.Dump(2), source_->name() + " (imported)"));
  return {std::move(document), std::move(warnings_)};
}

}  // namespace aurum
