#include "topologies/nvidia_smi.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "topologies/pcie_tree.h"

namespace aurum {
namespace {

constexpr std::size_t kMostMatrixDevices = 512;
constexpr int kMostLinks = 1024;

struct Word {
  std::string_view text;
  std::size_t offset = 0;
};

struct Cell {
  Relation relation = Relation::kUnknown;
  int links = 0;  // of kGpuLinks
  std::size_t offset = 0;
  friend bool operator==(const Cell& a, const Cell& b) {
    return a.relation == b.relation && a.links == b.links;
  }
};

// Words of a line; what steers a terminal (the header is underlined) is no part of them.
std::vector<Word> WordsOf(std::string_view line, std::size_t offset) {
  std::vector<Word> words;
  std::size_t at = 0;
  const auto is_space = [&](std::size_t i) {
    return line[i] == ' ' || line[i] == '\t' || line[i] == '\r' || line[i] == '\v' ||
           line[i] == '\f';
  };
  const auto escape_end = [&](std::size_t i) {
    if (line[i] != '\x1b' || i + 1 >= line.size() || line[i + 1] != '[') return i;
    i += 2;
    while (i < line.size() && (line[i] == ';' || (line[i] >= '0' && line[i] <= '9'))) ++i;
    return std::min(i + 1, line.size());
  };
  while (at < line.size()) {
    if (is_space(at)) {
      ++at;
    } else if (escape_end(at) != at) {
      at = escape_end(at);
    } else {
      const std::size_t start = at;
      while (at < line.size() && !is_space(at) && escape_end(at) == at) ++at;
      words.push_back({line.substr(start, at - start), offset + start});
    }
  }
  return words;
}

bool IsGpuName(std::string_view name) {
  return name.size() > 3 && name.starts_with("GPU") &&
         name.find_first_not_of("0123456789", 3) == std::string_view::npos;
}

// Cuts a word into relations: "SYS" into one, "PIXNODE" into two; nothing if it is none.
std::vector<Cell> CellsOf(const Word& word) {
  static constexpr std::pair<std::string_view, Relation> kWords[] = {
      {"PIX", Relation::kPix},   {"PXB", Relation::kPxb}, {"PHB", Relation::kPhb},
      {"NODE", Relation::kNode}, {"SYS", Relation::kSys}, {"SOC", Relation::kSys},  // before 2017
      {"X", Relation::kSelf},
  };
  std::vector<Cell> cells;
  std::size_t at = 0;
  while (at < word.text.size()) {
    const std::string_view rest = word.text.substr(at);
    Cell cell;
    cell.offset = word.offset + at;
    if (rest.starts_with("NV")) {
      std::size_t end = 2;
      while (end < rest.size() && rest[end] >= '0' && rest[end] <= '9' &&
             cell.links <= kMostLinks) {
        cell.links = cell.links * 10 + (rest[end] - '0');
        ++end;
      }
      if (end == 2 || cell.links == 0 || cell.links > kMostLinks) return {};
      cell.relation = Relation::kGpuLinks;
      at += end;
    } else {
      const auto* found = std::find_if(std::begin(kWords), std::end(kWords),
                                       [&](const auto& w) { return rest.starts_with(w.first); });
      if (found == std::end(kWords)) return {};
      cell.relation = found->second;
      at += found->first.size();
    }
    cells.push_back(cell);
  }
  return cells;
}

class SmiImporter {
 public:
  SmiImporter(const TextSource& source, const TopologyImportOptions& options)
      : source_(source), machine_(options, &source) {}

  ImportedCluster Import() {
    ReadLines();
    CompleteTable();
    const GpuFacts& gpu = machine_.ChooseGpu(nullptr, header_, GpuQuestion());
    std::vector<int> vertices;
    for (std::size_t i = 0; i < gpus_; ++i)
      vertices.push_back(machine_.AddVertex(VertexKind::kGpu, ""));
    for (std::size_t i = gpus_; i < names_.size(); ++i) {
      const std::string label = legend_.contains(names_[i]) ? legend_[names_[i]] : names_[i];
      vertices.push_back(machine_.AddVertex(VertexKind::kNic, label));
      machine_.SetNic(vertices.back(), machine_.UnknownNicRate(header_, label), true);
    }
    AddGpuLinks(gpu, vertices);
    AddPcieTree(Table(), vertices, header_, &machine_);
    machine_.JoinSockets(0, "");
    return machine_.Finish("nvidia-smi topo -m, " + source_.file());
  }

 private:
  void ReadLines() {
    const std::string_view text = source_.text();
    std::size_t start = 0;
    while (start < text.size()) {
      std::size_t end = text.find('\n', start);
      if (end == std::string_view::npos) end = text.size();
      if (!ReadLine(WordsOf(text.substr(start, end - start), start))) break;
      start = end + 1;
    }
    if (names_.empty()) {
      source_.Fail(547, 0, "no table of nvidia-smi topo -m: no line begins with GPU0, GPU1, …",
                   "give the output of `nvidia-smi topo -m`; NCCL's XML is imported with "
                   "'nccl-topo'");
    }
  }

  // False at the end of the table.
  bool ReadLine(const std::vector<Word>& words) {
    if (words.empty()) return true;
    if (names_.empty()) {
      if (IsGpuName(words[0].text) && (words.size() == 1 || CellsOf(words[1]).empty()))
        ReadHeader(words);
      return true;
    }
    const std::string name(words[0].text);
    const auto found = std::find(names_.begin(), names_.end(), name);
    const bool row = found != names_.end() && words.size() > 1 && !CellsOf(words[1]).empty();
    if (row) {
      ReadRow(static_cast<std::size_t>(found - names_.begin()), words);
    } else if (IsGpuName(name)) {
      if (words.size() > 1 && IsGpuName(words[1].text)) {
        machine_.Warn(1550, words[0].offset, "a second table is left out",
                      "a cluster has nodes of one kind: --nodes says how many");
        return false;
      }
      Fail(548, words.size() > 1 ? words[1] : words[0], "is no relation between devices",
           "a cell is X, NV1, NV2, …, PIX, PXB, PHB, NODE or SYS");
    } else if (name.size() > 1 && name.back() == ':' && words.size() == 2) {
      legend_[name.substr(0, name.size() - 1)] = std::string(words[1].text);  // "NIC0: mlx5_0"
    }
    return true;
  }

  [[noreturn]] void Fail(int code, const Word& word, const std::string& what,
                         const std::string& help) const {
    source_.Fail(code, word.offset, "'" + std::string(word.text.substr(0, 40)) + "' " + what, help);
  }

  void ReadHeader(const std::vector<Word>& words) {
    header_ = words[0].offset;
    for (const Word& word : words) {
      if (word.text == "CPU" || word.text == "NUMA" || word.text == "GPU") {
        has_cpu_ = has_cpu_ || word.text == "CPU";
        has_numa_ = has_numa_ || word.text == "NUMA";
        if (word.text == "GPU") break;  // "GPU NUMA ID"
        continue;
      }
      if (has_cpu_ || has_numa_) continue;  // "Affinity"
      const std::string name(word.text);
      if (std::find(names_.begin(), names_.end(), name) != names_.end())
        Fail(549, word, "is there twice in the header", "give the output as it was printed");
      if (IsGpuName(name)) {
        if (gpus_ != names_.size())
          Fail(549, word, "stands behind the NICs in the header",
               "give the output as it was printed");
        ++gpus_;
      }
      names_.push_back(name);
      if (names_.size() > kMostMatrixDevices)
        Fail(549, word, "is one device too many: at most " + std::to_string(kMostMatrixDevices),
             "give the output as it was printed");
    }
    cells_.assign(names_.size(), std::vector<Cell>(names_.size()));
    told_.assign(names_.size(), false);
    sockets_.assign(names_.size(), "");
  }

  void ReadRow(std::size_t row, const std::vector<Word>& words) {
    std::vector<Cell> cells;
    std::size_t next = 1;
    for (; next < words.size() && cells.size() < names_.size(); ++next) {
      const std::vector<Cell> found = CellsOf(words[next]);
      if (found.empty()) {
        if (cells.size() + 1 == names_.size() || !LooksLikeAffinity(words[next].text))
          Fail(548, words[next], "is no relation between devices",
               "a cell is X, NV1, NV2, …, PIX, PXB, PHB, NODE or SYS");
        break;
      }
      if (found.size() > 1) NoteMerged(words[next]);
      cells.insert(cells.end(), found.begin(), found.end());
    }
    if (cells.size() != names_.size()) {
      source_.Fail(549, words[0].offset,
                   "the row of " + names_[row] + " has " + std::to_string(cells.size()) +
                       " cells, the header names " + std::to_string(names_.size()) + " devices",
                   "give the output as it was printed, with whole lines");
    }
    if (told_[row]) Fail(549, words[0], "has two rows", "give the output as it was printed");
    if (cells[row].relation != Relation::kSelf)
      source_.Fail(550, cells[row].offset,
                   "the cell of " + names_[row] +
                       " with itself is not X: cells are missing or too "
                       "many before it",
                   "give the output as it was printed");
    cells_[row] = std::move(cells);
    told_[row] = true;
    if (row >= gpus_) return;
    if (has_cpu_ && next < words.size()) sockets_[row] = "CPUs " + std::string(words[next++].text);
    if (has_numa_ && next < words.size() && words[next].text != "N/A")
      sockets_[row] = "NUMA " + std::string(words[next].text);
  }

  static bool LooksLikeAffinity(std::string_view text) {
    return text == "N/A" || text.find_first_not_of("0123456789,-") == std::string_view::npos;
  }

  void NoteMerged(const Word& word) {
    if (warned_merged_) return;
    warned_merged_ = true;
    machine_.Warn(1552, word.offset,
                  "cells that run into each other, like '" + std::string(word.text.substr(0, 40)) +
                      "', are read as the relations that they are made of",
                  "a fault of nvidia-smi beyond ten NICs; a newer driver prints them apart");
  }

  // The other half of the table fills in for rows that are missing.
  void CompleteTable() {
    const std::size_t n = names_.size();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) {
        Cell& a = cells_[i][j];
        Cell& b = cells_[j][i];
        if (told_[i] && told_[j] && !(a == b)) {
          source_.Fail(550, b.offset,
                       names_[j] + " and " + names_[i] + " are " + Spelled(b) + " here and " +
                           Spelled(a) + " in line " + std::to_string(source_.LineOf(a.offset)),
                       "the table must be symmetric: give the output as it was printed");
        }
        if (!told_[i]) a = b;
        if (!told_[j]) b = a;
      }
    }
    std::string missing;
    for (std::size_t i = 0; i < gpus_; ++i) {
      if (!told_[i]) missing += (missing.empty() ? "" : ", ") + names_[i];
    }
    if (missing.empty()) return;
    // Enough if all GPUs have the same NVLinks to each other: then every pair that is not there has.
    std::optional<Cell> every;
    bool alike = true;
    for (std::size_t i = 0; i < gpus_; ++i) {
      for (std::size_t j = 0; j < gpus_; ++j) {
        const Cell& cell = cells_[i][j];
        if (i == j || cell.relation == Relation::kUnknown) continue;
        if (!every) every = cell;
        alike = alike && cell == *every;
      }
    }
    if (!every || !alike || every->relation != Relation::kGpuLinks) {
      source_.Fail(551, source_.text().size(), "the table is cut off: no row of " + missing,
                   "give the whole output of nvidia-smi topo -m");
    }
    for (std::size_t i = 0; i < gpus_; ++i) {
      for (std::size_t j = 0; j < gpus_; ++j) {
        if (i != j && cells_[i][j].relation == Relation::kUnknown) cells_[i][j] = *every;
      }
    }
    machine_.Warn(1553, source_.text().size(),
                  "the table is cut off, no row of " + missing + ": " + Spelled(*every) +
                      " between all GPUs assumed, as between all that have rows",
                  "give the whole output of nvidia-smi topo -m");
  }

  static std::string Spelled(const Cell& cell) {
    return std::string(RelationName(cell.relation)) +
           (cell.links > 0 ? std::to_string(cell.links) : "");
  }

  // E0545 with the GPUs that could have such NVLinks.
  std::string GpuQuestion() const {
    int most = 0;
    for (std::size_t i = 0; i < gpus_; ++i) {
      for (const Cell& cell : cells_[i]) most = std::max(most, cell.links);
    }
    std::string text = "nvidia-smi topo -m does not tell which GPUs these are";
    if (most == 0) return text;
    std::string could;
    for (const std::string& key : GpuKeys()) {
      if (FindGpuByKey(key)->links == most) could += (could.empty() ? "" : ", ") + key;
    }
    return could.empty() ? text : text + "; with " + std::to_string(most) + " NVLinks: " + could;
  }

  void AddGpuLinks(const GpuFacts& gpu, const std::vector<int>& vertices) {
    for (std::size_t i = 0; i < gpus_; ++i) {
      int all = 0;
      int most = 0;
      bool alike = true;
      std::size_t offset = header_;
      for (std::size_t j = 0; j < gpus_; ++j) {
        const Cell& cell = cells_[i][j];
        if (i == j) continue;
        if (most > 0 || all > 0) alike = alike && (cell.links == most);
        if (cell.links > 0) offset = cell.offset;
        all += cell.links;
        most = std::max(most, cell.links);
      }
      if (all == 0) continue;
      if (most > gpu.links) {
        source_.Fail(552, offset,
                     names_[i] + " has NV" + std::to_string(most) + ", but " +
                         std::string(gpu.name) + " has " + std::to_string(gpu.links) + " NVLinks",
                     "is --gpu right?");
      }
      const std::string where = "line " + std::to_string(source_.LineOf(offset));
      if (all > gpu.links) {
        if (!alike) {
          source_.Fail(552, offset,
                       names_[i] + " has " + std::to_string(all) + " NVLinks in all, " +
                           std::string(gpu.name) + " has " + std::to_string(gpu.links) +
                           ", and they are too uneven for NVSwitches",
                       "is --gpu right, and the table whole?");
        }
        machine_.AddPlaneLinks(vertices[i], most, "NV" + std::to_string(most) + ", " + where);
        continue;
      }
      for (std::size_t j = i + 1; j < gpus_; ++j) {
        const int links = cells_[i][j].links;
        if (links == 0) continue;
        machine_.AddGpuLinks(vertices[i], vertices[j], LinkKind::kNvLink, links,
                             "NV" + std::to_string(links) + ", " + where);
      }
    }
  }

  RelationTable Table() const {
    RelationTable table;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      table.devices.push_back({i < gpus_, names_[i], sockets_[i], told_[i]});
      std::vector<Relation>& row = table.relation.emplace_back();
      for (const Cell& cell : cells_[i]) row.push_back(cell.relation);
    }
    return table;
  }

  const TextSource& source_;
  Machine machine_;
  std::size_t header_ = 0;  // where it stands
  std::vector<std::string> names_;
  std::size_t gpus_ = 0;  // the first so many of them
  bool has_cpu_ = false;
  bool has_numa_ = false;
  std::vector<std::vector<Cell>> cells_;
  std::vector<bool> told_;
  std::vector<std::string> sockets_;
  std::map<std::string, std::string> legend_;
  bool warned_merged_ = false;
};

}  // namespace

ImportedCluster ImportNvidiaSmi(const TextSource& source, const TopologyImportOptions& options) {
  return SmiImporter(source, options).Import();
}

}  // namespace aurum
