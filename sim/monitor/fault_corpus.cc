#include "sim/monitor/fault_corpus.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sim/core/random.h"
#include "sim/plan/lower.h"
#include "sim/plan/simulate.h"

namespace aurum {
namespace {

// Streams of random numbers, one for each use.
enum class Draw : std::uint64_t { kSeverity = 1, kPlace, kCounters, kRank };

double Uniform(std::uint64_t seed, Draw draw, std::uint64_t counter) {
  return RandomUniform(seed, static_cast<std::uint64_t>(draw), counter);
}

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

int NodeOf(const Cluster& cluster, int gpu) {
  return gpu / std::max(cluster.GpuCount() / cluster.nodes, 1);
}

// Names of the NICs that hang on a network, with their nodes.
std::vector<std::pair<std::string, int>> NicsOf(const Cluster& cluster) {
  std::vector<std::pair<std::string, int>> out;
  for (const Link& link : cluster.links()) {
    if (link.kind != LinkKind::kNetwork) continue;
    const Vertex& vertex = cluster.vertices()[static_cast<std::size_t>(link.from)];
    if (vertex.kind != VertexKind::kNic) continue;
    const std::string name = VertexName(vertex);
    const int node = std::atoi(name.c_str() + std::string("node").size());
    out.emplace_back(name, node);
  }
  return out;
}

struct Drawn {
  std::string set;  // an override of the scenario; "": none
  double stall_share = 0;
  double resent = 0;
  int place = -1;
  std::string fault;
};

JsonDocument With(JsonDocument document, const std::string& set) {
  if (!set.empty()) ApplyOverride(&document, set);
  return document;
}

}  // namespace

StepRecord SimulateStep(const Scenario& scenario, double stall_s, double measurement_cv,
                        std::uint64_t seed) {
  Program program = Lower(scenario);
  for (OpId op = 0; op < program.info.size() && stall_s > 0; ++op) {
    if (program.info[op].kind == OpKind::kHost)
      program.graph.SetDuration(op, program.graph.duration(op) + TimeFromSeconds(stall_s));
  }
  const Outcome outcome = Simulate(program, Level::kAnalytic);
  std::uint64_t counter = 0;
  const auto measured = [&](double value) {
    const double z = RandomNormal(seed, static_cast<std::uint64_t>(Draw::kRank), counter++);
    return value * std::max(1 + measurement_cv * z, 0.0);
  };
  StepRecord record;
  record.step_time_s = measured(outcome.StepSeconds());
  if (scenario.sample.cross_modal_tokens > 0) record.mar = program.alignment.ratio;
  for (int gpu = 0; gpu < scenario.cluster->GpuCount(); ++gpu) {
    const TimeBreakdown& t = outcome.time[program.ClassOf(gpu)];
    RankTimes rank;
    rank.rank = gpu;
    rank.node = NodeOf(*scenario.cluster, gpu);
    rank.compute_s = measured(t.compute_s);
    rank.optimizer_s = measured(t.optimizer_s);
    rank.tp_s = measured(t.tp_s);
    rank.cp_s = measured(t.cp_s);
    rank.ep_s = measured(t.ep_s);
    rank.dp_s = measured(t.dp_gather_s + t.dp_reduce_s);
    rank.pp_s = measured(t.pp_transfer_s);
    rank.host_s = measured(t.host_s);
    rank.bubble_s = measured(t.bubble_s);
    rank.straggler_wait_s = measured(t.straggler_wait_s);
    rank.alignment_wait_s = measured(t.alignment_wait_s);
    rank.data_wait_s = measured(t.data_wait_s);
    record.ranks.push_back(rank);
  }
  for (int node = 0; node < scenario.cluster->nodes; ++node) {
    // Links that are well lose a packet now and then.
    record.nodes.push_back(
        {node, 1e-5 * Uniform(seed, Draw::kCounters, static_cast<std::uint64_t>(node))});
  }
  return record;
}

std::vector<LabelledStep> DrawFaults(const JsonDocument& document, InputCache* cache, int each,
                                     std::uint64_t seed) {
  constexpr double kMeasurementCv = 0.005;
  constexpr double kLeastEffect = 0.005;
  const Scenario base = ReadScenario(document, cache);
  const double healthy_s = *SimulateStep(base, 0, 0, 0).step_time_s;
  const std::vector<std::pair<std::string, int>> nics = NicsOf(*base.cluster);
  const bool can_align = base.sample.cross_modal_tokens > 0 && base.cluster->GpuCount() > 1;
  std::uint64_t drawn = 0;
  std::vector<LabelledStep> out;
  for (int cause = 0; cause < kRootCauses; ++cause) {
    const auto truth = static_cast<RootCause>(cause);
    const bool link = truth == RootCause::kSickLink || truth == RootCause::kRetransmissions;
    if ((link && nics.empty()) || (truth == RootCause::kMisalignment && !can_align)) continue;
    for (int i = 0; i < each; ++i, ++drawn) {
      const double severity = Uniform(seed, Draw::kSeverity, drawn);
      const double where = Uniform(seed, Draw::kPlace, drawn);
      const auto among = [where](std::size_t count) {
        return std::min(static_cast<std::size_t>(where * static_cast<double>(count)), count - 1);
      };
      Drawn d;
      switch (truth) {
        case RootCause::kNone:
          d.fault = "none";
          break;
        case RootCause::kSlowGpu: {
          const double slowdown = 1.05 + 0.95 * severity;
          d.place = static_cast<int>(among(static_cast<std::size_t>(base.cluster->GpuCount())));
          d.set = "faults=[{\"gpus\": [" + std::to_string(d.place) +
                  "], \"slowdown\": " + Json(slowdown).Dump() + "}]";
          d.fault = "GPU " + std::to_string(d.place) + " × " + Short(slowdown);
          break;
        }
        case RootCause::kSickLink:
        case RootCause::kRetransmissions: {
          const auto& [name, node] = nics[among(nics.size())];
          const bool resends = truth == RootCause::kRetransmissions;
          const double value = resends ? 0.03 + 0.37 * severity : 0.1 + 0.6 * severity;
          d.place = node;
          d.resent = resends ? value : 0;
          d.set = "faults=[{\"nics\": [\"" + name + "\"], \"" +
                  (resends ? "retransmission_rate" : "factor") + "\": " + Json(value).Dump() + "}]";
          d.fault = name + (resends ? " resends " : " at ") + Short(value);
          break;
        }
        case RootCause::kDataStall:
          d.stall_share = 0.02 + 0.48 * severity;
          d.fault = "data comes late by " + Short(d.stall_share) + " of the step";
          break;
        case RootCause::kMisalignment:
          d.set = "what_if.align_ratio=" + Json(0.7 * severity).Dump();
          d.fault = "MAR " + Short(0.7 * severity);
          break;
        case RootCause::kMoreWork: {
          const double factor = 1.1 + 0.9 * severity;
          d.set = "workload.text_tokens=" +
                  std::to_string(std::llround(factor * static_cast<double>(std::max<std::int64_t>(
                                                           base.workload.text_tokens, 64))));
          d.fault = "text × " + Short(factor);
          break;
        }
      }
      const Scenario now = ReadScenario(With(document, d.set), cache);
      LabelledStep step;
      step.truth = truth;
      step.place = d.place;
      step.fault = d.fault;
      step.healthy = SimulateStep(base, 0, kMeasurementCv, seed ^ (2 * drawn + 1));
      step.now =
          SimulateStep(now, d.stall_share * healthy_s, kMeasurementCv, seed ^ (2 * drawn + 2));
      if (d.resent > 0)
        step.now.nodes[static_cast<std::size_t>(d.place)].retransmitted_share = d.resent;
      const double exact = *SimulateStep(now, d.stall_share * healthy_s, 0, 0).step_time_s;
      if (exact < healthy_s * (1 + kLeastEffect)) {
        step.truth = RootCause::kNone;
        step.place = -1;
        step.fault += " (hidden)";
      }
      out.push_back(std::move(step));
    }
  }
  return out;
}

CauseScore ScoreCauses(const std::vector<LabelledStep>& steps, const CauseRules& rules) {
  CauseScore score;
  for (const LabelledStep& step : steps) {
    const Diagnosis d = Diagnose(step.healthy, step.now, rules);
    ++score.steps;
    ++score.confusion[static_cast<std::size_t>(step.truth)][static_cast<std::size_t>(d.cause)];
    if (d.cause != step.truth) continue;
    ++score.right;
    if (step.place < 0) continue;
    const std::vector<int>& suspects = d.cause == RootCause::kSlowGpu ? d.ranks : d.nodes;
    ++score.placed;
    score.suspects += static_cast<double>(suspects.size());
    if (std::find(suspects.begin(), suspects.end(), step.place) != suspects.end())
      ++score.place_named;
  }
  if (score.placed > 0) score.suspects /= score.placed;
  return score;
}

CauseRules FitCauseRules(const std::vector<LabelledStep>& steps) {
  std::vector<CauseRules> best;
  int most = -1;
  for (int i = 1; i <= 12; ++i) {
    for (int j = 2; j <= 18; ++j) {
      CauseRules rules;
      rules.least_excess = 0.0025 * i;
      rules.explains = 0.05 * j;
      const int right = ScoreCauses(steps, rules).right;
      if (right > most) best.clear();
      if (right >= most) best.push_back(rules);
      most = std::max(most, right);
    }
  }
  return best[best.size() / 2];
}

const std::vector<std::string>& CauseFitScenarios() {
  static const std::vector<std::string> kFiles = {"scenarios/llava-1.6-7b-finetune-8xa100.json",
                                                  "scenarios/qwen2.5-vl-72b-64xh100.json"};
  return kFiles;
}

const std::vector<std::string>& CauseScoreScenarios() {
  static const std::vector<std::string> kFiles = {
      "scenarios/gpt-3-175b-64xa100.json", "scenarios/qwen-vl-finetune-8xa100.json",
      "scenarios/clip-vit-l-14-4x4090.json", "scenarios/articles/b20-llava-13b-32xa100.json"};
  return kFiles;
}

}  // namespace aurum
