#include "sim/core/json.h"
#include "tests/fuzz/entry.h"

// Every line is one `--set` on the same document; what stands at a path afterwards can be found
// there.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](const std::string& text) {
    aurum::JsonDocument document = aurum::ParseJson(
        R"({"name": "x", "plan": {"micro_batch_size": 1, "frozen": ["vision"], "backbone": {"tp": 2}},
            "workload": {"images": [{"width": 336, "height": 336, "count": 1}]}, "a.b": null})",
        "scenario.json");
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string assignment = text.substr(begin, end - begin);
      begin = end + 1;
      aurum::ApplyOverride(&document, assignment);
      const std::string path = assignment.substr(0, assignment.find('='));
      aurum::Require(aurum::FindPath(document.root, path) != nullptr, "what was set is found");
      aurum::Require(document.Locate(document.root, "").line >= 0, "the document has places");
    }
    aurum::ParseJson(document.root.Dump(), "written.json");
  });
}
