#include "sim/study/golden_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/core/diagnostic.h"

// Fitting the golden formula
//
// With x = (alpha, beta) and everything of a row divided by its time y, a row's relative error is
//     r + alpha·a + beta·p,   r = base/y - 1,  a = comm/y,  p = p_align/y
// where base = F/B + G/C and comm are summed over the subnetworks (sum, critical path): a linear
// least-squares problem of two parameters in a box, whose minimum is one of at most five candidates
// (inside, or on one of the sides).
//
// For `max` base and comm are those of the subnetwork that is slowest at this alpha, and the
// problem is no longer convex. The usual alternation - fix the active subnetworks, solve, look
// again which are active, repeat - stops at any point that is consistent with itself, and there may
// be several. But which subnetwork is active depends on alpha alone, and only K lines compete in a
// row:
//
//     time                    /  C        row 1:   A until 0.4, then C
//      |  A ________________ /_           row 2:   B until 0.7, then A
//      |  B ______________ /___           ...
//      |__________________/____ alpha     all rows together: linear on each of [0, 0.4], [0.4,
//      0.7], [0.7, 1]
//
// So the breakpoints of all rows, sorted, cut [0, 1] into at most n(K-1)+1 intervals. On each one
// the problem is linear; stepping over a breakpoint changes the six sums of the normal equations by
// one row. Solving every interval in its box and keeping the best is the global minimum, for a sort
// and O(1) per interval. One alternation from there repairs what rounding in the running sums may
// have blurred: it lands on the exact solution of its own interval.
namespace aurum {
namespace {

constexpr double kAlphaMax = 1;
// A column this small beside the step time, or two columns this nearly proportional, carry no
// information but rounding.
constexpr double kNothing = 1e-12;

struct Line {
  double base = 0;
  double comm = 0;
};

// One row for a given choice of the active subnetwork, relative to its time.
struct Term {
  double r = 0;
  double a = 0;
  double p = 0;
};

std::vector<Line> Lines(const GoldenRow& row) {
  std::vector<Line> lines;
  for (std::size_t k = 0; k < row.comm.size(); ++k)
    lines.push_back({row.f_over_b[k] + row.g_over_c[k], row.comm[k]});
  return lines;
}

Line Sum(const std::vector<Line>& lines) {
  Line sum;
  for (const Line& line : lines) {
    sum.base += line.base;
    sum.comm += line.comm;
  }
  return sum;
}

std::size_t Active(const std::vector<Line>& lines, double alpha) {
  std::size_t best = 0;
  for (std::size_t k = 1; k < lines.size(); ++k) {
    if (lines[k].base + alpha * lines[k].comm > lines[best].base + alpha * lines[best].comm)
      best = k;
  }
  return best;
}

Term MakeTerm(const Line& line, const GoldenRow& row) {
  const double y = row.simulated_s;
  return {line.base / y - 1, line.comm / y, row.p_align / y};
}

// The sums of the normal equations.
struct Sums {
  double rr = 0;
  double ra = 0;
  double rp = 0;
  double aa = 0;
  double ap = 0;
  double pp = 0;

  void Add(const Term& t, double sign) {
    rr += sign * t.r * t.r;
    ra += sign * t.r * t.a;
    rp += sign * t.r * t.p;
    aa += sign * t.a * t.a;
    ap += sign * t.a * t.p;
    pp += sign * t.p * t.p;
  }
  double Squares(double alpha, double beta) const {
    return rr + 2 * (alpha * ra + beta * rp) + alpha * alpha * aa + 2 * alpha * beta * ap +
           beta * beta * pp;
  }
};

Sums SumsOf(const std::vector<Term>& terms) {
  Sums sums;
  for (const Term& term : terms) sums.Add(term, 1);
  return sums;
}

struct Solution {
  double alpha = 0;
  double beta = 0;
  double squares = std::numeric_limits<double>::infinity();
};

bool HasColumn(double squares, std::size_t rows) {
  return squares > kNothing * kNothing * static_cast<double>(rows);
}

bool Separable(const Sums& s) { return s.aa * s.pp - s.ap * s.ap > kNothing * s.aa * s.pp; }

// The minimum with alpha in [low, high] and beta >= 0; 0 or the lower end for what has no
// influence.
Solution SolveBox(const Sums& s, double low, double high) {
  Solution best;
  const auto consider = [&](double alpha, double beta) {
    const double squares = s.Squares(alpha, beta);
    if (squares < best.squares) best = {alpha, beta, squares};
  };
  const auto beta_at = [&](double alpha) {
    return s.pp > 0 ? std::max(0.0, -(s.rp + alpha * s.ap) / s.pp) : 0.0;
  };
  consider(low, beta_at(low));
  consider(high, beta_at(high));
  if (s.aa > 0) consider(std::clamp(-s.ra / s.aa, low, high), 0);
  if (s.aa > 0 && s.pp > 0 && Separable(s)) {
    const double determinant = s.aa * s.pp - s.ap * s.ap;
    const double alpha = (s.ap * s.rp - s.pp * s.ra) / determinant;
    const double beta = (s.ap * s.ra - s.aa * s.rp) / determinant;
    if (alpha >= low && alpha <= high && beta >= 0) consider(alpha, beta);
  }
  return best;
}

// The same on [0, 1] from the rows themselves: an orthogonal factorisation loses half as many
// digits as the sums do.
Solution SolveRows(const std::vector<Term>& terms) {
  const Sums sums = SumsOf(terms);
  Solution best = SolveBox(sums, 0, kAlphaMax);
  const bool inside = best.alpha > 0 && best.alpha < kAlphaMax && best.beta > 0;
  if (!inside || !HasColumn(sums.aa, terms.size()) || !HasColumn(sums.pp, terms.size()) ||
      !Separable(sums))
    return best;
  const double scale_a = std::sqrt(sums.aa);
  const double scale_p = std::sqrt(sums.pp);
  Eigen::MatrixX2d columns(static_cast<Eigen::Index>(terms.size()), 2);
  Eigen::VectorXd target(columns.rows());
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    columns(at, 0) = terms[i].a / scale_a;
    columns(at, 1) = terms[i].p / scale_p;
    target(at) = -terms[i].r;
  }
  const Eigen::Vector2d x = columns.colPivHouseholderQr().solve(target);
  best.alpha = std::clamp(x(0) / scale_a, 0.0, kAlphaMax);
  best.beta = std::max(x(1) / scale_p, 0.0);
  return best;
}

struct FitProblem {
  const std::vector<GoldenRow>& rows;
  std::vector<std::vector<Line>> lines;
  Combine combine;

  Term TermAt(std::size_t row, std::size_t k) const { return MakeTerm(lines[row][k], rows[row]); }
  std::vector<Term> TermsAt(double alpha) const {
    std::vector<Term> terms;
    terms.reserve(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool max = combine == Combine::kMax;
      terms.push_back(MakeTerm(max ? lines[i][Active(lines[i], alpha)] : Sum(lines[i]), rows[i]));
    }
    return terms;
  }
};

// From alpha on, `row` is decided by `to` instead of `from`.
struct AlphaBreakpoint {
  double alpha = 0;
  std::size_t row = 0;
  std::size_t from = 0;
  std::size_t to = 0;
};

// The upper envelope of one row's lines on [0, 1], from left to right: the next line is the one
// that crosses first.
void AddBreakpoints(const std::vector<Line>& lines, std::size_t row,
                    std::vector<AlphaBreakpoint>* out) {
  double at = 0;
  std::size_t active = Active(lines, 0);
  while (true) {
    double next = std::numeric_limits<double>::infinity();
    std::size_t to = active;
    for (std::size_t k = 0; k < lines.size(); ++k) {
      const double slope = lines[k].comm - lines[active].comm;
      if (!(slope > 0)) continue;
      const double cross = std::max(at, (lines[active].base - lines[k].base) / slope);
      if (cross < next || (cross == next && lines[k].comm > lines[to].comm)) {
        next = cross;
        to = k;
      }
    }
    if (!(next < kAlphaMax)) return;
    out->push_back({next, row, active, to});
    at = next;
    active = to;
  }
}

double BestAlphaForMax(const FitProblem& problem) {
  std::vector<AlphaBreakpoint> breakpoints;
  for (std::size_t i = 0; i < problem.rows.size(); ++i)
    AddBreakpoints(problem.lines[i], i, &breakpoints);
  std::stable_sort(
      breakpoints.begin(), breakpoints.end(),
      [](const AlphaBreakpoint& a, const AlphaBreakpoint& b) { return a.alpha < b.alpha; });
  Sums sums;
  for (std::size_t i = 0; i < problem.rows.size(); ++i) {
    sums.Add(problem.TermAt(i, Active(problem.lines[i], 0)), 1);
  }
  Solution best;
  double low = 0;
  for (std::size_t i = 0; i <= breakpoints.size(); ++i) {
    const double high = i < breakpoints.size() ? breakpoints[i].alpha : kAlphaMax;
    const Solution here = SolveBox(sums, low, high);
    if (here.squares < best.squares) best = here;
    if (i == breakpoints.size()) break;
    sums.Add(problem.TermAt(breakpoints[i].row, breakpoints[i].from), -1);
    sums.Add(problem.TermAt(breakpoints[i].row, breakpoints[i].to), 1);
    low = high;
  }
  return best.alpha;
}

// The sum of squares of the true, piecewise problem.
double Squares(const FitProblem& problem, double alpha, double beta) {
  double squares = 0;
  for (const Term& term : problem.TermsAt(alpha)) {
    const double error = term.r + alpha * term.a + beta * term.p;
    squares += error * error;
  }
  return squares;
}

Solution Minimise(const FitProblem& problem) {
  if (problem.combine != Combine::kMax) return SolveRows(problem.TermsAt(0));
  const double start = BestAlphaForMax(problem);
  Solution best = {start, SolveBox(SumsOf(problem.TermsAt(start)), start, start).beta, 0};
  best.squares = Squares(problem, best.alpha, best.beta);
  for (int i = 0; i < 4; ++i) {
    Solution next = SolveRows(problem.TermsAt(best.alpha));
    next.squares = Squares(problem, next.alpha, next.beta);
    if (!(next.squares < best.squares)) break;
    best = next;
  }
  return best;
}

// The ends of {theta : profile(theta) <= limit} around `best`, for a profile that is convex.
template <typename Profile>
double End(Profile profile, double limit, double best, double bound) {
  if (std::isinf(bound)) {
    double step = std::max(1e-12, std::abs(best));
    while (profile(best + step) <= limit && step < 1e300) step *= 2;
    bound = best + step;
  }
  if (profile(bound) <= limit) return bound;
  double in = best;
  double out = bound;
  for (int i = 0; i < 200 && in != out; ++i) {
    const double middle = in + (out - in) / 2;
    if (middle == in || middle == out) break;
    (profile(middle) <= limit ? in : out) = middle;
  }
  return in;
}

void SetIntervals(const std::vector<Term>& terms, const Solution& best, GoldenFit* fit) {
  const int parameters = (fit->alpha.value ? 1 : 0) + (fit->beta.value ? 1 : 0);
  const double freedom = static_cast<double>(terms.size()) - parameters;
  if (parameters == 0) return;
  if (freedom < 1) {
    const std::string reason =
        "too few rows for a confidence interval: " + std::to_string(terms.size());
    if (fit->alpha.value) fit->alpha.reason = reason;
    if (fit->beta.value) fit->beta.reason = reason;
    return;
  }
  // Sums about the optimum, where the differences that count are not lost in large squares.
  Sums s;
  for (Term term : terms) {
    term.r += best.alpha * term.a + best.beta * term.p;
    s.Add(term, 1);
  }
  const double t = boost::math::quantile(boost::math::students_t(freedom), 0.975);
  const double limit = s.rr * (1 + t * t / freedom);
  if (fit->alpha.value) {
    const auto profile = [&](double alpha) {
      const double a = alpha - best.alpha;
      const double b = s.pp > 0 ? std::max(-best.beta, -(s.rp + a * s.ap) / s.pp) : 0;
      return s.Squares(a, b);
    };
    fit->alpha.low = End(profile, limit, best.alpha, 0.0);
    fit->alpha.high = End(profile, limit, best.alpha, kAlphaMax);
  }
  if (fit->beta.value) {
    const auto profile = [&](double beta) {
      const double b = beta - best.beta;
      const double a =
          s.aa > 0 ? std::clamp(-(s.ra + b * s.ap) / s.aa, -best.alpha, kAlphaMax - best.alpha) : 0;
      return s.Squares(a, b);
    };
    fit->beta.low = End(profile, limit, best.beta, 0.0);
    fit->beta.high = End(profile, limit, best.beta, std::numeric_limits<double>::infinity());
  }
}

void CheckRows(const std::vector<GoldenRow>& rows) {
  const auto fail = [](std::size_t row, const std::string& what) {
    ThrowInput(740, "row " + std::to_string(row) + " cannot be fitted: " + what,
               "every row needs its terms in seconds, 0 or more, for the same subnetworks, and the "
               "time of its step");
  };
  if (rows.empty())
    ThrowInput(740, "there are no rows to fit", "simulate at least three points that differ");
  const std::size_t subnetworks = rows[0].comm.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const GoldenRow& row = rows[i];
    if (subnetworks == 0) fail(i, "it has no subnetworks");
    if (row.f_over_b.size() != subnetworks || row.g_over_c.size() != subnetworks ||
        row.comm.size() != subnetworks) {
      fail(i, "its terms are of different numbers of subnetworks");
    }
    const auto is_time = [](double value) { return std::isfinite(value) && value >= 0; };
    for (std::size_t k = 0; k < subnetworks; ++k) {
      if (!is_time(row.f_over_b[k]))
        fail(i, "F/B of subnetwork " + std::to_string(k) + " is no time");
      if (!is_time(row.g_over_c[k]))
        fail(i, "G/C of subnetwork " + std::to_string(k) + " is no time");
      if (!is_time(row.comm[k])) fail(i, "Comm of subnetwork " + std::to_string(k) + " is no time");
    }
    if (!is_time(row.p_align)) fail(i, "P_align is no time");
    if (!is_time(row.simulated_s) || row.simulated_s <= 0)
      fail(i, "the time of the step is not above 0");
  }
}

}  // namespace

double GoldenTime(const GoldenRow& row, Combine combine, double alpha, double beta) {
  const std::vector<Line> lines = Lines(row);
  assert(!lines.empty());
  const Line line = combine == Combine::kMax ? lines[Active(lines, alpha)] : Sum(lines);
  return line.base + alpha * line.comm + beta * row.p_align;
}

GoldenFit FitGolden(const std::vector<GoldenRow>& rows, Combine combine) {
  CheckRows(rows);
  FitProblem problem{rows, {}, combine};
  for (const GoldenRow& row : rows) problem.lines.push_back(Lines(row));
  const Solution best = Minimise(problem);
  const std::vector<Term> terms = problem.TermsAt(best.alpha);
  const Sums sums = SumsOf(terms);

  GoldenFit fit;
  const bool has_comm = HasColumn(sums.aa, terms.size());
  const bool has_align = HasColumn(sums.pp, terms.size());
  if (has_comm && has_align && !Separable(sums)) {
    fit.alpha.reason = fit.beta.reason = rows.size() == 1
                                             ? "one row cannot tell alpha and beta apart"
                                             : "alpha and beta cannot be told apart: Comm and "
                                               "P_align are proportional over all rows";
  } else {
    if (has_comm) {
      fit.alpha.value = best.alpha;
      fit.alpha.at_bound = best.alpha == 0 || best.alpha == kAlphaMax;
    } else {
      fit.alpha.reason = "alpha is not determined: no row's active subnetwork communicates";
    }
    if (has_align) {
      fit.beta.value = best.beta;
      fit.beta.at_bound = best.beta == 0;
    } else {
      fit.beta.reason = "beta is not determined: P_align is 0 in every row";
    }
    SetIntervals(terms, best, &fit);
  }

  double mean = 0;
  for (const GoldenRow& row : rows) mean += row.simulated_s / static_cast<double>(rows.size());
  double errors = 0;
  double deviations = 0;
  double relative = 0;
  std::size_t within = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double fitted = GoldenTime(rows[i], combine, best.alpha, best.beta);
    const double error = fitted - rows[i].simulated_s;
    const double share = std::abs(error) / rows[i].simulated_s;
    fit.fitted_s.push_back(fitted);
    if (combine == Combine::kMax) fit.active.push_back(Active(problem.lines[i], best.alpha));
    errors += error * error;
    deviations += (rows[i].simulated_s - mean) * (rows[i].simulated_s - mean);
    relative += share * share;
    fit.max_relative_error = std::max(fit.max_relative_error, share);
    if (share <= 0.1) ++within;
  }
  const auto n = static_cast<double>(rows.size());
  // Times that differ by rounding alone have no variance to explain.
  if (deviations > n * kNothing * kNothing * mean * mean) fit.r2 = 1 - errors / deviations;
  fit.rms_relative_error = std::sqrt(relative / n);
  fit.within_ten_percent = static_cast<double>(within) / n;
  return fit;
}

}  // namespace aurum
