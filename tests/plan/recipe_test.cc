// Pruned models, prompts, adapters by modality and number formats, in the step that they make.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/cost/dtype_table.h"
#include "sim/workload/adapter_routing.h"
#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

constexpr const char* kLlava = "llava-1.6-7b-finetune-8xa100";

Evaluation Run(const std::vector<std::string>& changes, const char* name = kLlava) {
  return EvaluateDocument(Shipped(name, changes));
}

const ModuleShare& Share(const Evaluation& e, const std::string& module) {
  for (std::size_t i = 0; i < e.scenario.model->modules.size(); ++i) {
    if (e.scenario.model->modules[i].name == module) return e.program.classes[0].modules[i];
  }
  FAIL("no module ", module);
  return e.program.classes[0].modules[0];
}

bool Warned(const Evaluation& e, int code) {
  for (const Diagnostic& d : e.scenario.warnings) {
    if (d.code == code) return true;
  }
  return false;
}

TEST_CASE("a sliced model costs less in every respect, a masked one nothing less") {
  const std::string half = R"("keep_heads":0.5,"keep_ffn":0.5)";
  const Evaluation whole = Run({});
  const Evaluation sliced = Run({"prune={\"backbone\":{" + half + "}}"});
  const Evaluation masked = Run({"prune={\"backbone\":{" + half + R"(,"mode":"mask"}})"});
  const ModuleShare& w = Share(whole, "backbone");
  const ModuleShare& s = Share(sliced, "backbone");
  // Half of every matrix of the layers; embedding and head stay.
  const double tables = 2 * 32064.0 * 4096, norms = (2 * 32 + 1) * 4096.0;
  CHECK(s.parameters - tables - norms ==
        doctest::Approx((w.parameters - tables - norms) / 2).epsilon(1e-3));
  CHECK(s.flops < 0.55 * w.flops);
  CHECK(s.gradient_bytes < 0.55 * w.gradient_bytes);
  CHECK(sliced.memory.Heaviest().peak_bytes < whole.memory.Heaviest().peak_bytes);
  CHECK(sliced.StepSeconds() < 0.7 * whole.StepSeconds());
  REQUIRE(sliced.scenario.inputs.back().role == "prune");
  CHECK(sliced.scenario.inputs.back().name == "backbone: 50 % of its heads, 50 % of its MLP width");

  CHECK(masked.StepSeconds() == whole.StepSeconds());
  CHECK(masked.memory.Heaviest().peak_bytes == whole.memory.Heaviest().peak_bytes);
  CHECK(Warned(masked, 1390));
  CHECK(!Warned(sliced, 1390));
}

TEST_CASE("heads that are left must still divide") {
  const Diagnostic error = ThrownBy([] {
    Run({R"(prune={"backbone":{"keep_heads":27}})", "plan.backbone.tp=2"});
  });
  CHECK(error.code == 311);
  CHECK(error.message.find("27") != std::string::npos);
  const Diagnostic mlp = ThrownBy([] {
    Run({R"(prune={"backbone":{"keep_ffn":9357}})", "plan.backbone.tp=2"});
  });
  CHECK(mlp.code == 323);
  Run({R"(prune={"backbone":{"keep_heads":26}})", "plan.backbone.tp=2"});
}

TEST_CASE("merged tokens shorten the backbone's sequence alone") {
  const Evaluation whole = Run({});
  const Evaluation merged = Run({R"(prune={"vision":{"keep_tokens":0.25}})"});
  const double removed =
      whole.scenario.sample.backbone_tokens - merged.scenario.sample.backbone_tokens;
  CHECK(whole.scenario.sample.cross_modal_tokens - merged.scenario.sample.cross_modal_tokens ==
        removed);
  CHECK(removed == doctest::Approx(0.75 * 2880));  // newlines of its rows are no image tokens
  CHECK(Share(merged, "vision").flops == Share(whole, "vision").flops);
  CHECK(Share(merged, "connector").flops == 0.25 * Share(whole, "connector").flops);
  CHECK(merged.StepSeconds() < whole.StepSeconds());
  CHECK(ThrownBy([] {
          Run({R"(prune={"vision":{"keep_tokens":0.5}})"}, "llava-1.6-7b-mixture-8xa100");
        }).code == 654);
  CHECK(ThrownBy([] {
          Run({R"(prune={"connector":{"keep_tokens":0.5}})"}, "qwen-vl-finetune-8xa100");
        }).code == 654);
}

TEST_CASE("branches cost in training and are gone after it") {
  const std::string three = R"(prune={"connector":{"branches":3}})";
  const Evaluation one = Run({}), apart = Run({three});
  const double alone = 2 * 4096.0;  // the newline's embedding is no matrix, nor has it branches
  CHECK(Share(apart, "connector").parameters ==
        doctest::Approx(3 * Share(one, "connector").parameters - alone).epsilon(1e-9));
  CHECK(Share(apart, "connector").flops == 3 * Share(one, "connector").flops);
  CHECK(apart.memory.Heaviest().peak_bytes > one.memory.Heaviest().peak_bytes);
  const char* generate = "llava-1.6-7b-generate-8xa100";
  const Evaluation before = Run({}, generate), after = Run({three}, generate);
  CHECK(after.StepSeconds() == before.StepSeconds());
  CHECK(after.memory.Heaviest().peak_bytes == before.memory.Heaviest().peak_bytes);
}

TEST_CASE("prompts train next to nothing, and gradients still pass through everything") {
  const Evaluation full = Run({});
  const Evaluation prompt = Run({R"(plan.adapter={"kind":"prompt","prompt_tokens":8})"});
  const ModuleShare& vision = Share(prompt, "vision");
  const ModuleShare& backbone = Share(prompt, "backbone");
  CHECK(vision.adapter_parameters == 8 * 1024);
  CHECK(backbone.adapter_parameters == 8 * 4096);
  // Two passes over every matrix where full training has three; attention's backward costs twice
  // its forward in both.
  CHECK(backbone.flops > 2 * backbone.forward_flops);
  CHECK(backbone.flops < 2.3 * backbone.forward_flops);
  CHECK(vision.flops > 2 * vision.forward_flops);
  CHECK(Share(full, "backbone").flops ==
        doctest::Approx(3 * Share(full, "backbone").forward_flops));
  // The connector has no layers: it has no prompts, and is trained unless it is frozen.
  CHECK(backbone.gradient_bytes < 1e-3 * Share(full, "backbone").gradient_bytes);
  CHECK(prompt.scenario.sample.backbone_tokens == full.scenario.sample.backbone_tokens + 8);
  const double tiles = 5;
  CHECK(prompt.scenario.sample.modules[0].tokens ==
        full.scenario.sample.modules[0].tokens + 8 * tiles);
  CHECK(prompt.memory.Heaviest().peak_bytes < 0.5 * full.memory.Heaviest().peak_bytes);
  // More prompts, more work.
  CHECK(Run({R"(plan.adapter={"kind":"prompt","prompt_tokens":512})"}).StepSeconds() >
        prompt.StepSeconds());
  CHECK(ThrownBy([] { Run({R"(plan.adapter={"kind":"prompt","rank":4})"}); }).code == 390);
  CHECK(ThrownBy([] { Run({R"(plan.adapter={"kind":"lora","prompt_tokens":4})"}); }).code == 390);
}

TEST_CASE("prompts lengthen samples that were drawn too") {
  const char* mixture = "llava-1.6-7b-mixture-8xa100";
  const Evaluation without = Run({R"(plan.adapter={"rank":8})"}, mixture);
  const Evaluation with = Run({R"(plan.adapter={"kind":"prompt","prompt_tokens":16})"}, mixture);
  CHECK(with.scenario.sample.backbone_tokens >=
        without.scenario.sample.backbone_tokens + 16 - 1e-6);
  const SampleLoad& a = (*without.scenario.steps)[0].micro_batches[0];
  const SampleLoad& b = (*with.scenario.steps)[0].micro_batches[0];
  double sequences = 0;
  for (const SequenceBatch& batch : a.modules.back().batches) sequences += batch.sequences;
  CHECK(b.backbone_tokens == doctest::Approx(a.backbone_tokens + 16 * sequences));
}

TEST_CASE("an adapter for each modality is held for each and computed once") {
  const Evaluation one = Run({R"(plan.adapter={"rank":16})"});
  const Evaluation each = Run({R"(plan.adapter={"rank":16,"per_modality":true})"});
  // LLaVA knows text and vision.
  CHECK(ModalitiesOf(*one.scenario.model).size() == 2);
  CHECK(Share(each, "backbone").adapter_parameters ==
        2 * Share(one, "backbone").adapter_parameters);
  CHECK(Share(each, "backbone").flops == Share(one, "backbone").flops);
  CHECK(Share(each, "backbone").gradient_bytes > Share(one, "backbone").gradient_bytes);
  CHECK(each.memory.Heaviest().peak_bytes > one.memory.Heaviest().peak_bytes);
  CHECK(ThrownBy([] { Run({R"(plan.adapter={"routed_by_score":true})"}); }).code == 391);
}

TEST_CASE("a router that reads a score stalls every micro-batch") {
  const auto step = [](const char* routed, const std::string& micro) {
    return Run({std::string(R"(plan.adapter={"rank":16,"per_modality":true,"routed_by_score":)") +
                    routed + "}",
                "stack=hf-transformers", "plan.sharding=ddp", "plan.micro_batch_size=" + micro});
  };
  for (const char* micro : {"1", "2"}) {
    const Evaluation by_input = step("false", micro), by_score = step("true", micro);
    const double stall = 10e-6 + by_score.scenario.stack->host_per_layer_s;
    CHECK(stall > 1e-3);  // eager layers
    CHECK(by_score.StepSeconds() - by_input.StepSeconds() ==
          doctest::Approx(stall * static_cast<double>(by_score.scenario.plan.micro_batches))
              .epsilon(1e-6));
  }
}

TEST_CASE("what a router gets wrong moves samples between adapters") {
  const std::vector<Modality> two{Modality::kText, Modality::kVision};
  const auto right = LoadOfAdapters(two, {0.75, 0.25}, 0);
  CHECK(right[0].share == 0.75);
  CHECK(right[0].foreign_share == 0);
  const auto wrong = LoadOfAdapters(two, {0.75, 0.25}, 0.2);
  CHECK(wrong[0].share == doctest::Approx(0.75 * 0.8 + 0.25 * 0.2));
  CHECK(wrong[1].share == doctest::Approx(0.25 * 0.8 + 0.75 * 0.2));
  CHECK(wrong[1].foreign_share == doctest::Approx(0.15 / 0.35));
  CHECK(wrong[0].share + wrong[1].share == doctest::Approx(1));
}

TEST_CASE("bf16 and fp16 have the same bytes, and not everywhere the same units") {
  const auto at = [](const char* precision, const char* profile) {
    return Run({std::string("plan.precision=") + precision, std::string("profile=") + profile},
               "llama-2-7b-1x4090");
  };
  const Evaluation bf16 = at("bf16", "v100-32"), fp16 = at("fp16", "v100-32");
  CHECK(bf16.memory.Heaviest().peak_bytes == fp16.memory.Heaviest().peak_bytes);
  CHECK(Warned(bf16, 1391));
  CHECK(!Warned(fp16, 1391));
  CHECK(bf16.StepSeconds() > 4 * fp16.StepSeconds());
  const Evaluation ampere = at("bf16", "a100"), half = at("fp16", "a100");
  CHECK(!Warned(ampere, 1391));
  // Loss scaling is one pass over the gradients.
  const double gradients = 2 * 6738415616.0 * ampere.scenario.stack->gradient_bytes;
  const Profile& a100 = *ampere.scenario.profile;
  const double pass = ampere.scenario.stack->memory_bound_factor * gradients /
                      (a100.memory_bound_efficiency * a100.device.memory_bandwidth_bytes_per_s);
  CHECK(half.StepSeconds() - ampere.StepSeconds() == doctest::Approx(pass).epsilon(0.01));
  CHECK(half.memory.Heaviest().peak_bytes == ampere.memory.Heaviest().peak_bytes);
}

TEST_CASE("kernels that a device's generation does not have are refused with what it has") {
  const auto code = [](const char* attention, const char* profile) {
    return ThrownBy([&] {
             Run({std::string("plan.attention=") + attention, std::string("profile=") + profile},
                 "llama-2-7b-1x4090");
           })
        .code;
  };
  CHECK(code("flash3", "a100") == 383);
  CHECK(code("flash3", "rtx4090") == 383);
  CHECK(code("flash2", "v100-32") == 392);
  CHECK(code("flash2", "t4") == 392);
  Run({"plan.attention=flash2"}, "llama-2-7b-1x4090");
}

TEST_CASE("the table of formats is what products are priced with") {
  const Evaluation e = Run({});
  const std::vector<DTypeRow> rows = DTypeTable(*e.scenario.profile);
  REQUIRE(rows.size() == 6);
  CHECK(rows[0].unit == MatrixUnit::kTensorCores);
  CHECK(rows[0].bytes == rows[1].bytes);
  CHECK(rows[2].unit == MatrixUnit::kCudaCores);
  CHECK(rows[3].unit == MatrixUnit::kNone);  // no fp8 on Ampere
  CHECK(Bf16Slowdown(*e.scenario.profile) == 1);
}

}  // namespace
}  // namespace aurum
