#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>

#include "models/hf_import.h"
#include "models/reader.h"
#include "tests/support/shared.h"

namespace aurum {
TEST_CASE("scratch") {
  const std::string root = SharedPath("data/hf-configs");
  for (const auto& e : std::filesystem::directory_iterator(root)) {
    if (!e.is_directory()) continue;
    try {
      const Model m = ImportHuggingFace(ReadJsonFile(e.path().string() + "/config.json"));
      std::printf("%s %lld active %lld\n", m.name.c_str(), (long long)ModelParameters(m), (long long)ActiveParameters(m));
      if (std::getenv("DUMP")) std::printf("%s\n", WriteModel(m).Dump().c_str());
    } catch (const InputError& err) { std::printf("%s: %s\n", e.path().c_str(), err.what()); }
  }
}
}
