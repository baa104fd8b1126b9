#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/audit/rows.h"
#include "sim/core/units.h"
#include "sim/cost/dtype_table.h"
#include "sim/study/budget.h"
#include "sim/workload/adapter_routing.h"

// Budgets, adapters, pruning, precision and memory: rows A19, B1 to B5, B7 to B13, B16.
namespace aurum {
namespace {

using Set = std::vector<std::string>;

// What learning makes of a recipe is no outcome of a simulation of time and memory.
Recomputed AsInput(const std::string& what) {
  Recomputed out;
  out.formula = what;
  out.remark =
      "accuracy and loss are inputs of a plan here, never outcomes: no protocol, data or "
      "seed is told that they could be measured with again";
  out.verdict = Verdict::kInput;
  return out;
}

const ModuleShare& ShareOf(const Evaluation& e, const std::string& module) {
  const std::vector<Module>& modules = e.scenario.model->modules;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (modules[i].name == module) return e.program.classes.front().modules[i];
  }
  return e.program.classes.front().modules.back();
}

double Peak(const Evaluation& e) { return e.memory.Heaviest().peak_bytes; }

double Hours(const Evaluation& e) {
  return e.scenario.target ? e.scenario.target->Steps() * e.StepSeconds() / 3600 : 0;
}

double SamplesPerSecond(const Evaluation& e) {
  return static_cast<double>(e.scenario.workload.global_batch_size) / e.StepSeconds();
}

double LayerParametersOf(const Module& m) {
  double total = 0;
  for (const LayerRun& run : m.runs)
    total += run.count * static_cast<double>(LayerParameters(run.layer, m.hidden));
  return total;
}

// A19 -------------------------------------------------------------------------------------------

// One forward pass of one sample, the output head included.
Recomputed EdgeLatency(const AuditInput& in) {
  const Evaluation& e = in.Run();
  Recomputed out;
  out.value = e.StepSeconds() * 1e3;
  out.formula = "prompt and one new token of '" + e.scenario.model->name + "' on " +
                e.scenario.cluster->gpu.name + ": " + Show(out.value) + " ms";
  out.remark =
      "a negotiation between edge and centre is no part of a training step; a plan's "
      "latency is, and it can be asked for";
  out.verdict = HoldsIf(out.value <= in.claim.claimed);
  return out;
}

// Plans with their accuracies told: which of them are fast enough and good enough.
Recomputed EdgeFeasible(const AuditInput& in) {
  struct Choice {
    const char* name;
    const char* keep;
  };
  const Choice choices[] = {{"all layers", "1"}, {"half", "0.5"}, {"a quarter", "0.25"}};
  const double accuracies[] = {in.Given("accuracy_all"), in.Given("accuracy_half"),
                               in.Given("accuracy_quarter")};
  Recomputed out;
  int feasible = 0;
  for (int i = 0; i < 3; ++i) {
    const double ms =
        in.Run({std::string("prune.backbone.keep_layers=") + choices[i].keep}).StepSeconds() * 1e3;
    const bool fits = ms <= in.Given("latency_ms") && accuracies[i] >= in.Given("accuracy_floor");
    feasible += fits ? 1 : 0;
    out.formula += std::string(i == 0 ? "" : "; ") + choices[i].name + ": " + Show(ms) +
                   " ms at accuracy " + Show(accuracies[i]) + (fits ? " can" : " cannot");
  }
  out.value = feasible;
  out.remark = "accuracies are told with the claim; times are simulated";
  out.verdict = HoldsIf(out.value >= in.claim.claimed);
  return out;
}

// B1 --------------------------------------------------------------------------------------------

Recomputed FewerThanFour(const AuditInput& in) {
  const int gpus = in.Run().scenario.cluster->GpuCount();
  Recomputed out;
  out.value = gpus;
  out.formula = "its own measurements are of a cluster of " + Show(gpus) + " GPUs";
  out.remark =
      "no source names the laboratories or their rule; a bound on GPUs is a key of a "
      "scenario, budget.gpus";
  out.verdict = HoldsIf(out.value <= in.claim.claimed);
  return out;
}

Recomputed ItemsOverBudget(const AuditInput& in) {
  const std::vector<BudgetLine> lines = JudgeBudget(in.Run());
  Recomputed out;
  for (const BudgetLine& line : lines) {
    out.value += line.exceeded ? 1 : 0;
    out.formula += (out.formula.empty() ? "" : "; ") + line.item + " " + Show(line.used) + " of " +
                   Show(line.allowed);
  }
  out.remark = "energy is an upper bound: every device at its power limit";
  return out;
}

// B2 --------------------------------------------------------------------------------------------

Recomputed EightGib(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const Evaluation& wide = in.Run({"plan.adapter.base=bf16"});
  double parameters = 0;
  for (const ModuleShare& share : e.program.classes.front().modules) parameters += share.parameters;
  Recomputed out;
  out.value = Peak(e) / kGiB;
  out.formula = "peak over a 4-bit base " + Show(out.value) + " GiB, over a 16-bit one " +
                Show(Peak(wide) / kGiB) + " GiB, one sample of " +
                Show(e.scenario.sample.backbone_tokens) + " tokens at a time";
  out.remark =
      Show(parameters / 1e9) +
      " billion parameters of 2 bytes do not fit, of half a byte they do, with short samples and "
      "full recomputation";
  out.verdict = HoldsIf(out.value <= in.claim.claimed);
  return out;
}

// B3 --------------------------------------------------------------------------------------------

Recomputed HoursTo(const AuditInput& in) {
  const Evaluation& e = in.Run();
  Recomputed out;
  out.value = Hours(e);
  out.formula = Show(e.scenario.target->Steps()) + " steps of " + Show(e.StepSeconds()) + " s, " +
                Show(ModelFlopsPerGpu(e) / e.StepSeconds() / 1e12) + " TFLOP/s";
  out.remark =
      "the claim tells no sequence length and no number of epochs; the scenario's are one "
      "pass over the samples";
  if (out.value < in.claim.claimed)
    out.remark += ", of which the model's own work takes less than is told";
  return out;
}

Recomputed BusyShare(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const double claimed_hours = in.Given("hours");
  const double samples = in.Given("samples");
  const double flops =
      ModelFlopsPerGpu(e) / static_cast<double>(e.scenario.workload.global_batch_size) * samples;
  Recomputed out;
  out.value = 100 * Hours(e) / claimed_hours;
  out.formula = Show(samples) + " samples need " + Show(flops / 1e15) + " PFLOP, which is " +
                Show(flops / claimed_hours / 3600 / 1e12) + " TFLOP/s over " + Show(claimed_hours) +
                " h; the device does them in " + Show(Hours(e)) + " h";
  out.remark =
      "what takes the rest of the time is not the model: reading, decoding, or a much "
      "longer training than the table says";
  return out;
}

// B4 --------------------------------------------------------------------------------------------

Recomputed FrozenPasses(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const ModuleShare& backbone = ShareOf(e, "backbone");
  const ModuleShare& vision = ShareOf(e, "vision");
  const Evaluation& all = in.Run({"plan.frozen=[]"});
  const ModuleShare& trained = ShareOf(all, "backbone");
  Recomputed out;
  out.value = backbone.flops / backbone.forward_flops;
  out.formula = "FLOPs over those of the forward pass: trained " +
                Show(trained.flops / trained.forward_flops) +
                ", frozen behind a connector that learns " + Show(out.value) +
                ", frozen with nothing upstream that learns " +
                Show(vision.flops / vision.forward_flops) + "; gradients of the backbone " +
                Show(backbone.gradient_bytes) + " B, step " + Show(e.StepSeconds()) + " s of " +
                Show(all.StepSeconds()) + " s";
  out.remark =
      "the gradient of what lies upstream passes through all of it: only the weights' own "
      "gradients are saved, with optimizer states and their exchange";
  return out;
}

Recomputed CrossAttentionLayers(const AuditInput& in) {
  const Evaluation& e = in.Run();
  Recomputed out;
  for (const Module& module : e.scenario.model->modules) {
    for (const LayerRun& run : module.runs) {
      if (run.layer.attention.kind == AttentionKind::kCross || run.layer.cross.heads > 0)
        out.value += run.count;
    }
  }
  out.formula =
      "layers with cross-attention in '" + e.scenario.model->name + "': " + Show(out.value);
  out.remark = "models of LLaVA's kind put image tokens into the text's own sequence";
  out.verdict = HoldsIf(out.value >= in.claim.claimed);
  return out;
}

// B5 --------------------------------------------------------------------------------------------

Recomputed FlashMemory(const AuditInput& in) {
  const Evaluation& flash = in.Run();
  const Evaluation& scores = in.Run({"plan.attention=unfused"});
  Recomputed out;
  out.value = (Peak(scores) - Peak(flash)) / kGiB;
  out.formula = "peak with scores in memory " + Show(Peak(scores) / kGiB) + " GiB, without " +
                Show(Peak(flash) / kGiB) + " GiB, " + Show(flash.scenario.sample.backbone_tokens) +
                " tokens";
  out.remark =
      "scores grow with the square of the sequence, what a fused kernel keeps grows with it";
  out.verdict = HoldsIf(out.value > in.claim.claimed);
  return out;
}

Recomputed PagedMemory(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const double cache =
      e.memory.Heaviest().at_peak[static_cast<std::size_t>(MemoryComponent::kKvCache)];
  Recomputed out;
  out.value = cache / kGiB;
  out.formula = "a training step holds " + Show(out.value) + " GiB of key and value caches";
  out.remark = "PagedAttention pages the cache of generation; training has none to page";
  out.verdict = HoldsIf(out.value > in.claim.claimed);
  return out;
}

// B7 --------------------------------------------------------------------------------------------

Recomputed QloraPeak(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const MemoryReport& m = e.memory;
  Recomputed out;
  out.value = Peak(e) / kGiB;
  out.formula = "peak " + Show(m.low_bytes / kGiB) + " – " + Show(m.high_bytes / kGiB) +
                " GiB with full recomputation, " +
                Show(Peak(in.Run({"plan.recompute=none"})) / kGiB) + " GiB without; usable " +
                Show(m.usable_bytes / kGiB) + " GiB";
  out.remark =
      "the command line tells neither recomputation nor its loss kernel, which decide more "
      "than rank and bits do; '--quantization_method' is no flag of its launcher";
  out.verdict = HoldsIf(out.value <= in.claim.claimed);
  return out;
}

Recomputed QloraSpeed(const AuditInput& in) {
  const double few = in.Run().StepSeconds();
  const double wide = in.Run({"plan.adapter.base=bf16"}).StepSeconds();
  const double away = in.Run({"plan={\"micro_batch_size\": 2, \"sharding\": \"zero3\", "
                              "\"recompute\": \"full\", \"frozen\": [\"vision\"], \"offload\": "
                              "{\"optimizer\": 1, \"parameters\": 1}}"})
                          .StepSeconds();
  Recomputed out;
  out.value = wide / few;
  out.formula = "step over a 4-bit base " + Show(few) + " s, over a 16-bit one " + Show(wide) +
                " s; all weights trained, states on the host " + Show(away) + " s";
  out.remark =
      "at equal batches unpacking 4-bit weights costs time; faster it is only than a plan "
      "that has to move its states, " +
      Show(away / few) + " times here";
  return out;
}

// B8 --------------------------------------------------------------------------------------------

// Parameters of the layers that are left where every width keeps its share.
Recomputed PrunedParameters(const AuditInput& in) {
  const std::string keep = Show(in.Given("keep"));
  const auto layers = [&](const std::string& vision) {
    const Evaluation& e = in.Run({"prune={\"vision\": {" + vision + "}}"});
    return LayerParametersOf(*e.scenario.model->Find("vision"));
  };
  const double whole = layers("");
  const double channels = layers("\"keep_hidden\": " + keep) / whole;
  const double both =
      layers("\"keep_hidden\": " + keep + ", \"keep_heads\": " + keep + ", \"keep_ffn\": " + keep) /
      whole;
  Recomputed out;
  out.value = in.Given("before") * both;
  out.formula = Show(in.Given("before")) + " M · " + Show(both) +
                " with both sides of every matrix, " + Show(in.Given("before") * channels) +
                " M with the stream alone";
  out.remark =
      "keeping a share of the channels leaves between its square and itself of the "
      "parameters";
  return out;
}

Recomputed ImpliedKeep(const AuditInput& in) {
  const double share = in.Given("after") / in.Given("before");
  Recomputed out;
  out.value = 100 * std::sqrt(share);
  out.formula = "parameters " + Show(in.Given("after")) + " / " + Show(in.Given("before")) + " = " +
                Show(100 * share) + " %, −" + Show(100 * (1 - share)) +
                " %: √ of it where both sides of a matrix are cut";
  out.remark =
      "with one side cut it would be " + Show(100 * share) + " %; the claimed share is neither";
  return out;
}

// A 1 × 1 and a k × k convolution beside each other against one of k × k: weights w each time they are
// read, the input read and the outputs written in passes over an activation.
Recomputed ReparamTraffic(const AuditInput& in) {
  const double k2 = in.Given("kernel") * in.Given("kernel");
  const double weights = 1 - k2 / (k2 + 1);
  const double passes = 1 - 2.0 / 7.0;
  Recomputed out;
  out.value = 100 * weights;
  out.formula = "where weights are the traffic 1 − " + Show(k2) + "/" + Show(k2 + 1) + " = " +
                Show(100 * weights) +
                " %; where activations are (two reads, two writes, and a sum of "
                "three) 1 − 2/7 = " +
                Show(100 * passes) + " %";
  out.remark = "which of the two depends on the sizes of channels and maps, which are not told; " +
               Show(in.claim.claimed) + " % lies between";
  const bool between = in.claim.claimed >= 100 * weights && in.claim.claimed <= 100 * passes;
  out.verdict = between ? Verdict::kUndefined : Verdict::kRefuted;
  return out;
}

Recomputed BranchesInTraining(const AuditInput& in) {
  const auto at = [&](const char* branches) -> const Evaluation& {
    return in.Run({std::string("prune={\"vision\": {\"branches\": ") + branches + "}}"});
  };
  const Evaluation& one = at("1");
  const Evaluation& two = at("2");
  const double linears =
      1 - LayerParametersOf(one.scenario.model->modules[0]) / ShareOf(one, "vision").parameters;
  Recomputed out;
  out.value = 100 * (ShareOf(two, "vision").parameters / ShareOf(one, "vision").parameters - 1);
  out.formula = "parameters of the tower in training " +
                Show(ShareOf(two, "vision").parameters / 1e6) + " M, with one branch " +
                Show(ShareOf(one, "vision").parameters / 1e6) + " M; step " +
                Show(two.StepSeconds()) + " s of " + Show(one.StepSeconds()) + " s";
  out.remark =
      "both branches are held and trained; only inference has one. Of a transformer's tower "
      "all that is no layer is " +
      Show(100 * linears) + " %";
  out.verdict = HoldsIf(out.value > in.claim.claimed);
  return out;
}

// B9 --------------------------------------------------------------------------------------------

double VisionFlops(const Evaluation& e) { return ShareOf(e, "vision").flops; }

Recomputed MaskedFlops(const AuditInput& in) {
  const Evaluation& whole = in.Run({"prune={}"});
  const Evaluation& masked = in.Run({"prune.vision.mode=mask"});
  Recomputed out;
  out.value = 100 * VisionFlops(masked) / VisionFlops(whole);
  out.formula = Show(VisionFlops(masked) / 1e12) + " of " + Show(VisionFlops(whole) / 1e12) +
                " TFLOP a GPU and step";
  out.remark =
      "q · mask multiplies by zeros in matrices of full size; nor does [heads, channels] "
      "broadcast against [batch, heads, tokens, head width]";
  return out;
}

Recomputed SlicedFlops(const AuditInput& in) {
  const Evaluation& whole = in.Run({"prune={}"});
  const Evaluation& sliced = in.Run();
  Recomputed out;
  out.value = 100 * VisionFlops(sliced) / VisionFlops(whole);
  out.formula = Show(VisionFlops(sliced) / 1e12) + " of " + Show(VisionFlops(whole) / 1e12) +
                " TFLOP a GPU and step; step " + Show(sliced.StepSeconds()) + " s of " +
                Show(whole.StepSeconds()) + " s";
  out.remark =
      "shares that were chosen to come near the table's figure: what its masks would have to cut "
      "out, and do not";
  return out;
}

Recomputed FlopsColumn(const AuditInput& in) {
  Recomputed out;
  out.value = 100 - in.Given("remaining");
  out.formula = "100 − " + Show(in.Given("remaining"));
  out.remark = "the column is named 'FLOPs down' and holds what remains: its first row is 100 %";
  return out;
}

Recomputed HeadsAndTp(const AuditInput& in) {
  const std::string heads = Show(in.Given("heads")), tp = Show(in.Given("tp"));
  const int code =
      in.context.Refusal(in.claim.scenario, {"prune={\"text\": {\"keep_heads\": " + heads + "}}",
                                             "plan={\"text\": {\"tp\": " + tp + "}}"});
  Recomputed out;
  out.value = code;
  out.formula = heads + " heads on tp = " + tp + ": " + (code == 0 ? "runs" : "E0" + Show(code));
  out.remark = "heads that are left must still divide among the GPUs of a tensor-parallel group";
  return out;
}

// B10 -------------------------------------------------------------------------------------------

double PeakOf(const AuditInput& in, const std::string& adapter) {
  return Peak(in.Run({"plan.adapter=" + adapter}));
}
std::string LoraOf(double rank, const char* base) {
  return "{\"kind\": \"lora\", \"rank\": " + Show(rank) + ", \"base\": \"" + base + "\"}";
}
double FullPeak(const AuditInput& in) { return Peak(in.Run({"plan.adapter=null"})); }

Recomputed MemoryRatio(const AuditInput& in, const char* base) {
  const double full = FullPeak(in), adapted = PeakOf(in, LoraOf(in.Given("rank"), base));
  Recomputed out;
  out.value = full / adapted;
  out.formula = Show(full / kMiB) + " / " + Show(adapted / kMiB) + " MiB, published " +
                Show(in.Given("full_mb")) + " / " + Show(in.Given("adapted_mb")) + " = " +
                Show(in.Given("full_mb") / in.Given("adapted_mb"));
  out.remark =
      "the published model and batch are not told; the scenario's is of a like size in "
      "full fine-tuning";
  return out;
}

Recomputed QuantisedA(const AuditInput& in) {
  const Evaluation& e = in.Run({"plan.adapter=" + LoraOf(in.Given("rank"), "bf16")});
  const Stack& stack = *e.scenario.stack;
  const double adapters = ShareOf(e, "backbone").adapter_parameters;
  const double each =
      stack.adapter_weight_bytes + stack.adapter_gradient_bytes + stack.adapter_optimizer_bytes;
  // A is half of the adapters where in and out widths are alike.
  Recomputed out;
  out.value = 100 * 0.5 * adapters * stack.adapter_weight_bytes / Peak(e);
  out.formula = "weights of A " + Show(0.5 * adapters * stack.adapter_weight_bytes / kMiB) +
                " MiB, all of the adapters with gradients and states " +
                Show(adapters * each / kMiB) + " MiB, peak " + Show(Peak(e) / kMiB) + " MiB";
  out.remark =
      "QLoRA stores the frozen base in 4 bits; A is trained, and a gradient has no 4-bit "
      "matrix to step in";
  return out;
}

Recomputed RankAlone(const AuditInput& in) {
  const double high = PeakOf(in, LoraOf(in.Given("rank_before"), "bf16"));
  const double low = PeakOf(in, LoraOf(in.Given("rank_after"), "bf16"));
  const double few = PeakOf(in, LoraOf(in.Given("rank_before"), "nf4"));
  Recomputed out;
  out.value = 100 * (low / high - 1);
  out.formula = "rank alone " + Show(high / kMiB) + " → " + Show(low / kMiB) +
                " MiB, bits alone → " + Show(few / kMiB) + " MiB (" + Show(100 * (few / high - 1)) +
                " %)";
  out.remark = "the table changes both at once; nearly all of it is the bits of the base";
  return out;
}

// B11 -------------------------------------------------------------------------------------------

Recomputed Thresholds(const AuditInput& in) {
  const double code[] = {in.Given("code_high"), in.Given("code_low")};
  Recomputed out;
  for (const char* name : {"table_image", "table_text", "table_audio"}) {
    const double told = in.Given(name);
    if (std::any_of(std::begin(code), std::end(code), [&](double c) { return c == told; }))
      out.value += 1;
  }
  out.formula = "of " + Show(in.Given("table_image")) + ", " + Show(in.Given("table_text")) + ", " +
                Show(in.Given("table_audio")) + " the code has " + Show(out.value) + ": it has " +
                Show(code[0]) + " and " + Show(code[1]);
  out.remark = "two thresholds cannot be three";
  return out;
}

// The article's rule on a norm.
Modality ByNorm(double norm, double high, double low) {
  return norm > high ? Modality::kVision : norm > low ? Modality::kAudio : Modality::kText;
}

Recomputed NormRoutes(const AuditInput& in) {
  const Modality all = ByNorm(in.Given("norm"), in.Given("code_high"), in.Given("code_low"));
  const Evaluation& e = in.Run();
  double own = 0;
  for (const AdapterLoad& load : LoadOfAdapters(*e.scenario.model, e.scenario.workload, 0)) {
    if (load.modality == all) own = load.own_share;
  }
  Recomputed out;
  out.value = 100 * own;
  out.formula = "every sample has norm " + Show(in.Given("norm")) + ", so all go to '" +
                ModalityName(all) + "', and " + Show(out.value) + " % belong there";
  out.remark =
      "normalised features all have a norm of 1, others norms far above both thresholds: either "
      "way "
      "all samples take the first branch; which modality a sample is of is known from its input";
  return out;
}

Recomputed AdaptersHeld(const AuditInput& in) {
  const double one =
      ShareOf(in.Run({"plan.adapter={\"rank\": 16}"}), "backbone").adapter_parameters;
  const double each = ShareOf(in.Run(), "backbone").adapter_parameters;
  Recomputed out;
  out.value = each / one;
  out.formula = Show(each / 1e6) + " / " + Show(one / 1e6) +
                " M parameters held, trained and "
                "reduced";
  out.remark = "a sample computes one adapter, every GPU holds and trains all";
  return out;
}

Recomputed RouterStall(const AuditInput& in) {
  const Evaluation& by_score = in.Run();
  const Evaluation& by_input = in.Run({"plan.adapter.routed_by_score=false"});
  const double more = by_score.StepSeconds() - by_input.StepSeconds();
  const double each = more / static_cast<double>(by_score.scenario.plan.micro_batches);
  Recomputed out;
  out.value = each * 1e3;
  out.formula = "step " + Show(by_score.StepSeconds()) + " s, by the input's own modality " +
                Show(by_input.StepSeconds()) + " s: " + Show(out.value) + " ms a micro-batch";
  out.remark =
      "a millisecond or a few, for the comparison in Python needs the figure on the host: all that "
      "time the device runs dry and waits until kernels are enqueued again";
  return out;
}

// B12 -------------------------------------------------------------------------------------------

constexpr const char* kV100 = "scenarios/articles/b12-v100-fp16.json";

Recomputed TwoDevices(const AuditInput& in) {
  const Evaluation& a100 = in.Run();
  const Evaluation& v100 = in.context.Run(kV100);
  Recomputed out;
  out.value = SamplesPerSecond(a100) / SamplesPerSecond(v100);
  out.formula = Show(SamplesPerSecond(a100)) + " / " + Show(SamplesPerSecond(v100)) +
                " samples/s, published " + Show(in.Given("a100")) + " / " + Show(in.Given("v100")) +
                " = " + Show(in.Given("a100") / in.Given("v100"));
  out.remark = "datasheets have " + Show(a100.scenario.profile->device.peak_bf16_flops / 1e12) +
               " against " + Show(v100.scenario.profile->device.peak_bf16_flops / 1e12) +
               " TFLOP/s; a ratio of " + Show(in.claim.claimed) +
               " speaks of something else than matrix products";
  return out;
}

Recomputed DTypeMemory(const AuditInput& in) {
  const double bf16 = Peak(in.Run()), fp16 = Peak(in.Run({"plan.precision=fp16"}));
  Recomputed out;
  out.value = fp16 / bf16;
  out.formula = Show(fp16 / kGiB) + " / " + Show(bf16 / kGiB) + " GiB on one device, published " +
                Show(in.Given("v100_gb")) + " / " + Show(in.Given("a100_gb"));
  out.remark =
      "both formats have two bytes; a difference comes from attention kernels, batch or "
      "workspaces";
  return out;
}

Recomputed FallbackToFp32(const AuditInput& in) {
  const std::string profile = "profile=rtx4090";
  const double half = in.Run({profile}).StepSeconds();
  const double wide = in.Run({profile, "plan.precision=fp32"}).StepSeconds();
  Recomputed out;
  out.value = wide / half;
  out.formula = "an RTX 4090 in fp32 " + Show(wide) + " s a step, in bf16 " + Show(half) + " s";
  out.remark =
      "the rule knows A100 and V100 by name; every other device, newer ones too, falls to "
      "fp32. `aurum list dtypes` has what each computes in";
  return out;
}

Recomputed V100InBf16(const AuditInput& in) {
  const double fp16 = in.Run().StepSeconds();
  const double bf16 = in.Run({"plan.precision=bf16"}).StepSeconds();
  Recomputed out;
  out.value = bf16 / fp16;
  out.formula = "bf16 " + Show(bf16) + " s, fp16 " + Show(fp16) +
                " s a step: compute-bound kernels " +
                Show(Bf16Slowdown(*in.Run().scenario.profile)) + " times as long";
  out.remark = "Volta has matrix units for fp16 alone; bf16 runs on its general units in fp32";
  out.verdict = HoldsIf(out.value > in.claim.claimed);
  return out;
}

// B13 -------------------------------------------------------------------------------------------

Recomputed PromptPasses(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const Evaluation& full = in.Run({"plan.adapter=null"});
  const ModuleShare& vision = ShareOf(e, "vision");
  Recomputed out;
  out.value = vision.flops / vision.forward_flops;
  out.formula = "FLOPs over the forward pass's " + Show(out.value) + ", step " +
                Show(e.StepSeconds()) + " s of " + Show(full.StepSeconds()) +
                " s with all trained, peak " + Show(Peak(e) / kGiB) + " of " +
                Show(Peak(full) / kGiB) + " GiB";
  out.remark = "prompts stand before the first layer: the gradient passes back through all of them";
  return out;
}

Recomputed PromptGradient(const AuditInput& in) {
  const Evaluation& e = in.Run();
  double prompts = 0, all = 0;
  for (const ModuleShare& share : e.program.classes.front().modules) {
    prompts += share.adapter_parameters;
    all += share.parameters;
  }
  Recomputed out;
  out.value = 100 * prompts / all;
  out.formula = Show(prompts) + " of " + Show(all) + " parameters are trained";
  out.remark = "projections are frozen here too; the article trains them";
  return out;
}

// B16 -------------------------------------------------------------------------------------------

Recomputed Fa3Refused(const AuditInput& in) {
  Recomputed out;
  out.value = in.context.Refusal(in.claim.scenario, {"plan.attention=flash3"});
  out.formula = out.value == 0 ? "runs" : "E0" + Show(out.value);
  out.remark = "FlashAttention 3 is written for Hopper's asynchronous units; an A100 takes 2";
  return out;
}

Recomputed ZeroThreeAlone(const AuditInput& in) {
  const Evaluation& sharded = in.Run({"plan.offload=null"});
  const Evaluation& plain = in.Run({"plan.offload=null", "plan.sharding=zero1"});
  const auto state = [](const Evaluation& e) {
    const auto& at = e.memory.Heaviest().at_peak;
    return at[static_cast<std::size_t>(MemoryComponent::kWeights)] +
           at[static_cast<std::size_t>(MemoryComponent::kOptimizer)];
  };
  Recomputed out;
  out.value = 100 * (1 - state(sharded) / state(plain));
  out.formula = "weights and optimizer " + Show(state(sharded) / kGiB) + " GiB with ZeRO-3, " +
                Show(state(plain) / kGiB) + " GiB with ZeRO-1, on " +
                Show(plain.scenario.cluster->GpuCount()) + " GPU";
  out.remark = "a share of one GPU is the whole; what helps there is the host's memory";
  return out;
}

// The longest text beside the scenario's image whose peak a device still holds.
double LongestTokens(const AuditInput& in, Set set) {
  const auto run = [&](std::int64_t text) -> const Evaluation& {
    Set all = set;
    all.push_back("workload.text_tokens=" + std::to_string(text));
    return in.Run(all);
  };
  std::int64_t low = 1, high = 1 << 18;
  if (run(low).memory.verdict != Fit::kFits) return 0;
  while (high - low > 256) {
    const std::int64_t middle = (low + high) / 2;
    (run(middle).memory.verdict == Fit::kFits ? low : high) = middle;
  }
  return run(low).scenario.sample.backbone_tokens;
}

Recomputed LongestSequence(const AuditInput& in) {
  const double own = LongestTokens(in, {});
  const double unfused = LongestTokens(in, {"plan.attention=unfused"});
  const double kept = LongestTokens(in, {"plan.recompute=none"});
  Recomputed out;
  out.value = own / 1024;
  out.formula = "bisected: " + Show(own) +
                " tokens with a fused kernel, recomputation and offload; " + Show(unfused) +
                " with scores in memory, " + Show(kept) + " without recomputation";
  out.remark = "training keeps no cache of keys and values that modalities could share";
  out.verdict = HoldsIf(out.value >= in.claim.claimed);
  return out;
}

Recomputed OffloadTime(const AuditInput& in) {
  const Evaluation& away = in.Run();
  const Evaluation& stays = in.Run({"plan.offload=null", "plan.adapter={\"rank\": 16}"});
  const Evaluation& full = in.Run({"plan.offload=null"});
  Recomputed out;
  out.value = 100 * (away.StepSeconds() / full.StepSeconds() - 1);
  out.formula = "step " + Show(away.StepSeconds()) + " s, " + Show(full.StepSeconds()) +
                " s if all stayed on the device (" + Show(Peak(full) / kGiB) + " of " +
                Show(full.memory.usable_bytes / kGiB) + " GiB); LoRA instead " +
                Show(stays.StepSeconds()) + " s at " + Show(Peak(stays) / kGiB) + " GiB";
  out.remark = "states and weights cross PCIe, and the host's cores take the step";
  return out;
}

Recomputed MemoryOf16K(const AuditInput& in) {
  const double image = in.Run().scenario.sample.cross_modal_tokens;
  const Evaluation& e =
      in.Run({"workload.text_tokens=" + std::to_string(std::lround(in.Given("tokens") - image))});
  Recomputed out;
  out.value = Peak(e) / kGiB;
  out.formula = Show(e.scenario.sample.backbone_tokens) + " tokens: " + Show(out.value) +
                " GiB, and " + Show(e.memory.host_bytes_per_node / kGiB) + " GiB of the host's";
  out.remark = "the model is not told; '" + e.scenario.model->name +
               "', with all states on the host, takes this";
  return out;
}

}  // namespace

void AddRecipeRows(Computations* to) {
  Computations& rows = *to;
  rows["A19.latency"] = EdgeLatency;
  rows["A19.feasible"] = EdgeFeasible;
  rows["B1.fewer_than_four"] = FewerThanFour;
  rows["B1.budget"] = ItemsOverBudget;
  rows["B2.quality"] = [](const AuditInput& in) {
    return AsInput(Show(in.claim.claimed) + " % of what, on which data?");
  };
  rows["B2.memory"] = EightGib;
  rows["B3.orin"] = HoursTo;
  rows["B3.rtx4090"] = HoursTo;
  rows["B3.busy"] = BusyShare;
  rows["B4.passes"] = FrozenPasses;
  rows["B4.cross_attention"] = CrossAttentionLayers;
  rows["B5.flash"] = FlashMemory;
  rows["B5.paged"] = PagedMemory;
  rows["B7.memory"] = QloraPeak;
  rows["B7.throughput"] = QloraSpeed;
  rows["B7.accuracy"] = [](const AuditInput& in) {
    return AsInput("a drop below " + Show(in.claim.claimed) + " points of VQA");
  };
  rows["B8.parameters"] = PrunedParameters;
  rows["B8.keep"] = ImpliedKeep;
  rows["B8.traffic"] = ReparamTraffic;
  rows["B8.training"] = BranchesInTraining;
  rows["B9.masked"] = MaskedFlops;
  rows["B9.sliced"] = SlicedFlops;
  rows["B9.column"] = FlopsColumn;
  rows["B9.tp"] = HeadsAndTp;
  rows["B10.lora"] = [](const AuditInput& in) { return MemoryRatio(in, "bf16"); };
  rows["B10.qlora"] = [](const AuditInput& in) { return MemoryRatio(in, "nf4"); };
  rows["B10.quantised_a"] = QuantisedA;
  rows["B10.rank"] = RankAlone;
  rows["B11.thresholds"] = Thresholds;
  rows["B11.norm"] = NormRoutes;
  rows["B11.held"] = AdaptersHeld;
  rows["B11.stall"] = RouterStall;
  rows["B12.ratio"] = TwoDevices;
  rows["B12.memory"] = DTypeMemory;
  rows["B12.fallback"] = FallbackToFp32;
  rows["B12.v100"] = V100InBf16;
  rows["B13.passes"] = PromptPasses;
  rows["B13.trained"] = PromptGradient;
  rows["B13.accuracy"] = [](const AuditInput& in) {
    return AsInput(Show(in.claim.claimed) + " % from five shots, of which data?");
  };
  rows["B16.fa3"] = Fa3Refused;
  rows["B16.zero3"] = ZeroThreeAlone;
  rows["B16.length"] = LongestSequence;
  rows["B16.memory"] = MemoryOf16K;
  rows["B16.offload"] = OffloadTime;
}

}  // namespace aurum
