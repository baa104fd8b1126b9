#include "models/model.h"

#include "models/reader.h"
#include "tests/fuzz/entry.h"

// A model that was accepted can be counted, and writing and reading it again changes nothing.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](std::string text) {
    const aurum::Model model = aurum::ReadModel(aurum::ParseJson(std::move(text), "fuzz.json"));
    aurum::Require(aurum::ModelParameters(model) >= 0, "parameters do not overflow");
    aurum::Require(aurum::ActiveParameters(model) <= aurum::ModelParameters(model),
                   "no more parameters are active than there are");
    const std::string written = aurum::WriteModel(model).Dump(2);
    const aurum::Model again = aurum::ReadModel(aurum::ParseJson(written, "written.json"));
    aurum::Require(aurum::WriteModel(again).Dump(2) == written, "writing is stable");
  });
}
