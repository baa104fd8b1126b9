// aurum topology CLUSTER --expect: what nccl-tests should show, alone or beside what it did show.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "reports/text.h"
#include "sim/collectives/health.h"
#include "sim/core/text_file.h"
#include "sim/core/units.h"

namespace aurum {
namespace {

const std::vector<CollectiveKind> kKinds = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
    CollectiveKind::kAllToAll,  CollectiveKind::kBroadcast, CollectiveKind::kSendRecv};
constexpr double kMostBytes = 1024 * kGiB;

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const CollectiveKind kind : kKinds) names.push_back(CollectiveName(kind));
  return names;
}

std::vector<CollectiveKind> KindsOf(const std::string& name) {
  if (name == "all") return kKinds;
  if (const auto kind = CollectiveByTestName(name)) return {*kind};
  std::vector<std::string> names = KindNames();
  names.emplace_back("all");
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
  const std::string nearest = NearestName(name, names);
  ThrowInput(574, "--op " + name + " is no collective",
             nearest.empty() ? "one of: " + known : "did you mean '" + nearest + "'?",
             ExitCode::kUsage);
}

// "1M,64M,1G": bytes, or KiB, MiB, GiB as nccl-tests takes them.
std::vector<double> SizesOf(const std::string& list) {
  if (list.empty()) return {kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB, kGiB, 8 * kGiB};
  std::vector<double> sizes;
  std::size_t at = 0;
  while (at <= list.size()) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string word = list.substr(at, end - at);
    char* rest = nullptr;
    double bytes = std::strtod(word.c_str(), &rest);
    std::string unit = rest;
    for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (unit == "K" || unit == "KB" || unit == "KIB") {
      bytes *= 1024;
    } else if (unit == "M" || unit == "MB" || unit == "MIB") {
      bytes *= kMiB;
    } else if (unit == "G" || unit == "GB" || unit == "GIB") {
      bytes *= kGiB;
    } else if (!unit.empty() && unit != "B") {
      bytes = -1;
    }
    if (rest == word.c_str() || !std::isfinite(bytes) || bytes < 1 || bytes > kMostBytes) {
      ThrowInput(575, "--sizes: '" + word + "' is no size of a message",
                 "bytes from 1 to 1024G, as 1M,64M,1G (powers of 1024)", ExitCode::kUsage);
    }
    sizes.push_back(std::floor(bytes));
    at = end + 1;
  }
  return sizes;
}

void CheckGpus(int gpus, const Cluster& cluster, const std::string& who) {
  if (gpus >= 2 && gpus <= cluster.GpuCount()) return;
  ThrowInput(573,
             fmt::format("{} {} GPUs, and {} has {}", who, gpus, cluster.name, cluster.GpuCount()),
             cluster.GpuCount() < 2
                 ? "a cluster of two GPUs or more"
                 : fmt::format("--gpus from 2 to {}, or a larger cluster, e.g. a size of a family "
                               "(aurum list clusters)",
                               cluster.GpuCount()),
             ExitCode::kUsage);
}

// 2, 4, 8, … and all.
std::vector<int> GpusOf(int gpus, const Cluster& cluster) {
  if (gpus > 0 || cluster.GpuCount() < 2) {
    CheckGpus(gpus > 0 ? gpus : 2, cluster, "--gpus asks for");
    return {gpus};
  }
  std::vector<int> all;
  for (int n = 2; n < cluster.GpuCount(); n *= 2) all.push_back(n);
  all.push_back(cluster.GpuCount());
  return all;
}

std::string Rate(double bytes_per_s) {
  const double gb = bytes_per_s / 1e9;
  return gb < 10 ? fmt::format("{:.2f}", gb) : fmt::format("{:.1f}", gb);
}

// As nccl-tests' -b and -e take it.
std::string Size(double bytes) {
  if (bytes >= kGiB && std::fmod(bytes, kGiB) == 0) return fmt::format("{:.0f}G", bytes / kGiB);
  if (bytes >= kMiB && std::fmod(bytes, kMiB) == 0) return fmt::format("{:.0f}M", bytes / kMiB);
  if (bytes >= 1024 && std::fmod(bytes, 1024) == 0) return fmt::format("{:.0f}K", bytes / 1024);
  return fmt::format("{:.0f}", bytes);
}

std::string HowOf(const Expectation& at) {
  return at.algorithm + (at.protocol.empty() ? "" : "/" + at.protocol);
}

Json ExpectationJson(const Expectation& at) {
  Json out = Json::Object();
  out.Set("size_bytes", at.bytes);
  out.Set("time_s", at.seconds);
  out.Set("algbw_bytes_per_s", at.algbw_bytes_per_s);
  out.Set("busbw_bytes_per_s", at.busbw_bytes_per_s);
  out.Set("busbw_low_bytes_per_s", at.busbw_low_bytes_per_s);
  out.Set("busbw_high_bytes_per_s", at.busbw_high_bytes_per_s);
  out.Set("algorithm", at.algorithm);
  if (!at.protocol.empty()) out.Set("protocol", at.protocol);
  out.Set("limit", at.limit);
  out.Set("basis", at.basis);
  out.Set("provenance", ProvenanceName(at.provenance));
  return out;
}

Json Head(const Cluster& cluster, const Profile& profile) {
  Json out = Json::Object();
  out.Set("schema", "aurum.expect/1");
  out.Set("tool_version", kToolVersion);
  out.Set("cluster", cluster.name);
  out.Set("profile", profile.name);
  if (cluster.nodes > 1) out.Set("transport", TransportName(cluster.transport));
  return out;
}

bool AsJson(const Options& options) {
  return options.format == Format::kJson || options.format == Format::kJsonLines;
}

void WriteJson(const Options& options, const Json& out) {
  WriteOutput(options, WithRunId(out).Dump(options.format == Format::kJson ? 2 : -1) + "\n");
}

ExitCode ShowExpected(const Options& options, const ExpectCommand& command, const Cluster& cluster,
                      const Profile& profile, const ExpectOptions& pricing) {
  const std::vector<double> sizes = SizesOf(command.sizes);
  Json all = Json::Array();
  Table table({"collective", "GPUs", "size", "time", "algbw GB/s", "busbw GB/s", "healthy from",
               "to", "algorithm", "limited by", "basis"},
              "<>>>>>>><<<");
  for (const CollectiveKind kind : KindsOf(command.op.empty() ? "all_reduce" : command.op)) {
    for (const int gpus : GpusOf(command.gpus, cluster)) {
      Json item = Json::Object();
      item.Set("collective", CollectiveName(kind));
      item.Set("gpus", gpus);
      Json rows = Json::Array();
      for (const Expectation& at : Expect(kind, gpus, sizes, cluster, profile, pricing)) {
        rows.Append(ExpectationJson(at));
        table.Row({CollectiveName(kind), std::to_string(gpus), Size(at.bytes),
                   ShowSeconds(at.seconds), Rate(at.algbw_bytes_per_s), Rate(at.busbw_bytes_per_s),
                   Rate(at.busbw_low_bytes_per_s), Rate(at.busbw_high_bytes_per_s), HowOf(at),
                   at.limit, at.basis});
      }
      item.Set("sizes", std::move(rows));
      all.Append(std::move(item));
    }
  }
  if (AsJson(options)) {
    Json out = Head(cluster, profile);
    out.Set("expected", std::move(all));
    WriteJson(options, out);
  } else {
    WriteOutput(options, table.As(options.format));
  }
  return ExitCode::kOk;
}

CollectiveKind KindOfRun(const ExpectCommand& command, const NcclTestRun& run) {
  if (!command.op.empty()) {
    const std::vector<CollectiveKind> kinds = KindsOf(command.op);
    if (kinds.size() == 1) return kinds.front();
  }
  if (run.kind) return *run.kind;
  ThrowInput(572, command.measured + " does not tell which collective it measured",
             "--op all_gather, reduce_scatter, …: what the program's name says", ExitCode::kUsage);
}

int GpusOfRun(const ExpectCommand& command, const NcclTestRun& run, CollectiveKind kind,
              const Cluster& cluster) {
  int gpus = command.gpus > 0 ? command.gpus : run.gpus;
  if (gpus == 0) gpus = GpusByRatio(kind, run);
  if (gpus == 0) gpus = cluster.GpuCount();
  CheckGpus(gpus, cluster, command.gpus > 0 ? "--gpus asks for" : command.measured + " is of");
  return gpus;
}

std::string Sentence(const Health& health, const Cluster& cluster) {
  std::string text = fmt::format("{} on {} GPUs of {}: {}", CollectiveName(health.kind),
                                 health.gpus, cluster.name, VerdictName(health.verdict));
  if (health.verdict == HealthVerdict::kHealthy)
    text += fmt::format(", {} of the expected busbw", PercentText(health.share, 0));
  else
    text += fmt::format(" by {}", PercentText(std::abs(1 - health.share), 0));
  if (health.below_from_bytes > 0) {
    const std::string from = Size(health.below_from_bytes), to = Size(health.below_to_bytes);
    text += from == to ? fmt::format(" (below at {})", from)
                       : fmt::format(" (below from {} to {})", from, to);
  }
  return text;
}

ExitCode ShowMeasured(const Options& options, const ExpectCommand& command, const Cluster& cluster,
                      const Profile& profile, const ExpectOptions& pricing) {
  const std::vector<NcclTestRun> runs =
      ReadNcclTests(command.measured, ReadTextFile(command.measured));
  Json all = Json::Array();
  Table table({"collective", "GPUs", "size", "expected GB/s", "healthy from", "to", "measured GB/s",
               "share", "verdict", "algorithm", "limited by"},
              "<>>>>>>><<<");
  std::string told;
  ExitCode code = ExitCode::kOk;
  for (const NcclTestRun& run : runs) {
    const CollectiveKind kind = KindOfRun(command, run);
    const int gpus = GpusOfRun(command, run, kind, cluster);
    const Health health = Examine(run, kind, gpus, cluster, profile, pricing);
    Json item = Json::Object();
    item.Set("collective", CollectiveName(kind));
    item.Set("gpus", gpus);
    item.Set("verdict", VerdictName(health.verdict));
    item.Set("share_of_expected", health.share);
    if (health.below_from_bytes > 0) {
      item.Set("below_from_bytes", health.below_from_bytes);
      item.Set("below_to_bytes", health.below_to_bytes);
    }
    Json causes = Json::Array();
    for (const std::string& cause : health.causes) causes.Append(cause);
    item.Set("likely_causes", std::move(causes));
    item.Set("results_wrong", health.wrong);
    Json rows = Json::Array();
    for (const SizeHealth& size : health.sizes) {
      Json row = ExpectationJson(size.expected);
      row.Set("measured_busbw_bytes_per_s", size.measured_busbw_bytes_per_s);
      row.Set("share_of_expected", size.share);
      row.Set("verdict", VerdictName(size.verdict));
      rows.Append(std::move(row));
      table.Row({CollectiveName(kind), std::to_string(gpus), Size(size.expected.bytes),
                 Rate(size.expected.busbw_bytes_per_s), Rate(size.expected.busbw_low_bytes_per_s),
                 Rate(size.expected.busbw_high_bytes_per_s), Rate(size.measured_busbw_bytes_per_s),
                 PercentText(size.share, 0),
                 size.wrong ? "WRONG RESULTS" : VerdictName(size.verdict), HowOf(size.expected),
                 size.expected.limit});
    }
    item.Set("sizes", std::move(rows));
    all.Append(std::move(item));
    told += (told.empty() ? "" : "\n") + Sentence(health, cluster) + "\n";
    for (const std::string& cause : health.causes) told += "  likely: " + cause + "\n";
    if (health.wrong)
      told += "  the test itself found wrong results: hardware or driver at fault\n";
    if (health.verdict == HealthVerdict::kBelow || health.wrong) code = ExitCode::kOutsideTolerance;
  }
  if (AsJson(options)) {
    Json out = Head(cluster, profile);
    out.Set("measured", std::move(all));
    WriteJson(options, out);
  } else if (options.format == Format::kCsv) {
    WriteOutput(options, table.Csv());
  } else {
    WriteOutput(options, table.As(options.format) + "\n" + told);
  }
  return code;
}

}  // namespace

ExitCode ExpectTopologyCommand(const Options& options, const std::string& name,
                               const ExpectCommand& command) {
  JsonDocument document = OpenCluster(name, options.data_root);
  for (const std::string& assignment : options.set) ApplyOverride(&document, assignment);
  const Cluster cluster = ReadCluster(document);
  const Profile profile =
      ReadProfile(OpenProfile(options.profile.value_or(cluster.gpu.profile), options.data_root));
  ExpectOptions pricing;
  pricing.nvls = !command.no_nvls;
  return command.measured.empty() ? ShowExpected(options, command, cluster, profile, pricing)
                                  : ShowMeasured(options, command, cluster, profile, pricing);
}

}  // namespace aurum
