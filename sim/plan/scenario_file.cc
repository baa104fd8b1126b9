#include "sim/plan/scenario_file.h"

#include <filesystem>
#include <utility>

namespace aurum {

std::string PathBeside(const std::string& file, const std::string& named) {
  const std::filesystem::path path = named;
  const bool is_path = path.has_parent_path() || path.extension() == ".json";
  const std::filesystem::path beside = std::filesystem::path(file).parent_path() / path;
  std::error_code error;
  if (!is_path || path.is_absolute() || !std::filesystem::exists(beside, error)) return named;
  return beside.lexically_normal().string();
}

void ResolvePaths(const std::string& file, JsonDocument* document) {
  // A path in a scenario is relative to the scenario, whatever folder the program runs in.
  for (const char* role : {"model", "cluster", "profile", "stack"}) {
    Json* value = document->root.Find(role);
    if (value == nullptr || !value->IsString()) continue;
    Json resolved(PathBeside(file, value->AsString()));
    resolved.SetPlace(value->source(), value->offset());
    *value = std::move(resolved);
  }
}

JsonDocument OpenScenarioFile(const std::string& file) {
  JsonDocument document = ReadJsonFile(file);
  ResolvePaths(file, &document);
  return document;
}

}  // namespace aurum
