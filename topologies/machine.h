#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/diagnostic.h"
#include "sim/core/json.h"
#include "topologies/cluster.h"
#include "topologies/gpu_facts.h"

namespace aurum {

// What the importers of topologies share: what the user says about what a file does not, and the
// cluster document that comes out.

// Each is asked for only where the file does not tell; 0, "" or -1: not given. Where neither tells,
// there is a documented default and a warning with its value and source, or an error.
struct TopologyImportOptions {
  std::string name;  // of the cluster
  std::string gpu;   // a key of gpu_facts.h
  double gpu_memory_gib = 0;
  std::string profile;
  int pcie_generation = 0;
  double inter_socket_gb_per_s = 0;
  int nvlinks = -1;  // of each GPU to NVSwitches, where no file lists them
  double nic_gbit_per_s = 0;
  int nodes = 1;
  int switch_ports = 0;  // of the fabric's switches
};

struct ImportedCluster {
  Json document;  // "aurum.cluster/1"; its "warnings" are those below
  std::vector<Diagnostic> warnings;
};

// A text and places in it.
class TextSource {
 public:
  TextSource(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {}
  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  SourceLocation At(std::size_t offset) const;
  std::string file() const;  // the name without its folder
  int LineOf(std::size_t offset) const { return At(offset).line; }
  [[noreturn]] void Fail(int code, std::size_t offset, std::string message, std::string help) const;

 private:
  std::string name_;
  std::string text_;
};

// One direction of a PCIe link, B/s: GT/s per lane, less 8b/10b up to 5 GT/s, 128b/130b up to 32, and
// 242/256 of a flit at 64 (PCI Express base specification 6.0).
double PcieBytesPerSecond(double gigatransfers_per_s, int lanes);
// Of a generation 1 … 6; 0 if there is none such.
double PcieGigatransfers(int generation);

// Collects a node's parts and writes the document.
class Machine {
 public:
  Machine(const TopologyImportOptions& options, const TextSource* source);

  const TopologyImportOptions& options() const { return options_; }
  // `offset` is a place in the source, or kNoPlace for the whole of it.
  static constexpr std::size_t kNoPlace = static_cast<std::size_t>(-1);
  void Warn(int code, std::size_t offset, std::string message, std::string help);

  // The GPU named by the option, else `found`, which the file tells. E0545 if neither is known.
  const GpuFacts& ChooseGpu(const GpuFacts* found, std::size_t offset, const std::string& told);

  // Parts are called after their kind and number; `label` is what the file calls them. Add GPUs in
  // the order of their ids.
  int AddVertex(VertexKind kind, std::string label);
  void SetNic(int vertex, double bytes_per_s, bool gpu_direct);
  void SetGpuDirect(int vertex, bool gpu_direct);
  void AddCable(int a, int b, LinkKind kind, double bytes_per_s, double latency_s,
                std::string source);
  // `links` NVLinks or xGMI links of the chosen GPU, to another GPU or a plane.
  void AddGpuLinks(int gpu, int other, LinkKind kind, int links, const std::string& where);
  // To an NVSwitch plane that is made on first use.
  void AddPlaneLinks(int gpu, int links, const std::string& where);
  void AddPcie(int child, int parent, double gigatransfers_per_s, int lanes,
               const std::string& where);
  // A PCIe link of which the file says nothing: the option's generation, else the GPU's, x16. One
  // warning for all (W1540).
  void AddUnknownPcie(int child, int parent);
  // Every pair of the CPUs that were added, at the option's rate, else `bytes_per_s`, else a default
  // (W1542).
  void JoinSockets(double bytes_per_s, const std::string& source);
  // The rate of a NIC of which the file tells none: the option's, else 100 Gbit/s (W1541); E0553
  // where several nodes make it matter.
  double UnknownNicRate(std::size_t offset, const std::string& nic);
  int Count(VertexKind kind) const;

  // Joins NICs that serve one GPU, adds the fabric, and checks the document with ReadCluster.
  ImportedCluster Finish(const std::string& what);

 private:
  struct Part {
    VertexKind kind;
    int index;
    std::string label;
    double nic_bytes_per_s = 0;
    bool gpu_direct = true;
    bool gone = false;  // joined to another NIC
  };
  struct Cable {
    int a, b;
    LinkKind kind;
    double bytes_per_s, latency_s;
    std::string source;
  };
  void JoinNics();
  Json NodeJson() const;
  Json FabricJson();

  TopologyImportOptions options_;
  const TextSource* source_;
  const GpuFacts* gpu_ = nullptr;
  std::vector<Part> parts_;
  std::vector<Cable> cables_;
  int plane_ = -1;
  bool warned_pcie_ = false;
  bool warned_nic_ = false;
  std::vector<Diagnostic> warnings_;
};

}  // namespace aurum
