#include "sim/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "sim/core/parallel.h"
#include "sim/core/units.h"
#include "sim/search/bound.h"
#include "sim/search/twins.h"
#include "sim/study/axis.h"
#include "sim/study/budget.h"

// Best first, with bounds
// -----------------------
// Insight: a plan that is never simulated costs nothing, and most plans of a space need not be. Three
// sieves, each cheaper than the next:
//
//   read      does it divide, does the device have the kernels: the plan's own reader says so
//   bound     what its step takes and its GPUs hold at the least (bound.h), first without any
//             communication, for all orders of ranks and overlaps at once, then with it, one by one
//   simulate  every op of a step
//
// Candidates wait in the order of their bounds. The best ones are looked at more closely, until the
// bound of the next is no better than the worst of the plans wanted: then none that waits can be among
// them, and the search ends with a proof (A*, Hart et al. 1968; Land and Doig 1960).
//
// Example: GPT-3 175B on 64 A100, Calculon's 3.2 million executions: a third are the same plan as
// another, two fifths name networks that no order of ranks gives, and of the rest 2,200 are simulated.
//
// Candidates are taken kBatch at a time, whatever the number of threads: the same plans are
// simulated, counted and found on one core and on a hundred.
namespace aurum {
namespace {

constexpr std::size_t kBatch = 64;
constexpr std::size_t kScreened = 512;

// ---- what a plan is judged by

enum Criterion { kStepTime, kMemory, kGpus, kCostOf, kEnergyOf, kCriteria };
using Criteria = std::array<double, kCriteria>;

// a is nowhere worse than b, and somewhere better.
bool Dominates(const Criteria& a, const Criteria& b) {
  bool better = false;
  for (std::size_t i = 0; i < kCriteria; ++i) {
    if (a[i] > b[i]) return false;
    better |= a[i] < b[i];
  }
  return better;
}

// Per sample, so that batches of several sizes can be compared.
Criteria CriteriaOf(const Scenario& s, double step_s, double memory_bytes) {
  const auto samples = static_cast<double>(s.workload.global_batch_size);
  const RunCost cost = CostOf(s, step_s);
  return {step_s / samples, memory_bytes, static_cast<double>(s.cluster->GpuCount()),
          (cost.money_known ? cost.money : cost.gpu_hours) / samples,
          cost.energy_known ? cost.energy_kwh / samples : 0};
}

double ScoreOf(const Scenario& s, Objective objective, double step_s) {
  const RunCost cost = CostOf(s, step_s);
  const double times =
      s.target ? s.target->Steps() : 1 / static_cast<double>(s.workload.global_batch_size);
  switch (objective) {
    case Objective::kThroughput:
      return step_s / static_cast<double>(s.workload.global_batch_size);
    case Objective::kTime:
      return s.target ? step_s * times : step_s;
    case Objective::kCost:
      return (cost.money_known ? cost.money : cost.gpu_hours) * times;
    case Objective::kEnergy:
      return cost.energy_kwh * times;
  }
  return step_s;
}

// ---- arithmetic that needs no reading

// Refuses what the plan's reader would refuse for its degrees, with the reader's codes. Only where
// the degrees are all that decides.
class DegreeCheck {
 public:
  DegreeCheck(const PlanSpace& space, const Scenario& s) {
    const std::string backbone = "/plan/" + s.model->Backbone().name + "/";
    plain_ = s.workload.task == Task::kTrain && s.plan.encoder_stages == 0;
    tp_.told = s.plan.tp;
    cp_.told = s.plan.cp;
    pp_.told = s.plan.pp;
    micro_batch_.told = s.plan.micro_batch_size;
    gpus_ = s.cluster->GpuCount();
    batch_ = s.workload.global_batch_size;
    for (std::size_t d = 0; d < space.dimensions.size(); ++d) {
      for (const auto& [path, value] : space.dimensions[d].choices.front().set) {
        const std::string pointer = AxisPointer(path);
        Degree* degree = pointer == backbone + "tp"            ? &tp_
                         : pointer == backbone + "cp"          ? &cp_
                         : pointer == backbone + "pp"          ? &pp_
                         : pointer == "/plan/micro_batch_size" ? &micro_batch_
                                                               : nullptr;
        if (degree != nullptr) {
          degree->dimension = d;
          for (const Choice& choice : space.dimensions[d].choices) {
            for (const auto& [each, number] : choice.set) {
              if (each == path)
                degree->values.push_back(number.IsInteger() ? number.AsInteger() : 0);
            }
          }
          continue;
        }
        const bool harmless = pointer.rfind("/plan/", 0) == 0 &&
                              pointer.find("layers_per_stage") == std::string::npos;
        if (!harmless) plain_ = false;
        for (const Choice& choice : space.dimensions[d].choices) {
          for (const auto& [each, word] : choice.set)
            if (word.Dump().find("own_ranks") != std::string::npos) plain_ = false;
        }
      }
    }
  }

  // code and reason; an empty code: nothing against it.
  std::pair<std::string, std::string> Refuse(const ChoiceIndices& at) const {
    if (!plain_) return {};
    const std::int64_t tp = tp_.At(at), cp = cp_.At(at), pp = pp_.At(at);
    const std::int64_t b = micro_batch_.At(at);
    if (tp < 1 || cp < 1 || pp < 1 || b < 1) return {};
    const std::int64_t width = tp * cp * pp;
    if (gpus_ % width != 0) {
      return {"E0312", "tp·cp·pp = " + std::to_string(width) + " does not divide the " +
                           std::to_string(gpus_) + " GPUs of the cluster"};
    }
    if (batch_ % (gpus_ / width * b) != 0) {
      return {"E0314", "global_batch_size = " + std::to_string(batch_) +
                           " is not a multiple of dp · micro_batch_size = " +
                           std::to_string(gpus_ / width) + " · " + std::to_string(b)};
    }
    return {};
  }

 private:
  struct Degree {
    std::int64_t told = 1;
    std::size_t dimension = SIZE_MAX;
    std::vector<std::int64_t> values;
    std::int64_t At(const ChoiceIndices& at) const {
      return dimension == SIZE_MAX ? told : values[at[dimension]];
    }
  };
  bool plain_ = true;
  Degree tp_, cp_, pp_, micro_batch_;
  std::int64_t gpus_ = 1, batch_ = 1;
};

// ---- the search

std::string Gib(double bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f GiB", bytes / kGiB);
  return text;
}

class Searcher {
 public:
  Searcher(const JsonDocument& document, const PlanSpace& space, InputCache* cache,
           const SearchOptions& options)
      : base_(document), cache_(cache), early_(space.Early()) {
    report_.space = space;
    report_.options = options;
    std::erase_if(base_.root.members(), [](const auto& member) {
      return member.first == "search" || member.first == "sweep";
    });
    documents_.assign(ThreadsOf(options.jobs), base_);
  }

  SearchReport Run() {
    Scenario told = ReadScenario(base_, cache_);
    report_.inputs = told.inputs;
    report_.warnings = told.warnings;
    report_.uneven = told.steps != nullptr;
    told = Plain(std::move(told));
    CheckObjective(told);
    degrees_.emplace(report_.space, told);
    Told();
    Enumerate();
    Screen();
    Descend();
    if (report_.uneven) SimulateAsDrawn();
    Finish();
    return std::move(report_);
  }

 private:
  // A group is one choice of all dimensions that are not late; its members differ in those.
  struct Group {
    std::uint64_t distinct = 0;  // members that are plans of their own
  };
  // What waits: a group, or one of its members.
  struct Entry {
    double bound = 0;     // of the score
    std::uint64_t order;  // ties: first come
    std::size_t group = 0;
    bool member = false;
    ChoiceIndices at;  // of a member
    double bound_s = 0;
    Criteria criteria{};
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.bound != b.bound ? a.bound > b.bound : a.order > b.order;
    }
  };
  struct Verdict {
    std::string code, reason;  // of a refusal, or "alike"
    double bound = 0, bound_s = 0, state_bytes = 0, memory_bytes = 0, limit_bytes = 0;
    Criteria criteria{};
  };

  const PlanSpace& space() const { return report_.space; }
  SearchCounts& counts() { return report_.counts; }
  bool Stopped() const { return report_.options.stop != nullptr && report_.options.stop->load(); }

  // One step as it is, without chance; of samples that differ, all like their mean.
  static Scenario Plain(Scenario scenario) {
    scenario = AsDrawn(std::move(scenario));
    scenario.steps.reset();
    scenario.step = nullptr;
    return scenario;
  }
  static Scenario AsDrawn(Scenario scenario) {
    scenario.variation.seeds = 0;
    scenario.goodput.reset();
    return scenario;
  }
  // Where samples differ, some of the best of their mean may not be the best, or not fit.
  std::size_t Wanted() const { return report_.options.top * (report_.uneven ? 3 : 1); }

  void CheckObjective(const Scenario& s) const {
    if (report_.options.objective == Objective::kEnergy && !CostOf(s, 1).energy_known) {
      ThrowInput(876, "energy is sought, and a profile does not tell its device's power limit",
                 "device.power_limit_w in the profile, or another objective");
    }
  }

  Scenario Read(std::size_t worker, const ChoiceIndices& at) {
    JsonDocument& document = documents_[worker];
    space().Apply(at, &document);
    return Plain(ReadScenario(document, cache_));
  }

  ChoiceIndices EarlyOf(std::size_t group) const {
    ChoiceIndices at(space().dimensions.size(), 0);
    for (std::size_t d = 0; d < early_; ++d) at[d] = early_choices_[group * early_ + d];
    return at;
  }

  template <typename Fn>
  void ForEachMember(ChoiceIndices at, Fn fn) const {
    while (true) {
      fn(at);
      std::size_t d = space().dimensions.size();
      while (d-- > early_) {
        if (++at[d] < space().dimensions[d].choices.size()) break;
        at[d] = 0;
      }
      if (d < early_ || d == SIZE_MAX) return;
    }
  }

  std::vector<std::string> Labels(const ChoiceIndices& at) const {
    std::vector<std::string> labels;
    for (std::size_t d = 0; d < at.size(); ++d)
      labels.push_back(space().dimensions[d].choices[at[d]].label);
    return labels;
  }

  void Reject(const std::string& code, const std::string& reason, std::uint64_t count,
              const ChoiceIndices& at) {
    if (count == 0) return;
    // Of twins every reason is told, of the others one for each code.
    const auto [entry, is_new] =
        rejected_.try_emplace(code == "alike" ? code + reason : code, report_.rejected.size());
    if (is_new) report_.rejected.push_back({code, reason, 0, Labels(at)});
    report_.rejected[entry->second].count += count;
  }

  // Every combination of the space, once: which there are, and what they stand for.
  void Enumerate() {
    ChoiceIndices at(space().dimensions.size(), 0);
    while (true) {
      Group group;
      std::optional<ChoiceIndices> nowhere;
      std::uint64_t unplaceable = 0, alike = 0;
      ForEachMember(at, [&](const ChoiceIndices& member) {
        const Multiplicity m = space().StandsFor(member);
        counts().total += m.alike + m.unplaceable;
        counts().unplaceable += m.unplaceable;
        unplaceable += m.unplaceable;
        if (m.unplaceable > 0 && !nowhere) nowhere = member;
        if (m.alike == 0) return;
        ++group.distinct;
        counts().alike += m.alike - 1;
        alike += m.alike - 1;
      });
      if (nowhere) Reject("unplaceable", space().unplaceable_reason, unplaceable, *nowhere);
      Reject("alike", space().alike_reason, alike, at);
      if (group.distinct > 0) {
        groups_.push_back(group);
        for (std::size_t d = 0; d < early_; ++d)
          early_choices_.push_back(static_cast<std::uint16_t>(at[d]));
      }
      std::size_t d = early_;
      while (d-- > 0) {
        if (++at[d] < space().dimensions[d].choices.size()) break;
        at[d] = 0;
      }
      if (d == SIZE_MAX) return;
    }
  }

  double Usable(const Scenario& s) const {
    return (report_.options.accept_at_risk ? kFailsAbove : kFitsBelow) *
           UsableBytes(s.cluster->gpu.memory_bytes);
  }

  Verdict Judge(std::size_t worker, const ChoiceIndices& at, bool communication) {
    Verdict verdict;
    try {
      const Scenario s = Read(worker, at);
      verdict.reason = TwinReason(worker, at, s, communication);
      if (!verdict.reason.empty()) {
        verdict.code = "alike";
        return verdict;
      }
      if (communication && report_.options.refuses) {  // of a plan, whose every choice is made
        if (const auto refused = report_.options.refuses(s)) {
          verdict.code = refused->CodeName();
          verdict.reason = refused->message;
          return verdict;
        }
      }
      const PlanBound bound = BoundOf(s, CostPlan(s, communication, &book_));
      verdict.bound_s = bound.step_s;
      verdict.bound = ScoreOf(s, report_.options.objective, bound.step_s);
      verdict.state_bytes = bound.state_bytes;
      verdict.memory_bytes = bound.memory_bytes;
      verdict.limit_bytes = Usable(s);
      verdict.criteria = CriteriaOf(s, bound.step_s, bound.memory_bytes);
    } catch (const InputError& error) {
      verdict.code = error.diagnostic().CodeName();
      verdict.reason = error.diagnostic().message;
    }
    return verdict;
  }

  // Why this plan is not looked at: another that says less is the same one, and is a plan. Of a group by what its
  // members share, of a member by the rest.
  std::string TwinReason(std::size_t worker, const ChoiceIndices& at, const Scenario& s,
                         bool member) {
    const std::size_t first = member ? early_ : 0;
    const std::size_t last = member ? space().dimensions.size() : early_;
    for (const Twin& twin : TwinsOf(space(), at, s, first, last)) {
      ChoiceIndices other = at;
      other[twin.dimension] = twin.choice;
      if (space().StandsFor(other).alike == 0) continue;
      try {
        Read(worker, other);
        return twin.reason;
      } catch (const InputError&) {
        // Refused, where this one is not: then this one stands for itself.
      }
    }
    return "";
  }

  // Counts what was found to be no plan of its own, or none.
  void Refuse(const Verdict& v, std::uint64_t count, const ChoiceIndices& at) {
    (v.code == "alike" ? counts().alike : counts().refused) += count;
    Reject(v.code, v.reason, count, at);
  }

  std::string StateKey(const ChoiceIndices& at) const {
    std::string key;
    for (std::size_t d = 0; d < early_; ++d) {
      if (!space().dimensions[d].state) continue;
      key += static_cast<char>(at[d] & 0xff);
      key += static_cast<char>(at[d] >> 8);
    }
    return key;
  }

  // The first two sieves over all groups, without communication.
  void Screen() {
    std::set<std::string> too_large;  // states that do not fit, whatever else is chosen
    std::vector<Verdict> verdicts(kScreened);
    std::vector<char> known(kScreened);
    for (std::size_t first = 0; first < groups_.size() && !Stopped(); first += kScreened) {
      const std::size_t n = std::min(kScreened, groups_.size() - first);
      for (std::size_t i = 0; i < n; ++i) {
        const ChoiceIndices at = EarlyOf(first + i);
        verdicts[i] = {};
        std::tie(verdicts[i].code, verdicts[i].reason) = degrees_->Refuse(at);
        known[i] = !verdicts[i].code.empty() || too_large.count(StateKey(at)) > 0;
      }
      InParallel(n, report_.options.jobs, [&](std::size_t worker, std::size_t i) {
        if (!known[i]) verdicts[i] = Judge(worker, EarlyOf(first + i), false);
      });
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t g = first + i;
        const ChoiceIndices at = EarlyOf(g);
        const Verdict& v = verdicts[i];
        if (!v.code.empty()) {
          Refuse(v, groups_[g].distinct, at);
          continue;
        }
        if (known[i] || v.state_bytes > v.limit_bytes) {
          counts().state += groups_[g].distinct;
          if (!known[i]) too_large.insert(StateKey(at));
          Reject("state",
                 "weights, gradients and optimizer states of a GPU are " + Gib(v.state_bytes) +
                     ", and it may hold " + Gib(v.limit_bytes),
                 groups_[g].distinct, at);
          if (!known[i]) ++report_.bounds;
          continue;
        }
        ++report_.bounds;
        if (v.memory_bytes > v.limit_bytes) {
          counts().kept += groups_[g].distinct;
          Reject("kept",
                 "with the activations that its schedule keeps a GPU holds " + Gib(v.memory_bytes) +
                     " or more of " + Gib(v.limit_bytes),
                 groups_[g].distinct, at);
          continue;
        }
        Push({v.bound, 0, g, false, {}, v.bound_s, v.criteria});
      }
      Progress(first + n);
    }
  }

  void Push(Entry entry) {
    entry.order = pushed_++;
    waiting_.push(std::move(entry));
  }

  void Progress(std::uint64_t done) const {
    if (report_.options.progress)
      report_.options.progress(done, groups_.size(), report_.simulations);
  }

  bool Hopeless(const Entry& entry) const {
    if (scores_.size() < Wanted() || entry.bound < *WorstWanted()) return false;
    if (!report_.options.pareto) return true;
    return std::any_of(valued_.begin(), valued_.end(),
                       [&](const auto& plan) { return Dominates(plan.first, entry.criteria); });
  }
  std::multiset<double>::const_iterator WorstWanted() const {
    return std::next(scores_.begin(), static_cast<std::ptrdiff_t>(Wanted()) - 1);
  }

  void Drop(const Entry& entry) {
    const std::uint64_t count = entry.member ? 1 : groups_[entry.group].distinct;
    counts().bounded += count;
    if (count == 0) return;
    char text[160];
    std::snprintf(text, sizeof text,
                  "its step takes %.4g s at the least, and that is no better than plans that were "
                  "found",
                  entry.bound_s);
    Reject("bound", text, count, entry.member ? entry.at : EarlyOf(entry.group));
  }

  // The third sieve.
  void Descend() {
    while (!waiting_.empty() && !Stopped()) {
      std::vector<Entry> members;    // to simulate
      std::vector<Entry> unbounded;  // of groups: to bound with their communication
      for (std::size_t taken = 0; taken < kBatch && !waiting_.empty();) {
        Entry entry = waiting_.top();
        waiting_.pop();
        if (Hopeless(entry)) {
          Drop(entry);
          continue;
        }
        ++taken;
        if (entry.member) {
          members.push_back(std::move(entry));
          continue;
        }
        ForEachMember(EarlyOf(entry.group), [&](const ChoiceIndices& at) {
          if (space().StandsFor(at).alike > 0)
            unbounded.push_back({0, 0, entry.group, true, at, 0, {}});
        });
      }
      std::vector<Verdict> verdicts(unbounded.size());
      std::vector<Valued> plans(members.size());
      InParallel(unbounded.size() + members.size(), report_.options.jobs,
                 [&](std::size_t worker, std::size_t i) {
                   if (i < members.size()) {
                     plans[i] = Simulate(worker, members[i]);
                   } else {
                     verdicts[i - members.size()] =
                         Judge(worker, unbounded[i - members.size()].at, true);
                   }
                 });
      for (std::size_t i = 0; i < members.size(); ++i) Take(members[i], std::move(plans[i]));
      for (std::size_t i = 0; i < unbounded.size(); ++i) {
        Entry& entry = unbounded[i];
        const Verdict& v = verdicts[i];
        ++report_.bounds;
        if (!v.code.empty()) {
          Refuse(v, 1, entry.at);
          continue;
        }
        entry.bound = v.bound;
        entry.bound_s = v.bound_s;
        entry.criteria = v.criteria;
        Push(std::move(entry));
      }
      Progress(groups_.size());
    }
    report_.interrupted =
        Stopped() && (!waiting_.empty() || counts().total != counts().Accounted());
  }

  struct Valued {
    FoundPlan plan;
    Criteria criteria{};
    std::string code, reason;  // refused, or over its budget
    bool fits = false;
  };

  Valued Simulate(std::size_t worker, const Entry& entry) {
    Valued valued;
    try {
      valued = Value(Read(worker, entry.at));
      valued.plan.at = entry.at;
      valued.plan.bound_s = entry.bound_s;
    } catch (const InputError& error) {
      valued.code = error.diagnostic().CodeName();
      valued.reason = error.diagnostic().message;
    }
    return valued;
  }

  Valued Value(Scenario scenario) const {
    Valued valued;
    const Evaluation e = Evaluate(std::move(scenario), report_.options.level);
    const Scenario& s = e.scenario;
    FoundPlan& plan = valued.plan;
    plan.plan = DescribePlan(s.plan);
    const std::string encoders = DescribeEncoders(s.plan, *s.model);
    if (!encoders.empty()) plan.plan += "; " + encoders;
    plan.recipe = DescribeRecipe(s.plan);
    plan.step_s = e.data ? e.data->mean_s : e.StepSeconds();
    plan.score = ScoreOf(s, report_.options.objective, plan.step_s);
    plan.samples_per_s = static_cast<double>(s.workload.global_batch_size) / plan.step_s;
    plan.tokens_per_s = TokensPerStep(s) / plan.step_s;
    plan.mfu = ModelFlopsUtilisation(e);
    plan.peak_bytes = e.memory.Heaviest().peak_bytes;
    plan.usable_bytes = e.memory.usable_bytes;
    plan.verdict = e.memory.verdict;
    plan.gpus = s.cluster->GpuCount();
    plan.cost = CostOf(s, plan.step_s);
    plan.time = e.Time();
    plan.limit = WhatLimits(e.Time());
    valued.criteria = CriteriaOf(s, plan.step_s, plan.peak_bytes);
    valued.fits = plan.verdict == Fit::kFits ||
                  (report_.options.accept_at_risk && plan.verdict == Fit::kAtRisk);
    if (const std::vector<BudgetLine> budget = JudgeBudget(e); Exceeded(budget)) {
      valued.code = "E0656";
      valued.reason = "the plan exceeds its budget: " + DescribeExceeded(budget);
    }
    return valued;
  }

  void Take(const Entry& entry, Valued valued) {
    ++report_.simulations;
    FoundPlan& plan = valued.plan;
    if (!valued.code.empty()) {
      ++counts().refused;
      Reject(valued.code, valued.reason, 1, entry.at);
      return;
    }
    plan.labels = Labels(entry.at);
    plan.set = SettingsOf(entry.at);
    if (!valued.fits) {
      ++counts().memory;
      Reject("memory",
             "simulated: " + Gib(plan.peak_bytes) + " of " + Gib(plan.usable_bytes) +
                 " usable: " + FitName(plan.verdict),
             1, entry.at);
      const bool better = !report_.at_risk || plan.score < report_.at_risk->score;
      if (plan.verdict == Fit::kAtRisk && better) report_.at_risk = std::move(plan);
      return;
    }
    // The same to the picosecond and the byte: what differs makes no difference here, images dealt
    // over a group of one, say.
    if (!different_.emplace(plan.gpus, plan.step_s, plan.time.compute_s, plan.peak_bytes).second) {
      ++counts().alike;
      Reject("alike", "the same step to the picosecond and memory to the byte as a plan found", 1,
             entry.at);
      return;
    }
    ++counts().valued;
    scores_.insert(plan.score);
    valued_.emplace_back(valued.criteria, std::move(plan));
  }

  // Only what the scenario does not say already.
  std::vector<std::string> SettingsOf(const ChoiceIndices& at) const {
    std::vector<std::string> settings;
    for (std::size_t d = 0; d < at.size(); ++d) {
      for (const auto& [path, value] : space().dimensions[d].choices[at[d]].set) {
        const Json* told = FindPath(base_.root, path);
        if (told != nullptr && told->Dump() == value.Dump()) continue;
        settings.push_back(path + "=" + LabelOf(value));
      }
    }
    return settings;
  }

  // The scenario's own plan, for comparison.
  void Told() {
    try {
      Valued valued = Value(AsDrawn(ReadScenario(base_, cache_)));
      report_.told_refused = valued.reason;
      report_.told_fits = valued.fits && valued.code.empty();
      report_.told = std::move(valued.plan);
    } catch (const InputError& error) {
      report_.told_refused = error.diagnostic().message;
    }
  }

  void SortValued() {
    std::stable_sort(valued_.begin(), valued_.end(),
                     [](const auto& a, const auto& b) { return a.second.score < b.second.score; });
  }

  // The best of the mean sample with the samples that they meet; the others' figures are of another kind.
  void SimulateAsDrawn() {
    SortValued();
    const std::size_t n = std::min(valued_.size(), Wanted());
    std::vector<Valued> again(n);
    InParallel(n, report_.options.jobs, [&](std::size_t worker, std::size_t i) {
      JsonDocument& document = documents_[worker];
      space().Apply(valued_[i].second.at, &document);
      try {
        again[i] = Value(AsDrawn(ReadScenario(document, cache_)));
      } catch (const InputError& error) {
        again[i].code = error.diagnostic().CodeName();
        again[i].reason = error.diagnostic().message;
      }
    });
    auto before = std::move(valued_);
    valued_.clear();
    scores_.clear();
    different_.clear();
    report_.at_risk.reset();  // by the mean sample: nothing that could be told
    for (std::size_t i = 0; i < n; ++i) {
      FoundPlan& plan = again[i].plan;
      plan.at = before[i].second.at;
      plan.bound_s = 0;
      --counts().valued;
      Take({0, 0, 0, true, before[i].second.at, 0, {}}, std::move(again[i]));
    }
  }

  void Finish() {
    SortValued();
    for (auto& [criteria, plan] : valued_) {
      plan.on_front = std::none_of(valued_.begin(), valued_.end(), [&](const auto& other) {
        return Dominates(other.first, criteria);
      });
      if (plan.on_front) report_.front.push_back(plan);
    }
    std::stable_sort(report_.front.begin(), report_.front.end(),
                     [](const FoundPlan& a, const FoundPlan& b) { return a.step_s < b.step_s; });
    for (std::size_t i = 0; i < valued_.size() && i < report_.options.top; ++i)
      report_.best.push_back(std::move(valued_[i].second));
    if (report_.at_risk && !report_.best.empty() &&
        report_.at_risk->score >= report_.best.front().score)
      report_.at_risk.reset();
    std::stable_sort(
        report_.rejected.begin(), report_.rejected.end(),
        [](const RejectedPlans& a, const RejectedPlans& b) { return a.count > b.count; });
  }

  JsonDocument base_;
  InputCache* cache_;
  PriceBook book_;
  std::size_t early_;
  SearchReport report_;
  std::optional<DegreeCheck> degrees_;
  std::vector<JsonDocument> documents_;  // by thread
  std::vector<Group> groups_;
  std::vector<std::uint16_t> early_choices_;  // by group and early dimension
  std::priority_queue<Entry, std::vector<Entry>, Later> waiting_;
  std::uint64_t pushed_ = 0;
  std::multiset<double> scores_;  // of plans that fit
  std::vector<std::pair<Criteria, FoundPlan>> valued_;
  std::set<std::tuple<int, double, double, double>> different_;  // of those
  std::map<std::string, std::size_t> rejected_;
};

}  // namespace

std::string ObjectiveName(Objective objective) {
  switch (objective) {
    case Objective::kThroughput:
      return "throughput";
    case Objective::kTime:
      return "time";
    case Objective::kCost:
      return "cost";
    case Objective::kEnergy:
      return "energy";
  }
  return "";
}

SearchReport Search(const JsonDocument& document, const PlanSpace& space, InputCache* cache,
                    const SearchOptions& options) {
  return Searcher(document, space, cache, options).Run();
}

}  // namespace aurum
