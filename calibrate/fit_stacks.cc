#include "calibrate/fit_stacks.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "sim/core/diagnostic.h"
#include "sim/study/published/score.h"
#include "sim/study/published/to_scenario.h"
#include "sim/study/published/validation.h"

// Fitting a few physical constants of software stacks
// ===================================================
//
// A stack has a dozen constants that no table tells: how much longer GEMMs, attention and memory-bound
// kernels take in its step than alone, how well its collectives do, what overlap costs. Each moves a
// step by a share that the simulator knows: so the simulator itself is the model, and its logarithm is
// close to linear in the logarithms of the constants:
//
//   log t(θ) ≈ log t(θ₀) + J·(θ − θ₀),      J by one simulation per row and constant.
//
// Every constant is split in three: its value in a common set, what the device's rate group adds (GEMM
// only: the sustained rate of training), and how far the stack strays from both:
//
//   θ = common + rate(device group) + stray(stack),     stray ~ N(0, deviation²).
//
// Rows of stacks without a stray of their own have a common offset by source instead.
//
// The normal prior is what makes twelve rows enough: a stack that says nothing about a constant keeps
// the common one (ridge regression; Hoerl and Kennard 1970; as a hierarchy: Lindley and Smith 1972).
// Rows that are near copies share a cluster and one unit of weight; a row far off counts by its
// distance, not its square (Huber 1964). After each solve the constants move and J is taken again.
//
// Example. Kwai's 24 rows on H800: TP-heavy plans come out too fast, others right. The rows with tp = 4
// have J(tp_overlap_slowdown) = 0.09, those with tp = 2 0.04; the solve raises it and leaves the GEMM
// factor alone.
//
// How far off is it? Each cluster is left out in turn and the linear system solved without it; each
// source likewise, with all that only it could say: its stack then keeps what other sources' rows of the
// same stack say, or the common set. These are the errors that are told, and the stack's band is the
// 90 % quantile of the first where it has constants of its own, of the second where it has none.
//
// A stack with fewer than 12 rows or 3 clusters gets no constants of its own: the study over public rows
// found such fits worse than none.
//
// Cost: (constants + 1) simulations per row and round; a solve is O(unknowns³), some 150.

namespace aurum {
namespace {

constexpr double kRowDeviation = 0.05;  // of one cluster, in logarithms
constexpr double kHuber = 2;            // deviations up to which errors count squared
constexpr double kStep = 0.05;          // of a constant, in logarithms, for J
constexpr double kRatePrior = 1.25;     // sustained over burst time: the study's, all devices
constexpr double kRateDeviation = 0.15;
constexpr double kCommonDeviation = 0.25;
constexpr double kSourceDeviation = 0.12;  // of a source whose stack has no constants of its own
constexpr int kLeastRows = 12;
constexpr int kLeastClusters = 3;

// Devices whose training rates have one cause.
std::string RateGroup(const std::string& profile, bool narrow) {
  std::string group = profile.substr(0, profile.find('-'));
  if (group == "h200" || group == "h800" || group == "h20") group = "h100";
  if (group == "a800") group = "a100";
  if (group == "gb200" || group == "gb300" || group == "b300") group = "b200";
  return group + (narrow ? " narrow" : "");
}

struct Prepared {
  StackFitRow row;
  Translation translation;
  double seconds = 0;         // at θ₀
  std::vector<double> slope;  // by constant
};

// Compiled stacks enqueue a layer in an eighth of the time that eager ones need.
double PriorOf(const Stack& stack, const StackConstant& constant) {
  constexpr double kCompiled = 0.125;
  const bool host = constant.member == &Stack::host_per_layer_s;
  return constant.prior * (host && !stack.eager ? kCompiled : 1);
}

template <typename Work>
void Parallel(std::size_t count, int jobs, const Work& work) {
  std::mutex mutex;
  std::size_t next = 0;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  const int n =
      jobs > 0 ? jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int t = 0; t < n; ++t) {
    threads.emplace_back([&] {
      for (;;) {
        std::size_t i = 0;
        {
          const std::lock_guard lock(mutex);
          if (next >= count || failure != nullptr) return;
          i = next++;
        }
        try {
          work(i);
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

class Fitter {
 public:
  Fitter(const std::vector<Record>& records, const PublishedSources& sources, std::string data_root,
         const FitOptions& options)
      : data_root_(std::move(data_root)), options_(options) {
    Prepare(records, sources);
  }

  FitReport Run() {
    for (int round = 0; round < options_.rounds; ++round) {
      Linearise();
      const Eigen::VectorXd x = Solve([](const Prepared&) { return true; });
      Move(x);
    }
    Linearise();
    FitReport report = Report();
    if (options_.ablate) report.ablations = Ablate();
    return report;
  }

 private:
  void Prepare(const std::vector<Record>& records, const PublishedSources& sources) {
    InputCache cache(data_root_);
    for (const Record& record : records) {
      Prepared p;
      p.translation = ToScenario(record.facts, sources, data_root_);
      if (!p.translation.skip.empty() || !p.translation.skip_time.empty()) continue;
      const std::optional<double> measured = MeasuredStep(record.measured, p.translation);
      if (!measured || p.translation.time_of_micro_batch) continue;
      try {
        p.seconds = PredictStepSeconds(p.translation, &cache);
        const Scenario s =
            ReadScenario(ParseJson(p.translation.scenario.Dump(2), "scenario"), &cache);
        p.row.stack = s.stack->name;
        p.row.profile = s.profile->name;
        p.row.narrow = IsNarrow(s.plan.precision);
        profiles_.try_emplace(s.profile->name, *s.profile);
      } catch (const InputError&) {
        continue;
      }
      p.row.id = record.facts.id;
      p.row.source = record.facts.source;
      p.row.cluster = record.facts.source + "|" + record.facts.cluster;
      p.row.model = record.facts.model.name;
      p.row.measured_s = *measured;
      rows_.push_back(std::move(p));
    }
    for (const std::string& name : StackCatalogue(data_root_)) {
      stacks_.emplace(name, LoadStack(name, data_root_));
      base_[name] = BaseOfStack(OpenStack(name, data_root_));
    }
    // Unknowns.
    for (const StackConstant& constant : StackConstants()) {
      if (constant.member != &Stack::gemm_factor) common_[constant.key] = width_++;
    }
    std::map<std::string, std::set<std::string>> clusters;
    std::map<std::string, int> count;
    std::map<std::string, std::set<std::string>> of_group;
    for (const Prepared& p : rows_)
      of_group[RateGroup(p.row.profile, p.row.narrow)].insert(p.row.cluster);
    for (const Prepared& p : rows_) {
      const std::string group = RateGroup(p.row.profile, p.row.narrow);
      if (static_cast<int>(of_group[group].size()) >= kLeastClusters && !rates_.contains(group)) {
        rates_[group] = width_++;
        const Profile& profile = profiles_.at(p.row.profile);
        rate_[group] = std::log(
            (p.row.narrow ? profile.sustained_fp8_factor : profile.sustained_factor) / kRatePrior);
      }
      clusters[p.row.stack].insert(p.row.cluster);
      ++count[p.row.stack];
    }
    const auto enough = [&](const std::string& name) {
      return count[name] >= kLeastRows && static_cast<int>(clusters[name].size()) >= kLeastClusters;
    };
    // A stack without enough rows shares its base's constants, and adds its rows to them.
    for (const auto& [name, base] : base_) {
      if (base.empty() || enough(name)) continue;
      count[base] += count[name];
      clusters[base].insert(clusters[name].begin(), clusters[name].end());
    }
    for (const auto& [name, stack] : stacks_) {
      if (!enough(name)) continue;
      own_[name] = width_;
      width_ += static_cast<int>(StackConstants().size());
    }
    // What is peculiar to a source whose stack has no constants of its own must not bend the rates and
    // the common set: it is solved for, and never predicted with.
    for (const Prepared& p : rows_) {
      if (OwnerOf(p.row.stack).empty() && !peculiar_.contains(p.row.source))
        peculiar_[p.row.source] = width_++;
    }
    std::map<std::string, int> of_cluster;
    for (const Prepared& p : rows_) ++of_cluster[p.row.cluster];
    for (const Prepared& p : rows_) weight_.push_back(1.0 / of_cluster[p.row.cluster]);
    present_ = Eigen::VectorXd::Zero(width_);
    for (const auto& [group, index] : rates_) present_[index] = rate_[group];
    // Where the files stand: the common set from a stack that has no more, the rest beside it.
    for (const StackConstant& constant : StackConstants()) {
      const auto common = common_.find(constant.key);
      for (const auto& [name, stack] : stacks_) {
        if (common != common_.end() && OwnerOf(name).empty())
          present_[common->second] = std::log(stack.*constant.member / PriorOf(stack, constant));
      }
    }
    for (const auto& [name, first] : own_) {
      const Stack& stack = stacks_.at(name);
      for (std::size_t c = 0; c < StackConstants().size(); ++c) {
        const StackConstant& constant = StackConstants()[c];
        const auto common = common_.find(constant.key);
        present_[first + static_cast<int>(c)] =
            std::log(stack.*constant.member / PriorOf(stack, constant)) -
            (common != common_.end() ? present_[common->second] : 0);
      }
    }
  }

  // Stacks and profiles at the present constants, one of them moved.
  void Fill(InputCache* cache, std::size_t moved, double by) const {
    for (const auto& [name, stack] : stacks_) {
      Stack s = stack;
      if (moved < StackConstants().size()) {
        double& value = s.*StackConstants()[moved].member;
        value *= std::exp(by);
      }
      cache->AddStack(name, s);
    }
    for (const auto& [name, profile] : profiles_) {
      Profile p = profile;
      const auto bend = [&](double* factor, bool narrow) {
        const auto rate = rate_.find(RateGroup(name, narrow));
        if (rate != rate_.end()) *factor = kRatePrior * std::exp(rate->second);
      };
      bend(&p.sustained_factor, false);
      bend(&p.sustained_fp8_factor, true);
      cache->AddProfile(name, p);
    }
  }

  void Linearise() {
    const std::size_t n = StackConstants().size();
    for (std::size_t c = 0; c <= n; ++c) {
      InputCache cache(data_root_);
      // Down, so that shares at their bound move too.
      Fill(&cache, c < n ? c : n, -kStep);
      Parallel(rows_.size(), options_.jobs, [&](std::size_t i) {
        Prepared& p = rows_[i];
        const double seconds = PredictStepSeconds(p.translation, &cache);
        p.slope.resize(n);
        if (c < n) {
          p.slope[c] = std::log(seconds);
        } else {
          p.seconds = seconds;
        }
      });
    }
    for (Prepared& p : rows_)
      for (double& slope : p.slope) slope = (std::log(p.seconds) - slope) / kStep;
  }

  // The stack whose constants `name` has; "" = the common set.
  std::string OwnerOf(const std::string& name) const {
    if (own_.contains(name)) return name;
    const std::string& base = base_.at(name);
    return own_.contains(base) ? base : "";
  }

  // What a row sees of an unknown. Unknowns are absolute moves from where the files stand.
  Eigen::VectorXd Seen(const Prepared& p) const {
    Eigen::VectorXd a = Eigen::VectorXd::Zero(width_);
    const auto own = own_.find(OwnerOf(p.row.stack));
    for (std::size_t c = 0; c < StackConstants().size(); ++c) {
      const StackConstant& constant = StackConstants()[c];
      if (constant.member == &Stack::gemm_factor) {
        const auto rate = rates_.find(RateGroup(p.row.profile, p.row.narrow));
        if (rate != rates_.end()) a[rate->second] = p.slope[c];
      } else {
        a[common_.at(constant.key)] = p.slope[c];
      }
      if (own != own_.end()) a[own->second + static_cast<int>(c)] = p.slope[c];
    }
    return a;
  }

  // Where the stack's constants stand now, as unknowns: the moves made so far.
  template <typename Kept>
  Eigen::VectorXd Solve(const Kept& kept) const {
    const Eigen::VectorXd& at = present_;
    Eigen::VectorXd x = at;
    for (int pass = 0; pass < 8; ++pass) {  // reweighted for Huber's loss
      Eigen::MatrixXd normal = Eigen::MatrixXd::Zero(width_, width_);
      Eigen::VectorXd right = Eigen::VectorXd::Zero(width_);
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        const Prepared& p = rows_[i];
        if (!kept(p) || !Kernels(p)) continue;
        Eigen::VectorXd a = Seen(p);
        if (OwnerOf(p.row.stack).empty()) a[peculiar_.at(p.row.source)] = 1;
        const double base = std::log(p.row.measured_s / p.seconds) + a.dot(at);
        const double residual = (base - a.dot(x)) / kRowDeviation;
        const double huber = std::abs(residual) <= kHuber ? 1 : kHuber / std::abs(residual);
        const double w = weight_[i] * huber / (kRowDeviation * kRowDeviation);
        normal += w * a * a.transpose();
        right += w * base * a;
      }
      for (int j = 0; j < width_; ++j) normal(j, j) += 1 / (Deviation(j) * Deviation(j));
      x = normal.ldlt().solve(right);
    }
    return x;
  }

  // Rows that say something of kernels: not those where the host decides.
  static bool Kernels(const Prepared& p) {
    return std::abs(std::log(p.row.measured_s / p.seconds)) < 1.2;
  }

  double Deviation(int j) const {
    for (const auto& [group, index] : rates_)
      if (index == j) return kRateDeviation;
    for (const auto& [key, index] : common_) {
      if (index != j) continue;
      for (const StackConstant& constant : StackConstants())
        if (constant.key == key) return std::min(kCommonDeviation, 2 * constant.deviation);
    }
    for (const auto& [name, first] : own_) {
      const int c = j - first;
      if (c >= 0 && c < static_cast<int>(StackConstants().size()))
        return StackConstants()[static_cast<std::size_t>(c)].deviation;
    }
    return kSourceDeviation;
  }

  void Move(const Eigen::VectorXd& x) {
    present_ = x;
    for (const auto& [group, index] : rates_) rate_[group] = x[index];
    for (auto& [name, stack] : stacks_) {
      const auto own = own_.find(OwnerOf(name));
      for (std::size_t c = 0; c < StackConstants().size(); ++c) {
        const StackConstant& constant = StackConstants()[c];
        double move = constant.member == &Stack::gemm_factor ? 0 : x[common_.at(constant.key)];
        if (own != own_.end()) move += x[own->second + static_cast<int>(c)];
        stack.*constant.member =
            std::min(PriorOf(stack, constant) * std::exp(move), constant.largest);
      }
    }
  }

  FitReport Report() {
    FitReport report;
    for (Prepared& p : rows_) {
      p.row.predicted_s = p.seconds;
      p.row.in_sample = p.row.cluster_out = p.row.source_out =
          std::log(p.seconds / p.row.measured_s);
    }
    const Eigen::VectorXd& at = present_;
    std::set<std::string> clusters, sources;
    for (const Prepared& p : rows_) {
      clusters.insert(p.row.cluster);
      sources.insert(p.row.source);
    }
    const auto leave = [&](const std::set<std::string>& names, std::string StackFitRow::*of,
                           double StackFitRow::*where) {
      const std::vector<std::string> list(names.begin(), names.end());
      Parallel(list.size(), options_.jobs, [&](std::size_t i) {
        const Eigen::VectorXd x = Solve([&](const Prepared& p) { return p.row.*of != list[i]; });
        for (Prepared& p : rows_) {
          if (p.row.*of != list[i]) continue;
          p.row.*where = p.row.in_sample + Seen(p).dot(x - at);
        }
      });
    };
    leave(clusters, &StackFitRow::cluster, &StackFitRow::cluster_out);
    leave(sources, &StackFitRow::source, &StackFitRow::source_out);
    for (const Prepared& p : rows_) report.rows.push_back(p.row);
    for (const auto& [name, stack] : stacks_) {
      StackFit fit;
      fit.name = name;
      fit.stack = stack;
      fit.owner = OwnerOf(name);
      std::set<std::string> models, groups;
      std::vector<double> errors;
      for (const Prepared& p : rows_) {
        const bool mine = fit.owner.empty() ? stacks_.at(p.row.stack).eager == stack.eager
                                            : OwnerOf(p.row.stack) == fit.owner;
        if (!mine) continue;
        ++fit.rows;
        models.insert(p.row.model);
        groups.insert(p.row.cluster);
        errors.push_back(
            std::abs(std::expm1(fit.owner.empty() ? p.row.source_out : p.row.cluster_out)));
      }
      fit.clusters = static_cast<int>(groups.size());
      fit.models = static_cast<int>(models.size());
      double sum = 0;
      for (const double e : errors) sum += e;
      if (!errors.empty()) {
        fit.left_out_mape = sum / static_cast<double>(errors.size());
        fit.left_out_p90 = Quantile(errors, 0.9);
      }
      report.stacks.push_back(std::move(fit));
    }
    for (const auto& [group, move] : rate_) report.rates[group] = kRatePrior * std::exp(move);
    for (const auto& [key, index] : common_) report.common[key] = std::exp(at[index]);
    return report;
  }

  std::vector<Ablation> Ablate() const {
    struct Cut {
      const char* term;
      void (*stack)(Stack*);
      void (*profile)(Profile*);
    };
    constexpr double kNone = 1e-6;
    const auto keep = [](Stack*) {};
    const auto same = [](Profile*) {};
    const std::vector<Cut> cuts = {
        {"nothing: all terms", keep, same},
        {"sustained rates and the stacks' GEMM factors (tables alone)",
         [](Stack* s) { s->gemm_factor = s->grouped_gemm_factor = 1; },
         [](Profile* p) { p->sustained_factor = p->sustained_fp8_factor = 1; }},
        {"the stacks' GEMM factors", [](Stack* s) { s->gemm_factor = s->grouped_gemm_factor = 1; },
         same},
        {"families of attention kernels (all as in the tables)",
         [](Stack* s) {
           if (s->attention_kernel != AttentionFamily::kUnfused)
             s->attention_kernel = AttentionFamily::kFlash3;
         },
         same},
        {"memory-bound kernels", [](Stack* s) { s->memory_bound_factor = kNone; }, same},
        {"tensor-parallel collectives", [](Stack* s) { s->tp_communication_factor = kNone; }, same},
        {"slow-down of compute beside communication",
         [](Stack* s) { s->overlap_slowdown = s->tp_overlap_slowdown = 0; }, same},
        {"share of data parallelism that cannot hide", [](Stack* s) { s->dp_overlap = 1; }, same},
        {"losses of the network (its full rate)", [](Stack* s) { s->network_efficiency = 1; },
         same},
        {"host time", [](Stack* s) { s->host_per_layer_s = s->host_per_expert_layer_s = 0; }, same},
        {"overhead of a step", [](Stack* s) { s->step_overhead_s = 0; }, same},
        {"a token crosses to a node once", [](Stack* s) { s->experts_once_per_node = false; },
         same},
        {"casts to 8 bits",
         [](Stack* s) {
           s->cast_forward_bytes = s->cast_backward_bytes = s->cast_transpose_bytes = 0;
         },
         same},
    };
    std::vector<Ablation> out;
    for (const Cut& cut : cuts) {
      InputCache cache(data_root_);
      for (const auto& [name, stack] : stacks_) {
        Stack s = stack;
        cut.stack(&s);
        cache.AddStack(name, s);
      }
      for (const auto& [name, profile] : profiles_) {
        Profile p = profile;
        cut.profile(&p);
        cache.AddProfile(name, p);
      }
      std::vector<double> error(rows_.size());
      Parallel(rows_.size(), options_.jobs, [&](std::size_t i) {
        error[i] = std::abs(
            PredictStepSeconds(rows_[i].translation, &cache) / rows_[i].row.measured_s - 1);
      });
      Ablation a;
      a.term = cut.term;
      double weights = 0;
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        a.mape += error[i] / static_cast<double>(rows_.size());
        a.cluster_mape += error[i] * weight_[i];
        weights += weight_[i];
      }
      a.cluster_mape /= weights;
      out.push_back(a);
    }
    return out;
  }

  std::string data_root_;
  FitOptions options_;
  std::vector<Prepared> rows_;
  std::vector<double> weight_;
  std::map<std::string, Stack> stacks_;
  std::map<std::string, std::string> base_;
  std::map<std::string, Profile> profiles_;
  std::map<std::string, int> common_, rates_, own_, peculiar_;  // first unknown of each
  std::map<std::string, double> rate_;
  int width_ = 0;
  Eigen::VectorXd present_;
};

}  // namespace

const std::vector<StackConstant>& StackConstants() {
  static const std::vector<StackConstant> constants = {
      {"gemm_factor", &Stack::gemm_factor, 1, 0.10, 20},
      {"grouped_gemm_factor", &Stack::grouped_gemm_factor, 1.2, 0.20, 20},
      {"memory_bound_factor", &Stack::memory_bound_factor, 1.3, 0.20, 20},
      {"attention_factor", &Stack::attention_factor, 1.1, 0.10, 20},
      {"tp_communication_factor", &Stack::tp_communication_factor, 1, 0.20, 20},
      {"network_efficiency", &Stack::network_efficiency, 0.85, 0.25, 1},
      {"dp_overlap_share", &Stack::dp_overlap, 0.8, 0.25, 1},
      {"overlap_slowdown_share", &Stack::overlap_slowdown, 0.18, 0.5, 2},
      {"tp_overlap_slowdown_share", &Stack::tp_overlap_slowdown, 0.5, 0.4, 2},
      {"step_overhead_s", &Stack::step_overhead_s, 0.015, 0.5, 100},
      {"host_per_layer_s", &Stack::host_per_layer_s, 0.0012, 0.7, 10},
      {"host_per_expert_layer_s", &Stack::host_per_expert_layer_s, 0.0015, 1.0, 10},
  };
  return constants;
}

FitReport FitStacks(const std::vector<Record>& records, const PublishedSources& sources,
                    const std::string& data_root, const FitOptions& options) {
  return Fitter(records, sources, data_root, options).Run();
}

}  // namespace aurum
