#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/study/golden_fit.h"
#include "sim/study/point.h"

namespace aurum {

struct Evaluation;

// Where the golden formula holds, and why it does not elsewhere
// -------------------------------------------------------------
// A point is one step: the formula's terms, and how its busiest rank spent the simulated step. With α and β fitted, formula minus
// simulation falls apart into as many differences as a step has parts, and they sum to the gap:
//
//   F/B            − kernels of the busiest rank        max leaves out the other modules (−); a sum counts other ranks' modules (+)
//                  − what collectives beside cost them
//   G/C            − reductions that it waits for       the rest hides behind compute (+)
//   α·(Comm − bubble) − other communication it waits for
//   α·bubble       − bubbles, and waits for slower ranks of its stage
//   β·P_align      − waits for tokens
//                  − optimizer and host                 no term of the formula
//
// The largest difference of the gap's own sign is why the formula fails there.
enum class FormulaFailure {
  kNone,              // within tolerance
  kReduceHidden,      // + gradient exchange hides behind compute
  kCommHidden,        // + other communication hides behind compute
  kAlignmentHidden,   // + tokens arrive before they are needed
  kModulesLeftOut,    // − modules of one rank follow each other, max takes one
  kOutside,           // − optimizer and host have no term
  kCommExposed,       // − more communication is waited for than α·Comm
  kModulesElsewhere,  // + modules of different ranks run beside each other, sum adds them
  kBubbleLess,        // + the pipeline idles less than α times its bubble
  kBubbleMore,        // − it idles more, slower ranks of a stage included
  kAlignmentMore,     // − tokens are waited for longer than β·P_align
  kSlowed,            // − collectives slow the kernels that they run beside
  kReduceMore,  // − more of the gradient exchange is waited for than G/C: of other modules too
  kDataWait,    // − of kOutside, where the wait for data and host is the larger part
};
inline constexpr int kFormulaFailures = 14;
// In words: "gradient exchange hides behind compute".
std::string_view FormulaFailureText(FormulaFailure failure);

// The formula's side and the simulation's side of one step. Terms in the order of `modules`.
struct FormulaPoint {
  std::vector<std::string> modules;
  std::vector<double> f_over_b_s, g_over_c_s, comm_s, bubble_s;
  double path_f_over_b_s = 0, path_g_over_c_s = 0, path_comm_s = 0, path_bubble_s = 0;
  double p_align_s = 0;
  double step_s = 0;
  double compute_s = 0, slowed_s = 0, exposed_comm_s = 0, dp_reduce_s = 0, bubble_sim_s = 0,
         straggler_s = 0, alignment_wait_s = 0, outside_s = 0;
  double data_wait_s = 0;  // of outside_s: the host's own work and the wait for its data
};
// From the figures of a study's point: by name, 0 where there is none. `modules`: those of all points
// together, so that their rows can be fitted; a module that a model lacks spends nothing.
using FigureNumber = std::function<double(const std::string& name)>;
FormulaPoint FormulaPointOf(const FigureNumber& figure, const std::vector<std::string>& modules);
// The module names among figures' names, sorted.
std::vector<std::string> ModulesOfFigures(const std::vector<std::string>& names);

// What FitGolden takes: by module, or of the critical path alone.
GoldenRow RowOf(const FormulaPoint& point, Combine combine);
FormulaFailure FailureOf(const FormulaPoint& point, Combine combine, double alpha, double beta,
                         double tolerance);

// Points over three axes, the last fastest; an axis may have one value. `points[i]` is absent where the
// point has no result.
struct BoundaryGrid {
  std::array<std::string, 3> names;  // "GFLOP per token", ...
  std::array<std::vector<double>, 3> values;
  std::vector<std::optional<FormulaPoint>> points;
};

// Consecutive values of the axes, by index, both inclusive.
struct BoundaryBox {
  std::array<std::size_t, 3> first{}, last{};
  std::size_t points = 0;
  double inside = 0;  // share
};

struct BoundaryOf {
  Combine combine = Combine::kMax;
  GoldenFit fit;
  double alpha = 1, beta = 1;  // fitted; 1 where the points do not determine it
  std::size_t points = 0;
  double inside = 0;                                  // share within tolerance
  double median_gap = 0, p90_gap = 0;                 // |formula/simulation − 1|
  std::array<std::vector<double>, 3> inside_by_axis;  // share, by value of each axis
  // The largest box of which at least kBoxShare is inside; none where no point is.
  std::optional<BoundaryBox> box;
  std::array<std::size_t, kFormulaFailures> failures{};  // points, by reason
  std::vector<FormulaFailure> reason;                    // by point of the grid; kNone where absent
  FormulaFailure MostCommon() const;                     // of those outside; kNone where none is
};
inline constexpr double kBoxShare = 0.98;

// Fits α and β over the grid's points and says where that formula holds. E0740 no point has a result.
BoundaryOf FindBoundary(const BoundaryGrid& grid, Combine combine, double tolerance = 0.1);
// The same with α and β given, of a fit over more points than the grid's.
BoundaryOf FindBoundary(const BoundaryGrid& grid, Combine combine, double tolerance,
                        const GoldenFit& fit);

// "from 2 to 61 GFLOP per token, 16 to 1,000 GB/s, any alignment ratio"
std::string BoxText(const BoundaryGrid& grid, const BoundaryBox& box);
// Whether the formula with these weights is of any use on the grid: within tolerance at half of the
// points or more, and no worse than the mean of the steps (R² ≥ 0, where it is known).
bool Trusted(const BoundaryOf& boundary);
// What a user takes away, of the combine that is inside most often (if equal, with the smaller gaps):
// where to trust it, or that it is not to be trusted, and what fails most.
std::string BoundarySentence(const BoundaryGrid& grid, const std::vector<BoundaryOf>& all,
                             double tolerance);
const BoundaryOf& BestOf(const std::vector<BoundaryOf>& all);
// [{"combine", "alpha", ..., "inside_share", "box", "failures", ...}]
Json BoundaryJson(const BoundaryGrid& grid, const std::vector<BoundaryOf>& all);
Json FitJson(const GoldenFit& fit, Combine combine, std::size_t points);

}  // namespace aurum
