#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/core/diagnostic.h"
#include "sim/core/object_reader.h"
#include "topologies/cluster.h"

// The catalogue on disk: one file per cluster, and one per family of clusters that differ only in
// their number of nodes. A family file is a cluster document without "name" and "nodes" and with
//   "family": {"pattern": "<N>xh100-ndr", "listed_gpus": [16, 64], "aliases": [{"name": …, "gpus":
//   …}]}
// Opening "64xh100-ndr" takes the document, drops "family" and sets "name" and "nodes".

namespace aurum {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPatternStart = "<N>x";

struct Alias {
  std::string name;
  std::int64_t gpus = 0;
};

struct Family {
  JsonDocument document;
  std::string pattern;
  std::string suffix;  // the pattern after "<N>x"
  std::int64_t gpus_per_node = 1;
  std::vector<std::int64_t> listed_gpus;
  std::vector<Alias> aliases;

  std::string NameOf(std::int64_t gpus) const { return std::to_string(gpus) + "x" + suffix; }
};

std::vector<std::string> JsonFiles(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".json") names.push_back(it->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path Folder(const std::string& data_root) {
  return fs::path(data_root) / "topologies" / "catalogue";
}

Family ReadFamily(const fs::path& path) {
  Family family;
  family.document = ReadJsonFile(path.string());
  ObjectReader root(family.document, family.document.root, "");
  ObjectReader reader = root.Object("family");
  family.pattern = reader.String("pattern");
  if (family.pattern.size() <= kPatternStart.size() || !family.pattern.starts_with(kPatternStart)) {
    reader.Fail(108, "pattern", "'" + family.pattern + "' is not a pattern of names",
                "write \"<N>x\" and a name");
  }
  family.suffix = family.pattern.substr(kPatternStart.size());
  family.gpus_per_node = root.Object("node").Integer("gpus", 1, 256);
  family.listed_gpus = reader.Integers("listed_gpus", 1, std::int64_t{1} << 24);
  for (ObjectReader& alias : reader.Objects("aliases")) {
    family.aliases.push_back(
        {alias.String("name"), alias.Integer("gpus", 1, std::int64_t{1} << 24)});
    alias.Finish();
  }
  reader.Finish();
  return family;
}

std::vector<Family> ReadFamilies(const std::string& data_root) {
  std::vector<Family> families;
  const fs::path folder = Folder(data_root) / "families";
  for (const std::string& name : JsonFiles(folder))
    families.push_back(ReadFamily(folder / (name + ".json")));
  return families;
}

JsonDocument Instance(Family family, std::int64_t gpus, const std::string& name) {
  if (gpus < 1 || gpus % family.gpus_per_node != 0) {
    const std::int64_t below = gpus / family.gpus_per_node * family.gpus_per_node;
    const std::string above = family.NameOf(below + family.gpus_per_node);
    ThrowInput(501,
               std::to_string(gpus) + " GPUs do not fill whole nodes: " + family.pattern + " has " +
                   std::to_string(family.gpus_per_node) + " GPUs per node",
               "nearest: " + (below > 0 ? family.NameOf(below) + " or " : "") + above);
  }
  JsonDocument document = std::move(family.document);
  Json& root = document.root;
  const Json& origin = *root.Find("family");
  Json named(name);
  named.SetPlace(origin.source(), origin.offset());
  Json nodes(gpus / family.gpus_per_node);
  nodes.SetPlace(origin.source(), origin.offset());
  std::erase_if(root.members(), [](const auto& member) { return member.first == "family"; });
  root.Set("name", std::move(named));
  root.Set("nodes", std::move(nodes));
  return document;
}

struct SizedName {
  std::int64_t gpus;
  std::string suffix;
};

// "64xh100-ndr" → 64, "h100-ndr". Numbers beyond int64 are as good as its end: no fabric reaches
// them.
std::optional<SizedName> SplitSize(const std::string& name) {
  const std::size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || name[digits] != 'x') return std::nullopt;
  std::int64_t gpus = 0;
  const auto read = std::from_chars(name.data(), name.data() + digits, gpus);
  if (read.ec == std::errc::result_out_of_range) gpus = INT64_MAX;
  return SizedName{gpus, name.substr(digits + 1)};
}

[[noreturn]] void ThrowTooMany(const std::string& name, const Family& family) {
  ThrowInput(502, "'" + name + "' asks for more GPUs than any fabric joins",
             "sizes of " + family.pattern + " are given in GPUs, e.g. " +
                 family.NameOf(family.listed_gpus.back()));
}

}  // namespace

JsonDocument OpenCluster(const std::string& name_or_file, const std::string& data_root) {
  if (name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".json")) {
    return ReadJsonFile(name_or_file);
  }
  const fs::path folder = Folder(data_root);
  const std::vector<std::string> files = JsonFiles(folder);
  if (std::find(files.begin(), files.end(), name_or_file) != files.end()) {
    return ReadJsonFile((folder / (name_or_file + ".json")).string());
  }
  std::vector<Family> families = ReadFamilies(data_root);
  const std::optional<SizedName> sized = SplitSize(name_or_file);
  for (Family& family : families) {
    if (sized && sized->suffix == family.suffix) {
      if (sized->gpus > (std::int64_t{1} << 24)) ThrowTooMany(name_or_file, family);
      const std::string name = family.NameOf(sized->gpus);
      return Instance(std::move(family), sized->gpus, name);
    }
    for (const Alias& alias : family.aliases) {
      if (alias.name != name_or_file) continue;
      const std::int64_t gpus = alias.gpus;
      const std::string name = family.NameOf(gpus);
      return Instance(std::move(family), gpus, name);
    }
  }

  std::vector<std::string> candidates = ClusterCatalogue(data_root);
  std::string known;
  for (const std::string& file : files) known += " " + file;
  for (const Family& family : families) {
    known += " " + family.pattern;
    candidates.push_back(family.suffix);
    if (sized) candidates.push_back(family.NameOf(sized->gpus));
  }
  std::string nearest = NearestName(name_or_file, candidates);
  for (const Family& family : families) {
    if (nearest == family.suffix) nearest = family.NameOf(family.listed_gpus.front());
  }
  if (known.empty()) {
    ThrowInput(220, "unknown cluster '" + name_or_file + "'",
               "there is no catalogue in " + folder.string() + "; a path to a file works too");
  }
  ThrowInput(220, "unknown cluster '" + name_or_file + "'",
             (nearest.empty() ? "" : "did you mean '" + nearest + "'? ") + "known:" + known +
                 " (`aurum list clusters` lists every name); or a path to a file");
}

std::vector<std::string> ClusterCatalogue(const std::string& data_root) {
  std::vector<std::string> names = JsonFiles(Folder(data_root));
  for (const Family& family : ReadFamilies(data_root)) {
    for (const std::int64_t gpus : family.listed_gpus) names.push_back(family.NameOf(gpus));
    for (const Alias& alias : family.aliases) names.push_back(alias.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> ClusterFamilies(const std::string& data_root) {
  std::vector<std::string> patterns;
  for (const Family& family : ReadFamilies(data_root)) patterns.push_back(family.pattern);
  std::sort(patterns.begin(), patterns.end());
  return patterns;
}

}  // namespace aurum
