#include <cmath>
#include <numeric>
#include <string>

#include "models/reader.h"
#include "sim/study/published/sources.h"
#include "sim/study/published/to_scenario.h"
#include "tests/study/translations.h"
#include "tests/support/shared.h"
#include "topologies/cluster.h"

namespace aurum {
namespace {

TEST_CASE("a row that tells everything becomes a scenario") {
  const PublishedSources sources = OpenPublishedSources(".");
  const Translation t = ToScenario(PublishedFixture("training")[0].facts, sources, ".");
  REQUIRE(t.skip == "");
  CHECK(t.scenario.Find("stack")->AsString() == "llm-foundry");
  const Json& plan = *t.scenario.Find("plan");
  CHECK(plan.Find("sharding")->AsString() == "fsdp");
  CHECK(plan.Find("recompute")->AsString() == "none");
  CHECK(plan.Find("precision")->AsString() == "bf16");
  CHECK(plan.Find("micro_batch_size")->AsInteger() == 8);
  CHECK(t.scenario.Find("workload")->Find("text_tokens")->AsInteger() == 2048);
  CHECK(t.samples_per_step == 64);
  CHECK(t.micro_batches == 1);
  CHECK(t.ends.empty());
  CHECK(Assumes(t, "no biases"));
  const Model model = ReadModel(AsDocument(t.model));
  CHECK(model.Backbone().Layers() == 24);
  CHECK(model.Backbone().tied_head);
  const Cluster cluster = ReadCluster(AsDocument(t.cluster));
  CHECK(cluster.GpuCount() == 8);
  CHECK(cluster.HasNvLink());
}

TEST_CASE("what a record does not tell is assumed by name, and bounded") {
  const PublishedSources sources = OpenPublishedSources(".");
  const Translation t = ToScenario(PublishedFixture("training")[4].facts, sources, ".");
  REQUIRE(t.skip == "");
  CHECK(Assumes(t, "recompute not told: none"));
  CHECK(Assumes(t, "sequence parallel not told: true"));
  CHECK(t.scenario.Find("plan")->Find("precision")->AsString() == "fp8");
  // none is the nominal one; selective and full are the ends.
  REQUIRE(t.ends.size() == 2);
  CHECK(t.ends[1].Find("plan")->Find("recompute")->AsString() == "full");
}

TEST_CASE("network, interleaving, offload and parts of recomputation") {
  const PublishedSources sources = OpenPublishedSources(".");
  const Translation t = ToScenario(PublishedFixture("training")[2].facts, sources, ".");
  REQUIRE(t.skip == "");
  const Json& plan = *t.scenario.Find("plan");
  CHECK(plan.Find("backbone")->Find("vpp")->AsInteger() == 2);
  CHECK(plan.Find("offload")->Find("activations")->AsNumber() == 0.25);
  CHECK(plan.Find("recompute")->Find("parts")->items().size() == 2);
  const Cluster cluster = ReadCluster(AsDocument(t.cluster));
  CHECK(cluster.nodes == 2);
  CHECK(cluster.NetworkBandwidthPerGpu() == doctest::Approx(12.5e9));
  // 8 of 18 NVLinks: 200 GB/s each way.
  CHECK(cluster.RouteBandwidth(0, 1) == doctest::Approx(200e9));
}

TEST_CASE("adapters and who reports what") {
  const PublishedSources sources = OpenPublishedSources(".");
  const Translation t = ToScenario(PublishedFixture("training")[5].facts, sources, ".");
  REQUIRE(t.skip == "");
  const Json* adapter = t.scenario.Find("plan")->Find("adapter");
  REQUIRE(adapter != nullptr);
  CHECK(adapter->Find("rank")->AsInteger() == 64);
  CHECK(adapter->Find("targets")->items().size() == 7);
  CHECK(Assumes(t, "adapter rank not told: 64"));
  CHECK_FALSE(Assumes(t, "sequence parallel"));  // without tensor parallelism it says nothing
  CHECK(t.memory_unit_bytes == 1e9);
  CHECK(t.level == MemoryLevel::kDevice);
  CHECK(ReadCluster(AsDocument(t.cluster)).GpuCount() == 1);
}

TEST_CASE("two towers, and blocks over a joint sequence") {
  const PublishedSources sources = OpenPublishedSources(".");
  const auto read = [&](const std::string& text) {
    const std::vector<Record> records = ReadRecords(ParseJson(text, "records.json"), nullptr);
    return ToScenario(records.at(0).facts, sources, ".");
  };
  const Translation towers = read(R"([{"id": "own-fa", "source_class": "chinese-clip",
    "task": "contrastive finetune", "multimodal": true, "precision": "FP16",
    "hardware": {"gpu": "A100-80GB", "num_gpus": 8, "gpus_per_node": 8},
    "model": {"name": "own-clip", "layers": 24, "hidden": 1024, "heads": 16, "ffn": 4096, "blocks": "two towers",
      "vision": {"layers": 24, "width": 1024, "heads": 16, "mlp": 4096, "patch": 14, "image": 224},
      "text": {"layers": 12, "width": 768, "heads": 12, "context": 52}},
    "plan": {"recompute": "none", "micro_batch": 40, "global_batch": 320}}])");
  REQUIRE(towers.skip == "");
  CHECK(towers.scenario.Find("workload")->Find("images")->items().size() == 1);
  const Model clip = ReadModel(AsDocument(towers.model));
  CHECK(clip.task == ModelTask::kContrastive);
  REQUIRE(clip.modules.size() == 2);
  // OpenCLIP's ViT-L/14 tower: 303.97 million parameters.
  CHECK(static_cast<double>(ModuleParameters(clip.modules[0])) ==
        doctest::Approx(303.97e6).epsilon(2e-3));

  // FLUX: 19 two-stream and 38 one-stream blocks, 11.9 billion parameters.
  const Translation flux = read(R"([{"id": "own-flux", "source_class": "mlperf-flux1",
    "task": "pretrain", "multimodal": true, "precision": "MXFP8, bf16-mixed",
    "hardware": {"gpu": "B200-SXM-180GB", "num_gpus": 16, "gpus_per_node": 8},
    "model": {"name": "own-flux", "layers": 57, "hidden": 3072, "heads": 24, "ffn": 12288,
      "params_b": 11.9, "blocks": "19 + 38", "image": {"tokens": 256}, "text": {"tokens": 256}},
    "plan": {"zero_stage": 1, "micro_batch": 32, "global_batch": 512}}])");
  REQUIRE(flux.skip == "");
  CHECK(flux.scenario.Find("workload")->Find("text_tokens")->AsInteger() == 512);
  CHECK(flux.scenario.Find("plan")->Find("precision")->AsString() == "mxfp8");
  const Model diffusion = ReadModel(AsDocument(flux.model));
  CHECK(static_cast<double>(ModelParameters(diffusion)) == doctest::Approx(11.9e9).epsilon(1e-3));
  CHECK_FALSE(diffusion.Backbone().runs[0].layer.attention.causal);
  CHECK(diffusion.Backbone().head_vocabulary == 0);
}

TEST_CASE("CI rows are read at the last rank") {
  const PublishedSources sources = OpenPublishedSources(".");
  const Translation t = ToScenario(PublishedFixture("memory")[0].facts, sources, ".");
  REQUIRE(t.skip == "");
  CHECK(t.rank == MemoryRank::kLast);
  CHECK(t.level == MemoryLevel::kAllocated);
  CHECK_FALSE(t.skip_time.empty());
  CHECK(t.scenario.Find("stack")->AsString() == "megatron-core-local");
}

TEST_CASE("what cannot be simulated has its reason") {
  const PublishedSources sources = OpenPublishedSources(".");
  RecordFacts facts = PublishedFixture("training")[0].facts;
  const auto reason = [&](auto change) {
    RecordFacts changed = facts;
    change(&changed);
    return ToScenario(changed, sources, ".").skip;
  };
  CHECK(
      ToScenario(PublishedFixture("training")[3].facts, sources, ".").skip.starts_with("flagged"));
  CHECK(reason([](RecordFacts* f) { f->model.layers.reset(); }).find("not a known model") !=
        std::string::npos);
  CHECK(reason([](RecordFacts* f) { f->model.vocabulary.reset(); }) ==
        "model dimensions not told: vocabulary");
  CHECK(reason([](RecordFacts* f) { f->hardware.gpu = "Abacus"; }).find("Abacus") !=
        std::string::npos);
  CHECK(reason([](RecordFacts* f) { f->plan.micro_batch.reset(); }) == "micro-batch not told");
  CHECK(reason([](RecordFacts* f) { f->plan.dp = 4; }).starts_with("contradictory"));
  CHECK(reason([](RecordFacts* f) { f->plan.tp = 3; }).find("does not divide") !=
        std::string::npos);
  CHECK(reason([](RecordFacts* f) { f->plan.recompute = "sometimes"; }).find("sometimes") !=
        std::string::npos);
  CHECK(reason([](RecordFacts* f) { f->precision = "INT3"; }).find("INT3") != std::string::npos);
  CHECK(reason([](RecordFacts* f) { f->model.sequence.reset(); }) == "sequence length not told");
  CHECK(reason([](RecordFacts* f) { f->multimodal = true; }).find("media") != std::string::npos);
  CHECK(reason([](RecordFacts* f) { f->hardware.gpus_per_node = 3; }).find("nodes of 3") !=
        std::string::npos);
}

TEST_CASE("NICs as printed") {
  const auto check = [](const char* text, std::int64_t count, double rate) {
    CAPTURE(text);
    const auto nics = ReadNics(text, 8);
    REQUIRE(nics.has_value());
    CHECK(nics->count == count);
    CHECK(nics->gbit_per_s == doctest::Approx(rate));
  };
  check("8x400Gb/s InfiniBand NDR", 8, 400);
  check("4x100Gb RoCE per node", 4, 100);
  check("4x Omni-Path 100Gb/s per node", 4, 100);
  check("1600 Gbps per node RoCE", 8, 200);
  check("RDMA 400Gb/s per GPU", 8, 400);
  check("400 Gb/s RDMA per GPU", 8, 400);
  check("8x50GB/s InfiniBand", 8, 400);
  check("4x200Gbps RDMA per node", 4, 200);
  check("400Gb/s ConnectX-7 per GPU", 8, 400);
  CHECK_FALSE(ReadNics("InfiniBand HDR (DGX A100 cluster, not told)", 8).has_value());
  CHECK_FALSE(ReadNics("", 8).has_value());
}

TEST_CASE("layers that do not divide") {
  const auto sum = [](const std::vector<std::int64_t>& v) {
    return std::accumulate(v.begin(), v.end(), std::int64_t{0});
  };
  CHECK(SplitLayers(32, 4) == std::vector<std::int64_t>{8, 8, 8, 8});
  // 70 layers and 12 stages: with embedding and head 72, six each (BLOOM).
  const auto bloom = SplitLayers(70, 12);
  CHECK(bloom.front() == 5);
  CHECK(bloom.back() == 5);
  CHECK(bloom[5] == 6);
  CHECK(sum(bloom) == 70);
  const auto deepseek = SplitLayers(61, 16);
  CHECK(sum(deepseek) == 61);
  CHECK(deepseek.front() == 3);
  CHECK(SplitLayers(5, 1) == std::vector<std::int64_t>{5});
}

TEST_CASE("sources: a fact that does not exist, or of another type, is an error") {
  RecordFacts facts;
  CHECK(ThrownBy([&] { SetFact("colour", Json("red"), &facts); }).code == 863);
  CHECK(ThrownBy([&] { SetFact("tp", Json("two"), &facts); }).code == 863);
  CHECK(SetFact("tp", Json(2), &facts));
  CHECK_FALSE(SetFact("tp", Json(4), &facts));  // told facts stay
  CHECK(facts.plan.tp == 2);
  const auto read = [](const std::string& source) {
    ReadPublishedSources(
        ParseJson(R"({"schema": "aurum.published-sources/1", "sources": [)" + source +
                      R"(], "gpus": [], "models": [], "recompute": [], "precision": []})",
                  "sources.json"));
  };
  CHECK(ThrownBy([&] { read(R"({"source": "a", "meaning": "", "provenance": ""})"); }).code == 102);
  CHECK(
      ThrownBy([&] {
        read(
            R"({"source": "a", "stack": "b", "assume": [{"fact": "colour", "value": 1, "why": ""}], "meaning": "", "provenance": ""})");
      }).code == 863);
}

TEST_CASE("models made of published dimensions have the published parameter count") {
  const std::string path = SharedPath("data/measured/training.json");
  if (path.empty()) return;
  const PublishedSources sources = OpenPublishedSources(".");
  int checked = 0;
  for (const Record& record : ReadRecords(ReadJsonFile(path), nullptr)) {
    if (!record.facts.model.parameters) continue;
    const Translation t = ToScenario(record.facts, sources, ".");
    if (!t.skip.empty() || t.model.IsNull()) continue;
    const auto counted = static_cast<double>(ModelParameters(ReadModel(AsDocument(t.model))));
    CAPTURE(record.facts.id);
    CHECK(counted ==
          doctest::Approx(static_cast<double>(*record.facts.model.parameters)).epsilon(1e-3));
    ++checked;
  }
  CHECK(checked > 100);
}

TEST_CASE("every published row is translated or has a reason, and what is made is valid") {
  const std::string arguments = SharedPath("data/measured/megatron_ci_args.json");
  if (arguments.empty()) return;
  const JsonDocument ci = ReadJsonFile(arguments);
  const PublishedSources sources = OpenPublishedSources(".");
  for (const char* file : {"training.json", "memory.json", "cases.json", "training_mm.json"}) {
    const std::string path = SharedPath(std::string("data/measured/") + file);
    int made = 0;
    for (const Record& record : ReadRecords(ReadJsonFile(path), &ci)) {
      CAPTURE(record.facts.id);
      const Translation t = ToScenario(record.facts, sources, ".");
      CHECK(t.skip.find("is not described") == std::string::npos);
      if (!t.skip.empty()) continue;
      ++made;
      CHECK_NOTHROW(ReadCluster(AsDocument(t.cluster)));
      if (!t.model.IsNull()) CHECK_NOTHROW(ReadModel(AsDocument(t.model)));
    }
    MESSAGE(file, ": ", made, " scenarios");
    if (std::string(file) == "training.json") CHECK(made >= 480);
    if (std::string(file) == "training_mm.json") CHECK(made >= 75);
    if (std::string(file) == "cases.json") CHECK(made >= 145);
  }
}

}  // namespace
}  // namespace aurum
