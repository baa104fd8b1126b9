#include "sim/study/axis.h"
#include "tests/fuzz/entry.h"

// An axis of the command line is one that a scenario's file could hold, and reads back as itself
// from there.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](const std::string& text) {
    const aurum::AxisRules drawing = {.ranges = true, .repeats = false, .product = false};
    const aurum::Axis axis = aurum::ParseVary(text, drawing);
    aurum::Require(axis.values.empty() == axis.range.has_value(), "an axis has values or a range");
    if (axis.values.size() > 1000) return;  // nothing else to see, and slow
    aurum::Json sweep = aurum::Json::Object();
    sweep.Set("axes", aurum::AxesToJson({axis}));
    aurum::Json scenario = aurum::Json::Object();
    scenario.Set("sweep", std::move(sweep));
    const std::string written = scenario.Dump();
    try {
      const std::vector<aurum::Axis> again =
          aurum::ReadAxes(aurum::ParseJson(written, "written.json"), drawing);
      aurum::Require(aurum::AxesToJson(again).Dump() == aurum::AxesToJson({axis}).Dump(),
                     "writing is stable");
    } catch (const aurum::InputError& error) {
      std::fprintf(stderr, "%s\n%s\n", written.c_str(), error.what());
      aurum::Require(false, "an axis of the command line can be written and read");
    }
  });
}
