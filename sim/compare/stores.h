#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/compare/document_diff.h"
#include "sim/compare/fail_if.h"
#include "sim/core/json.h"

namespace aurum {

// Two sweeps point by point: what a change of the program, a profile or a scenario did to every one of its points.

// Relative changes of one figure, B over A less 1, over the points that have it on both sides and not 0 in A.
struct FigureSpread {
  std::string figure;
  std::size_t points = 0;
  std::size_t rose = 0, fell = 0;  // by more than a billionth
  double mean = 0, least = 0, p10 = 0, median = 0, p90 = 0, most = 0;
};

struct JoinedPoint {
  std::vector<std::string> axis_values;  // as JSON, aligned with StoreComparison::axes
  double a = 0, b = 0;                   // of the figure that is ordered by
  double relative_change = 0;
};

// The median change where one axis has one value.
struct AxisEffect {
  std::string path, value;
  std::size_t points = 0;
  double median = 0;
};

struct StoreComparison {
  std::string a, b;                              // the files
  std::string joined_by;                         // "ids" or "axis values"
  std::vector<std::string> axes;                 // paths
  std::size_t both = 0, only_a = 0, only_b = 0;  // points
  std::size_t both_ok = 0;
  std::size_t lost = 0, gained = 0;      // ok in A and not in B; ok in B and not in A
  std::vector<std::string> lost_points;  // the first of them, their axis values
  std::string by;                        // the figure that is ordered by
  std::vector<FigureSpread> spreads;
  std::vector<JoinedPoint> rises, falls;  // the largest
  std::vector<AxisEffect> effects;        // of axes with few values
  std::vector<KeyChange> changes;         // of what all points share
  std::vector<std::string> notes;
  std::string summary;
  // By condition: the point that goes furthest beyond it, and how many do.
  struct JudgedPoints {
    Judged worst;
    std::vector<std::string> axis_values;
    std::size_t failed = 0, points = 0;
  };
  std::vector<JudgedPoints> judged;
  bool Failed() const;
};

struct StoreOptions {
  std::string by = "step_time_s";
  std::size_t shown = 5;  // rises and falls
  std::vector<Condition> fail_if;
};

// Points are joined by their ids; where the two have none in common, since what their points share differs, by the
// values of their axes. Reads both stores once, O(points of A) memory. Errors: those of StoreReader; E0885 nothing to
// join by; E0881 a figure that no point has on both sides.
StoreComparison CompareStores(const std::string& a, const std::string& b,
                              const StoreOptions& options);

// The document of `compare --json` of two databases (docs/schema/comparison.schema.json).
Json StoreComparisonJson(const StoreComparison& comparison, const std::string& tool_version);

}  // namespace aurum
