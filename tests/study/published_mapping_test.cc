// The rules by which facts of published rows become a scenario, each by a row of our own.
#include <string>

#include "models/reader.h"
#include "sim/study/published/sources.h"
#include "sim/study/published/to_scenario.h"
#include "tests/study/translations.h"
#include "tests/support/shared.h"
#include "topologies/cluster.h"

namespace aurum {
namespace {

const std::vector<Record>& Rows() {
  static const std::vector<Record> rows =
      ReadRecords(ReadJsonFile("tests/study/fixtures/published_multimodal.json"), nullptr);
  return rows;
}

const PublishedSources& Sources() {
  static const PublishedSources sources = OpenPublishedSources(".");
  return sources;
}

Translation Translate(const RecordFacts& facts) { return ToScenario(facts, Sources(), "."); }

RecordFacts Noted(const std::string& notes, const std::string& task = "pretrain") {
  RecordFacts facts;
  facts.notes = notes;
  facts.task = task;
  ReadNotes(&facts);
  return facts;
}

TEST_CASE("facts that notes tell in words") {
  CHECK(Noted("no FlashAttention, PyTorch 1.10").plan.attention == "unfused");
  CHECK(Noted("FlashAttention 0.2.8").plan.attention == "flash");
  CHECK(Noted("FlashAttention 0.2.8").plan.attention_kernel == "flash1");
  CHECK(Noted("batch 1, FlashAttention 2, CUDA 11.8").plan.attention_kernel == "flash2");
  CHECK(Noted("flash-attn 3").plan.attention_kernel == "flash3");
  CHECK(Noted("FlashAttention; params 1.3 billion").plan.attention_kernel == "");
  CHECK(Noted("steady s/step").plan.attention == "");
  CHECK(Noted("torch.compile; seq 8192").plan.compiled == true);
  CHECK(Noted("steady; no compile").plan.compiled == false);
  CHECK(Noted("torch.compile, AsyncTP").plan.tensor_parallel_overlap == true);
  CHECK(Noted("async TP=False").plan.tensor_parallel_overlap == false);
  CHECK(Noted("optimizer AdamW (8-bit bitsandbytes); lora rank 16").plan.optimizer == "8-bit");
  CHECK(Noted("optimizer AdamW; activations in 8-bit").plan.optimizer == "");
  CHECK(Noted("optimizer AdamW; lora rank 16", "lora").plan.adapter_rank == 16);
  CHECK_FALSE(Noted("lora rank None", "lora").plan.adapter_rank.has_value());
  CHECK_FALSE(Noted("rank 0 peaks").plan.adapter_rank.has_value());  // no adapters
  CHECK(Noted("layers 17/23 over the two stages").plan.layers_per_stage ==
        std::vector<std::int64_t>{17, 23});
  CHECK(Noted("padded; 16/24 layer split; TE").plan.layers_per_stage ==
        std::vector<std::int64_t>{16, 24});
  CHECK(Noted("layers of all kinds").plan.layers_per_stage.empty());
  CHECK(Noted("", "pretrain (projector only)").plan.frozen == "vision,backbone");
  CHECK(Noted("", "full finetune (ViT and aligner frozen)").plan.frozen == "vision,connector");
  CHECK(Noted("", "sft (language + projector)").plan.frozen == "vision");
  CHECK(Noted("memory = peak allocated (reserved 72)").memory_counts == "allocated");
  CHECK(Noted("VRAM from nvidia-smi").memory_counts == "device");
  CHECK(Noted("sequence lengths vary up to 2048").model.sequence_is_limit);
  CHECK_FALSE(Noted("packed to 2048 tokens").model.sequence_is_limit);
  // What was measured does not stay: not even for readers that look for words.
  CHECK(Noted("1011.1 images/s over 8 GPUs, 20,042 MiB").notes == "# images/s over 8 GPUs, # MiB");
}

TEST_CASE("releases and power limits") {
  CHECK(ReleaseIn("26.06.01") == 2606);
  CHECK(ReleaseIn("NeMo 24.07 / 2024-09-09") == 2407);
  CHECK(ReleaseIn("container nvcr.io/nvidia/pytorch:26.04-py3") == 2604);
  CHECK_FALSE(ReleaseIn("PyTorch 2.12.0").has_value());
  CHECK_FALSE(ReleaseIn("27.77 %").has_value());  // no month
  CHECK(Noted("NeMo container 25.09; 24.11 s").version == 2509);
  CHECK_FALSE(Noted("24.11 s").version.has_value());

  RecordFacts facts;
  facts.hardware.gpu = "H100-96GB-HBM2e (2.4TB/s, 500W limit)";
  ReadNotes(&facts);
  CHECK(facts.hardware.power_limit_w == 500);
  facts.hardware.power_limit_w.reset();
  facts.hardware.gpu = "RTX PRO 6000 96GB";
  ReadNotes(&facts);
  CHECK_FALSE(facts.hardware.power_limit_w.has_value());
}

TEST_CASE("an entry holds for releases from and to") {
  const auto read = [](const std::string& when) {
    return ReadPublishedSources(ParseJson(
        R"({"schema": "aurum.published-sources/1", "sources": [
          {"source": "a", "when": )" +
            when + R"(, "stack": "old", "meaning": "", "provenance": ""},
          {"source": "*", "stack": "any", "meaning": "", "provenance": ""}],
          "gpus": [], "models": [], "recompute": [], "precision": []})",
        "sources.json"));
  };
  const auto stack = [](const PublishedSources& sources, const std::string& source,
                        std::optional<int> version) {
    RecordFacts facts;
    facts.source = source;
    facts.version = version;
    return sources.FindSource(facts)->stack;
  };
  const PublishedSources to = read(R"({"version_to": "25.12"})");
  CHECK(stack(to, "a", 2509) == "old");
  CHECK(stack(to, "a", 2512) == "old");
  CHECK(stack(to, "a", 2601) == "any");
  CHECK(stack(to, "a", std::nullopt) == "any");  // not told: not of these
  CHECK(stack(to, "b", 2509) == "any");
  const PublishedSources span = read(R"({"version_from": "26.00", "version_to": "26.05"})");
  CHECK(stack(span, "a", 2602) == "old");
  CHECK(stack(span, "a", 2606) == "any");
  CHECK(stack(span, "a", 2512) == "any");
  CHECK(ThrownBy([&] { read(R"({"version_from": "new"})"); }).code == 108);

  // The releases of Megatron-Bridge have three entries, and one for rows without a release.
  int dated = 0, undated = 0;
  for (const SourceReading& reading : Sources().sources) {
    if (reading.source != "nvidia-megatron-bridge") continue;
    (reading.version_from + reading.version_to > 0 ? dated : undated) += 1;
  }
  CHECK(dated == 3);
  CHECK(undated == 1);
}

TEST_CASE("what a flag spoils") {
  CHECK(Sources().FindFlag("Fabric not told")->spoils == FlagReading::Spoils::kNothing);
  CHECK(Sources().FindFlag("ten steps including the first")->spoils == FlagReading::Spoils::kTime);
  CHECK(Sources().FindFlag("see notes: contradictory or suspect in the source")->spoils ==
        FlagReading::Spoils::kEverything);
  CHECK(Sources().FindFlag("never heard of") == nullptr);

  const Translation lora = Translate(Rows()[1].facts);
  REQUIRE(lora.skip == "");
  CHECK(lora.skip_time.find("ten steps") != std::string::npos);
  CHECK(lora.skip_memory == "");
  RecordFacts unheard = Rows()[0].facts;
  unheard.flags = {"never heard of"};
  CHECK(Translate(unheard).skip == "flagged: never heard of");
}

TEST_CASE("a vision-language model with pictures of one size") {
  const Translation t = Translate(Rows()[0].facts);
  REQUIRE(t.skip == "");
  CHECK(t.skip_time == "");
  CHECK(t.model_name == "qwen3-vl-30b-a3b");
  const Json& workload = *t.scenario.Find("workload");
  REQUIRE(workload.Find("images")->items().size() == 1);
  CHECK(workload.Find("images")->items()[0].Find("count")->AsInteger() == 2);
  // 448 / 32 = 14 tokens a side, two pictures.
  CHECK(workload.Find("text_tokens")->AsInteger() == 4096 - 2 * 14 * 14);
  const Json& plan = *t.scenario.Find("plan");
  CHECK(plan.Find("frozen")->Dump() == R"(["vision"])");
  CHECK(plan.Find("recompute")->Find("parts")->Dump() == R"(["attention","activation"])");
  CHECK(plan.Find("backbone")->Find("layers_per_stage")->Dump() == "[20,28]");
  CHECK(t.level == MemoryLevel::kAllocated);
  // Experts are routed as they come: how unevenly is not told.
  REQUIRE(t.ends.size() == 1);
  CHECK(t.ends[0].Find("plan")->Find("backbone")->Find("expert_imbalance")->AsNumber() == 2);
}

TEST_CASE("sizes that are not told") {
  RecordFacts facts = Rows()[0].facts;
  facts.model.image_width.reset();
  facts.model.image_height.reset();
  const Translation untold = Translate(facts);
  REQUIRE(untold.skip == "");
  CHECK(untold.skip_time == "what the samples' media are is not told");
  CHECK(Assumes(untold, "448 x 448"));
  CHECK(untold.ends.size() == 3);  // small and large pictures, and the experts
  facts.model.max_pixels = 448 * 448;
  const Translation bounded = Translate(facts);
  CHECK(bounded.skip_time == "");
  CHECK(Assumes(bounded, "the most pixels"));
  CHECK(bounded.scenario.Find("workload")->Dump() ==
        Translate(Rows()[0].facts).scenario.Find("workload")->Dump());
  // A model that scales every picture to one size needs none.
  facts = Rows()[2].facts;
  facts.model.name = "LLaVA-1.5-7b";
  facts.model.reference = "";
  const Translation fixed = Translate(facts);
  REQUIRE(fixed.skip == "");
  CHECK(fixed.skip_time == "");
  CHECK(fixed.scenario.Find("workload")->Find("text_tokens")->AsInteger() == 2048 - 576);
  // Shorter samples than the length that is told: no time, and the peak is that of the longest.
  facts.model.sequence_is_limit = true;
  CHECK(Translate(facts).skip_time.find("natural length") != std::string::npos);
  facts.model.sequence = 500;
  CHECK(Translate(facts).skip == "the sample is shorter than its image");
}

TEST_CASE("adapters of a model with an encoder, from a source that nobody described") {
  const Translation t = Translate(Rows()[1].facts);
  REQUIRE(t.skip == "");
  CHECK(Assumes(t, "source 'nobody-knows' is not described"));
  CHECK(t.scenario.Find("stack")->AsString() == "megatron-core");  // by "Megatron-Bridge"
  CHECK(t.level == MemoryLevel::kAllocated);                       // by "peak allocated"
  CHECK(t.model_name == "internvl3-8b");
  const Json& plan = *t.scenario.Find("plan");
  CHECK(plan.Find("adapter")->Find("rank")->AsInteger() == 48);
  CHECK(plan.Find("frozen")->Dump() == R"(["vision","connector"])");
  CHECK(Assumes(t, "frozen modules not told"));
  // Two tiles of 448 and their thumbnail, 256 tokens each.
  CHECK(t.scenario.Find("workload")->Find("text_tokens")->AsInteger() == 4096 - 3 * 256);
}

TEST_CASE("an encoder whose dimensions are told, before a known language model") {
  const Translation t = Translate(Rows()[2].facts);
  REQUIRE(t.skip == "");
  CHECK(t.scenario.Find("stack")->AsString() == "deepspeed-zero");
  const Model model = ReadModel(AsDocument(t.model));
  REQUIRE(model.modules.size() == 3);
  // CLIP ViT-L/14-336 without its projection: 303.5 million (open_clip, 304.29 with it).
  CHECK(static_cast<double>(ModuleParameters(model.modules[0])) ==
        doctest::Approx(303.5e6).epsilon(2e-3));
  CHECK(ModuleParameters(model.modules[2]) == 8030261248);  // Llama-3.1-8B
  CHECK(t.scenario.Find("workload")->Find("text_tokens")->AsInteger() == 2048 - 576);
  RecordFacts facts = Rows()[2].facts;
  facts.model.encoder->layers = 0;
  CHECK(Translate(facts).skip == "multimodal model without its encoder's dimensions");
}

TEST_CASE("two towers, the text's within the picture's") {
  const RecordFacts& facts = Rows()[3].facts;
  REQUIRE(facts.model.TwoTowers());
  CHECK(facts.model.vision_tower->image == 224);  // 50 tokens: 7 x 7 patches of 32, a class token
  const Translation t = Translate(facts);
  REQUIRE(t.skip == "");
  CHECK(t.scenario.Find("stack")->AsString() == "hf-transformers-unfused");  // "no FlashAttention"
  CHECK(Assumes(t, "precision not told"));
}

TEST_CASE("models that the grammar has no words for") {
  CHECK(Translate(Rows()[4].facts).skip.starts_with("convolutional network"));
  RecordFacts facts = Rows()[4].facts;
  facts.model.blocks = "";
  facts.model.name = "Nemotron_3_Nano";
  CHECK(Translate(facts).skip.starts_with("hybrid of state-space and attention layers"));
  facts.model.name = "Nemotron-340B";
  CHECK(KindNotSimulated(facts) == "");
  facts.notes = "DIFFUSION adapter training";
  CHECK(KindNotSimulated(facts).starts_with("diffusion model: dimensions"));
  facts.model.layers = 24;
  CHECK(KindNotSimulated(facts).starts_with("diffusion transformer: tokens"));
  facts.model.joint_sequence = true;
  CHECK(KindNotSimulated(facts) == "");
  facts = Rows()[4].facts;
  facts.model.blocks = "";
  facts.task = "grpo (RL)";
  CHECK(KindNotSimulated(facts).find("generation") != std::string::npos);
  facts.task = "pretrain";
  facts.model.audio = true;
  CHECK(KindNotSimulated(facts).starts_with("speech encoder"));
}

TEST_CASE("GPUs by any of their names") {
  CHECK(PlainGpuName("NVIDIA GeForce RTX4090-24GB (assumed)") == "rtx 4090 24gb assumed");
  CHECK(PlainGpuName("Tesla V100-SXM2-32GB") == "v100 sxm2 32gb");
  const auto name = [](const char* printed) -> std::string {
    const GpuReading* gpu = Sources().FindGpu(printed);
    return gpu == nullptr ? "" : gpu->name.empty() ? gpu->cluster : gpu->name;
  };
  CHECK(name("NVIDIA H100 80GB HBM3") == "h100-ndr");
  CHECK(name("H100-80GB-SXM") == "h100-ndr");
  CHECK(name("H100-PCIe-80GB") == "H100-PCIe-80GB");
  CHECK(name("H100-96GB-HBM2e (2.4TB/s, 500W limit)") == "H100-96GB-HBM2e");
  CHECK(name("A100-40GB (8 on one node; \"Reproduction details\")") == "a100-40-hdr");
  CHECK(name("A100 (80GB)") == "a100-hdr");
  CHECK(name("L40S-48GB") == "L40S-48GB");
  CHECK(name("L4 24GB") == "L4");  // not a beginning of L40
  CHECK(name("B200-SXM-180GB") == "b200-ndr");
  CHECK(name("RTX 6000 Ada 48GB (\"A6000 Ada\")") == "RTX 6000 Ada");
  CHECK(name("RTX PRO 6000 SE PCIe 96GB") == "RTX PRO 6000");
  CHECK(name("Abacus") == "");
}

TEST_CASE("a GPU's own profile holds where it is, and another's by name where it is not") {
  GpuReading gpu;
  gpu.cluster = "h100-ndr";
  gpu.assumed = "priced as H100";
  gpu.profiles = {"no-such-profile", "h100"};
  CHECK(ProfileOf(gpu, ".") == "h100");
  HardwareFacts hardware;
  hardware.gpus = 8;
  const auto notes = [&] {
    std::vector<std::string> assumed;
    std::string skip;
    const auto document = ClusterDocument(hardware, gpu, ".", &assumed, &skip);
    REQUIRE(document.has_value());
    CHECK(document->Find("gpu")->Find("profile")->AsString() == "h100");
    return assumed.size();
  };
  CHECK(notes() == 1);
  gpu.profiles = {"h100", "no-such-profile"};
  CHECK(notes() == 0);
  gpu.profiles = {"no-such-profile"};
  CHECK(ProfileOf(gpu, ".") == "");

  // A card without a profile: its memory is predicted, its time is not.
  RecordFacts facts = Rows()[1].facts;
  facts.hardware.gpu = "RTX 2080 Ti";
  facts.flags.clear();
  CHECK(Translate(facts).skip_time == "no kernel measurements of this GPU");
  facts.hardware.gpu = "not told (80GB)";
  CHECK(Translate(facts).skip == "the GPU is not told");
}

TEST_CASE("cards in slots, and networks by their generation") {
  RecordFacts facts = Rows()[1].facts;
  facts.hardware.intranode = "PCIe 4.0";
  CHECK_FALSE(ReadCluster(AsDocument(Translate(facts).cluster)).HasNvLink());
  facts.hardware.intranode = "NVLink + PCIe 5.0";
  CHECK(ReadCluster(AsDocument(Translate(facts).cluster)).HasNvLink());

  const auto check = [](const char* text, std::int64_t count, double rate) {
    CAPTURE(text);
    const auto nics = ReadNics(text, 8);
    REQUIRE(nics.has_value());
    CHECK(nics->count == count);
    CHECK(nics->gbit_per_s == rate);
  };
  check("Storage: 2x ConnectX-7 IB NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s", 8, 400);
  check("own cluster, 4x HDR200", 4, 200);
  check("8x NDR InfiniBand", 8, 400);
  check("4x EDR", 4, 100);
  CHECK_FALSE(ReadNics("Infiniband, Ethernet", 8).has_value());
  CHECK_FALSE(ReadNics("ROCE2; Data bandwidth for GPU-PCIe: 504 GB/s", 8).has_value());
}

TEST_CASE("what was measured changes no scenario of the multimodal rows") {
  const auto bytes = [](const std::vector<Record>& records) {
    std::vector<std::string> all;
    for (const Record& record : records) {
      const Translation t = Translate(record.facts);
      std::string text = t.skip + "|" + t.skip_time + "|" + t.skip_memory + t.scenario.Dump() +
                         t.model.Dump() + t.cluster.Dump();
      for (const Json& end : t.ends) text += end.Dump();
      for (const std::string& note : t.assumed) text += note;
      all.push_back(text);
    }
    return all;
  };
  const auto falsify = [](JsonDocument* document) {
    for (Json& row : document->root.items()) {
      Json* measured = row.Find("measured");
      REQUIRE(measured != nullptr);
      for (auto& [key, value] : measured->members())
        if (value.IsNumber()) value = Json(value.AsNumber() * 3.7 + 11);
    }
  };
  for (const std::string& path : {std::string("tests/study/fixtures/published_multimodal.json"),
                                  SharedPath("data/measured/training_mm.json")}) {
    if (path.empty()) continue;
    JsonDocument document = ReadJsonFile(path);
    const std::vector<std::string> told = bytes(ReadRecords(document, nullptr));
    falsify(&document);
    CHECK(told == bytes(ReadRecords(document, nullptr)));
  }
}

// A record of a source that is in no entry, as those kept for judging may be: no fewer are mapped.
TEST_CASE("rows under another source's name are read by their words") {
  const std::string path = SharedPath("data/measured/training.json");
  if (path.empty()) return;
  int known = 0, unknown = 0;
  for (const Record& record : ReadRecords(ReadJsonFile(path), nullptr)) {
    RecordFacts facts = record.facts;
    known += Translate(facts).skip.empty() ? 1 : 0;
    facts.source = "renamed";
    unknown += Translate(facts).skip.empty() ? 1 : 0;
  }
  MESSAGE(known, " rows by their sources' entries, ", unknown, " by their words");
  CHECK(known >= 480);
  CHECK(unknown >= 440);
}

}  // namespace
}  // namespace aurum
