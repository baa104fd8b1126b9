#include "topologies/nccl_topo.h"

#include <pugixml.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/units.h"
#include "topologies/nccl_figures.h"

namespace aurum {
namespace {

constexpr double kLocalBus =
    5000e9;  // a NIC without a PCIe device: NCCL's LOC_BW, src/graph/topo.h
constexpr int kMostDevices = 2048;
constexpr int kMostDepth = 32;  // of PCIe bridges

enum class DeviceKind { kBridge, kGpu, kNic, kOther };

// A <pci>, or a <nic> that is no PCIe device.
struct Device {
  DeviceKind kind = DeviceKind::kOther;
  pugi::xml_node element;
  std::string busid;
  int parent = -1;  // index of a device; -1 on a CPU
  int cpu = 0;
  int vertex = -1;
};

std::size_t Offset(const pugi::xml_node& element) {
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(element.offset_debug(), 0));
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return text;
}

class NcclImporter {
 public:
  NcclImporter(const TextSource& source, const TopologyImportOptions& options)
      : source_(source), machine_(options, &source) {}

  ImportedCluster Import() {
    const pugi::xml_node system = Parse();
    for (const pugi::xml_node cpu : system.children()) {
      if (cpu.type() != pugi::node_element) continue;
      if (std::strcmp(cpu.name(), "cpu") != 0) {
        Ignore(cpu);
        continue;
      }
      cpus_.push_back(cpu);
      Collect(cpu, -1, 0);
    }
    CheckHosts();
    SortGpus();
    const GpuFacts& gpu = IdentifyGpu();
    for (const int device : gpus_) {
      Device& d = devices_[static_cast<std::size_t>(device)];
      d.vertex = machine_.AddVertex(VertexKind::kGpu, d.busid);
      machine_.SetGpuDirect(d.vertex, Child(d, "gpu").attribute("gdr").as_int(1) != 0);
    }
    for (const pugi::xml_node cpu : cpus_) {
      const std::string numa = cpu.attribute("numaid").as_string();
      cpu_vertex_.push_back(
          machine_.AddVertex(VertexKind::kCpu, numa.empty() ? "" : "NUMA " + numa));
    }
    AddDevices();
    AddGpuLinks(gpu);
    JoinSockets();
    WarnIgnored();
    const bool amd = gpu.gcn != 0;
    return machine_.Finish(std::string(amd ? "RCCL" : "NCCL") + " topology " + source_.file());
  }

 private:
  pugi::xml_node Parse() {
    const std::string& text = source_.text();
    const pugi::xml_parse_result parsed =
        document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed) {
      source_.Fail(540, static_cast<std::size_t>(std::max<std::ptrdiff_t>(parsed.offset, 0)),
                   "this is not XML, or was cut off: " + Lower(parsed.description()),
                   "NCCL writes the file with NCCL_TOPO_DUMP_FILE=FILE; the output of nvidia-smi "
                   "topo -m is imported with 'nvidia-smi'");
    }
    const pugi::xml_node root = document_.document_element();
    if (std::strcmp(root.name(), "graphs") == 0) {
      source_.Fail(
          541, Offset(root),
          "this is a NCCL graph dump: the rings and trees that NCCL chose, not the machine",
          "dump the topology: NCCL_TOPO_DUMP_FILE=FILE, not NCCL_GRAPH_DUMP_FILE");
    }
    if (std::strcmp(root.name(), "system") != 0) {
      source_.Fail(541, Offset(root),
                   "a topology begins with <system>, this file with <" +
                       std::string(root.name()).substr(0, 40) + ">",
                   "NCCL writes a topology with NCCL_TOPO_DUMP_FILE=FILE");
    }
    return root;
  }

  void Ignore(const pugi::xml_node& element) {
    if (ignored_.empty()) ignored_at_ = Offset(element);
    const std::string_view pci_class = element.attribute("class").as_string();
    ignored_.insert("<" + std::string(element.name()).substr(0, 40) + ">" +
                    (pci_class.empty() ? "" : " of class " + std::string(pci_class.substr(0, 20))));
  }

  void WarnIgnored() {
    if (ignored_.empty()) return;
    std::string names;
    for (const std::string& name : ignored_) names += (names.empty() ? "" : ", ") + name;
    machine_.Warn(1550, ignored_at_, "left out, for it is nothing that carries traffic: " + names,
                  "nothing to do, unless GPUs or NICs are missing");
  }

  pugi::xml_node Child(const Device& device, const char* name) const {
    return device.element.child(name);
  }

  // What a <pci> is: what stands in it, else its class.
  DeviceKind KindOf(const pugi::xml_node& element) {
    if (element.child("gpu")) return DeviceKind::kGpu;
    if (element.child("nic")) return DeviceKind::kNic;
    if (element.child("pci")) return DeviceKind::kBridge;
    const std::string_view pci_class = element.attribute("class").as_string();
    if (pci_class.starts_with("0x03")) return DeviceKind::kGpu;
    if (pci_class.starts_with("0x02")) return DeviceKind::kNic;
    if (pci_class.empty() && !unclassified_) unclassified_ = element;
    return DeviceKind::kOther;
  }

  void Collect(const pugi::xml_node& above, int parent, int depth) {
    if (depth > kMostDepth) {
      source_.Fail(542, Offset(above),
                   "PCIe bridges nested deeper than " + std::to_string(kMostDepth),
                   "no machine has such a tree; is the file damaged?");
    }
    for (const pugi::xml_node element : above.children()) {
      if (element.type() != pugi::node_element) continue;
      const bool pci = std::strcmp(element.name(), "pci") == 0;
      const bool nic = std::strcmp(element.name(), "nic") == 0;
      if (!pci && !(nic && (parent < 0 || IsBridge(parent)))) {
        const bool known = nic || std::strcmp(element.name(), "gpu") == 0;
        if (!known) Ignore(element);
        continue;
      }
      Device device;
      device.element = element;
      device.parent = parent;
      device.cpu = static_cast<int>(cpus_.size()) - 1;
      device.kind = pci ? KindOf(element) : DeviceKind::kNic;
      if (pci) {
        device.busid = Lower(element.attribute("busid").as_string());
        if (device.busid.empty())
          source_.Fail(542, Offset(element), "a <pci> without 'busid'",
                       "take the file as NCCL wrote it");
        if (by_busid_.contains(device.busid))
          source_.Fail(544, Offset(element), "the device " + device.busid + " is there twice",
                       "remove one of the two");
      }
      if (device.kind == DeviceKind::kOther) {
        Ignore(element);
        continue;
      }
      const int id = static_cast<int>(devices_.size());
      if (id == kMostDevices)
        source_.Fail(542, Offset(element), "more than " + std::to_string(kMostDevices) + " devices",
                     "no machine has so many; is the file damaged?");
      if (pci) by_busid_.emplace(device.busid, id);
      devices_.push_back(device);
      if (device.kind == DeviceKind::kGpu) gpus_.push_back(id);
      if (pci && device.kind == DeviceKind::kBridge) Collect(element, id, depth + 1);
    }
  }

  bool IsBridge(int device) const {
    return devices_[static_cast<std::size_t>(device)].kind == DeviceKind::kBridge;
  }

  void CheckHosts() {
    std::set<std::string> hosts;
    for (const pugi::xml_node cpu : cpus_) {
      const std::string host = cpu.attribute("host_hash").as_string();
      if (!host.empty()) hosts.insert(host);
      if (hosts.size() > 1) {
        source_.Fail(556, Offset(cpu), "this file describes several hosts (host_hash)",
                     "keep the <cpu> elements of one host and import that with --nodes N");
      }
    }
  }

  void SortGpus() {
    if (gpus_.empty()) {
      if (unclassified_) {
        source_.Fail(
            543, Offset(unclassified_),
            "no GPU can be told: there is no <gpu>, and the device " +
                std::string(unclassified_.attribute("busid").as_string()).substr(0, 40) +
                " has no 'class'",
            "this is a file for NCCL to complete; run NCCL with NCCL_TOPO_DUMP_FILE=FILE on "
            "the machine and import what it writes");
      }
      source_.Fail(
          543, 0, "this file has no GPU: no <gpu>, and no <pci> of class 0x03",
          "run NCCL with NCCL_TOPO_DUMP_FILE=FILE on the machine and import what it writes");
    }
    const auto number = [&](int device) {
      return Child(devices_[static_cast<std::size_t>(device)], "gpu").attribute("dev").as_int(-1);
    };
    if (std::all_of(gpus_.begin(), gpus_.end(), [&](int d) { return number(d) >= 0; })) {
      std::stable_sort(gpus_.begin(), gpus_.end(),
                       [&](int a, int b) { return number(a) < number(b); });
    }
  }

  // One that is told by its device id or gfx number; all must be of one model.
  const GpuFacts& IdentifyGpu() {
    const GpuFacts* found = nullptr;
    std::string first;
    for (const int id : gpus_) {
      const Device& d = devices_[static_cast<std::size_t>(id)];
      const std::string device = Lower(d.element.attribute("device").as_string());
      const int gcn = Child(d, "gpu").attribute("gcn").as_int(0);
      const std::string model = gcn != 0 ? "gfx " + std::to_string(gcn) : device;
      if (id == gpus_.front()) {
        first = model;
        found = gcn != 0 ? FindGpuByGcn(gcn) : FindGpuByPciDevice(device);
      } else if (model != first) {
        source_.Fail(546, Offset(d.element),
                     "GPUs of two models: " + (first.empty() ? "one that is not told" : first) +
                         " and " + (model.empty() ? "one that is not told" : model),
                     "a cluster has GPUs of one model: import the file without the others");
      }
    }
    const Device& d = devices_[static_cast<std::size_t>(gpus_.front())];
    return machine_.ChooseGpu(found, Offset(d.element),
                              first.empty() ? "the file does not tell which GPUs these are"
                                            : "the GPU " + first.substr(0, 40) + " is not known");
  }

  std::string Where(const pugi::xml_node& element) const {
    return "line " + std::to_string(source_.LineOf(Offset(element)));
  }

  int Integer(const pugi::xml_node& element, const char* name, int low, int high) const {
    const std::string_view text = element.attribute(name).as_string();
    int value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() ||
        value < low || value > high) {
      source_.Fail(
          542, Offset(element),
          "<" + std::string(element.name()) + "> has " +
              (text.empty() ? "no '" + std::string(name) + "'"
                            : std::string(name) + "=\"" + std::string(text.substr(0, 40)) + "\"") +
              ", where a number from " + std::to_string(low) + " to " + std::to_string(high) +
              " must stand",
          "take the file as NCCL wrote it");
    }
    return value;
  }

  // "32.0 GT/s PCIe" → 32; 0 where nothing is told ("", "Unknown speed").
  double Gigatransfers(const pugi::xml_node& element) const {
    const std::string text = element.attribute("link_speed").as_string();
    if (text.find("GT/s") == std::string::npos) return 0;
    const double speed = std::strtod(text.c_str(), nullptr);
    for (int generation = 1; generation <= 6; ++generation) {
      if (speed == PcieGigatransfers(generation)) return speed;
    }
    source_.Fail(542, Offset(element),
                 "no PCIe generation has link_speed=\"" + text.substr(0, 40) + "\"",
                 "2.5, 5, 8, 16, 32 or 64 GT/s");
  }

  static int BroadcomSwitch(const pugi::xml_node& bridge, int level) {
    const auto id = [&](const char* name) {
      return static_cast<int>(std::strtol(bridge.attribute(name).as_string("0"), nullptr, 16));
    };
    return BroadcomGeneration(id("vendor"), id("device"), id("subsystem_vendor"),
                              id("subsystem_device"), level);
  }

  // Whether a bridge is the inner level of the switch that its parent is.
  bool Inner(const Device& d) const {
    if (d.kind != DeviceKind::kBridge || d.parent < 0) return false;
    const Device& above = devices_[static_cast<std::size_t>(d.parent)];
    const int generation = BroadcomSwitch(above.element, 0);
    return generation != 0 && generation == BroadcomSwitch(d.element, 1);
  }

  // In the order of the file, so a parent has its vertex before its children.
  void AddDevices() {
    for (Device& d : devices_) {
      const int parent = d.parent < 0 ? cpu_vertex_[static_cast<std::size_t>(d.cpu)]
                                      : devices_[static_cast<std::size_t>(d.parent)].vertex;
      if (Inner(d)) {
        d.vertex = parent;
        continue;
      }
      if (d.kind == DeviceKind::kBridge)
        d.vertex = machine_.AddVertex(VertexKind::kPcieSwitch, d.busid);
      if (d.kind == DeviceKind::kNic) AddNic(&d);
      AddPcie(d, parent);
    }
    WarnSlowBridges();
  }

  void AddNic(Device* d) {
    const bool pci = !d->busid.empty();
    const pugi::xml_node nic = pci ? Child(*d, "nic") : d->element;
    double bytes_per_s = 0;
    bool direct = false;
    bool any = false;
    std::string label;
    for (const pugi::xml_node net : nic.children("net")) {
      any = true;
      const std::string name = net.attribute("name").as_string();
      label += (label.empty() ? "" : "+") + name;
      direct = direct || net.attribute("gdr").as_int(1) != 0;
      const int megabit = net.attribute("speed") ? Integer(net, "speed", -1, 100'000'000) : 0;
      bytes_per_s += megabit > 0
                         ? megabit * 1e6 / 8
                         : machine_.UnknownNicRate(Offset(net), name.empty() ? d->busid : name);
    }
    if (label.empty()) label = d->busid;
    d->vertex = machine_.AddVertex(VertexKind::kNic, label);
    machine_.SetNic(d->vertex,
                    any ? bytes_per_s : machine_.UnknownNicRate(Offset(d->element), label),
                    any ? direct : true);
  }

  void AddPcie(const Device& d, int parent) {
    if (d.busid.empty()) {
      machine_.AddCable(d.vertex, parent, LinkKind::kPcie, kLocalBus, 0,
                        "no PCIe device, " + Where(d.element) +
                            ": as fast as memory, NCCL's LOC_BW (src/graph/topo.h)");
      return;
    }
    const double speed = Gigatransfers(d.element);
    if (speed == 0) {
      machine_.AddUnknownPcie(d.vertex, parent);
      return;
    }
    // 0 lanes are 16 to NCCL (ncclTopoAddPci).
    const int lanes =
        d.element.attribute("link_width") ? Integer(d.element, "link_width", 0, 64) : 0;
    machine_.AddPcie(d.vertex, parent, speed, lanes == 0 ? 16 : lanes,
                     d.busid + ", " + Where(d.element));
  }

  void WarnSlowBridges() {
    std::string slow;
    std::size_t offset = 0;
    for (const Device& d : devices_) {
      if (d.parent < 0) continue;
      const Device& above = devices_[static_cast<std::size_t>(d.parent)];
      const double up = Gigatransfers(above.element);
      if (up == 0 || up >= Gigatransfers(d.element) || slow.find(above.busid) != std::string::npos)
        continue;
      if (slow.empty()) offset = Offset(above.element);
      slow += (slow.empty() ? "" : ", ") + above.busid;
    }
    if (slow.empty()) return;
    machine_.Warn(
        1549, offset,
        "bridges whose link to the CPU is slower than those of their devices: " + slow,
        "the file's figures are taken; a link that trained down is worth a look, and some "
        "switches report a virtual link");
  }

  struct Pair {
    int count = 0;
    LinkKind kind = LinkKind::kNvLink;
    pugi::xml_node element;
  };

  void AddGpuLinks(const GpuFacts& gpu) {
    std::map<std::pair<int, int>, Pair> pairs;  // lower vertex first
    bool any = false;
    for (const int id : gpus_) {
      const Device& d = devices_[static_cast<std::size_t>(id)];
      const pugi::xml_node element = Child(d, "gpu");
      int plane = 0;
      std::map<int, int> to_gpu;  // by vertex
      int all = 0;
      for (const pugi::xml_node link : element.children()) {
        if (link.type() != pugi::node_element) continue;
        if (std::strcmp(link.name(), "c2c") == 0) {
          AddChipToChip(d, link);
          continue;
        }
        const bool xgmi = std::strcmp(link.name(), "xgmi") == 0;
        if (!xgmi && std::strcmp(link.name(), "nvlink") != 0) {
          Ignore(link);
          continue;
        }
        any = true;
        const int count = Integer(link, "count", 1, 1024);
        all += count;
        const std::string target = Lower(link.attribute("target").as_string());
        const std::string_view target_class = link.attribute("tclass").as_string();
        const auto found = by_busid_.find(target);
        if (target_class.starts_with("0x068000")) {
          plane += count;
        } else if (target_class.starts_with("0x068001") || target_class.starts_with("0x0604")) {
          // POWER's NVLink to its CPU.
          machine_.AddCable(d.vertex, cpu_vertex_[static_cast<std::size_t>(d.cpu)],
                            LinkKind::kChipToChip, count * gpu.gb_per_s_per_link * kGiga, 0.3e-6,
                            std::to_string(count) + " NVLinks, " + Where(link));
        } else if (found != by_busid_.end() &&
                   devices_[static_cast<std::size_t>(found->second)].kind == DeviceKind::kGpu) {
          const int other = devices_[static_cast<std::size_t>(found->second)].vertex;
          if (other == d.vertex) Refuse(link, "a GPU that is linked to itself");
          to_gpu[other] += count;
          Pair& pair = pairs[{std::min(d.vertex, other), std::max(d.vertex, other)}];
          pair.kind = xgmi ? LinkKind::kXgmi : LinkKind::kNvLink;
          pair.count = std::max(pair.count, to_gpu[other]);
          if (!pair.element) pair.element = link;
        } else {
          machine_.Warn(1551, Offset(link),
                        "a link of GPU " + d.busid + " to " +
                            (target.empty() ? "nothing" : target.substr(0, 40)) +
                            ", which is not in the file, is left out",
                        "was the dump made with all GPUs visible?");
        }
      }
      if (gpu.links > 0 && all > gpu.links) {
        source_.Fail(552, Offset(element),
                     std::to_string(all) + " links, but " + std::string(gpu.name) + " has " +
                         std::to_string(gpu.links),
                     "is --gpu right?");
      }
      if (any && gpu.links == 0 && all > 0) {
        source_.Fail(552, Offset(element), std::string(gpu.name) + " has no NVLinks, this one has",
                     "is --gpu right?");
      }
      if (plane > 0) machine_.AddPlaneLinks(d.vertex, plane, Where(element));
    }
    for (const auto& [ends, pair] : pairs)
      machine_.AddGpuLinks(ends.first, ends.second, pair.kind, pair.count, Where(pair.element));
    if (!any) AssumeNvLinks(gpu);
  }

  [[noreturn]] void Refuse(const pugi::xml_node& element, const std::string& what) const {
    source_.Fail(542, Offset(element), what, "take the file as NCCL wrote it");
  }

  void AddChipToChip(const Device& d, const pugi::xml_node& link) {
    // MB/s of one link and their number (ncclTopoAddC2c, src/graph/topo.cc).
    const int megabytes = Integer(link, "bw", 1, 100'000'000);
    const int count = Integer(link, "count", 1, 1024);
    machine_.AddCable(d.vertex, cpu_vertex_[static_cast<std::size_t>(d.cpu)], LinkKind::kChipToChip,
                      1e6 * megabytes * count, 0.5e-6,
                      "c2c, " + Where(link) + "; latency assumed like a PCIe link");
  }

  // A file for NCCL to complete lists no NVLinks.
  void AssumeNvLinks(const GpuFacts& gpu) {
    int links = machine_.options().nvlinks;
    std::string why = "--nvlinks";
    if (links < 0) {
      const bool complete =
          static_cast<bool>(Child(devices_[static_cast<std::size_t>(gpus_.front())], "gpu"));
      if (complete || gpu.links == 0 || gpus_.size() < 2) return;
      if (!gpu.switched_in_eights || gpus_.size() < 8) {
        machine_.Warn(1543, Machine::kNoPlace,
                      "the file lists no NVLinks, though " + std::string(gpu.name) + " can have " +
                          std::to_string(gpu.links) + ": none assumed",
                      "--nvlinks N says how many each GPU has to NVSwitches");
        return;
      }
      links = gpu.links;
      why = "assumed: boards of eight " + std::string(gpu.name);
      machine_.Warn(1543, Machine::kNoPlace,
                    "the file lists no NVLinks: " + std::to_string(links) +
                        " from each GPU to NVSwitches assumed, as on every board of eight " +
                        std::string(gpu.name) + " (datasheet)",
                    "--nvlinks N says it; 0 for none");
    }
    if (links == 0) return;
    if (gpu.links < links) {
      source_.Fail(552, 0,
                   "--nvlinks " + std::to_string(links) + ", but " + std::string(gpu.name) +
                       " has " + std::to_string(gpu.links),
                   "is --gpu right?");
    }
    for (const int id : gpus_)
      machine_.AddPlaneLinks(devices_[static_cast<std::size_t>(id)].vertex, links, why);
  }

  void JoinSockets() {
    const pugi::xml_node cpu = cpus_.front();
    const SocketFigure figure =
        NcclSocketFigure(cpu.attribute("arch").as_string(), cpu.attribute("vendor").as_string(),
                         cpu.attribute("familyid").as_int(0), cpu.attribute("modelid").as_int(0));
    machine_.JoinSockets(figure.gb_per_s * kGiga,
                         "what NCCL plans with between such CPUs (src/graph/topo.h, " +
                             std::string(figure.name) + "), " + Where(cpu));
  }

  const TextSource& source_;
  Machine machine_;
  pugi::xml_document document_;
  std::vector<pugi::xml_node> cpus_;
  std::vector<int> cpu_vertex_;
  std::vector<Device> devices_;
  std::vector<int> gpus_;  // devices
  std::map<std::string, int> by_busid_;
  pugi::xml_node unclassified_;
  std::set<std::string> ignored_;
  std::size_t ignored_at_ = 0;
};

}  // namespace

ImportedCluster ImportNcclTopology(const TextSource& source, const TopologyImportOptions& options) {
  return NcclImporter(source, options).Import();
}

}  // namespace aurum
