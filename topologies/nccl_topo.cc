#include "topologies/nccl_topo.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/units.h"
#include "topologies/nccl_figures.h"
#include "topologies/nccl_xml.h"

namespace aurum {
namespace {

constexpr double kLocalBus =
    5000e9;  // a NIC without a PCIe device: NCCL's LOC_BW, src/graph/topo.h

using Kind = NcclDevice::Kind;

class NcclImporter {
 public:
  NcclImporter(const TextSource& source, const TopologyImportOptions& options)
      : source_(source), machine_(options, &source), dump_(ReadNcclXml(source)) {}

  ImportedCluster Import() {
    const GpuFacts& gpu = IdentifyGpu();
    vertex_.assign(dump_.devices.size(), -1);
    for (const int id : dump_.gpus) {
      vertex_[static_cast<std::size_t>(id)] =
          machine_.AddVertex(VertexKind::kGpu, Device(id).busid);
      machine_.SetGpuDirect(VertexOf(id), Device(id).gpu_direct);
    }
    for (const NcclCpu& cpu : dump_.cpus) {
      cpu_vertex_.push_back(
          machine_.AddVertex(VertexKind::kCpu, cpu.numa.empty() ? "" : "NUMA " + cpu.numa));
    }
    for (std::size_t id = 0; id < dump_.devices.size(); ++id) AddDevice(static_cast<int>(id));
    WarnSlowBridges();
    AddGpuLinks(gpu);
    JoinSockets();
    if (!dump_.ignored.empty()) {
      machine_.Warn(1550, dump_.ignored_at,
                    "left out, for it is nothing that carries traffic: " + dump_.ignored,
                    "nothing to do, unless GPUs or NICs are missing");
    }
    return machine_.Finish(std::string(gpu.gcn != 0 ? "RCCL" : "NCCL") + " topology " +
                           source_.file());
  }

 private:
  const NcclDevice& Device(int id) const { return dump_.devices[static_cast<std::size_t>(id)]; }
  int VertexOf(int id) const { return vertex_[static_cast<std::size_t>(id)]; }
  int CpuOf(const NcclDevice& d) const { return cpu_vertex_[static_cast<std::size_t>(d.cpu)]; }

  std::string Where(std::size_t offset) const {
    return "line " + std::to_string(source_.LineOf(offset));
  }

  // By its device id or gfx number; all must be of one model.
  const GpuFacts& IdentifyGpu() {
    const auto model = [](const NcclDevice& d) {
      return d.gcn != 0 ? "gfx " + std::to_string(d.gcn) : d.model;
    };
    const auto shown = [](const std::string& text) {
      return text.empty() ? std::string("one that is not told") : text.substr(0, 40);
    };
    const NcclDevice& first = Device(dump_.gpus.front());
    for (const int id : dump_.gpus) {
      if (model(Device(id)) == model(first)) continue;
      source_.Fail(
          546, Device(id).offset,
          "GPUs of two models: " + shown(model(first)) + " and " + shown(model(Device(id))),
          "a cluster has GPUs of one model: import the file without the others");
    }
    const GpuFacts* found =
        first.gcn != 0 ? FindGpuByGcn(first.gcn) : FindGpuByPciDevice(first.model);
    return machine_.ChooseGpu(found, first.offset,
                              model(first).empty()
                                  ? "the file does not tell which GPUs these are"
                                  : "the GPU " + shown(model(first)) + " is not known");
  }

  // Whether a bridge is the inner level of the switch that its parent is.
  bool Inner(const NcclDevice& d) const {
    if (d.kind != Kind::kBridge || d.parent < 0) return false;
    const auto generation = [](const NcclDevice& bridge, int level) {
      return BroadcomGeneration(bridge.vendor, bridge.device, bridge.subsystem_vendor,
                                bridge.subsystem_device, level);
    };
    return generation(d, 1) != 0 && generation(d, 1) == generation(Device(d.parent), 0);
  }

  // In the order of the file a parent has its vertex before its children.
  void AddDevice(int id) {
    const NcclDevice& d = Device(id);
    const int parent = d.parent < 0 ? CpuOf(d) : VertexOf(d.parent);
    int& vertex = vertex_[static_cast<std::size_t>(id)];
    if (Inner(d)) {
      vertex = parent;
      return;
    }
    if (d.kind == Kind::kBridge) vertex = machine_.AddVertex(VertexKind::kPcieSwitch, d.busid);
    if (d.kind == Kind::kNic) vertex = AddNic(d);
    if (d.busid.empty()) {
      machine_.AddCable(vertex, parent, LinkKind::kPcie, kLocalBus, 0,
                        "no PCIe device, " + Where(d.offset) +
                            ": as fast as memory, NCCL's LOC_BW (src/graph/topo.h)");
    } else if (d.gigatransfers_per_s == 0) {
      machine_.AddUnknownPcie(vertex, parent);
    } else {
      machine_.AddPcie(vertex, parent, d.gigatransfers_per_s, d.lanes,
                       d.busid + ", " + Where(d.offset));
    }
  }

  // The ports of a card together.
  int AddNic(const NcclDevice& d) {
    double bytes_per_s = 0;
    bool direct = d.nets.empty();
    std::string label;
    for (const NcclNet& net : d.nets) {
      label += (label.empty() ? "" : "+") + net.name;
      direct = direct || net.gpu_direct;
      bytes_per_s += net.megabit_per_s > 0 ? net.megabit_per_s * 1e6 / 8
                                           : machine_.UnknownNicRate(
                                                 net.offset, net.name.empty() ? d.busid : net.name);
    }
    if (label.empty()) label = d.busid;
    if (d.nets.empty()) bytes_per_s = machine_.UnknownNicRate(d.offset, label);
    const int vertex = machine_.AddVertex(VertexKind::kNic, label);
    machine_.SetNic(vertex, bytes_per_s, direct);
    return vertex;
  }

  void WarnSlowBridges() {
    std::string slow;
    std::size_t offset = 0;
    std::vector<bool> told(dump_.devices.size(), false);
    for (const NcclDevice& d : dump_.devices) {
      if (d.parent < 0 || told[static_cast<std::size_t>(d.parent)]) continue;
      const NcclDevice& above = Device(d.parent);
      if (above.gigatransfers_per_s == 0 || above.gigatransfers_per_s >= d.gigatransfers_per_s)
        continue;
      told[static_cast<std::size_t>(d.parent)] = true;
      if (slow.empty()) offset = above.offset;
      slow += (slow.empty() ? "" : ", ") + above.busid;
    }
    if (slow.empty()) return;
    machine_.Warn(
        1549, offset,
        "bridges whose link to the CPU is slower than those of their devices: " + slow,
        "the file's figures are taken; a link that trained down is worth a look, and some "
        "switches report a virtual link");
  }

  // Links between two GPUs, listed from either end or from both.
  struct Pair {
    int from_lower = 0;
    int from_higher = 0;
    LinkKind kind = LinkKind::kNvLink;
    std::size_t offset = 0;
  };

  void AddGpuLinks(const GpuFacts& gpu) {
    std::map<std::string, int> gpu_at;  // vertices, by busid
    for (const int id : dump_.gpus) gpu_at[Device(id).busid] = VertexOf(id);
    std::map<std::pair<int, int>, Pair> pairs;  // the lower vertex first
    bool any = false;
    for (const int id : dump_.gpus) {
      const NcclDevice& d = Device(id);
      const int here = VertexOf(id);
      int plane = 0;
      int all = 0;
      for (const NcclGpuLink& link : d.links) {
        if (link.kind == NcclGpuLink::Kind::kChipToChip) {
          // MB/s of one link and their number (ncclTopoAddC2c, src/graph/topo.cc).
          machine_.AddCable(here, CpuOf(d), LinkKind::kChipToChip,
                            1e6 * link.megabyte_per_s * link.count, 0.5e-6,
                            "c2c, " + Where(link.offset) + "; latency assumed like a PCIe link");
          continue;
        }
        any = true;
        all += link.count;
        const auto found = gpu_at.find(link.target);
        if (link.target_class.starts_with("0x068000")) {
          plane += link.count;
        } else if (link.target_class.starts_with("0x068001") ||
                   link.target_class.starts_with("0x0604")) {
          AddPowerLinks(d, here, link, gpu);
        } else if (found != gpu_at.end()) {
          Pair& pair = pairs[std::minmax(here, found->second)];
          (here < found->second ? pair.from_lower : pair.from_higher) += link.count;
          pair.kind = link.kind == NcclGpuLink::Kind::kXgmi ? LinkKind::kXgmi : LinkKind::kNvLink;
          if (pair.offset == 0) pair.offset = link.offset;
        } else {
          machine_.Warn(1551, link.offset,
                        "a link of GPU " + d.busid + " to " +
                            (link.target.empty() ? "nothing" : link.target.substr(0, 40)) +
                            ", which is not in the file, is left out",
                        "was the dump made with all GPUs visible?");
        }
      }
      if (all > gpu.links) {
        source_.Fail(552, d.links.front().offset,
                     "GPU " + d.busid + " has " + std::to_string(all) + " links, but " +
                         std::string(gpu.name) + " has " + std::to_string(gpu.links),
                     "is --gpu right?");
      }
      if (plane > 0) machine_.AddPlaneLinks(here, plane, Where(d.links.front().offset));
    }
    for (const auto& [ends, pair] : pairs) {
      machine_.AddGpuLinks(ends.first, ends.second, pair.kind,
                           std::max(pair.from_lower, pair.from_higher), Where(pair.offset));
    }
    if (!any) AssumeNvLinks(gpu);
  }

  // POWER's NVLinks to its CPU.
  void AddPowerLinks(const NcclDevice& d, int vertex, const NcclGpuLink& link,
                     const GpuFacts& gpu) {
    if (gpu.links == 0) return;  // refused right after, for its links
    machine_.AddCable(vertex, CpuOf(d), LinkKind::kChipToChip,
                      link.count * gpu.gb_per_s_per_link * kGiga, 0.3e-6,
                      std::to_string(link.count) + " NVLinks, " + Where(link.offset));
  }

  // A file for NCCL to complete lists no NVLinks.
  void AssumeNvLinks(const GpuFacts& gpu) {
    const std::string name(gpu.name);
    int links = machine_.options().nvlinks;
    std::string why = "--nvlinks";
    if (links < 0) {
      if (Device(dump_.gpus.front()).described || gpu.links == 0 || dump_.gpus.size() < 2) return;
      if (!gpu.switched_in_eights || dump_.gpus.size() < 8) {
        machine_.Warn(1543, Machine::kNoPlace,
                      "the file lists no NVLinks, though " + name + " can have " +
                          std::to_string(gpu.links) + ": none assumed",
                      "--nvlinks N says how many each GPU has to NVSwitches");
        return;
      }
      links = gpu.links;
      why = "assumed: boards of eight " + name;
      machine_.Warn(1543, Machine::kNoPlace,
                    "the file lists no NVLinks: " + std::to_string(links) +
                        " from each GPU to NVSwitches assumed, as on every board of eight " + name +
                        " (datasheet)",
                    "--nvlinks N says it; 0 for none");
    }
    if (links == 0) return;
    if (gpu.links < links) {
      ThrowInput(552,
                 "--nvlinks " + std::to_string(links) + ", but " + name + " has " +
                     std::to_string(gpu.links),
                 "is --gpu right?", ExitCode::kUsage);
    }
    for (const int id : dump_.gpus) machine_.AddPlaneLinks(VertexOf(id), links, why);
  }

  void JoinSockets() {
    const NcclCpu& cpu = dump_.cpus.front();
    const SocketFigure figure = NcclSocketFigure(cpu.arch, cpu.vendor, cpu.family, cpu.model);
    machine_.JoinSockets(figure.gb_per_s * kGiga,
                         "what NCCL plans with between such CPUs (src/graph/topo.h, " +
                             std::string(figure.name) + "), " + Where(cpu.offset));
  }

  const TextSource& source_;
  Machine machine_;
  NcclDump dump_;
  std::vector<int> vertex_;  // by device
  std::vector<int> cpu_vertex_;
};

}  // namespace

ImportedCluster ImportNcclTopology(const TextSource& source, const TopologyImportOptions& options) {
  return NcclImporter(source, options).Import();
}

}  // namespace aurum
