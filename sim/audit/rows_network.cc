#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "sim/audit/rows.h"
#include "sim/collectives/steps.h"
#include "sim/study/decide.h"
#include "sim/study/hops.h"
#include "sim/study/pipeline_cut.h"

// Rows A8, A12, A13, A15 and A17: collectives, split axes, pipeline cuts, expert parallelism.
namespace aurum {
namespace {

std::string Text(double value, int digits = 4) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

// Collectives inside of one module's layers, over their time and that of its kernels, on the busiest
// class; both ways of one micro-batch, nothing hidden.
double CollectiveShare(const Evaluation& e, std::size_t module) {
  const ModuleShare& share =
      e.program.classes[static_cast<std::size_t>(e.outcome.busiest_class)].modules[module];
  const double kernels = share.forward_s + share.backward_s;
  return share.tp_s / (share.tp_s + kernels);
}

// Mean seconds of an expert all-to-all of the step, one after another.
struct Exchanges {
  double mean_s = 0, total_s = 0, bytes = 0;
  int count = 0;
};
Exchanges ExchangesOf(const Evaluation& e) {
  Exchanges found;
  const std::uint32_t first = static_cast<std::uint32_t>(e.outcome.busiest_class);
  for (OpId op = 0; op < e.program.graph.op_count(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.kind != OpKind::kExpertCollective || info.lane != Lane::kEp || info.bytes <= 0 ||
        info.rank_class != first)
      continue;
    ++found.count;
    found.bytes += info.bytes;
    found.total_s += Seconds(e.outcome.schedule.end[op] - e.outcome.schedule.start[op]);
  }
  if (found.count > 0) found.mean_s = found.total_s / found.count;
  return found;
}

Decision DecisionOf(const AuditInput& in, const std::string& what) {
  const JsonDocument document = in.context.Document(in.claim.scenario);
  if (what == "cut") return DecideCut(document, in.context.cache(), {});
  const Scenario scenario = ReadScenario(document, in.context.cache());
  return Decide(what, what == "split" ? SplitAlternatives(scenario) : ExpertAlternatives(scenario),
                document, in.context.cache(), {});
}

// The place of the first alternative whose name has `part`, from 1; 0 if it is no plan.
int PlaceOf(const Decision& decision, const std::string& part) {
  for (std::size_t i = 0; i < decision.alternatives.size(); ++i) {
    const Alternative& a = decision.alternatives[i];
    if (a.name.find(part) != std::string::npos) return a.refused ? 0 : static_cast<int>(i) + 1;
  }
  return 0;
}
const Alternative* Find(const Decision& decision, const std::string& part) {
  const int place = PlaceOf(decision, part);
  return place == 0 ? nullptr : &decision.alternatives[static_cast<std::size_t>(place) - 1];
}

// --- A8: gradients ---------------------------------------------------------------------------------

// The published loop on small whole numbers: rank r holds r + 1 in every element. What each rank's
// buffers hold afterwards is compared with the sum that an all-reduce would leave.
Recomputed SumsOfGathers(const AuditInput& in) {
  const int ranks = static_cast<int>(in.Given("ranks"));
  const int stages = static_cast<int>(in.Given("stages"));
  const int elements = stages * static_cast<int>(in.Given("elements_per_stage"));
  const int sum = ranks * (ranks + 1) / 2;
  int right = 0, all = 0;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<int> buffer;  // an all-gather: every rank's chunk, one behind the other
    for (int rank = 0; rank < ranks; ++rank) {
      for (int i = stage; i < elements; i += stages) buffer.push_back(rank + 1);
    }
    for (const int value : buffer) right += value == sum ? 1 : 0;
    all += static_cast<int>(buffer.size());
  }
  Recomputed r;
  r.value = static_cast<double>(right) / all;
  r.formula = Text(right) + " of " + Text(all) + " gathered elements are the sum of " +
              Text(ranks) + " ranks";
  r.remark =
      "a gather collects what every rank has and adds nothing up; a reduction has to follow or "
      "come first. What does reduce in pieces is a reduce-scatter and an all-gather: sharding = "
      "zero1, with plan.collectives.data_parallel = pipelined for the gather";
  return r;
}

Recomputed BytesOfGathers(const AuditInput& in) {
  const int n = static_cast<int>(in.Given("ranks"));
  // Every rank's whole gradient to every rank, in nccl-tests' convention n·G bytes gathered.
  const double gather = BusFactor(CollectiveKind::kAllGather, n) * n;
  const double reduce = BusFactor(CollectiveKind::kAllReduce, n);
  Recomputed r;
  r.value = gather / reduce;
  r.formula = "(n − 1) / (2 (n − 1)/n) = n/2 with n = " + Text(n);
  r.remark =
      "whole gradients that are gathered to be added up afterwards put n/2 times the bytes of an "
      "all-reduce on every link, however finely they are cut";
  return r;
}

Recomputed BandwidthExplainsTail(const AuditInput& in) {
  Recomputed r;
  r.value = in.Given("busy_after") / in.Given("busy_before");
  r.formula = Text(in.Given("busy_after")) + " / " + Text(in.Given("busy_before"));
  r.remark =
      "for equal bytes, bandwidth alone explains a time shorter by this factor; the tail is told "
      "to "
      "have shrunk by " +
      Text(in.Given("tail_before") / in.Given("tail_after"), 3) +
      ". The rest would be overlap, jitter, or fewer bytes, none of which the figures tell apart";
  return r;
}

Recomputed GradientSizes(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const RankClass& c = e.program.classes[static_cast<std::size_t>(e.outcome.busiest_class)];
  const double vision = c.modules.front().parameters, text = c.modules.back().parameters;
  Recomputed r;
  r.value = text / vision;
  r.formula = Text(text / 1e9) + "e9 / " + Text(vision / 1e9) + "e9 parameters";
  r.remark =
      "[128, 768] and [2048, 4096] are shapes of activations; gradients have the shapes of "
      "weights, and their ratio is that of the modules' parameters";
  return r;
}

Recomputed SyncUtilisation(const AuditInput& in, const std::vector<std::string>& set) {
  const Evaluation& e = in.Run(set);
  Recomputed r;
  r.value = 100 * e.sync.UtilisationWhileBusy();
  r.formula = Text(e.sync.bytes / 1e9) + " GB in " + Text(static_cast<double>(e.sync.collectives)) +
              " collectives: " + Text(e.sync.wire_s * 1e3) + " ms at the links' rate over " +
              Text(e.sync.busy_s * 1e3) + " ms busy; window " + Text(e.sync.window_s * 1e3) +
              " ms, exposed " + Text(e.sync.exposed_s * 1e3) + " ms";
  return r;
}

Recomputed AllReduceUtilisation(const AuditInput& in) {
  Recomputed r = SyncUtilisation(in, {});
  r.remark =
      "while a reduction runs, against a ring at the links' full rate; plan.bucket_mb moves it: a "
      "bucket of 1 MB is mostly latency, one of 100 MB mostly bytes";
  return r;
}

Recomputed ChunkedUtilisation(const AuditInput& in) {
  const std::string bucket = "plan.bucket_mb=" + Text(in.Given("bucket_mb"), 10);
  Recomputed r = SyncUtilisation(in, {bucket});
  r.remark =
      "the same all-reduce in pieces of " + Text(in.Given("bucket_mb")) +
      " MB. Every piece pays the latency of a ring: finer pieces fill links less, not more, unless "
      "something else was idle before";
  return r;
}
// Reduce-scatter and a pipelined all-gather in the place of an all-reduce.
std::vector<std::string> Pipelined() {
  return {"plan.sharding=zero1", "plan.collectives.data_parallel=pipelined"};
}

// What compute waits for.
Recomputed PipelinedExposure(const AuditInput& in) {
  const Evaluation& whole = in.Run();
  const Evaluation& parts = in.Run(Pipelined());
  Recomputed r;
  r.value = whole.sync.exposed_s / parts.sync.exposed_s;
  r.formula = Text(whole.sync.exposed_s * 1e3) + " ms of all-reduce are waited for, " +
              Text(parts.sync.exposed_s * 1e3) + " ms of reduce-scatter and pipelined all-gather";
  r.remark =
      "what is gathered are parameters, for the next forward, which hides most of it: the same "
      "bytes in all, a shorter wait";
  return r;
}

Recomputed SyncTail(const AuditInput& in) {
  const Evaluation& whole = in.Run();
  const Evaluation& parts = in.Run(Pipelined());
  const double before = whole.varied->SyncQuantile(0.99), after = parts.varied->SyncQuantile(0.99);
  Recomputed r;
  r.value = before / after;
  r.formula = "p99 " + Text(before * 1e3) + " ms of all-reduces, " + Text(after * 1e3) +
              " ms with reduce-scatters and pipelined all-gathers, over " +
              Text(static_cast<double>(whole.varied->sync_s.size())) + " drawn steps each";
  r.remark =
      "from a step's first reduction to its last; its tail is " +
      Text(before / whole.varied->SyncQuantile(0.5)) +
      " times its median, for the deviations of many transfers average out, so that jitter is "
      "no large part of it";
  return r;
}

// --- A12: the axis of a split ----------------------------------------------------------------------

Recomputed VisionShare(const AuditInput& in) {
  const Evaluation& e = in.Run();
  Recomputed r;
  r.value = 100 * CollectiveShare(e, 0);
  r.formula = "all-to-alls / (all-to-alls + kernels) of the tower, forward and backward, tp " +
              Text(e.scenario.plan.modules[0].tp);
  r.remark =
      "per layer, four streams of S/T bytes are exchanged where a split by heads reduces two "
      "of S: a T-th of its bytes";
  return r;
}
Recomputed LanguageShare(const AuditInput& in) {
  const Evaluation& e = in.Run();
  Recomputed r;
  r.value = 100 * CollectiveShare(e, e.scenario.model->modules.size() - 1);
  r.formula = "collectives / (collectives + kernels) of the backbone, forward and backward, tp " +
              Text(e.scenario.plan.tp);
  return r;
}

Recomputed TokensDivide(const AuditInput& in) {
  const int tokens = static_cast<int>(in.Given("tokens")),
            heads = static_cast<int>(in.Given("heads"));
  const int most = static_cast<int>(in.Given("gpus"));
  int best = 1;
  std::string works;
  for (int tp = 1; tp <= tokens; ++tp) {
    if (tokens % tp != 0) continue;
    works += (works.empty() ? "" : ", ") + Text(tp);
    if (tp <= most && heads % tp == 0) best = tp;
  }
  Recomputed r;
  r.value = best;
  r.formula = Text(tokens) + " tokens: " + works + "; of these at most " + Text(most) +
              " and a divisor of " + Text(heads) + " heads: " + Text(best);
  r.remark = "either the sequence is padded to " + Text((tokens + most - 1) / most * most) +
             ", or " + Text(best) + " GPUs share it, or whole images are dealt out";
  return r;
}
Recomputed RefusedDegree(const AuditInput& in) {
  const std::string tp = Text(in.Given("tp"));
  Recomputed r;
  const int code =
      in.context.Refusal(in.claim.scenario, {"plan.backbone.tp=" + tp, "plan.vision.tp=" + tp});
  r.value = code == 0 ? 1 : 0;
  r.formula = code == 0 ? "the plan runs with tp = " + tp
                        : "tp = " + tp + " is refused with E0" + Text(code);
  return r;
}

// Below this share of a step, two are as fast (aurum decide).
constexpr double kAsFast = 5e-4;

Recomputed TokensBest(const AuditInput& in) {
  const Decision decision = DecisionOf(in, "split");
  Recomputed r;
  // Places are counted as aurum decide tells them: what is as fast shares one.
  const Alternative* own = Find(decision, "tokens");
  r.value = own == nullptr ? 0 : 1;
  for (const Alternative& a : decision.alternatives) {
    if (own != nullptr && !a.refused && 1 - a.step_s / own->step_s >= kAsFast) r.value += 1;
  }
  for (const Alternative& a : decision.alternatives) {
    r.formula += (r.formula.empty() ? "" : "; ") + a.name + " " +
                 (a.refused ? "refused" : Text(a.step_s * 1e3) + " ms");
  }
  r.remark = "ranked by simulated step time (aurum decide split). " + decision.reason;
  return r;
}

Recomputed WholeVector(const AuditInput& in) {
  const double hidden = in.Given("hidden"), tp = in.Given("tp");
  Recomputed r;
  r.value = hidden / tp;
  r.formula =
      Text(hidden) + " / " + Text(tp) + " channels of each token on a GPU inside of a layer";
  r.remark =
      "splitting the embedding axis is what cuts a token's vector; splitting the token axis "
      "leaves it whole. The published text has the two the wrong way round. Real tensor "
      "parallelism cuts weights and heads, and sums up behind them";
  return r;
}

// --- A13: cuts of a pipeline -----------------------------------------------------------------------

Recomputed ArgmaxIndex(const AuditInput& in) {
  std::vector<double> latency;
  for (int i = 0; i < 5; ++i) latency.push_back(in.Given("latency_us_" + std::to_string(i)) * 1e-6);
  const Breakpoint at = BestBreakpoint(CutScores(latency, {}));
  Recomputed r;
  r.value = at.published;
  r.formula = "argmax over scores[1 … n − 2] counts from 0: " + Text(at.published) +
              "; with its index right: " + Text(at.repaired);
  r.remark =
      "the list of scores begins at stage 1, so argmax is one less than the stage; the last "
      "stage is never scored";
  return r;
}

Recomputed VarianceAvoided(const AuditInput& in) {
  // Cuts by variance and by throughput: concordant pairs less discordant, over all (Kendall's tau).
  const double rho[] = {in.Given("rho_text"), in.Given("rho_fusion"), in.Given("rho_head")};
  const double rate[] = {in.Given("rate_text"), in.Given("rate_fusion"), in.Given("rate_head")};
  int agree = 0, pairs = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = i + 1; j < 3; ++j, ++pairs)
      agree += (rho[i] - rho[j]) * (rate[i] - rate[j]) > 0 ? 1 : -1;
  }
  Recomputed r;
  r.value = static_cast<double>(agree) / pairs;
  r.formula = "Kendall's tau of variance and throughput over three cuts: " + Text(agree) + " / " +
              Text(pairs);
  r.remark =
      "the rule is told to avoid cuts of high gradient variance; its own table is fastest at "
      "the highest, in exactly that order";
  return r;
}

Recomputed PassesPerSequence(const AuditInput& in) {
  const double seconds = 1 / in.Given("rate_text") - 1 / in.Given("rate_fusion");
  const double tau = (in.Given("tau_text_us") - in.Given("tau_fusion_us")) * 1e-6;
  Recomputed r;
  r.value = seconds / tau;
  r.formula = "(1/" + Text(in.Given("rate_text")) + " − 1/" + Text(in.Given("rate_fusion")) +
              ") s / " + Text(tau * 1e6) + " µs = " + Text(seconds * 1e3) + " ms / " +
              Text(tau * 1e6) + " µs";
  r.remark =
      "if the difference of latencies between neighbouring stages made the throughput, a "
      "sequence would have to pass it this many times";
  return r;
}

Recomputed ScoreAgainstSearch(const AuditInput& in) {
  const Decision decision = DecisionOf(in, "cut");
  const Alternative* score = Find(decision, "index right");
  Recomputed r;
  if (score == nullptr || decision.alternatives.front().refused) {
    r.verdict = Verdict::kUndefined;
    r.formula = "the score's cut is no plan";
    return r;
  }
  r.value = score->samples_per_s / decision.alternatives.front().samples_per_s;
  for (const Alternative& a : decision.alternatives) {
    r.formula += (r.formula.empty() ? "" : "; ") + a.name + " " +
                 (a.refused ? "refused" : Text(a.samples_per_s) + "/s");
  }
  r.remark =
      "the score likes a light layer, wherever it stands; a pipeline wants stages that take "
      "the same time. " +
      decision.reason;
  return r;
}

// --- A15: expert parallelism -----------------------------------------------------------------------

Recomputed ExpertFormula(const AuditInput& in) {
  const double numerator = in.Given("gpus_per_node") * in.Given("nvlink_gb_per_s");
  const double denominator = in.Given("infiniband") + in.Given("constant");
  Recomputed r;
  r.value = std::max(1.0, std::floor(numerator / denominator));
  r.formula = "max(1, ⌊" + Text(numerator) + " / " + Text(denominator) + "⌋)";
  r.remark =
      "nothing in it knows the model, its experts or its tokens; 600 GB/s is one GPU's, both "
      "ways together; 200 is the Gbit/s of one of eight ports (25 GB/s); 150 has no unit";
  return r;
}
Recomputed ExpertFormulaInUnits(const AuditInput& in) {
  const double infiniband = in.Given("infiniband_gbit_per_s") / 8;
  const double numerator = in.Given("gpus_per_node") * in.Given("nvlink_gb_per_s");
  Recomputed r;
  r.value = std::max(1.0, std::floor(numerator / (infiniband + in.Given("constant"))));
  r.formula = "⌊" + Text(numerator) + " / (" + Text(infiniband) + " + " +
              Text(in.Given("constant")) + ")⌋ with both rates in GB/s";
  return r;
}
Recomputed ExpertDivisor(const AuditInput& in) {
  const Scenario s = in.context.Read(in.claim.scenario);
  int experts = 0;
  for (const LayerRun& run : s.model->Backbone().runs)
    experts = std::max(experts, run.layer.mlp.experts);
  const int raw = static_cast<int>(ExpertFormula(in).value);
  const int width = s.plan.tp * s.plan.cp * s.plan.dp;
  int divisor = 1;
  for (int e = 1; e <= raw; ++e) {
    if (experts % e == 0 && width % e == 0) divisor = e;
  }
  Recomputed r;
  r.value = divisor;
  const int refusal = in.context.Refusal(in.claim.scenario,
                                         {"plan." + s.model->Backbone().name + ".ep=" + Text(raw)});
  r.formula = "the largest size up to " + Text(raw) + " that divides " + Text(experts) +
              " experts and " + Text(width) + " GPUs" +
              (refusal != 0 ? "; " + Text(raw) + " itself is refused with E0" + Text(refusal) : "");
  return r;
}
Recomputed ExpertBest(const AuditInput& in) {
  const Decision decision = DecisionOf(in, "experts");
  const Alternative& best = decision.alternatives.front();
  Recomputed r;
  r.value = std::atof(best.name.substr(3).c_str());
  for (const Alternative& a : decision.alternatives) {
    if (a.refused) continue;
    r.formula += (r.formula.empty() ? "" : "; ") + a.name + " " + Text(a.step_s) + " s, " +
                 Text(a.peak_bytes / (1 << 30), 3) + " GiB" +
                 (a.verdict == Fit::kDoesNotFit ? " (does not fit)" : "");
  }
  r.remark = "by simulation of every size (aurum decide experts). " + decision.reason;
  return r;
}
Recomputed ExpertGain(const AuditInput& in) {
  const std::string backbone =
      "plan." + in.context.Read(in.claim.scenario).model->Backbone().name + ".ep=";
  const double before = in.Run({backbone + Text(in.Given("from"))}).StepSeconds();
  const double after = in.Run({backbone + Text(in.Given("to"))}).StepSeconds();
  Recomputed r;
  r.value = 100 * (before / after - 1);
  r.formula = Text(before) + " s / " + Text(after) + " s − 1";
  r.remark =
      "twice the expert-parallel size leaves every GPU as many tokens and half the experts: "
      "what changes is the all-to-all's width, the experts' matrices and the memory";
  return r;
}
Recomputed ExpertExchange(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const Exchanges all = ExchangesOf(e);
  Recomputed r;
  r.value = all.total_s * 1e3;
  r.formula = Text(all.count) + " all-to-alls of " +
              Text(all.bytes / std::max(all.count, 1) / 1e6) + " MB, " + Text(all.mean_s * 1e3) +
              " ms each";
  r.remark =
      "two forward and two backward in every layer and micro-batch, and two more where the "
      "layer is recomputed: " +
      Text(in.claim.claimed) + " ms is the order of a few single ones, not of a step's";
  return r;
}
Recomputed BufferGain(const AuditInput& in) {
  const Evaluation& base = in.Run();
  const std::string key = "plan." + base.scenario.model->Backbone().name + ".expert_buffer_mb=";
  const double small = ExchangesOf(in.Run({key + Text(in.Given("from_mb"))})).mean_s;
  const double large = ExchangesOf(in.Run({key + Text(in.Given("to_mb"))})).mean_s;
  Recomputed r;
  r.value = 100 * (large / small - 1);
  r.formula = Text(large * 1e3) + " ms / " + Text(small * 1e3) + " ms − 1, an all-to-all of " +
              Text(ExchangesOf(base).bytes / std::max(ExchangesOf(base).count, 1) / 1e6) + " MB";
  // t(B) = c/B + s gives 1 − t(nB)/t(B) = fixed · (1 − 1/n).
  const double n = in.Given("to_mb") / in.Given("from_mb");
  r.remark =
      "t = pieces · latency + bytes/bandwidth with the cluster's own latency. The told gain "
      "would need " +
      Text(-in.claim.claimed / (1 - 1 / n), 3) + " % of a piece of " + Text(in.Given("from_mb")) +
      " MB to be latency; here it is " + Text(-r.value / (1 - 1 / n), 3) + " %";
  return r;
}
// --- A17: all-to-all by topology -------------------------------------------------------------------

Recomputed GainOf(const AuditInput& in) {
  Recomputed r;
  r.value = 100 * (in.Given("after") / in.Given("before") - 1);
  r.formula = Text(in.Given("after")) + " / " + Text(in.Given("before")) + " − 1";
  return r;
}
Recomputed TitleGain(const AuditInput& in) {
  Recomputed r = GainOf(in);
  r.remark = "in points it is " + Text(in.Given("after") - in.Given("before")) +
             "; the title's figure is neither";
  return r;
}
// Amdahl: a step whose share f runs s times as fast gains 1/(1 − f + f/s).
Recomputed AmdahlsGain(const AuditInput& in) {
  const double s = in.Given("link_after") / in.Given("link_before");
  const double g = in.Given("rate_after") / in.Given("rate_before");
  const Evaluation& e = in.Run();
  const double f = ExchangesOf(e).total_s / e.StepSeconds();
  Recomputed r;
  r.value = 100 * (1 / (1 - f + f / s) - 1);
  r.formula = "1 / (1 − f + f/" + Text(s) + ") − 1 with f = " + Text(100 * f) +
              " %, what all-to-alls are of the simulated step; the told gain wants f = " +
              Text(100 * (1 - 1 / g) / (1 - 1 / s)) + " %";
  r.remark =
      "tokens per second rise as much as links are used better only if the step is nothing but "
      "all-to-all; with compute in it, the gain is smaller by its share";
  return r;
}
Recomputed SimulatedShare(const AuditInput& in) {
  const Evaluation& e = in.Run();
  Recomputed r;
  r.value = 100 * ExchangesOf(e).total_s / e.StepSeconds();
  r.formula = Text(ExchangesOf(e).total_s) + " s of all-to-all in a step of " +
              Text(e.StepSeconds()) + " s";
  return r;
}
// Two levels against straight; with what Amdahl makes of the all-to-alls' own gain.
Recomputed GainOfLevels(const AuditInput& in) {
  const Evaluation& direct = in.Run({"plan.collectives.expert_parallel=direct"});
  const Evaluation& levels = in.Run({"plan.collectives.expert_parallel=hierarchical"});
  const double s = ExchangesOf(direct).total_s / ExchangesOf(levels).total_s;
  const double f = ExchangesOf(direct).total_s / direct.StepSeconds();
  Recomputed r;
  r.value = 100 * (direct.StepSeconds() / levels.StepSeconds() - 1);
  r.formula = "all-to-alls × " + Text(s) + " as fast, " + Text(100 * f) +
              " % of the step: Amdahl allows " + Text(100 * (1 / (1 - f + f / s) - 1)) + " %";
  return r;
}
Recomputed SimulatedGain(const AuditInput& in) {
  Recomputed r = GainOfLevels(in);
  r.remark =
      "on rails whose traffic already goes over NVLink to the right NIC (PXN, the default since "
      "NCCL "
      "2.12), the way inside first costs its own time and saves messages, not bytes";
  return r;
}
Recomputed SimulatedGainOfDefault(const AuditInput& in) {
  Recomputed r = GainOfLevels(in);
  r.remark =
      "traffic that ignores the rails crosses spines, which carry all of it here: every NIC sends "
      "as "
      "many bytes as before. Two levels gain where spines are thin";
  return r;
}
Recomputed SimulatedGainOfThin(const AuditInput& in) {
  Recomputed r = GainOfLevels(in);
  r.remark =
      "behind spines with half the uplinks, going inside of the node first keeps traffic on its "
      "rail. "
      "This is where a gain of the told size can come from, and it is the fabric's as much as the "
      "schedule's";
  return r;
}
// What leaves the node, at the NICs' own rate, over the time that all-to-alls take.
Recomputed NetworkUse(const AuditInput& in, const char* algorithm) {
  const Evaluation& e = in.Run({std::string("plan.collectives.expert_parallel=") + algorithm});
  const Exchanges all = ExchangesOf(e);
  const double ep = e.scenario.plan.ep, node = e.scenario.cluster->gpus_per_node;
  const double outside = all.bytes * std::max(0.0, ep - node) / ep;
  const double rate = e.scenario.cluster->NetworkBandwidthPerGpu();
  Recomputed r;
  r.value = 100 * outside / rate / all.total_s;
  r.formula = Text(outside / 1e9) + " GB out of the node at " + Text(rate / 1e9) + " GB/s over " +
              Text(all.total_s) + " s of " + algorithm + " all-to-alls";
  return r;
}
Recomputed DefaultUse(const AuditInput& in) { return NetworkUse(in, "direct"); }
Recomputed AwareUse(const AuditInput& in) { return NetworkUse(in, "hierarchical"); }
Recomputed HopRule(const AuditInput& in) {
  const Scenario s = in.context.Read(in.claim.scenario);
  std::vector<int> node(static_cast<std::size_t>(s.cluster->gpus_per_node));
  std::iota(node.begin(), node.end(), 0);
  const HopCensus census = CountHops(*s.cluster, node, static_cast<int>(in.Given("most_devices")));
  Recomputed r;
  r.value = 100.0 * census.within / census.pairs;
  std::string lengths;
  for (std::size_t d = 0; d < census.by_devices.size(); ++d) {
    if (census.by_devices[d] > 0)
      lengths +=
          ", " + Text(census.by_devices[d]) + " of " + Text(static_cast<double>(d)) + " devices";
  }
  r.formula = Text(census.within) + " of " + Text(census.pairs) +
              " pairs of a node pass len(path) ≤ " + Text(in.Given("most_devices")) + lengths;
  r.remark =
      "a path lists both ends: two is a direct link alone, and behind an NVSwitch every pair is "
      "three. The rule's group stays empty on the machines that the text is about";
  return r;
}
Recomputed SharedMemoryPairs(const AuditInput& in) {
  const Scenario s = in.context.Read(in.claim.scenario);
  std::vector<int> node(static_cast<std::size_t>(s.cluster->gpus_per_node));
  std::iota(node.begin(), node.end(), 0);
  const HopCensus census = CountHops(*s.cluster, node, 2);
  Recomputed r;
  r.value = 100.0 * census.through_cpu / census.pairs;
  r.formula = Text(census.through_cpu) + " of " + Text(census.pairs) + " pairs pass a CPU; " +
              Text(census.gpu_links) + " go over NVLink alone";
  r.remark =
      "NCCL_SHM_DISABLE=1 takes away the way over shared host memory. Where every pair has "
      "NVLink nobody takes it, and the switch changes nothing; where it is the only one, "
      "traffic goes over the network instead";
  return r;
}
Recomputed WithoutNvLink(const AuditInput& in) {
  const std::string ep = "plan." + in.context.Read(in.claim.scenario).model->Backbone().name +
                         ".ep=" + Text(in.Given("ep"));
  const Evaluation& with = in.Run({ep});
  const Evaluation& without =
      in.Run({ep, "what_if.nvlink_factor=" + Text(in.Given("nvlink_factor"), 6)});
  const double before = ExchangesOf(with).total_s, after = ExchangesOf(without).total_s;
  Recomputed r;
  r.value = 100 * (1 - before / after);
  r.formula = "all-to-alls of " + Text(in.Given("ep")) + " GPUs " + Text(before) +
              " s, with NVLink at PCIe's rate " + Text(after) + " s";
  r.remark =
      "what a node's all-to-all would lose of its bandwidth if all of it went over PCIe; how much "
      "does is not told, and where every pair has NVLink nothing does. Between nodes the NICs are "
      "the narrower way in any case";
  return r;
}

}  // namespace

void AddNetworkRows(Computations* to) {
  Computations& all = *to;
  all["A8.sum"] = SumsOfGathers;
  all["A8.bytes"] = BytesOfGathers;
  all["A8.bandwidth"] = BandwidthExplainsTail;
  all["A8.sizes"] = GradientSizes;
  all["A8.all_reduce"] = AllReduceUtilisation;
  all["A8.chunks"] = ChunkedUtilisation;
  all["A8.exposed"] = PipelinedExposure;
  all["A8.tail"] = SyncTail;
  all["A12.vit_share"] = VisionShare;
  all["A12.llm_share"] = LanguageShare;
  all["A12.divisible"] = TokensDivide;
  all["A12.eight"] = RefusedDegree;
  all["A12.axis"] = TokensBest;
  all["A12.vector"] = WholeVector;
  all["A13.index"] = ArgmaxIndex;
  all["A13.variance"] = VarianceAvoided;
  all["A13.passes"] = PassesPerSequence;
  all["A13.score"] = ScoreAgainstSearch;
  all["A15.formula"] = ExpertFormula;
  all["A15.units"] = ExpertFormulaInUnits;
  all["A15.divisor"] = ExpertDivisor;
  all["A15.best"] = ExpertBest;
  all["A15.gain"] = ExpertGain;
  all["A15.exchange"] = ExpertExchange;
  all["A15.buffer"] = BufferGain;
  all["A17.title"] = TitleGain;
  all["A17.rate"] = GainOf;
  all["A17.amdahl"] = AmdahlsGain;
  all["A17.share"] = SimulatedShare;
  all["A17.simulated"] = SimulatedGain;
  all["A17.simulated_default"] = SimulatedGainOfDefault;
  all["A17.simulated_thin"] = SimulatedGainOfThin;
  all["A17.default_use"] = DefaultUse;
  all["A17.aware_use"] = AwareUse;
  all["A17.hops"] = HopRule;
  all["A17.shared_memory"] = SharedMemoryPairs;
  all["A17.detour"] = WithoutNvLink;
}

}  // namespace aurum
