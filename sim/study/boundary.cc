#include "sim/study/boundary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "sim/core/rounding.h"
#include "sim/study/evaluate.h"

namespace aurum {
namespace {

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

// Sums over boxes of a grid in O(1): prefix sums along all three axes.
class BoxSums {
 public:
  BoxSums(const std::array<std::size_t, 3>& shape, const std::vector<double>& values)
      : shape_(shape), sums_((shape[0] + 1) * (shape[1] + 1) * (shape[2] + 1), 0) {
    for (std::size_t i = 0; i < shape[0]; ++i) {
      for (std::size_t j = 0; j < shape[1]; ++j) {
        double line = 0;
        for (std::size_t k = 0; k < shape[2]; ++k) {
          line += values[(i * shape[1] + j) * shape[2] + k];
          At(i + 1, j + 1, k + 1) =
              line + At(i + 1, j, k + 1) + At(i, j + 1, k + 1) - At(i, j, k + 1);
        }
      }
    }
  }
  // Over [a, b) on each axis.
  double Sum(const std::array<std::size_t, 3>& a, const std::array<std::size_t, 3>& b) const {
    double sum = 0;
    for (int corner = 0; corner < 8; ++corner) {
      const auto pick = [&](int axis) {
        const auto at = static_cast<std::size_t>(axis);
        return (corner >> axis & 1) != 0 ? a[at] : b[at];
      };
      const bool odd = ((corner ^ corner >> 1 ^ corner >> 2) & 1) != 0;
      sum += (odd ? -1 : 1) * sums_[Index(pick(0), pick(1), pick(2))];
    }
    return sum;
  }

 private:
  std::size_t Index(std::size_t i, std::size_t j, std::size_t k) const {
    return (i * (shape_[1] + 1) + j) * (shape_[2] + 1) + k;
  }
  double& At(std::size_t i, std::size_t j, std::size_t k) { return sums_[Index(i, j, k)]; }

  std::array<std::size_t, 3> shape_;
  std::vector<double> sums_;
};

std::array<std::size_t, 3> ShapeOf(const BoundaryGrid& grid) {
  return {grid.values[0].size(), grid.values[1].size(), grid.values[2].size()};
}

// The box of most points of which at least kBoxShare is inside; the first, if equal. O(n²) boxes for
// n = the product of the axes.
std::optional<BoundaryBox> LargestBox(const BoundaryGrid& grid, const std::vector<double>& there,
                                      const std::vector<double>& inside) {
  const auto shape = ShapeOf(grid);
  const BoxSums all(shape, there), good(shape, inside);
  std::optional<BoundaryBox> best;
  double most = 0;
  std::array<std::size_t, 3> a{}, b{};
  for (a[0] = 0; a[0] < shape[0]; ++a[0])
    for (b[0] = a[0] + 1; b[0] <= shape[0]; ++b[0])
      for (a[1] = 0; a[1] < shape[1]; ++a[1])
        for (b[1] = a[1] + 1; b[1] <= shape[1]; ++b[1])
          for (a[2] = 0; a[2] < shape[2]; ++a[2])
            for (b[2] = a[2] + 1; b[2] <= shape[2]; ++b[2]) {
              const double points = all.Sum(a, b);
              if (points <= most) continue;
              const double share = good.Sum(a, b) / points;
              if (share < kBoxShare) continue;
              most = points;
              best.emplace();
              best->first = a;
              best->last = {b[0] - 1, b[1] - 1, b[2] - 1};
              best->points = static_cast<std::size_t>(std::llround(points));
              best->inside = share;
            }
  return best;
}

std::string Rounded(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  if (value >= 10) return fmt::format("{:.3g}", value);
  return fmt::format("{:.2g}", value);
}

std::string CombineWords(Combine combine) {
  switch (combine) {
    case Combine::kMax:
      return "the maximum over the modalities";
    case Combine::kSum:
      return "the sum over the modalities";
    case Combine::kCriticalPath:
      return "the critical path";
  }
  return "";
}

// For "{:.0f}": a tie goes away from zero, as in the reports.
double WholePercent(double share) { return std::round(100 * share); }

// "{lead}, at 80 % of the points, what fails most", or nothing where nothing fails.
std::string FailsMost(const BoundaryOf& boundary, std::string_view lead) {
  const FormulaFailure most = boundary.MostCommon();
  if (most == FormulaFailure::kNone) return "";
  const auto outside = static_cast<double>(boundary.points - boundary.failures[0]);
  return fmt::format(
      "{}, at {:.0f} % of the points, {}", lead,
      WholePercent(static_cast<double>(boundary.failures[static_cast<std::size_t>(most)]) /
                   outside),
      FormulaFailureText(most));
}

}  // namespace

std::string_view FormulaFailureText(FormulaFailure failure) {
  switch (failure) {
    case FormulaFailure::kNone:
      return "inside 10 %";
    case FormulaFailure::kReduceHidden:
      return "gradient exchange hides behind compute";
    case FormulaFailure::kCommHidden:
      return "other communication hides behind compute";
    case FormulaFailure::kAlignmentHidden:
      return "alignment hides behind other waits";
    case FormulaFailure::kModulesLeftOut:
      return "modules add up, max takes one";
    case FormulaFailure::kOutside:
      return "optimizer and host are not in the formula";
    case FormulaFailure::kCommExposed:
      return "more communication is exposed than α·Comm";
    case FormulaFailure::kModulesElsewhere:
      return "modules run beside each other, the formula adds them";
    case FormulaFailure::kBubbleLess:
      return "the pipeline idles less than α·bubble";
    case FormulaFailure::kBubbleMore:
      return "the pipeline idles more than α·bubble";
    case FormulaFailure::kAlignmentMore:
      return "tokens are waited for longer than β·P_align";
    case FormulaFailure::kSlowed:
      return "collectives slow the kernels beside them";
    case FormulaFailure::kReduceMore:
      return "more of the gradient exchange is exposed than G/C";
    case FormulaFailure::kDataWait:
      return "the wait for data and host is not in the formula";
  }
  return "";
}

FormulaPoint FormulaPointOf(const FigureNumber& figure, const std::vector<std::string>& modules) {
  FormulaPoint p;
  p.modules = modules;
  for (const std::string& k : modules) {
    p.f_over_b_s.push_back(figure("f_over_b_s." + k));
    p.g_over_c_s.push_back(figure("g_over_c_s." + k));
    p.comm_s.push_back(figure("comm_s." + k));
    p.bubble_s.push_back(figure("bubble_s." + k));
  }
  p.path_f_over_b_s = figure("path_f_over_b_s");
  p.path_g_over_c_s = figure("path_g_over_c_s");
  p.path_comm_s = figure("path_comm_s");
  p.path_bubble_s = figure("path_bubble_s");
  p.p_align_s = figure("p_align_s");
  p.step_s = figure("step_time_s");
  p.compute_s = figure("compute_s");
  p.slowed_s = figure("compute_slowed_by_communication_s");
  p.exposed_comm_s = figure("exposed_comm_s");
  p.dp_reduce_s = figure("dp_reduce_s");
  p.bubble_sim_s = figure("bubble_s");
  p.straggler_s = figure("straggler_wait_s");
  p.alignment_wait_s = figure("alignment_wait_s");
  p.data_wait_s = figure("data_wait_s");
  p.outside_s = figure("optimizer_s") + p.data_wait_s;
  return p;
}

std::vector<std::string> ModulesOfFigures(const std::vector<std::string>& names) {
  const std::string prefix = "f_over_b_s.";
  std::set<std::string> modules;
  for (const std::string& name : names) {
    if (name.compare(0, prefix.size(), prefix) == 0) modules.insert(name.substr(prefix.size()));
  }
  return {modules.begin(), modules.end()};
}

GoldenRow RowOf(const FormulaPoint& p, Combine combine) {
  GoldenRow row;
  if (combine == Combine::kCriticalPath) {
    row.f_over_b = {p.path_f_over_b_s};
    row.g_over_c = {p.path_g_over_c_s};
    row.comm = {p.path_comm_s};
  } else {
    row.f_over_b = p.f_over_b_s;
    row.g_over_c = p.g_over_c_s;
    row.comm = p.comm_s;
  }
  row.p_align = p.p_align_s;
  row.simulated_s = p.step_s;
  return row;
}

FormulaFailure FailureOf(const FormulaPoint& p, Combine combine, double alpha, double beta,
                         double tolerance) {
  const GoldenRow row = RowOf(p, combine);
  const double gap = GoldenTime(row, combine, alpha, beta) - p.step_s;
  if (std::abs(gap) <= tolerance * p.step_s) return FormulaFailure::kNone;
  double f = 0, g = 0, comm = 0, bubble = 0;
  if (combine == Combine::kCriticalPath) {
    f = p.path_f_over_b_s;
    g = p.path_g_over_c_s;
    comm = p.path_comm_s;
    bubble = p.path_bubble_s;
  } else {
    std::size_t active = 0;
    double most = -1;
    for (std::size_t k = 0; k < row.comm.size(); ++k) {
      const double value = row.f_over_b[k] + row.g_over_c[k] + alpha * row.comm[k];
      if (value > most) {
        most = value;
        active = k;
      }
    }
    for (std::size_t k = 0; k < row.comm.size(); ++k) {
      if (combine == Combine::kMax && k != active) continue;
      f += row.f_over_b[k];
      g += row.g_over_c[k];
      comm += row.comm[k];
      bubble += p.bubble_s[k];
    }
  }
  using Part = std::pair<double, FormulaFailure>;
  const double modules = f - (p.compute_s - p.slowed_s);
  const double reduce = g - p.dp_reduce_s;
  const double talk = alpha * (comm - bubble) - (p.exposed_comm_s - p.dp_reduce_s);
  const double idle = alpha * bubble - p.bubble_sim_s - p.straggler_s;
  const double align = beta * p.p_align_s - p.alignment_wait_s;
  const std::array<Part, 5> over{{{reduce, FormulaFailure::kReduceHidden},
                                  {talk, FormulaFailure::kCommHidden},
                                  {align, FormulaFailure::kAlignmentHidden},
                                  {modules, FormulaFailure::kModulesElsewhere},
                                  {idle, FormulaFailure::kBubbleLess}}};
  const std::array<Part, 7> under{
      {{-modules, FormulaFailure::kModulesLeftOut},
       {p.outside_s,
        2 * p.data_wait_s > p.outside_s ? FormulaFailure::kDataWait : FormulaFailure::kOutside},
       {-talk, FormulaFailure::kCommExposed},
       {-idle, FormulaFailure::kBubbleMore},
       {-align, FormulaFailure::kAlignmentMore},
       {p.slowed_s, FormulaFailure::kSlowed},
       {-reduce, FormulaFailure::kReduceMore}}};
  const auto largest = [](const auto& parts) {
    return std::max_element(parts.begin(), parts.end(),
                            [](const Part& a, const Part& b) { return a.first < b.first; })
        ->second;
  };
  return gap > 0 ? largest(over) : largest(under);
}

FormulaFailure BoundaryOf::MostCommon() const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < failures.size(); ++i) {
    if (failures[i] > (best == 0 ? 0 : failures[best])) best = i;
  }
  return static_cast<FormulaFailure>(best);
}

BoundaryOf FindBoundary(const BoundaryGrid& grid, Combine combine, double tolerance) {
  std::vector<GoldenRow> rows;
  for (const auto& point : grid.points) {
    if (point) rows.push_back(RowOf(*point, combine));
  }
  return FindBoundary(grid, combine, tolerance, FitGolden(rows, combine));
}

BoundaryOf FindBoundary(const BoundaryGrid& grid, Combine combine, double tolerance,
                        const GoldenFit& fit) {
  BoundaryOf out;
  out.combine = combine;
  out.fit = fit;
  out.alpha = fit.alpha.value.value_or(1);
  out.beta = fit.beta.value.value_or(1);
  out.reason.assign(grid.points.size(), FormulaFailure::kNone);
  std::vector<double> there(grid.points.size(), 0), inside(grid.points.size(), 0), gaps;
  const auto shape = ShapeOf(grid);
  std::array<std::vector<double>, 3> count;
  for (std::size_t a = 0; a < 3; ++a) {
    out.inside_by_axis[a].assign(shape[a], 0);
    count[a].assign(shape[a], 0);
  }
  for (std::size_t i = 0; i < grid.points.size(); ++i) {
    if (!grid.points[i]) continue;
    const FormulaPoint& point = *grid.points[i];
    out.reason[i] = FailureOf(point, combine, out.alpha, out.beta, tolerance);
    ++out.failures[static_cast<std::size_t>(out.reason[i])];
    gaps.push_back(std::abs(
        GoldenTime(RowOf(point, combine), combine, out.alpha, out.beta) / point.step_s - 1));
    there[i] = 1;
    inside[i] = out.reason[i] == FormulaFailure::kNone ? 1 : 0;
    const std::array<std::size_t, 3> at{i / (shape[1] * shape[2]), i / shape[2] % shape[1],
                                        i % shape[2]};
    for (std::size_t a = 0; a < 3; ++a) {
      out.inside_by_axis[a][at[a]] += inside[i];
      ++count[a][at[a]];
    }
  }
  out.points = gaps.size();
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t k = 0; k < shape[a]; ++k)
      out.inside_by_axis[a][k] /= std::max(1.0, count[a][k]);
  }
  if (out.points > 0) {
    out.inside = static_cast<double>(out.failures[0]) / static_cast<double>(out.points);
    out.box = LargestBox(grid, there, inside);
  }
  out.median_gap = Quantile(gaps, 0.5);
  out.p90_gap = Quantile(gaps, 0.9);
  return out;
}

std::string BoxText(const BoundaryGrid& grid, const BoundaryBox& box) {
  std::string text;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::vector<double>& values = grid.values[a];
    if (values.size() < 2) continue;
    if (!text.empty()) text += ", ";
    const bool low = box.first[a] == 0, high = box.last[a] + 1 == values.size();
    const std::string from = Rounded(values[box.first[a]]), to = Rounded(values[box.last[a]]);
    if (low && high) {
      text += "any " + grid.names[a];
    } else if (low) {
      text += grid.names[a] + " up to " + to;
    } else if (high) {
      text += grid.names[a] + " from " + from;
    } else {
      text += grid.names[a] + " " + from;
      if (to != from) text += " to " + to;
    }
  }
  return text;
}

const BoundaryOf& BestOf(const std::vector<BoundaryOf>& all) {
  return *std::max_element(all.begin(), all.end(), [](const BoundaryOf& a, const BoundaryOf& b) {
    return a.inside != b.inside ? a.inside < b.inside : a.p90_gap > b.p90_gap;
  });
}

bool Trusted(const BoundaryOf& boundary) {
  return boundary.inside >= 0.5 && boundary.fit.r2.value_or(0) >= 0;
}

std::string BoundarySentence(const BoundaryGrid& grid, const std::vector<BoundaryOf>& all,
                             double tolerance) {
  const BoundaryOf& best = BestOf(all);
  if (!Trusted(best)) {
    std::string text = fmt::format(
        "Do not trust it here, simulate: at its best, as {} (α = {:.2f}, β = {:.2f}), the formula "
        "is "
        "within {:.0f} % of the simulation at {:.0f} % of the points",
        CombineWords(best.combine), best.alpha, best.beta, WholePercent(tolerance),
        WholePercent(best.inside));
    if (best.fit.r2.value_or(0) < 0)
      text +=
          fmt::format(", and further off than the mean of the steps (R² = {:.2g})", *best.fit.r2);
    return text + FailsMost(best, "; elsewhere") + ".";
  }
  std::string text = fmt::format(
      "Read as {} (α = {:.2f}, β = {:.2f}), the formula is within {:.0f} % of the simulation at "
      "{:.0f} % of the points",
      CombineWords(best.combine), best.alpha, best.beta, WholePercent(tolerance),
      WholePercent(best.inside));
  if (best.box && best.inside < 1) text += "; trust it at " + BoxText(grid, *best.box);
  if (best.MostCommon() == FormulaFailure::kNone) return text + ", over the whole range.";
  return text + FailsMost(best, ", and simulate elsewhere: there") + ".";
}

Json FitJson(const GoldenFit& fit, Combine combine, std::size_t points) {
  Json out = Json::Object();
  out.Set("combine", CombineName(combine));
  const auto parameter = [&](const char* name, const GoldenParameter& p) {
    Json entry = Json::Object();
    if (p.value) entry.Set("value", *p.value);
    if (p.low) entry.Set("low", *p.low);
    if (p.high) entry.Set("high", *p.high);
    entry.Set("at_bound", p.at_bound);
    if (!p.reason.empty()) entry.Set("reason", p.reason);
    out.Set(name, std::move(entry));
  };
  parameter("alpha", fit.alpha);
  parameter("beta", fit.beta);
  if (fit.r2) out.Set("r2", *fit.r2);
  out.Set("rms_relative_error", fit.rms_relative_error);
  out.Set("max_relative_error", fit.max_relative_error);
  out.Set("within_ten_percent", fit.within_ten_percent);
  out.Set("points", static_cast<std::int64_t>(points));
  return out;
}

Json BoundaryJson(const BoundaryGrid& grid, const std::vector<BoundaryOf>& all) {
  Json list = Json::Array();
  for (const BoundaryOf& b : all) {
    Json entry = FitJson(b.fit, b.combine, b.points);
    entry.Set("inside_share", b.inside);
    entry.Set("median_gap", b.median_gap);
    entry.Set("p90_gap", b.p90_gap);
    Json axes = Json::Array();
    for (std::size_t a = 0; a < 3; ++a) {
      Json axis = Json::Object();
      axis.Set("name", grid.names[a]);
      axis.Set("values", Json::Numbers(grid.values[a]));
      axis.Set("inside_share", Json::Numbers(b.inside_by_axis[a]));
      if (b.box) {
        axis.Set("holds_from", grid.values[a][b.box->first[a]]);
        axis.Set("holds_to", grid.values[a][b.box->last[a]]);
      }
      axes.Append(std::move(axis));
    }
    entry.Set("axes", std::move(axes));
    if (b.box) {
      Json box = Json::Object();
      box.Set("points", static_cast<std::int64_t>(b.box->points));
      box.Set("inside_share", b.box->inside);
      entry.Set("box", std::move(box));
    }
    Json failures = Json::Array();
    for (std::size_t i = 1; i < b.failures.size(); ++i) {
      if (b.failures[i] == 0) continue;
      Json failure = Json::Object();
      failure.Set("reason", std::string(FormulaFailureText(static_cast<FormulaFailure>(i))));
      failure.Set("points", static_cast<std::int64_t>(b.failures[i]));
      failures.Append(std::move(failure));
    }
    entry.Set("failures", std::move(failures));
    list.Append(std::move(entry));
  }
  return list;
}

}  // namespace aurum
