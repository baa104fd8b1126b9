#include "sim/study/published/validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace aurum {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

bool HasTime(const RecordMeasured& m) {
  return m.iteration_s.value_or(0) > 0 || m.tokens_per_s_per_gpu.value_or(0) > 0 ||
         m.samples_per_s.value_or(0) > 0;
}

// "LLaMA-7B, 8 A100-80GB, bf16, pretrain": what of it the record tells.
std::string WhatOf(const RecordFacts& facts) {
  std::string out = facts.model.name;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) out += (out.empty() ? "" : ", ") + part;
  };
  const std::string& gpu = facts.hardware.gpu;
  add(facts.hardware.gpus
          ? std::to_string(*facts.hardware.gpus) + " " + (gpu.empty() ? "GPUs" : gpu)
          : gpu);
  add(facts.precision);
  add(facts.task);
  return out;
}

MetricRow Begin(const Record& record, const char* metric) {
  MetricRow row;
  row.what = WhatOf(record.facts);
  row.id = record.facts.id;
  row.metric = metric;
  row.source = record.facts.source;
  row.cluster = record.facts.cluster;
  row.quality = record.facts.quality;
  return row;
}

// The first reason that holds.
std::string Why(const PredictedRecord& p, const std::string& metric_reason) {
  if (!p.translation.skip.empty()) return p.translation.skip;
  if (!metric_reason.empty()) return metric_reason;
  return p.failed;
}

// The members of a breakdown under the names of the documents.
constexpr std::pair<const char*, double TimeBreakdown::*> kTerms[] = {
    {"compute_s", &TimeBreakdown::compute_s},
    {"slowed_s", &TimeBreakdown::slowed_s},
    {"exposed_comm_s", &TimeBreakdown::exposed_comm_s},
    {"bubble_s", &TimeBreakdown::bubble_s},
    {"straggler_wait_s", &TimeBreakdown::straggler_wait_s},
    {"alignment_wait_s", &TimeBreakdown::alignment_wait_s},
    {"data_wait_s", &TimeBreakdown::data_wait_s},
    {"optimizer_s", &TimeBreakdown::optimizer_s},
    {"dp_gather_s", &TimeBreakdown::dp_gather_s},
    {"dp_reduce_s", &TimeBreakdown::dp_reduce_s},
    {"tp_s", &TimeBreakdown::tp_s},
    {"pp_transfer_s", &TimeBreakdown::pp_transfer_s},
    {"cp_s", &TimeBreakdown::cp_s},
    {"ep_s", &TimeBreakdown::ep_s},
    {"host_s", &TimeBreakdown::host_s},
    {"pp_warmup_s", &TimeBreakdown::pp_warmup_s},
    {"pp_cooldown_s", &TimeBreakdown::pp_cooldown_s},
    {"pp_other_s", &TimeBreakdown::pp_other_s},
};

TimeBreakdown Divided(TimeBreakdown time, double by) {
  for (const auto& [name, member] : kTerms) time.*member /= by;
  return time;
}

Json TermsJson(const TimeBreakdown& time) {
  Json out = Json::Object();
  for (const auto& [name, member] : kTerms) out.Set(name, time.*member);
  return out;
}

struct ChoiceRow {
  double measured = 0, predicted = 0;  // GPU-seconds per token
};

PlanChoice Choose(const std::map<std::string, std::vector<ChoiceRow>>& groups) {
  PlanChoice choice;
  double sum = 0, worst = 0;
  RankCounts apart;
  for (const auto& [name, rows] : groups) {
    if (rows.size() < 4) continue;
    ++choice.groups;
    const auto best = std::min_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.measured < b.measured;
    });
    const auto chosen =
        std::min_element(rows.begin(), rows.end(),
                         [](const auto& a, const auto& b) { return a.predicted < b.predicted; });
    const double regret = chosen->measured / best->measured - 1;
    sum += regret;
    worst = std::max(worst, regret);
    std::vector<std::pair<double, double>> pairs;
    for (const ChoiceRow& row : rows) pairs.emplace_back(row.predicted, row.measured);
    apart += CountPairs(pairs, 0.1);
  }
  if (choice.groups > 0) {
    choice.regret_mean = sum / static_cast<double>(choice.groups);
    choice.regret_worst = worst;
  }
  choice.kendall_tau_10_percent = apart.Tau();
  return choice;
}

std::vector<RankedSet> Rank(
    const std::map<std::string, std::vector<std::tuple<double, double, std::string>>>& sets) {
  std::vector<RankedSet> out;
  for (const auto& [name, rows] : sets) {
    if (rows.size() < 2) continue;
    auto sorted = rows;
    std::sort(sorted.begin(), sorted.end());
    RankedSet set;
    set.set = name;
    std::vector<std::pair<double, double>> pairs;
    for (const auto& [measured, predicted, id] : sorted) {
      set.ids.push_back(id);
      set.measured_s.push_back(measured);
      set.predicted_s.push_back(predicted);
      pairs.emplace_back(predicted, measured);
    }
    set.kendall_tau = CountPairs(pairs).Tau();
    out.push_back(std::move(set));
  }
  return out;
}

Json Number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

// What is predicted of one row, as a column of FitCounts.
int Said(const FitRow& row) { return !row.predicted_fits ? 0 : row.at_risk ? 1 : 2; }

Json FitsJson(const PublishedReport& report) {
  const FitCounts counts = CountFits(report);
  Json wrong = Json::Array();
  for (const FitRow& row : report.fits) {
    const int said = Said(row);
    if (said == 1 || (said == 2) == row.reported_fits) continue;
    Json item = Json::Object();
    item.Set("id", row.id);
    item.Set("reported", row.reported_fits ? "fits" : "OOM");
    item.Set("predicted", row.predicted_fits ? "fits" : "OOM");
    item.Set("need_gib", row.need_gib);
    item.Set("have_gib", row.have_gib);
    wrong.Append(std::move(item));
  }
  Json out = Json::Object();
  for (const std::size_t reported : {0U, 1U}) {
    Json line = Json::Object();
    line.Set("predicted_oom", counts[reported][0]);
    line.Set("predicted_at_risk", counts[reported][1]);
    line.Set("predicted_fits", counts[reported][2]);
    out.Set(reported == 0 ? "reported_oom" : "reported_fits", std::move(line));
  }
  out.Set("wrong", std::move(wrong));
  return out;
}

}  // namespace

std::optional<double> MeasuredStep(const RecordMeasured& m, const Translation& t) {
  if (m.iteration_s && *m.iteration_s > 0) return m.iteration_s;
  if (m.tokens_per_s_per_gpu && *m.tokens_per_s_per_gpu > 0 && t.samples_per_step > 0) {
    return t.samples_per_step * t.tokens_per_sample / (*m.tokens_per_s_per_gpu * t.gpus);
  }
  if (m.samples_per_s && *m.samples_per_s > 0 && t.samples_per_step > 0)
    return t.samples_per_step / *m.samples_per_s;
  return std::nullopt;
}

PublishedReport Compare(const std::vector<Record>& records,
                        const std::vector<PredictedRecord>& predictions) {
  PublishedReport report;
  report.records = static_cast<std::int64_t>(records.size());
  std::map<std::string, std::vector<ChoiceRow>> groups;
  std::map<std::string, std::vector<std::tuple<double, double, std::string>>> sets;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const RecordFacts& facts = records[i].facts;
    const RecordMeasured& measured = records[i].measured;
    const PredictedRecord& p = predictions[i];
    const Translation& t = p.translation;
    bool compared = false;
    const bool has_memory = measured.peak_memory.value_or(0) > 0;
    if (!HasTime(measured) && !has_memory && measured.fits != false) {
      MetricRow row = Begin(records[i], "");
      row.skipped = "no step time, throughput or peak memory was measured";
      report.rows.push_back(std::move(row));
      continue;
    }
    if (HasTime(measured)) {
      MetricRow row = Begin(records[i], kIterationMetric);
      row.skipped = Why(p, t.skip_time);
      if (row.skipped.empty()) {
        const double divide = t.time_of_micro_batch
                                  ? static_cast<double>(std::max<std::int64_t>(1, t.micro_batches))
                                  : 1.0;
        row.predicted = p.nominal->step_s / divide;
        row.time = Divided(p.nominal->time, divide);
        row.model_flops = p.nominal->model_flops / divide;
        row.measured = MeasuredStep(measured, t).value_or(0);
        if (!t.ends.empty()) {
          row.low = p.step_low_s / divide;
          row.high = p.step_high_s / divide;
        }
        row.band_low = p.step_low_s / divide * p.nominal->step_low;
        row.band_high = p.step_high_s / divide * p.nominal->step_high;
        row.assumed = t.assumed;
        if (row.measured <= 0) {
          row.skipped = "the batch that the throughput belongs to is not told";
        } else {
          compared = true;
          const double per_token = t.gpus / (t.samples_per_step * t.tokens_per_sample);
          groups[facts.source + "|" + facts.model.name + "|" + facts.hardware.gpu + "|" +
                 Json(t.tokens_per_sample).Dump()]
              .push_back({row.measured * per_token, row.predicted * per_token});
          if (!facts.set.empty())
            sets[facts.set].emplace_back(row.measured, row.predicted, facts.id);
        }
      }
      report.rows.push_back(std::move(row));
    }
    if (has_memory) {
      MetricRow row = Begin(records[i], kMemoryMetric);
      row.skipped = Why(p, t.skip_memory);
      if (row.skipped.empty()) {
        const double unit =
            measured.memory_unit_bytes > 0 ? measured.memory_unit_bytes : t.memory_unit_bytes;
        row.predicted = p.nominal->memory_bytes / kGib;
        row.measured = *measured.peak_memory * unit / kGib;
        if (!t.ends.empty()) {
          row.low = p.memory_low_bytes / kGib;
          row.high = p.memory_high_bytes / kGib;
        }
        row.band_low = p.memory_low_bytes / kGib * p.nominal->memory_low;
        row.band_high = p.memory_high_bytes / kGib * p.nominal->memory_high;
        row.assumed = t.assumed;
        compared = true;
      }
      report.rows.push_back(std::move(row));
    }
    if (measured.fits == false && (!t.skip.empty() || !p.nominal)) {
      MetricRow row = Begin(records[i], "fits");
      row.skipped = Why(p, t.skip_memory);
      report.rows.push_back(std::move(row));
    }
    if (measured.fits && p.nominal && t.skip_memory.empty()) {
      report.fits.push_back({facts.id, facts.source, *measured.fits, p.some_end_fits,
                             p.nominal->at_risk || p.some_end_fits != p.nominal->fits,
                             p.nominal->memory_bytes / kGib, p.nominal->device_bytes / kGib});
      compared = true;
    }
    if (compared) ++report.compared;
  }
  report.choice = Choose(groups);
  report.ranked = Rank(sets);
  return report;
}

namespace {

Score ScoreWhere(const std::vector<MetricRow>& rows, const std::string& metric, auto keep) {
  std::vector<ScoredPair> pairs;
  std::int64_t skipped = 0;
  for (const MetricRow& row : rows) {
    if (row.metric != metric || !keep(row)) continue;
    if (!row.skipped.empty()) {
      ++skipped;
      continue;
    }
    pairs.push_back({row.id, row.source, row.cluster, row.quality, row.predicted, row.measured,
                     row.low, row.high, row.band_low, row.band_high});
  }
  return ScorePairs(pairs, skipped);
}

}  // namespace

Score PublishedReport::ScoreOf(const std::string& metric, const std::string& source) const {
  return ScoreWhere(rows, metric,
                    [&](const MetricRow& row) { return source.empty() || row.source == source; });
}

Score PublishedReport::ScoreOfQuality(const std::string& metric, const std::string& quality) const {
  return ScoreWhere(rows, metric, [&](const MetricRow& row) { return row.quality == quality; });
}

std::vector<std::string> PublishedReport::Sources() const {
  std::set<std::string> names;
  for (const MetricRow& row : rows) names.insert(row.source);
  return {names.begin(), names.end()};
}

std::vector<std::pair<std::string, std::int64_t>> SkipReasons(const PublishedReport& report) {
  std::map<std::string, std::int64_t> reasons;
  for (const MetricRow& row : report.rows)
    if (!row.skipped.empty()) ++reasons[row.skipped];
  std::vector<std::pair<std::string, std::int64_t>> out(reasons.begin(), reasons.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

FitCounts CountFits(const PublishedReport& report) {
  FitCounts counts{};
  for (const FitRow& row : report.fits)
    ++counts[row.reported_fits ? 1 : 0][static_cast<std::size_t>(Said(row))];
  return counts;
}

std::vector<const MetricRow*> WorstFirst(const PublishedReport& report) {
  std::vector<const MetricRow*> rows;
  for (const MetricRow& row : report.rows)
    if (row.skipped.empty()) rows.push_back(&row);
  const auto error = [](const MetricRow* row) {
    return std::abs(std::log(row->predicted / row->measured));
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const MetricRow* a, const MetricRow* b) { return error(a) > error(b); });
  return rows;
}

Json PublishedJson(const PublishedReport& report, const std::string& tool_version) {
  Json out = Json::Object();
  out.Set("schema", "aurum.published/1");
  out.Set("tool_version", tool_version);
  Json records = Json::Object();
  records.Set("total", report.records);
  records.Set("compared", report.compared);
  records.Set("skipped", report.records - report.compared);
  out.Set("records", std::move(records));

  const auto both = [&](auto score) {
    Json metrics = Json::Object();
    for (const char* metric : {kIterationMetric, kMemoryMetric}) {
      const Score s = score(metric);
      metrics.Set(metric, s.AsJson());
    }
    return metrics;
  };
  out.Set("metrics", both([&](const char* metric) { return report.ScoreOf(metric); }));
  Json by_source = Json::Object();
  for (const std::string& source : report.Sources()) {
    by_source.Set(source, both([&](const char* metric) { return report.ScoreOf(metric, source); }));
  }
  out.Set("by_source", std::move(by_source));
  std::set<std::string> qualities;
  for (const MetricRow& row : report.rows)
    if (!row.quality.empty()) qualities.insert(row.quality);
  Json by_quality = Json::Object();
  for (const std::string& quality : qualities) {
    by_quality.Set(
        quality, both([&](const char* metric) { return report.ScoreOfQuality(metric, quality); }));
  }
  out.Set("by_quality", std::move(by_quality));

  Json choice = Json::Object();
  choice.Set("groups", report.choice.groups);
  choice.Set("regret_mean", Number(report.choice.regret_mean));
  choice.Set("regret_worst", Number(report.choice.regret_worst));
  choice.Set("kendall_tau_10_percent", Number(report.choice.kendall_tau_10_percent));
  out.Set("plan_choice", std::move(choice));
  Json ranked = Json::Array();
  for (const RankedSet& set : report.ranked) {
    Json item = Json::Object();
    item.Set("set", set.set);
    Json ids = Json::Array();
    for (const std::string& id : set.ids) ids.Append(id);
    item.Set("fastest_first", std::move(ids));
    item.Set("measured_s", Json::Numbers(set.measured_s));
    item.Set("predicted_s", Json::Numbers(set.predicted_s));
    item.Set("kendall_tau", Number(set.kendall_tau));
    ranked.Append(std::move(item));
  }
  out.Set("ranking", std::move(ranked));
  out.Set("fits", FitsJson(report));

  Json rows = Json::Array();
  for (const MetricRow& row : report.rows) {
    Json item = Json::Object();
    item.Set("id", row.id);
    if (!row.metric.empty()) item.Set("metric", row.metric);
    item.Set("source", row.source);
    item.Set("cluster", row.cluster);
    item.Set("quality", row.quality);
    if (!row.skipped.empty()) {
      item.Set("skipped", row.skipped);
    } else {
      item.Set("predicted", row.predicted);
      item.Set("measured", row.measured);
      item.Set("relative_error", row.predicted / row.measured - 1);
      if (row.low) item.Set("low", *row.low);
      if (row.high) item.Set("high", *row.high);
      item.Set("band_low", row.band_low);
      item.Set("band_high", row.band_high);
      Json assumed = Json::Array();
      for (const std::string& note : row.assumed) assumed.Append(note);
      item.Set("assumed", std::move(assumed));
      if (row.time) item.Set("time", TermsJson(*row.time));
    }
    rows.Append(std::move(item));
  }
  Json skipped = Json::Array();
  for (const auto& [reason, count] : SkipReasons(report)) {
    Json item = Json::Object();
    item.Set("reason", reason);
    item.Set("rows", count);
    skipped.Append(std::move(item));
  }
  out.Set("skipped", std::move(skipped));
  out.Set("rows", std::move(rows));
  return out;
}

}  // namespace aurum
