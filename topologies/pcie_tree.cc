#include "topologies/pcie_tree.h"

#include <map>
#include <numeric>
#include <utility>

namespace aurum {
namespace {

class Classes {
 public:
  explicit Classes(std::size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0U); }
  std::size_t Of(std::size_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  // The lower number stays the name.
  void Join(std::size_t a, std::size_t b) {
    a = Of(a);
    b = Of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

// Three partitions, each coarser than the one before.
struct Levels {
  explicit Levels(std::size_t n) : pix(n), pxb(n), socket(n) {}
  Classes pix, pxb, socket;
};

void JoinByRelation(const RelationTable& table, Levels* levels) {
  const std::size_t n = table.devices.size();
  std::map<std::string, std::size_t> by_socket;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      switch (table.relation[i][j]) {
        case Relation::kPix:
          levels->pix.Join(i, j);
          [[fallthrough]];
        case Relation::kPxb:
          levels->pxb.Join(i, j);
          [[fallthrough]];
        case Relation::kPhb:
        case Relation::kNode:
          levels->socket.Join(i, j);
          break;
        default:
          break;
      }
    }
    if (table.devices[i].socket.empty()) continue;
    const auto [found, first] = by_socket.emplace(table.devices[i].socket, i);
    if (!first) levels->socket.Join(found->second, i);
  }
}

// Devices of whose place nothing is told come together on one CPU.
void GatherStrays(const RelationTable& table, std::size_t offset, Levels* levels,
                  Machine* machine) {
  const std::size_t n = table.devices.size();
  std::vector<bool> placed(n, false);  // by class: something is known of it
  for (std::size_t i = 0; i < n; ++i) {
    bool known = !table.devices[i].socket.empty();
    for (std::size_t j = 0; j < n && !known; ++j) {
      const Relation r = table.relation[i][j];
      known = r != Relation::kUnknown && r != Relation::kSelf && r != Relation::kGpuLinks &&
              (table.devices[i].told || r != Relation::kSys);
    }
    if (known) placed[levels->socket.Of(i)] = true;
  }
  std::string strays;
  std::size_t first = n;
  for (std::size_t i = 0; i < n; ++i) {
    if (placed[levels->socket.Of(i)]) continue;
    if (first == n) first = i;
    levels->socket.Join(first, i);
    strays += (strays.empty() ? "" : ", ") + table.devices[i].label;
  }
  if (strays.empty()) return;
  machine->Warn(1545, offset,
                "nothing tells where these hang: " + strays + "; one CPU of their own is assumed",
                "give the whole output of nvidia-smi topo -m, with its affinity columns");
}

Relation Implied(Levels* levels, std::size_t i, std::size_t j) {
  if (levels->pix.Of(i) == levels->pix.Of(j)) return Relation::kPix;
  if (levels->pxb.Of(i) == levels->pxb.Of(j)) return Relation::kPxb;
  return levels->socket.Of(i) == levels->socket.Of(j) ? Relation::kNode : Relation::kSys;
}

void WarnContradictions(const RelationTable& table, std::size_t offset, Levels* levels,
                        Machine* machine) {
  int count = 0;
  std::string example;
  for (std::size_t i = 0; i < table.devices.size(); ++i) {
    for (std::size_t j = i + 1; j < table.devices.size(); ++j) {
      Relation told = table.relation[i][j];
      if (told == Relation::kUnknown || told == Relation::kGpuLinks) continue;
      if (told == Relation::kPhb) told = Relation::kNode;
      const Relation implied = Implied(levels, i, j);
      if (told == implied) continue;
      if (count++ > 0) continue;
      example = table.devices[i].label + " and " + table.devices[j].label + " are " +
                std::string(RelationName(table.relation[i][j])) +
                ", though the others put them at " + std::string(RelationName(implied));
    }
  }
  if (count == 0) return;
  machine->Warn(1546, offset,
                "relations of " + std::to_string(count) + " pairs fit no tree: " + example,
                "the nearer place is taken; look at the document's cables");
}

}  // namespace

std::string_view RelationName(Relation relation) {
  switch (relation) {
    case Relation::kUnknown:
      return "unknown";
    case Relation::kSelf:
      return "X";
    case Relation::kGpuLinks:
      return "NV";
    case Relation::kPix:
      return "PIX";
    case Relation::kPxb:
      return "PXB";
    case Relation::kPhb:
      return "PHB";
    case Relation::kNode:
      return "NODE";
    case Relation::kSys:
      return "SYS";
  }
  return "";
}

void AddPcieTree(const RelationTable& table, const std::vector<int>& vertices, std::size_t offset,
                 Machine* machine) {
  const std::size_t n = table.devices.size();
  Levels levels(n);
  JoinByRelation(table, &levels);
  GatherStrays(table, offset, &levels, machine);
  WarnContradictions(table, offset, &levels, machine);

  std::vector<int> pix_size(n, 0), pxb_size(n, 0), pxb_switches(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    ++pix_size[levels.pix.Of(i)];
    ++pxb_size[levels.pxb.Of(i)];
    if (levels.pix.Of(i) == i) ++pxb_switches[levels.pxb.Of(i)];
  }
  std::map<std::size_t, int> cpus, upper, lower;  // vertices, by class
  for (std::size_t i = 0; i < n; ++i) {
    if (cpus.contains(levels.socket.Of(i))) continue;
    std::string label;
    for (std::size_t j = i; j < n && label.empty(); ++j) {
      if (levels.socket.Of(j) == levels.socket.Of(i)) label = table.devices[j].socket;
    }
    cpus[levels.socket.Of(i)] = machine->AddVertex(VertexKind::kCpu, label);
  }
  const auto switch_of = [&](std::map<std::size_t, int>* made, std::size_t name, int parent) {
    const auto found = made->find(name);
    if (found != made->end()) return found->second;
    const int vertex = machine->AddVertex(VertexKind::kPcieSwitch, "");
    machine->AddUnknownPcie(vertex, parent);
    (*made)[name] = vertex;
    return vertex;
  };
  for (std::size_t i = 0; i < n; ++i) {
    int parent = cpus[levels.socket.Of(i)];
    const std::size_t pxb = levels.pxb.Of(i);
    const std::size_t pix = levels.pix.Of(i);
    if (pxb_size[pxb] > 1 && pxb_switches[pxb] > 1) parent = switch_of(&upper, pxb, parent);
    if (pix_size[pix] > 1) parent = switch_of(&lower, pix, parent);
    machine->AddUnknownPcie(vertices[i], parent);
  }
}

}  // namespace aurum
