#include "sim/study/pipeline_cut.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/plan/balanced_cut.h"
#include "sim/plan/units.h"

namespace aurum {
namespace {

bool Moves(const Scenario& s, std::size_t module) {
  return module + 1 == s.model->modules.size() ||
         (s.plan.modules[module].placement == Placement::kBalanced &&
          s.model->modules[module].Layers() > 0);
}

CostContext ContextOf(const Scenario& s) {
  CostContext context;
  context.profile = s.profile.get();
  context.stack = s.stack.get();
  context.precision = s.plan.precision;
  context.loss_kernel = s.plan.loss;
  context.gemm_speedup = s.what_if.gemm_speedup;
  context.attention_speedup = s.what_if.attention_speedup;
  context.memory_speedup = s.what_if.memory_speedup;
  return context;
}

// The plan with its layers cut so; `counts` by position over the row of movable layers.
Plan Cut(const Scenario& s, const std::vector<int>& counts) {
  Plan plan = s.plan;
  plan.layers_per_stage.assign(counts.size(), 0);
  std::vector<std::size_t> owner;
  for (std::size_t i = 0; i < s.model->modules.size(); ++i) {
    if (!Moves(s, i)) continue;
    owner.insert(owner.end(), static_cast<std::size_t>(s.model->modules[i].Layers()), i);
    if (i + 1 < s.model->modules.size()) plan.modules[i].layers_per_stage.assign(counts.size(), 0);
  }
  std::size_t at = 0;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    for (int k = 0; k < counts[p]; ++k, ++at) {
      const bool backbone = owner[at] + 1 == s.model->modules.size();
      ++(backbone ? plan.layers_per_stage : plan.modules[owner[at]].layers_per_stage)[p];
    }
  }
  assert(at == owner.size());
  return plan;
}

// Evenly, what is left over first.
std::vector<int> Even(int layers, int parts) {
  std::vector<int> counts(static_cast<std::size_t>(parts), layers / parts);
  for (int i = 0; i < layers % parts; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

// Behind the items of the largest values; ties to the earliest.
std::vector<int> CutBehind(std::vector<int> items, int layers) {
  std::sort(items.begin(), items.end());
  std::vector<int> counts;
  int before = 0;
  for (const int item : items) {
    counts.push_back(item + 1 - before);
    before = item + 1;
  }
  counts.push_back(layers - before);
  return counts;
}

// "24 vision + 7 · 9": by position the layers that move, those of encoders with their module's name.
std::string Shown(const Scenario& s, const Plan& cut) {
  std::string text;
  for (std::size_t p = 0; p < cut.layers_per_stage.size(); ++p) {
    std::string here;
    for (std::size_t i = 0; i + 1 < s.model->modules.size(); ++i) {
      if (!Moves(s, i) || cut.modules[i].layers_per_stage[p] == 0) continue;
      here += (here.empty() ? "" : " + ") + std::to_string(cut.modules[i].layers_per_stage[p]) +
              " " + s.model->modules[i].name;
    }
    if (cut.layers_per_stage[p] > 0 || here.empty())
      here += (here.empty() ? "" : " + ") + std::to_string(cut.layers_per_stage[p]);
    text += (text.empty() ? "" : " · ") + here;
  }
  return text;
}

// Where the plan itself cuts, be it told or found by its own balance: layers counted on the stages that
// are simulated. Absent where some layers are held and never run, so that nothing tells their place.
std::optional<Plan> OwnCut(const Scenario& s) {
  Plan plan = s.plan;
  const auto positions = static_cast<std::size_t>(s.plan.Positions());
  plan.layers_per_stage.assign(positions, 0);
  int missing = 0;
  for (std::size_t i = 0; i < s.model->modules.size(); ++i) {
    if (!Moves(s, i)) continue;
    missing += s.model->modules[i].Layers();
    if (i + 1 < s.model->modules.size()) plan.modules[i].layers_per_stage.assign(positions, 0);
  }
  const std::vector<StageUnits> stages = MakeStages(s, ContextOf(s));
  const auto own = stages.size() - static_cast<std::size_t>(s.plan.pp);  // encoders' come first
  for (std::size_t stage = own; stage < stages.size(); ++stage) {
    for (std::size_t c = 0; c < stages[stage].chunks.size(); ++c) {
      const auto position = static_cast<std::size_t>(
          PositionOf(s.plan.Pipeline(), static_cast<int>(stage - own), static_cast<int>(c)));
      for (const Unit& unit : stages[stage].chunks[c].units) {
        if (unit.layer == nullptr || !Moves(s, unit.module)) continue;
        const bool backbone = unit.module + 1 == s.model->modules.size();
        ++(backbone ? plan.layers_per_stage : plan.modules[unit.module].layers_per_stage)[position];
        --missing;
      }
    }
  }
  if (missing != 0) return std::nullopt;
  return plan;
}

}  // namespace

std::vector<MovableLayer> MovableLayers(const Scenario& s) {
  const CostContext context = ContextOf(s);
  // On one stage everything stands in one row.
  Scenario flat = s;
  flat.plan.pp = flat.plan.vpp = 1;
  flat.plan.schedule = ScheduleKind::k1F1B;
  flat.plan.layers_per_stage = {s.model->Backbone().Layers()};
  for (ModulePlan& part : flat.plan.modules) {
    if (part.placement == Placement::kBalanced) part.layers_per_stage.clear();
    if (part.placement == Placement::kInBubbles) part.placement = Placement::kFirstStage;
  }
  const std::vector<StageUnits> stages = MakeStages(flat, context);
  std::vector<MovableLayer> row;
  double before_forward = 0, before_whole = 0;
  std::map<std::size_t, int> seen;
  for (const Unit& unit : stages.back().chunks.front().units) {
    const double forward = unit.Forward().Seconds();
    const double whole =
        forward + (unit.backward ? unit.Backward().Seconds() : 0) + (unit.recomputed ? forward : 0);
    if (unit.layer != nullptr && Moves(s, unit.module) &&
        seen[unit.module] < s.model->modules[unit.module].Layers()) {
      row.push_back(
          {unit.module, seen[unit.module]++, forward + before_forward, whole + before_whole, 0});
      before_forward = before_whole = 0;
    } else if (!row.empty() && (row.back().module == unit.module || !Moves(s, unit.module))) {
      row.back().forward_s += forward;
      row.back().whole_s += whole;
    } else {
      before_forward += forward;
      before_whole += whole;
    }
  }
  // Layers that are held and never run.
  std::vector<MovableLayer> full;
  for (std::size_t i = 0; i < s.model->modules.size(); ++i) {
    if (!Moves(s, i)) continue;
    for (int l = 0; l < s.model->modules[i].Layers(); ++l) {
      const auto found = std::find_if(row.begin(), row.end(), [&](const MovableLayer& layer) {
        return layer.module == i && layer.layer == l;
      });
      full.push_back(found != row.end() ? *found : MovableLayer{i, l, 0, 0, 0});
    }
  }
  for (std::size_t b = 0; b + 1 < full.size(); ++b) {
    Scenario two = flat;
    two.plan.pp = 2;
    const auto layers = static_cast<int>(full.size()), first = static_cast<int>(b) + 1;
    Scenario base = s;
    base.plan = two.plan;
    two.plan = Cut(base, {first, layers - first});
    const std::vector<StageUnits> pair = MakeStages(two, context);
    full[b].boundary_bytes = pair[pair.size() - 2].chunks.front().sent_bytes;
  }
  return full;
}

std::vector<double> CutScores(const std::vector<double>& latency_s, const CutScoreInputs& inputs) {
  const auto at = [](const std::vector<double>& values, std::size_t i) {
    return values.size() == 1 ? values[0] : values[i];
  };
  constexpr double kAgainstZero = 1e-6;
  std::vector<double> scores;
  scores.reserve(latency_s.size());
  for (std::size_t i = 0; i < latency_s.size(); ++i) {
    scores.push_back(1 / (latency_s[i] + kAgainstZero) * at(inputs.kv_reuse, i) *
                     (1 - at(inputs.gradient_variance, i)));
  }
  return scores;
}

Breakpoint BestBreakpoint(const std::vector<double>& scores) {
  assert(scores.size() >= 3);
  Breakpoint found;
  // scores[1 … n − 2], and argmax of that list.
  const auto listed = std::max_element(scores.begin() + 1, scores.end() - 1);
  found.published = static_cast<int>(listed - (scores.begin() + 1));
  found.repaired =
      static_cast<int>(std::max_element(scores.begin(), scores.end() - 1) - scores.begin());
  return found;
}

std::vector<std::string> CutAssignments(const Scenario& s, const std::vector<int>& counts) {
  const Plan plan = Cut(s, counts);
  std::vector<std::string> set;
  for (std::size_t i = 0; i < s.model->modules.size(); ++i) {
    if (!Moves(s, i)) continue;
    const bool backbone = i + 1 == s.model->modules.size();
    Json list = Json::Array();
    for (const int count : backbone ? plan.layers_per_stage : plan.modules[i].layers_per_stage)
      list.Append(count);
    set.push_back("plan." + s.model->modules[i].name + ".layers_per_stage=" + list.Dump());
  }
  return set;
}

Decision DecideCut(const JsonDocument& document, InputCache* cache, const CutOptions& options) {
  const Scenario s = ReadScenario(document, cache);
  const int parts = s.plan.Positions();
  const std::vector<MovableLayer> row = MovableLayers(s);
  const auto layers = static_cast<int>(row.size());
  if (parts < 2 || layers < 3 || layers < parts || s.workload.task != Task::kTrain) {
    ThrowInput(769,
               "there is no pipeline of training to cut: " + std::to_string(parts) + " stages, " +
                   std::to_string(layers) + " layers that may move",
               "pp of 2 or more under '" + s.model->Backbone().name +
                   "', and placement = balanced for an encoder whose layers may move too");
  }
  for (const std::vector<double>* told :
       {&options.score.kv_reuse, &options.score.gradient_variance}) {
    if (told->size() == 1 || told->size() == row.size()) continue;
    ThrowInput(769,
               std::to_string(told->size()) + " numbers for " + std::to_string(layers) +
                   " layers that may move",
               "one number for all, or one for each: " + std::to_string(layers));
  }
  std::vector<double> forward, whole;
  for (const MovableLayer& layer : row) {
    forward.push_back(layer.forward_s);
    whole.push_back(layer.whole_s);
  }
  // The score gives one cut; the parts − 1 best ones where more are asked for.
  const std::vector<double> scores = CutScores(forward, options.score);
  std::vector<int> order(scores.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  std::vector<int> repaired(order.begin(), order.begin() + parts - 1), published;
  for (const int item : order) {
    if (item >= 1 && static_cast<int>(published.size()) < parts - 1) published.push_back(item - 1);
  }

  struct Known {
    std::string name;
    std::vector<int> counts;
  };
  std::vector<Known> known = {{"even", Even(layers, parts)},
                              {"score as published, one index too small", {}},
                              {"score with its index right", CutBehind(repaired, layers)},
                              {"min-max of the stages' times", BalancedCut(whole, parts)}};
  if (static_cast<int>(published.size()) == parts - 1) {
    known[1].counts = CutBehind(published, layers);
  } else {
    known.erase(known.begin() + 1);
  }
  const auto alternative = [&](const Known& k) {
    Alternative a;
    a.name = k.name + ": " + Shown(s, Cut(s, k.counts));
    a.set = CutAssignments(s, k.counts);
    return a;
  };
  std::vector<Alternative> list;
  Alternative told;
  told.name = "the plan's own cut";
  told.as_told = true;
  if (const std::optional<Plan> own = OwnCut(s)) told.name += ": " + Shown(s, *own);
  for (const Known& k : known) list.push_back(alternative(k));
  list.push_back(told);
  DecideOptions decide{options.level, options.jobs};
  Decision decision = Decide("cut", list, document, cache, decide);

  // Single moves from the best that names its counts.
  std::map<std::vector<int>, double> tried;
  std::vector<int> best;
  double best_s = 0;
  for (const Alternative& a : decision.alternatives) {
    if (a.refused || a.as_told) continue;
    for (const Known& k : known) {
      if (a.set != CutAssignments(s, k.counts)) continue;
      tried[k.counts] = a.step_s;
      if (best.empty()) best = k.counts, best_s = a.step_s;
    }
  }
  int left = options.most - static_cast<int>(list.size());
  bool better = !best.empty();
  bool moved = false;
  while (better && left > 0) {
    better = false;
    std::vector<Alternative> moves;
    std::vector<std::vector<int>> counts;
    for (int cut = 0; cut + 1 < parts && left > 0; ++cut) {
      for (const int step : {-1, 1}) {
        std::vector<int> next = best;
        next[static_cast<std::size_t>(cut)] += step;
        next[static_cast<std::size_t>(cut) + 1] -= step;
        if (*std::min_element(next.begin(), next.end()) < 0 || tried.contains(next) || left <= 0)
          continue;
        --left;
        counts.push_back(next);
        moves.push_back(alternative({"found by simulation", next}));
      }
    }
    if (moves.empty()) break;
    const Decision around = Decide("cut", moves, document, cache, decide);
    for (std::size_t i = 0; i < moves.size(); ++i) {
      for (const Alternative& a : around.alternatives) {
        if (a.set == moves[i].set) tried[counts[i]] = a.refused ? -1 : a.step_s;
      }
    }
    for (const Alternative& a : around.alternatives) {
      if (a.refused || a.step_s >= best_s * (1 - 1e-9)) continue;
      for (std::size_t i = 0; i < moves.size(); ++i) {
        if (moves[i].set == a.set) best = counts[i];
      }
      best_s = a.step_s;
      better = moved = true;
      break;
    }
  }
  if (!moved) return decision;
  list.push_back(alternative({"found by simulation", best}));
  return Decide("cut", std::move(list), document, cache, decide);
}

}  // namespace aurum
