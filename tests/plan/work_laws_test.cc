// What a plan may not change: the work, the parameters, and how degrees divide them.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "models/reader.h"
#include "tests/plan/space.h"

namespace aurum {
namespace {

// Of a step, all GPUs together.
double ModelFlops(const Evaluation& e) {
  return ModelFlopsPerGpu(e) * e.scenario.cluster->GpuCount();
}
// Of one module.
double ModuleFlops(const Evaluation& e, const std::string& module) {
  double total = 0;
  for (const RankClass& c : e.program.classes) {
    for (std::size_t i = 0; i < c.modules.size(); ++i) {
      if (e.scenario.model->modules[i].name == module) total += c.modules[i].flops * c.count;
    }
  }
  return total * static_cast<double>(e.program.micro_batches);
}

TEST_CASE("no way to cut a step changes its model FLOPs") {
  const std::vector<std::vector<std::string>> dense = {
      {},
      {"plan.micro_batch_size=4"},
      {"plan.backbone.tp=4"},
      {R"(plan.backbone={"tp": 4, "sequence_parallel": false})"},
      {"plan.backbone.cp=4"},
      {R"(plan.backbone={"cp": 4, "context_parallel": "ulysses"})"},
      {"plan.backbone.pp=4"},
      {R"(plan.backbone={"pp": 4, "vpp": 2})"},
      {R"(plan.backbone={"tp": 2, "cp": 2, "pp": 2})"},
      {"plan.backbone.pp=4", "plan.schedule=gpipe"},
      {"plan.backbone.pp=4", "plan.schedule=zb-h1"},
      {"plan.backbone.pp=4", "plan.schedule=zb-v"},
      {"plan.backbone.pp=4", "plan.schedule=dualpipe"},
      {"plan.recompute=selective"},
      {"plan.recompute=full"},
      {R"(plan.recompute={"scope": "full", "layers": 3})"},
      {"plan.sharding=fsdp"},
      {R"(plan.offload={"activations": 1})"},
  };
  const auto check = [](const char* model, const std::vector<std::string>& base,
                        const std::vector<std::vector<std::string>>& variants) {
    CAPTURE(model);
    const double whole = ModelFlops(EvaluateDocument(Document(model, "16xh100-ndr", base)));
    CHECK(whole > 0);
    for (const std::vector<std::string>& changes : variants) {
      const std::string what = changes.empty() ? "" : changes.back();
      CAPTURE(what);
      const Evaluation e = EvaluateDocument(Document(model, "16xh100-ndr", Join(base, changes)));
      CHECK(ModelFlops(e) == doctest::Approx(whole).epsilon(1e-9));
    }
  };
  check(kLayers8, {}, dense);
  check(kLayers8, {}, {{R"(plan.backbone={"pp": 2, "layers_per_stage": [5, 3]})"}});
  check("llama-3.1-8b", {}, dense);
  check(kMoe8, {},
        {{"plan.backbone.ep=8"},
         {"plan.backbone.tp=4"},
         {R"(plan.backbone={"tp": 4, "ep": 4})"},
         {R"(plan.backbone={"ep": 4, "expert_tp": 4})"},
         {R"(plan.backbone={"tp": 2, "ep": 4, "expert_tp": 2, "pp": 2})"},
         {R"(plan.backbone={"ep": 4, "cp": 2, "pp": 2, "vpp": 2})"},
         {R"(plan.backbone={"ep": 4, "pp": 4})", "plan.schedule=dualpipe"}});
}

TEST_CASE("encoders that are shared out work once; replicated ones as often as they are there") {
  const auto at = [](std::vector<std::string> changes, const char* cluster = "16xh100-ndr") {
    return EvaluateDocument(Document(kVit8, cluster, Join({kOneImage}, changes)));
  };
  const Evaluation alone = at({});
  const double vision = ModuleFlops(alone, "vision");
  const double whole = ModelFlops(alone);
  // Patches are embedded whole on every rank of a tensor-parallel encoder, as in Megatron: 1024 of them
  // and the class token, forward and both gradients, of 64 samples.
  const double embedding = 64.0 * 6 * 1025 * 588 * 2048;
  const std::vector<std::vector<std::string>> once = {
      {"plan.backbone.pp=4"},
      {"plan.vision.placement=colocated_dp", "plan.connector.placement=colocated_dp",
       "plan.backbone.tp=4"},
      {"plan.vision.placement=colocated_dp", "plan.connector.placement=colocated_dp",
       R"(plan.backbone={"tp": 2, "cp": 2, "pp": 2})"},
      {"plan.vision.placement=balanced", "plan.backbone.pp=4"},
      {"plan.vision.placement=balanced", R"(plan.backbone={"pp": 4, "vpp": 2})"},
      {"plan.vision.placement=in_bubbles", "plan.backbone.pp=4"},
      {"plan.vision.placement=in_bubbles", R"(plan.backbone={"pp": 4, "vpp": 2})"},
      {"plan.backbone.pp=4", "plan.schedule=dualpipe"},
      {"plan.vision.micro_batch_size=2"},
      {"plan.micro_batch_size=4", "plan.vision.micro_batch_size=1"},
  };
  for (const std::vector<std::string>& changes : once) {
    CAPTURE(changes.back());
    CHECK(ModelFlops(at(changes)) == doctest::Approx(whole).epsilon(1e-9));
  }
  // Ranks of their own.
  struct Own {
    const char* plan;
  };
  for (const Own& own :
       std::vector<Own>{{R"(plan.vision={"placement": "own_ranks", "pp": 2})"},
                        {R"(plan.vision={"placement": "own_ranks", "tp": 2})"},
                        {R"(plan.vision={"placement": "own_ranks", "tp": 4, "pp": 2})"}}) {
    CAPTURE(own.plan);
    const Evaluation e =
        at({own.plan, "plan.connector.placement=colocated_dp", "plan.backbone.pp=2",
            "plan.backbone.tp=2", "workload.global_batch_size=24"},
           "24xh100-ndr");
    CHECK(ModelFlops(e) == doctest::Approx(whole * 24 / 64).epsilon(1e-9));
  }
  // Replicated on the ranks that share a sequence: tp · cp times; tensor-parallel: cp times.
  struct Repeated {
    std::vector<std::string> changes;
    double factor;
    double embeddings = 0;  // beyond the factor
  };
  for (const Repeated& r : std::vector<Repeated>{
           {{"plan.backbone.tp=4"}, 4},
           {{"plan.backbone.cp=4"}, 4},
           {{R"(plan.backbone={"tp": 2, "cp": 4})"}, 8},
           {{"plan.backbone.tp=4", "plan.vision.tp=4"}, 1, 3},
           {{R"(plan.backbone={"tp": 4, "cp": 2})", "plan.vision.tp=4"}, 2, 6},
           {{R"(plan.backbone={"tp": 4, "pp": 2})", "plan.vision.placement=in_bubbles"}, 4},
           {{R"(plan.backbone={"tp": 4, "pp": 2})", "plan.vision.placement=balanced"}, 4}}) {
    CAPTURE(r.changes.back());
    const Evaluation e = at(r.changes);
    CHECK(ModuleFlops(e, "vision") ==
          doctest::Approx(r.factor * vision + r.embeddings * embedding).epsilon(1e-9));
    CHECK(ModuleFlops(e, "backbone") ==
          doctest::Approx(ModuleFlops(alone, "backbone")).epsilon(1e-9));
    CHECK(ModelFlops(e) == doctest::Approx(whole).epsilon(1e-9));  // the model needs it once
  }
}

// Parameters of one replica, every stage once: dense over all tp ranks would count norms tp times, so
// tp = 1 here.
struct Counted {
  double dense = 0, experts = 0;
};
Counted OneReplica(const Evaluation& e) {
  Counted counted;
  std::set<int> seen;
  for (const RankClass& c : e.program.classes) {
    if (!seen.insert(c.stage).second) continue;
    for (const ModuleShare& share : c.modules) {
      counted.dense += share.parameters;
      counted.experts += share.expert_parameters;
    }
  }
  return counted;
}

TEST_CASE("the parameters of all stages are the model's, for every model of the catalogue") {
  for (const std::string& name : ModelCatalogue(".")) {
    CAPTURE(name);
    const Model model = ReadModel(OpenModel(name, "."));
    const Module& backbone = model.Backbone();
    const auto parameters = static_cast<double>(ModelParameters(model));
    // A tied table has a second copy where embedding and head are on different stages.
    const double table =
        backbone.tied_head ? static_cast<double>(backbone.head_vocabulary) * backbone.hidden : 0;
    const auto at = [&](std::vector<std::string> changes) {
      changes.insert(changes.begin(), {R"(plan={"sharding": "ddp"})", "workload.text_tokens=64",
                                       "workload.global_batch_size=16"});
      return EvaluateDocument(Document(name, "16xh100-ndr", changes));
    };
    CHECK(OneReplica(at({})).dense == parameters);
    if (backbone.Layers() < 2) continue;
    const std::string plan = "plan." + backbone.name;
    const int half = backbone.Layers() / 2;
    const std::string halves = plan + ".layers_per_stage=[" + std::to_string(half) + "," +
                               std::to_string(backbone.Layers() - half) + "]";
    CHECK(OneReplica(at({plan + ".pp=2", halves})).dense ==
          doctest::Approx(parameters + table).epsilon(1e-12));
    CHECK(OneReplica(at({plan + ".pp=2", halves, "plan.schedule=gpipe"})).dense ==
          doctest::Approx(parameters + table).epsilon(1e-12));
    int experts = 0;
    for (const LayerRun& run : backbone.runs) experts = std::max(experts, run.layer.mlp.experts);
    if (experts == 0 || experts % 4 != 0) continue;
    const Counted one = OneReplica(at({plan + ".ep=2"}));
    const Counted two = OneReplica(at({plan + ".ep=4"}));
    CHECK(one.experts > 0);
    CHECK(one.experts == doctest::Approx(2 * two.experts).epsilon(1e-12));
    CHECK(one.dense + 2 * one.experts == doctest::Approx(parameters).epsilon(1e-12));
    CHECK(one.dense == doctest::Approx(two.dense).epsilon(1e-12));
  }
}

TEST_CASE("two directions hold every layer twice; chunks and a V once") {
  const auto at = [](std::vector<std::string> changes) {
    return OneReplica(EvaluateDocument(Document("llama-2-7b", "16xh100-ndr", changes))).dense;
  };
  const double once = at({});
  CHECK(at({R"(plan.backbone={"pp": 4, "vpp": 4})"}) == doctest::Approx(once).epsilon(1e-12));
  CHECK(at({"plan.backbone.pp=4", "plan.schedule=zb-v"}) == doctest::Approx(once).epsilon(1e-12));
  CHECK(at({"plan.backbone.pp=4", "plan.schedule=dualpipe"}) ==
        doctest::Approx(2 * once).epsilon(1e-12));
}

TEST_CASE("degrees divide parameters: tp all but norms, expert_tp and ep experts, cp none") {
  const Model model = ReadModel(OpenModel(kMoe8, "."));
  const double norms = 8.0 * 2 * 4096;
  const auto at = [](const std::string& backbone) {
    const Evaluation e =
        EvaluateDocument(Document(kMoe8, "16xh100-ndr", {"plan.backbone=" + backbone}));
    const ModuleShare& share = e.program.classes[0].modules[0];
    return std::pair(share.parameters, share.expert_parameters);
  };
  const double routed = 8.0 * 8 * 3 * 4096 * 4096;  // layers, experts, matrices
  const auto whole = static_cast<double>(ModelParameters(model));
  CHECK(at("{}").first == whole);
  CHECK(at(R"({"cp": 4})").first == whole);
  for (const int tp : {2, 4, 8}) {
    CHECK(at("{\"tp\": " + std::to_string(tp) + "}").first ==
          doctest::Approx((whole - norms) / tp + norms).epsilon(1e-12));
  }
  const auto both = at(R"({"tp": 2, "ep": 4, "expert_tp": 2})");
  CHECK(both.second == doctest::Approx(routed / 8).epsilon(1e-12));
  CHECK(both.first == doctest::Approx((whole - norms - routed) / 2 + norms).epsilon(1e-12));
  CHECK(at(R"({"tp": 2, "ep": 4})").second == doctest::Approx(routed / 4).epsilon(1e-12));
}

}  // namespace
}  // namespace aurum
