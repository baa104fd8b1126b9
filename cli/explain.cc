// aurum explain SCENARIO: why a step takes what it takes.
#include "sim/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/rows.h"
#include "cli/version.h"
#include "sim/core/units.h"
#include "sim/study/phases.h"

namespace aurum {
namespace {

// A row that is less of the whole is summed up with others like it, unless details are asked for.
constexpr double kLeastShare = 0.01;
constexpr std::size_t kMostFixesShown = 8, kPathShown = 8, kShapesShown = 12;

struct ShownStep {
  const Evaluation& e;
  const Explanation& x;
  const Options& options;
  bool details = false;
  double Share(double seconds) const { return seconds / e.StepSeconds(); }
};

std::string Indent(int depth) { return std::string(static_cast<std::size_t>(2 * depth), ' '); }

// Words of a paragraph in lines of at most `columns`, behind a margin.
std::string Wrap(const std::string& text, std::size_t margin, std::size_t columns) {
  std::string out, line;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find(' ', at);
    if (text.compare(std::min(end, text.size()), 2, " %") == 0) end = text.find(' ', end + 1);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && margin + line.size() + 1 + word.size() > columns) {
      out += line + "\n" + std::string(margin, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

std::string FindingsText(const ShownStep& s) {
  std::string out;
  for (const Finding& finding : s.x.findings) {
    if (s.options.format == Format::kMarkdown) {
      out += "- **" + finding.topic + "**: " + finding.text + "\n";
    } else {
      out += fmt::format("{:<12}", finding.topic) + Wrap(finding.text, 12, 100);
    }
  }
  return out;
}

const char* KernelWords(KernelKind kind) {
  switch (kind) {
    case KernelKind::kGemm:
      return "matrix products";
    case KernelKind::kAttentionForward:
      return "attention";
    case KernelKind::kAttentionBackward:
      return "attention backward";
    case KernelKind::kDecodeAttention:
      return "attention over the cache";
    case KernelKind::kMemory:
      return "memory-bound";
    case KernelKind::kHost:
      return "host";
  }
  return "";
}

std::string BoundWords(const KernelGroup& group) {
  if (group.kernel == KernelKind::kHost) return "host";
  return fmt::format("{}, {}", BoundName(group.Binds()), ShowPercent(group.Attained()));
}

const CommItem* ItemOf(const Explanation& x, const TimePart& part) {
  if (!x.comm || !part.own) return nullptr;
  for (const CommItem& item : x.comm->items) {
    if (item.part.kind == part.kind && item.part.lane == part.lane &&
        item.part.module == part.module && item.part.head == part.head)
      return &item;
  }
  return nullptr;
}

// The time tree: modules, then what belongs to none. Rows that are left out are one row at the end, so
// the column still sums to the step.
class TimeRows {
 public:
  explicit TimeRows(const ShownStep& s)
      : s_(s), table_({"where the time goes", "time", "share", "hidden", "bound by"}, "<>>><") {}

  Table Make() {
    const std::size_t modules = s_.e.scenario.model->modules.size();
    for (std::size_t m = 0; m < modules; ++m) Module(static_cast<int>(m));
    Rest();
    table_.Row({"the step", ShowSeconds(s_.e.StepSeconds()), ShowPercent(1), "", ""});
    return std::move(table_);
  }

 private:
  bool Small(double seconds) const { return !s_.details && s_.Share(seconds) < kLeastShare; }

  void Row(int depth, const std::string& what, double seconds, double hidden,
           const std::string& bound) {
    table_.Row({Indent(depth) + what, ShowSeconds(seconds), ShowPercent(s_.Share(seconds)),
                hidden > 0 ? ShowSeconds(hidden) : "", bound});
  }

  void Module(int module) {
    double sum = 0;
    std::vector<const TimePart*> mine;
    for (const TimePart& part : s_.x.parts) {
      const bool waits = IsBubble(part.cause) || part.cause == TimeCause::kStraggler;
      if (part.module != module || waits) continue;
      sum += Seconds(part.exposed);
      mine.push_back(&part);
    }
    if (mine.empty()) return;
    const bool all_small = std::all_of(mine.begin(), mine.end(), [&](const TimePart* part) {
      return Small(Seconds(part->exposed)) && Small(Seconds(part->Hidden()));
    });
    Row(0, s_.e.scenario.model->modules[static_cast<std::size_t>(module)].name, sum, 0, "");
    if (all_small) return;
    double left_out = 0, hidden = 0;
    for (const TimePart* part : mine) {
      if (Small(Seconds(part->exposed)) && Small(Seconds(part->Hidden()))) {
        left_out += Seconds(part->exposed);
        hidden += Seconds(part->Hidden());
        continue;
      }
      Part(*part, 1);
    }
    if (left_out > 0 || hidden > 0) Row(1, "other", left_out, hidden, "");
  }

  void Part(const TimePart& part, int depth) {
    std::string what(OpWords(part.kind));
    if (part.head) what = "head and loss " + what;
    if (part.lane != Lane::kMain) {
      const std::string full = DescribePart(part, *s_.e.scenario.model);
      const std::string module =
          part.module < 0
              ? ""
              : s_.e.scenario.model->modules[static_cast<std::size_t>(part.module)].name + " ";
      what = full.starts_with(module) ? full.substr(module.size()) : full;
    }
    if (part.lane != Lane::kMain || !part.own) {
      const CommItem* item = ItemOf(s_.x, part);
      std::string bound;
      if (item != nullptr && item->possible_bytes_per_s > 0)
        bound =
            fmt::format("{}, {}", LinkKindName(item->bottleneck), ShowPercent(item->Attained()));
      Row(depth, what + (part.own ? ", waited for" : ""), Seconds(part.exposed),
          Seconds(part.Hidden()), bound);
      return;
    }
    Row(depth, what, Seconds(part.exposed), 0, KernelBound(part));
    if (!s_.details || !s_.x.work) return;
    for (const KernelGroup& group : s_.x.work->groups) {
      if (Is(group, part))
        Row(depth + 1, KernelWords(group.kernel), group.seconds, 0, BoundWords(group));
    }
    if (part.slowed_s > 1e-9 * s_.e.StepSeconds())
      Row(depth + 1, "slowed by communication beside it", part.slowed_s, 0, "");
  }

  static bool Is(const KernelGroup& group, const TimePart& part) {
    return group.module == part.module && group.kind == part.kind && group.head == part.head;
  }

  // Of the kernels that take most of it.
  std::string KernelBound(const TimePart& part) const {
    if (!s_.x.work) return "";
    const KernelGroup* most = nullptr;
    for (const KernelGroup& group : s_.x.work->groups) {
      if (Is(group, part) && (most == nullptr || group.seconds > most->seconds)) most = &group;
    }
    if (most == nullptr) return "";
    return s_.details ? "" : KernelWords(most->kernel) + (": " + BoundWords(*most));
  }

  void Rest() {
    double left_out = 0;
    for (const TimePart& part : s_.x.parts) {
      const bool waits = IsBubble(part.cause) || part.cause == TimeCause::kStraggler;
      if (part.module >= 0 && !waits) continue;
      if (Small(Seconds(part.exposed)) && Small(Seconds(part.Hidden()))) {
        left_out += Seconds(part.exposed);
        continue;
      }
      if (waits) {
        const std::string name = part.cause == TimeCause::kStraggler    ? "wait for "
                                 : part.cause == TimeCause::kPpWarmup   ? "bubble, filling: "
                                 : part.cause == TimeCause::kPpCooldown ? "bubble, draining: "
                                                                        : "bubble: ";
        Row(0, name + DescribePart(part, *s_.e.scenario.model), Seconds(part.exposed), 0, "");
      } else {
        Part(part, 0);
      }
    }
    if (left_out > 0) Row(0, "other", left_out, 0, "");
  }

  const ShownStep& s_;
  Table table_;
};

Table PathTable(const ShownStep& s) {
  Table table({"critical path", "ops", "time", "share"}, "<>>>");
  const CriticalPath& path = *s.x.path;
  const std::size_t shown = s.details ? path.parts.size() : std::min(path.parts.size(), kPathShown);
  double rest = Seconds(path.idle);
  std::int64_t ops = 0;
  for (std::size_t i = 0; i < path.parts.size(); ++i) {
    const TimePart& part = path.parts[i];
    const double seconds = Seconds(part.exposed);
    if (i >= shown) {
      rest += seconds;
      ops += part.ops;
      continue;
    }
    table.Row({DescribePart(part, *s.e.scenario.model), std::to_string(part.ops),
               ShowSeconds(seconds), ShowPercent(s.Share(seconds))});
  }
  if (rest > 0)
    table.Row({"other", std::to_string(ops), ShowSeconds(rest), ShowPercent(s.Share(rest))});
  table.Row({"the step", std::to_string(path.ops.size()), ShowSeconds(s.e.StepSeconds()),
             ShowPercent(1)});
  return table;
}

Table ShapesTable(const ShownStep& s) {
  Table table({"largest kernels", "in", "calls", "time", "share", "bound by"}, "<<>>><");
  for (std::size_t i = 0; i < std::min(kShapesShown, s.x.work->shapes.size()); ++i) {
    const KernelShape& shape = s.x.work->shapes[i];
    table.Row({shape.what, shape.where, std::to_string(shape.calls), ShowSeconds(shape.seconds),
               ShowPercent(s.Share(shape.seconds)),
               fmt::format("{}, {}", BoundName(shape.bound), ShowPercent(shape.attained))});
  }
  return table;
}

Table CommTable(const ShownStep& s) {
  Table table({"communication", "what", "GPUs", "calls", "bytes", "runs", "waited for", "bus rate",
               "of the link's"},
              "<<>>>>>><");
  std::string group;
  for (const CommItem& item : s.x.comm->items) {
    const std::string name(CommGroupName(item.group));
    if (!s.details && s.Share(item.running_s) < 1e-4) continue;
    table.Row(
        {name == group ? "" : name,
         DescribePart(item.part, *s.e.scenario.model) +
             (item.collective.empty() ? "" : ": " + item.collective),
         std::to_string(item.ranks), std::to_string(item.part.ops), ShowBytes(item.part.bytes),
         ShowSeconds(item.running_s), ShowSeconds(Seconds(item.part.exposed)),
         item.bus_bytes_per_s > 0 ? ShowRate(item.bus_bytes_per_s) : "",
         item.possible_bytes_per_s > 0
             ? fmt::format("{}, {}{}", LinkKindName(item.bottleneck), ShowPercent(item.Attained()),
                           item.LinkBinds() ? "" : " (latency, protocol)")
             : ""});
    group = name;
    // Which of them is waited for cannot be told apart: they take turns on one lane.
    if (item.uses.size() < 2) continue;
    for (const CommUse& use : item.uses) {
      table.Row({"", Indent(1) + use.collective, "", std::to_string(use.calls),
                 ShowBytes(use.bytes), ShowSeconds(use.running_s), "",
                 use.running_s > 0 ? ShowRate(use.bus_bytes / use.running_s) : "", ""});
    }
  }
  return table;
}

Table LinkTable(const ShownStep& s) {
  Table table({"with links a thousand times as fast", "step", "saves"}, "<>>");
  for (const LinkLimit& limit : s.x.links)
    table.Row({limit.name, ShowSeconds(limit.step_s), ShowPercent(limit.step_share)});
  return table;
}

Table MemoryTable(const ShownStep& s) {
  Table table({"memory at the peak (" + s.e.memory.Heaviest().at + ")", "count", "size", "share"},
              "<>>>");
  const double peak = s.e.memory.Heaviest().peak_bytes;
  const auto row = [&](int depth, const std::string& what, double count, double bytes) {
    table.Row({Indent(depth) + what,
               count > 0 && std::abs(count - 1) > 1e-9 ? fmt::format("{:.4g}", count) : "",
               ShowBytes(bytes), ShowPercent(bytes / peak)});
  };
  const std::vector<MemoryItem>& items = s.x.memory->items;
  for (std::size_t i = 0; i < items.size();) {
    const MemoryComponent component = items[i].component;
    row(0, MemoryComponentName(component), 0, s.x.memory->BytesOf(component));
    for (; i < items.size() && items[i].component == component;) {
      const std::string module = items[i].module;
      double sum = 0;
      std::size_t end = i;
      for (; end < items.size() && items[end].component == component && items[end].module == module;
           ++end)
        sum += items[end].bytes;
      const int depth = module.empty() ? 1 : 2;
      if (!module.empty()) row(1, module, 0, sum);
      // A single line of a module says no more than the module's own.
      double other = 0;
      for (; i < end; ++i) {
        const bool alone = !module.empty() && !s.details;
        if (alone || (!s.details && items[i].bytes < 1e-4 * peak)) {
          other += module.empty() ? items[i].bytes : 0;
          continue;
        }
        row(depth, items[i].what, items[i].count, items[i].bytes);
      }
      if (other > 0) row(depth, "other", 0, other);
    }
  }
  row(0, "the peak", 0, peak);
  return table;
}

Table LadderTable(const ShownStep& s) {
  Table table({"micro-batch", "step", "samples/s", "peak", "verdict", "set"}, "<>>><<");
  for (const MicroBatchRow& row : s.x.micro_batches) {
    table.Row({std::to_string(row.size) + (row.as_told ? " (the plan)" : ""),
               ShowSeconds(row.step_s), ShowNumber(row.samples_per_s), ShowBytes(row.peak_bytes),
               FitName(row.verdict), "--set " + row.set.front()});
  }
  return table;
}

// What is trained against the micro-batch: does it fit, and how much is it.
Table RecipeTable(const ShownStep& s) {
  std::vector<std::string> header{"trained"};
  std::string align = "<";
  std::vector<std::int64_t> sizes;
  for (const MicroBatchRow& row : s.x.micro_batches) {
    header.push_back("micro-batch " + std::to_string(row.size));
    align += "<";
    sizes.push_back(row.size);
  }
  Table table(header, align);
  const auto add = [&](const std::string& name, const std::vector<MicroBatchRow>& rows) {
    std::vector<std::string> cells{name};
    for (const std::int64_t size : sizes) {
      const auto found = std::find_if(rows.begin(), rows.end(),
                                      [&](const MicroBatchRow& row) { return row.size == size; });
      cells.push_back(found == rows.end()
                          ? "-"
                          : FitName(found->verdict) + ", " + ShowBytes(found->peak_bytes));
    }
    table.Row(cells);
  };
  add("as the plan is", s.x.micro_batches);
  for (const Recipe& recipe : s.x.recipes) add(recipe.name, recipe.micro_batches);
  return table;
}

std::size_t FixesShown(const ShownStep& s) {
  const std::size_t all = s.x.fixes->fixes.size();
  return s.options.verbose ? all : std::min(all, kMostFixesShown);
}

Table FixesTable(const ShownStep& s) {
  Table table({"fixes, cheapest first", "step", "peak", "then", "change"}, "<>><<");
  const std::vector<Fix>& fixes = s.x.fixes->fixes;
  for (std::size_t i = 0; i < FixesShown(s); ++i) {
    const Fix& fix = fixes[i];
    std::string set;
    for (const std::string& word : fix.set)
      set += (set.empty() ? "--set '" : " --set '") + word + "'";
    const double more = 100 * fix.step_delta_s / (fix.step_s - fix.step_delta_s);
    table.Row({fix.what + (fix.caution.empty() ? "" : " *"),
               fmt::format("{:+.1f} %", std::abs(more) < 0.05 ? 0.0 : more),
               ShowBytes(fix.peak_bytes), FitName(fix.verdict), set});
  }
  return table;
}

Table SensitivityTable(const ShownStep& s) {
  Table table({"what if there were", "step", "saves", "tokens/s", "elasticity", "peak", "verdict"},
              "<>>>>><");
  for (const Sensitivity& item : s.x.sensitivities) {
    const std::string name =
        item.resource && item.factor < 2
            ? fmt::format("{:.0f} % more {}", (item.factor - 1) * 100, item.name)
            : item.name;
    table.Row({name, ShowSeconds(item.step_s), ShowPercent(item.step_share),
               fmt::format("{:+.1f} %", 100 * item.throughput_share),
               item.resource
                   ? fmt::format("{:.2f}", std::abs(item.elasticity) < 5e-3 ? 0.0 : item.elasticity)
                   : "",
               ShowBytes(item.peak_bytes), FitName(item.verdict)});
  }
  table.Row({"10 % more memory", ShowSeconds(s.e.StepSeconds()), ShowPercent(0), "+0.0 %", "0.00",
             ShowBytes(s.e.memory.Heaviest().peak_bytes), FitName(s.x.with_more_memory)});
  return table;
}

Table EncoderTable(const ShownStep& s) {
  Table table({"where the encoder works", "step", "waits for others", "peak", "verdict"}, "<>>><");
  for (const Alternative& a : s.x.encoders->alternatives) {
    if (a.refused) {
      table.Row({a.name, "-", "-", "-", a.refused->CodeName() + ", no plan"});
      continue;
    }
    table.Row({a.name + (a.as_told ? " (the plan)" : ""), ShowSeconds(a.step_s),
               ShowSeconds(a.time.exposed_comm_s + a.time.bubble_s + a.time.alignment_wait_s),
               ShowBytes(a.peak_bytes), FitName(a.verdict)});
  }
  return table;
}

// Why some of them are no plan, each reason once.
std::string Refused(const ShownStep& s) {
  std::string out;
  for (const Alternative& a : s.x.encoders->alternatives) {
    if (!a.refused) continue;
    const std::string line = a.refused->CodeName() + ": " + a.refused->message + "\n";
    if (out.find(line) == std::string::npos) out += line;
  }
  return out;
}

Table FormulaTable(const ShownStep& s) {
  Table table({"golden formula", "F", "F/B", "G/C", "Comm"}, "<>>>>");
  const auto row = [&](const std::string& name, const GoldenTerm& term) {
    table.Row({name, ShowNumber(term.flops / kTera) + " TFLOP", ShowSeconds(term.f_over_b_s),
               ShowSeconds(term.g_over_c_s), ShowSeconds(term.comm_s)});
  };
  for (const GoldenTerm& term : s.e.golden.terms) row(term.module, term);
  row("critical path", s.e.golden.path);
  return table;
}

// The rows of one topic, for CSV: those of the document, so what sums there sums here.
std::vector<Json> RowsOf(const Json& document, const ExplainTopics& topics) {
  std::vector<Json> rows;
  const auto add = [&](const char* path, const char* kind) {
    const Json* list = FindPath(document, path);
    if (list == nullptr || !list->IsArray()) return;
    for (const Json& item : list->items()) {
      Json row = Json::Object();
      if (*kind != '\0') row.Set("row", kind);
      for (const auto& [key, value] : item.members()) row.Set(key, value);
      rows.push_back(std::move(row));
    }
  };
  if (topics.memory) {
    add("memory.items", "");
  } else if (topics.comm) {
    add("communication.items", "");
  } else if (topics.formula) {
    add("formula.terms", "");
  } else if (topics.sensitivity) {
    add("sensitivities", "");
  } else if (topics.oom) {
    add("micro_batches", "micro-batch");
    add("fixes", "fix");
  } else {
    add("time.parts", "");
  }
  return rows;
}

std::string Text(const ShownStep& s, const ExplainTopics& topics) {
  const Format format = s.options.format;
  const std::string apart = format == Format::kMarkdown ? "\n" : "";
  std::string out = FindingsText(s);
  const auto add = [&](const Table& table) { out += "\n" + table.As(format); };
  if (topics.time) {
    add(TimeRows(s).Make());
    out +=
        apart + "hidden: runs beside the kernels; the part of a step that it takes is in 'time'\n";
    add(PathTable(s));
    if (s.details) add(ShapesTable(s));
  }
  if (topics.memory) add(MemoryTable(s));
  if (topics.comm && !s.x.comm->items.empty()) {
    add(CommTable(s));
    if (s.details) add(LinkTable(s));
  }
  if (topics.oom) {
    if (s.details || s.e.memory.verdict != Fit::kFits || !topics.time) add(LadderTable(s));
    if (!s.x.recipes.empty()) {
      add(RecipeTable(s));
      out += apart;
      for (const Recipe& recipe : s.x.recipes)
        out += recipe.name + ": --set '" + recipe.set.front() + "'\n";
    }
    if (!s.x.fixes->fixes.empty()) {
      add(FixesTable(s));
      std::string cautions;
      for (std::size_t i = 0; i < FixesShown(s); ++i) {
        const Fix& fix = s.x.fixes->fixes[i];
        if (!fix.caution.empty() && cautions.find(fix.caution) == std::string::npos)
          cautions += "* " + fix.what + ": " + fix.caution + "\n";
      }
      out += apart + cautions;
      out += fmt::format("{} changes simulated, {} of them make it smaller{}\n", s.x.fixes->tried,
                         s.x.fixes->fixes.size(),
                         FixesShown(s) < s.x.fixes->fixes.size() ? "; -v shows all" : "");
    }
  }
  if (topics.sensitivity) {
    add(SensitivityTable(s));
    out +=
        apart + "each line is simulated again; elasticity 1 would be a step that is nothing else\n";
    if (s.x.encoders) {
      add(EncoderTable(s));
      out += apart + Refused(s);
    }
  }
  if (topics.formula) add(FormulaTable(s));
  return out;
}

}  // namespace

ExitCode ExplainCommand(const Options& options, const std::string& file,
                        const std::vector<std::string>& what) {
  const ExplainTopics topics = TopicsOf(what);
  if (options.format == Format::kCsv && what.size() != 1) {
    ThrowInput(891, "CSV is one table, and an explanation has several",
               "--what time, memory, comm, formula, oom or sensitivity: one of them",
               ExitCode::kUsage);
  }
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  Scenario scenario = ReadScenario(document, &cache);
  RefuseToReplace(scenario, {{"-o", options.output}});
  std::vector<Diagnostic> warnings = scenario.warnings;
  if (const auto left_out = PhasesLeftOut(document, "explain")) warnings.push_back(*left_out);
  PrintWarnings(options, warnings);
  const Evaluation e = Evaluate(std::move(scenario), options.level, options.fold, options.epsilon);
  ExplainOptions asked;
  asked.topics = topics;
  asked.jobs = options.jobs;
  asked.tool_version = kToolVersion;
  asked.weights = options.weights;
  const Explanation x = Explain(e, document, &cache, asked);
  const ShownStep shown{e, x, options, options.verbose || what.size() == 1};
  switch (options.format) {
    case Format::kJson:
      WriteOutput(options, WithRunId(ExplainJson(e, x, asked)).Dump(2) + "\n");
      break;
    case Format::kJsonLines:
      WriteOutput(options, WithRunId(ExplainJson(e, x, asked)).Dump() + "\n");
      break;
    case Format::kCsv:
      WriteOutput(options, CsvOfRows(RowsOf(ExplainJson(e, x, asked), topics)));
      break;
    default:
      WriteOutput(options, Text(shown, topics));
      break;
  }
  return ExitCode::kOk;
}

}  // namespace aurum
