#include "topologies/nccl_xml.h"

#include <pugixml.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace aurum {
namespace {

constexpr int kMostSystemDevices = 2048;
constexpr int kMostDepth = 32;  // of PCIe bridges
constexpr char kAsWritten[] = "take the file as NCCL wrote it";

std::size_t Offset(const pugi::xml_node& element) {
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(element.offset_debug(), 0));
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return text;
}

std::string Shown(std::string_view text) { return std::string(text.substr(0, 40)); }

bool Is(const pugi::xml_node& element, const char* name) {
  return std::strcmp(element.name(), name) == 0;
}

int Hexadecimal(const pugi::xml_node& element, const char* name) {
  return static_cast<int>(std::strtol(element.attribute(name).as_string("0"), nullptr, 16));
}

class XmlReader {
 public:
  explicit XmlReader(const TextSource& source) : source_(source) {}

  NcclDump Read() {
    for (const pugi::xml_node cpu : Parse().children()) {
      if (cpu.type() != pugi::node_element) continue;
      if (!Is(cpu, "cpu")) {
        Ignore(cpu);
        continue;
      }
      ReadCpu(cpu);
      Collect(cpu, -1, 0);
    }
    SortGpus();
    for (const std::string& name : ignored_)
      dump_.ignored += (dump_.ignored.empty() ? "" : ", ") + name;
    return std::move(dump_);
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
    if (Is(root, "graphs")) {
      source_.Fail(
          541, Offset(root),
          "this is a NCCL graph dump: the rings and trees that NCCL chose, not the machine",
          "dump the topology: NCCL_TOPO_DUMP_FILE=FILE, not NCCL_GRAPH_DUMP_FILE");
    }
    if (!Is(root, "system")) {
      source_.Fail(541, Offset(root),
                   "a topology begins with <system>, this file with <" + Shown(root.name()) + ">",
                   "NCCL writes a topology with NCCL_TOPO_DUMP_FILE=FILE");
    }
    return root;
  }

  void Ignore(const pugi::xml_node& element) {
    if (ignored_.empty()) dump_.ignored_at = Offset(element);
    const std::string_view pci_class = element.attribute("class").as_string();
    ignored_.insert("<" + Shown(element.name()) + ">" +
                    (pci_class.empty() ? "" : " of class " + Shown(pci_class)));
  }

  void ReadCpu(const pugi::xml_node& element) {
    NcclCpu cpu;
    cpu.offset = Offset(element);
    cpu.numa = element.attribute("numaid").as_string();
    cpu.arch = element.attribute("arch").as_string();
    cpu.vendor = element.attribute("vendor").as_string();
    cpu.family = element.attribute("familyid").as_int(0);
    cpu.model = element.attribute("modelid").as_int(0);
    dump_.cpus.push_back(std::move(cpu));
    const std::string host = element.attribute("host_hash").as_string();
    if (!host.empty()) hosts_.insert(host);
    if (hosts_.size() > 1) {
      source_.Fail(556, Offset(element), "this file describes several hosts (host_hash)",
                   "keep the <cpu> elements of one host and import that with --nodes N");
    }
  }

  // What stands in a <pci> says what it is, else its class; false for what carries no traffic.
  bool KindOf(const pugi::xml_node& element, NcclDevice::Kind* kind) {
    const std::string_view pci_class = element.attribute("class").as_string();
    if (element.child("gpu")) {
      *kind = NcclDevice::Kind::kGpu;
    } else if (element.child("nic")) {
      *kind = NcclDevice::Kind::kNic;
    } else if (element.child("pci")) {
      *kind = NcclDevice::Kind::kBridge;
    } else if (pci_class.starts_with("0x03")) {
      *kind = NcclDevice::Kind::kGpu;
    } else if (pci_class.starts_with("0x02")) {
      *kind = NcclDevice::Kind::kNic;
    } else {
      if (pci_class.empty() && !unclassified_) unclassified_ = element;
      return false;
    }
    return true;
  }

  void Collect(const pugi::xml_node& above, int parent, int depth) {
    if (depth > kMostDepth) {
      source_.Fail(542, Offset(above),
                   "PCIe bridges nested deeper than " + std::to_string(kMostDepth),
                   "no machine has such a tree; is the file damaged?");
    }
    for (const pugi::xml_node element : above.children()) {
      if (element.type() != pugi::node_element) continue;
      if (!Is(element, "pci") && !Is(element, "nic")) {
        Ignore(element);
        continue;
      }
      NcclDevice device;
      device.offset = Offset(element);
      device.parent = parent;
      device.cpu = static_cast<int>(dump_.cpus.size()) - 1;
      device.kind = NcclDevice::Kind::kNic;
      if (Is(element, "pci")) {
        ReadPci(element, &device);
        if (!KindOf(element, &device.kind)) {
          Ignore(element);
          continue;
        }
      }
      if (device.kind == NcclDevice::Kind::kNic)
        ReadNets(device.busid.empty() ? element : element.child("nic"), &device);
      if (device.kind == NcclDevice::Kind::kGpu) ReadGpu(element.child("gpu"), &device);
      const int id = static_cast<int>(dump_.devices.size());
      if (id == kMostSystemDevices) {
        source_.Fail(542, device.offset,
                     "more than " + std::to_string(kMostSystemDevices) + " devices",
                     "no machine has so many; is the file damaged?");
      }
      if (device.kind == NcclDevice::Kind::kGpu) dump_.gpus.push_back(id);
      dump_.devices.push_back(std::move(device));
      if (dump_.devices.back().kind == NcclDevice::Kind::kBridge) Collect(element, id, depth + 1);
    }
  }

  void ReadPci(const pugi::xml_node& element, NcclDevice* device) {
    device->busid = Lower(element.attribute("busid").as_string());
    if (device->busid.empty())
      source_.Fail(542, device->offset, "a <pci> without 'busid'", kAsWritten);
    if (!busids_.insert(device->busid).second) {
      source_.Fail(544, device->offset, "the device " + Shown(device->busid) + " is there twice",
                   "remove one of the two");
    }
    device->gigatransfers_per_s = Gigatransfers(element);
    // 0 lanes are 16 to NCCL (ncclTopoAddPci).
    if (element.attribute("link_width") && device->gigatransfers_per_s > 0) {
      const int lanes = Integer(element, "link_width", 0, 64);
      if (lanes > 0) device->lanes = lanes;
    }
    device->vendor = Hexadecimal(element, "vendor");
    device->device = Hexadecimal(element, "device");
    device->subsystem_vendor = Hexadecimal(element, "subsystem_vendor");
    device->subsystem_device = Hexadecimal(element, "subsystem_device");
    device->model = Lower(element.attribute("device").as_string());
  }

  void ReadNets(const pugi::xml_node& nic, NcclDevice* device) {
    for (const pugi::xml_node element : nic.children("net")) {
      NcclNet net;
      net.offset = Offset(element);
      net.name = element.attribute("name").as_string();
      net.gpu_direct = element.attribute("gdr").as_int(1) != 0;
      if (element.attribute("speed"))
        net.megabit_per_s = Integer(element, "speed", -1, 100'000'000);
      device->nets.push_back(std::move(net));
    }
  }

  void ReadGpu(const pugi::xml_node& gpu, NcclDevice* device) {
    device->described = static_cast<bool>(gpu);
    device->number = gpu.attribute("dev").as_int(-1);
    device->gcn = gpu.attribute("gcn").as_int(0);
    device->gpu_direct = gpu.attribute("gdr").as_int(1) != 0;
    for (const pugi::xml_node element : gpu.children()) {
      if (element.type() != pugi::node_element) continue;
      NcclGpuLink link;
      if (Is(element, "c2c")) {
        link.kind = NcclGpuLink::Kind::kChipToChip;
        link.megabyte_per_s = Integer(element, "bw", 1, 100'000'000);
      } else if (Is(element, "xgmi")) {
        link.kind = NcclGpuLink::Kind::kXgmi;
      } else if (!Is(element, "nvlink")) {
        Ignore(element);
        continue;
      }
      link.offset = Offset(element);
      link.count = Integer(element, "count", 1, 1024);
      link.target = Lower(element.attribute("target").as_string());
      link.target_class = Lower(element.attribute("tclass").as_string());
      if (!link.target.empty() && link.target == device->busid)
        source_.Fail(542, link.offset, "a GPU that is linked to itself", kAsWritten);
      device->links.push_back(std::move(link));
    }
  }

  int Integer(const pugi::xml_node& element, const char* name, int low, int high) const {
    const std::string_view text = element.attribute(name).as_string();
    int value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() ||
        value < low || value > high) {
      source_.Fail(542, Offset(element),
                   "<" + Shown(element.name()) + "> has " +
                       (text.empty() ? "no '" + std::string(name) + "'"
                                     : std::string(name) + "=\"" + Shown(text) + "\"") +
                       ", where a number from " + std::to_string(low) + " to " +
                       std::to_string(high) + " must stand",
                   kAsWritten);
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
    source_.Fail(542, Offset(element), "no PCIe generation has link_speed=\"" + Shown(text) + "\"",
                 "2.5, 5, 8, 16, 32 or 64 GT/s");
  }

  void SortGpus() {
    std::vector<int>& gpus = dump_.gpus;
    if (gpus.empty()) {
      const std::string help =
          "run NCCL with NCCL_TOPO_DUMP_FILE=FILE on the machine and import what it writes";
      if (unclassified_) {
        source_.Fail(543, Offset(unclassified_),
                     "no GPU can be told: there is no <gpu>, and the device " +
                         Shown(unclassified_.attribute("busid").as_string()) + " has no 'class'",
                     "this is a file for NCCL to complete; " + help);
      }
      source_.Fail(543, 0, "this file has no GPU: no <gpu>, and no <pci> of class 0x03", help);
    }
    const auto number = [&](int d) { return dump_.devices[static_cast<std::size_t>(d)].number; };
    if (std::all_of(gpus.begin(), gpus.end(), [&](int d) { return number(d) >= 0; })) {
      std::stable_sort(gpus.begin(), gpus.end(),
                       [&](int a, int b) { return number(a) < number(b); });
    }
  }

  const TextSource& source_;
  pugi::xml_document document_;
  NcclDump dump_;
  std::set<std::string> busids_, hosts_, ignored_;
  pugi::xml_node unclassified_;
};

}  // namespace

NcclDump ReadNcclXml(const TextSource& source) { return XmlReader(source).Read(); }

}  // namespace aurum
