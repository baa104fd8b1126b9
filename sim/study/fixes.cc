#include "sim/study/fixes.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "sim/core/units.h"
#include "sim/study/one_step.h"

// The search is small on purpose: a user wants to know which one line to change, and every line here has
// been simulated, not estimated. Single changes are independent of each other, so what a pair would save is
// guessed as the sum of what its parts save; the guess only orders the pairs that are simulated.
//
// Cost: at most FixOptions::most simulations of one step at the analytic level.
namespace aurum {
namespace {

constexpr double kLeastGain = 0.05 * kGiB;

struct Change {
  std::string path;
  Json value;
};

struct Candidate {
  std::string topic;  // two changes of one topic make no pair
  std::string what;
  std::vector<Change> changes;
  std::string caution;
  double least_saved_bytes = 0;  // of a pair: what the better of the two saves alone
};

std::string SetWord(const Change& change) {
  return change.path + "=" +
         (change.value.IsString() ? change.value.AsString() : change.value.Dump());
}

std::string Times(const char* degree, int from, int to) {
  return std::string(degree) + " " + std::to_string(from) + " → " + std::to_string(to);
}

// Every single change that may make a step smaller. Whether it is a plan is for ReadPlan to say.
class Candidates {
 public:
  Candidates(const Scenario& scenario, bool recipes)
      : s_(scenario),
        recipes_(recipes),
        backbone_("plan." + scenario.model->Backbone().name + ".") {}

  std::vector<Candidate> Make() {
    const bool trains = s_.workload.task == Task::kTrain;
    if (trains) {
      Sharding_();
      Recompute_();
    }
    MicroBatch();
    Degrees();
    if (trains) {
      Placements();
      Schedule();
      OffloadAndBits();
      if (recipes_) TrainLess();
    }
    return std::move(list_);
  }

 private:
  void Add(std::string topic, std::string what, std::vector<Change> changes,
           std::string caution = "") {
    list_.push_back({std::move(topic), std::move(what), std::move(changes), std::move(caution), 0});
  }

  void Sharding_() {
    const Plan& plan = s_.plan;
    if (plan.ReplicaRanks() == 1) return;
    const auto add = [&](const char* name, const char* what) {
      Add("sharding", what, {{"plan.sharding", Json(name)}});
    };
    if (plan.sharding == Sharding::kDdp) add("zero1", "shard the optimizer (ZeRO-1)");
    if (plan.sharding < Sharding::kZero2) add("zero2", "shard optimizer and gradients (ZeRO-2)");
    if (plan.sharding != Sharding::kFsdp)
      add("fsdp", "shard parameters, gradients and optimizer (FSDP)");
    if (plan.sharding >= Sharding::kFsdp && !plan.reshard_after_forward)
      Add("reshard", "free gathered parameters after forward",
          {{"plan.reshard_after_forward", Json(true)}});
  }

  void Recompute_() {
    const Recompute& now = s_.plan.recompute;
    if (now.scope == RecomputeScope::kNone)
      Add("recompute", "recompute attention in backward", {{"plan.recompute", Json("selective")}});
    if (now.scope != RecomputeScope::kFull || now.layers >= 0)
      Add("recompute", "recompute every layer in backward", {{"plan.recompute", Json("full")}});
  }

  void MicroBatch() {
    const std::int64_t now = s_.plan.micro_batch_size;
    int left = 4;
    for (std::int64_t size = now / 2; size >= 1 && left > 0; size /= 2, --left) {
      while (now % size != 0) --size;
      Add("micro-batch",
          "micro-batches of " + std::to_string(size) + " instead of " + std::to_string(now),
          {{"plan.micro_batch_size", Json(size)}});
    }
  }

  void Degrees() {
    const Plan& plan = s_.plan;
    const auto more = [&](const char* key, const char* name, int now, int most, int times) {
      for (int degree = 2 * now; times > 0 && degree <= most; degree *= 2, --times)
        Add(key, Times(name, now, degree), {{backbone_ + key, Json(degree)}});
    };
    const int dp = plan.dp;
    more("tp", "tensor parallelism", plan.tp, std::min(plan.tp * dp, s_.cluster->gpus_per_node), 3);
    more("pp", "pipeline stages", plan.pp, plan.pp * dp, 2);
    if (s_.workload.task == Task::kTrain)
      more("cp", "context parallelism", plan.cp, plan.cp * dp, 2);
    const bool experts =
        std::any_of(s_.model->Backbone().runs.begin(), s_.model->Backbone().runs.end(),
                    [](const LayerRun& run) { return run.layer.mlp.experts > 0; });
    if (experts) more("ep", "expert parallelism", plan.ep, plan.ep * plan.ExpertReplicas(), 2);
    if (plan.tp > 1 && !plan.sequence_parallel)
      Add("sequence", "shard sequences between tensor-parallel regions",
          {{backbone_ + "sequence_parallel", Json(true)}});
  }

  // An encoder elsewhere: what is on one stage is on the fullest one.
  void Placements() {
    const Plan& plan = s_.plan;
    for (std::size_t i = 0; i + 1 < s_.model->modules.size(); ++i) {
      const Module& module = s_.model->modules[i];
      const Placement now = plan.modules[i].placement;
      if (module.kind != ModuleKind::kEncoder) continue;
      const auto add = [&](Placement placement, const char* what) {
        Add("placement of " + module.name, module.name + " " + what,
            {{"plan." + module.name + ".placement", Json(PlacementName(placement))}});
      };
      if (now == Placement::kInBubbles || now == Placement::kColocatedDp)
        add(Placement::kFirstStage, "on the first stage");
      if (now == Placement::kFirstStage && plan.tp > 1 && plan.modules[i].tp == 1)
        add(Placement::kColocatedDp, "shared out over the tensor-parallel GPUs");
      if (now != Placement::kBalanced && plan.pp > 1)
        add(Placement::kBalanced, "spread over the first stages");
    }
  }

  void Schedule() {
    const Plan& plan = s_.plan;
    if (plan.pp == 1 || plan.schedule == ScheduleKind::k1F1B) return;
    std::vector<Change> changes{{"plan.schedule", Json("1f1b")}};
    if (plan.vpp > 1) changes.push_back({backbone_ + "vpp", Json(1)});
    Add("schedule", plan.vpp > 1 ? "1F1B, one chunk a stage" : "1F1B", std::move(changes));
  }

  void OffloadAndBits() {
    const Plan& plan = s_.plan;
    const auto offload = [&](const char* what, double now, const char* words) {
      if (now < 1)
        Add("offload " + std::string(what), words,
            {{"plan.offload." + std::string(what), Json(1)}});
    };
    offload("optimizer", plan.offload.optimizer, "keep the optimizer in host memory");
    offload("activations", plan.offload.activations, "keep activations in host memory");
    // Weights come and go unit by unit, which only sharded ones do.
    if (plan.offload.parameters < 1 && (plan.sharding >= Sharding::kFsdp || plan.pp == 1)) {
      std::vector<Change> changes{{"plan.offload.parameters", Json(1)}};
      if (plan.sharding < Sharding::kFsdp)
        changes.insert(changes.begin(), {"plan.sharding", Json("fsdp")});
      Add("offload parameters",
          plan.sharding < Sharding::kFsdp ? "FSDP, and keep parameters in host memory"
                                          : "keep parameters in host memory",
          std::move(changes));
    }
    if (plan.optimizer == OptimizerKind::kAdam)
      Add("optimizer", "Adam's moments in 8 bits", {{"plan.optimizer", Json("adam-8bit")}},
          "another optimizer: check convergence");
    const bool adapted = plan.adapter.kind != AdapterKind::kNone;
    if (adapted && BytesOf(plan.adapter.base) > BytesOf(QuantisedBase::kNf4))
      Add("base", "the adapter's base in 4 bits", {{"plan.adapter.base", Json("nf4")}},
          "a quantised base: check quality");
    // The leanest of the stack's loss kernels, by name where two are alike.
    std::string leanest = plan.loss;
    for (const auto& [kernel, bytes] : s_.stack->logit_bytes_of) {
      if (kernel != "loss_parallel" &&
          LogitBytes(*s_.stack, kernel, plan.tp) < LogitBytes(*s_.stack, leanest, plan.tp))
        leanest = kernel;
    }
    if (leanest != plan.loss)
      Add("loss", "loss kernel '" + leanest + "'", {{"plan.loss", Json(leanest)}});
  }

  // Another training, which its user may want as well.
  void TrainLess() {
    const Plan& plan = s_.plan;
    const std::size_t backbone = s_.model->modules.size() - 1;
    for (std::size_t i = 0; i < backbone; ++i) {
      const Module& module = s_.model->modules[i];
      if (module.kind != ModuleKind::kEncoder || plan.modules[i].frozen) continue;
      Json frozen = Json::Array();
      for (std::size_t j = 0; j < s_.model->modules.size(); ++j) {
        if (j == i || plan.modules[j].frozen) frozen.Append(s_.model->modules[j].name);
      }
      Add("frozen " + module.name, module.name + " frozen", {{"plan.frozen", std::move(frozen)}},
          "the encoder is not trained: check quality");
    }
    if (plan.adapter.kind != AdapterKind::kNone || plan.modules[backbone].frozen) return;
    constexpr int kRank = 16;
    const auto adapter = [&](const char* base, const std::string& what) {
      Json value = Json::Object();
      value.Set("kind", "lora");
      value.Set("rank", kRank);
      if (base != nullptr) value.Set("base", base);
      Add("adapter", what, {{"plan.adapter", std::move(value)}},
          "trains adapters of rank " + std::to_string(kRank) + " alone: check quality");
    };
    adapter(nullptr, "LoRA in place of full training");
    adapter("nf4", "QLoRA: LoRA over a base in 4 bits");
  }

  const Scenario& s_;
  const bool recipes_;
  const std::string backbone_;
  std::vector<Candidate> list_;
};

std::optional<Evaluation> Walk(const JsonDocument& document, const std::vector<Change>& changes,
                               InputCache* cache, Level level) {
  JsonDocument changed = document;
  try {
    for (const Change& change : changes)
      SetPath(&changed, change.path, change.value, "--set " + SetWord(change));
    // One drawn step tells a change from another, and the undisturbed one: drawing again takes long.
    return EvaluateOneStep(ReadScenario(changed, cache), level);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

class Search {
 public:
  Search(const JsonDocument& document, InputCache* cache, int most, double base_step_s,
         double base_peak_bytes)
      : document_(document),
        cache_(cache),
        most_(most),
        step_s_(base_step_s),
        peak_bytes_(base_peak_bytes) {}

  bool Full() const { return out_.tried >= most_; }

  // Nothing if it is no plan, or saves nothing.
  std::optional<std::size_t> Try(const Candidate& candidate) {
    if (Full()) return std::nullopt;
    const auto walked = Walk(document_, candidate.changes, cache_, Level::kAnalytic);
    if (!walked) return std::nullopt;
    ++out_.tried;
    Fix fix;
    fix.what = candidate.what;
    for (const Change& change : candidate.changes) fix.set.push_back(SetWord(change));
    fix.caution = candidate.caution;
    fix.step_s = walked->StepSeconds();
    fix.step_delta_s = fix.step_s - step_s_;
    fix.peak_bytes = walked->memory.Heaviest().peak_bytes;
    fix.saves_bytes = peak_bytes_ - fix.peak_bytes;
    fix.verdict = walked->memory.verdict;
    if (fix.saves_bytes < candidate.least_saved_bytes + kLeastGain) return std::nullopt;
    out_.fixes.push_back(std::move(fix));
    return out_.fixes.size() - 1;
  }

  FixSearch& out() { return out_; }

 private:
  const JsonDocument& document_;
  InputCache* cache_;
  int most_;
  double step_s_, peak_bytes_;
  FixSearch out_;
};

bool SamePath(const Candidate& a, const Candidate& b) {
  return std::any_of(a.changes.begin(), a.changes.end(), [&](const Change& change) {
    return std::any_of(b.changes.begin(), b.changes.end(),
                       [&](const Change& other) { return other.path == change.path; });
  });
}

// Pairs of changes that help alone, those first that should fit at the least time, then those that should
// come nearest to it.
std::vector<Candidate> Pairs(const std::vector<std::pair<Candidate, Fix>>& singles,
                             double base_peak_bytes, double enough_bytes) {
  struct Guess {
    bool fits;
    double rank;
    Candidate candidate;
  };
  std::vector<Guess> guesses;
  for (std::size_t i = 0; i < singles.size(); ++i) {
    for (std::size_t j = i + 1; j < singles.size(); ++j) {
      const auto& [a, first] = singles[i];
      const auto& [b, second] = singles[j];
      if (a.topic == b.topic || SamePath(a, b)) continue;
      Guess guess;
      const double peak = base_peak_bytes - first.saves_bytes - second.saves_bytes;
      guess.fits = peak <= enough_bytes;
      guess.rank = guess.fits ? first.step_delta_s + second.step_delta_s : peak;
      guess.candidate = a;
      guess.candidate.what += "; " + b.what;
      guess.candidate.least_saved_bytes = std::max(first.saves_bytes, second.saves_bytes);
      for (const Change& change : b.changes) guess.candidate.changes.push_back(change);
      if (!b.caution.empty())
        guess.candidate.caution += (a.caution.empty() ? "" : "; ") + b.caution;
      guesses.push_back(std::move(guess));
    }
  }
  std::stable_sort(guesses.begin(), guesses.end(), [](const Guess& a, const Guess& b) {
    return a.fits != b.fits ? a.fits : a.rank < b.rank;
  });
  std::vector<Candidate> pairs;
  for (Guess& guess : guesses) pairs.push_back(std::move(guess.candidate));
  return pairs;
}

}  // namespace

std::optional<Evaluation> EvaluateWith(const JsonDocument& document, const std::string& path,
                                       Json value, InputCache* cache, Level level) {
  return Walk(document, {{path, std::move(value)}}, cache, level);
}

FixSearch SearchFixes(const Evaluation& e, const JsonDocument& document, InputCache* cache,
                      const FixOptions& options) {
  if (e.memory.verdict == Fit::kFits && !options.though_fits) return {};
  double step_s = e.StepSeconds();
  double peak = e.memory.Heaviest().peak_bytes;
  int base_walks = 0;
  if (e.outcome.level != Level::kAnalytic) {
    // Faults that come and go need the flow level: such a plan has no analytic step to compare with.
    const auto base = Walk(document, {}, cache, Level::kAnalytic);
    if (!base) return {};
    step_s = base->StepSeconds();
    peak = base->memory.Heaviest().peak_bytes;
    base_walks = 1;
  }
  Search search(document, cache, options.most - base_walks, step_s, peak);
  std::vector<std::pair<Candidate, Fix>> singles;
  for (Candidate& candidate : Candidates(e.scenario, options.recipes).Make()) {
    const auto index = search.Try(candidate);
    if (index) singles.emplace_back(std::move(candidate), search.out().fixes[*index]);
  }
  const auto fits = [](const Fix& fix) { return fix.verdict == Fit::kFits; };
  FixSearch& out = search.out();
  if (e.memory.verdict != Fit::kFits && std::none_of(out.fixes.begin(), out.fixes.end(), fits)) {
    for (const Candidate& pair : Pairs(singles, peak, kFitsBelow * e.memory.usable_bytes)) {
      if (search.Full()) break;
      search.Try(pair);
    }
  }
  out.tried += base_walks;
  std::stable_sort(out.fixes.begin(), out.fixes.end(), [](const Fix& a, const Fix& b) {
    if (a.verdict != b.verdict) return a.verdict < b.verdict;
    return a.verdict == Fit::kDoesNotFit ? a.saves_bytes > b.saves_bytes : a.step_s < b.step_s;
  });
  return std::move(out);
}

Json FixesJson(const FixSearch& search) {
  Json out = Json::Array();
  for (const Fix& fix : search.fixes) {
    Json entry = Json::Object();
    entry.Set("fix", fix.what);
    Json set = Json::Array();
    for (const std::string& word : fix.set) set.Append(word);
    entry.Set("set", std::move(set));
    if (!fix.caution.empty()) entry.Set("caution", fix.caution);
    entry.Set("step_time_s", fix.step_s);
    entry.Set("step_time_delta_s", fix.step_delta_s);
    entry.Set("peak_gib", fix.peak_bytes / kGiB);
    entry.Set("saves_gib", fix.saves_bytes / kGiB);
    entry.Set("verdict", FitName(fix.verdict));
    out.Append(std::move(entry));
  }
  return out;
}

}  // namespace aurum
