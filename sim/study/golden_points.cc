#include "sim/study/golden_points.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "sim/core/rounding.h"
#include "sim/core/units.h"
#include "sim/study/figures.h"
#include "sim/study/store_reader.h"
#include "sim/study/sweep.h"

namespace aurum {
namespace {

constexpr const char* kPaths[3] = {"what_if.flops_gflop_per_token", "what_if.comm_bw_gb_per_s",
                                   "what_if.align_ratio"};
constexpr const char* kNames[3] = {"GFLOP per token", "GB/s", "alignment ratio"};

using Numbers = std::map<std::string, double>;

Numbers NumbersOf(const std::vector<Figure>& figures) {
  Numbers numbers;
  for (const Figure& figure : figures) {
    if (const auto* number = std::get_if<double>(&figure.value)) numbers[figure.name] = *number;
  }
  return numbers;
}

FormulaPoint PointOf(const Numbers& numbers, const std::vector<std::string>& modules) {
  return FormulaPointOf(
      [&](const std::string& name) {
        const auto found = numbers.find(name);
        return found == numbers.end() ? 0.0 : found->second;
      },
      modules);
}

std::vector<std::string> NamesOf(const Numbers& numbers) {
  std::vector<std::string> names;
  for (const auto& [name, value] : numbers) names.push_back(name);
  return ModulesOfFigures(names);
}

std::vector<double> Logarithmic(double centre, double factor, std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const double at = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.5;
    values.push_back(RoundSignificant(centre * std::pow(factor, 2 * at - 1), 4));
  }
  return values;
}

}  // namespace

FormulaPoint PointOf(const Evaluation& evaluation, const std::vector<std::string>& modules) {
  return PointOf(NumbersOf(FiguresOf(evaluation)), modules);
}

std::vector<std::string> ModulesOf(const Evaluation& evaluation) {
  std::vector<std::string> modules;
  for (const GoldenTerm& term : evaluation.golden.terms) modules.push_back(term.module);
  std::sort(modules.begin(), modules.end());
  return modules;
}

std::vector<FormulaPoint> PointsOfStore(const std::string& path) {
  StoreReader reader(path);
  const StudyInfo& info = reader.info();
  std::vector<std::string> names;
  for (const FigureColumn& figure : info.figures) names.push_back(figure.name);
  const std::vector<std::string> modules = ModulesOfFigures(names);
  std::vector<FormulaPoint> points;
  StoredPoint stored;
  while (reader.Next(&stored)) {
    if (stored.status != PointStatus::kOk) continue;
    Numbers numbers;
    for (std::size_t i = 0; i < info.figures.size(); ++i) {
      if (stored.figures[i].IsNumber())
        numbers[info.figures[i].name] = stored.figures[i].AsNumber();
    }
    FormulaPoint point = PointOf(numbers, modules);
    if (point.step_s > 0) points.push_back(std::move(point));
  }
  if (modules.empty() || points.empty()) {
    ThrowInput(742, "'" + path + "' holds no point with the formula's terms and a step time",
               "a database that aurum sweep wrote, of points that succeeded");
  }
  return points;
}

void JoinModules(std::vector<FormulaPoint>* points) {
  std::set<std::string> all;
  for (const FormulaPoint& point : *points) all.insert(point.modules.begin(), point.modules.end());
  const std::vector<std::string> modules(all.begin(), all.end());
  for (FormulaPoint& point : *points) {
    if (point.modules == modules) continue;
    const FormulaPoint old = point;
    const auto spread = [&](const std::vector<double>& values) {
      std::vector<double> out(modules.size(), 0);
      for (std::size_t k = 0; k < old.modules.size(); ++k) {
        const auto at = std::lower_bound(modules.begin(), modules.end(), old.modules[k]);
        out[static_cast<std::size_t>(at - modules.begin())] = values[k];
      }
      return out;
    };
    point.modules = modules;
    point.f_over_b_s = spread(old.f_over_b_s);
    point.g_over_c_s = spread(old.g_over_c_s);
    point.comm_s = spread(old.comm_s);
    point.bubble_s = spread(old.bubble_s);
  }
}

std::vector<std::pair<std::string, std::size_t>> ActiveCounts(
    const GoldenFit& fit, const std::vector<std::string>& modules) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  if (fit.active.empty()) return counts;
  for (const std::string& module : modules) counts.emplace_back(module, 0);
  for (const std::size_t k : fit.active) ++counts[k].second;
  return counts;
}

BoundaryAxes AxesAround(const JsonDocument& scenario, const Evaluation& e, std::size_t count) {
  BoundaryAxes out;
  std::array<const Axis*, 3> told{};
  const Design own = ReadDesign(scenario);
  for (const Axis& axis : own.axes()) {
    for (std::size_t a = 0; a < 3; ++a) {
      const bool numbers = std::all_of(axis.values.begin(), axis.values.end(),
                                       [](const Json& value) { return value.IsNumber(); });
      if (AxisPointer(axis.path) == AxisPointer(kPaths[a]) && numbers) told[a] = &axis;
    }
  }
  // The values of another design are no grid; its ends are still those to look between.
  out.told =
      own.IsGrid() && told[0] != nullptr && told[1] != nullptr && told[2] != nullptr && count == 0;
  const std::size_t side = count == 0 ? 8 : count;
  const bool many = e.scenario.cluster->GpuCount() > 1;
  const auto ends = [&](std::size_t a, double centre, double factor) {
    if (told[a] == nullptr) return Logarithmic(centre, factor, side);
    double low = 0, high = 0;
    if (own.IsGrid()) {
      low = told[a]->values.front().AsNumber(), high = told[a]->values.back().AsNumber();
    } else if (const auto& range = told[a]->range) {
      low = range->from, high = range->to;
    } else {
      std::vector<double> values;
      for (const Json& value : told[a]->values) values.push_back(value.AsNumber());
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      low = *least, high = *most;
    }
    if (!own.IsGrid() && !(low > 0 && low < high)) return Logarithmic(centre, factor, side);
    return Logarithmic(std::sqrt(low * high), std::sqrt(high / low), side);
  };
  for (std::size_t a = 0; a < 3; ++a) {
    std::vector<double>& values = out.grid.values[a];
    out.grid.names[a] = kNames[a];
    if (out.told) {
      for (const Json& value : told[a]->values) values.push_back(value.AsNumber());
    } else if (a == 0) {
      values = ends(0, e.program.own_flops_per_token / kGiga, 8);
    } else if (a == 1 && e.program.own_bus_bandwidth > 0) {
      values = ends(1, e.program.own_bus_bandwidth / kGiga, 8);
    } else if (a == 2 && many && e.alignment.any) {
      for (std::size_t i = 0; i < side; ++i)
        values.push_back(RoundSignificant(
            side > 1 ? static_cast<double>(i) / static_cast<double>(side - 1) : 1.0, 4));
    }
    if (values.empty()) {
      values = {a == 1 ? 0.0 : 1.0};
      continue;
    }
    Axis axis;
    axis.path = kPaths[a];
    for (const double value : values) axis.values.emplace_back(value);
    out.axes.push_back(std::move(axis));
  }
  return out;
}

void RunBoundary(const JsonDocument& scenario, InputCache* cache, Level level, int jobs,
                 BoundaryAxes* axes) {
  JsonDocument document = scenario;
  document.root = WithoutSweep(scenario.root);
  SweepOptions run;
  run.jobs = jobs;
  std::vector<Numbers> numbers;
  std::string failure;
  run.on_point = [&](const PointRow& row) {
    numbers.push_back(row.status == PointStatus::kOk ? NumbersOf(row.figures) : Numbers{});
    if (row.status != PointStatus::kOk && failure.empty()) failure = row.diagnostic;
  };
  RunSweep(
      document, axes->axes,
      [&](const JsonDocument& point) {
        return FiguresOf(Evaluate(ReadScenario(point, cache), level));
      },
      run, nullptr);
  axes->grid.points.assign(numbers.size(), std::nullopt);
  bool any = false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].empty()) continue;
    axes->grid.points[i] = PointOf(numbers[i], NamesOf(numbers[i]));
    any = true;
  }
  if (!any) {
    ThrowInput(745, "no point of the grid around this scenario has a result: " + failure,
               "a scenario that aurum simulate runs, or a sweep of its own over the three axes",
               ExitCode::kInfeasible);
  }
}

}  // namespace aurum
