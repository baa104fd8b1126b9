// aurum topology CLUSTER --loads FILE: who meets whom on which link.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/commands.h"
#include "cli/io.h"
#include "sim/study/evaluate.h"
#include "sim/study/link_loads.h"
#include "sim/study/traffic.h"

namespace aurum {
namespace {

// What is shown of either kind of document.
struct ShownLoads {
  std::string name, level;
  std::shared_ptr<const Cluster> cluster;
  std::vector<std::string> labels;
  std::vector<TrafficOutcome::Item> items;  // of a traffic document; else empty
  Loads loads;
  double makespan_s = 0;
};

std::string LinkName(const Cluster& cluster, std::uint32_t id) {
  const Link& link = cluster.links()[id];
  return VertexName(cluster.vertices()[static_cast<std::size_t>(link.from)]) + " > " +
         VertexName(cluster.vertices()[static_cast<std::size_t>(link.to)]);
}

// Links between the same kinds of devices that carried the same are one row.
void GroupAlike(const Cluster& cluster, std::vector<LinkLoad>* links) {
  using Key = std::tuple<VertexKind, VertexKind, double, double, double, std::vector<double>>;
  std::map<Key, std::size_t> seen;
  std::vector<LinkLoad> grouped;
  for (LinkLoad& load : *links) {
    const Link& link = cluster.links()[load.link];
    Key key{cluster.vertices()[static_cast<std::size_t>(link.from)].kind,
            cluster.vertices()[static_cast<std::size_t>(link.to)].kind,
            load.capacity_bytes_per_s,
            load.busy_s,
            load.met_s,
            load.bytes_by_label};
    const auto [at, is_new] = seen.try_emplace(std::move(key), grouped.size());
    if (is_new) {
      grouped.push_back(std::move(load));
    } else {
      grouped[at->second].count += load.count;
    }
  }
  *links = std::move(grouped);
}

// The labels with bytes on the link, the most first.
std::string Carried(const LinkLoad& load, const std::vector<std::string>& labels) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (load.bytes_by_label[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return load.bytes_by_label[a] > load.bytes_by_label[b];
  });
  std::string text;
  for (const std::size_t i : order) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", labels[i],
                        ShowPercent(load.bytes_by_label[i] / load.bytes));
  }
  return text;
}

Json LoadsJson(const ShownLoads& shown, std::size_t links_shown) {
  Json out = Json::Object();
  out.Set("schema", "aurum.loads/1");
  out.Set("name", shown.name);
  out.Set("cluster", shown.cluster->name);
  out.Set("level", shown.level);
  out.Set("makespan_s", shown.makespan_s);
  Json transfers = Json::Array();
  for (std::size_t i = 0; i < shown.labels.size(); ++i) {
    const LabelDelay& delay = shown.loads.labels[i];
    Json entry = Json::Object();
    entry.Set("name", shown.labels[i]);
    entry.Set("transfers", static_cast<std::int64_t>(delay.transfers));
    entry.Set("nominal_s", delay.nominal_s);
    entry.Set("actual_s", delay.actual_s);
    entry.Set("worst_factor", delay.worst_factor);
    if (!shown.items.empty()) {
      entry.Set("priced_s", shown.items[i].priced_s);
      entry.Set("alone_s", shown.items[i].alone_s);
      entry.Set("together_s", shown.items[i].together_s);
    }
    transfers.Append(std::move(entry));
  }
  out.Set("transfers", std::move(transfers));
  Json links = Json::Array();
  for (std::size_t i = 0; i < std::min(links_shown, shown.loads.links.size()); ++i) {
    const LinkLoad& load = shown.loads.links[i];
    Json entry = Json::Object();
    entry.Set("link", LinkName(*shown.cluster, load.link));
    entry.Set("kind", std::string(LinkKindName(shown.cluster->links()[load.link].kind)));
    entry.Set("like_it", static_cast<std::int64_t>(load.count));
    entry.Set("capacity_bytes_per_s", load.capacity_bytes_per_s);
    entry.Set("bytes", load.bytes);
    entry.Set("mean_use", load.mean_use);
    entry.Set("busy_s", load.busy_s);
    entry.Set("met_s", load.met_s);
    Json by = Json::Object();
    for (std::size_t k = 0; k < shown.labels.size(); ++k) {
      if (load.bytes_by_label[k] > 0) by.Set(shown.labels[k], load.bytes_by_label[k]);
    }
    entry.Set("bytes_by_transfer", std::move(by));
    links.Append(std::move(entry));
  }
  out.Set("links", std::move(links));
  out.Set("kinds_of_links", static_cast<std::int64_t>(shown.loads.links.size()));
  return out;
}

std::string LoadsText(const ShownLoads& shown, std::size_t links_shown, Format format) {
  std::string out;
  if (format != Format::kCsv) {
    out +=
        fmt::format("{}{}, level {}: {} in all\n\n", shown.name.empty() ? "" : shown.name + " on ",
                    shown.cluster->name, shown.level, ShowSeconds(shown.makespan_s));
  }
  if (!shown.items.empty()) {
    Table table({"transfer", "priced", "alone", "with the others", "slowed"}, "<>>>>");
    for (std::size_t i = 0; i < shown.items.size(); ++i) {
      const TrafficOutcome::Item& item = shown.items[i];
      table.Row({shown.labels[i], ShowSeconds(item.priced_s), ShowSeconds(item.alone_s),
                 ShowSeconds(item.together_s),
                 item.alone_s > 0 ? fmt::format("{:.2f} x", item.together_s / item.alone_s) : "-"});
    }
    out += table.As(format) + "\n";
  } else {
    Table table({"transfers", "number", "alone, mean", "as it was, mean", "worst"}, "<>>>>");
    for (std::size_t i = 0; i < shown.labels.size(); ++i) {
      const LabelDelay& delay = shown.loads.labels[i];
      if (delay.transfers == 0) continue;
      table.Row({shown.labels[i], std::to_string(delay.transfers), ShowSeconds(delay.nominal_s),
                 ShowSeconds(delay.actual_s), fmt::format("{:.2f} x", delay.worst_factor)});
    }
    out += table.As(format) + "\n";
  }
  Table links({"link", "like it", "rate", "carried", "mean use", "busy", "shared", "whose"},
              "<>>>>>><");
  for (std::size_t i = 0; i < std::min(links_shown, shown.loads.links.size()); ++i) {
    const LinkLoad& load = shown.loads.links[i];
    links.Row({LinkName(*shown.cluster, load.link), std::to_string(load.count),
               ShowRate(load.capacity_bytes_per_s), ShowBytes(load.bytes),
               ShowPercent(load.mean_use), ShowSeconds(load.busy_s), ShowSeconds(load.met_s),
               Carried(load, shown.labels)});
  }
  out += links.As(format);
  if (format != Format::kCsv && links_shown < shown.loads.links.size()) {
    out += fmt::format("{} more kinds of links; --links N shows N\n",
                       shown.loads.links.size() - links_shown);
  }
  return out;
}

ShownLoads ShowScenario(const Options& options, const JsonDocument& document, InputCache* cache) {
  const Level level = options.level == Level::kAnalytic ? Level::kAuto : options.level;
  const Evaluation e = Evaluate(ReadScenario(document, cache), level, options.fold);
  PrintWarnings(options, e.scenario.warnings);
  ShownLoads shown;
  shown.name = e.scenario.name;
  shown.level = LevelName(level);
  shown.cluster = e.scenario.cluster;
  shown.labels = {"tensor parallel", "pipeline",         "parameter gather", "gradient reduce",
                  "alignment",       "context parallel", "expert parallel",  "offload"};
  std::vector<std::uint8_t> label;
  std::vector<std::uint32_t> instances;
  for (const OpInfo& info : e.program.info) {
    std::uint8_t at = 0;
    switch (info.kind) {
      case OpKind::kPipelineTransfer:
        at = 1;
        break;
      case OpKind::kParameterGather:
        at = 2;
        break;
      case OpKind::kGradientReduce:
        at = 3;
        break;
      case OpKind::kAlignment:
        at = 4;
        break;
      case OpKind::kContextCollective:
        at = 5;
        break;
      case OpKind::kExpertCollective:
        at = 6;
        break;
      case OpKind::kHostTransfer:
        at = 7;
        break;
      default:
        break;
    }
    label.push_back(at);
    instances.push_back(info.instances);
  }
  shown.loads =
      MeasureLoads(e.program.graph, e.program.fabric, e.outcome.schedule, label,
                   shown.labels.size(), instances, e.program.link_of, e.program.link_count);
  shown.makespan_s = e.StepSeconds();
  return shown;
}

ShownLoads ShowTraffic(const Options& options, const JsonDocument& document, InputCache* cache) {
  const Level level = options.level == Level::kAnalytic ? Level::kAuto : options.level;
  const TrafficDocument traffic = ReadTraffic(document, cache);
  TrafficOutcome outcome = RunTraffic(traffic, level);
  ShownLoads shown;
  shown.name = traffic.name;
  shown.level = LevelName(level);
  shown.cluster = traffic.cluster;
  for (const TrafficItem& item : traffic.items) shown.labels.push_back(item.name);
  shown.items = std::move(outcome.items);
  shown.loads = std::move(outcome.loads);
  shown.makespan_s = outcome.makespan_s;
  return shown;
}

}  // namespace

ExitCode LoadsCommand(const Options& options, const std::string& cluster, const std::string& file,
                      int links_shown) {
  JsonDocument document = OpenScenario(options, file);
  if (const Json* named = document.root.Find("cluster");
      named != nullptr && named->IsString() && named->AsString() != cluster) {
    Narrate(options, "on " + cluster + ", in place of the document's " + named->AsString());
  }
  SetPath(&document, "cluster", Json(cluster), "the command line");
  InputCache cache(options.data_root);
  const Json* schema = document.root.Find("schema");
  if (schema != nullptr && schema->IsString() && schema->AsString() != "aurum.traffic/1" &&
      schema->AsString() != "aurum.scenario/1") {
    ThrowInput(108, "'" + file + "' is neither a scenario nor a traffic document",
               "\"schema\": \"aurum.traffic/1\", or \"aurum.scenario/1\"");
  }
  const bool traffic =
      schema != nullptr && schema->IsString() && schema->AsString() == "aurum.traffic/1";
  ShownLoads shown =
      traffic ? ShowTraffic(options, document, &cache) : ShowScenario(options, document, &cache);
  GroupAlike(*shown.cluster, &shown.loads.links);
  const auto count = static_cast<std::size_t>(links_shown);
  const bool json = options.format == Format::kJson || options.format == Format::kJsonLines;
  WriteOutput(
      options,
      json
          ? WithRunId(LoadsJson(shown, count)).Dump(options.format == Format::kJson ? 2 : -1) + "\n"
          : LoadsText(shown, count, options.format));
  return ExitCode::kOk;
}

}  // namespace aurum
