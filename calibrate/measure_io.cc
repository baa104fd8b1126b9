#include "calibrate/measure.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "sim/core/object_reader.h"
#include "sim/cost/kernel_io.h"

// "aurum.measurements/1" and "aurum.measurement-plan/1". An item writes what its kind needs, and
// reading asks for exactly that, so that a row which contradicts itself is an unknown or a missing
// key.

namespace aurum {
namespace {

constexpr const char* kSchema = "aurum.measurements/1";
constexpr const char* kPlanSchema = "aurum.measurement-plan/1";
constexpr double kMost = 1e30;
constexpr double kLongest = 1e6;  // seconds
constexpr double kShortest = 1e-12;

const std::vector<std::string> kKinds = {"kernel",     "launch_gap", "copy",
                                         "collective", "beside",     "burn"};
const std::vector<std::string> kCopies = {"host_to_device", "device_to_host", "peer", "device"};

void WriteItem(const MeasuredItem& item, Json* json) {
  json->Set("what", MeasuredKindName(item.kind));
  switch (item.kind) {
    case MeasuredKind::kKernel:
      json->Set("kernel", WriteKernel(item.kernel));
      if (item.exact) json->Set("exact", true);
      break;
    case MeasuredKind::kLaunchGap:
      json->Set("graph", item.graph);
      break;
    case MeasuredKind::kCopy:
      json->Set("copy", CopyKindName(item.copy));
      json->Set("bytes", item.bytes);
      break;
    case MeasuredKind::kCollective:
      json->Set("collective", CollectiveName(item.collective));
      json->Set("gpus", item.gpus);
      json->Set("bytes", item.bytes);
      json->Set("dtype", DTypeName(item.dtype));
      if (item.exact) json->Set("exact", true);
      break;
    case MeasuredKind::kBeside:
      json->Set("kernel", WriteKernel(item.kernel));
      json->Set("collective", CollectiveName(item.collective));
      json->Set("gpus", item.gpus);
      json->Set("bytes", item.bytes);
      break;
    case MeasuredKind::kBurn:
      json->Set("kernel", WriteKernel(item.kernel));
      json->Set("burn_s", item.burn_s);
      break;
  }
  json->Set("samples", item.samples);
}

MeasuredItem ReadItem(ObjectReader* reader) {
  MeasuredItem item;
  item.kind = static_cast<MeasuredKind>(reader->Choice("what", kKinds));
  const auto collective = [&] {
    item.collective = static_cast<CollectiveKind>(reader->Choice("collective", CollectiveNames()));
    item.gpus = static_cast<int>(reader->Integer("gpus", 2, 1 << 24));
    item.bytes = reader->Number("bytes", 1, kMost);
  };
  switch (item.kind) {
    case MeasuredKind::kKernel:
      item.kernel = ReadKernel(reader->Object("kernel"));
      item.exact = reader->BoolOr("exact", false);
      break;
    case MeasuredKind::kLaunchGap:
      item.graph = reader->Bool("graph");
      break;
    case MeasuredKind::kCopy:
      item.copy = static_cast<CopyKind>(reader->Choice("copy", kCopies));
      item.bytes = reader->Number("bytes", 1, kMost);
      break;
    case MeasuredKind::kCollective:
      collective();
      item.dtype = static_cast<DType>(reader->Choice("dtype", DTypeNames()));
      item.exact = reader->BoolOr("exact", false);
      break;
    case MeasuredKind::kBeside:
      item.kernel = ReadKernel(reader->Object("kernel"));
      collective();
      break;
    case MeasuredKind::kBurn:
      item.kernel = ReadKernel(reader->Object("kernel"));
      item.burn_s = reader->Number("burn_s", kShortest, kLongest);
      break;
  }
  item.samples = static_cast<int>(reader->Integer("samples", 1, 1 << 24));
  if (item.kind == MeasuredKind::kKernel && item.kernel != RoundedUp(item.kernel)) {
    reader->Fail(831, "kernel", "a kernel in sizes that are not whole: nothing can have run it",
                 "the sizes that were run");
  }
  return item;
}

void WriteDevice(const BenchDevice& device, Json* root) {
  Json& json = root->Set("device", Json::Object());
  json.Set("backend", device.backend);
  json.Set("name", device.facts.name);
  json.Set("memory_bytes", device.facts.memory_bytes);
  json.Set("memory_bandwidth_bytes_per_s", device.facts.memory_bandwidth_bytes_per_s);
  json.Set("peak_bf16_flops_per_s", device.facts.peak_bf16_flops);
  json.Set("peak_fp8_flops_per_s", device.facts.peak_fp8_flops);
  json.Set("sm_count", device.facts.sm_count);
  json.Set("compute_capability", device.facts.compute_capability);
  json.Set("source", device.facts.source);
  Json& types = json.Set("dtypes", Json::Array());
  for (const DType dtype : device.dtypes) types.Append(DTypeName(dtype));
  json.Set("devices", device.devices);
  json.Set("power_limit_w", device.power_limit_w);
  Json& versions = json.Set("versions", Json::Array());
  for (const auto& [what, version] : device.versions) {
    Json& one = versions.Append(Json::Object());
    one.Set("what", what);
    one.Set("version", version);
  }
}

BenchDevice ReadDevice(ObjectReader reader) {
  BenchDevice device;
  device.backend = reader.String("backend");
  device.facts.name = reader.String("name");
  device.facts.memory_bytes = reader.Number("memory_bytes", 0, kMost);
  device.facts.memory_bandwidth_bytes_per_s =
      reader.Number("memory_bandwidth_bytes_per_s", 0, kMost);
  device.facts.peak_bf16_flops = reader.Number("peak_bf16_flops_per_s", 0, kMost);
  device.facts.peak_fp8_flops = reader.Number("peak_fp8_flops_per_s", 0, kMost);
  device.facts.sm_count = static_cast<int>(reader.Integer("sm_count", 0, 100000));
  device.facts.compute_capability = reader.Number("compute_capability", 0, 100);
  device.facts.source = reader.String("source");
  reader.Value("dtypes");
  for (const std::string& name : reader.Strings("dtypes")) {
    const auto found = std::find(DTypeNames().begin(), DTypeNames().end(), name);
    if (found == DTypeNames().end()) {
      const std::string nearest = NearestName(name, DTypeNames());
      reader.Fail(108, "dtypes", "'" + name + "' is no type",
                  nearest.empty() ? "bf16, fp16, fp8, fp8_block, nvfp4 or fp32"
                                  : "did you mean '" + nearest + "'?");
    }
    device.dtypes.push_back(static_cast<DType>(found - DTypeNames().begin()));
  }
  device.devices = static_cast<int>(reader.Integer("devices", 1, 1 << 24));
  device.power_limit_w = reader.Number("power_limit_w", 0, 1e5);
  for (ObjectReader& one : reader.Objects("versions")) {
    std::string what = one.String("what");
    std::string version = one.String("version");
    device.versions.emplace_back(std::move(what), std::move(version));
    one.Finish();
  }
  reader.Finish();
  return device;
}

void CheckSchema(ObjectReader* root, const char* wanted, const char* what) {
  const std::string schema = root->String("schema");
  if (schema == wanted) return;
  root->Fail(830, "schema", "this is '" + schema + "', not " + what,
             std::string("they say \"schema\": \"") + wanted + "\"");
}

}  // namespace

Json WriteMeasurements(const Measurements& measurements) {
  Json root = Json::Object();
  root.Set("schema", kSchema);
  WriteDevice(measurements.device, &root);
  root.Set("seed", static_cast<std::int64_t>(measurements.seed));
  root.Set("elapsed_s", measurements.elapsed_s);
  Json& rows = root.Set("rows", Json::Array());
  for (const MeasuredRow& row : measurements.rows) {
    Json& json = rows.Append(Json::Object());
    WriteItem(row.item, &json);
    if (row.item.kind == MeasuredKind::kBurn) {
      json.Set("first_s", row.burn.first_s);
      json.Set("last_s", row.burn.last_s);
      json.Set("clock_first_mhz", row.burn.clock_first_mhz);
      json.Set("clock_last_mhz", row.burn.clock_last_mhz);
    } else {
      json.Set("seconds", Json::Numbers(row.samples.seconds));
      json.Set("disturbed", row.samples.disturbed);
      json.Set("clock_mhz", row.samples.clock_mhz);
    }
    if (!row.source.empty()) json.Set("source", row.source);
  }
  Json& left_out = root.Set("left_out", Json::Array());
  for (const Measurements::LeftOut& left : measurements.left_out) {
    Json& json = left_out.Append(Json::Object());
    WriteItem(left.item, &json);
    json.Set("reason", left.reason);
  }
  return root;
}

Measurements ReadMeasurements(const JsonDocument& document) {
  ObjectReader root(document, document.root, "");
  CheckSchema(&root, kSchema, "measurements");
  Measurements out;
  out.device = ReadDevice(root.Object("device"));
  out.seed = static_cast<std::uint64_t>(root.Integer("seed", 0, INT64_MAX));
  out.elapsed_s = root.Number("elapsed_s", 0, 1e9);
  root.Value("rows");
  for (ObjectReader& reader : root.Objects("rows")) {
    MeasuredRow row;
    row.item = ReadItem(&reader);
    if (row.item.kind == MeasuredKind::kBurn) {
      row.burn.first_s = reader.Number("first_s", kShortest, kLongest);
      row.burn.last_s = reader.Number("last_s", kShortest, kLongest);
      row.burn.clock_first_mhz = reader.NumberOr("clock_first_mhz", 0, 0, 1e6);
      row.burn.clock_last_mhz = reader.NumberOr("clock_last_mhz", 0, 0, 1e6);
    } else {
      row.samples.seconds = reader.Numbers("seconds", kShortest, kLongest);
      if (row.samples.seconds.empty()) {
        reader.Fail(831, "seconds", "a row without a sample",
                    "what could not be measured belongs to \"left_out\"");
      }
      row.samples.disturbed = static_cast<int>(reader.IntegerOr("disturbed", 0, 0, 1 << 24));
      row.samples.clock_mhz = reader.NumberOr("clock_mhz", 0, 0, 1e6);
    }
    row.source = reader.String("source", "");
    reader.Finish();
    out.rows.push_back(std::move(row));
  }
  for (ObjectReader& reader : root.Objects("left_out")) {
    Measurements::LeftOut left;
    left.item = ReadItem(&reader);
    left.reason = reader.String("reason");
    reader.Finish();
    out.left_out.push_back(std::move(left));
  }
  root.Finish();
  return out;
}

Json WriteMeasurementPlan(const MeasurementPlan& plan) {
  Json root = Json::Object();
  root.Set("schema", kPlanSchema);
  root.Set("seed", static_cast<std::int64_t>(plan.seed));
  root.Set("budget_s", plan.budget_s);
  Json& items = root.Set("items", Json::Array());
  for (const MeasuredItem& item : plan.items) WriteItem(item, &items.Append(Json::Object()));
  return root;
}

MeasurementPlan ReadMeasurementPlan(const JsonDocument& document) {
  ObjectReader root(document, document.root, "");
  CheckSchema(&root, kPlanSchema, "a plan of measurements");
  MeasurementPlan plan;
  plan.seed = static_cast<std::uint64_t>(root.Integer("seed", 0, INT64_MAX));
  plan.budget_s = root.Number("budget_s", 0, 1e6);
  for (ObjectReader& reader : root.Objects("items")) {
    plan.items.push_back(ReadItem(&reader));
    reader.Finish();
  }
  root.Finish();
  return plan;
}

}  // namespace aurum
