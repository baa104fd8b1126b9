#include "sim/study/fingerprint.h"

#include <filesystem>
#include <map>

#include "sim/core/hash.h"
#include "sim/study/point.h"

namespace aurum {
namespace {

class Files {
 public:
  Files(const std::string& scenario_file, InputCache* cache)
      : folder_(std::filesystem::path(scenario_file).parent_path()), cache_(cache) {}

  // Those that a document names.
  void Add(const Json& root) {
    for (const char* role : {"model", "cluster", "profile", "stack"}) Add(role, root.Find(role));
    if (const Json* workload = root.Find("workload")) Add("samples", workload->Find("samples"));
    if (const Json* pools = root.Find("pools"); pools != nullptr && pools->IsArray()) {
      for (const Json& pool : pools->items()) Add("profile", pool.Find("profile"));
    }
  }
  std::string Hash() const {
    std::string text;
    for (const auto& [file, hash] : hashes_) text += file + " " + hash + "\n";
    return HashText(text).Hex();
  }

 private:
  void Add(const std::string& role, const Json* name) {
    if (name == nullptr || !name->IsString()) return;
    const auto [entry, added] = hashes_.emplace(role + " " + name->AsString(), "");
    if (!added) return;
    try {
      entry->second = Content(role, name->AsString());
    } catch (const InputError&) {
      // The points that name it will say what is wrong.
    }
  }
  std::string Content(const std::string& role, const std::string& name) {
    if (role == "model") return cache_->GetModel(name).hash;
    if (role == "profile") return cache_->GetProfile(name).hash;
    if (role == "stack") return cache_->GetStack(name).hash;
    if (role == "samples")
      return cache_->samples()->Get((folder_ / name).lexically_normal().string())->hash();
    const auto cluster = cache_->GetCluster(name);
    return cluster.hash + cache_->GetProfile(cluster.value->gpu.profile).hash;
  }

  std::filesystem::path folder_;
  InputCache* cache_;
  std::map<std::string, std::string> hashes_;
};

}  // namespace

std::string StudyFingerprint(const JsonDocument& scenario, const Design& design,
                             InputCache* cache) {
  Files files(scenario.sources.front().name, cache);
  JsonDocument document = scenario;
  document.root = WithoutSweep(scenario.root);
  files.Add(document.root);
  for (const Axis& axis : design.axes()) {
    const std::string pointer = AxisPointer(axis.path);
    const std::string top = pointer.substr(0, pointer.find('/', 1));
    // Elsewhere nothing names a file, and an axis may have millions of values.
    if (top != "/model" && top != "/cluster" && top != "/profile" && top != "/stack" &&
        top != "/workload" && top != "/pools")
      continue;
    for (const Json& value : axis.values) {
      if (!value.IsString() && !value.IsObject() && !value.IsArray()) continue;
      JsonDocument point{document.root, document.sources};
      SetPath(&point, axis.path, value, "axis " + axis.path);
      files.Add(point.root);
    }
  }
  return files.Hash();
}

}  // namespace aurum
