#include "sim/study/published/record.h"

#include <cmath>
#include <set>
#include <utility>

#include "sim/study/published/fields.h"

namespace aurum {
namespace {

enum class Format { kTraining, kCases, kMemory };

constexpr const char* kFormats =
    "an array of rows as in docs/handbook.md, \"How true is it\": with \"source_class\", \"plan\" "
    "and "
    "\"measured\", or cases with \"group\" and \"observed\"";

Format FormatOf(const JsonDocument& document) {
  const Json& root = document.root;
  const auto fail = [&](std::string message) {
    Diagnostic d;
    d.code = 860;
    d.message = std::move(message);
    d.help = kFormats;
    d.where = document.Locate(root, "");
    throw InputError(std::move(d));
  };
  if (!root.IsArray())
    fail("published records are an array of rows, and this is " + std::string(root.TypeName()));
  if (root.items().empty()) fail("there is no record in this file");
  for (const Json& row : root.items()) {
    if (!row.IsObject()) fail("every record is an object");
  }
  const Json& first = root.items().front();
  if (first.Find("source_class") != nullptr) return Format::kTraining;
  if (first.Find("group") != nullptr) return Format::kCases;
  if (first.Find("measured") == nullptr) fail("the first record has nothing that was measured");
  return Format::kMemory;
}

MoeFacts ReadMoe(const Row& row) {
  MoeFacts moe;
  moe.experts = row.Whole("experts").value_or(0);
  moe.experts_per_token = row.WholeOf({"topk", "top_k"}).value_or(0);
  moe.expert_intermediate = row.Whole("expert_ffn").value_or(0);
  moe.shared_intermediate = row.Whole("shared_experts").value_or(0) * moe.expert_intermediate;
  moe.first_dense_layers = row.Whole("first_dense_layers");
  return moe;
}

LatentFacts ReadLatent(const Row& row) {
  LatentFacts latent;
  latent.q_rank = row.Whole("q_lora").value_or(0);
  latent.kv_rank = row.Whole("kv_lora").value_or(0);
  latent.nope_dim = row.Whole("qk_nope").value_or(0);
  latent.rope_dim = row.Whole("qk_rope").value_or(0);
  latent.value_dim = row.Whole("v_head").value_or(0);
  return latent;
}

// Tokens of the latents and of the text, where a row without a vocabulary tells both.
void ReadJointSequence(const Row& row, ModelFacts* model) {
  if (model->vocabulary || model->vision || !model->layers) return;
  const auto tokens = [&](const char* key) -> std::optional<std::int64_t> {
    const auto part = row.Object(key);
    return part ? part->Whole("tokens") : std::nullopt;
  };
  const auto media = tokens("video") ? tokens("video") : tokens("image");
  const auto text = tokens("text");
  if (!media || !text) return;
  model->joint_sequence = true;
  model->encoder_only = false;
  model->gated = false;
  model->sequence = *media + *text;
}

// What is told of the encoder and the images of a language model with one. `vision` may be a text
// where a row only says that there is one.
void ReadVision(const Row& row, ModelFacts* model) {
  const auto image = [&](const Row& from) {
    if (!model->image_width) model->image_width = from.Whole("width");
    if (!model->image_height) model->image_height = from.Whole("height");
    if (!model->images) model->images = from.Whole("images_per_sample");
    if (!model->max_pixels) model->max_pixels = from.Whole("max_pixels");
  };
  if (const auto own = row.Object("image")) image(*own);
  const auto vision = row.Object("vision");
  if (!vision) return;
  if (const auto inner = vision->Object("image")) image(*inner);
  if (!model->max_pixels) model->max_pixels = vision->Whole("max_pixels");
  model->visual_tokens = vision->Whole("tokens_out");
  TowerFacts tower;
  const auto whole = [&](const char* key) {
    return static_cast<std::int64_t>(vision->Figure(key).value_or(0));
  };
  tower.layers = whole("layers");
  tower.width = whole("width");
  tower.heads = whole("heads");
  tower.intermediate = whole("mlp");
  tower.patch = whole("patch");
  tower.image = whole("image");
  model->encoder = tower;
}

// {"language": true, "vision": true, "projector": false}
std::string ReadFrozen(const Row& row) {
  const auto frozen = row.Object("frozen");
  if (!frozen) return "";
  std::string modules;
  for (const auto& [key, module] :
       {std::pair{"vision", "vision"}, {"projector", "connector"}, {"language", "backbone"}}) {
    if (frozen->Bool(key).value_or(false))
      modules += (modules.empty() ? "" : ",") + std::string(module);
  }
  return modules;
}

std::optional<TowerFacts> ReadTower(const std::optional<Row>& row) {
  if (!row || !row->Whole("layers") || !row->Whole("width") || !row->Whole("heads"))
    return std::nullopt;
  TowerFacts tower;
  tower.layers = *row->Whole("layers");
  tower.width = *row->Whole("width");
  tower.heads = *row->Whole("heads");
  tower.intermediate = row->Whole("mlp").value_or(4 * tower.width);
  const auto whole = [&](const char* key) {
    return static_cast<std::int64_t>(row->Figure(key).value_or(0));
  };
  tower.patch = whole("patch");
  tower.image = whole("image");
  tower.context = whole("context");
  return tower;
}

// Two towers that never join: a picture's and a text's.
void ReadTowers(const Row& row, ModelFacts* model) {
  auto vision = ReadTower(row.Object("vision"));
  auto text = ReadTower(row.Object("text"));
  if (!text && row.Object("vision")) text = ReadTower(row.Object("vision")->Object("text"));
  // A side in patches follows from the tokens: 50 are 7 x 7 and a class token.
  if (vision && vision->image == 0 && vision->patch > 0) {
    const auto tokens = row.Object("vision")->Whole("tokens").value_or(0);
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tokens)));
    vision->image = side * vision->patch;
  }
  if (!vision || !text || vision->patch < 1 || vision->image < vision->patch || text->context < 1)
    return;
  model->vision_tower = vision;
  model->text_tower = text;
  model->sequence = text->context;
  model->encoder_only = model->vision = false;
  model->gated = false;
}

ModelFacts ReadModelFacts(const Row& row) {
  ModelFacts model;
  model.name = row.Text("name");
  model.reference = row.Text("dims_ref");
  model.layers = row.Whole("layers");
  model.hidden = row.Whole("hidden");
  model.heads = row.Whole("heads");
  model.kv_heads = row.Whole("kv_heads");
  model.head_dim = row.Whole("head_dim");
  model.intermediate = row.Whole("ffn");
  model.vocabulary = row.Whole("vocab");
  model.sequence = row.Whole("seq_len");
  model.parameters = row.Whole("params");
  model.gated = row.Bool("gated_mlp");
  if (row.Has("sliding_window")) {
    const std::string window = row.Text("sliding_window");
    model.window = FirstNumber(window).value_or(0);
    model.window_alternates = Contains(window, "alternate");
  }
  if (const auto moe = row.Object("moe")) model.moe = ReadMoe(*moe);
  if (const auto latent = row.Object("mla")) model.latent = ReadLatent(*latent);
  model.vision = row.Has("vision");
  ReadVision(row, &model);
  model.encoder_only = row.Has("blocks") || row.Has("audio");
  model.blocks = row.Text("blocks");
  model.audio = row.Has("audio");
  if (const auto billions = row.Figure("params_b")) model.about_parameters = *billions * 1e9;
  ReadJointSequence(row, &model);
  ReadTowers(row, &model);
  return model;
}

HardwareFacts ReadHardwareFacts(const Row& row) {
  HardwareFacts hardware;
  hardware.gpu = row.Text("gpu");
  hardware.intranode = row.Text("intranode");
  hardware.internode = row.Text("internode");
  hardware.gpus = row.Whole("num_gpus");
  hardware.gpus_per_node = row.Whole("gpus_per_node");
  return hardware;
}

// "activation offload ratio 0.522 (overlapped, …)" → 0.522
std::optional<double> RatioIn(const std::string& text) {
  const std::size_t at = text.find("ratio ");
  if (at == std::string::npos) return std::nullopt;
  try {
    return std::stod(text.substr(at + 6));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

PlanFacts ReadPlanFacts(const Row& row) {
  PlanFacts plan;
  plan.tp = row.Whole("tp");
  plan.pp = row.Whole("pp");
  plan.vpp = row.Whole("vpp");
  plan.cp = row.Whole("cp");
  plan.ep = row.Whole("ep");
  plan.expert_tp = row.Whole("etp");
  plan.dp = row.Whole("dp");
  plan.zero = row.Whole("zero_stage");
  plan.micro_batch = row.Whole("micro_batch");
  plan.global_batch = row.Whole("global_batch");
  plan.accumulation = row.Whole("grad_accum");
  plan.sequence_parallel = row.Bool("sp");
  plan.schedule = row.Text("schedule");
  plan.sharding = row.Text("fsdp");
  plan.recompute = row.Text("recompute");
  plan.offload = row.Text("offload");
  plan.offload_activations = RatioIn(plan.offload);
  return plan;
}

// "…-lora-2b-r64-…" → 64
std::optional<std::int64_t> RankIn(const std::string& id) {
  for (std::size_t at = id.find("-r"); at != std::string::npos; at = id.find("-r", at + 1)) {
    const std::size_t end = id.find_first_not_of("0123456789", at + 2);
    if (end > at + 2 && (end == std::string::npos || id[end] == '-'))
      return FirstNumber(id, at + 2);
  }
  return std::nullopt;
}

}  // namespace

Record ReadTrainingRow(const Row& row) {
  Record record;
  RecordFacts& facts = record.facts;
  facts.id = row.Text("id");
  facts.source = row.Text("source_class");
  facts.cluster = row.Text("cluster");
  facts.task = row.Text("task");
  facts.precision = row.Text("precision");
  facts.software = row.Text("software");
  facts.quality = row.Text("quality");
  if (const Json* flags = row.value().Find("flags"); flags != nullptr && flags->IsArray()) {
    for (const Json& flag : flags->items()) {
      if (flag.IsString()) facts.flags.push_back(flag.AsString());
    }
  }
  if (const auto multimodal = row.Bool("multimodal")) facts.multimodal = *multimodal;
  if (const auto model = row.Object("model")) facts.model = ReadModelFacts(*model);
  if (const auto hardware = row.Object("hardware")) facts.hardware = ReadHardwareFacts(*hardware);
  if (const auto plan = row.Object("plan")) facts.plan = ReadPlanFacts(*plan);
  if (const auto model = row.Object("model")) facts.plan.frozen = ReadFrozen(*model);
  facts.notes = row.Text("notes");
  facts.framework = row.Text("framework");
  facts.citation = row.Text("source");
  if (Contains(facts.id, "asynctp") || Contains(facts.id, "async-tp"))
    facts.plan.tensor_parallel_overlap = true;
  if (Contains(facts.id, "adamw8")) facts.plan.optimizer = "8-bit";
  if (Contains(Lower(facts.task), "lora")) facts.plan.adapter_rank = RankIn(facts.id);
  ReadNotes(&facts);

  RecordMeasured& measured = record.measured;
  if (const auto seen = row.Object("measured")) {
    measured.iteration_s = seen->Real("iteration_s");
    measured.tokens_per_s_per_gpu = seen->Real("tokens_per_s_per_gpu");
    measured.samples_per_s = seen->Real("samples_per_s");
    measured.peak_memory = seen->Real("peak_memory_gib");
  }
  if (measured.Any()) measured.fits = true;
  return record;
}

std::vector<Record> ReadRecords(const JsonDocument& document, const JsonDocument* ci_arguments) {
  const Format format = FormatOf(document);
  std::vector<Record> records;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < document.root.items().size(); ++i) {
    const Row row(document, document.root.items()[i], "/" + std::to_string(i));
    const std::string id = row.Text("id");
    if (id.empty()) {
      row.Fail(862, "", "record " + std::to_string(i + 1) + " of the file has no id",
               "give every record an \"id\" of its own");
    }
    if (!ids.insert(id).second)
      row.Fail(862, "id", "the id '" + id + "' stands twice", "ids name one record each");
    switch (format) {
      case Format::kTraining:
        records.push_back(ReadTrainingRow(row));
        break;
      case Format::kMemory:
        records.push_back(ReadMemoryRow(row, ci_arguments));
        break;
      case Format::kCases:
        for (Record& record : ReadCase(row)) records.push_back(std::move(record));
        break;
    }
  }
  return records;
}

}  // namespace aurum
