#include "reports/run_island.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "real/op_names.h"
#include "reports/island.h"
#include "reports/text.h"
#include "reports/timeline.h"
#include "sim/core/hash.h"
#include "sim/core/rounding.h"
#include "sim/plan/plan.h"

namespace aurum {
namespace {

constexpr std::size_t kMostEvents = 4000;
constexpr std::size_t kMostRanks = 8;

// What is drawn: one op of one rank, or neighbours of one kind that were joined.
struct RunEvent {
  std::size_t rank = 0;  // index of the ranks shown
  std::string lane, kind;
  std::int32_t micro_batch = -1;
  std::string module;
  double predicted_start_s = 0, predicted_end_s = 0, measured_start_s = 0, measured_end_s = 0;
  double predicted_s = 0, measured_s = 0;  // of the ops themselves, without what lies between
  std::int64_t ops = 1;
  bool on_path = false;
};

// All ranks, or of many the first, the last, the busiest and others evenly between.
std::vector<int> ShownRanks(const RunRecord& record, int busiest) {
  std::vector<int> ranks;
  for (const RankFacts& facts : record.ranks) ranks.push_back(facts.rank);
  std::sort(ranks.begin(), ranks.end());
  if (ranks.size() <= kMostRanks) return ranks;
  std::set<int> shown = {ranks.front(), ranks.back(), busiest};
  for (std::size_t i = 1; shown.size() < kMostRanks && i < kMostRanks; ++i)
    shown.insert(ranks[i * ranks.size() / kMostRanks]);
  return {shown.begin(), shown.end()};
}

std::vector<RunEvent> EventsOf(const RunRecord& record, const RunComparison& comparison,
                               const Executable& predicted, const std::vector<int>& shown) {
  const Model& model = *predicted.scenario.model;
  std::map<int, std::size_t> index;
  for (std::size_t i = 0; i < shown.size(); ++i) index[shown[i]] = i;
  std::vector<RunEvent> events;
  for (const ComparedOp& op : comparison.ops) {
    const TimedOp& timed = record.ops[op.timed];
    const auto rank = index.find(timed.rank);
    if (rank == index.end()) continue;
    if (op.predicted_start_s == op.predicted_end_s && op.measured_start_s == op.measured_end_s)
      continue;
    RunEvent event;
    event.rank = rank->second;
    const std::string lane = EventLane(timed.lane);
    event.lane = lane.empty() ? "pp" : lane;
    const OpInfo& info = predicted.program.info[timed.op];
    event.kind = timed.receives ? "receive" : EventKind(model, info);
    event.micro_batch = timed.micro_batch;
    if (timed.module >= 0)
      event.module = model.modules[static_cast<std::size_t>(timed.module)].name;
    event.predicted_start_s = op.predicted_start_s;
    event.predicted_end_s = op.predicted_end_s;
    event.measured_start_s = op.measured_start_s;
    event.measured_end_s = op.measured_end_s;
    event.predicted_s = op.predicted_end_s - op.predicted_start_s;
    event.measured_s = op.measured_end_s - op.measured_start_s;
    event.on_path = op.on_path;
    events.push_back(std::move(event));
  }
  return events;
}

// Joins neighbours of one lane and kind; of one micro-batch each, or of any.
std::vector<RunEvent> Joined(std::vector<RunEvent> events, bool across_micro_batches) {
  std::stable_sort(events.begin(), events.end(), [](const RunEvent& a, const RunEvent& b) {
    return std::tie(a.rank, a.lane, a.measured_start_s) <
           std::tie(b.rank, b.lane, b.measured_start_s);
  });
  std::vector<RunEvent> out;
  for (RunEvent& event : events) {
    if (!out.empty()) {
      RunEvent& last = out.back();
      if (last.rank == event.rank && last.lane == event.lane && last.kind == event.kind &&
          (across_micro_batches || last.micro_batch == event.micro_batch)) {
        last.predicted_start_s = std::min(last.predicted_start_s, event.predicted_start_s);
        last.predicted_end_s = std::max(last.predicted_end_s, event.predicted_end_s);
        last.measured_end_s = std::max(last.measured_end_s, event.measured_end_s);
        last.predicted_s += event.predicted_s;
        last.measured_s += event.measured_s;
        last.ops += event.ops;
        last.on_path = last.on_path || event.on_path;
        if (last.micro_batch != event.micro_batch) last.micro_batch = -1;
        if (last.module != event.module) last.module.clear();
        continue;
      }
    }
    out.push_back(std::move(event));
  }
  return out;
}

Json MetricsJson(const RunComparison& comparison) {
  Json out = Json::Array();
  for (const RunMetric& m : comparison.metrics) {
    Json metric = Json::Object();
    metric.Set("name", m.name);
    metric.Set("predicted", SixDigits(m.predicted));
    metric.Set("measured", SixDigits(m.measured));
    metric.Set("relative_error", RoundSignificant(m.RelativeError(), 4));
    if (!m.of.empty()) metric.Set("of", m.of);
    out.Append(std::move(metric));
  }
  return out;
}

Json ClassesJson(const RunComparison& comparison) {
  Json out = Json::Array();
  for (const OpClassTime& t : comparison.classes) {
    Json line = Json::Object();
    line.Set("name", OpKindName(t.what));
    line.Set("modelled", t.modelled);
    line.Set("count", static_cast<std::int64_t>(t.count));
    line.Set("predicted_s", SixDigits(t.predicted_s));
    line.Set("measured_s", SixDigits(t.measured_s));
    line.Set("waiting_s", SixDigits(t.waiting_s));
    line.Set("busiest_predicted_s", SixDigits(t.busiest_predicted_s));
    line.Set("busiest_measured_s", SixDigits(t.busiest_measured_s));
    out.Append(std::move(line));
  }
  return out;
}

Json PartsJson(const RunComparison& comparison, const Model& model) {
  Json out = Json::Array();
  for (const ErrorPart& p : comparison.parts) {
    Json part = Json::Object();
    part.Set("part", ErrorPartName(p.kind));
    part.Set("name", NameOf(p, model));
    if (!p.mostly.empty()) part.Set("mostly", p.mostly);
    if (p.kind == ErrorPartKind::kOps) {
      part.Set("count", static_cast<std::int64_t>(p.count));
      part.Set("predicted_s", SixDigits(p.predicted_s));
      part.Set("measured_s", SixDigits(p.measured_s));
    }
    part.Set("difference_s", SixDigits(p.difference_s));
    part.Set("share_of_error", RoundSignificant(p.share_of_error, 4));
    out.Append(std::move(part));
  }
  return out;
}

Json RanksJson(const RunRecord& record) {
  Json out = Json::Array();
  for (const RankFacts& facts : record.ranks) {
    Json rank = Json::Object();
    rank.Set("rank", facts.rank);
    rank.Set("host", facts.host);
    rank.Set("device", facts.device);
    // What is not known is left out.
    if (facts.peak_memory_bytes > 0)
      rank.Set("peak_gib", SixDigits(facts.peak_memory_bytes / (1024.0 * 1024 * 1024)));
    if (facts.clock_before_mhz > 0) rank.Set("clock_before_mhz", SixDigits(facts.clock_before_mhz));
    if (facts.clock_after_mhz > 0) rank.Set("clock_after_mhz", SixDigits(facts.clock_after_mhz));
    rank.Set("throttled_share", RoundSignificant(facts.throttled_share, 4));
    out.Append(std::move(rank));
  }
  return out;
}

Json ChecksJson(const RunRecord& record) {
  Json out = Json::Array();
  for (const RunCheck& check : record.checks) {
    Json item = Json::Object();
    item.Set("name", check.name);
    item.Set("passed", check.passed);
    item.Set("detail", check.detail);
    out.Append(std::move(item));
  }
  return out;
}

Json TimelinesJson(const RunRecord& record, const RunComparison& comparison,
                   const Executable& predicted) {
  std::vector<int> shown = ShownRanks(record, comparison.busiest_rank);
  std::vector<RunEvent> events = EventsOf(record, comparison, predicted, shown);
  const std::size_t ops = events.size();
  if (events.size() > kMostEvents) events = Joined(std::move(events), false);
  if (events.size() > kMostEvents) events = Joined(std::move(events), true);
  while (events.size() > kMostEvents && shown.size() > 1) {
    shown.pop_back();
    std::erase_if(events, [&](const RunEvent& event) { return event.rank >= shown.size(); });
  }
  Json out = Json::Object();
  Json ranks = Json::Array();
  for (const int rank : shown) {
    const auto facts = std::find_if(record.ranks.begin(), record.ranks.end(),
                                    [&](const RankFacts& f) { return f.rank == rank; });
    Json item = Json::Object();
    item.Set("rank", rank);
    const RankClass& of = predicted.program.classes[predicted.program.ClassOf(rank)];
    item.Set("layers", of.layers);
    item.Set("device", facts->device);
    ranks.Append(std::move(item));
  }
  out.Set("ranks", std::move(ranks));
  out.Set("joined", events.size() < ops);
  out.Set("columns",
          Json::Array({"rank", "lane", "kind", "module", "microbatch", "predicted_start_s",
                       "predicted_end_s", "measured_start_s", "measured_end_s", "predicted_s",
                       "measured_s", "ops", "critical"}));
  Json list = Json::Array();
  for (const RunEvent& e : events) {
    Json row = Json::Array();
    row.Append(static_cast<std::int64_t>(e.rank));
    row.Append(e.lane);
    row.Append(e.kind);
    row.Append(e.module.empty() ? Json() : Json(e.module));
    row.Append(e.micro_batch < 0 ? Json() : Json(static_cast<int>(e.micro_batch)));
    for (const double seconds : {e.predicted_start_s, e.predicted_end_s, e.measured_start_s,
                                 e.measured_end_s, e.predicted_s, e.measured_s})
      row.Append(RoundSignificant(seconds, 7));
    row.Append(e.ops);
    row.Append(e.on_path ? 1 : 0);
    list.Append(std::move(row));
  }
  out.Set("events", std::move(list));
  return out;
}

std::string AnswerOf(const RunRecord& record, const RunComparison& comparison,
                     const Executable& predicted, double tolerance) {
  const RunMetric& step = comparison.Judged();
  const bool within = std::abs(step.RelativeError()) <= tolerance;
  std::string out = fmt::format(
      "{} {} predicted, {} measured: {}, {} the tolerance of {}.",
      within ? "Yes:" : "No:", SecondsText(step.predicted, 4), SecondsText(step.measured, 4),
      SignedPercentText(step.RelativeError()), within ? "within" : "outside",
      PercentText(tolerance, tolerance < 0.1 && tolerance * 100 != std::round(tolerance * 100)));
  if (record.lone_rank >= 0)
    out +=
        fmt::format(" Rank {} ran alone; what others take part in was modelled.", record.lone_rank);
  if (!within) {
    std::string why = ExplainError(comparison, predicted);
    if (!why.empty() && why[0] >= 'a' && why[0] <= 'z') why[0] = static_cast<char>(why[0] - 32);
    out += " " + why + ".";
  }
  const auto failed = std::count_if(record.checks.begin(), record.checks.end(),
                                    [](const RunCheck& check) { return !check.passed; });
  if (failed > 0) out += fmt::format(" The run failed {} of its checks.", failed);
  return out;
}

std::string DifferenceFinding(const RunComparison& comparison, const Executable& predicted) {
  const RunMetric& step = comparison.Step();
  if (std::abs(step.RelativeError()) < 1e-6) return "There is no difference to explain.";
  std::string out = fmt::format("The measured step is {} {} than predicted",
                                SecondsText(std::abs(step.measured - step.predicted)),
                                step.measured > step.predicted ? "longer" : "shorter");
  return out + ": " + ExplainError(comparison, predicted) + ".";
}

}  // namespace

Json RunIsland(const RunRecord& record, const RunComparison& comparison,
               const Executable& predicted, const RunOrigin& origin) {
  const Scenario& scenario = predicted.scenario;
  const RunMetric& step = comparison.Step();
  Json island = Json::Object();
  island.Set("schema", "aurum.report/1");
  island.Set("tool_version", origin.report.tool_version);
  island.Set("run_id", HashText(origin.run_hash + scenario.profile->name + origin.level +
                                origin.report.tool_version + Json(step.predicted).Dump())
                           .Hex());
  island.Set("generated_at", origin.report.generated_at);
  const std::string name = record.scenario_name.empty() ? origin.run : record.scenario_name;
  island.Set("title", "Predicted and measured: " + name);
  island.Set("question", "Did the step take as long as predicted?");
  island.Set("answer", AnswerOf(record, comparison, predicted, origin.tolerance));
  std::map<std::string, int> devices;
  for (const RankFacts& facts : record.ranks)
    ++devices[facts.device.empty() ? "a device without a name" : facts.device];
  std::string hardware;
  for (const auto& [device, count] : devices)
    hardware += fmt::format("{}{} × {}", hardware.empty() ? "" : ", ", count, device);
  island.Set("hardware", fmt::format("Run on {} ({} backend, measured by {}); predicted with the "
                                     "profile {} of {}.",
                                     hardware, record.backend, record.clock, scenario.profile->name,
                                     scenario.profile->device.name));
  island.Set("command", origin.report.command);
  Json facts = Json::Array();
  const auto fact = [&](const std::string& key, const std::string& text) {
    facts.Append(Json::Array({key, text}));
  };
  fact("Run", origin.run + ", " + origin.run_hash);
  fact("Executed", record.command_line + ", " + record.date + ", " + record.tool_version);
  for (const auto& [what, version] : record.versions) fact(what, version);
  fact("Model", scenario.model->name);
  fact("Plan", DescribePlan(scenario.plan));
  fact("Stack", scenario.stack->name);
  fact("Level", origin.level);
  fact("Shape of the plan", record.shape);
  fact("Seed", std::to_string(record.seed));
  fact("Errors", "predicted / measured − 1");
  for (const Scenario::Input& input : scenario.inputs)
    fact("Input: " + input.role, input.name + ", " + input.hash);
  for (const std::string& text : comparison.scenario_differences)
    fact("Not the document that was run", text);
  island.Set("facts", std::move(facts));

  Json findings = Json::Object();
  findings.Set(
      "run", fmt::format("{} whole steps after {} to warm up, {} of them undisturbed; they vary by "
                         "{}. Nothing that was measured enters the prediction.",
                         record.steps_s.size(), record.warm_up, record.clean_steps_s.size(),
                         PercentText(record.variation)));
  findings.Set("difference", DifferenceFinding(comparison, predicted));
  island.Set("findings", std::move(findings));

  Json run = Json::Object();
  run.Set("backend", record.backend);
  run.Set("within_tolerance", std::abs(comparison.Judged().RelativeError()) <= origin.tolerance);
  run.Set("tolerance", RoundSignificant(origin.tolerance, 4));
  run.Set("metrics", MetricsJson(comparison));
  run.Set("steps_s", Json::Array());
  for (const double seconds : record.steps_s) run.Find("steps_s")->Append(SixDigits(seconds));
  if (comparison.wall_step_s > 0) run.Set("wall_step_time_s", SixDigits(comparison.wall_step_s));
  if (comparison.timed_step_s > 0) run.Set("timed_step_time_s", SixDigits(comparison.timed_step_s));
  if (!comparison.ops.empty()) run.Set("timelines", TimelinesJson(record, comparison, predicted));
  run.Set("parts", PartsJson(comparison, *scenario.model));
  run.Set("classes", ClassesJson(comparison));
  run.Set("busiest_rank", comparison.busiest_rank);
  run.Set("ranks", RanksJson(record));
  run.Set("checks", ChecksJson(record));
  island.Set("run", std::move(run));

  Json warnings = Json::Array();
  const auto warn = [&](const std::string& code, const std::string& text,
                        const std::string& where) {
    Json warning = Json::Object();
    warning.Set("code", code);
    warning.Set("text", text);
    warning.Set("where", where);
    warnings.Append(std::move(warning));
  };
  for (const Diagnostic& d : comparison.warnings) warn(d.CodeName(), d.message, d.help);
  for (const Diagnostic& d : scenario.warnings) warn(d.CodeName(), d.message, d.where.pointer);
  for (const std::string& text : record.warnings) warn("run", text, "while it ran");
  island.Set("warnings", std::move(warnings));
  island.Set("assumptions", Json::Array());
  return island;
}

}  // namespace aurum
