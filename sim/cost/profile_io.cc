#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/diagnostic.h"
#include "sim/core/object_reader.h"
#include "sim/cost/exact.h"
#include "sim/cost/kernel_io.h"
#include "sim/cost/profile.h"

// The file format "aurum.profile/1": one JSON object whose keys carry their units. An unknown key is
// an error, so a misspelled one can only be an error; what may be left out (ranges, power, the terms
// of one form of GEMM) then is not there. Numbers are written in the shortest form that
// reads back the same.

namespace aurum {
namespace {

constexpr const char* kProfileSchema = "aurum.profile/1";
constexpr double kMax = 1e30;
constexpr double kTiny = 1e-12;
constexpr std::int64_t kMany = std::int64_t{1} << 30;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

const std::vector<DType> kDTypes = {DType::kBf16,     DType::kFp16,  DType::kFp8,
                                    DType::kFp8Block, DType::kNvfp4, DType::kFp32};
const std::vector<CollectiveKind> kCollectiveKinds = {
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
  names.reserve(kCollectiveKinds.size());
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(CollectiveName(kind));
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

SizeRange ReadRange(ObjectReader reader) {
  SizeRange range;
  range.low = reader.Number("low", 0, kMax);
  range.high = reader.Number("high", kTiny, kMax);
  if (range.low > range.high) {
    reader.Fail(802, "low", "a range whose low end lies above its high end", "exchange the two");
  }
  reader.Finish();
  return range;
}

// "range": {key: {low, high}, …}; each may be missing.
void ReadRanges(ObjectReader* reader,
                std::initializer_list<std::pair<const char*, SizeRange*>> ranges) {
  auto object = reader->ObjectIf("range");
  if (!object) return;
  for (const auto& [key, range] : ranges) {
    if (auto one = object->ObjectIf(key)) *range = ReadRange(*one);
  }
  object->Finish();
}

void WriteRanges(std::initializer_list<std::pair<const char*, const SizeRange*>> ranges,
                 Json* json) {
  Json object = Json::Object();
  bool any = false;
  for (const auto& [key, range] : ranges) {
    if (range->high == 0) continue;
    any = true;
    Json one = Json::Object();
    one.Set("low", range->low);
    one.Set("high", range->high);
    object.Set(key, std::move(one));
  }
  if (any) json->Set("range", std::move(object));
}

GemmModel ReadGemm(ObjectReader reader) {
  const std::vector<std::string> forms = {"roofline", "k_saturation", "p_norm", "tile", "split_k"};
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
  model.m_half = reader.NumberOr("m_half", 0, 0, 1e6);
  model.n_half = reader.NumberOr("n_half", 0, 0, 1e6);
  const std::vector<std::string> norms = {"max", "2", "4"};
  model.norm = 2 * static_cast<int>(reader.ChoiceOr("norm", 0, norms));
  model.most_splits = static_cast<int>(reader.IntegerOr("most_splits", 1, 1, 64));
  model.split_overhead_s = reader.NumberOr("split_overhead_s", 0, 0, 1);
  if (auto settling = reader.ObjectIf("settling")) {
    model.settling_slowdown = settling->Number("slowdown", 0, 10);
    model.settling_s = settling->Number("half_s", kTiny, 1000);
    settling->Finish();
  }
  if (auto roles = reader.ObjectIf("roles")) {
    model.input_gradient_factor = roles->Number("input_gradient_factor", 0.01, 100);
    model.weight_gradient_factor = roles->Number("weight_gradient_factor", 0.01, 100);
    roles->Finish();
  }
  ReadRanges(&reader, {{"m", &model.m}, {"n", &model.n}, {"k", &model.k}});
  const bool tiled = model.form == "tile" || model.form == "split_k";
  if (tiled != !model.tiles.empty()) {
    reader.Fail(802, "tiles",
                model.tiles.empty() ? "form '" + model.form + "' without tiles"
                                    : "tiles, but the form is '" + model.form + "'",
                "'tile' and 'split_k' models list their tiles, the other forms have an empty list");
  }
  if (model.form == "roofline" && model.k_half != 0) {
    reader.Fail(802, "k_half", "form 'roofline' with a k_half",
                "k_half belongs to the other forms");
  }
  for (const auto& [key, half] : {std::pair{"m_half", model.m_half}, {"n_half", model.n_half}}) {
    if (model.form == "p_norm" || half == 0) continue;
    reader.Fail(802, key, "form '" + model.form + "' with " + key, "it belongs to 'p_norm'");
  }
  if ((model.form == "split_k") != (model.most_splits > 1)) {
    reader.Fail(802, "most_splits",
                "form '" + model.form + "' with most_splits " + std::to_string(model.most_splits),
                "'split_k' splits into 2 parts or more, the other forms do not");
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
  if (model.form == "p_norm") {
    json.Set("m_half", model.m_half);
    json.Set("n_half", model.n_half);
  }
  if (model.norm != 0) json.Set("norm", std::to_string(model.norm));
  if (model.most_splits > 1) {
    json.Set("most_splits", model.most_splits);
    json.Set("split_overhead_s", model.split_overhead_s);
  }
  if (model.settling_slowdown > 0) {
    Json& settling = json.Set("settling", Json::Object());
    settling.Set("slowdown", model.settling_slowdown);
    settling.Set("half_s", model.settling_s);
  }
  if (model.input_gradient_factor != 1 || model.weight_gradient_factor != 1) {
    Json& roles = json.Set("roles", Json::Object());
    roles.Set("input_gradient_factor", model.input_gradient_factor);
    roles.Set("weight_gradient_factor", model.weight_gradient_factor);
  }
  WriteRanges({{"m", &model.m}, {"n", &model.n}, {"k", &model.k}}, &json);
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
  ReadRanges(&reader, {{"length_tokens", &model.length}, {"calls", &model.calls}});
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
  WriteRanges({{"length_tokens", &model.length}, {"calls", &model.calls}}, &json);
  json.Set("quality", WriteQuality(model.quality));
  return json;
}

DecodeModel ReadDecode(ObjectReader reader) {
  DecodeModel model;
  model.t0_s = reader.Number("t0_s", 0, 1);
  model.row_tokens = reader.Number("row_tokens", 0, 1e6);
  model.bandwidth_bytes_per_s = reader.Number("bandwidth_bytes_per_s", 1, kMax);
  ReadRanges(&reader, {{"length_tokens", &model.length}, {"calls", &model.calls}});
  model.quality = ReadQuality(reader.Object("quality"));
  reader.Finish();
  return model;
}

Json WriteDecode(const DecodeModel& model) {
  Json json = Json::Object();
  json.Set("t0_s", model.t0_s);
  json.Set("row_tokens", model.row_tokens);
  json.Set("bandwidth_bytes_per_s", model.bandwidth_bytes_per_s);
  WriteRanges({{"length_tokens", &model.length}, {"calls", &model.calls}}, &json);
  json.Set("quality", WriteQuality(model.quality));
  return json;
}

void ReadCollective(ObjectReader reader, Profile* profile) {
  const CollectiveKind kind = kCollectiveKinds[reader.Choice("kind", KindNames())];
  const int gpus = static_cast<int>(reader.Integer("gpus", 2, 1 << 24));
  CollectiveEnvelope envelope;
  envelope.busbw_bytes_per_s = reader.Number("busbw_bytes_per_s", 1, kMax);
  envelope.own_links = reader.BoolOr("own_links", false);
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
  ReadRanges(&reader, {{"bytes", &envelope.bytes}});
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
  if (envelope.own_links) json.Set("own_links", true);
  Json lines = Json::Array();
  for (const EnvelopeLine& line : envelope.lines) {
    Json entry = Json::Object();
    entry.Set("latency_s", line.latency_s);
    entry.Set("bytes_per_s", line.bytes_per_s);
    lines.Append(std::move(entry));
  }
  json.Set("lines", std::move(lines));
  WriteRanges({{"bytes", &envelope.bytes}}, &json);
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

// "exact": {"provenance", "source", "kernels": [{"kernel", "seconds", "spread", "samples"}]}
ExactKernels ReadExact(ObjectReader reader) {
  const Provenance provenance = ReadProvenance(&reader);
  const std::string source = reader.String("source");
  std::vector<ExactKernels::Entry> entries;
  std::vector<Kernel> seen;
  for (ObjectReader& row : reader.Objects("kernels")) {
    ExactKernels::Entry entry;
    entry.kernel = ReadKernel(row.Object("kernel"));
    entry.seconds = row.Number("seconds", kTiny, 1e6);
    entry.spread = row.Number("spread", 0, 1e6);
    entry.samples = static_cast<int>(row.Integer("samples", 1, kMany));
    if (entry.kernel != ExactKey(entry.kernel) || entry.kernel.kind == KernelKind::kHost) {
      row.Fail(802, "kernel", "an exact kernel in sizes that nothing can run",
               "whole sizes of a kernel on the device");
    }
    if (std::find(seen.begin(), seen.end(), entry.kernel) != seen.end()) {
      row.Fail(802, "kernel", Describe(entry.kernel) + " is given twice", "remove one of the two");
    }
    seen.push_back(entry.kernel);
    row.Finish();
    entries.push_back(entry);
  }
  if (entries.empty()) {
    reader.Fail(802, "kernels", "exact kernels without one", "remove \"exact\"");
  }
  reader.Finish();
  return {std::move(entries), provenance, source};
}

Json WriteExact(const ExactKernels& exact) {
  Json json = Json::Object();
  json.Set("provenance", ProvenanceName(exact.provenance()));
  json.Set("source", exact.source());
  Json& kernels = json.Set("kernels", Json::Array());
  for (const ExactKernels::Entry& entry : exact.entries()) {
    Json& row = kernels.Append(Json::Object());
    row.Set("kernel", WriteKernel(entry.kernel));
    row.Set("seconds", entry.seconds);
    row.Set("spread", entry.spread);
    row.Set("samples", entry.samples);
  }
  return json;
}

}  // namespace

Profile ReadProfile(const JsonDocument& document) {
  ObjectReader root(document, document.root, "");
  const std::string schema = root.String("schema");
  if (schema != kProfileSchema) {
    root.Fail(801, "schema", "this is '" + schema + "', not a profile",
              "a profile says \"schema\": \"" + std::string(kProfileSchema) + "\"");
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
  profile.sustained_fp8_factor =
      sustained.NumberOr("fp8_factor", profile.sustained_factor, 0.1, 100);
  profile.sustained_source = sustained.String("source");
  if (sustained.Has("power_limit_w") || sustained.Has("idle_power_w")) {
    profile.power_limit_w = sustained.Number("power_limit_w", 1, 1e5);
    profile.idle_power_w = sustained.Number("idle_power_w", 0, 1e5);
    profile.power_source = sustained.String("power_source");
    if (profile.idle_power_w >= profile.power_limit_w) {
      sustained.Fail(802, "idle_power_w", "a card that draws its power limit at idle",
                     "idle_power_w must lie below power_limit_w");
    }
  }
  sustained.Finish();
  if (auto measured = root.ObjectIf("measured_rate")) {
    profile.measured_rate.factor = measured->Number("factor", 0.01, 100);
    profile.measured_rate.low = measured->Number("low", 0.01, 100);
    profile.measured_rate.high = measured->Number("high", 0.01, 100);
    profile.measured_rate.rows = static_cast<int>(measured->Integer("rows", 1, kMany));
    profile.measured_rate.source = measured->String("source");
    measured->Finish();
  }
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
  if (auto unaligned = gemm.ObjectIf("unaligned")) {
    profile.unaligned_factor = unaligned->Number("factor", 1, 100);
    profile.alignment = static_cast<double>(unaligned->Integer("multiple_of", 1, 4096));
    profile.unaligned_source = unaligned->String("source");
    unaligned->Finish();
  }
  gemm.Finish();
  if (profile.gemm.empty()) {
    root.Fail(802, "gemm", "a profile without a GEMM of any type",
              "matrix products are what training consists of: add \"bf16\"");
  }
  if (auto attention = root.ObjectIf("attention")) profile.attention = ReadAttention(*attention);
  if (auto decode = root.ObjectIf("decode")) profile.decode = ReadDecode(*decode);
  root.Value("collectives");  // may be empty, not absent: nothing measured is a statement too
  for (const ObjectReader& collective : root.Objects("collectives")) {
    ReadCollective(collective, &profile);
  }
  if (auto exact = root.ObjectIf("exact")) {
    profile.exact = std::make_shared<const ExactKernels>(ReadExact(*exact));
  }
  root.Finish();
  return profile;
}

Json WriteProfile(const Profile& profile) {
  Json json = Json::Object();
  json.Set("schema", kProfileSchema);
  json.Set("name", profile.name);
  json.Set("description", profile.description);
  json.Set("provenance", ProvenanceName(profile.provenance));
  json.Set("error_band", profile.error_band);
  json.Set("error_band_source", profile.error_band_source);
  json.Set("device", WriteDevice(profile.device));
  Json& sustained = json.Set("sustained", Json::Object());
  sustained.Set("factor", profile.sustained_factor);
  sustained.Set("fp8_factor", profile.sustained_fp8_factor);
  sustained.Set("source", profile.sustained_source);
  if (profile.power_limit_w > 0) {
    sustained.Set("power_limit_w", profile.power_limit_w);
    sustained.Set("idle_power_w", profile.idle_power_w);
    sustained.Set("power_source", profile.power_source);
  }
  if (profile.measured_rate.rows > 0) {
    Json& measured = json.Set("measured_rate", Json::Object());
    measured.Set("factor", profile.measured_rate.factor);
    measured.Set("low", profile.measured_rate.low);
    measured.Set("high", profile.measured_rate.high);
    measured.Set("rows", profile.measured_rate.rows);
    measured.Set("source", profile.measured_rate.source);
  }
  Json& launch = json.Set("launch", Json::Object());
  launch.Set("gap_s", profile.launch_gap_s);
  launch.Set("source", profile.launch_gap_source);
  Json& memory = json.Set("memory_bound", Json::Object());
  memory.Set("t0_s", profile.memory_bound_t0_s);
  memory.Set("efficiency", profile.memory_bound_efficiency);
  memory.Set("source", profile.memory_bound_source);
  Json& gemm = json.Set("gemm", Json::Object());
  if (profile.unaligned_factor != 1) {
    Json& unaligned = gemm.Set("unaligned", Json::Object());
    unaligned.Set("factor", profile.unaligned_factor);
    unaligned.Set("multiple_of", profile.alignment);
    unaligned.Set("source", profile.unaligned_source);
  }
  for (const auto& [dtype, model] : profile.gemm) gemm.Set(DTypeName(dtype), WriteGemm(model));
  if (!profile.attention.per_head_dim.empty()) {
    json.Set("attention", WriteAttention(profile.attention));
  }
  if (profile.decode.bandwidth_bytes_per_s > 0) json.Set("decode", WriteDecode(profile.decode));
  Json& collectives = json.Set("collectives", Json::Array());
  for (const auto& [key, envelope] : profile.collectives) {
    collectives.Append(WriteCollective(key.first, key.second, envelope));
  }
  if (profile.exact) json.Set("exact", WriteExact(*profile.exact));
  return json;
}

}  // namespace aurum
