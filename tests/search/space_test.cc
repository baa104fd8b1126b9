#include "sim/search/space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/plan/space.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Scenario Read(const JsonDocument& document) { return ReadScenario(document, &SharedCache()); }

const Dimension* Named(const PlanSpace& space, const std::string& name) {
  for (const Dimension& d : space.dimensions) {
    if (d.name == name) return &d;
  }
  return nullptr;
}
std::vector<std::string> Labels(const Dimension& dimension) {
  std::vector<std::string> labels;
  for (const Choice& choice : dimension.choices) labels.push_back(choice.label);
  return labels;
}

// Of all combinations: executions, and those that no placement realises.
Multiplicity Count(const PlanSpace& space) {
  Multiplicity all{0, 0};
  ChoiceIndices at(space.dimensions.size(), 0);
  while (true) {
    const Multiplicity m = space.StandsFor(at);
    all.alike += m.alike;
    all.unplaceable += m.unplaceable;
    std::size_t d = at.size();
    while (d-- > 0) {
      if (++at[d] < space.dimensions[d].choices.size()) break;
      at[d] = 0;
    }
    if (d == SIZE_MAX) return all;
  }
}

TEST_CASE("Calculon's space for GPT-3 175B on 64 A100 has its 3,232,128 executions") {
  const PlanSpace space = CalculonSpace(Read(Shipped("gpt-3-175b-64xa100")));
  const Multiplicity all = Count(space);
  CHECK(all.alike + all.unplaceable == 3'232'128);
}

TEST_CASE("the default space follows model, cluster and workload") {
  const PlanSpace gpt = DefaultSpace(Read(Shipped("gpt-3-175b-64xa100")));
  REQUIRE(Named(gpt, "tp"));
  CHECK(Labels(*Named(gpt, "tp")) == std::vector<std::string>{"1", "2", "4", "8"});
  CHECK(Named(gpt, "cp") == nullptr);  // 2,048 tokens are not shared out
  CHECK(Named(gpt, "ep") == nullptr);
  CHECK(Named(gpt, "rank_order")->late);
  // 96 layers divide by 1 … 32, chunks only where there are stages.
  const std::vector<std::string> pipelines = Labels(*Named(gpt, "pipeline"));
  CHECK(std::count(pipelines.begin(), pipelines.end(), "pp 8 vpp 4") == 1);
  CHECK(std::count(pipelines.begin(), pipelines.end(), "pp 1") == 1);
  CHECK(std::count(pipelines.begin(), pipelines.end(), "pp 1 vpp 2") == 0);
  CHECK(Named(gpt, "pipeline")->choices[0].set.size() == 2);

  const PlanSpace llava = DefaultSpace(Read(Shipped("llava-1.6-7b-finetune-8xa100")));
  CHECK(Named(llava, "vision") != nullptr);
  CHECK(Named(llava, "rank_order") == nullptr);  // one node
  CHECK(Named(llava, "offload") == nullptr);     // a sixth of the GPUs' memory is state
  CHECK(Named(DefaultSpace(Read(Shipped("llama-2-7b-1x4090"))), "offload") != nullptr);

  const PlanSpace moe = DefaultSpace(Read(Document(kMoe8, "16xh100-ndr")));
  CHECK(Named(moe, "ep") != nullptr);
}

TEST_CASE("126 layers are split with the fewer at the ends, and every split sums up") {
  const PlanSpace space = DefaultSpace(Read(Shipped("llama-3.1-405b-16384xh100")));
  const Dimension* pipeline = Named(space, "pipeline");
  REQUIRE(pipeline);
  bool sixteen = false;
  for (const Choice& choice : pipeline->choices) {
    REQUIRE(choice.set.size() == 3);
    std::int64_t sum = 0;
    for (const Json& layers : choice.set[2].second.items()) sum += layers.AsInteger();
    CHECK(sum == 126);
    if (choice.label != "pp 16") continue;
    sixteen = true;
    const std::vector<Json>& split = choice.set[2].second.items();
    CHECK(split.front().AsInteger() == 7);
    CHECK(split.back().AsInteger() == 7);
    CHECK(split[1].AsInteger() == 8);
  }
  CHECK(sixteen);
}

TEST_CASE("dimensions are replaced, added and kept") {
  PlanSpace space = DefaultSpace(Read(Shipped("gpt-3-175b-64xa100")));
  const std::size_t before = space.dimensions.size();
  Vary("plan.micro_batch_size=1,2,4", &space);
  CHECK(space.dimensions.size() == before);
  CHECK(Named(space, "micro_batch_size")->choices.size() == 3);
  Vary("plan.optimizer=adam,adam-8bit", &space);
  CHECK(space.dimensions.size() == before + 1);
  CHECK(Named(space, "optimizer")->state);
  CHECK(space.dimensions.back().late);  // what moves ranks alone stays last
  Keep("tp", &space);
  CHECK(Named(space, "tp") == nullptr);

  const auto wrong = ThrownBy([&] { Keep("tpp", &space); });
  CHECK(wrong.code == 872);
  CHECK(wrong.help.find("micro_batch_size") != std::string::npos);
  CHECK(ThrownBy([&] { Vary("plan.backbone.vpp=1,2", &space); }).code == 871);
  PlanSpace large;
  CHECK(ThrownBy([&] {
          Vary("plan.micro_batch_size=1:10000:1", &large);
          Vary("workload.global_batch_size=1:10000:1", &large);
        }).code == 870);
}

TEST_CASE("a scenario tells its own space") {
  const auto read = [](const std::string& search) {
    JsonDocument document = Changed(Document(kLayers8, "8xh100-hgx"), {"search=" + search});
    return ReadSpace(document, Read(document));
  };
  const PlanSpace own = read(
      R"({"space": "none", "dimensions": [
          {"path": "plan.micro_batch_size", "values": [1, 2]},
          {"name": "recipe", "choices": [
            {"plan.recompute": "full", "plan.sharding": "zero1"},
            {"plan.recompute": "none", "plan.sharding": "fsdp"}]}]})");
  REQUIRE(own.dimensions.size() == 2);
  CHECK(own.Combinations() == 4);
  CHECK(own.dimensions[1].name == "recipe");
  CHECK(own.dimensions[1].state);
  CHECK_FALSE(own.dimensions[0].state);
  JsonDocument document = Document(kLayers8, "8xh100-hgx");
  own.Apply({1, 1}, &document);
  CHECK(Read(document).plan.sharding == Sharding::kFsdp);
  CHECK(Read(document).plan.micro_batch_size == 2);

  CHECK(ThrownBy([&] {
          read(R"({"space": "none", "dimensions": [
              {"path": "plan.micro_batch_size", "values": [2, 4]},
              {"path": "/plan/micro_batch_size", "values": [1]}]})");
        }).code == 873);
  CHECK(ThrownBy([&] {
          read(R"({"space": "none", "dimensions": [
              {"path": "plan.micro_batch_size", "values": [2, 4]},
              {"path": "plan", "values": [{}]}]})");
        }).code == 871);
  PlanSpace misspelled;
  Vary("plan.micro_batch_sice=1,2", &misspelled);
  CHECK(ThrownBy([&] {
          CheckChoices(Document(kLayers8, "8xh100-hgx"), misspelled, &SharedCache());
        }).code == 101);
  CHECK(read(R"({"keep": ["tp"]})").dimensions.size() ==
        DefaultSpace(Read(Document(kLayers8, "8xh100-hgx"))).dimensions.size() - 1);
  CHECK(ThrownBy([&] { read(R"({"space": "none"})"); }).code == 875);
  const auto differ = ThrownBy([&] {
    read(
        R"({"dimensions": [{"choices": [{"plan.recompute": "full"}, {"plan.sharding": "fsdp"}]}]})");
  });
  CHECK(differ.code == 873);
  CHECK(differ.where.pointer == "/search/dimensions/0/choices");
  CHECK(
      ThrownBy([&] {
        read(
            R"({"space": "calculon", "dimensions": [{"path": "plan.recompute", "values": ["full"]}]})");
      }).code == 874);
}

}  // namespace
}  // namespace aurum
