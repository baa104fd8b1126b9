#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/audit/rows.h"
#include "sim/study/data_report.h"
#include "sim/workload/loader.h"

// Routing of tokens (A10), packing and attention kernels (A16), resolutions (B6), loaders (B18).
namespace aurum {
namespace {

double InPercent(double share) { return 100 * share; }

// --- A10: top-k gates ---

// Each token goes to k of N experts instead of all.
Recomputed CommunicationCut(const AuditInput& in) {
  const double n = in.Given("experts"), k = in.Given("choices"), wanted = in.claim.claimed / 100;
  Recomputed out;
  out.value = InPercent(1 - k / n);
  out.formula = "1 − k/N = 1 − " + Show(k) + "/" + Show(n) + " = " + Show(out.value) + " %";
  const double least = std::ceil(k / (1 - wanted) * (1 - 1e-12));
  out.remark =
      "a cut of " + Show(in.claim.claimed) + " % by k = " + Show(k) + " needs N ≥ " + Show(least) +
      " experts. Against a dense exchange, that is: a mixture without the exchange has none";
  out.verdict = HoldsIf(out.value >= in.claim.claimed * (1 - 1e-12));
  return out;
}

Recomputed ComputeRatio(const AuditInput& in) {
  const double n = in.Given("experts"), k = in.Given("choices");
  Recomputed out;
  out.value = k / n;
  out.formula = "k/N = " + Show(k) + "/" + Show(n);
  out.remark =
      "a gate that leaves experts out leaves out their products too: the column of compute falls "
      "by "
      "the same factor as that of communication";
  return out;
}

// Of three runs of a public measurement: NCCL's all-to-all over DeepEP's, mean times.
double MeasuredSpeedUp(const AuditInput& in) {
  double nccl = 0, other = 0;
  for (const char* run : {"1", "2", "3"}) {
    nccl += in.Given(std::string("nccl_ms_") + run);
    other += in.Given(std::string("deepep_ms_") + run);
  }
  return nccl / other;
}

// Copies of a token that the simulation sends, over the experts that a dense exchange would send to.
Recomputed SimulatedCut(const AuditInput& in) {
  const Evaluation& e = in.Run();
  const Module& backbone = e.scenario.model->Backbone();
  double layers = 0, experts = 0;
  for (const LayerRun& run : backbone.runs) {
    if (run.layer.mlp.experts == 0) continue;
    layers += run.count;
    experts = run.layer.mlp.experts;
  }
  const auto figures = FiguresOfExperts(e);
  const Plan& plan = e.scenario.plan;
  // Dispatch and combine, forward and backward, and once more where layers are recomputed.
  const double ways = plan.recompute.scope == RecomputeScope::kFull ? 6 : 4;
  const double tokens = TokensPerStep(e.scenario) / e.scenario.cluster->GpuCount();
  const double copies = figures->all_to_all_bytes / (ways * layers * tokens * backbone.hidden * 2);
  Recomputed out;
  out.value = InPercent(1 - copies / experts);
  out.formula = "1 − " + Show(copies) + " copies of a token / " + Show(experts) + " experts; " +
                Show(figures->all_to_all_bytes / 1e9) + " GB a GPU and step";
  out.remark = "what is left is still " + Show(InPercent(figures->share)) + " % of the step of '" +
               e.scenario.name +
               "': a share of a dense exchange says nothing about a step. DeepEP, which copies a "
               "token inside of the node, exchanges " +
               Show(figures->all_to_all_s /
                    FiguresOfExperts(in.Run({"stack=megatron-core-deepep"}))->all_to_all_s) +
               " times as fast by simulation, " + Show(MeasuredSpeedUp(in)) +
               " times as measured between nodes of H100 (DeepSpeed, pull request 8213)";
  return out;
}

Recomputed SkewCost(const AuditInput& in) {
  const Evaluation& skewed = in.Run();
  const Evaluation& even = in.Run({"plan.backbone.expert_routing.skew=[]"});
  Recomputed out;
  out.value = InPercent(skewed.StepSeconds() / even.StepSeconds() - 1);
  out.formula = Show(skewed.StepSeconds()) + " s / " + Show(even.StepSeconds()) +
                " s, the busiest rank at " + Show(skewed.scenario.plan.expert_imbalance) +
                " times the mean";
  const Evaluation& capped = in.Run({"plan.backbone.expert_routing.capacity_factor=1"});
  out.remark =
      "the table has neither skew nor capacity. Every layer waits for the rank with the most "
      "tokens; a "
      "capacity factor of 1 takes that back (" +
      Show(capped.StepSeconds()) + " s) and drops " +
      Show(InPercent(capped.scenario.plan.dropped_tokens)) + " % of the choices";
  return out;
}

// --- A16: packing and FlashAttention ---

Recomputed Fall(const AuditInput& in, const char* from, const char* to, const std::string& remark) {
  Recomputed out;
  const double before = in.Given(from), after = in.Given(to);
  out.value = InPercent(1 - after / before);
  out.formula = "1 − " + Show(after) + "/" + Show(before);
  out.remark = remark;
  return out;
}

Recomputed FlashFlops(const AuditInput& in) {
  const Evaluation& plain = in.Run({"plan.attention=unfused"});
  const Evaluation& flash = in.Run({"plan.attention=flash2"});
  const double before = FlopsPerUsefulToken(plain), after = FlopsPerUsefulToken(flash);
  Recomputed out;
  out.value = InPercent(1 - after / before);
  out.formula = Show(before / 1e9) + " → " + Show(after / 1e9) + " GFLOP per useful token";
  out.remark =
      "FlashAttention is exact: the same products, less memory traffic. It changes the step (" +
      Show(plain.StepSeconds()) + " → " + Show(flash.StepSeconds()) + " s), not its FLOPs";
  return out;
}

Recomputed PackedFlops(const AuditInput& in) {
  const Evaluation& packed = in.Run();
  const Evaluation& padded = in.Run({"workload.packing={\"policy\": \"none\"}",
                                     "plan.micro_batch_size=" + Show(in.Given("padded_rows"))});
  const double before = FlopsPerUsefulToken(padded), after = FlopsPerUsefulToken(packed);
  Recomputed out;
  out.value = InPercent(1 - after / before);
  out.formula = Show(before / 1e9) + " → " + Show(after / 1e9) +
                " GFLOP per useful token; padding " + Show(InPercent(PaddingShare(padded))) +
                " → " + Show(InPercent(PaddingShare(packed))) + " %";
  out.remark =
      "packing saves the padding that there was, which depends on the lengths and on how many rows "
      "are "
      "padded to each other. FLOPs have to be counted per token that is there, or padding is a "
      "gain";
  return out;
}

Recomputed GroupedFlops(const AuditInput& in) {
  const Evaluation& whole = in.Run();
  const Evaluation& groups =
      in.Run({"workload.packing.group_tokens=" + Show(in.Given("group_tokens"))});
  const double before = FlopsPerUsefulToken(whole), after = FlopsPerUsefulToken(groups);
  Recomputed out;
  out.value = InPercent(1 - after / before);
  out.formula = Show(before / 1e9) + " → " + Show(after / 1e9) + " GFLOP per useful token";
  out.remark =
      "attention inside of groups is block-sparse: another function than the model's, whose "
      "accuracy is "
      "an input here. Its quadratic part is small where sequences of an encoder are short";
  out.verdict = Verdict::kInput;
  return out;
}

Recomputed Flash3Runs(const AuditInput& in) {
  const int code = in.context.Refusal(in.claim.scenario, {"plan.attention=flash3"});
  Recomputed out;
  out.value = code == 0 ? 1 : 0;
  out.formula = code == 0 ? "plan.attention = flash3 runs"
                          : "plan.attention = flash3 is refused: E0" + std::to_string(code);
  out.remark =
      "FlashAttention-3 is written for Hopper's asynchronous units; the article's cluster is of "
      "A100s. FlashAttention-2 is what runs there";
  return out;
}

// --- B6: resolutions ---

Recomputed EncoderPadding(const AuditInput& in) {
  const Evaluation& largest = in.Run();
  const Evaluation& native = in.Run({"workload.resolution.policy=native"});
  Recomputed out;
  out.value = InPercent(largest.data->figures.modules.front().padding_share);
  out.formula = "padding of " + largest.data->figures.modules.front().name + " " + Show(out.value) +
                " %, of the backbone " + Show(InPercent(PaddingShare(largest))) + " % instead of " +
                Show(InPercent(PaddingShare(native))) + " %";
  out.remark =
      "whatever is smaller than the largest image of its batch has to be padded or stretched to "
      "it: the "
      "largest size makes padding. Native sizes in packed rows, or buckets, avoid it";
  return out;
}

Recomputed ResolutionCost(const AuditInput& in) {
  const Evaluation& largest = in.Run();
  const Evaluation& native = in.Run({"workload.resolution.policy=native"});
  Recomputed out;
  out.value = InPercent(largest.data->mean_s / native.data->mean_s - 1);
  out.formula = Show(largest.data->mean_s) + " s / " + Show(native.data->mean_s) + " s a step";
  out.remark = "the same images, each at its own size, in the same micro-batches";
  return out;
}

// --- B18: loaders ---

Recomputed CopyLess(const AuditInput& in) {
  const auto with = [&](double copies) -> const Evaluation& {
    return in.Run({"workload.loader.copies=" + Show(copies)});
  };
  const Evaluation& before = with(in.Given("copies_before"));
  const Evaluation& after = with(in.Given("copies_after"));
  Recomputed out;
  out.value = InPercent(1 - after.loader->load_s / before.loader->load_s);
  out.formula = "a batch: " + Show(before.loader->load_s) + " → " + Show(after.loader->load_s) +
                " s (read " + Show(after.loader->batch.read_s) + ", decode " +
                Show(after.loader->batch.decode_s) + ", a copy " +
                Show(before.loader->batch.copy_s / in.Given("copies_before")) + " s)";
  out.remark =
      "a copy less saves its own time alone; for what is told it would have to take longer than "
      "reading, "
      "decoding and the other copy together. The step goes from " +
      Show(before.StepSeconds()) + " to " + Show(after.StepSeconds()) +
      " s: what is loaded ahead of the step is not waited for";
  return out;
}

Recomputed ZeroCopy(const AuditInput& in) {
  Recomputed out;
  out.value = 0;
  out.formula =
      "mmap reads through the page cache, O_DIRECT goes around it: a mapping has no O_DIRECT";
  out.remark =
      "the two are alternatives, and pages of a private mapping are not visible to the GPU: a copy "
      "to "
      "pinned memory remains. Which copy is saved is not said, so there is nothing to measure";
  out.verdict = Verdict::kUndefined;
  (void)in;
  return out;
}

struct Kind {
  double complexity, batch;
};
std::vector<Kind> Kinds(const AuditInput& in) {
  std::vector<Kind> kinds;
  for (const char* name : {"image", "lidar", "audio"}) {
    kinds.push_back(
        {in.Given(std::string(name) + "_complexity"), in.Given(std::string(name) + "_batch")});
  }
  return kinds;
}

Recomputed BudgetSpread(const AuditInput& in) {
  double least = 1e300, most = 0;
  std::string products;
  for (const Kind& kind : Kinds(in)) {
    const double product = kind.complexity * kind.batch;
    least = std::min(least, product);
    most = std::max(most, product);
    products += (products.empty() ? "" : ", ") + Show(product);
  }
  Recomputed out;
  out.value = InPercent(most / least - 1);
  out.formula = "complexity · batch = " + products;
  out.remark =
      "a batch that adapts to a budget has the same product for every kind, up to one sample. The "
      "factors or the batches of the table are not of one budget";
  return out;
}

// The batch of one kind by the budget that another one's batch implies.
Recomputed BatchOfBudget(const AuditInput& in) {
  const std::vector<Kind> kinds = Kinds(in);
  const double budget = kinds.front().complexity * kinds.front().batch;
  const DynamicBatch batch = BatchWithin(kinds.back().complexity, budget);
  Recomputed out;
  out.value = batch.samples;
  out.formula = "⌊" + Show(budget) + " / " + Show(kinds.back().complexity) + "⌋, " +
                Show(InPercent(batch.utilisation)) + " % of the budget; LiDAR ⌊" + Show(budget) +
                " / " + Show(kinds[1].complexity) +
                "⌋ = " + Show(BatchWithin(kinds[1].complexity, budget).samples);
  out.remark = "by the budget of the images, " + Show(budget);
  return out;
}

}  // namespace

void AddDataRows(Computations* to) {
  Computations& rows = *to;
  rows["A10.comm_cut"] = CommunicationCut;
  rows["A10.compute"] = ComputeRatio;
  rows["A10.simulated_cut"] = SimulatedCut;
  rows["A10.skew"] = SkewCost;
  rows["A16.together"] = [](const AuditInput& in) {
    return Fall(
        in, "multimodal_baseline", "multimodal_both",
        "37 % is what the table gives for the kernel alone; kernel and packing together it gives "
        "as more");
  };
  rows["A16.kernel_alone"] = [](const AuditInput& in) {
    return Fall(in, "multimodal_baseline", "multimodal_flash",
                "the figure is the kernel's, and a kernel that is exact saves no FLOPs at all "
                "(A16.flash_flops): the unit cannot be FLOPs per token");
  };
  rows["A16.packing_alone"] = [](const AuditInput& in) {
    return Fall(in, "multimodal_flash", "multimodal_both", "of what the kernel leaves");
  };
  rows["A16.text"] = [](const AuditInput& in) {
    return Fall(
        in, "text_baseline", "text_both",
        "text gains nothing by packing in the table, so all of this is claimed for the kernel");
  };
  rows["A16.flash_flops"] = FlashFlops;
  rows["A16.packed_flops"] = PackedFlops;
  rows["A16.groups"] = GroupedFlops;
  rows["A16.flash3_on_a100"] = Flash3Runs;
  rows["B6.padding"] = EncoderPadding;
  rows["B6.step"] = ResolutionCost;
  rows["B18.latency"] = CopyLess;
  rows["B18.zero_copy"] = ZeroCopy;
  rows["B18.budget"] = BudgetSpread;
  rows["B18.batch"] = BatchOfBudget;
}

}  // namespace aurum
