#include "models/hf_import.h"
#include "models/reader.h"
#include "tests/fuzz/entry.h"

// What the importer makes is a model that our own reader takes.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](std::string text) {
    const aurum::Model model =
        aurum::ImportHuggingFace(aurum::ParseJson(std::move(text), "config.json"));
    const std::string written = aurum::WriteModel(model).Dump(2);
    try {
      aurum::ReadModel(aurum::ParseJson(written, "imported.json"));
    } catch (const aurum::InputError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      aurum::Require(false, "an imported model can be read");
    }
  });
}
