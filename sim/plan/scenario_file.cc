#include "sim/plan/scenario_file.h"

#include <filesystem>
#include <utility>

namespace aurum {

void ResolvePaths(const std::string& file, JsonDocument* document) {
  // A path in a scenario is relative to the scenario, whatever folder the program runs in.
  for (const char* role : {"model", "cluster", "profile", "stack"}) {
    Json* value = document->root.Find(role);
    if (value == nullptr || !value->IsString()) continue;
    const std::filesystem::path named = value->AsString();
    const bool is_path = named.has_parent_path() || named.extension() == ".json";
    const std::filesystem::path beside = std::filesystem::path(file).parent_path() / named;
    std::error_code error;
    if (!is_path || named.is_absolute() || !std::filesystem::exists(beside, error)) continue;
    Json resolved(beside.lexically_normal().string());
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
