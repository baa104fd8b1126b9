#include "reports/published_island.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "reports/island.h"
#include "reports/text.h"
#include "sim/core/hash.h"

namespace aurum {
namespace {

constexpr std::size_t kWorst = 20;
constexpr double kShownShare = 0.005;  // of the step: a smaller term is not worth a word

// One part of a predicted step. `kind` is the colour that the page gives to its cause.
struct Term {
  const char* name;
  const char* kind;
  double seconds;
};

// The exposed communication by what was waited for, and everything else as it is. What the kinds do
// not account for of the exposed communication and of the bubbles stays visible under a name of its own.
std::vector<Term> TermsOf(const TimeBreakdown& t) {
  const double named_comm =
      t.dp_gather_s + t.dp_reduce_s + t.tp_s + t.pp_transfer_s + t.cp_s + t.ep_s + t.host_s;
  std::vector<Term> all = {
      {"compute", "compute", t.compute_s},
      {"tensor-parallel exchange", "comm", t.tp_s},
      {"expert-parallel exchange", "comm", t.ep_s},
      {"context-parallel exchange", "comm", t.cp_s},
      {"parameter gathers", "gradient", t.dp_gather_s},
      {"gradient reductions", "gradient", t.dp_reduce_s},
      {"pipeline transfers", "pp", t.pp_transfer_s},
      {"offload transfers", "comm", t.host_s},
      {"other communication", "comm", t.exposed_comm_s - named_comm},
      {"pipeline bubbles", "bubble", t.bubble_s},
      {"wait for a slower rank", "bubble", t.straggler_wait_s},
      {"alignment wait", "align", t.alignment_wait_s},
      {"host and data", "data", t.data_wait_s},
      {"optimizer", "optimizer", t.optimizer_s},
  };
  const double least = 1e-9 * std::max(1e-9, t.Sum());
  std::erase_if(all, [&](const Term& term) { return term.seconds <= least; });
  return all;
}

Json TermsJson(const TimeBreakdown& time) {
  Json out = Json::Array();
  for (const Term& term : TermsOf(time)) {
    Json item = Json::Object();
    item.Set("name", term.name);
    item.Set("kind", term.kind);
    item.Set("s", SixDigits(term.seconds));
    out.Append(std::move(item));
  }
  return out;
}

bool IsTime(const MetricRow& row) { return row.metric == kIterationMetric; }

std::string Shown(const MetricRow& row, double value) {
  return IsTime(row) ? SecondsText(value) : NumberText(value) + " GiB";
}

const char* NameOf(const std::string& metric) {
  return metric == kIterationMetric ? "step time" : "peak memory";
}

// Where the measurement lies against what the prediction allows.
std::string BoundsText(const MetricRow& row) {
  const auto against = [&](double low, double high) {
    return row.measured < low ? "below" : row.measured > high ? "above" : "inside";
  };
  std::string out;
  if (row.low && *row.high > *row.low * (1 + 1e-9)) {
    out += fmt::format(
        "What is not told moves the prediction from {} to {}: the measurement lies {}. ",
        Shown(row, *row.low), Shown(row, *row.high), against(*row.low, *row.high));
  }
  out += fmt::format("The 90 % interval reaches from {} to {}: {} lies {}.",
                     Shown(row, row.band_low), Shown(row, row.band_high),
                     out.empty() ? "the measurement" : "it", against(row.band_low, row.band_high));
  return out;
}

// What a step time that is off is made of, and how large the gap is beside its terms.
std::string StepText(const MetricRow& row) {
  const TimeBreakdown& t = *row.time;
  std::string out = "Predicted: " + TermsText(t);
  if (t.slowed_s > kShownShare * row.predicted)
    out += fmt::format("; hidden communication slows the compute by {}", SecondsText(t.slowed_s));
  out += ". ";
  if (row.model_flops > 0) {
    out += fmt::format("{} model TFLOP/s per GPU predicted, {} measured. ",
                       NumberText(row.model_flops / row.predicted / 1e12),
                       NumberText(row.model_flops / row.measured / 1e12));
  }
  const double gap = row.measured - row.predicted;
  const std::vector<Term> terms = TermsOf(t);
  const auto largest =
      std::max_element(terms.begin(), terms.end(),
                       [](const Term& a, const Term& b) { return a.seconds < b.seconds; });
  if (largest != terms.end()) {
    out += fmt::format("The measured step is {} {}: {} of the {} predicted.",
                       SecondsText(std::abs(gap)), gap > 0 ? "longer" : "shorter",
                       PercentText(std::abs(gap) / largest->seconds, 0), largest->name);
  }
  return out;
}

std::string MemoryText(const MetricRow& row) {
  const double gap = row.measured - row.predicted;
  return fmt::format("{} GiB {} than predicted were measured.", NumberText(std::abs(gap)),
                     gap > 0 ? "more" : "less");
}

Json ScoreJson(const Score& score) {
  Json out = Json::Object();
  const auto set = [&](const char* key, const std::optional<double>& value) {
    out.Set(key, value ? Json(RoundSignificant(*value, 4)) : Json());
  };
  out.Set("n", score.n);
  out.Set("skipped", score.skipped);
  out.Set("clusters", score.clusters);
  set("mape", score.mape);
  set("median_ape", score.median_ape);
  set("p90_ape", score.p90_ape);
  set("bias", score.bias);
  set("kendall_tau", score.kendall_tau);
  set("cluster_mape", score.cluster_mape);
  set("coverage_90", score.coverage_90);
  return out;
}

Json RowJson(const MetricRow& row) {
  Json out = Json::Object();
  out.Set("id", row.id);
  out.Set("metric", row.metric);
  out.Set("source", row.source);
  out.Set("what", row.what);
  out.Set("measured", SixDigits(row.measured));
  out.Set("predicted", SixDigits(row.predicted));
  out.Set("relative_error", RoundSignificant(row.predicted / row.measured - 1, 4));
  out.Set("band_low", SixDigits(row.band_low));
  out.Set("band_high", SixDigits(row.band_high));
  return out;
}

Json WorstJson(const MetricRow& row) {
  Json out = RowJson(row);
  if (row.low && *row.high > *row.low * (1 + 1e-9)) {
    out.Set("low", SixDigits(*row.low));
    out.Set("high", SixDigits(*row.high));
  }
  if (row.time) out.Set("terms", TermsJson(*row.time));
  out.Set("explanation", row.time ? StepText(row) : MemoryText(row));
  out.Set("bounds", BoundsText(row));
  Json assumed = Json::Array();
  for (const std::string& note : row.assumed) assumed.Append(note);
  out.Set("assumed", std::move(assumed));
  return out;
}

Json SkippedJson(const PublishedReport& report) {
  std::map<std::string, std::vector<std::string>> ids;
  for (const MetricRow& row : report.rows)
    if (!row.skipped.empty()) ids[row.skipped].push_back(row.id);
  Json out = Json::Array();
  for (const auto& [reason, rows] : SkipReasons(report)) {
    Json item = Json::Object();
    item.Set("reason", reason);
    item.Set("rows", rows);
    Json names = Json::Array();
    std::set<std::string> seen;  // a record has a row for its time and one for its memory
    for (const std::string& id : ids[reason])
      if (seen.insert(id).second) names.Append(id);
    item.Set("ids", std::move(names));
    out.Append(std::move(item));
  }
  return out;
}

Json FitsJson(const PublishedReport& report) {
  const FitCounts counts = CountFits(report);
  Json out = Json::Array();
  for (const std::size_t reported : {0U, 1U}) {
    Json line = Json::Object();
    line.Set("reported", reported == 0 ? "ran out of memory" : "ran");
    line.Set("predicted_oom", counts[reported][0]);
    line.Set("predicted_at_risk", counts[reported][1]);
    line.Set("predicted_fits", counts[reported][2]);
    out.Append(std::move(line));
  }
  return out;
}

Json RankingJson(const PublishedReport& report) {
  Json out = Json::Array();
  for (const RankedSet& set : report.ranked) {
    Json item = Json::Object();
    item.Set("set", set.set);
    Json plans = Json::Array();
    for (std::size_t i = 0; i < set.ids.size(); ++i) {
      Json plan = Json::Object();
      plan.Set("id", set.ids[i]);
      plan.Set("measured_s", SixDigits(set.measured_s[i]));
      plan.Set("predicted_s", SixDigits(set.predicted_s[i]));
      plans.Append(std::move(plan));
    }
    item.Set("plans", std::move(plans));
    item.Set("kendall_tau", set.kendall_tau ? Json(RoundSignificant(*set.kendall_tau, 4)) : Json());
    out.Append(std::move(item));
  }
  return out;
}

// "Step time: off by 14.1 % in the mean over 573 rows of 30 sources (median 9.2 %, bias −1.0 %), and
// 88 % of the measurements lie inside the 90 % interval."
std::string AnswerOf(const PublishedReport& report) {
  std::string out;
  for (const char* metric : {kIterationMetric, kMemoryMetric}) {
    const Score score = report.ScoreOf(metric);
    if (score.n == 0) continue;
    std::int64_t sources = 0;
    for (const std::string& source : report.Sources())
      sources += report.ScoreOf(metric, source).n > 0 ? 1 : 0;
    std::string name = NameOf(metric);
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    out +=
        fmt::format("{}{}: off by {} in the mean over {} row{} of {} source{} (median {}, bias {})",
                    out.empty() ? "" : " ", name, PercentText(*score.mape), score.n,
                    score.n == 1 ? "" : "s", sources, sources == 1 ? "" : "s",
                    PercentText(*score.median_ape), SignedPercentText(*score.bias));
    if (score.coverage_90)
      out += fmt::format("; {} of the measurements lie inside the 90 % interval",
                         PercentText(*score.coverage_90, 0));
    out += ".";
  }
  if (out.empty()) out = "No row of this file could be compared; the reasons are below.";
  return out;
}

// The best and the worst of the sources that have a few rows.
std::string FindingOf(const PublishedReport& report) {
  constexpr std::int64_t kFew = 3;
  std::string best, worst;
  double least = 0, most = 0;
  for (const std::string& source : report.Sources()) {
    const Score score = report.ScoreOf(kIterationMetric, source);
    if (score.n < kFew) continue;
    const double mean = *score.mape;
    if (best.empty() || mean < least) {
      best = fmt::format("{} ({} over {} rows)", source, PercentText(mean), score.n);
      least = mean;
    }
    if (worst.empty() || mean > most) {
      worst = fmt::format("{} ({} over {} rows)", source, PercentText(mean), score.n);
      most = mean;
    }
  }
  if (best.empty() || best == worst) return "Nothing that was measured enters a prediction.";
  return fmt::format(
      "Step times of {} are predicted best and those of {} worst, of the sources with at least {} "
      "rows. Nothing that was measured enters a prediction.",
      best, worst, kFew);
}

}  // namespace

std::string TermsText(const TimeBreakdown& time) {
  std::vector<Term> terms = TermsOf(time);
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return a.seconds > b.seconds; });
  const double step = time.Sum();
  std::string out;
  for (const Term& term : terms) {
    if (term.seconds < kShownShare * step) continue;
    out += fmt::format("{}{} {} ({})", out.empty() ? "" : ", ", term.name,
                       SecondsText(term.seconds), PercentText(term.seconds / step, 0));
  }
  return out;
}

Json PublishedIsland(const PublishedReport& report, const PublishedOrigin& origin) {
  Json island = Json::Object();
  island.Set("schema", "aurum.report/1");
  island.Set("tool_version", origin.report.tool_version);
  island.Set("run_id", HashText(origin.records_hash + origin.sources_hash + origin.level +
                                origin.report.tool_version)
                           .Hex());
  island.Set("generated_at", origin.report.generated_at);
  island.Set("title", "Published measurements: " + origin.records);
  island.Set("question", "How far are the predictions from what was measured?");
  island.Set("answer", AnswerOf(report));
  island.Set("confidence", 0.9);
  island.Set("hardware",
             fmt::format("{} records, of which {} are compared and {} are not: a record counts "
                         "as compared if one of its figures is.",
                         CountText(static_cast<double>(report.records)),
                         CountText(static_cast<double>(report.compared)),
                         CountText(static_cast<double>(report.records - report.compared))));
  island.Set("command", origin.report.command);
  Json facts = Json::Array();
  const auto fact = [&](const char* name, const std::string& text) {
    facts.Append(Json::Array({name, text}));
  };
  fact("Records", origin.records + ", " + origin.records_hash);
  fact("Sources", "calibrate/published/sources.json, " + origin.sources_hash);
  fact("Level", origin.level);
  fact("Errors", "predicted / measured − 1; means and quantiles are of its absolute value");
  fact("Terms",
       "of the rank class with the most compute, at the nominal values of what is not told");
  island.Set("facts", std::move(facts));
  Json findings = Json::Object();
  findings.Set("validation", FindingOf(report));
  island.Set("findings", std::move(findings));

  Json metrics = Json::Object(), scores = Json::Array(), rows = Json::Array();
  for (const char* metric : {kIterationMetric, kMemoryMetric}) {
    const Score all = report.ScoreOf(metric);
    if (all.n > 0) metrics.Set(metric, ScoreJson(all));
    for (const std::string& source : report.Sources()) {
      const Score score = report.ScoreOf(metric, source);
      if (score.n + score.skipped == 0) continue;
      Json item = Json::Object();
      item.Set("metric", metric);
      item.Set("source", source);
      item.Set("score", ScoreJson(score));
      scores.Append(std::move(item));
    }
  }
  for (const MetricRow& row : report.rows)
    if (row.skipped.empty()) rows.Append(RowJson(row));
  Json worst = Json::Array();
  for (const MetricRow* row : WorstFirst(report)) {
    if (worst.items().size() == kWorst) break;
    worst.Append(WorstJson(*row));
  }
  Json validation = Json::Object();
  validation.Set("metrics", std::move(metrics));
  validation.Set("rows", std::move(rows));
  validation.Set("by_source", std::move(scores));
  validation.Set("worst", std::move(worst));
  validation.Set("skipped", SkippedJson(report));
  if (report.choice.groups > 0) {
    const auto number = [](const std::optional<double>& value) {
      return value ? Json(RoundSignificant(*value, 4)) : Json();
    };
    Json choice = Json::Object();
    choice.Set("groups", report.choice.groups);
    choice.Set("regret_mean", number(report.choice.regret_mean));
    choice.Set("regret_worst", number(report.choice.regret_worst));
    choice.Set("kendall_tau_10_percent", number(report.choice.kendall_tau_10_percent));
    validation.Set("plan_choice", std::move(choice));
  }
  if (!report.ranked.empty()) validation.Set("ranking", RankingJson(report));
  if (!report.fits.empty()) validation.Set("fits", FitsJson(report));
  island.Set("validation", std::move(validation));
  island.Set("warnings", Json::Array());
  island.Set("assumptions", Json::Array());
  return island;
}

}  // namespace aurum
