#include "calibrate/least_squares.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace aurum {
namespace {

constexpr int kReweightings = 6;
constexpr double kGolden = 0.6180339887498949;
constexpr double kErrorFloor = 0.01;  // below 1 % an error counts as a square again

}  // namespace

double* DesignMatrix::AddRow() {
  values.resize(values.size() + columns, 0.0);
  return values.data() + values.size() - columns;
}

// Lawson and Hanson's active set (Solving Least Squares Problems, 1974, chapter 23), on the normal
// equations as in Bro and De Jong (J. Chemometrics 11, 1997): the matrices here have hundreds of
// rows but at most a dozen columns, so AᵀA is formed once and every step solves a system of a dozen
// unknowns.
//
// All coefficients start at 0. The one whose growth would help most joins the free set; the free
// set is solved without bounds; if a member turns negative, go only as far as the first that
// reaches 0 and drop it. It ends because every solved free set lowers the residual, and there are
// finitely many sets.
std::vector<double> NonNegativeLeastSquares(const DesignMatrix& a, const std::vector<double>& b) {
  assert(a.rows() == b.size());
  const auto n = static_cast<Eigen::Index>(a.columns);
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> matrix(a.values.data(), static_cast<Eigen::Index>(a.rows()), n);
  const Eigen::Map<const Eigen::VectorXd> right(b.data(), static_cast<Eigen::Index>(b.size()));
  Eigen::MatrixXd gram = matrix.transpose() * matrix;
  Eigen::VectorXd target = matrix.transpose() * right;
  // Columns differ by fifteen orders of magnitude (1 against FLOPs): scale them to length one.
  Eigen::VectorXd scale(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    scale[i] = gram(i, i) > 0 ? 1 / std::sqrt(gram(i, i)) : 0;
  }
  gram = scale.asDiagonal() * gram * scale.asDiagonal();
  target = scale.asDiagonal() * target;

  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);
  std::vector<bool> free(a.columns, false);
  const double tolerance = 1e-12 * std::max(1.0, target.cwiseAbs().maxCoeff());
  const auto solve_free = [&] {
    std::vector<Eigen::Index> set;
    for (Eigen::Index i = 0; i < n; ++i) {
      if (free[static_cast<std::size_t>(i)]) set.push_back(i);
    }
    Eigen::VectorXd all = Eigen::VectorXd::Zero(n);
    const Eigen::MatrixXd system = gram(set, set);
    const Eigen::VectorXd part = target(set);
    const Eigen::VectorXd solution = system.colPivHouseholderQr().solve(part);
    for (std::size_t j = 0; j < set.size(); ++j)
      all[set[j]] = solution[static_cast<Eigen::Index>(j)];
    return all;
  };
  for (std::size_t round = 0; round < 3 * a.columns; ++round) {
    const Eigen::VectorXd gradient = target - gram * x;
    Eigen::Index entering = -1;
    for (Eigen::Index i = 0; i < n; ++i) {
      if (free[static_cast<std::size_t>(i)] || scale[i] == 0 || gradient[i] <= tolerance) continue;
      if (entering < 0 || gradient[i] > gradient[entering]) entering = i;
    }
    if (entering < 0) break;
    free[static_cast<std::size_t>(entering)] = true;
    Eigen::VectorXd candidate = solve_free();
    for (std::size_t guard = 0; guard <= a.columns; ++guard) {
      double step = 1;
      for (Eigen::Index i = 0; i < n; ++i) {
        if (!free[static_cast<std::size_t>(i)] || candidate[i] > 0) continue;
        const double distance = x[i] - candidate[i];
        step = std::min(step, distance > 0 ? x[i] / distance : 0.0);
      }
      x += step * (candidate - x);
      if (step == 1) break;
      for (Eigen::Index i = 0; i < n; ++i) {
        if (!free[static_cast<std::size_t>(i)] || x[i] > 1e-14) continue;
        x[i] = 0;
        free[static_cast<std::size_t>(i)] = false;
      }
      candidate = solve_free();
    }
  }
  std::vector<double> result(a.columns);
  for (std::size_t i = 0; i < a.columns; ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    result[i] = std::max(0.0, x[at]) * scale[at];
  }
  return result;
}

std::vector<double> FitRelative(const DesignMatrix& a, const std::vector<double>& measured) {
  const std::size_t rows = a.rows();
  std::vector<double> weights(rows, 1.0);
  std::vector<double> x;
  for (int round = 0; round < kReweightings; ++round) {
    DesignMatrix weighted(a.columns);
    weighted.values.resize(a.values.size());
    std::vector<double> ones(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      const double factor = weights[i] / measured[i];
      for (std::size_t j = 0; j < a.columns; ++j) {
        weighted.values[i * a.columns + j] = a.values[i * a.columns + j] * factor;
      }
      ones[i] = weights[i];
    }
    x = NonNegativeLeastSquares(weighted, ones);
    for (std::size_t i = 0; i < rows; ++i) {
      const double* row = a.values.data() + i * a.columns;
      const double predicted = std::inner_product(row, row + a.columns, x.begin(), 0.0);
      const double error = std::abs(predicted / measured[i] - 1);
      weights[i] = 1 / std::sqrt(std::max(error, kErrorFloor));
    }
  }
  return x;
}

double MinimizeOnInterval(double low, double high, int grid, int refinements,
                          const std::function<double(double)>& loss) {
  double best = low;
  double best_loss = loss(low);
  const double step = (high - low) / (grid - 1);
  for (int i = 1; i < grid; ++i) {
    const double at = low + step * i;
    const double value = loss(at);
    if (value < best_loss) {
      best_loss = value;
      best = at;
    }
  }
  double left = std::max(low, best - step);
  double right = std::min(high, best + step);
  for (int i = 0; i < refinements; ++i) {
    const double a = right - kGolden * (right - left);
    const double b = left + kGolden * (right - left);
    const double loss_a = loss(a);
    const double loss_b = loss(b);
    if (loss_a <= loss_b)
      right = b;
    else
      left = a;
    // The loss has kinks: never end on a point worse than one already seen.
    if (std::min(loss_a, loss_b) < best_loss) {
      best_loss = std::min(loss_a, loss_b);
      best = loss_a <= loss_b ? a : b;
    }
  }
  return best;
}

std::vector<double> MinimizeBySimplex(
    std::vector<double> start, std::vector<double> steps, int rounds, int moves,
    const std::function<double(const std::vector<double>&)>& loss) {
  const std::size_t n = start.size();
  struct Corner {
    std::vector<double> at;
    double loss = 0;
  };
  const auto before = [](const Corner& a, const Corner& b) { return a.loss < b.loss; };
  for (int round = 0; round < rounds; ++round) {
    std::vector<Corner> simplex;
    simplex.push_back({start, loss(start)});
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> at = start;
      at[i] += steps[i];
      steps[i] *= 0.7;
      const double value = loss(at);
      simplex.push_back({std::move(at), value});
    }
    for (int move = 0; move < moves; ++move) {
      std::stable_sort(simplex.begin(), simplex.end(), before);
      Corner& worst = simplex.back();
      std::vector<double> centre(n, 0.0);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          centre[j] += simplex[i].at[j] / static_cast<double>(n);
        }
      }
      const auto along = [&](double t) {  // 1 = the worst corner, −1 = its mirror image
        Corner corner;
        for (std::size_t j = 0; j < n; ++j) {
          corner.at.push_back(centre[j] + t * (worst.at[j] - centre[j]));
        }
        corner.loss = loss(corner.at);
        return corner;
      };
      Corner mirrored = along(-1);
      if (mirrored.loss < simplex.front().loss) {
        Corner further = along(-2);
        worst = further.loss < mirrored.loss ? std::move(further) : std::move(mirrored);
        continue;
      }
      if (mirrored.loss < simplex[n - 1].loss) {
        worst = std::move(mirrored);
        continue;
      }
      Corner inner = along(mirrored.loss < worst.loss ? -0.5 : 0.5);
      if (inner.loss < std::min(mirrored.loss, worst.loss)) {
        worst = std::move(inner);
        continue;
      }
      for (std::size_t i = 1; i <= n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          simplex[i].at[j] = (simplex[i].at[j] + simplex[0].at[j]) / 2;
        }
        simplex[i].loss = loss(simplex[i].at);
      }
    }
    start = std::min_element(simplex.begin(), simplex.end(), before)->at;
  }
  return start;
}

namespace {

// Solves a·x = b of few unknowns by elimination with row exchanges; false where a is singular.
bool Solve(std::vector<std::vector<double>> a, std::vector<double> b, std::vector<double>* x) {
  const std::size_t n = b.size();
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (a[pivot][column] == 0) return false;
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double share = a[row][column] / a[column][column];
      for (std::size_t j = column; j < n; ++j) a[row][j] -= share * a[column][j];
      b[row] -= share * b[column];
    }
  }
  x->assign(n, 0);
  for (std::size_t row = n; row-- > 0;) {
    double sum = b[row];
    for (std::size_t j = row + 1; j < n; ++j) sum -= a[row][j] * (*x)[j];
    (*x)[row] = sum / a[row][row];
  }
  return true;
}

double SumOfSquares(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

}  // namespace

std::vector<double> MinimizeSquares(
    std::vector<double> start, int iterations,
    const std::function<std::vector<double>(const std::vector<double>&)>& residuals) {
  const std::size_t n = start.size();
  std::vector<double> x = std::move(start);
  for (double& value : x) value = std::max(value, 0.0);
  std::vector<double> now = residuals(x);
  double loss = SumOfSquares(now);
  double damping = 1e-3;
  for (int iteration = 0; iteration < iterations && damping < 1e9; ++iteration) {
    std::vector<std::vector<double>> slopes;  // by unknown
    for (std::size_t j = 0; j < n; ++j) {
      const double step = 1e-6 * std::max(x[j], 1e-2);
      std::vector<double> moved = x;
      moved[j] += step;
      slopes.push_back(residuals(moved));
      for (std::size_t i = 0; i < now.size(); ++i) slopes[j][i] = (slopes[j][i] - now[i]) / step;
    }
    std::vector<std::vector<double>> normal(n, std::vector<double>(n, 0));
    std::vector<double> gradient(n, 0);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t i = 0; i < now.size(); ++i) gradient[j] -= slopes[j][i] * now[i];
      for (std::size_t l = 0; l <= j; ++l) {
        for (std::size_t i = 0; i < now.size(); ++i) normal[j][l] += slopes[j][i] * slopes[l][i];
        normal[l][j] = normal[j][l];
      }
    }
    bool better = false;
    while (!better && damping < 1e9) {
      std::vector<std::vector<double>> damped = normal;
      for (std::size_t j = 0; j < n; ++j) {
        damped[j][j] += damping * normal[j][j];
        // An unknown that nothing depends on stays where it is; so does one at 0 that wants below.
        const bool held = x[j] == 0 && gradient[j] < 0;
        if (normal[j][j] > 0 && !held) continue;
        for (std::size_t l = 0; l < n; ++l) damped[j][l] = damped[l][j] = 0;
        damped[j][j] = 1;
      }
      std::vector<double> right = gradient;
      for (std::size_t j = 0; j < n; ++j) {
        if (normal[j][j] == 0 || (x[j] == 0 && gradient[j] < 0)) right[j] = 0;
      }
      std::vector<double> step;
      std::vector<double> next = x;
      if (Solve(damped, right, &step)) {
        for (std::size_t j = 0; j < n; ++j) next[j] = std::max(x[j] + step[j], 0.0);
        std::vector<double> there = residuals(next);
        const double next_loss = SumOfSquares(there);
        if (next_loss < loss) {
          better = true;
          x = std::move(next);
          now = std::move(there);
          loss = next_loss;
        }
      }
      damping = better ? std::max(damping / 5, 1e-12) : damping * 4;
    }
    if (!better) break;
  }
  return x;
}

double MeanRelativeError(const std::vector<double>& predicted,
                         const std::vector<double>& measured) {
  assert(predicted.size() == measured.size() && !measured.empty());
  double sum = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) sum += std::abs(predicted[i] / measured[i] - 1);
  return sum / static_cast<double>(measured.size());
}

}  // namespace aurum
