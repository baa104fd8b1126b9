// Every model of the catalogue under plans of every kind: simulated with books that balance, or refused.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "models/reader.h"
#include "tests/plan/space.h"

namespace aurum {
namespace {

std::string List(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "[" : ",") + std::to_string(number);
  return text + "]";
}
// Layers over so many positions, the first ones a layer more.
std::string Uneven(int layers, int positions) {
  std::vector<int> numbers(static_cast<std::size_t>(positions), layers / positions);
  for (int i = 0; i < layers % positions; ++i) ++numbers[static_cast<std::size_t>(i)];
  return List(numbers);
}

TEST_CASE("books balance for every model under every schedule and placement") {
  int simulated = 0, refused = 0;
  for (const std::string& name : ModelCatalogue(".")) {
    const Model model = ReadModel(OpenModel(name, "."));
    const Module& backbone = model.Backbone();
    if (model.task == ModelTask::kContrastive) continue;
    std::vector<std::string> inputs = {"workload.text_tokens=96", "workload.global_batch_size=32"};
    std::string encoder;
    for (const Module& module : model.modules) {
      if (module.kind != ModuleKind::kEncoder || !encoder.empty()) continue;
      encoder = module.name;
      if (module.modality == Modality::kAudio) {
        inputs.push_back("workload.audio_s=4");
      } else if (module.modality == Modality::kVideo) {
        inputs.push_back(
            R"(workload.video=[{"frames": 16, "width": 256, "height": 256, "count": 1}])");
      } else {
        inputs.push_back(kOneImage);
      }
    }
    const auto pipeline = [&](int pp, int vpp, int positions) {
      return "plan." + backbone.name + "={\"pp\": " + std::to_string(pp) +
             ", \"vpp\": " + std::to_string(vpp) +
             ", \"layers_per_stage\": " + Uneven(backbone.Layers(), positions) + "}";
    };
    std::vector<std::vector<std::string>> plans = {
        {"plan.sharding=fsdp", "plan.recompute=full"},
        {"plan.sharding=fsdp", R"(plan.offload={"optimizer": 1, "parameters": 1})"},
        {pipeline(4, 1, 4), "plan.schedule=gpipe"},
        {pipeline(4, 1, 4), "plan.recompute=selective"},
        {pipeline(4, 2, 8), "plan.recompute=full"},
        {pipeline(4, 1, 4), "plan.schedule=zb-h1", "plan.sharding=fsdp"},
        {pipeline(4, 2, 8), "plan.schedule=zb-v", R"(plan.offload={"activations": 1})"},
        {pipeline(2, 2, 2), "plan.schedule=dualpipe", "plan.recompute=full"},
        // Fewer micro-batches than stages.
        {pipeline(8, 1, 8), "workload.global_batch_size=6", "plan.schedule=zb-h1"},
        {pipeline(8, 1, 8), "workload.global_batch_size=2"},
        {"plan.adapter={}", "plan.sharding=zero2"}};
    if (!encoder.empty()) {
      const std::string part = "plan." + encoder + ".placement=";
      plans.push_back({part + "balanced", "plan." + backbone.name + "={\"pp\": 4}"});
      plans.push_back({part + "balanced", "plan." + backbone.name + "={\"pp\": 2, \"vpp\": 2}",
                       "plan.recompute=full"});
      plans.push_back({part + "in_bubbles", pipeline(4, 1, 4)});
      plans.push_back({part + "in_bubbles", pipeline(4, 2, 8), "plan.sharding=fsdp"});
      plans.push_back({part + "in_bubbles", pipeline(4, 1, 4), "workload.global_batch_size=8"});
      plans.push_back({part + "own_ranks", "workload.global_batch_size=32", "cluster=24xh100-ndr",
                       pipeline(2, 1, 2)});
      plans.push_back({part + "colocated_dp", "plan." + backbone.name + "={\"cp\": 2}"});
      plans.push_back({"plan.frozen=[\"" + encoder + "\"]", pipeline(4, 1, 4),
                       "plan.schedule=zb-h1", "plan.sharding=fsdp",
                       "plan.reshard_after_forward=false"});
    }
    for (const std::vector<std::string>& changes : plans) {
      const std::string what = name + ": " + changes[0] + " " + changes[1];
      CAPTURE(what);
      std::vector<std::string> all = {R"(plan={})"};
      all.insert(all.end(), inputs.begin(), inputs.end());
      all.insert(all.end(), changes.begin(), changes.end());
      const JsonDocument document = Document(name, "16xh100-ndr", all);
      const RefusedPlan refusal = RefusalOf(document);
      if (refusal.diagnostic.code != 0) {
        ++refused;
        CHECK(!refusal.diagnostic.help.empty());
        CHECK(refusal.exit_code == ExitCode::kInfeasible);
        MESSAGE(what, ": ", refusal.diagnostic.message);
        continue;
      }
      ++simulated;
      const Evaluation e = EvaluateDocument(document);
      for (std::size_t c = 0; c < e.program.classes.size(); ++c) {
        CHECK(e.outcome.time[c].Sum() == doctest::Approx(e.StepSeconds()).epsilon(1e-9));
        CHECK(e.memory.classes[c].left_bytes == doctest::Approx(0.0));
        CHECK(e.outcome.time[c].compute_s > 0);
        CHECK(e.memory.classes[c].peak_bytes > 0);
      }
    }
  }
  MESSAGE(simulated, " plans simulated, ", refused, " refused");
  CHECK(simulated > 5 * refused);
}

}  // namespace
}  // namespace aurum
