#include "sim/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "sim/compare/stores.h"
#include "sim/core/units.h"

namespace aurum {
namespace {

// A part below this share of the longer step is told with the rest.
constexpr double kWorthALine = 1e-3;

double SecondsOf(std::int64_t ps) { return static_cast<double>(ps) / kPicosecondsPerSecond; }

std::string SignedPercent(double share) {
  if (!std::isfinite(share)) return "";
  return std::abs(share) < 5e-5 ? "0 %" : fmt::format("{:+.1f} %", share * 100);
}

std::string SignedBytes(double bytes) {
  if (std::abs(bytes) < 512) return "0";
  return (bytes < 0 ? "-" : "+") + ShowBytes(std::abs(bytes));
}

std::string ShowJson(const Json& value) {
  if (value.IsNull()) return "";
  return value.IsString() ? value.AsString() : value.Dump();
}

std::string Join(const std::vector<ChangeGroup>& groups) {
  std::string out;
  for (const ChangeGroup& group : groups) out += (out.empty() ? "" : " with ") + group.path;
  return out;
}

// The figures that people compare first; all of them are in the documents.
std::string FigureTable(const Comparison& c, Format format) {
  const NamedFigures a = FiguresOfResult(c.a.result), b = FiguresOfResult(c.b.result);
  Table table({"", "A", "B", "change", ""}, "<>>>>");
  const auto find = [](const NamedFigures& figures, const char* name) -> const double* {
    for (const auto& [key, value] : figures) {
      if (key == name) return &value;
    }
    return nullptr;
  };
  const auto row = [&](const char* label, const char* name, auto show, auto show_change) {
    const double *of_a = find(a, name), *of_b = find(b, name);
    if (of_a == nullptr || of_b == nullptr) return;
    table.Row({label, show(*of_a), show(*of_b), show_change(*of_b - *of_a),
               *of_a == 0 ? "" : SignedPercent((*of_b - *of_a) / std::abs(*of_a))});
  };
  const auto number = [](double value) {
    return value == 0 ? std::string("0") : (value > 0 ? "+" : "") + ShowNumber(value);
  };
  row("step time", "step_time_s", ShowSeconds, SignedSeconds);
  row("tokens/s", "tokens_per_s", ShowNumber, number);
  row("tokens/s per GPU", "tokens_per_s_per_gpu", ShowNumber, number);
  row("samples/s", "samples_per_s", ShowNumber, number);
  row("MFU", "mfu", ShowPercent, [](double change) {
    return std::abs(change) < 5e-4 ? std::string("0") : fmt::format("{:+.1f} points", change * 100);
  });
  row(
      "peak memory", "memory.peak_gib", [](double gib) { return ShowBytes(gib * kGiB); },
      [](double gib) { return SignedBytes(gib * kGiB); });
  row(
      "usable memory", "memory.usable_gib", [](double gib) { return ShowBytes(gib * kGiB); },
      [](double gib) { return SignedBytes(gib * kGiB); });
  const auto verdict = [](const Json& result) {
    const Json* told = FindPath(result, "memory.verdict");
    return told != nullptr && told->IsString() ? told->AsString() : std::string("-");
  };
  table.Row({"memory", verdict(c.a.result), verdict(c.b.result), "", ""});
  row("time to the target", "time_to_target_s", ShowSeconds, SignedSeconds);
  return table.As(format);
}

std::string PartTable(const Comparison& c, bool verbose, Format format) {
  Table table({"where the seconds are", "A", "B", "change"}, "<>>>");
  const double longer = std::max(Seconds(c.parts_a.step), Seconds(c.parts_b.step));
  Time rest_a, rest_b;
  int rest = 0;
  for (const PartChange& part : c.parts) {
    const double most = std::max(Seconds(part.a.time), Seconds(part.b.time));
    if (!verbose && most < kWorthALine * longer) {
      rest_a += part.a.time;
      rest_b += part.b.time;
      ++rest;
      continue;
    }
    table.Row({part.Name(), ShowSeconds(Seconds(part.a.time)), ShowSeconds(Seconds(part.b.time)),
               SignedSeconds(part.ChangeSeconds())});
  }
  if (rest > 0) {
    table.Row({fmt::format("{} smaller parts", rest), ShowSeconds(Seconds(rest_a)),
               ShowSeconds(Seconds(rest_b)), SignedSeconds(SecondsOf(rest_b.ps - rest_a.ps))});
  }
  table.Row({"the step", ShowSeconds(Seconds(c.parts_a.step)), ShowSeconds(Seconds(c.parts_b.step)),
             SignedSeconds(SecondsOf(c.parts_b.step.ps - c.parts_a.step.ps))});
  return table.As(format);
}

std::string CommunicationTable(const Comparison& c, Format format) {
  Table table({"communication of a GPU", "bytes, A", "B", "busy, A", "B", "exposed, A", "B"},
              "<>>>>>>");
  for (const CollectiveChange& change : c.communication) {
    const auto bytes = [](const CommunicationPart& part) {
      return part.operations == 0 ? std::string("-") : ShowBytes(part.bytes);
    };
    const auto show = [](const CommunicationPart& part, Time time) {
      return part.operations == 0 ? std::string("-") : ShowSeconds(Seconds(time));
    };
    table.Row({std::string(StepCategoryName(change.category)), bytes(change.a), bytes(change.b),
               show(change.a, change.a.busy), show(change.b, change.b.busy),
               show(change.a, change.a.exposed), show(change.b, change.b.exposed)});
  }
  return table.As(format);
}

std::string MemoryTable(const Comparison& c, Format format) {
  Table table({"memory at the peak", "A", "B", "change"}, "<>>>");
  double a = 0, b = 0;
  for (const MemoryChange& change : c.memory) {
    a += change.a_bytes;
    b += change.b_bytes;
    table.Row({change.component, ShowBytes(change.a_bytes), ShowBytes(change.b_bytes),
               SignedBytes(change.b_bytes - change.a_bytes)});
  }
  table.Row({"the peak", ShowBytes(a), ShowBytes(b), SignedBytes(b - a)});
  return table.As(format);
}

std::string ScalingTable(const Scaling& s, Format format) {
  Table table({"where the speed-up goes", "A", "ideal B", "B", "lost"}, "<>>>>");
  double a = 0, ideal = 0, b = 0;
  for (const Scaling::Part& part : s.parts) {
    a += part.a_s;
    ideal += part.ideal_s;
    b += part.b_s;
    table.Row({part.name, ShowSeconds(part.a_s), ShowSeconds(part.ideal_s), ShowSeconds(part.b_s),
               SignedSeconds(part.LostSeconds())});
  }
  table.Row(
      {"the step", ShowSeconds(a), ShowSeconds(ideal), ShowSeconds(b), SignedSeconds(b - ideal)});
  return table.As(format) + Apart(format) +
         fmt::format(
             "{} → {} GPUs, {} → {} samples a step: {:.2f} × the samples per second, of {:.3g} "
             "× possible: {}\n",
             s.gpus_a, s.gpus_b, ShowNumber(s.batch_a), ShowNumber(s.batch_b), s.speedup,
             s.ideal_speedup, ShowPercent(s.Efficiency()));
}

std::string InputTables(const Comparison& c, Format format) {
  std::string out;
  if (!c.changes.empty()) {
    Table table({"what differs", "A", "B"}, "<<<");
    for (const KeyChange& change : c.changes)
      table.Row({change.path, ShowValue(change.a), ShowValue(change.b)});
    out += table.As(format);
  }
  if (!c.facts.empty()) {
    Table table({"what that comes to", "", "A", "B"}, "<<<<");
    for (const FactChange& fact : c.facts) {
      table.Row({fact.of, fact.fact + (fact.unit.empty() ? "" : ", " + fact.unit), ShowJson(fact.a),
                 ShowJson(fact.b)});
    }
    out += (out.empty() ? "" : "\n") + table.As(format);
  }
  return out;
}

std::string SubstitutionTables(const Comparison& c, Format format) {
  const Substitution& s = *c.substitution;
  const std::int64_t from = c.parts_a.step.ps;
  std::string out;
  if (s.alone.size() > 1) {
    Table table({"each change alone", "step", "change", "peak", "where"}, "<>>><");
    for (const AloneChange& alone : s.alone) {
      if (alone.with) {
        const double peak = c.a.evaluation->memory.Heaviest().peak_bytes;
        const std::string said = DescribeChange(c.parts_a, alone.with->parts);
        const auto colon = said.find(": ");
        table.Row({alone.what.path, ShowSeconds(Seconds(alone.with->step)),
                   SignedSeconds(SecondsOf(alone.with->step.ps - from)),
                   SignedBytes(alone.with->peak_bytes - peak),
                   colon == std::string::npos ? "" : said.substr(colon + 2)});
      } else {
        table.Row(
            {alone.what.path, "", "", "",
             "cannot change alone: " + alone.refused->CodeName() + " " + alone.refused->message});
      }
    }
    table.Row({"interaction", "", SignedSeconds(SecondsOf(s.interaction_ps)),
               SignedBytes(s.interaction_bytes), "what the changes do to each other"});
    out += table.As(format) + "\n";
  }
  Table table({"A becomes B", "step", "change", "peak", "where"}, "<>>><");
  table.Row({"A", ShowSeconds(Seconds(c.parts_a.step)), "", "", ""});
  for (const WalkStep& step : s.walk) {
    const auto colon = step.why.find(": ");
    table.Row({Join(step.what), ShowSeconds(Seconds(step.with.step)),
               SignedSeconds(SecondsOf(step.change_ps)), SignedBytes(step.memory_change_bytes),
               colon == std::string::npos ? "" : step.why.substr(colon + 2)});
  }
  return out + table.As(format);
}

std::string LinksText(const LinksNeeded& needed) {
  const char* side = needed.of_b ? "B" : "A";
  const char* other = needed.of_b ? "A" : "B";
  std::string out = fmt::format(
      "Which links would let {} keep up. {}, a step takes {}; 90 % of its samples per second and "
      "GPU "
      "are a step of {} for {}, which takes {}:\n",
      side,
      needed.own_plan ? fmt::format("On {}'s cluster, with {}'s own plan and kernels", other, side)
                      : fmt::format("In {} as it is", other),
      ShowSeconds(needed.measure_step_s), ShowSeconds(needed.target_s), side,
      ShowSeconds(needed.step_s));
  for (const LinksOfKind& kind : needed.kinds) {
    std::string set;
    for (const std::string& word : kind.set) set += " --set " + word;
    if (!kind.enough) {
      out += fmt::format(
          "  {}: {}; {:.3g} × as fast leaves {}\n", kind.links,
          kind.step_s > 0.99 * needed.step_s ? "not what is missing" : "not enough by itself",
          kind.factor, ShowSeconds(kind.step_s));
      continue;
    }
    out += fmt::format("  {}: {:.3g} × as fast", kind.links, kind.factor);
    if (kind.gb_per_s_per_gpu > 0) {
      out +=
          fmt::format(", {} GB/s a GPU out of its node instead of {} ({} Gbit/s)",
                      ShowNumber(kind.needed_gb_per_s_per_gpu), ShowNumber(kind.gb_per_s_per_gpu),
                      ShowNumber(kind.needed_gb_per_s_per_gpu * 8));
    }
    out += fmt::format(": {}{}\n", ShowSeconds(kind.step_s),
                       set.empty() ? "" : "  (" + set.substr(1) + ")");
  }
  return out;
}

std::string ComparisonText(const Comparison& c, bool verbose, Format format) {
  std::string out = "A  " + c.a.given + "\nB  " + c.b.given + "\n\n" + c.summary + "\n\n" +
                    FigureTable(c, format) + "\n";
  if (c.scaling) out += ScalingTable(*c.scaling, format) + "\n";
  out += PartTable(c, verbose, format);
  if (!c.communication.empty()) out += "\n" + CommunicationTable(c, format);
  out += "\n" + MemoryTable(c, format);
  if (const std::string inputs = InputTables(c, format); !inputs.empty()) out += "\n" + inputs;
  if (c.substitution) out += "\n" + SubstitutionTables(c, format);
  if (c.links) out += "\n" + LinksText(*c.links);
  for (std::size_t i = 0; i < c.notes.size(); ++i) out += (i == 0 ? "\n" : "") + c.notes[i] + "\n";
  for (std::size_t i = 0; i < c.judged.size(); ++i) {
    out += fmt::format("{}{}: {} ({})\n", i == 0 ? "\n" : "", c.judged[i].failed ? "FAILED" : "ok",
                       c.judged[i].condition.text, c.judged[i].said);
  }
  return out;
}

std::string At(const std::vector<std::string>& axes, const std::vector<std::string>& values) {
  std::string out;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    // The last word of a path is enough where no other axis has it.
    out += (out.empty() ? "" : ", ") + axes[i] + " " + values[i];
  }
  return out;
}

std::string StoreText(const StoreComparison& c, Format format) {
  std::string out = "A  " + c.a + "\nB  " + c.b + "\n\n" + c.summary + "\n\n";
  Table counts({"points, joined by " + c.joined_by, ""}, "<>");
  const auto count = [&](const char* name, std::size_t points, bool always) {
    if (always || points > 0) counts.Row({name, std::to_string(points)});
  };
  count("in both", c.both, true);
  count("with a result in both", c.both_ok, true);
  count("in A alone", c.only_a, false);
  count("in B alone", c.only_b, false);
  count("a result in A, none in B", c.lost, false);
  count("a result in B, none in A", c.gained, false);
  out += counts.As(format);
  if (!c.changes.empty()) {
    Table table({"what differs at all points", "A", "B"}, "<<<");
    for (const KeyChange& change : c.changes)
      table.Row({change.path, ShowValue(change.a), ShowValue(change.b)});
    out += "\n" + table.As(format);
  }
  Table spreads({"B over A", "points", "rose", "fell", "least", "p10", "median", "p90", "most"},
                "<>>>>>>>>");
  for (const FigureSpread& s : c.spreads) {
    spreads.Row({s.figure, std::to_string(s.points), std::to_string(s.rose), std::to_string(s.fell),
                 SignedPercent(s.least), SignedPercent(s.p10), SignedPercent(s.median),
                 SignedPercent(s.p90), SignedPercent(s.most)});
  }
  out += "\n" + spreads.As(format);
  for (const auto& [name, list] : {std::pair("the largest rises of ", &c.rises),
                                   std::pair("the largest falls of ", &c.falls)}) {
    if (list->empty()) continue;
    Table table({name + c.by, "A", "B", "change"}, "<>>>");
    for (const JoinedPoint& point : *list) {
      table.Row({At(c.axes, point.axis_values), ShowNumber(point.a), ShowNumber(point.b),
                 SignedPercent(point.relative_change)});
    }
    out += "\n" + table.As(format);
  }
  if (!c.effects.empty()) {
    Table table({"by axis", "value", "points", "median change of " + c.by}, "<<>>");
    for (const AxisEffect& effect : c.effects) {
      table.Row(
          {effect.path, effect.value, std::to_string(effect.points), SignedPercent(effect.median)});
    }
    out += "\n" + table.As(format);
  }
  for (std::size_t i = 0; i < c.lost_points.size(); ++i)
    out += (i == 0 ? "\nno result in B any more:\n  " : "  ") + c.lost_points[i] + "\n";
  for (std::size_t i = 0; i < c.notes.size(); ++i) out += (i == 0 ? "\n" : "") + c.notes[i] + "\n";
  for (std::size_t i = 0; i < c.judged.size(); ++i) {
    const StoreComparison::JudgedPoints& j = c.judged[i];
    out +=
        fmt::format("{}{}: {} at {} of {} points; {} {} at {}\n", i == 0 ? "\n" : "",
                    j.failed > 0 ? "FAILED" : "ok", j.worst.condition.text, j.failed, j.points,
                    j.failed > 0 ? "worst:" : "nearest:", j.worst.said, At(c.axes, j.axis_values));
  }
  return out;
}

std::string FigureCsv(const Comparison& c) {
  Table table({"figure", "a", "b", "change", "relative_change"}, "<>>>>");
  const NamedFigures a = FiguresOfResult(c.a.result), b = FiguresOfResult(c.b.result);
  for (const auto& [name, of_a] : a) {
    for (const auto& [other, of_b] : b) {
      if (other != name) continue;
      table.Row({name, Json(of_a).Dump(), Json(of_b).Dump(), Json(of_b - of_a).Dump(),
                 of_a == 0 ? "" : Json((of_b - of_a) / std::abs(of_a)).Dump()});
      break;
    }
  }
  return table.Csv();
}

[[noreturn]] void Usage(const std::string& message, const std::string& help) {
  ThrowInput(884, message, help, ExitCode::kUsage);
}

// What stands on the two sides, as steps.
class Sides {
 public:
  Sides(const Options& options, const CompareCommandLine& line, InputCache* cache)
      : options_(options), line_(line), cache_(cache) {}

  std::pair<Side, Side> Read() {
    const std::vector<std::string>& given = line_.given;
    std::vector<GivenKind> kinds;
    for (const std::string& name : given) kinds.push_back(KindOfGiven(name, cache_));
    const auto is = [&](std::size_t i, GivenKind kind) { return kinds[i] == kind; };
    if (given.size() == 1) {
      if (is(0, GivenKind::kCluster) && !line_.scenario.empty())
        return {Simulated(line_.scenario, "", line_.set_a),
                Simulated(line_.scenario, given[0], line_.set_b)};
      if (line_.set_b.empty() || !is(0, GivenKind::kScenario))
        Usage("there is nothing to compare '" + given[0] + "' with",
              "a second file, or a scenario and --set-b path=value");
      return {Simulated(given[0], "", line_.set_a), Simulated(given[0], "", line_.set_b)};
    }
    const bool clusters = is(0, GivenKind::kCluster) && is(1, GivenKind::kCluster);
    if (clusters && line_.scenario.empty())
      Usage("two clusters are compared by what a scenario does on them",
            "--scenario SCENARIO.json");
    if (!clusters && !line_.scenario.empty())
      Usage("--scenario is of one or two clusters",
            "leave it out: '" + given[0] + "' and '" + given[1] + "' tell what to simulate");
    std::vector<Side> sides;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<std::string>& set = i == 0 ? line_.set_a : line_.set_b;
      if (is(i, GivenKind::kResult)) {
        if (!set.empty() || !options_.set.empty())
          Usage("'" + given[i] + "' is a result: nothing can be set in it any more",
                "compare its scenario");
        sides.push_back(SideOfResult(given[i], ReadJsonFile(given[i]), cache_));
      } else if (is(i, GivenKind::kScenario)) {
        sides.push_back(Simulated(given[i], "", set));
      } else if (clusters) {
        sides.push_back(Simulated(line_.scenario, given[i], set));
      } else if (is(1 - i, GivenKind::kScenario)) {
        sides.push_back(Simulated(given[1 - i], given[i], set));
      } else {
        Usage("'" + given[i] + "' and '" + given[1 - i] + "' cannot be compared with each other",
              "two of scenarios, results and clusters, or two databases");
      }
    }
    return {std::move(sides[0]), std::move(sides[1])};
  }

 private:
  Side Simulated(const std::string& file, const std::string& cluster,
                 const std::vector<std::string>& set) const {
    JsonDocument document = OpenScenario(options_, file);
    std::string name = file;
    if (!cluster.empty()) {
      SetPath(&document, "cluster", Json(cluster), "cluster " + cluster);
      name += " on " + cluster;
    }
    for (const std::string& assignment : set) {
      ApplyOverride(&document, assignment);
      name += " with " + assignment;
    }
    return SideOfScenario(std::move(name), std::move(document), cache_, options_.level,
                          kToolVersion);
  }

  const Options& options_;
  const CompareCommandLine& line_;
  InputCache* cache_;
};

void TellFailure(const Options& options, const std::string& what) {
  Diagnostic d;
  d.code = 887;
  d.message = "B is not what --fail-if allows: " + what;
  d.help = "the table says which inputs and which part of the step make the difference";
  PrintDiagnostic(options, d);
}

ExitCode CompareDatabases(const Options& options, const CompareCommandLine& line,
                          const std::vector<Condition>& conditions) {
  if (!options.set.empty() || !line.set_a.empty() || !line.set_b.empty() || !line.scenario.empty())
    Usage("databases hold results: nothing can be set in them",
          "sweep the changed scenario into another database, and compare with that");
  if (options.format == Format::kCsv)
    Usage("two databases are compared as a table, Markdown or JSON",
          "aurum report RUN.db -o run.csv has the points of each");
  StoreOptions how;
  if (!line.by.empty()) how.by = line.by;
  how.fail_if = conditions;
  const StoreComparison c = CompareStores(line.given[0], line.given[1], how);
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    WriteOutput(options, WithRunId(StoreComparisonJson(c, kToolVersion))
                                 .Dump(options.format == Format::kJson ? 2 : -1) +
                             "\n");
  } else {
    WriteOutput(options, StoreText(c, options.format));
  }
  for (const StoreComparison::JudgedPoints& judged : c.judged) {
    if (judged.failed > 0)
      TellFailure(options, fmt::format("{} at {} of {} points", judged.worst.condition.text,
                                       judged.failed, judged.points));
  }
  if (!c.judged.empty() && c.lost + c.only_a > 0) {
    TellFailure(options, fmt::format("{} points of A have no result in B", c.lost + c.only_a));
    return ExitCode::kOutsideTolerance;
  }
  return c.Failed() ? ExitCode::kOutsideTolerance : ExitCode::kOk;
}

}  // namespace

ExitCode CompareCommand(const Options& options, const CompareCommandLine& line) {
  InputCache cache(options.data_root);
  std::vector<Condition> conditions;
  for (const std::string& text : line.fail_if) conditions.push_back(ParseCondition(text));
  if (line.given.size() == 2) {
    const bool a = KindOfGiven(line.given[0], &cache) == GivenKind::kStore;
    const bool b = KindOfGiven(line.given[1], &cache) == GivenKind::kStore;
    if (a && b) return CompareDatabases(options, line, conditions);
    if (a || b)
      Usage("a database is compared with another one, not with a single step",
            "aurum sweep the scenario over the same axes first");
  }
  if (!line.by.empty()) Usage("--by orders the points of two databases", "leave it out");
  auto [a, b] = Sides(options, line, &cache).Read();
  std::vector<Diagnostic> warnings;
  for (const Side* side : {&a, &b}) {
    if (!side->evaluation) continue;
    for (const Diagnostic& warning : side->evaluation->scenario.warnings) {
      const std::string said = FormatDiagnostic(warning);
      const bool known = std::any_of(warnings.begin(), warnings.end(), [&](const Diagnostic& d) {
        return FormatDiagnostic(d) == said;
      });
      if (!known) warnings.push_back(warning);
    }
  }
  PrintWarnings(options, warnings);
  CompareOptions how;
  how.substitute = !line.no_substitute;
  how.fail_if = conditions;
  const Comparison c = Compare(std::move(a), std::move(b), &cache, how);
  switch (options.format) {
    case Format::kJson:
    case Format::kJsonLines:
      WriteOutput(options, WithRunId(ComparisonJson(c, kToolVersion))
                                   .Dump(options.format == Format::kJson ? 2 : -1) +
                               "\n");
      break;
    case Format::kCsv:
      WriteOutput(options, FigureCsv(c));
      break;
    default:
      WriteOutput(options, ComparisonText(c, options.verbose, options.format));
      break;
  }
  for (const Judged& judged : c.judged) {
    if (judged.failed) TellFailure(options, judged.said + " (" + judged.condition.text + ")");
  }
  return c.Failed() ? ExitCode::kOutsideTolerance : ExitCode::kOk;
}

}  // namespace aurum
