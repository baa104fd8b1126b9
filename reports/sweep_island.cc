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
#include "sim/study/boundary.h"
#include "sim/study/evaluate.h"
#include "sim/study/figures.h"
#include "sim/study/golden_fit.h"
#include "sim/study/point.h"

// From stored points to the sweep's section
// -----------------------------------------
// A golden sweep is a grid over FLOPs per token × bandwidth × AlignRatio for every model and cluster. Per point the store holds what
// the event simulation said and the undisturbed terms of the formula. For each way to combine the modalities α and β are fitted once
// over all of them; then every point has a formula time, a gap, and, where the gap exceeds the tolerance, the term that explains most
// of it (sim/study/boundary.h).
namespace aurum {
namespace {

constexpr double kTolerance = 0.10;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kAxisPointers[3] = {"/what_if/flops_gflop_per_token",
                                          "/what_if/comm_bw_gb_per_s", "/what_if/align_ratio"};
const std::vector<std::string> kLimits = {"compute", "network", "alignment", "pipeline"};
constexpr std::array<Combine, 3> kCombines = {Combine::kMax, Combine::kSum, Combine::kCriticalPath};

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

FormulaPoint StepOf(const StudyPoint& p, const std::vector<std::string>& modules) {
  return FormulaPointOf([&](const std::string& name) { return Get(p, name); }, modules);
}

int LimitIndex(const std::string& name) {
  return static_cast<int>(std::find(kLimits.begin(), kLimits.end(), name) - kLimits.begin()) %
         static_cast<int>(kLimits.size());
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

// α and β of one combine over everything that succeeded.
struct Weights {
  Combine combine = Combine::kMax;
  GoldenFit fit;
  std::size_t points = 0;
  double Alpha() const { return fit.alpha.value.value_or(1); }
  double Beta() const { return fit.beta.value.value_or(1); }
};

// The terms that a combine puts into the formula, by name: every module's under max; all modules' or
// the busiest stage's under the others.
struct Terms {
  std::vector<std::string> names;
  std::vector<double> f, g, c;
};
Terms TermsOf(const FormulaPoint& p, const Weights& w) {
  Terms terms;
  const GoldenRow row = RowOf(p, w.combine);
  const bool max = w.combine == Combine::kMax;
  for (std::size_t k = 0; k < row.comm.size(); ++k) {
    if (k == 0 || max) {
      terms.names.push_back(max ? p.modules[k]
                                : (w.combine == Combine::kSum ? "all modules" : "busiest stage"));
      terms.f.push_back(0);
      terms.g.push_back(0);
      terms.c.push_back(0);
    }
    terms.f.back() += row.f_over_b[k];
    terms.g.back() += row.g_over_c[k];
    terms.c.back() += w.Alpha() * row.comm[k];
  }
  return terms;
}

BoundaryGrid GridOf(const Entry& entry, const std::array<std::vector<double>, 3>& axes) {
  BoundaryGrid grid;
  grid.names = {"GFLOP per token", "GB/s", "alignment ratio"};
  grid.values = axes;
  const std::vector<std::string> modules = ModulesOf(entry.own);
  for (const StudyPoint* p : entry.points) {
    if (p == nullptr || !p->ok)
      grid.points.emplace_back();
    else
      grid.points.emplace_back(StepOf(*p, modules));
  }
  return grid;
}

// What the formula says at an entry's points under one combine.
void SetFormula(const Entry& entry, const BoundaryGrid& grid, const BoundaryOf& boundary,
                const Weights& w, const GridShape& shape, Json* out) {
  const std::size_t n = grid.points.size();
  const FormulaPoint own = StepOf(entry.own, ModulesOf(entry.own));
  const Terms own_terms = TermsOf(own, w);
  const std::size_t lines = own_terms.names.size();
  std::vector<double> formula(n, 0), p_align(n, 0), reason(n, 0);
  std::vector<std::vector<double>> f(lines, std::vector<double>(n, 0)), g = f, c = f;
  for (std::size_t i = 0; i < n; ++i) {
    if (!grid.points[i]) continue;
    const FormulaPoint& p = *grid.points[i];
    const Terms terms = TermsOf(p, w);
    for (std::size_t k = 0; k < lines; ++k) {
      f[k][i] = terms.f[k];
      g[k][i] = terms.g[k];
      c[k][i] = terms.c[k];
    }
    formula[i] = GoldenTime(RowOf(p, w.combine), w.combine, w.Alpha(), w.Beta());
    p_align[i] = w.Beta() * p.p_align_s;
    reason[i] = static_cast<double>(boundary.reason[i]);
  }
  const auto rounded = [](std::vector<double> values) {
    for (double& value : values) value = RoundSignificant(value, 4);
    return Json::Numbers(values);
  };
  const double own_formula = GoldenTime(RowOf(own, w.combine), w.combine, w.Alpha(), w.Beta());
  Json at = Json::Object();
  at.Set("simulated_step_time_s", RoundSignificant(own.step_s, 6));
  at.Set("formula_step_time_s", RoundSignificant(own_formula, 6));
  Json terms = Json::Object();
  terms.Set("f_over_b_s", rounded(own_terms.f));
  terms.Set("g_over_c_s", rounded(own_terms.g));
  terms.Set("alpha_comm_s", rounded(own_terms.c));
  at.Set("terms", std::move(terms));
  at.Set("beta_p_align_s", RoundSignificant(w.Beta() * own.p_align_s, 4));
  at.Set("limit", LimitIndex(entry.own.limit));
  at.Set("reason", static_cast<int>(FailureOf(own, w.combine, w.Alpha(), w.Beta(), kTolerance)));
  out->Set("at_reference", std::move(at));
  out->Set("modalities", Strings(own_terms.names));
  const auto fields = [&](const std::vector<std::vector<double>>& all) {
    Json array = Json::Array();
    for (const std::vector<double>& one : all) array.Append(EncodeField(one, shape));
    return array;
  };
  out->Set("formula_step_time_s", EncodeField(formula, shape));
  Json all = Json::Object();
  all.Set("f_over_b_s", fields(f));
  all.Set("g_over_c_s", fields(g));
  all.Set("alpha_comm_s", fields(c));
  out->Set("terms", std::move(all));
  out->Set("beta_p_align_s", EncodeField(p_align, shape));
  out->Set("reason", EncodeField(reason, shape));
  out->Set("inside_share", RoundSignificant(boundary.inside, 4));
  out->Set("median_gap", RoundSignificant(boundary.median_gap, 4));
  out->Set("p90_gap", RoundSignificant(boundary.p90_gap, 4));
}

Json EntryJson(const Entry& entry, const BoundaryGrid& grid,
               const std::vector<BoundaryOf>& boundaries, const std::vector<Weights>& weights,
               const GridShape& shape) {
  const std::size_t n = entry.points.size();
  std::vector<double> simulated(n, kNaN), limit(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    if (!grid.points[i]) continue;
    simulated[i] = grid.points[i]->step_s;
    limit[i] = LimitIndex(entry.points[i]->limit);
  }
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
  out.Set("simulated_step_time_s", EncodeField(simulated, shape));
  out.Set("limit", EncodeField(limit, shape));
  SetFormula(entry, grid, boundaries[0], weights[0], shape, &out);
  out.Set("sentence", BoundarySentence(grid, boundaries, kTolerance));
  Json others = Json::Object();
  for (std::size_t i = 1; i < weights.size(); ++i) {
    Json other = Json::Object();
    SetFormula(entry, grid, boundaries[i], weights[i], shape, &other);
    others.Set(CombineName(weights[i].combine), std::move(other));
  }
  out.Set("combines", std::move(others));
  return out;
}

Json WeightsJson(const Weights& w, double inside) {
  const GoldenFit& fit = w.fit;
  Json fitted = Json::Object();
  fitted.Set("alpha", RoundSignificant(w.Alpha(), 4));
  if (fit.alpha.low) fitted.Set("alpha_low", RoundSignificant(*fit.alpha.low, 4));
  if (fit.alpha.high) fitted.Set("alpha_high", RoundSignificant(*fit.alpha.high, 4));
  fitted.Set("beta", RoundSignificant(w.Beta(), 4));
  if (fit.beta.low) fitted.Set("beta_low", RoundSignificant(*fit.beta.low, 4));
  if (fit.beta.high) fitted.Set("beta_high", RoundSignificant(*fit.beta.high, 4));
  fitted.Set("r2", RoundSignificant(fit.r2.value_or(0), 4));
  fitted.Set("points", static_cast<std::int64_t>(w.points));
  fitted.Set("combine", CombineName(w.combine));
  fitted.Set("inside_share", RoundSignificant(inside, 4));
  return fitted;
}

}  // namespace

bool IsGoldenSweep(const StudyInfo& info) {
  if (!info.design.IsGrid()) return false;  // maps need a grid
  std::size_t golden = 0;
  for (const Axis& axis : info.design.axes()) {
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
  const std::vector<Axis>& study_axes = info.design.axes();
  // Which axis is which.
  std::array<std::size_t, 3> axis{};
  std::vector<std::size_t> others;
  GridShape shape{};
  Json axes = Json::Object();
  const char* names[3] = {"flops_gflop_per_token", "comm_bw_gb_per_s", "align_ratio"};
  for (std::size_t a = 0; a < study_axes.size(); ++a) {
    const auto* found = std::find(std::begin(kAxisPointers), std::end(kAxisPointers),
                                  AxisPointer(study_axes[a].path));
    if (found == std::end(kAxisPointers))
      others.push_back(a);
    else
      axis[static_cast<std::size_t>(found - std::begin(kAxisPointers))] = a;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    shape[i] = study_axes[axis[i]].values.size();
    axes.Set(names[i], Json::Numbers(AxisNumbers(study_axes[axis[i]])));
  }

  // One entry per combination of the other axes.
  std::map<std::vector<std::size_t>, std::size_t> index;
  std::vector<Entry> entries;
  for (const StudyPoint& p : points) {
    const std::vector<std::size_t> at = info.design.Rows(p.ordinal);
    std::vector<std::size_t> key;
    for (const std::size_t a : others) key.push_back(at[a]);
    auto [found, added] = index.emplace(key, entries.size());
    if (added) {
      Entry entry;
      JsonDocument document{info.scenario, {{"stored scenario", ""}}};
      for (std::size_t i = 0; i < others.size(); ++i) {
        SetPath(&document, study_axes[others[i]].path, study_axes[others[i]].values[key[i]],
                "axis");
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
  std::vector<Weights> weights;
  for (const Combine combine : kCombines) {
    std::vector<GoldenRow> rows;
    for (const Entry& entry : entries) {
      for (const StudyPoint* p : entry.points) {
        if (p != nullptr && p->ok) rows.push_back(RowOf(StepOf(*p, modules), combine));
      }
      rows.push_back(RowOf(StepOf(entry.own, modules), combine));
    }
    weights.push_back({combine, FitGolden(rows, combine), rows.size()});
  }

  SweepSection section;
  std::array<std::vector<double>, 3> axis_values;
  for (std::size_t i = 0; i < 3; ++i) axis_values[i] = AxisNumbers(study_axes[axis[i]]);
  Json models = Json::Array();
  std::vector<BoundaryOf> whole;  // over all entries: shares and reasons
  for (const Weights& w : weights) {
    whole.emplace_back();
    whole.back().combine = w.combine;
    whole.back().fit = w.fit;
    whole.back().alpha = w.Alpha();
    whole.back().beta = w.Beta();
  }
  std::string words, places;
  std::map<std::string, std::size_t> limits;
  std::size_t all = 0;
  for (const Entry& entry : entries) {
    const BoundaryGrid grid = GridOf(entry, axis_values);
    std::vector<BoundaryOf> boundaries;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      boundaries.push_back(FindBoundary(grid, weights[i].combine, kTolerance, weights[i].fit));
      whole[i].points += boundaries[i].points;
      for (std::size_t r = 0; r < whole[i].failures.size(); ++r)
        whole[i].failures[r] += boundaries[i].failures[r];
    }
    all += boundaries[0].points;
    models.Append(EntryJson(entry, grid, boundaries, weights, shape));
    for (const StudyPoint* p : entry.points) {
      if (p != nullptr && p->ok) ++limits[p->limit];
    }
    if (!words.empty()) words += "; ";
    words += fmt::format("{} on {}: {}, {:.2f} s", entry.model, entry.cluster, entry.own.limit,
                         Get(entry.own, "step_time_s"));
    const BoundaryOf& best = BestOf(boundaries);
    if (!places.empty()) places += "; ";
    places += fmt::format("{} on {} ", entry.model, entry.cluster) +
              (best.box ? fmt::format("{:.0f} % of points, all but {:.0f} % of those at {}",
                                      100 * best.inside, 100 * (1 - best.box->inside),
                                      BoxText(grid, *best.box))
                        : "nowhere");
  }
  const double total = std::max<double>(1, static_cast<double>(all));
  for (BoundaryOf& b : whole) b.inside = static_cast<double>(b.failures[0]) / total;
  Json sweep = Json::Object();
  sweep.Set("axes", std::move(axes));
  sweep.Set("limits", Strings(kLimits));
  Json reasons = Json::Array();
  for (int i = 0; i < kFormulaFailures; ++i)
    reasons.Append(std::string(FormulaFailureText(static_cast<FormulaFailure>(i))));
  sweep.Set("reasons", std::move(reasons));
  sweep.Set("tolerance", kTolerance);
  sweep.Set("fit", WeightsJson(weights[0], whole[0].inside));
  Json fits = Json::Array();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    Json fitted = WeightsJson(weights[i], whole[i].inside);
    const FormulaFailure most = whole[i].MostCommon();
    if (most != FormulaFailure::kNone)
      fitted.Set("fails_mostly", std::string(FormulaFailureText(most)));
    fits.Append(std::move(fitted));
  }
  sweep.Set("fits", std::move(fits));
  sweep.Set("models", std::move(models));
  // The sentence of the whole sweep: an empty grid has no box.
  const std::string sentence = BoundarySentence(BoundaryGrid{}, whole, kTolerance);
  sweep.Set("sentence", sentence);
  section.sweep = std::move(sweep);
  double alignment = 0;
  for (const StudyPoint& p : points) {
    if (p.ok) alignment = std::max(alignment, Get(p, "alignment_wait_s") / Get(p, "step_time_s"));
  }
  const GoldenFit& fit = weights[0].fit;
  section.finding = fmt::format(
      "Over {} simulated points the formula lies within {:.0f} % of the event simulation at {:.0f} "
      "% of them as a maximum over the modalities (α = {:.2f}, β = {:.2f}, root mean square {:.0f} "
      "%), at {:.0f} % as their sum and {:.0f} % along the critical path. {} By what limits a "
      "point: ",
      all, 100 * kTolerance, 100 * whole[0].inside, weights[0].Alpha(), weights[0].Beta(),
      100 * fit.rms_relative_error, 100 * whole[1].inside, 100 * whole[2].inside, sentence);
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
  section.terms = "At the operating points: " + words +
                  ". Where the formula holds, best combined: " + places + ".";
  return section;
}

}  // namespace aurum
