// aurum-fit-stacks RECORDS... : fits the constants of software stacks on published step times.
//
//   --rounds N       of linearisation; 0 leaves the constants as they stand and tells how far off they are
//   --rows           every step, fitted and left out
//   --only NAME      sources whose name has this part; repeatable. --without NAME: not these
//   --write          puts the constants into calibrate/stacks
//   --tables FILE    Markdown tables, with an ablation (docs/fidelity-tables.md)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "calibrate/fit_stacks.h"
#include "sim/core/diagnostic.h"
#include "sim/core/json.h"
#include "sim/core/text_file.h"
#include "sim/study/published/score.h"

namespace aurum {
namespace {

constexpr const char* kFitted = "; constants fitted: ";

void Print(const FitReport& report, bool rows) {
  struct Errors {
    std::vector<double> in, cluster, source;
    std::map<std::string, std::vector<double>> by_cluster;
  };
  std::map<std::string, Errors> by_source;
  for (const StackFitRow& row : report.rows) {
    for (const std::string& key : {row.source, std::string("~all")}) {
      Errors& e = by_source[key];
      e.in.push_back(std::abs(std::expm1(row.in_sample)));
      e.cluster.push_back(std::abs(std::expm1(row.cluster_out)));
      e.source.push_back(std::abs(std::expm1(row.source_out)));
      e.by_cluster[row.cluster].push_back(e.cluster.back());
    }
    if (rows)
      std::printf("%-60s %-22s %9.3f in %+6.1f cluster %+6.1f source %+6.1f\n", row.id.c_str(),
                  row.stack.c_str(), row.measured_s, 100 * std::expm1(row.in_sample),
                  100 * std::expm1(row.cluster_out), 100 * std::expm1(row.source_out));
  }
  const auto mean = [](const std::vector<double>& v) {
    double sum = 0;
    for (const double x : v) sum += x;
    return v.empty() ? 0 : 100 * sum / static_cast<double>(v.size());
  };
  std::printf("%-28s %5s %8s  %8s %8s %8s %9s  %8s %8s\n", "source", "rows", "in", "cluster-out",
              "median", "p90", "clusters", "source-out", "p90");
  for (const auto& [source, e] : by_source) {
    std::vector<double> means;
    for (const auto& [name, v] : e.by_cluster) means.push_back(mean(v) / 100);
    std::printf("%-28s %5zu %8.1f  %8.1f %8.1f %8.1f %9.1f  %8.1f %8.1f\n", source.c_str(),
                e.in.size(), mean(e.in), mean(e.cluster), 100 * Quantile(e.cluster, 0.5),
                100 * Quantile(e.cluster, 0.9), mean(means), mean(e.source),
                100 * Quantile(e.source, 0.9));
  }
  // How many left-out steps lie in the interval that their stack is quoted with.
  std::map<std::string, double> band, own;
  for (const StackFit& fit : report.stacks) {
    band[fit.name] = fit.left_out_p90;
    own[fit.name] = fit.owner.empty() ? 0 : 1;
  }
  std::map<std::string, std::vector<double>> inside;  // by cluster
  for (const StackFitRow& row : report.rows) {
    const double error = own[row.stack] > 0 ? row.cluster_out : row.source_out;
    inside[row.cluster].push_back(std::abs(std::expm1(error)) <= band[row.stack] ? 100 : 0);
  }
  std::vector<double> shares;
  for (const auto& [cluster, rows_inside] : inside) shares.push_back(mean(rows_inside) / 10000);
  std::printf(
      "\nleft-out steps inside of their stack's 90 %% interval, mean over clusters: %.1f %%\n",
      mean(shares));
  std::printf("\nrates:");
  for (const auto& [group, rate] : report.rates) std::printf(" %s %.3f", group.c_str(), rate);
  std::printf("\ncommon:");
  for (const auto& [key, value] : report.common) std::printf(" %s x%.3f", key.c_str(), value);
  std::printf("\n\n%-24s %4s %4s %4s %4s %7s %7s", "stack", "rows", "clus", "mod", "own", "out",
              "p90");
  for (const StackConstant& c : StackConstants()) std::printf(" %.8s", c.key);
  std::printf("\n");
  for (const StackFit& fit : report.stacks) {
    std::printf("%-24s %4d %4d %4d %4d %7.1f %7.1f", fit.name.c_str(), fit.rows, fit.clusters,
                fit.models, fit.owner.empty() ? 0 : 1, 100 * fit.left_out_mape,
                100 * fit.left_out_p90);
    for (const StackConstant& c : StackConstants()) std::printf(" %8.4g", fit.stack.*c.member);
    std::printf("\n");
  }
}

// The tables of docs/fidelity-tables.md.
std::string Tables(const FitReport& report) {
  struct Errors {
    std::vector<double> in, cluster, source;
    std::map<std::string, std::vector<double>> by_cluster;
  };
  std::map<std::string, Errors> by_source;
  for (const StackFitRow& row : report.rows) {
    for (const std::string& key : {row.source, std::string("~")}) {
      Errors& e = by_source[key];
      e.in.push_back(std::abs(std::expm1(row.in_sample)));
      e.cluster.push_back(std::abs(std::expm1(row.cluster_out)));
      e.source.push_back(std::abs(std::expm1(row.source_out)));
      e.by_cluster[row.cluster].push_back(e.cluster.back());
    }
  }
  const auto mean = [](const std::vector<double>& v) {
    double sum = 0;
    for (const double x : v) sum += x;
    return v.empty() ? 0 : 100 * sum / static_cast<double>(v.size());
  };
  std::string out =
      "# Fidelity of step times: tables\n\nWritten by `./dev fidelity --left-out`; "
      "[fidelity.md](fidelity.md) reads them.\n\n## By source\n\nMean absolute errors in per "
      "cent.\n\n| source | rows | clusters | fitted on it | cluster left out | median | p90 | mean "
      "over clusters | source left out | p90 |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [source, e] : by_source) {
    std::vector<double> means;
    for (const auto& [name, v] : e.by_cluster) means.push_back(mean(v) / 100);
    out += fmt::format(
        "| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n",
        source == "~" ? "all" : source, e.in.size(), means.size(), mean(e.in), mean(e.cluster),
        100 * Quantile(e.cluster, 0.5), 100 * Quantile(e.cluster, 0.9), mean(means), mean(e.source),
        100 * Quantile(e.source, 0.9));
  }
  out +=
      "\n## Constants of stacks\n\n| stack | constants of | rows | clusters | left out: mean | 90 "
      "% within |";
  for (const StackConstant& c : StackConstants()) out += fmt::format(" {} |", c.key);
  out += "\n|---|---|---|---|---|---|";
  for (std::size_t i = 0; i < StackConstants().size(); ++i) out += "---|";
  out += "\n";
  for (const StackFit& fit : report.stacks) {
    out += fmt::format("| {} | {} | {} | {} | {:.1f} | {:.0f} |", fit.name,
                       fit.owner.empty() ? "the common set" : fit.owner, fit.rows, fit.clusters,
                       100 * fit.left_out_mape, 100 * fit.left_out_p90);
    for (const StackConstant& c : StackConstants())
      out += fmt::format(" {:.3g} |", fit.stack.*c.member);
    out += "\n";
  }
  out +=
      "\n## Sustained rates\n\nTraining GEMMs over bursts, what all stacks on a chip have in "
      "common; "
      "narrow: 8 and 4 bits.\n\n| devices | factor |\n|---|---|\n";
  for (const auto& [group, rate] : report.rates)
    out += fmt::format("| {} | {:.2f} |\n", group, rate);
  if (!report.ablations.empty()) {
    out +=
        "\n## What each term carries\n\nThe error with one term left out, nothing fitted again.\n\n"
        "| left out | mean over rows | mean over clusters |\n|---|---|---|\n";
    for (const Ablation& a : report.ablations)
      out +=
          fmt::format("| {} | {:.1f} % | {:.1f} % |\n", a.term, 100 * a.mape, 100 * a.cluster_mape);
  }
  return out;
}

double Rounded(double value, int digits) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

// Puts the constants into the catalogue's stacks. Those that have their base's inherit them.
void Write(const FitReport& report, const std::string& data_root) {
  for (const StackFit& fit : report.stacks) {
    const std::string path = data_root + "/calibrate/stacks/" + fit.name + ".json";
    JsonDocument document = ReadJsonFile(path);
    if (!BaseOfStack(document).empty() && fit.owner != fit.name) continue;
    Json* time = document.root.Find("time");
    if (time == nullptr) time = &document.root.Set("time", Json::Object());
    const Json* told = time->Find("source");
    std::string source = told != nullptr ? told->AsString() : "";
    source = source.substr(0, source.find(kFitted));
    if (fit.owner.empty()) {
      source += fmt::format(
          "{}the common set of all stacks, over {} published steps of {} ones in {} clusters; a "
          "source "
          "left out errs by {:.1f} %, nine of ten steps within {:.0f} % (aurum-fit-stacks)",
          kFitted, fit.rows, fit.stack.eager ? "eager" : "compiled", fit.clusters,
          100 * fit.left_out_mape, 100 * fit.left_out_p90);
    } else {
      source += fmt::format(
          "{}on {} published steps of {} models in {} clusters, the common set their prior; a "
          "cluster "
          "left out errs by {:.1f} %, nine of ten steps within {:.0f} % (aurum-fit-stacks)",
          kFitted, fit.rows, fit.models, fit.clusters, 100 * fit.left_out_mape,
          100 * fit.left_out_p90);
    }
    time->Set("source", source);
    for (const StackConstant& constant : StackConstants())
      time->Set(constant.key, Rounded(fit.stack.*constant.member, 3));
    time->Set("band_share", Rounded(std::min(fit.left_out_p90, 0.9), 2));
    WriteTextFile(path, document.root.Dump(2) + "\n");
  }
}

}  // namespace
}  // namespace aurum

int main(int argc, char** argv) {
  using namespace aurum;
  try {
    std::vector<Record> records;
    FitOptions options;
    bool rows = false, write = false;
    std::string tables;
    std::vector<std::string> files, only, without;
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--rows") == 0) {
        rows = true;
      } else if (std::strcmp(argv[i], "--write") == 0) {
        write = true;
      } else if (std::strcmp(argv[i], "--tables") == 0 && i + 1 < argc) {
        tables = argv[++i];
        options.ablate = true;
      } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
        only.emplace_back(argv[++i]);
      } else if (std::strcmp(argv[i], "--without") == 0 && i + 1 < argc) {
        without.emplace_back(argv[++i]);
      } else if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
        options.rounds = std::atoi(argv[++i]);
      } else {
        files.emplace_back(argv[i]);
      }
    }
    for (const std::string& file : files) {
      for (Record& record : ReadRecords(ReadJsonFile(file), nullptr)) {
        const auto names = [&](const std::string& name) {
          return record.facts.source.find(name) != std::string::npos;
        };
        const bool wanted = (only.empty() || std::any_of(only.begin(), only.end(), names)) &&
                            std::none_of(without.begin(), without.end(), names);
        if (wanted) records.push_back(std::move(record));
      }
    }
    const FitReport report = FitStacks(records, OpenPublishedSources("."), ".", options);
    Print(report, rows);
    if (write) Write(report, ".");
    if (!tables.empty()) WriteTextFile(tables, Tables(report));
  } catch (const InputError& error) {
    std::fputs(FormatDiagnostic(error.diagnostic()).c_str(), stderr);
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
