#include <algorithm>
#include <string>

#include "sim/study/published/fields.h"
#include "sim/study/published/record.h"

namespace aurum {
namespace {

// A CI case without what its runs add: "gpt3_mcore_te_tp2_pp2_resume_torch_dist" and
// "gpt3_mcore_te_tp2_pp2" are near copies.
std::string CiCluster(const std::string& id) {
  std::string name = id.substr(0, id.find("-"));
  for (const char* tail : {"_resume", "_frozen", "_torch", "_dist", "_nondeterministic", "_dp_last",
                           "_no_mmap_bin_files", "_persistent"}) {
    name = name.substr(0, name.find(tail));
  }
  return "megatron-ci|" + name;
}

// Features whose memory Aurum does not follow.
std::string CiFeature(const std::string& name, const Row& a) {
  for (const char* part : {"llava", "fsdp", "zp_z3", "mtp", "muon", "reruns"}) {
    if (Contains(name, part)) return std::string("feature not simulated: ") + part;
  }
  if (a.Has("mtp-num-layers")) return "feature not simulated: multi-token prediction";
  if (a.Has("pipeline-model-parallel-layout") || a.Has("decoder-first-pipeline-num-layers") ||
      Contains(name, "uneven") || Contains(name, "account_for"))
    return "uneven pipeline layout, told in a form that is not read";
  if (Contains(name, "release") || Contains(a.Text("TEST_TYPE"), "release"))
    return "GPU count not told (release test)";
  return "";
}

std::int64_t RoundUp(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// "([0]*3+[1]*58)": three dense layers first.
std::int64_t DenseFirst(const std::string& frequency) {
  if (!frequency.starts_with("([0]*")) return 0;
  return FirstNumber(frequency, 5).value_or(0);
}

}  // namespace

void ReadMegatronArguments(const Row& a, Record* record) {
  ModelFacts& m = record->facts.model;
  PlanFacts& p = record->facts.plan;
  const auto flag = [&](std::string_view key) { return Lower(a.Text(key)) == "true"; };
  const auto whole = [&](std::string_view key, std::int64_t fallback) {
    return a.Whole(key).value_or(fallback);
  };

  p.tp = whole("tensor-model-parallel-size", 1);
  p.pp = whole("pipeline-model-parallel-size", 1);
  p.cp = whole("context-parallel-size", 1);
  p.ep = whole("expert-model-parallel-size", 1);
  p.expert_tp = a.Whole("expert-tensor-parallel-size");
  p.micro_batch = a.Whole("micro-batch-size");
  p.global_batch = a.Whole("global-batch-size");
  p.sequence_parallel = flag("sequence-parallel") && *p.tp > 1;
  p.zero = flag("use-distributed-optimizer") ? 1 : 0;
  p.recompute = a.Text("recompute-granularity");
  if (p.recompute.empty()) p.recompute = "none";  // Megatron-LM's default
  const bool engine = a.Text("transformer-impl") == "transformer_engine";
  p.attention = (engine || flag("use-flash-attn")) && a.Text("attention-backend") != "unfused"
                    ? "flash"
                    : "unfused";
  p.loss = flag("cross-entropy-loss-fusion")
               ? (a.Text("cross-entropy-fusion-impl") == "te" ? "te-fused" : "fused")
               : "plain";
  p.dropout = a.Real("attention-dropout").value_or(0.1) > 0;

  m.layers = a.Whole("num-layers");
  m.hidden = a.Whole("hidden-size");
  m.heads = a.Whole("num-attention-heads");
  m.sequence = a.Whole("seq-length");
  if (flag("group-query-attention")) m.kv_heads = a.Whole("num-query-groups");
  m.head_dim = a.Whole("kv-channels");
  m.gated = flag("swiglu");
  m.squared_relu = flag("squared-relu");
  m.intermediate = a.Whole("ffn-hidden-size");
  if (!m.intermediate && m.hidden) {
    // Megatron-LM: 4·h, or for SwiGLU two thirds of it in whole multiples of 64.
    m.intermediate = *m.gated ? *m.hidden * 8 / 3 / 64 * 64 : 4 * *m.hidden;
  }
  // GPT-2's 50,257 tokens unless told; padded so that every rank has a whole multiple.
  m.vocabulary =
      RoundUp(whole("vocab-size", 50257), whole("make-vocab-size-divisible-by", 128) * *p.tp);
  m.tied = !flag("untie-embeddings-and-output-weights");
  m.biased = !flag("disable-bias-linear");
  m.layer_norm = a.Text("normalization") != "RMSNorm";
  m.positions =
      a.Text("position-embedding-type") == "rope" ? 0 : whole("max-position-embeddings", 0);
  if (const auto experts = a.Whole("num-experts")) {
    MoeFacts moe;
    moe.experts = *experts;
    moe.experts_per_token = whole("moe-router-topk", 2);
    moe.expert_intermediate = whole("moe-ffn-hidden-size", m.intermediate.value_or(0));
    moe.shared_intermediate = whole("moe-shared-expert-intermediate-size", 0);
    moe.first_dense_layers = DenseFirst(a.Text("moe-layer-freq"));
    m.moe = moe;
  }
  if (flag("multi-latent-attention")) {
    LatentFacts latent;
    latent.q_rank = whole("q-lora-rank", 0);
    latent.kv_rank = whole("kv-lora-rank", 512);
    latent.nope_dim = whole("qk-head-dim", 128);
    latent.rope_dim = whole("qk-pos-emb-head-dim", 64);
    latent.value_dim = whole("v-head-dim", 128);
    m.latent = latent;
  }
  if (const auto chunk = a.Whole("num-layers-per-virtual-pipeline-stage");
      chunk && *chunk > 0 && m.layers && *p.pp > 0) {
    p.vpp = std::max<std::int64_t>(1, *m.layers / *p.pp / *chunk);
  } else {
    p.vpp = a.Whole("num-virtual-stages-per-pipeline-rank").value_or(1);
  }
  record->facts.precision = a.Has("fp8-format") ? "FP8" : flag("fp16") ? "FP16" : "BF16";
}

Record ReadMemoryRow(const Row& row, const JsonDocument* ci_arguments) {
  Record record;
  RecordFacts& facts = record.facts;
  facts.id = row.Text("id");
  facts.task = "pretrain";
  facts.quality = "A";
  const auto model = row.Object("model");
  const auto hardware = row.Object("hardware");
  const auto plan = row.Object("plan");
  const auto measured = row.Object("measured");
  if (hardware) {
    facts.hardware.gpu = hardware->Text("gpu");
    facts.hardware.gpus = hardware->Whole("num_gpus");
  }
  if (model) {
    facts.model.name = model->Text("name");
    facts.model.layers = model->Whole("layers");
    facts.model.hidden = model->Whole("hidden");
    facts.model.heads = model->Whole("heads");
    facts.model.kv_heads = model->Whole("kv_heads");
    facts.model.intermediate = model->Whole("ffn");
    facts.model.vocabulary = model->Whole("vocab");
    facts.model.sequence = model->Whole("seq_len");
    facts.model.gated = model->Bool("gated_mlp");
  }
  if (measured) {
    if (const auto bytes =
            measured->RealOf({"max_memory_allocated_bytes", "mem_max_allocated_bytes"})) {
      record.measured.peak_memory = *bytes;
      record.measured.memory_unit_bytes = 1;
    } else if (const auto gb = measured->Real("gpu_memory_gb")) {
      record.measured.peak_memory = *gb;
      record.measured.memory_unit_bytes = 1e9;
    }
    record.measured.iteration_s = measured->Real("iteration_s_median");
  }
  if (record.measured.Any()) record.measured.fits = true;

  if (facts.id.starts_with("mem-mlmci-")) {
    facts.source = "megatron-lm-ci";
    const std::string name = facts.id.substr(std::string("mem-mlmci-").size());
    facts.cluster = CiCluster(name);
    facts.hardware.gpus = 8;  // one node, unless it is a release test
    facts.hardware.gpus_per_node = 8;
    if (ci_arguments == nullptr) {
      facts.not_simulated = "the argument list is not told (megatron_ci_args.json is not beside)";
      return record;
    }
    const Row arguments(*ci_arguments, ci_arguments->root, "");
    const auto sources = arguments.Object("src");
    const auto lists = arguments.Object("args");
    const std::string list = sources ? sources->Text(facts.id) : "";
    const auto a = lists && !list.empty() ? lists->Object(list) : std::nullopt;
    if (!a) {
      facts.not_simulated = "the argument list of this test is not told";
      return record;
    }
    facts.not_simulated = CiFeature(name, *a);
    ReadMegatronArguments(*a, &record);
    return record;
  }

  PlanFacts& p = facts.plan;
  if (plan) {
    p.tp = plan->Whole("tp");
    p.pp = plan->Whole("pp");
    p.vpp = plan->Whole("vpp");
    p.cp = plan->Whole("cp");
    p.dp = plan->Whole("dp");
    p.zero = plan->Whole("zero_stage");
    p.micro_batch = plan->Whole("micro_batch");
    p.global_batch = plan->Whole("global_batch");
    p.accumulation = plan->Whole("grad_accum");
    p.sequence_parallel = plan->Bool("sp");
    p.recompute = plan->Text("recompute");
    p.offload_activations = plan->Real("activation_offload_ratio");
    if (plan->Bool("fsdp").value_or(false)) p.zero = 3;
  }
  if (facts.id.starts_with("mem-kwai")) {
    facts.source = "kwai-atc24";
    // "mem-kwai-65b-ours-0.00" → ours: with recomputation; no: without.
    facts.cluster = "kwai|" + (p.recompute == "none" ? std::string("plain") : "recompute");
    facts.hardware.gpus_per_node = 8;
  } else if (facts.id.starts_with("mem-internevo")) {
    facts.source = "internevo";
    facts.cluster = facts.id;
    if (!p.zero) p.zero = 1;
    if (facts.hardware.gpus)
      facts.hardware.gpus_per_node = std::min<std::int64_t>(8, *facts.hardware.gpus);
  } else if (facts.id.starts_with("mem-korthikanti")) {
    facts.source = "korthikanti-2022";
    facts.cluster = facts.id;
    facts.not_simulated = "components of a chart, no peak";
  } else {
    facts.source = "memory-other";
    facts.cluster = facts.id;
    facts.not_simulated = "batch, rank or sequence not told";
  }
  return record;
}

}  // namespace aurum
