#include "sim/core/json.h"

#include "tests/fuzz/entry.h"

// What was read and written once is read and written the same again.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](std::string text) {
    const aurum::JsonDocument document = aurum::ParseJson(std::move(text), "fuzz.json");
    const std::string written = document.root.Dump(2);
    const aurum::JsonDocument again = aurum::ParseJson(written, "written.json");
    aurum::Require(again.root.Dump(2) == written, "writing is stable");
  });
}
