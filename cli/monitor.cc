#include "cli/monitor.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>
#include <vector>

#include "cli/io.h"
#include "cli/version.h"
#include "sim/core/hash.h"
#include "sim/core/text_file.h"
#include "sim/monitor/correlation.h"
#include "sim/monitor/log_tail.h"
#include "sim/monitor/metrics.h"
#include "sim/monitor/root_cause.h"
#include "sim/monitor/series.h"

namespace aurum {
namespace {

std::atomic<bool> g_watch_ended{false};
void EndWatch(int) { g_watch_ended = true; }

// Interrupts end a wait for standard input: no SA_RESTART, which std::signal would set.
class Interrupts {
 public:
  Interrupts() {
    struct sigaction action {};
    action.sa_handler = EndWatch;
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~Interrupts() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

// A baseline file: {"mar": …, "step_time_s": …}, or a result of `aurum simulate --json`.
void ReadBaseline(const std::string& text, MonitorRules* rules) {
  const auto take = [&](std::string_view key, double value) {
    const bool mar = key == "mar";
    if ((!mar && key != "step_time_s") || !(value > 0) || (mar && value > 1) || value > 1e7) {
      ThrowInput(782, fmt::format("--baseline: '{} = {}' is no baseline", key, value),
                 "mar above 0 and up to 1, step_time_s above 0");
    }
    (mar ? rules->baseline_mar : rules->baseline_step_s) = value;
  };
  if (text.find('=') != std::string::npos) {
    std::size_t from = 0;
    while (from <= text.size()) {
      const std::size_t to = std::min(text.find(',', from), text.size());
      const std::string word = text.substr(from, to - from);
      const std::size_t equals = std::min(word.find('='), word.size());
      double value = 0;
      const char* end = word.data() + word.size();
      const char* begin = std::min(word.data() + equals + 1, end);
      if (std::from_chars(begin, end, value).ptr != end || begin == end) {
        ThrowInput(782, "--baseline: '" + word + "' is not of the form mar=0.8 or step_time_s=1.2",
                   "--baseline mar=0.8,step_time_s=1.2, or a file");
      }
      take(word.substr(0, equals), value);
      from = to + 1;
    }
    return;
  }
  const JsonDocument document = ReadJsonFile(text);
  const Json* mar = document.root.Find("mar");
  if (const Json* alignment = document.root.Find("alignment");
      mar == nullptr && alignment != nullptr)
    mar = alignment->Find("mar");
  const Json* step = document.root.Find("step_time_s");
  if ((mar == nullptr || !mar->IsNumber()) && (step == nullptr || !step->IsNumber())) {
    ThrowInput(782, "'" + text + "' has neither a mar nor a step_time_s",
               R"({"mar": 0.8, "step_time_s": 1.2}, or what aurum simulate --json writes)");
  }
  if (mar != nullptr && mar->IsNumber() && mar->AsNumber() > 0) take("mar", mar->AsNumber());
  if (step != nullptr && step->IsNumber()) take("step_time_s", step->AsNumber());
}

std::string Told(const MonitorEvent& e) {
  using Kind = MonitorEvent::Kind;
  if (e.kind == Kind::kBaseline) return fmt::format("step {}: the baseline is known", e.step);
  std::string line =
      fmt::format("step {}: {} {}", e.step, SignalName(e.signal), MonitorEventName(e.kind));
  if (e.kind == Kind::kUndetermined) return line + ": " + e.reason;
  if (e.kind == Kind::kRaised || e.kind == Kind::kChanged) {
    line += fmt::format(" to level {}", e.level);
  }
  line += e.signal == Signal::kOpposed ? fmt::format(", r = {:.2f}", e.value)
                                       : fmt::format(" at {:.1f} %", 100 * e.value);
  for (std::size_t i = 0; i < e.actions.size(); ++i) {
    line += (i == 0 ? "; do: " : ", else ") + std::string(MonitorActionName(e.actions[i]));
    if (e.actions[i] == MonitorAction::kLowerSampling && !e.modality.empty())
      line += " of " + e.modality;
    if (e.actions[i] == MonitorAction::kDiagnose) line += " (aurum monitor LOG --diagnose)";
  }
  return line;
}

// One run of the monitor over a log: what it read and what it told.
struct Watch {
  StepReader reader;
  Monitor monitor;
  std::vector<MonitorEvent> events;  // of documents; a stream keeps none
  std::string log_run_id;
  std::int64_t rotations = 0, truncations = 0;
  // Of --diagnose: steps of the baseline and the last ones, with the times of their ranks.
  std::vector<StepRecord> healthy, recent;
  std::optional<Diagnosis> diagnosis;
  std::string no_diagnosis;  // why there is none although one was asked for
  // Of a given baseline: MAR of the log's first steps, which it may not go with.
  int first_steps = 0;
  std::vector<double> first_mar;

  explicit Watch(const MonitorRules& rules) : monitor(rules) {}
};

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

// The first and the last step that were looked at; records are in the log's order.
Json SpanJson(const std::vector<StepRecord>& records) {
  Json out = Json::Array();
  out.Append(records.front().step);
  out.Append(records.back().step);
  return out;
}

Json DiagnosisJson(const Watch& watch) {
  Json out = Json::Object();
  if (!watch.diagnosis) {
    out.Set("cause", Json());
    out.Set("reason", watch.no_diagnosis);
    return out;
  }
  const Diagnosis& d = *watch.diagnosis;
  out.Set("cause", RootCauseName(d.cause));
  if (d.cause != RootCause::kNone) out.Set("remedy", RootCauseRemedy(d.cause));
  out.Set("steps", SpanJson(watch.recent));
  out.Set("baseline_steps", SpanJson(watch.healthy));
  out.Set("excess_share", d.excess_share);
  out.Set("explained_share", d.explained_share);
  Json& ranks = out.Set("ranks", Json::Array());
  for (const int rank : d.ranks) ranks.Append(rank);
  Json& nodes = out.Set("nodes", Json::Array());
  for (const int node : d.nodes) nodes.Append(node);
  return out;
}

std::string List(const std::vector<int>& values) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 16); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + (values.size() > 16 ? ", …" : "");
}

std::string SpanText(const std::vector<StepRecord>& records) {
  const std::int64_t first = records.front().step, last = records.back().step;
  return first == last ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, last);
}

std::string DiagnosisText(const Watch& watch) {
  if (!watch.diagnosis) return "diagnosis: not possible: " + watch.no_diagnosis + "\n";
  const Diagnosis& d = *watch.diagnosis;
  std::string out =
      fmt::format("diagnosis of {} against {}: ", SpanText(watch.recent), SpanText(watch.healthy));
  if (d.cause == RootCause::kNone) {
    out += fmt::format("they take {:+.1f} %; nothing to explain\n", 100 * d.excess_share);
    const SignalState& slow = watch.monitor.signal(Signal::kSlowdown);
    if (slow.raised > 0 && slow.level == 0) {
      out +=
          "  an alarm of slowdown was cleared before; to look at its steps, end the log there: "
          "head -n LINE LOG | aurum monitor - --diagnose\n";
    }
    return out;
  }
  out += fmt::format("{}; explains {:.0f} % of the {:+.1f} %", RootCauseName(d.cause),
                     100 * d.explained_share, 100 * d.excess_share);
  if (!d.ranks.empty()) out += "; ranks " + List(d.ranks);
  if (!d.nodes.empty()) out += "; nodes " + List(d.nodes);
  return out + fmt::format("\n  do: {}\n", RootCauseRemedy(d.cause));
}

// The log may not have what a diagnosis needs. That is told, and takes nothing from the alarms.
void DiagnoseWatch(Watch* watch) {
  if (watch->healthy.empty() && watch->recent.empty()) {
    watch->no_diagnosis =
        "no record after the warm-up has the ranks' times (\"ranks\": [{\"rank\": 0, \"node\": 0, "
        "\"compute_s\": …}, …]; docs/monitor.md)";
    return;
  }
  if (watch->healthy.empty() || watch->recent.empty()) {
    watch->no_diagnosis = fmt::format(
        "the log has the ranks' times of {} alone, and {}",
        SpanText(watch->healthy.empty() ? watch->recent : watch->healthy),
        watch->healthy.empty() ? "none of the baseline's steps" : "no later step to compare");
    return;
  }
  try {
    watch->diagnosis = Diagnose(MeanOf(watch->healthy), MeanOf(watch->recent));
  } catch (const InputError& error) {
    watch->no_diagnosis = error.diagnostic().CodeName() + ": " + error.diagnostic().message;
  }
}

double MedianOfWindow(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// A plan's simulated MAR counts what its placement aligns, and a log's what its program does: where
// they differ from the start, every alarm of MAR is of that difference.
void WarnOfBaseline(const Options& options, const Watch& watch) {
  const MonitorRules& rules = watch.monitor.rules();
  if (!rules.baseline_mar || watch.first_mar.empty()) return;
  const double mar = MedianOfWindow(watch.first_mar);
  const double off = mar / *rules.baseline_mar - 1;
  if (BandOf(std::abs(off), rules) == 0) return;
  Diagnostic d;
  d.code = 1781;
  d.warning = true;
  d.message = fmt::format(
      "--baseline has a MAR of {:.4g}, the log's first {} steps have {:.4g} ({:+.1f} %): alarms of "
      "MAR tell this difference",
      *rules.baseline_mar, watch.first_mar.size(), mar, 100 * off);
  d.help =
      "if the log is well, leave its MAR to be learnt: --baseline step_time_s=…; else check that "
      "both count the same tokens";
  PrintWarnings(options, {d});
}

Json WatchJson(const Watch& watch, const MonitorCommandLine& command) {
  const StepReader& reader = watch.reader;
  Json out = Json::Object();
  out.Set("schema", "aurum.monitor/1");
  out.Set("tool_version", kToolVersion);
  Json log = Json::Object();
  log.Set("name", command.log);
  if (!watch.log_run_id.empty()) log.Set("run_id", watch.log_run_id);
  log.Set("lines", reader.lines());
  log.Set("records", reader.records());
  log.Set("bad_lines", reader.bad_lines());
  Json& reasons = log.Set("bad", Json::Array());
  for (const StepReader::Reason& reason : reader.reasons()) {
    Json& entry = reasons.Append(Json::Object());
    entry.Set("reason", reason.text);
    entry.Set("lines", reason.lines);
    entry.Set("first_line", reason.first_line);
  }
  log.Set("restarts", reader.restarts());
  log.Set("rotations", watch.rotations);
  log.Set("truncations", watch.truncations);
  const Monitor& monitor = watch.monitor;
  Json baseline = Json::Object();
  baseline.Set("mar", OrNull(monitor.baseline_mar()));
  baseline.Set("step_time_s", OrNull(monitor.baseline_step_s()));
  baseline.Set("given", !command.baseline.empty());
  baseline.Set("spread_share", monitor.baseline_spread());
  Json signals = Json::Object();
  for (int i = 0; i < kSignals; ++i) {
    const auto signal = static_cast<Signal>(i);
    const SignalState& state = monitor.signal(signal);
    Json& entry = signals.Set(SignalName(signal), Json::Object());
    entry.Set("level", state.level);
    entry.Set(signal == Signal::kOpposed ? "correlation" : "deviation_share", OrNull(state.value));
    entry.Set("undetermined", !state.value.has_value());
    if (!state.value) {
      entry.Set("reason", state.reason.empty() ? std::string("no baseline yet") : state.reason);
    }
    entry.Set("alarms", state.raised);
    if (state.level > 0) entry.Set("since_step", state.since_step);
  }
  Json events = Json::Array();
  for (const MonitorEvent& event : watch.events) events.Append(MonitorEventJson(event));
  if (command.diagnose) out.Set("diagnosis", DiagnosisJson(watch));
  // Of what was read and told: the same log gives the same id.
  out.Set("run_id", HashText(std::string(kToolVersion) + log.Dump() + baseline.Dump() +
                             events.Dump() + signals.Dump())
                        .Hex());
  out.Set("log", std::move(log));
  out.Set("baseline", std::move(baseline));
  out.Set("level", monitor.level());
  out.Set("alarms", monitor.raised());
  out.Set("signals", std::move(signals));
  out.Set("events", std::move(events));
  return out;
}

std::string WatchText(const Watch& watch, const MonitorCommandLine& command, Format format) {
  const Monitor& monitor = watch.monitor;
  std::string out;
  if (!command.follow) {
    for (const MonitorEvent& event : watch.events) out += Told(event) + "\n";
    if (!watch.events.empty()) out += "\n";
  }
  Table table({"signal", "now", "level", "alarms", ""}, "<>>><");
  for (int i = 0; i < kSignals; ++i) {
    const auto signal = static_cast<Signal>(i);
    const SignalState& s = monitor.signal(signal);
    const std::string now = !s.value                     ? "?"
                            : signal == Signal::kOpposed ? fmt::format("r = {:.2f}", *s.value)
                                                         : ShowPercent(*s.value);
    std::string note;
    if (!s.value) {
      note = "undetermined: " + (s.reason.empty() ? std::string("no baseline yet") : s.reason);
    } else if (s.level > 0) {
      note = fmt::format("since step {}", s.since_step);
    }
    table.Row({std::string(SignalName(signal)), now, std::to_string(s.level),
               std::to_string(s.raised), note});
  }
  out += table.As(format);
  const auto show = [](const std::optional<double>& value, const char* unit) {
    return value ? fmt::format("{:.4g}{}", *value, unit) : std::string("unknown");
  };
  out += fmt::format("\n{} steps of {} lines; baseline: step {}, MAR {}\n", watch.reader.records(),
                     watch.reader.lines(), show(monitor.baseline_step_s(), " s"),
                     show(monitor.baseline_mar(), ""));
  if (command.diagnose) out += DiagnosisText(watch);
  return out;
}

void WarnOfLines(const Options& options, const Watch& watch) {
  for (const StepReader::Reason& reason : watch.reader.reasons()) {
    Diagnostic d;
    d.code = 1780;
    d.warning = true;
    d.message = fmt::format("{} of {} lines are no step record: {} (first on line {})",
                            reason.lines, watch.reader.lines(), reason.text, reason.first_line);
    d.help = "docs/monitor.md has the format; other lines of a log do no harm";
    PrintWarnings(options, {d});
  }
}

}  // namespace

void AddMonitorOptions(CLI::App* command, MonitorCommandLine* line, Options* options) {
  MonitorRules& rules = line->rules;
  command->add_flag("-f,--follow", line->follow,
                    "go on as the log grows, through rotation and truncation, as tail -F does");
  command
      ->add_option("--idle", line->idle_s,
                   "of --follow: end after so many seconds without a new line (default: never)")
      ->check(CLI::Range(0.0, 1e7));
  command->add_option("--poll", line->poll_s, "of --follow: seconds between two looks at the file")
      ->check(CLI::Range(0.001, 3600.0));
  command->add_option("--baseline", line->baseline,
                      "mar=0.9,step_time_s=1.2, or a file with these keys, such as a result of "
                      "simulate --json (default: learnt from the first steps)");
  command
      ->add_option("--simulate", line->simulate,
                   "no log: a series, or a scenario, whose steps are simulated with faults; how "
                   "soon and how often in vain the rules tell, and what each action gives back")
      ->excludes(command->get_option("log"));
  command->add_flag("--diagnose", line->diagnose,
                    "what made the last steps slower than the baseline's, from the ranks' times in "
                    "the log");
  command
      ->add_option("--baseline-steps", rules.baseline_steps,
                   "whose median is the baseline, after the warm-up")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--warm-up", rules.warm_up, "steps at the start that are not looked at")
      ->check(CLI::Range(0, 1000000));
  command->add_option("--smooth", rules.smooth, "steps of the median that is judged")
      ->check(CLI::Range(1, 1000));
  command->add_option("--raise-after", rules.raise_after, "steps in a row that raise an alarm")
      ->check(CLI::Range(1, 1000));
  command->add_option("--clear-after", rules.clear_after, "steps in a row that clear it")
      ->check(CLI::Range(1, 100000));
  command->add_option("--window", rules.window, "steps of the correlation")
      ->check(CLI::Range(2, 100000));
  command->add_option("--non-critical", rules.non_critical,
                      "the modality whose sampling may be lowered (default: the one with the most "
                      "tokens)");
  command->add_option("--prometheus", options->prometheus,
                      "write the state in Prometheus' text format, anew after every look");
}

namespace {

Json SeriesJson(const Series& series, const std::vector<CaseScore>& scores) {
  Json out = Json::Object();
  out.Set("schema", "aurum.monitor-simulation/1");
  out.Set("tool_version", kToolVersion);
  Json cases = Json::Array();
  for (const CaseScore& score : scores) {
    Json& entry = cases.Append(Json::Object());
    entry.Set("name", score.name);
    entry.Set("healthy_step_time_s", score.healthy_s);
    entry.Set("faulty_step_time_s", score.faulty_s);
    Json& watchers = entry.Set("watchers", Json::Array());
    for (int w = 0; w < kWatchers; ++w) {
      const RuleScore& rule = score.by_watcher[static_cast<std::size_t>(w)];
      Json& one = watchers.Append(Json::Object());
      one.Set("watcher", WatcherName(static_cast<WatchedBy>(w)));
      one.Set("detected_share", rule.detected_share);
      one.Set("mean_delay_steps", rule.mean_delay_steps);
      one.Set("worst_delay_steps", rule.worst_delay_steps);
      one.Set("false_run_share", rule.false_run_share);
      one.Set("false_step_share", rule.false_step_share);
      one.Set("fault_step_share", rule.fault_step_share);
    }
    Json& actions = entry.Set("actions", Json::Array());
    for (const ActionEffect& effect : score.actions) {
      Json& one = actions.Append(Json::Object());
      one.Set("action", MonitorActionName(effect.action));
      if (!effect.refused.empty()) {
        one.Set("refused", effect.refused);
        continue;
      }
      one.Set("step_time_s", effect.step_s);
      one.Set("samples_per_s", effect.samples_per_s);
      one.Set("regained_share", OrNull(effect.regained_share));
      if (score.told_at) one.Set("mean_step_time_after_s", effect.mean_step_s);
    }
  }
  out.Set("run_id",
          HashText(std::string(kToolVersion) + series.scenario.root.Dump() + cases.Dump()).Hex());
  out.Set("name", series.name);
  out.Set("steps", series.steps);
  out.Set("fault_step", series.fault_step);
  out.Set("seeds", series.seeds);
  out.Set("cases", std::move(cases));
  return out;
}

}  // namespace

ExitCode MonitorSimulateCommand(const Options& options, const MonitorCommandLine& command) {
  InputCache cache(options.data_root);
  JsonDocument document = ReadJsonFile(command.simulate);
  const Json* schema = document.root.Find("schema");
  if (schema == nullptr || !schema->IsString() || schema->AsString() != "aurum.series/1")
    document = OpenScenario(options, command.simulate);
  Series series = ReadSeries(document, options.data_root, &cache);
  const MonitorRules& rules = command.rules;
  series.rules = rules;
  Monitor check(rules);
  if (rules.warm_up + rules.baseline_steps >= series.fault_step) {
    ThrowInput(785, "the fault begins before there is a baseline",
               "fewer --warm-up and --baseline-steps, or a later fault_step");
  }
  const std::vector<CaseScore> scores = ScoreSeries(series, &cache);
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    WriteOutput(options,
                SeriesJson(series, scores).Dump(options.format == Format::kJson ? 2 : -1) + "\n");
    return ExitCode::kOk;
  }
  const auto percent = [](double share) { return ShowPercent(share); };
  Table watchers({"case", "watched by", "told", "delay, mean", "worst", "false alarms: runs",
                  "healthy steps", "faulty steps"},
                 "<<>>>>>>");
  Table actions(
      {"case", "healthy", "with the fault", "told at", "action", "step", "regained", "samples/s"},
      "<>>><>>>");
  for (const CaseScore& score : scores) {
    const bool healthy = &score == &scores.front();
    for (int w = 0; w < kWatchers; ++w) {
      const RuleScore& rule = score.by_watcher[static_cast<std::size_t>(w)];
      watchers.Row(
          {w == 0 ? score.name : "", std::string(WatcherName(static_cast<WatchedBy>(w))),
           healthy ? "" : percent(rule.detected_share),
           healthy || rule.detected_share == 0 ? ""
                                               : fmt::format("{:.1f} steps", rule.mean_delay_steps),
           healthy || rule.detected_share == 0 ? "" : std::to_string(rule.worst_delay_steps),
           percent(rule.false_run_share), percent(rule.false_step_share),
           healthy ? "" : percent(rule.fault_step_share)});
    }
    for (const ActionEffect& effect : score.actions) {
      const bool first = &effect == &score.actions.front();
      actions.Row({first ? score.name : "", first ? ShowSeconds(score.healthy_s) : "",
                   first ? ShowSeconds(score.faulty_s) : "",
                   first && score.told_at ? fmt::format("step {}", *score.told_at) : "",
                   std::string(MonitorActionName(effect.action)),
                   effect.refused.empty() ? ShowSeconds(effect.step_s) : effect.refused,
                   !effect.refused.empty() ? ""
                   : effect.regained_share ? percent(*effect.regained_share)
                                           : "–",
                   effect.refused.empty() ? ShowNumber(effect.samples_per_s) : ""});
    }
  }
  std::string out = watchers.As(options.format);
  if (options.format != Format::kCsv) {
    out +=
        "\ntold: share of runs with an alarm after the fault began; false alarms: share of runs "
        "with an alarm before it, then of steps under alarm: healthy ones (false), and faulty "
        "ones (right, the more the better)\n";
    out += "\n" + actions.As(options.format);
    out +=
        "\nregained: share of what the fault costs that the action gives back; –: it costs less "
        "than 0.5 % of the step\n";
    out += fmt::format(
        "\n{} runs of {} steps of each case, the fault from step {}; of five independent pairs, "
        "|r| < 0.65 in {} of all cases\n",
        series.seeds, series.steps, series.fault_step, percent(ChanceOfWeakCorrelation(5, 0.65)));
  }
  WriteOutput(options, out);
  return ExitCode::kOk;
}

ExitCode MonitorCommand(const Options& options, const MonitorCommandLine& command) {
  if (!command.simulate.empty()) return MonitorSimulateCommand(options, command);
  if (command.log.empty()) {
    ThrowInput(1, "no log is named", "aurum monitor LOG, - for standard input, or --simulate FILE",
               ExitCode::kUsage);
  }
  MonitorRules rules = command.rules;
  if (!command.baseline.empty()) ReadBaseline(command.baseline, &rules);
  Watch watch(rules);
  LogTail tail(command.log);
  const bool stream = options.format == Format::kJsonLines || command.follow;
  if (stream && options.format != Format::kJsonLines && options.format != Format::kTable) {
    ThrowInput(1, "--follow tells events as they come: as text or as --format jsonl",
               "--follow --format jsonl", ExitCode::kUsage);
  }
  if (stream && !options.output.empty()) {
    ThrowInput(1, "events that are told as they come go to standard output",
               "aurum monitor … --format jsonl > FILE", ExitCode::kUsage);
  }
  const auto metrics = [&] {
    if (!options.prometheus.empty())
      WriteTextFile(options.prometheus, Exposition(MonitorMetrics(watch.monitor, watch.reader)));
  };

  const Interrupts interrupts;
  using Clock = std::chrono::steady_clock;
  auto last_line = Clock::now();
  std::int64_t overlong = 0;
  std::vector<std::string> lines;
  bool last = false;
  while (!last) {
    lines.clear();
    if (!g_watch_ended) tail.Poll(&lines);
    last = g_watch_ended || tail.ended() ||
           (!tail.more() &&
            (!command.follow ||
             (command.idle_s > 0 && lines.empty() &&
              std::chrono::duration<double>(Clock::now() - last_line).count() > command.idle_s)));
    if (command.log == "-" && !tail.ended() && !g_watch_ended) last = false;
    if (last) tail.Finish(&lines);
    for (; overlong < tail.overlong(); ++overlong) watch.reader.CountOverlong();
    for (const std::string& line : lines) {
      const std::optional<StepRecord> record = watch.reader.Read(line);
      if (!record) continue;
      if (watch.log_run_id.empty()) watch.log_run_id = record->run_id;
      if (watch.monitor.steps() >= rules.warm_up && watch.first_steps < rules.baseline_steps) {
        ++watch.first_steps;
        if (record->mar) watch.first_mar.push_back(*record->mar);
        if (watch.first_steps == rules.baseline_steps) WarnOfBaseline(options, watch);
      }
      if (command.diagnose && !record->ranks.empty()) {
        const int most = rules.baseline_steps;
        if (watch.monitor.steps() >= rules.warm_up &&
            static_cast<int>(watch.healthy.size()) < most) {
          watch.healthy.push_back(*record);
        } else {
          watch.recent.push_back(*record);
          if (static_cast<int>(watch.recent.size()) > rules.smooth)
            watch.recent.erase(watch.recent.begin());
        }
      }
      for (const MonitorEvent& event : watch.monitor.Add(*record)) {
        if (!stream) {
          watch.events.push_back(event);
        } else if (options.format == Format::kJsonLines) {
          WriteOutput(options, MonitorEventJson(event).Dump() + "\n");
        } else {
          WriteOutput(options, Told(event) + "\n");
        }
      }
    }
    if (!lines.empty()) {
      last_line = Clock::now();
      metrics();
    } else if (!last && !tail.more() && command.log != "-") {
      // In pieces: an interrupt or the end of --idle is not waited for longer than one of them.
      constexpr double kPiece = 0.2;
      const auto begin = Clock::now();
      const auto since = [](Clock::time_point from) {
        return std::chrono::duration<double>(Clock::now() - from).count();
      };
      while (!g_watch_ended && since(begin) < command.poll_s &&
             !(command.idle_s > 0 && since(last_line) > command.idle_s)) {
        std::this_thread::sleep_for(
            std::chrono::duration<double>(std::min(kPiece, command.poll_s)));
      }
    }
  }
  watch.rotations = tail.rotations();
  watch.truncations = tail.truncations();
  metrics();
  WarnOfLines(options, watch);
  if (watch.first_steps < rules.baseline_steps) WarnOfBaseline(options, watch);
  if (watch.reader.records() == 0) {
    ThrowInput(780, "no line of '" + command.log + "' is a step record",
               R"(one object a line: {"step": 1, "step_time_s": 1.2, "mar": 0.9})");
  }
  if (command.diagnose) DiagnoseWatch(&watch);
  if (options.format == Format::kJson) {
    WriteOutput(options, WatchJson(watch, command).Dump(2) + "\n");
  } else if (options.format == Format::kJsonLines) {
    if (command.diagnose) {
      Json line = Json::Object();
      line.Set("event", "diagnosis");
      const Json diagnosis = DiagnosisJson(watch);
      for (const auto& [key, value] : diagnosis.members()) line.Set(key, value);
      WriteOutput(options, line.Dump() + "\n");
    }
  } else {
    WriteOutput(options, WatchText(watch, command, options.format));
  }
  if (watch.monitor.raised() > 0) return ExitCode::kOutsideTolerance;
  if (!watch.monitor.HasBaseline()) {
    Diagnostic d;
    d.code = 781;
    d.message = fmt::format(
        "the log ends before there is a baseline: {} more steps would do, after the {} that warm "
        "up",
        watch.monitor.BaselineStepsMissing(), rules.warm_up);
    d.help =
        "--baseline-steps, or --baseline mar=…,step_time_s=…; nothing was watched, which is not "
        "the same as no alarm";
    PrintDiagnostic(options, d);
    return ExitCode::kPartial;
  }
  return g_watch_ended ? ExitCode::kInterrupted : ExitCode::kOk;
}

}  // namespace aurum
