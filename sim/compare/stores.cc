#include "sim/compare/stores.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "sim/core/diagnostic.h"
#include "sim/study/store_reader.h"

namespace aurum {
namespace {

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
constexpr double kNoChange = 1e-9;
constexpr std::size_t kFewValues = 12;  // of an axis whose effect is told value by value

constexpr const char* kTold[] = {"step_time_s", "tokens_per_s",   "mfu",      "peak_gib",
                                 "compute_s",   "exposed_comm_s", "bubble_s", "alignment_wait_s",
                                 "data_wait_s", "optimizer_s"};

std::string LastWord(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

// The column of a figure; a name of a result's path ("memory.peak_gib") is known by its last word.
std::optional<std::size_t> ColumnOf(const StudyInfo& info, const std::string& name) {
  for (const std::string& wanted : {name, LastWord(name)}) {
    for (std::size_t i = 0; i < info.figures.size(); ++i) {
      if (info.figures[i].name == wanted && !info.figures[i].text) return i;
    }
  }
  return std::nullopt;
}

// One figure on both sides.
struct Pair {
  std::string name;
  std::size_t column_a = 0, column_b = 0;
};

Pair PairOf(const StudyInfo& a, const StudyInfo& b, const std::string& name) {
  const auto of_a = ColumnOf(a, name), of_b = ColumnOf(b, name);
  if (of_a && of_b) return {a.figures[*of_a].name, *of_a, *of_b};
  std::vector<std::string> names;
  for (const FigureColumn& figure : a.figures) {
    if (!figure.text && ColumnOf(b, figure.name)) names.push_back(figure.name);
  }
  const std::string nearest = NearestName(LastWord(name), names);
  ThrowInput(881, "no point has a figure '" + name + "' in both databases",
             nearest.empty() ? "aurum sweep --format jsonl shows the figures of a point"
                             : "did you mean '" + nearest + "'?",
             ExitCode::kUsage);
}

double FigureAt(const StoredPoint& point, std::size_t column) {
  const Json& value = point.figures[column];
  return value.IsNumber() ? value.AsNumber() : kAbsent;
}

// Where the other store has this store's axes; nothing if their paths are not the same set.
std::optional<std::vector<std::size_t>> MatchAxes(const std::vector<Axis>& a,
                                                  const std::vector<Axis>& b) {
  if (a.size() != b.size()) return std::nullopt;
  std::vector<std::size_t> match;
  for (const Axis& axis : a) {
    std::size_t i = 0;
    while (i < b.size() && AxisPointer(b[i].path) != AxisPointer(axis.path)) ++i;
    if (i == b.size()) return std::nullopt;
    match.push_back(i);
  }
  return match;
}

struct Row {
  PointStatus status = PointStatus::kOk;
  std::vector<double> figures;           // by pair
  std::vector<std::uint32_t> value_ids;  // of the axes, into a table of texts
  bool joined = false;
};

// Texts that many points share, told once.
class Texts {
 public:
  std::uint32_t Id(const std::string& text) {
    const auto [at, made] = ids_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (made) texts_.push_back(text);
    return at->second;
  }
  const std::string& Of(std::uint32_t id) const { return texts_[id]; }

 private:
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> texts_;
};

double Quantile(const std::vector<double>& ascending, double share) {
  const double at = share * static_cast<double>(ascending.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(at));
  const std::size_t high = std::min(low + 1, ascending.size() - 1);
  const double weight = at - static_cast<double>(low);
  return ascending[low] * (1 - weight) + ascending[high] * weight;
}

FigureSpread SpreadOf(const std::string& figure, std::vector<double> changes) {
  FigureSpread out;
  out.figure = figure;
  out.points = changes.size();
  if (changes.empty()) return out;
  for (const double change : changes) {
    out.mean += change / static_cast<double>(changes.size());
    out.rose += change > kNoChange ? 1 : 0;
    out.fell += change < -kNoChange ? 1 : 0;
  }
  std::sort(changes.begin(), changes.end());
  out.least = changes.front();
  out.p10 = Quantile(changes, 0.1);
  out.median = Quantile(changes, 0.5);
  out.p90 = Quantile(changes, 0.9);
  out.most = changes.back();
  return out;
}

// How far a point goes beyond a condition; more is worse.
double Beyond(const Judged& judged) {
  const double over = judged.compared - judged.condition.limit;
  const bool above = judged.condition.order == Condition::Order::kAbove ||
                     judged.condition.order == Condition::Order::kAtLeast;
  return above ? over : -over;
}

std::string Percent(double share) {
  char text[40];
  std::snprintf(text, sizeof text, "%+.2f %%", share * 100);
  return text;
}

}  // namespace

bool StoreComparison::Failed() const {
  return std::any_of(judged.begin(), judged.end(),
                     [](const JudgedPoints& j) { return j.failed > 0; });
}

StoreComparison CompareStores(const std::string& file_a, const std::string& file_b,
                              const StoreOptions& options) {
  StoreComparison out;
  out.a = file_a;
  out.b = file_b;
  StoreReader a(file_a), b(file_b);
  const StudyInfo &info_a = a.info(), &info_b = b.info();
  const std::vector<Axis>&axes_a = info_a.design.axes(), &axes_b = info_b.design.axes();

  std::vector<Pair> pairs = {PairOf(info_a, info_b, options.by)};
  out.by = pairs.front().name;
  std::vector<std::size_t> of_condition;
  const auto wanted = [&](const Pair& pair) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].name == pair.name) return i;
    }
    pairs.push_back(pair);
    return pairs.size() - 1;
  };
  for (const Condition& condition : options.fail_if)
    of_condition.push_back(wanted(PairOf(info_a, info_b, condition.figure)));
  for (const char* name : kTold) {
    if (ColumnOf(info_a, name) && ColumnOf(info_b, name)) wanted(PairOf(info_a, info_b, name));
  }

  const auto axes = MatchAxes(axes_a, axes_b);
  for (const Axis& axis : axes_a) out.axes.push_back(axis.path);
  out.changes = DiffScenarios(info_a.scenario, info_b.scenario);
  // Ids hash what the points share: where that is the same, so are they.
  const bool by_ids = out.changes.empty() && info_a.result_schema == info_b.result_schema;
  if (!by_ids && !axes) {
    std::string paths_a, paths_b;
    for (const Axis& axis : axes_a) paths_a += (paths_a.empty() ? "" : ", ") + axis.path;
    for (const Axis& axis : axes_b) paths_b += (paths_b.empty() ? "" : ", ") + axis.path;
    ThrowInput(885,
               "the points of the two databases cannot be joined: one has the axes " + paths_a +
                   ", the other " + paths_b + ", and what their points share differs as well",
               "sweep both over the same paths, or the same scenario");
  }
  out.joined_by = by_ids ? "ids" : "axis values";

  Texts texts;
  std::unordered_map<std::string, Row> rows;
  rows.reserve(a.Count());
  const auto key_of = [&](const StoredPoint& point, bool of_b) {
    if (by_ids) return point.id.Hex();
    std::string key;
    for (std::size_t i = 0; i < axes_a.size(); ++i)
      key += point.axis_values[of_b ? (*axes)[i] : i].Dump() + "\n";
    return key;
  };
  StoredPoint point;
  while (a.Next(&point)) {
    Row row;
    row.status = point.status;
    for (const Pair& pair : pairs) row.figures.push_back(FigureAt(point, pair.column_a));
    for (const Json& value : point.axis_values) row.value_ids.push_back(texts.Id(value.Dump()));
    rows.emplace(key_of(point, false), std::move(row));
  }

  std::vector<std::vector<double>> changes(pairs.size());
  std::vector<std::map<std::uint32_t, std::vector<double>>> by_axis(axes_a.size());
  out.judged.resize(options.fail_if.size());
  const auto values_of = [&](const Row& row) {
    std::vector<std::string> values;
    for (const std::uint32_t id : row.value_ids) values.push_back(texts.Of(id));
    return values;
  };
  const auto keep = [&](std::vector<JoinedPoint>* list, const JoinedPoint& joined, bool rise) {
    const auto worse = [&](const JoinedPoint& x, const JoinedPoint& y) {
      return rise ? x.relative_change > y.relative_change : x.relative_change < y.relative_change;
    };
    list->insert(std::upper_bound(list->begin(), list->end(), joined, worse), joined);
    if (list->size() > options.shown) list->pop_back();
  };
  while (b.Next(&point)) {
    const auto found = rows.find(key_of(point, true));
    if (found == rows.end()) {
      ++out.only_b;
      continue;
    }
    Row& row = found->second;
    row.joined = true;
    ++out.both;
    const bool ok_a = row.status == PointStatus::kOk, ok_b = point.status == PointStatus::kOk;
    if (ok_a && !ok_b) {
      ++out.lost;
      if (out.lost_points.size() < options.shown) {
        std::string said;
        const auto values = values_of(row);
        for (std::size_t i = 0; i < values.size(); ++i)
          said += (i > 0 ? ", " : "") + out.axes[i] + " = " + values[i];
        out.lost_points.push_back(std::move(said));
      }
    }
    out.gained += !ok_a && ok_b ? 1 : 0;
    if (!ok_a || !ok_b) continue;
    ++out.both_ok;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const double of_a = row.figures[i], of_b = FigureAt(point, pairs[i].column_b);
      if (std::isnan(of_a) || std::isnan(of_b) || of_a == 0) continue;
      const double change = (of_b - of_a) / std::abs(of_a);
      changes[i].push_back(change);
      if (i > 0) continue;
      for (std::size_t x = 0; x < by_axis.size(); ++x) {
        if (axes_a[x].values.size() <= kFewValues && axes_a[x].values.size() > 1)
          by_axis[x][row.value_ids[x]].push_back(change);
      }
      const bool rises = change > kNoChange && (out.rises.size() < options.shown ||
                                                change > out.rises.back().relative_change);
      const bool falls = change < -kNoChange && (out.falls.size() < options.shown ||
                                                 change < out.falls.back().relative_change);
      if (rises) keep(&out.rises, {values_of(row), of_a, of_b, change}, true);
      if (falls) keep(&out.falls, {values_of(row), of_a, of_b, change}, false);
    }
    for (std::size_t i = 0; i < options.fail_if.size(); ++i) {
      const Pair& pair = pairs[of_condition[i]];
      const double of_a = row.figures[of_condition[i]], of_b = FigureAt(point, pair.column_b);
      if (std::isnan(of_a) || std::isnan(of_b)) continue;
      Judged judged = Judge(options.fail_if[i], pair.name, of_a, of_b);
      StoreComparison::JudgedPoints& sum = out.judged[i];
      sum.failed += judged.failed ? 1 : 0;
      if (sum.points++ == 0 || Beyond(judged) > Beyond(sum.worst)) {
        sum.worst = std::move(judged);
        sum.axis_values = values_of(row);
      }
    }
  }
  for (std::size_t i = 0; i < options.fail_if.size(); ++i) {
    if (out.judged[i].points > 0) continue;
    ThrowInput(881, "no point has the figure '" + options.fail_if[i].figure + "' on both sides",
               "a database whose points succeed", ExitCode::kUsage);
  }
  for (const auto& [key, row] : rows) out.only_a += row.joined ? 0 : 1;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!changes[i].empty()) out.spreads.push_back(SpreadOf(pairs[i].name, std::move(changes[i])));
  }
  for (std::size_t x = 0; x < by_axis.size(); ++x) {
    // In the order of the axis' values, of which a list of points has some more than once.
    for (const Json& value : axes_a[x].values) {
      const auto found = by_axis[x].find(texts.Id(value.Dump()));
      if (found == by_axis[x].end()) continue;
      std::vector<double>& list = found->second;
      std::sort(list.begin(), list.end());
      out.effects.push_back({axes_a[x].path, value.Dump(), list.size(), Quantile(list, 0.5)});
      by_axis[x].erase(found);
    }
  }

  if (info_a.tool_version != info_b.tool_version)
    out.notes.push_back("A is of version " + info_a.tool_version + " of Aurum, B of " +
                        info_b.tool_version);
  if (info_a.fingerprint != info_b.fingerprint)
    out.notes.push_back(
        "the models, clusters, profiles or stacks behind the points differ, or the level does");
  if (!info_a.complete || !info_b.complete)
    out.notes.push_back(
        std::string(!info_a.complete ? (!info_b.complete ? "both are" : "A is") : "B is") +
        " not complete: points that are not there yet are not compared");
  const FigureSpread* main = out.spreads.empty() ? nullptr : &out.spreads.front();
  if (main == nullptr || main->figure != out.by) {
    out.summary = "no point has " + out.by + " on both sides";
  } else if (main->rose + main->fell == 0) {
    out.summary =
        std::to_string(main->points) + " points, " + out.by + " is the same at all of them";
  } else {
    out.summary = out.by + " rises at " + std::to_string(main->rose) + " and falls at " +
                  std::to_string(main->fell) + " of " + std::to_string(main->points) +
                  " points: median " + Percent(main->median) + ", from " + Percent(main->least) +
                  " to " + Percent(main->most);
  }
  return out;
}

Json StoreComparisonJson(const StoreComparison& c, const std::string& tool_version) {
  const auto strings = [](const std::vector<std::string>& texts) {
    Json out = Json::Array();
    for (const std::string& text : texts) out.Append(text);
    return out;
  };
  // Axis values are JSON texts here: parsed back, they are what the sweep set.
  const auto at = [&](const std::vector<std::string>& values) {
    Json out = Json::Object();
    for (std::size_t i = 0; i < values.size(); ++i)
      out.Set(c.axes[i], ParseJson(values[i], "axis value").root);
    return out;
  };
  Json out = Json::Object();
  out.Set("schema", "aurum.comparison/1");
  out.Set("tool_version", tool_version);
  out.Set("of", "points");
  out.Set("summary", c.summary);
  out.Set("notes", strings(c.notes));
  for (const auto& [key, file] : {std::pair("a", &c.a), std::pair("b", &c.b)}) {
    Json side = Json::Object();
    side.Set("given", *file);
    out.Set(key, std::move(side));
  }
  if (!c.judged.empty()) {
    out.Set("failed", c.Failed());
    Json conditions = Json::Array();
    for (const StoreComparison::JudgedPoints& judged : c.judged) {
      Json entry = JudgedJson({judged.worst}).items().front();
      entry.Set("failed", judged.failed > 0);
      entry.Set("failed_points", static_cast<std::int64_t>(judged.failed));
      entry.Set("points", static_cast<std::int64_t>(judged.points));
      entry.Set("worst_at", at(judged.axis_values));
      conditions.Append(std::move(entry));
    }
    out.Set("conditions", std::move(conditions));
  }
  Json points = Json::Object();
  points.Set("joined_by", c.joined_by);
  points.Set("axes", strings(c.axes));
  points.Set("both", static_cast<std::int64_t>(c.both));
  points.Set("both_ok", static_cast<std::int64_t>(c.both_ok));
  points.Set("only_a", static_cast<std::int64_t>(c.only_a));
  points.Set("only_b", static_cast<std::int64_t>(c.only_b));
  points.Set("ok_in_a_alone", static_cast<std::int64_t>(c.lost));
  points.Set("ok_in_b_alone", static_cast<std::int64_t>(c.gained));
  points.Set("ordered_by", c.by);
  Json spreads = Json::Array();
  for (const FigureSpread& s : c.spreads) {
    Json entry = Json::Object();
    entry.Set("figure", s.figure);
    entry.Set("points", static_cast<std::int64_t>(s.points));
    entry.Set("rose", static_cast<std::int64_t>(s.rose));
    entry.Set("fell", static_cast<std::int64_t>(s.fell));
    entry.Set("mean_relative_change", s.mean);
    entry.Set("least_relative_change", s.least);
    entry.Set("p10_relative_change", s.p10);
    entry.Set("median_relative_change", s.median);
    entry.Set("p90_relative_change", s.p90);
    entry.Set("most_relative_change", s.most);
    spreads.Append(std::move(entry));
  }
  points.Set("figures", std::move(spreads));
  for (const auto& [key, list] : {std::pair("rises", &c.rises), std::pair("falls", &c.falls)}) {
    Json entries = Json::Array();
    for (const JoinedPoint& joined : *list) {
      Json entry = Json::Object();
      entry.Set("at", at(joined.axis_values));
      entry.Set("a", joined.a);
      entry.Set("b", joined.b);
      entry.Set("relative_change", joined.relative_change);
      entries.Append(std::move(entry));
    }
    points.Set(key, std::move(entries));
  }
  Json effects = Json::Array();
  for (const AxisEffect& effect : c.effects) {
    Json entry = Json::Object();
    entry.Set("path", effect.path);
    entry.Set("value", ParseJson(effect.value, "axis value").root);
    entry.Set("points", static_cast<std::int64_t>(effect.points));
    entry.Set("median_relative_change", effect.median);
    effects.Append(std::move(entry));
  }
  points.Set("by_axis", std::move(effects));
  out.Set("points", std::move(points));
  Json changes = Json::Array();
  for (const KeyChange& change : c.changes) {
    Json entry = Json::Object();
    entry.Set("path", change.path);
    if (change.a) entry.Set("a", *change.a);
    if (change.b) entry.Set("b", *change.b);
    changes.Append(std::move(entry));
  }
  out.Set("inputs_differ", std::move(changes));
  return out;
}

}  // namespace aurum
