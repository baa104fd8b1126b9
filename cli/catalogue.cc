// The commands that show and bring in what scenarios name: topology, import, list, version.
#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "models/hf_import.h"
#include "models/reader.h"
#include "real/cpu/cpu_launch.h"
#include "real/device_query.h"
#include "sim/core/text_file.h"
#include "sim/core/units.h"
#include "sim/cost/dtype_table.h"
#include "sim/cost/profile.h"
#include "sim/cost/stack.h"
#include "topologies/cluster.h"
#include "topologies/nccl_topo.h"
#include "topologies/nvidia_smi.h"
#include "topologies/render.h"

namespace aurum {

ExitCode TopologyCommand(const Options& options, const std::string& name,
                         const std::vector<int>& path) {
  JsonDocument document = OpenCluster(name, options.data_root);
  for (const std::string& assignment : options.set) ApplyOverride(&document, assignment);
  const Cluster cluster = ReadCluster(document);
  const bool json = options.format == Format::kJson || options.format == Format::kJsonLines;
  for (const int gpu : path) {
    if (gpu >= 0 && gpu < cluster.GpuCount()) continue;
    ThrowInput(510, "cluster '" + cluster.name + "' has no GPU " + std::to_string(gpu),
               "GPUs are numbered 0 to " + std::to_string(cluster.GpuCount() - 1),
               ExitCode::kUsage);
  }
  if (json) {
    const Json out = path.empty() ? ClusterJson(cluster) : PathJson(cluster, path[0], path[1]);
    WriteOutput(options, out.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
  } else if (path.empty()) {
    const std::string matrix = BandwidthMatrix(cluster);
    WriteOutput(options, DrawCluster(cluster) + (matrix.empty() ? "" : "\n" + matrix));
  } else {
    WriteOutput(options, DescribePath(cluster, path[0], path[1]));
  }
  return ExitCode::kOk;
}

namespace {

void ImportModel(const Options& options, const std::string& file) {
  Model model = ImportHuggingFace(ReadJsonFile(file));
  // A config.json says nothing of its own name: the output file's, else the folder's.
  if (model.name == "config" && !options.output.empty()) {
    model.name = std::filesystem::path(options.output).stem().string();
  }
  Narrate(options, fmt::format("{}: {} parameters in {} modules", model.name,
                               ModelParameters(model), model.modules.size()));
  for (const std::string& line : model.assumed) Narrate(options, "assumed: " + line);
  std::string ignored;
  for (const std::string& line : model.ignored)
    ignored += (ignored.empty() ? "ignored: " : ", ") + line;
  if (!ignored.empty()) Narrate(options, ignored);
  WriteOutput(options, WriteModel(model).Dump(2) + "\n");
}

void ImportTopology(const Options& options, const std::string& kind, const std::string& file,
                    TopologyImportOptions topology) {
  if (topology.name.empty()) {
    const std::filesystem::path named = options.output.empty() || options.output == "-"
                                            ? std::filesystem::path(file)
                                            : std::filesystem::path(options.output);
    topology.name = named.stem().string();
  }
  if (options.profile) topology.profile = *options.profile;
  const TextSource source(file, ReadTextFile(file));
  const ImportedCluster imported = kind == "nccl-topo" ? ImportNcclTopology(source, topology)
                                                       : ImportNvidiaSmi(source, topology);
  PrintWarnings(options, imported.warnings);
  const Cluster cluster = ReadCluster(ParseJson(imported.document.Dump(2), file));
  Narrate(options,
          fmt::format("{}: {} x {} {}, {} NICs a node in use; `aurum topology {}` shows it",
                      cluster.name, cluster.nodes, cluster.gpus_per_node, cluster.gpu.name,
                      cluster.nics_per_node, options.output.empty() ? "FILE" : options.output));
  WriteOutput(options, imported.document.Dump(2) + "\n");
}

}  // namespace

ExitCode ImportCommand(const Options& options, const std::string& kind, const std::string& file,
                       const TopologyImportOptions& topology) {
  if (kind == "hf") {
    ImportModel(options, file);
  } else if (kind == "nccl-topo" || kind == "nvidia-smi") {
    ImportTopology(options, kind, file, topology);
  } else {
    const std::string nearest = NearestName(kind, {"hf", "nccl-topo", "nvidia-smi"});
    ThrowInput(
        2, "unknown kind of import: '" + kind + "'",
        nearest.empty() ? "known: hf, nccl-topo, nvidia-smi" : "did you mean '" + nearest + "'?",
        ExitCode::kUsage);
  }
  return ExitCode::kOk;
}

namespace {

// What every profile multiplies matrices in, and on which units.
ExitCode ListDTypes(const Options& options) {
  Json out = Json::Array();
  Table table({"profile", "dtype", "bytes", "TFLOP/s", "sustained", "over fp32", "units"},
              "<<>>>><");
  for (const std::string& name : ProfileCatalogue(options.data_root)) {
    const Profile profile = ReadProfile(OpenProfile(name, options.data_root));
    Json rows = Json::Array();
    for (const DTypeRow& row : DTypeTable(profile)) {
      if (row.unit == MatrixUnit::kNone) continue;
      table.Row({name, DTypeName(row.dtype), fmt::format("{:.3g}", row.bytes),
                 ShowNumber(row.rate_flops / kTera), ShowNumber(row.sustained_flops / kTera),
                 fmt::format("{:.1f}", row.over_fp32), MatrixUnitName(row.unit)});
      Json entry = Json::Object();
      entry.Set("dtype", DTypeName(row.dtype));
      entry.Set("bytes", row.bytes);
      entry.Set("tflops", row.rate_flops / kTera);
      entry.Set("sustained_tflops", row.sustained_flops / kTera);
      entry.Set("over_fp32", row.over_fp32);
      entry.Set("units", MatrixUnitName(row.unit));
      rows.Append(std::move(entry));
    }
    Json entry = Json::Object();
    entry.Set("profile", name);
    entry.Set("device", profile.device.name);
    entry.Set("provenance", std::string(ProvenanceName(profile.provenance)));
    entry.Set("dtypes", std::move(rows));
    out.Append(std::move(entry));
  }
  Json document = Json::Object();
  document.Set("dtypes", std::move(out));
  const bool json = options.format == Format::kJson || options.format == Format::kJsonLines;
  WriteOutput(options, json ? document.Dump(options.format == Format::kJson ? 2 : -1) + "\n"
                            : table.As(options.format));
  return ExitCode::kOk;
}

}  // namespace

ExitCode ListCommand(const Options& options, const std::string& what) {
  if (what == "dtypes") return ListDTypes(options);
  const std::vector<std::pair<std::string, std::vector<std::string>>> all = {
      {"models", ModelCatalogue(options.data_root)},
      {"clusters", ClusterCatalogue(options.data_root)},
      {"profiles", ProfileCatalogue(options.data_root)},
      {"stacks", StackCatalogue(options.data_root)},
  };
  std::vector<std::string> kinds;
  for (const auto& [kind, names] : all) kinds.push_back(kind);
  if (!what.empty() && std::find(kinds.begin(), kinds.end(), what) == kinds.end()) {
    const std::string nearest = NearestName(what, kinds);
    ThrowInput(2, "nothing to list under '" + what + "'",
               nearest.empty() ? "models, clusters, profiles, stacks or dtypes"
                               : "did you mean '" + nearest + "'?",
               ExitCode::kUsage);
  }
  Json out = Json::Object();
  Table table({"kind", "name"}, "<<");
  for (const auto& [kind, names] : all) {
    if (!what.empty() && what != kind) continue;
    Json array = Json::Array();
    for (const std::string& name : names) {
      array.Append(name);
      table.Row({kind, name});
    }
    out.Set(kind, std::move(array));
  }
  const bool json = options.format == Format::kJson || options.format == Format::kJsonLines;
  WriteOutput(options, json ? out.Dump(options.format == Format::kJson ? 2 : -1) + "\n"
                            : table.As(options.format));
  return ExitCode::kOk;
}

ExitCode VersionCommand(const Options& options) {
  WriteOutput(options, fmt::format("aurum {}\ndevices: {}\ncores: {}\ndata: {}\n", kToolVersion,
                                   AttachedDevices(), DescribeCpuBackend(), options.data_root));
  return ExitCode::kOk;
}

}  // namespace aurum
