#include <string>
#include <vector>

#include "sim/core/hash.h"
#include "sim/core/object_reader.h"
#include "sim/study/published/fields.h"
#include "sim/study/published/sources.h"

// Reading sources.json, strictly: a key that is not known is an error.

namespace aurum {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
const std::vector<std::string> kLevels = {"allocated", "reserved", "device"};
const std::vector<std::string> kRanks = {"heaviest", "first", "last"};

// "26.06" → 2606; 0 where the key is not there.
int ReadVersion(ObjectReader* reader, const char* key) {
  const std::string text = reader->String(key, "");
  if (text.empty()) return 0;
  const std::size_t point = text.find('.');
  const auto major = FirstNumber(text);
  const auto minor = point == std::string::npos ? std::nullopt : FirstNumber(text, point);
  if (!major || !minor || *major > 99 || *minor > 99)
    reader->Fail(108, key, "'" + text + "' is not a release", "write \"26.06\": year and month");
  return static_cast<int>(100 * *major + *minor);
}

FlagReading ReadFlag(ObjectReader* reader) {
  FlagReading out;
  out.contains = Lower(reader->String("contains"));
  out.spoils = static_cast<FlagReading::Spoils>(
      reader->Choice("spoils", {"nothing", "time", "memory", "everything"}));
  out.why = reader->String("why");
  reader->Finish();
  return out;
}

SourceReading ReadSource(ObjectReader* reader) {
  SourceReading out;
  out.source = reader->String("source");
  if (auto when = reader->ObjectIf("when")) {
    out.id_prefix = when->String("id_prefix", "");
    out.id_contains = when->String("id_contains", "");
    out.task_contains = when->String("task_contains", "");
    if (when->Has("attention"))
      out.attention = when->Choice("attention", {"flash", "unfused"}) == 0 ? "flash" : "unfused";
    if (when->Has("dropout")) out.dropout = when->Bool("dropout");
    out.loss = when->String("loss", "");
    if (when->Has("single_gpu")) out.single_gpu = when->Bool("single_gpu");
    if (when->Has("sharded")) out.sharded = when->Bool("sharded");
    if (when->Has("model_parallel")) out.model_parallel = when->Bool("model_parallel");
    const auto parts = [&](const char* key) {
      std::vector<std::string> lower;
      if (!when->Has(key)) return lower;
      for (const std::string& part : when->Strings(key)) lower.push_back(Lower(part));
      return lower;
    };
    out.text_contains = parts("text_contains");
    out.gpu_contains = parts("gpu_contains");
    out.version_from = ReadVersion(&*when, "version_from");
    out.version_to = ReadVersion(&*when, "version_to");
    when->Finish();
  }
  out.skip = reader->String("skip", "");
  out.skip_time = reader->String("skip_time", "");
  out.skip_memory = reader->String("skip_memory", "");
  out.stack = reader->String("stack", "");
  if (out.stack.empty() && out.skip.empty())
    reader->Fail(102, "", "missing key 'stack'", "or say with \"skip\" why it is not simulated");
  if (auto memory = reader->ObjectIf("memory")) {
    out.level = static_cast<MemoryLevel>(memory->Choice("level", kLevels));
    out.rank = static_cast<MemoryRank>(memory->ChoiceOr("rank", 0, kRanks));
    out.memory_unit_bytes = memory->ChoiceOr("unit", 0, {"GiB", "GB"}) == 0 ? kGib : 1e9;
    memory->Finish();
  }
  out.time_of_micro_batch = reader->ChoiceOr("time_of", 0, {"step", "micro_batch"}) == 1;
  if (auto shape = reader->ObjectIf("plain_mlp_models")) {
    if (shape->Has("biased")) out.biased = shape->Bool("biased");
    if (shape->Has("tied")) out.tied = shape->Bool("tied");
    if (shape->Has("layer_norm")) out.layer_norm = shape->Bool("layer_norm");
    if (shape->Has("positions")) out.positions = shape->Bool("positions");
    shape->Finish();
  }
  for (ObjectReader& item : reader->Objects("assume")) {
    Assumption assumption;
    assumption.fact = item.String("fact");
    assumption.value = item.Value("value");
    assumption.why = item.String("why");
    item.Finish();
    RecordFacts trial;
    trial.model.moe = MoeFacts{};
    SetFact(assumption.fact, assumption.value, &trial);  // is it one?
    out.assume.push_back(std::move(assumption));
  }
  for (ObjectReader& item : reader->Objects("ends")) {
    Ends ends;
    ends.fact = item.String("fact");
    for (const Json& value : item.Value("values").items()) {
      RecordFacts trial;
      SetFact(ends.fact, value, &trial);
      ends.values.push_back(value);
    }
    item.Finish();
    out.ends.push_back(std::move(ends));
  }
  reader->String("meaning");
  reader->String("provenance");
  reader->Finish();
  return out;
}

GpuReading ReadGpu(ObjectReader* reader) {
  GpuReading out;
  for (const std::string& printed : reader->Strings("printed"))
    out.prefixes.push_back(PlainGpuName(printed));
  out.cluster = reader->String("cluster");
  out.name = reader->String("name", "");
  if (reader->Has("profiles")) out.profiles = reader->Strings("profiles");
  out.pcie_gb_per_s = reader->NumberOr("pcie_gb_per_s", 0, 0, 1e4);
  if (reader->Has("peer_to_peer")) out.peer_to_peer = reader->Bool("peer_to_peer");
  out.nics = reader->IntegerOr("nics", 0, 0, 256);
  out.nic_gbit_per_s = reader->NumberOr("nic_gbit_per_s", 0, 0, 1e5);
  out.memory_gib = reader->NumberOr("memory_gib", 0, 0, 1e4);
  out.nvlinks = static_cast<int>(reader->IntegerOr("nvlinks", 0, 0, 256));
  out.domain_nodes = static_cast<int>(reader->IntegerOr("domain_nodes", 0, 0, 1024));
  out.assumed = reader->String("assumed", "");
  out.no_time = reader->String("no_time", "");
  reader->String("source");
  reader->Finish();
  return out;
}

ModelReading ReadNamedModel(ObjectReader* reader) {
  ModelReading out;
  for (const std::string& name : reader->Strings("names"))
    out.names.push_back(PlainModelName(name));
  out.catalogue = reader->String("catalogue", "");
  if (auto shape = reader->ObjectIf("shape")) {
    ModelFacts& m = out.facts;
    const auto whole = [&](const char* key) { return shape->Integer(key, 1, 1 << 24); };
    m.layers = whole("layers");
    m.hidden = whole("hidden");
    m.heads = whole("heads");
    m.kv_heads = shape->IntegerOr("kv_heads", *m.heads, 1, 1 << 24);
    if (shape->Has("head_dim")) m.head_dim = whole("head_dim");
    m.intermediate = whole("intermediate");
    m.vocabulary = whole("vocabulary");
    m.gated = shape->BoolOr("gated", true);
    m.tied = shape->BoolOr("tied", false);
    m.biased = shape->BoolOr("biased", false);
    m.layer_norm = shape->BoolOr("layer_norm", false);
    m.positions = shape->IntegerOr("positions", 0, 0, 1 << 24);
    if (auto moe = shape->ObjectIf("moe")) {
      MoeFacts f;
      f.experts = moe->Integer("experts", 1, 1 << 16);
      f.experts_per_token = moe->Integer("experts_per_token", 1, 1 << 16);
      f.expert_intermediate = moe->Integer("expert_intermediate", 1, 1 << 24);
      f.shared_intermediate = moe->IntegerOr("shared_intermediate", 0, 0, 1 << 24);
      f.first_dense_layers = moe->IntegerOr("first_dense_layers", 0, 0, 4096);
      moe->Finish();
      m.moe = f;
    }
    shape->Finish();
  } else if (out.catalogue.empty()) {
    reader->Fail(102, "", "missing key 'shape'", "or name a model of the catalogue");
  }
  if (auto image = reader->ObjectIf("image")) {
    out.image_width = image->Integer("width", 1, 1 << 16);
    out.image_height = image->Integer("height", 1, 1 << 16);
    out.visual_tokens = image->Integer("backbone_tokens", 0, 1 << 24);
    image->Finish();
  }
  reader->String("source");
  reader->Finish();
  return out;
}

}  // namespace

PublishedSources ReadPublishedSources(const JsonDocument& document) {
  ObjectReader reader(document, document.root, "");
  reader.Choice("schema", {"aurum.published-sources/1"});
  reader.String("description", "");
  PublishedSources out;
  for (const char* key : {"sources", "gpus", "models", "recompute", "precision"}) reader.Value(key);
  for (ObjectReader& item : reader.Objects("flags")) out.flags.push_back(ReadFlag(&item));
  for (ObjectReader& item : reader.Objects("sources")) out.sources.push_back(ReadSource(&item));
  for (ObjectReader& item : reader.Objects("gpus")) out.gpus.push_back(ReadGpu(&item));
  for (ObjectReader& item : reader.Objects("models")) out.models.push_back(ReadNamedModel(&item));
  for (ObjectReader& item : reader.Objects("recompute")) {
    const std::string printed = item.String("printed");
    const Json& plan = item.Value("plan");
    if (!plan.IsString() && !plan.IsObject())
      item.Fail(103, "plan",
                "'plan' must be a string or an object, as plan.recompute of a scenario");
    out.recompute.emplace_back(Lower(printed), plan);
    item.Finish();
  }
  for (ObjectReader& item : reader.Objects("precision")) {
    const std::string printed = item.String("contains");
    out.precision.emplace_back(Lower(printed), item.String("plan"));
    item.Finish();
  }
  reader.Finish();
  out.hash = HashText(document.root.Dump()).Hex();
  return out;
}

PublishedSources OpenPublishedSources(const std::string& data_root) {
  return ReadPublishedSources(ReadJsonFile(data_root + "/calibrate/published/sources.json"));
}

}  // namespace aurum
