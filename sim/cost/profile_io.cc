#include <cmath>
#include <limits>

#include "sim/core/diagnostic.h"
#include "sim/core/object_reader.h"
#include "sim/cost/profile.h"

// The file format "aurum.profile/1": one JSON object whose keys carry their units. Nothing has a
// default, so a misspelled key can only be an error. Numbers are written in the shortest form that
// reads back the same.

namespace aurum {
namespace {

constexpr const char* kSchema = "aurum.profile/1";
constexpr double kMax = 1e30;
constexpr double kTiny = 1e-12;
constexpr std::int64_t kMany = std::int64_t{1} << 30;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

const std::vector<DType> kDTypes = {DType::kBf16, DType::kFp16, DType::kFp8, DType::kFp32};
const std::vector<CollectiveKind> kKinds = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
    CollectiveKind::kAllToAll,  CollectiveKind::kBroadcast, CollectiveKind::kSendRecv};

const std::vector<std::string>& ProvenanceNames() {
  static const std::vector<std::string> names = {"measured", "calibrated", "datasheet", "assumed"};
  return names;
}

Provenance ReadProvenance(ObjectReader* reader) {
  return static_cast<Provenance>(reader->Choice("provenance", ProvenanceNames()));
}

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  names.reserve(kKinds.size());
  for (const CollectiveKind kind : kKinds) names.push_back(CollectiveName(kind));
  return names;
}

FitQuality ReadQuality(ObjectReader reader) {
  FitQuality quality;
  quality.method = reader.String("method");
  quality.provenance = ReadProvenance(&reader);
  quality.source = reader.String("source");
  quality.points = static_cast<int>(reader.Integer("points", 0, kMany));
  quality.holdout_points = static_cast<int>(reader.Integer("holdout_points", 0, kMany));
  quality.holdout_mape = reader.NumberOr("holdout_mape", kNaN, 0, 100);
  quality.training_size_mape = reader.NumberOr("training_size_mape", kNaN, 0, 100);
  reader.Finish();
  return quality;
}

// An error that nobody could measure is null, never 0.
Json NumberOrNull(double value) { return std::isnan(value) ? Json() : Json(value); }

Json WriteQuality(const FitQuality& quality) {
  Json json = Json::Object();
  json.Set("method", quality.method);
  json.Set("provenance", ProvenanceName(quality.provenance));
  json.Set("source", quality.source);
  json.Set("points", quality.points);
  json.Set("holdout_points", quality.holdout_points);
  json.Set("holdout_mape", NumberOrNull(quality.holdout_mape));
  json.Set("training_size_mape", NumberOrNull(quality.training_size_mape));
  return json;
}

GemmModel ReadGemm(ObjectReader reader) {
  const std::vector<std::string> forms = {"roofline", "k_saturation", "tile"};
  GemmModel model;
  model.form = forms[reader.Choice("form", forms)];
  model.t0_s = reader.Number("t0_s", 0, 1);
  model.rate_flops = reader.Number("rate_flops_per_s", 1, kMax);
  model.bandwidth_bytes_per_s = reader.Number("bandwidth_bytes_per_s", 1, kMax);
  model.k_half = reader.Number("k_half", 0, 1e6);
  model.wave_alpha = reader.Number("wave_alpha", 0, 1);
  for (ObjectReader& tile : reader.Objects("tiles")) {
    model.tiles.push_back({tile.Number("m", 1, 65536), tile.Number("n", 1, 65536),
                           tile.Number("efficiency", kTiny, 1)});
    tile.Finish();
  }
  if ((model.form == "tile") != !model.tiles.empty()) {
    reader.Fail(802, "tiles",
                model.tiles.empty() ? "form 'tile' without tiles"
                                    : "tiles, but the form is '" + model.form + "'",
                "a 'tile' model lists its tiles, the other forms have an empty list");
  }
  if (model.form == "roofline" && model.k_half != 0) {
    reader.Fail(802, "k_half", "form 'roofline' with a k_half",
                "k_half belongs to 'k_saturation' and 'tile'");
  }
  model.quality = ReadQuality(reader.Object("quality"));
  reader.Finish();
  return model;
}

Json WriteGemm(const GemmModel& model) {
  Json json = Json::Object();
  json.Set("form", model.form);
  json.Set("t0_s", model.t0_s);
  json.Set("rate_flops_per_s", model.rate_flops);
  json.Set("bandwidth_bytes_per_s", model.bandwidth_bytes_per_s);
  json.Set("k_half", model.k_half);
  json.Set("wave_alpha", model.wave_alpha);
  Json tiles = Json::Array();
  for (const auto& [m, n, efficiency] : model.tiles) {
    Json tile = Json::Object();
    tile.Set("m", m);
    tile.Set("n", n);
    tile.Set("efficiency", efficiency);
    tiles.Append(std::move(tile));
  }
  json.Set("tiles", std::move(tiles));
  json.Set("quality", WriteQuality(model.quality));
  return json;
}

AttentionModel ReadAttention(ObjectReader reader) {
  AttentionModel model;
  model.t0_s = reader.Number("t0_s", 0, 1);
  model.bandwidth_bytes_per_s = reader.Number("bandwidth_bytes_per_s", 1, kMax);
  model.backward_flops_ratio = reader.Number("backward_flops_ratio", 1, 10);
  model.backward_time_factor = reader.Number("backward_time_factor", 0.1, 10);
  model.tail = reader.Number("tail", 0, 100);
  model.cache_write_bytes_per_s = reader.Number("cache_write_bytes_per_s", 0, kMax);
  for (ObjectReader& entry : reader.Objects("per_head_dim")) {
    AttentionModel::PerHeadDim known;
    known.head_dim = static_cast<int>(entry.Integer("head_dim", 1, 65536));
    known.rate_flops = entry.Number("rate_flops_per_s", 1, kMax);
    known.half_length = entry.Number("half_length_tokens", 0, 1e9);
    if (!model.per_head_dim.empty() && known.head_dim <= model.per_head_dim.back().head_dim) {
      entry.Fail(802, "head_dim", "head dimensions must ascend, each once", "sort the entries");
    }
    model.per_head_dim.push_back(known);
    entry.Finish();
  }
  if (model.per_head_dim.empty()) {
    reader.Fail(802, "per_head_dim", "an attention model wants at least one head dimension",
                "add one with head_dim, rate_flops_per_s and half_length_tokens");
  }
  model.quality = ReadQuality(reader.Object("quality"));
  reader.Finish();
  return model;
}

Json WriteAttention(const AttentionModel& model) {
  Json json = Json::Object();
  json.Set("t0_s", model.t0_s);
  json.Set("bandwidth_bytes_per_s", model.bandwidth_bytes_per_s);
  json.Set("backward_flops_ratio", model.backward_flops_ratio);
  json.Set("backward_time_factor", model.backward_time_factor);
  json.Set("tail", model.tail);
  json.Set("cache_write_bytes_per_s", model.cache_write_bytes_per_s);
  Json entries = Json::Array();
  for (const auto& known : model.per_head_dim) {
    Json entry = Json::Object();
    entry.Set("head_dim", known.head_dim);
    entry.Set("rate_flops_per_s", known.rate_flops);
    entry.Set("half_length_tokens", known.half_length);
    entries.Append(std::move(entry));
  }
  json.Set("per_head_dim", std::move(entries));
  json.Set("quality", WriteQuality(model.quality));
  return json;
}

DecodeModel ReadDecode(ObjectReader reader) {
  DecodeModel model;
  model.t0_s = reader.Number("t0_s", 0, 1);
  model.row_tokens = reader.Number("row_tokens", 0, 1e6);
  model.bandwidth_bytes_per_s = reader.Number("bandwidth_bytes_per_s", 1, kMax);
  model.quality = ReadQuality(reader.Object("quality"));
  reader.Finish();
  return model;
}

Json WriteDecode(const DecodeModel& model) {
  Json json = Json::Object();
  json.Set("t0_s", model.t0_s);
  json.Set("row_tokens", model.row_tokens);
  json.Set("bandwidth_bytes_per_s", model.bandwidth_bytes_per_s);
  json.Set("quality", WriteQuality(model.quality));
  return json;
}

void ReadCollective(ObjectReader reader, Profile* profile) {
  const CollectiveKind kind = kKinds[reader.Choice("kind", KindNames())];
  const int gpus = static_cast<int>(reader.Integer("gpus", 2, 1 << 24));
  CollectiveEnvelope envelope;
  envelope.busbw_bytes_per_s = reader.Number("busbw_bytes_per_s", 1, kMax);
  for (ObjectReader& entry : reader.Objects("lines")) {
    EnvelopeLine line;
    line.latency_s = entry.Number("latency_s", 0, 1000);
    line.bytes_per_s = entry.Number("bytes_per_s", 1, kMax);
    if (!envelope.lines.empty() && (line.latency_s < envelope.lines.back().latency_s ||
                                    line.bytes_per_s <= envelope.lines.back().bytes_per_s)) {
      entry.Fail(802, "latency_s", "a line of the envelope lies nowhere below the one before it",
                 "latencies and rates must both ascend");
    }
    envelope.lines.push_back(line);
    entry.Finish();
  }
  if (envelope.lines.empty()) {
    reader.Fail(802, "lines", "an envelope wants at least one line",
                "add latency_s and bytes_per_s");
  }
  envelope.quality = ReadQuality(reader.Object("quality"));
  reader.Finish();
  if (!profile->collectives.emplace(std::make_pair(kind, gpus), std::move(envelope)).second) {
    reader.Fail(802, "kind",
                CollectiveName(kind) + " on " + std::to_string(gpus) + " GPUs is given twice",
                "remove one of the two");
  }
}

Json WriteCollective(CollectiveKind kind, int gpus, const CollectiveEnvelope& envelope) {
  Json json = Json::Object();
  json.Set("kind", CollectiveName(kind));
  json.Set("gpus", gpus);
  json.Set("busbw_bytes_per_s", envelope.busbw_bytes_per_s);
  Json lines = Json::Array();
  for (const EnvelopeLine& line : envelope.lines) {
    Json entry = Json::Object();
    entry.Set("latency_s", line.latency_s);
    entry.Set("bytes_per_s", line.bytes_per_s);
    lines.Append(std::move(entry));
  }
  json.Set("lines", std::move(lines));
  json.Set("quality", WriteQuality(envelope.quality));
  return json;
}

DeviceFacts ReadDevice(ObjectReader reader) {
  DeviceFacts device;
  device.name = reader.String("name");
  device.memory_bytes = reader.Number("memory_bytes", 1e6, kMax);
  device.memory_bandwidth_bytes_per_s = reader.Number("memory_bandwidth_bytes_per_s", 1e6, kMax);
  device.peak_bf16_flops = reader.Number("peak_bf16_flops_per_s", 1e6, kMax);
  device.peak_fp8_flops = reader.Number("peak_fp8_flops_per_s", 0, kMax);
  device.sm_count = static_cast<int>(reader.Integer("sm_count", 1, 100000));
  device.compute_capability = reader.Number("compute_capability", 0, 100);
  device.source = reader.String("source");
  reader.Finish();
  return device;
}

Json WriteDevice(const DeviceFacts& device) {
  Json json = Json::Object();
  json.Set("name", device.name);
  json.Set("memory_bytes", device.memory_bytes);
  json.Set("memory_bandwidth_bytes_per_s", device.memory_bandwidth_bytes_per_s);
  json.Set("peak_bf16_flops_per_s", device.peak_bf16_flops);
  json.Set("peak_fp8_flops_per_s", device.peak_fp8_flops);
  json.Set("sm_count", device.sm_count);
  json.Set("compute_capability", device.compute_capability);
  json.Set("source", device.source);
  return json;
}

}  // namespace

Profile ReadProfile(const JsonDocument& document) {
  ObjectReader root(document, document.root, "");
  const std::string schema = root.String("schema");
  if (schema != kSchema) {
    root.Fail(801, "schema", "this is '" + schema + "', not a profile",
              "a profile says \"schema\": \"" + std::string(kSchema) + "\"");
  }
  Profile profile;
  profile.name = root.String("name");
  profile.description = root.String("description");
  profile.provenance = ReadProvenance(&root);
  profile.error_band = root.Number("error_band", 0, 1);
  profile.error_band_source = root.String("error_band_source");
  profile.device = ReadDevice(root.Object("device"));
  ObjectReader sustained = root.Object("sustained");
  profile.sustained_factor = sustained.Number("factor", 0.1, 100);
  profile.sustained_source = sustained.String("source");
  sustained.Finish();
  ObjectReader launch = root.Object("launch");
  profile.launch_gap_s = launch.Number("gap_s", 0, 1);
  profile.launch_gap_source = launch.String("source");
  launch.Finish();
  ObjectReader memory = root.Object("memory_bound");
  profile.memory_bound_t0_s = memory.Number("t0_s", 0, 1);
  profile.memory_bound_efficiency = memory.Number("efficiency", 1e-3, 1);
  profile.memory_bound_source = memory.String("source");
  memory.Finish();
  ObjectReader gemm = root.Object("gemm");
  for (const DType dtype : kDTypes) {
    if (auto model = gemm.ObjectIf(DTypeName(dtype))) profile.gemm[dtype] = ReadGemm(*model);
  }
  gemm.Finish();
  if (!profile.Supports(DType::kBf16)) {
    root.Fail(802, "gemm", "a profile without a bf16 GEMM",
              "every other type is judged by it: add \"bf16\"");
  }
  profile.attention = ReadAttention(root.Object("attention"));
  profile.decode = ReadDecode(root.Object("decode"));
  root.Value("collectives");  // may be empty, not absent: nothing measured is a statement too
  for (const ObjectReader& collective : root.Objects("collectives")) {
    ReadCollective(collective, &profile);
  }
  root.Finish();
  return profile;
}

Json WriteProfile(const Profile& profile) {
  Json json = Json::Object();
  json.Set("schema", kSchema);
  json.Set("name", profile.name);
  json.Set("description", profile.description);
  json.Set("provenance", ProvenanceName(profile.provenance));
  json.Set("error_band", profile.error_band);
  json.Set("error_band_source", profile.error_band_source);
  json.Set("device", WriteDevice(profile.device));
  Json& sustained = json.Set("sustained", Json::Object());
  sustained.Set("factor", profile.sustained_factor);
  sustained.Set("source", profile.sustained_source);
  Json& launch = json.Set("launch", Json::Object());
  launch.Set("gap_s", profile.launch_gap_s);
  launch.Set("source", profile.launch_gap_source);
  Json& memory = json.Set("memory_bound", Json::Object());
  memory.Set("t0_s", profile.memory_bound_t0_s);
  memory.Set("efficiency", profile.memory_bound_efficiency);
  memory.Set("source", profile.memory_bound_source);
  Json& gemm = json.Set("gemm", Json::Object());
  for (const auto& [dtype, model] : profile.gemm) gemm.Set(DTypeName(dtype), WriteGemm(model));
  json.Set("attention", WriteAttention(profile.attention));
  json.Set("decode", WriteDecode(profile.decode));
  Json& collectives = json.Set("collectives", Json::Array());
  for (const auto& [key, envelope] : profile.collectives) {
    collectives.Append(WriteCollective(key.first, key.second, envelope));
  }
  return json;
}

}  // namespace aurum
