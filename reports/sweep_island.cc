#include "reports/sweep_island.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "reports/grid.h"
#include "reports/text.h"
#include "sim/core/units.h"
#include "sim/study/evaluate.h"
#include "sim/study/figures.h"
#include "sim/study/golden_fit.h"
#include "sim/study/point.h"

// From stored points to the sweep's section
// -----------------------------------------
// A golden sweep is a grid over FLOPs per token × bandwidth × AlignRatio for every model and cluster. Per point the store holds what
// the event simulation said and the undisturbed terms of the formula. α and β are fitted once over all of them; then every point has a
// formula time, a gap, and, where the gap exceeds the tolerance, the term that explains most of it:
//
//   formula too long:   what the simulation hid:   G/C − exposed reductions · α·Comm − other exposed communication · β·P − alignment wait
//   formula too short:  what the formula lacks:    kernels of the other modules · optimizer and host · communication beyond α·Comm
namespace aurum {
namespace {

constexpr double kTolerance = 0.10;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kAxisPointers[3] = {"/what_if/flops_gflop_per_token",
                                          "/what_if/comm_bw_gb_per_s", "/what_if/align_ratio"};
const std::vector<std::string> kLimits = {"compute", "network", "alignment", "pipeline"};
const std::vector<std::string> kReasons = {
    "inside 10 %",
    "gradient exchange hides behind compute",
    "other communication hides behind compute",
    "alignment hides behind other waits",
    "modules add up, max takes one",
    "optimizer and host are not in the formula",
    "more communication is exposed than α·Comm",
};

double Get(const StudyPoint& p, const std::string& name) {
  const auto found = p.numbers.find(name);
  return found == p.numbers.end() ? 0 : found->second;
}

std::vector<std::string> ModulesOf(const StudyPoint& p) {
  std::vector<std::string> modules;
  const std::string prefix = "f_over_b_s.";
  for (const auto& [name, value] : p.numbers) {
    if (name.compare(0, prefix.size(), prefix) == 0) modules.push_back(name.substr(prefix.size()));
  }
  return modules;
}

GoldenRow RowOf(const StudyPoint& p, const std::vector<std::string>& modules) {
  GoldenRow row;
  for (const std::string& k : modules) {
    row.f_over_b.push_back(Get(p, "f_over_b_s." + k));
    row.g_over_c.push_back(Get(p, "g_over_c_s." + k));
    row.comm.push_back(Get(p, "comm_s." + k));
  }
  row.p_align = Get(p, "p_align_s");
  row.simulated_s = Get(p, "step_time_s");
  return row;
}

// The reason why formula and simulation differ at a point; 0 inside of the tolerance.
int Reason(const StudyPoint& p, const GoldenRow& row, double formula, double alpha, double beta) {
  const double gap = formula - row.simulated_s;
  if (std::abs(gap) <= kTolerance * row.simulated_s) return 0;
  std::size_t active = 0;
  double most = -1;
  for (std::size_t k = 0; k < row.f_over_b.size(); ++k) {
    const double value = row.f_over_b[k] + row.g_over_c[k] + alpha * row.comm[k];
    if (value > most) {
      most = value;
      active = k;
    }
  }
  const double other_exposed = Get(p, "exposed_comm_s") - Get(p, "dp_reduce_s");
  const double lacking_comm = other_exposed + Get(p, "bubble_s") - alpha * row.comm[active];
  std::array<double, 3> parts{};
  if (gap > 0) {
    parts = {row.g_over_c[active] - Get(p, "dp_reduce_s"), -lacking_comm,
             beta * row.p_align - Get(p, "alignment_wait_s")};
    return 1 + static_cast<int>(std::max_element(parts.begin(), parts.end()) - parts.begin());
  }
  parts = {Get(p, "compute_s") - row.f_over_b[active], Get(p, "not_in_formula_s"), lacking_comm};
  return 4 + static_cast<int>(std::max_element(parts.begin(), parts.end()) - parts.begin());
}

int LimitIndex(const std::string& name) {
  return static_cast<int>(std::find(kLimits.begin(), kLimits.end(), name) - kLimits.begin()) %
         static_cast<int>(kLimits.size());
}

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

StudyPoint PointOf(const Evaluation& e) {
  StudyPoint p;
  p.ok = true;
  for (const Figure& figure : FiguresOf(e)) {
    if (const auto* number = std::get_if<double>(&figure.value)) {
      p.numbers[figure.name] = *number;
    } else {
      p.limit = std::get<std::string>(figure.value);
    }
  }
  return p;
}

std::vector<double> AxisNumbers(const Axis& axis) {
  std::vector<double> numbers;
  for (const Json& value : axis.values) numbers.push_back(value.AsNumber());
  return numbers;
}

Json Strings(const std::vector<std::string>& texts) {
  Json array = Json::Array();
  for (const std::string& text : texts) array.Append(text);
  return array;
}

// One model on one cluster: `points` in the order of the grid, failed ones not ok.
struct Entry {
  std::string model, cluster;
  std::vector<const StudyPoint*> points;
  StudyPoint own;  // at its own operating point: nothing imposed
};

// "compute for llava-1.6-7b (16.2 s, 4.10 s, 6.70 s) and …": what limits each model on the clusters in their order.
std::string Answer(const std::vector<Entry>& entries) {
  std::vector<std::string> limits, clusters, models;
  const auto note = [](std::vector<std::string>* list, const std::string& name) {
    if (std::find(list->begin(), list->end(), name) == list->end()) list->push_back(name);
  };
  for (const Entry& entry : entries) {
    note(&limits, entry.own.limit);
    note(&clusters, entry.cluster);
    note(&models, entry.model);
  }
  std::string text = "As planned, a step is limited by ";
  if (limits.size() == 1) text += limits.front() + " everywhere: ";
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (m > 0) text += "; ";
    text += models[m] + " takes";
    bool first = true;
    for (const Entry& entry : entries) {
      if (entry.model != models[m]) continue;
      text += fmt::format("{} {:.2f} s on {}", first ? "" : ",", Get(entry.own, "step_time_s"),
                          entry.cluster);
      if (limits.size() > 1) text += " (" + entry.own.limit + ")";
      first = false;
    }
  }
  return text + ".";
}

struct Gaps {
  std::vector<double> sizes;
  std::size_t inside = 0;
};

Json EntryJson(const Entry& entry, const GridShape& shape, double alpha, double beta, Gaps* gaps) {
  const std::vector<std::string> modules = ModulesOf(entry.own);
  const std::size_t n = entry.points.size();
  std::vector<double> simulated(n, kNaN), formula(n, 0), p_align(n, 0), limit(n, 0), reason(n, 0);
  std::vector<std::vector<double>> f(modules.size(), simulated), g = f, c = f;
  for (std::size_t i = 0; i < n; ++i) {
    if (entry.points[i] == nullptr || !entry.points[i]->ok) {
      for (std::size_t k = 0; k < modules.size(); ++k) f[k][i] = g[k][i] = c[k][i] = 0;
      continue;
    }
    const StudyPoint& p = *entry.points[i];
    const GoldenRow row = RowOf(p, modules);
    simulated[i] = row.simulated_s;
    formula[i] = GoldenTime(row, Combine::kMax, alpha, beta);
    for (std::size_t k = 0; k < modules.size(); ++k) {
      f[k][i] = row.f_over_b[k];
      g[k][i] = row.g_over_c[k];
      c[k][i] = alpha * row.comm[k];
    }
    p_align[i] = beta * row.p_align;
    limit[i] = LimitIndex(p.limit);
    reason[i] = Reason(p, row, formula[i], alpha, beta);
    gaps->sizes.push_back(std::abs(formula[i] / simulated[i] - 1));
    gaps->inside += reason[i] == 0 ? 1 : 0;
  }
  const auto fields = [&](const std::vector<std::vector<double>>& terms) {
    Json array = Json::Array();
    for (const std::vector<double>& term : terms) array.Append(EncodeField(term, shape));
    return array;
  };
  Json out = Json::Object();
  out.Set("id", entry.model + "@" + entry.cluster);
  out.Set("name", entry.model);
  out.Set("cluster", entry.cluster);
  out.Set("own_gflop_per_token", RoundSignificant(Get(entry.own, "gflop_per_token"), 4));
  Json reference = Json::Object();
  reference.Set("flops", RoundSignificant(Get(entry.own, "gflop_per_token"), 4));
  reference.Set("bw", RoundSignificant(Get(entry.own, "bus_bandwidth_gb_per_s"), 4));
  reference.Set("mar", RoundSignificant(Get(entry.own, "mar"), 4));
  out.Set("reference", std::move(reference));
  const GoldenRow own = RowOf(entry.own, modules);
  const double own_formula = GoldenTime(own, Combine::kMax, alpha, beta);
  Json at = Json::Object();
  at.Set("simulated_step_time_s", RoundSignificant(own.simulated_s, 6));
  at.Set("formula_step_time_s", RoundSignificant(own_formula, 6));
  Json terms = Json::Object();
  std::vector<double> own_f, own_g, own_c;
  for (std::size_t k = 0; k < modules.size(); ++k) {
    own_f.push_back(RoundSignificant(own.f_over_b[k], 4));
    own_g.push_back(RoundSignificant(own.g_over_c[k], 4));
    own_c.push_back(RoundSignificant(alpha * own.comm[k], 4));
  }
  terms.Set("f_over_b_s", Json::Numbers(own_f));
  terms.Set("g_over_c_s", Json::Numbers(own_g));
  terms.Set("alpha_comm_s", Json::Numbers(own_c));
  at.Set("terms", std::move(terms));
  at.Set("beta_p_align_s", RoundSignificant(beta * own.p_align, 4));
  at.Set("limit", LimitIndex(entry.own.limit));
  at.Set("reason", Reason(entry.own, own, own_formula, alpha, beta));
  out.Set("at_reference", std::move(at));
  out.Set("modalities", Strings(modules));
  out.Set("simulated_step_time_s", EncodeField(simulated, shape));
  out.Set("formula_step_time_s", EncodeField(formula, shape));
  Json all = Json::Object();
  all.Set("f_over_b_s", fields(f));
  all.Set("g_over_c_s", fields(g));
  all.Set("alpha_comm_s", fields(c));
  out.Set("terms", std::move(all));
  out.Set("beta_p_align_s", EncodeField(p_align, shape));
  out.Set("limit", EncodeField(limit, shape));
  out.Set("reason", EncodeField(reason, shape));
  const double count = std::max<double>(1, static_cast<double>(gaps->sizes.size()));
  out.Set("inside_share", RoundSignificant(static_cast<double>(gaps->inside) / count, 4));
  out.Set("median_gap", RoundSignificant(Percentile(gaps->sizes, 0.5), 4));
  out.Set("p90_gap", RoundSignificant(Percentile(gaps->sizes, 0.9), 4));
  return out;
}

}  // namespace

bool IsGoldenSweep(const StudyInfo& info) {
  std::size_t golden = 0;
  for (const Axis& axis : info.axes) {
    const std::string pointer = AxisPointer(axis.path);
    if (std::find(std::begin(kAxisPointers), std::end(kAxisPointers), pointer) !=
        std::end(kAxisPointers)) {
      ++golden;
      for (const Json& value : axis.values) {
        if (!value.IsNumber()) return false;
      }
    } else if (pointer != "/model" && pointer != "/cluster") {
      return false;
    }
  }
  return golden == 3;
}

SweepSection MakeSweepSection(const StudyInfo& info, const std::vector<StudyPoint>& points,
                              InputCache* cache) {
  // Which axis is which.
  std::array<std::size_t, 3> axis{};
  std::vector<std::size_t> others;
  GridShape shape{};
  Json axes = Json::Object();
  const char* names[3] = {"flops_gflop_per_token", "comm_bw_gb_per_s", "align_ratio"};
  for (std::size_t a = 0; a < info.axes.size(); ++a) {
    const auto* found = std::find(std::begin(kAxisPointers), std::end(kAxisPointers),
                                  AxisPointer(info.axes[a].path));
    if (found == std::end(kAxisPointers))
      others.push_back(a);
    else
      axis[static_cast<std::size_t>(found - std::begin(kAxisPointers))] = a;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    shape[i] = info.axes[axis[i]].values.size();
    axes.Set(names[i], Json::Numbers(AxisNumbers(info.axes[axis[i]])));
  }

  // One entry per combination of the other axes.
  std::map<std::vector<std::size_t>, std::size_t> index;
  std::vector<Entry> entries;
  for (const StudyPoint& p : points) {
    const std::vector<std::size_t> at = PointIndices(info.axes, p.ordinal);
    std::vector<std::size_t> key;
    for (const std::size_t a : others) key.push_back(at[a]);
    auto [found, added] = index.emplace(key, entries.size());
    if (added) {
      Entry entry;
      JsonDocument document{info.scenario, {{"stored scenario", ""}}};
      for (std::size_t i = 0; i < others.size(); ++i) {
        SetPath(&document, info.axes[others[i]].path, info.axes[others[i]].values[key[i]], "axis");
      }
      entry.model = document.root.Find("model")->AsString();
      entry.cluster = document.root.Find("cluster")->AsString();
      if (Json* what_if = document.root.Find("what_if"); what_if != nullptr && what_if->IsObject())
        *what_if = Json();
      entry.own = PointOf(Evaluate(ReadScenario(document, cache), Level::kAnalytic));
      entry.points.assign(shape[0] * shape[1] * shape[2], nullptr);
      entries.push_back(std::move(entry));
    }
    const std::size_t flat = (at[axis[0]] * shape[1] + at[axis[1]]) * shape[2] + at[axis[2]];
    entries[found->second].points[flat] = &p;
  }

  // α and β over everything that succeeded, the operating points included.
  // A model without some subnetwork spends nothing in it.
  std::set<std::string> known;
  for (const Entry& entry : entries) {
    for (const std::string& module : ModulesOf(entry.own)) known.insert(module);
  }
  const std::vector<std::string> modules(known.begin(), known.end());
  std::vector<GoldenRow> rows;
  for (const Entry& entry : entries) {
    for (const StudyPoint* p : entry.points) {
      if (p != nullptr && p->ok) rows.push_back(RowOf(*p, modules));
    }
    rows.push_back(RowOf(entry.own, modules));
  }
  const GoldenFit fit = FitGolden(rows, Combine::kMax);
  const double alpha = fit.alpha.value.value_or(1), beta = fit.beta.value.value_or(1);

  SweepSection section;
  Json sweep = Json::Object();
  sweep.Set("axes", std::move(axes));
  sweep.Set("limits", Strings(kLimits));
  sweep.Set("reasons", Strings(kReasons));
  sweep.Set("tolerance", kTolerance);
  Json fitted = Json::Object();
  fitted.Set("alpha", RoundSignificant(alpha, 4));
  if (fit.alpha.low) fitted.Set("alpha_low", RoundSignificant(*fit.alpha.low, 4));
  if (fit.alpha.high) fitted.Set("alpha_high", RoundSignificant(*fit.alpha.high, 4));
  fitted.Set("beta", RoundSignificant(beta, 4));
  if (fit.beta.low) fitted.Set("beta_low", RoundSignificant(*fit.beta.low, 4));
  if (fit.beta.high) fitted.Set("beta_high", RoundSignificant(*fit.beta.high, 4));
  fitted.Set("r2", RoundSignificant(fit.r2.value_or(0), 4));
  fitted.Set("points", static_cast<std::int64_t>(rows.size()));
  fitted.Set("combine", CombineName(Combine::kMax));
  sweep.Set("fit", std::move(fitted));

  Json models = Json::Array();
  std::size_t inside = 0, all = 0;
  std::string words;
  std::map<std::string, std::size_t> limits;
  for (const Entry& entry : entries) {
    Gaps gaps;
    models.Append(EntryJson(entry, shape, alpha, beta, &gaps));
    inside += gaps.inside;
    all += gaps.sizes.size();
    for (const StudyPoint* p : entry.points) {
      if (p != nullptr && p->ok) ++limits[p->limit];
    }
    if (!words.empty()) words += "; ";
    words += fmt::format("{} on {}: {}, {:.2f} s", entry.model, entry.cluster, entry.own.limit,
                         Get(entry.own, "step_time_s"));
  }
  sweep.Set("models", std::move(models));
  section.sweep = std::move(sweep);
  const double total = std::max<double>(1, static_cast<double>(all));
  double alignment = 0;
  for (const StudyPoint& p : points) {
    if (p.ok) alignment = std::max(alignment, Get(p, "alignment_wait_s") / Get(p, "step_time_s"));
  }
  section.finding = fmt::format(
      "Over {} simulated points the formula lies within {:.0f} % of the event simulation at {:.0f} "
      "% of them (α = {:.2f}, β = {:.2f}, root mean square {:.0f} %). By what limits a point: ",
      all, 100 * kTolerance, 100 * static_cast<double>(inside) / total, alpha, beta,
      100 * fit.rms_relative_error);
  for (const std::string& limit : kLimits) {
    if (limits[limit] == 0) continue;
    section.finding +=
        fmt::format("{} {:.0f} %, ", limit, 100 * static_cast<double>(limits[limit]) / total);
  }
  if (section.finding.size() > 2) section.finding.replace(section.finding.size() - 2, 2, ".");
  section.finding += fmt::format(" Waiting for misaligned tokens costs at most {:.1f} % of a step.",
                                 100 * alignment);
  if (fit.beta.at_bound)
    section.finding +=
        " β lies at its bound: on this grid the unweighted G/C already overstates what is exposed.";
  section.answer = Answer(entries);
  section.terms = "At the operating points: " + words + ".";
  return section;
}

}  // namespace aurum
