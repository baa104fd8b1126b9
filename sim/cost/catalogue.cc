#include "sim/cost/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "sim/core/diagnostic.h"
#include "sim/cost/profile.h"
#include "sim/cost/stack.h"

namespace aurum {

std::vector<std::string> CatalogueOf(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

JsonDocument OpenFromCatalogue(const std::string& name_or_file, const std::string& folder, int code,
                               const std::string& what) {
  if (name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".json")) {
    return ReadJsonFile(name_or_file);
  }
  const std::vector<std::string> names = CatalogueOf(folder);
  if (std::binary_search(names.begin(), names.end(), name_or_file)) {
    return ReadJsonFile(folder + "/" + name_or_file + ".json");
  }
  std::string help;
  const std::string nearest = NearestName(name_or_file, names);
  if (!nearest.empty()) help = "did you mean '" + nearest + "'? ";
  if (names.empty()) {
    help += "there is none in '" + folder + "'; is the data folder right?";
  } else {
    help += "known:";
    for (const std::string& name : names) help += " " + name;
  }
  ThrowInput(code, "unknown " + what + " '" + name_or_file + "'", help);
}

JsonDocument OpenProfile(const std::string& name_or_file, const std::string& data_root) {
  return OpenFromCatalogue(name_or_file, data_root + "/calibrate/profiles", 230, "profile");
}

std::vector<std::string> ProfileCatalogue(const std::string& data_root) {
  return CatalogueOf(data_root + "/calibrate/profiles");
}

JsonDocument OpenStack(const std::string& name_or_file, const std::string& data_root) {
  return OpenFromCatalogue(name_or_file, data_root + "/calibrate/stacks", 240, "stack");
}

std::vector<std::string> StackCatalogue(const std::string& data_root) {
  return CatalogueOf(data_root + "/calibrate/stacks");
}

}  // namespace aurum
