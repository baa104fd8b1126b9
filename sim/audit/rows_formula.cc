#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sim/audit/rows.h"
#include "sim/core/units.h"

// The golden formula, its terms, FLOPs per token and alignment: rows A1, A6, A7, A9, A11.
namespace aurum {
namespace {

Recomputed Plain(double value, std::string formula, std::string remark = "") {
  Recomputed out;
  out.value = value;
  out.formula = std::move(formula);
  out.remark = std::move(remark);
  return out;
}

std::size_t ModuleNamed(const Evaluation& e, const std::string& name) {
  const std::vector<Module>& modules = e.scenario.model->modules;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (modules[i].name == name) return i;
  }
  return 0;
}

// A1 --------------------------------------------------------------------------------------------

// Formula against simulation, %, nothing hidden and the penalty in full.
Recomputed Gap(const AuditInput& in, Combine combine, FlopsReading reading) {
  const Evaluation& e = in.Run();
  const double formula = GoldenSeconds(e.golden, combine, 1, 1, reading);
  Recomputed out;
  out.value = (formula / e.StepSeconds() - 1) * 100;
  out.formula = CombineName(combine) + "_k[F/B + G/C + Comm] + P_align = " + Show(formula) +
                " s / simulated " + Show(e.StepSeconds()) + " s - 1";
  return out;
}

Recomputed MaxGap(const AuditInput& in) {
  Recomputed out = Gap(in, Combine::kMax, FlopsReading::kTrain);
  out.remark =
      "the encoder feeds the backbone on the same GPUs, so that their times add up and do not "
      "compete; aurum formula --boundary says over which range each reading holds";
  return out;
}

Recomputed ForwardGap(const AuditInput& in) {
  Recomputed out = Gap(in, Combine::kMax, FlopsReading::kForward);
  const Evaluation& e = in.Run();
  const GoldenTerm& backbone = e.golden.terms.back();
  out.remark = "F counts forward alone there: of the backbone " +
               Show(backbone.forward_flops / kTera) + " of " + Show(backbone.flops / kTera) +
               " TFLOP a step; backward is missing";
  return out;
}

// F over bytes a second, the article's B, is no time.
Recomputed Units(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const GoldenTerm& backbone = e.golden.terms.back();
  const double bandwidth = e.scenario.profile->device.memory_bandwidth_bytes_per_s;
  Recomputed out = Plain(backbone.flops / bandwidth,
                         Show(backbone.flops / kTera) + " TFLOP / " + Show(bandwidth / kTera) +
                             " TB/s = " + Show(backbone.flops / bandwidth) + " FLOP·s/B",
                         "FLOPs over a bandwidth are no seconds: B has to be the rate that the "
                         "kernels sustain, here " +
                             Show(backbone.rate_flops_per_s / kTera) +
                             " TFLOP/s, which makes F/B " + Show(backbone.f_over_b_s) + " s");
  out.verdict = Verdict::kUndefined;
  return out;
}

// A6 --------------------------------------------------------------------------------------------

double TokensPerSecond(const Evaluation& e, std::size_t module) {
  const double samples = static_cast<double>(e.scenario.workload.global_batch_size);
  const bool text = module + 1 == e.scenario.model->modules.size();
  const double tokens =
      text ? e.scenario.sample.backbone_tokens - e.scenario.sample.cross_modal_tokens
           : e.scenario.sample.modules[module].tokens;
  return samples * tokens / e.StepSeconds();
}

Recomputed Rate(const AuditInput& in, bool vision) {
  const Evaluation& e = in.Run();
  const std::size_t module =
      vision ? ModuleNamed(e, "vision") : e.scenario.model->modules.size() - 1;
  const double rate = TokensPerSecond(e, module);
  const double samples =
      static_cast<double>(e.scenario.workload.global_batch_size) / e.StepSeconds();
  return Plain(rate, Show(samples) + " samples/s · " + Show(rate / samples) + " tokens in a sample",
               "no model, batch or length is told; '" + e.scenario.model->name +
                   "' on these GPUs passes " + Show(rate) +
                   " tokens/s, so that the figures are no tokens a second");
}

// What the two scenarios give, one over the other.
const char kModalityPlan[] = "scenarios/articles/a6-modality-plan-32xa100.json";

Recomputed Speedup(const AuditInput& in) {
  const Evaluation& before = in.Run();
  const Evaluation& after = in.context.Run(kModalityPlan);
  const double ratio = before.StepSeconds() / after.StepSeconds();
  Recomputed out =
      Plain(ratio,
            "a step of " + Show(before.StepSeconds()) + " s data-parallel, " +
                Show(after.StepSeconds()) + " s by the plan; claimed " +
                Show(in.Given("vision_after")) + " / " + Show(in.Given("vision_before")),
            "a plan changes how long a step takes, for all tokens of it at once");
  return out;
}

Recomputed Together(const AuditInput& in) {
  const Evaluation& before = in.Run();
  const Evaluation& after = in.context.Run(kModalityPlan);
  const std::size_t vision = ModuleNamed(before, "vision");
  const std::size_t text = before.scenario.model->modules.size() - 1;
  const double v = TokensPerSecond(after, vision) / TokensPerSecond(before, vision);
  const double t = TokensPerSecond(after, text) / TokensPerSecond(before, text);
  return Plain(v / t,
               "vision ×" + Show(v) + " / text ×" + Show(t) + "; claimed (" +
                   Show(in.Given("vision_after")) + " / " + Show(in.Given("vision_before")) +
                   ") / (" + Show(in.Given("text_after")) + " / " + Show(in.Given("text_before")) +
                   ")",
               "images and text come in the same samples: their rates rise by one factor, unless "
               "the mix of data changed between the two runs");
}

Recomputed Steps(const AuditInput& in) {
  const double factor = in.Given("steps_after") / in.Given("steps_before");
  const Evaluation& before = in.Run();
  const Evaluation& after = in.context.Run(kModalityPlan);
  const double time = after.StepSeconds() * factor / before.StepSeconds();
  Recomputed out =
      Plain(100 * (1 - factor),
            "1 - " + Show(in.Given("steps_after")) + " / " + Show(in.Given("steps_before")) +
                "; with the simulated steps, time to the target × " + Show(time),
            "steps to converge depend on batch, data and learning rate; a plan that keeps them "
            "computes the same gradients. They are an input here: target.steps_factor");
  out.verdict = Verdict::kInput;
  return out;
}

// A7 --------------------------------------------------------------------------------------------

// Forward FLOPs of a module over its own tokens, and of everything over the backbone's.
double TowerFlopsPerToken(const Evaluation& e, const std::string& name) {
  const std::size_t k = ModuleNamed(e, name);
  double flops = 0;
  for (const RankClass& c : e.program.classes) flops = std::max(flops, c.modules[k].forward_flops);
  return flops / (e.scenario.sample.modules[k].tokens *
                  static_cast<double>(e.scenario.plan.micro_batch_size));
}

Recomputed TextFlops(const AuditInput& in) {
  const Evaluation& e = in.Run();
  return Plain(
      e.program.own_flops_per_token,
      "forward FLOPs of " + e.scenario.model->name + " over " +
          Show(e.scenario.sample.backbone_tokens) + " tokens",
      "two FLOPs a parameter and token, and attention: a language model of that cost would "
      "have " +
          Show(in.claim.claimed / 2) + " parameters");
}

Recomputed TowerFlops(const AuditInput& in, const char* what) {
  const Evaluation& e = in.Run();
  const std::size_t k = ModuleNamed(e, "vision");
  return Plain(TowerFlopsPerToken(e, "vision"),
               std::string("forward FLOPs of ") + e.scenario.model->name + "'s tower over its " +
                   Show(e.scenario.sample.modules[k].tokens) + " tokens",
               what);
}

Recomputed Entropy(const AuditInput& in) {
  const double bits = in.Given("bits"), flops = in.Given("flops"), r = in.Given("redundancy");
  return Plain(bits / (flops * r),
               Show(bits) + " bits / (" + Show(flops) + " FLOP · " + Show(r) + ")",
               "neither the code's own call nor the same without the redundancy gives the table's "
               "value");
}

Recomputed BitsOfTable(const AuditInput& in) {
  const double entropy = in.Given("entropy"), flops = in.Given("flops");
  return Plain(entropy * flops, Show(entropy) + " bits/FLOP · " + Show(flops) + " FLOP",
               "what the table's own columns say about a token");
}

Recomputed TextBits(const AuditInput& in) {
  Recomputed out = BitsOfTable(in);
  out.verdict = HoldsIf(out.value >= in.Given("low") && out.value <= in.Given("high"));
  out.remark = "within the range that the text gives";
  return out;
}

Recomputed Redundancy(const AuditInput& in) {
  return Plain(1 / in.Given("redundancy"), "1 / " + Show(in.Given("redundancy")));
}

Recomputed OwnTable(const AuditInput& in) {
  return Plain(
      in.Given("later_gflop") * kGiga / in.Given("flops"),
      Show(in.Given("later_gflop")) + " GFLOP in 2.5 / " + Show(in.Given("flops")) + " FLOP in 2.1",
      "the article's two tables of FLOPs per token contradict each other");
}

// A9 --------------------------------------------------------------------------------------------

Recomputed Definitions(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const double weighted = in.Given("alpha") * in.Given("cosine");
  const double confidence = in.Given("confidence") / in.Given("generated_tokens");
  const double tokens = e.alignment.ratio;
  const auto [low, high] = std::minmax({weighted, confidence, tokens});
  return Plain(high - low,
               "alpha · cosine " + Show(weighted) + ", confidence / generated tokens " +
                   Show(confidence) + ", aligned / cross-modal tokens " + Show(tokens) +
                   " (measured)",
               "three definitions under one name, of three different things; Aurum measures the "
               "last one, by the rank that makes a token and when");
}

Recomputed Gamma(const AuditInput& in) {
  const double start = std::sqrt(-std::log(in.Given("gamma_start")));
  const double end = std::sqrt(-std::log(in.Given("gamma_end")));
  Recomputed out =
      Plain(end / start, "‖Δg‖ = sqrt(-ln γ): from " + Show(start) + " to " + Show(end),
            "γ falls as the gradients of two modalities part; below the threshold they "
            "disagree more than at the start, which is no convergence");
  out.verdict = HoldsIf(out.value <= 1);
  return out;
}

// The score is alpha · cosine: raising alpha raises it, whatever the features are.
Recomputed LearntAlpha(const AuditInput& in) {
  const double start = in.Given("alpha_start"), end = in.Given("alpha_end");
  const double cosine = in.Given("cosine");
  return Plain(cosine / cosine,
               Show(end) + " · cos / (" + Show(start) + " · cos) = " + Show(end / start) +
                   " with the same features",
               "a factor that is learnt with the score that it multiplies grows by itself: the "
               "score rises and nothing is aligned better");
}

Recomputed OverTime(const AuditInput& in) {
  const auto step = [&](const char* name) {
    return in.Run({"what_if.align_ratio=" + Show(in.Given(name))}).StepSeconds();
  };
  const double before = step("mar_start"), after = step("mar_end");
  return Plain(
      (before / after - 1) * 100,
      "a step of " + Show(before) + " s at the first ratio, " + Show(after) + " s at the last",
      "misaligned tokens are a few megabytes that cross the fabric once; the step is made "
      "of matrix products");
}

// A11 -------------------------------------------------------------------------------------------

struct Generation {
  double flops = 0;  // of one micro-batch on one GPU: prompt and new tokens
  double sequences = 0;
  double prompt = 0, generated = 0;  // tokens of a sequence
  double kv_bytes_per_token = 0;
  double step_s = 0;
};

Generation GenerationOf(const Evaluation& e) {
  Generation g;
  g.sequences = static_cast<double>(e.scenario.plan.micro_batch_size);
  g.prompt = e.scenario.sample.backbone_tokens;
  g.generated = static_cast<double>(e.scenario.workload.new_tokens);
  for (const ModuleShare& share : e.program.classes.front().modules) {
    g.flops += share.forward_flops;
    g.kv_bytes_per_token += share.kv_cache_bytes / (g.sequences * (g.prompt + g.generated));
  }
  g.step_s = e.StepSeconds();
  return g;
}

Recomputed ProcessedFlops(const Evaluation& e) {
  const Generation g = GenerationOf(e);
  const double all = g.sequences * (g.prompt + g.generated);
  return Plain(g.flops / all / kGiga,
               Show(g.flops / kTera) + " TFLOP over " + Show(all) + " processed tokens; over " +
                   Show(g.sequences * g.generated) + " generated ones " +
                   Show(g.flops / (g.sequences * g.generated) / kGiga) +
                   ", forward over the prompt's alone " +
                   Show(e.program.own_flops_per_token / kGiga) + " GFLOP",
               "the definition is not told; over all processed tokens comes nearest. An image is " +
                   Show(e.scenario.sample.cross_modal_tokens) + " tokens to this model");
}

Recomputed Order(const AuditInput& in, bool highest) {
  const std::vector<std::string> models = {"llava-1.6-7b", "qwen-vl", "fuyu-8b"};
  std::vector<double> prompts, images;  // tokens
  double best = 0;
  std::size_t at = 0;
  std::string formula;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const Evaluation& e = in.Run({"model=" + models[i]});
    const Generation g = GenerationOf(e);
    prompts.push_back(g.prompt);
    images.push_back(e.scenario.sample.cross_modal_tokens);
    const double gflop = g.flops / (g.sequences * (g.prompt + g.generated)) / kGiga;
    formula += (i > 0 ? ", " : "") + models[i] + " " + Show(gflop);
    if (i == 0 || (highest ? gflop > best : gflop < best)) {
      best = gflop;
      at = i;
    }
  }
  return Plain(static_cast<double>(at + 1), formula + " GFLOP a processed token",
               "1 LLaVA-1.6, 2 Qwen-VL, 3 Fuyu: " +
                   (highest ? "a large tower for the " + Show(images[1]) + " tokens of an image"
                            : "of " + Show(prompts[0]) +
                                  " tokens of LLaVA's prompt, each costs less than one of Fuyu's " +
                                  Show(prompts[2])));
}

Recomputed CacheRate(const Evaluation& e) {
  const Generation g = GenerationOf(e);
  const double written = g.kv_bytes_per_token * g.sequences * (g.prompt + g.generated);
  Recomputed out =
      Plain(written / g.step_s / kGiga,
            Show(g.kv_bytes_per_token) + " B a token · " +
                Show(g.sequences * (g.prompt + g.generated)) + " tokens / " + Show(g.step_s) + " s",
            "keys and values that a GPU writes, the most that it could have to send; the degree of "
            "parallelism is not told, on one GPU none of them crosses a link, and the counter that "
            "is named shows NVLink in per cent of its peak, no GB/s");
  out.verdict = Verdict::kUndefined;
  return out;
}

Recomputed MeasuredConfidence(const Evaluation& e) {
  Recomputed out = Plain(e.alignment.ratio,
                         "aligned over cross-modal tokens, measured: encoder and backbone are on "
                         "the same GPU",
                         "confidence over generated tokens is a property of weights and prompts, "
                         "which no simulation of time has");
  out.verdict = Verdict::kUndefined;
  return out;
}

}  // namespace

void AddFormulaRows(Computations* to) {
  Computations& all = *to;
  all["A1.units"] = Units;
  all["A1.max"] = MaxGap;
  all["A1.forward"] = ForwardGap;
  all["A6.vision"] = [](const AuditInput& in) { return Rate(in, true); };
  all["A6.text"] = [](const AuditInput& in) { return Rate(in, false); };
  all["A6.speedup"] = Speedup;
  all["A6.together"] = Together;
  all["A6.steps"] = Steps;
  all["A7.text"] = TextFlops;
  all["A7.image"] = [](const AuditInput& in) {
    return TowerFlops(in,
                      "12 layers of 7 million parameters, two FLOPs each: per patch, before any "
                      "language model");
  };
  all["A7.video"] = [](const AuditInput& in) {
    return TowerFlops(in, "eight frames at 30 a second: the span that a token covers is not told");
  };
  all["A7.entropy"] = Entropy;
  all["A7.entropy_unscaled"] = Entropy;
  all["A7.video_bits"] = BitsOfTable;
  all["A7.text_bits"] = TextBits;
  all["A7.redundancy"] = Redundancy;
  all["A7.own_table"] = OwnTable;
  all["A9.definitions"] = Definitions;
  all["A9.gamma"] = Gamma;
  all["A9.alpha"] = LearntAlpha;
  all["A9.time"] = OverTime;
  const std::map<std::string, std::string> models = {
      {"llava", "llava-1.6-7b"}, {"qwen", "qwen-vl"}, {"fuyu", "fuyu-8b"}};
  for (const auto& [id, name] : models) {
    // The scenario's model is a value of its sweep.
    const auto with = [name = name](Recomputed (*computation)(const Evaluation&)) {
      return [name, computation](const AuditInput& in) {
        return computation(in.Run({"model=" + name}));
      };
    };
    all["A11." + id] = with(ProcessedFlops);
    all["A11." + id + "_cache"] = with(CacheRate);
    all["A11." + id + "_confidence"] = with(MeasuredConfidence);
  }
  all["A11.highest"] = [](const AuditInput& in) { return Order(in, true); };
  all["A11.lowest"] = [](const AuditInput& in) { return Order(in, false); };
}

}  // namespace aurum
