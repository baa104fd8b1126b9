#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/study/published/fields.h"
#include "sim/study/published/record.h"

// Cases: problems that users of many tools reported, each with the plan keys of its own tool. What is
// common is read by spelling (micro_batch, mbs, batch, …); the families below add what their tables
// mean. A case that compares two or three plans gives one record each, tied by `set`.

namespace aurum {
namespace {

void ReadPlan(const Row& plan, RecordFacts* facts) {
  PlanFacts& p = facts->plan;
  p.tp = plan.WholeOf({"tp", "tensor_model_parallel_size"});
  p.pp = plan.WholeOf({"pp", "pipeline_model_parallel_size"});
  p.cp = plan.Whole("cp");
  p.ep = plan.WholeOf({"ep", "expert_model_parallel_size"});
  p.vpp = plan.Whole("vpp");
  p.dp = plan.Whole("dp");
  p.micro_batch = plan.WholeOf({"mbs", "micro_batch", "micro_batch_size", "local_batch", "bs",
                                "batch", "per_device_train_batch_size", "pp_mbs"});
  p.global_batch = plan.WholeOf({"gbs", "global_batch_size"});
  p.accumulation = plan.WholeOf({"grad_accum", "gradient_accumulation_steps", "ga"});
  p.zero = plan.Whole("zero");
  p.adapter_rank = plan.Whole("lora_rank");
  const Json* sequence_parallel = plan.value().Find("sp");
  if (sequence_parallel != nullptr && sequence_parallel->IsBool())
    p.sequence_parallel = sequence_parallel->AsBool();
  else
    p.sequence_parallel = plan.Bool("sequence_parallel");
  p.recompute = plan.TextOf({"recompute", "recompute_granularity", "recompute_modules"});
  if (const auto checkpointed = plan.Bool("grad_ckpt"))
    p.recompute = *checkpointed ? "full" : "none";
  if (plan.Bool("gradient_checkpointing") == false) p.recompute = "none";
  facts->model.sequence = plan.WholeOf({"seq", "max_length", "packed_seq"});
  facts->precision = plan.TextOf({"dtype", "torch_dtype"});
  facts->task = Lower(plan.TextOf({"method", "tuner_type", "task"}));
}

void ReadObserved(const Row& observed, RecordMeasured* measured) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const auto memory = [&](std::initializer_list<std::string_view> keys, double unit) {
    for (const std::string_view key : keys) {
      const auto value = observed.Figure(key);
      if (!value || measured->peak_memory) continue;
      measured->peak_memory = *value;
      measured->memory_unit_bytes = unit;
    }
  };
  memory({"peak_gib_per_gpu", "peak_active_gib", "peak_reserved_gib"}, kGib);
  memory({"mem_gb", "max_gpu_ram_gb", "gb_per_gpu", "peak_gb", "max_mem_gb", "rank0_peak_gb"}, 1e9);
  for (const char* key : {"s_per_iter", "s_per_step"}) {
    if (const auto seconds = observed.Figure(key)) measured->iteration_s = *seconds;
  }
  if (const auto milliseconds = observed.Figure("step_ms"))
    measured->iteration_s = *milliseconds * 1e-3;
  if (measured->peak_memory || measured->iteration_s) measured->fits = true;
  const std::string result = Lower(observed.TextOf({"result"}));
  if (Contains(result, "oom")) measured->fits = false;
  if (result == "ran" || result == "ok") measured->fits = true;
  const Json* verdict = observed.value().Find("fits_80gb");
  if (verdict != nullptr && verdict->IsBool()) measured->fits = verdict->AsBool();
  for (const char* key : {"gb_per_gpu", "mem_gb"}) {
    const Json* printed = observed.value().Find(key);
    if (printed != nullptr && printed->IsString() && printed->AsString() == "OOM")
      measured->fits = false;
  }
  if (measured->fits == false) {  // what an aborted run had allocated is not its peak
    measured->peak_memory.reset();
    measured->iteration_s.reset();
  }
}

// Runs over a number of samples, printed as one total.
void ReadTotal(const Row& plan, const Row& observed, Record* record) {
  const auto total = observed.Figure("total_s");
  const auto samples = plan.Whole("samples");
  if (!total || !samples || *total <= 0) return;
  record->measured.samples_per_s = static_cast<double>(*samples) / *total;
  if (!record->measured.fits) record->measured.fits = true;
}

// ms-swift's scripts; their memory stands in the header, rounded.
void ReadSwift(const Row& plan, Record* record) {
  RecordFacts& facts = record->facts;
  PlanFacts& p = facts.plan;
  const std::string deepspeed = Lower(plan.Text("deepspeed"));
  const bool megatron =
      deepspeed.empty() && (facts.id.starts_with("swift-megatron") || facts.id.ends_with("mcore") ||
                            facts.id.ends_with("mcore_full") || p.tp || p.ep);
  const bool packed = plan.Bool("packing").value_or(false);
  facts.source =
      std::string(megatron ? "ms-swift-megatron" : "ms-swift-hf") + (packed ? "" : "-unpacked");
  const std::string tuner = Lower(plan.Text("tuner_type"));
  if (!tuner.empty() && tuner != "full" && tuner != "lora")
    facts.not_simulated = "tuner '" + tuner + "' is not simulated";
  for (const char* part : {"galore", "lisa", "unsloth", "embedding", "reranker", "all_to_all",
                           "muon", "adalora", "mtp", "emu3", "device_map"}) {
    if (Contains(facts.id, part))
      facts.not_simulated = std::string("tuner, task or placement not simulated: ") + part;
  }
  const std::string rlhf = Lower(plan.Text("rlhf_type"));
  if (!rlhf.empty()) facts.not_simulated = "task with a reference or reward model: " + rlhf;
  facts.task = tuner == "lora" ? "lora" : "sft";
  if (Contains(facts.id, "dora")) facts.task = "dora";
  if (Contains(facts.id, "qlora")) facts.task = "qlora";
  if (tuner.empty() && !megatron) facts.not_simulated = "what is trained is not told";
  if (Contains(facts.model.name, "AWQ")) facts.precision = "int4 (gptq or awq)";
  if (!plan.Text("fp8_recipe").empty()) facts.precision = "fp8 block-scaled";
  if (Contains(deepspeed, "zero3") || !plan.Text("fsdp").empty())
    p.zero = 3;
  else if (Contains(deepspeed, "zero2"))
    p.zero = 2;
  const std::string attention = Lower(plan.TextOf({"attention_backend", "attn_impl"}));
  p.attention = attention == "eager" || attention == "unfused" ? "unfused"
                : attention.empty()                            ? ""
                                                               : "flash";
  if (plan.Bool("use_liger_kernel").value_or(false)) p.loss = "liger";
  if (plan.Bool("optimizer_cpu_offload").value_or(false))
    p.offload_optimizer = plan.Real("optimizer_offload_fraction").value_or(1.0);
  if (plan.Bool("freeze_vit").value_or(true)) p.frozen = "vision";
  facts.model.vision = plan.Has("freeze_vit");
  facts.multimodal = facts.model.vision;
  if (!p.recompute.empty() && Lower(plan.Text("recompute_method")) == "uniform")
    p.recompute = "full";
}

// torchtune's ladder: each step adds one technique to those before.
void ReadLadder(const Row& plan, const Row& observed, Record* record) {
  static const std::vector<std::string> kSteps = {"baseline",
                                                  "+packed",
                                                  "+compile",
                                                  "+chunked CE",
                                                  "+activation ckpt",
                                                  "+optimizer in bwd",
                                                  "+activation offload",
                                                  "+8bit AdamW",
                                                  "LoRA",
                                                  "QLoRA"};
  RecordFacts& facts = record->facts;
  facts.source = "torchtune";
  facts.cluster = "torchtune|3b-ladder";
  const std::string step = plan.Text("step");
  const auto at = std::find(kSteps.begin(), kSteps.end(), step) - kSteps.begin();
  facts.task = step == "LoRA" ? "lora" : step == "QLoRA" ? "qlora" : "full finetune";
  if (at == 0 || at == static_cast<std::ptrdiff_t>(kSteps.size())) {
    facts.not_simulated = "unpacked samples: their lengths are not told";
    return;
  }
  facts.plan.recompute = at >= 4 ? "full" : "none";
  facts.plan.loss = at >= 3 ? "chunked" : "plain";
  if (at >= 6) facts.plan.offload_activations = 1;
  if (at == 7) facts.plan.optimizer = "8bit";
  if (const auto tokens = observed.Figure("tokens_per_s"))
    record->measured.tokens_per_s_per_gpu = *tokens;  // one GPU
}

void ReadLitgpt(const Row& plan, Record* record) {
  RecordFacts& facts = record->facts;
  facts.source = facts.hardware.gpus == 1 ? "litgpt" : "litgpt-fsdp";
  const std::string quantised = Lower(plan.Text("quant"));
  facts.precision = quantised == "none" ? "bf16" : "bf16 + " + quantised;
  facts.task = quantised == "none" ? "lora" : "qlora";
  facts.plan.zero = facts.hardware.gpus == 1 ? 0 : 3;
  facts.cluster = "litgpt|" + facts.model.name + "|" + quantised + "|" +
                  std::to_string(facts.hardware.gpus.value_or(0));
}

void ReadFsdpQlora(const Row& plan, Record* record) {
  RecordFacts& facts = record->facts;
  facts.source = "fsdp-qlora";
  facts.plan.zero = plan.Text("strategy") == "DDP" ? 0 : 3;
  facts.plan.recompute = "full";  // the page's command: --use_gradient_checkpointing true
  const auto both = plan.Bool("cpu_and_act_offload").value_or(false);
  if (plan.Bool("cpu_offload").value_or(false) || both) facts.plan.offload_parameters = 1;
  if (both) facts.plan.offload_activations = 1;
  if (facts.task == "qlora") facts.precision = "nf4 base + bf16";
  facts.cluster = "fsdp-qlora|" + facts.model.name + "|" + facts.task + "|" + plan.Text("strategy");
}

void ReadQwen(const Row& plan, Record* record) {
  RecordFacts& facts = record->facts;
  facts.source = "qwen-finetune";
  facts.cluster = "qwen-finetune|" + facts.model.name + "|" + facts.task;
  if (Contains(facts.task, "zero3")) facts.plan.zero = 3;
  if (Contains(facts.task, "(emb)"))
    facts.task = "lora + emb";
  else if (Contains(facts.task, "qlora"))
    facts.task = "qlora";
  else
    facts.task = "lora";
  if (facts.task == "qlora") facts.precision = "int4 (gptq) base + fp16";
  if (Contains(plan.Text("method"), "sum of 4 GPUs") && record->measured.peak_memory)
    record->measured.peak_memory = *record->measured.peak_memory / 4;
}

// Two or more plans of one case.
using Change = std::function<void(RecordFacts*)>;
struct Side {
  std::string name;
  Change change;
  std::optional<double> iteration_s, tokens_per_s_per_gpu, peak_gb;
  bool fits = true;
};

std::vector<Record> Sides(const Record& base, const std::vector<Side>& sides) {
  std::vector<Record> records;
  for (const Side& side : sides) {
    Record record = base;
    record.facts.set = base.facts.id;
    record.facts.id = base.facts.id + "/" + side.name;
    side.change(&record.facts);
    record.measured = {};
    record.measured.iteration_s = side.iteration_s;
    record.measured.tokens_per_s_per_gpu = side.tokens_per_s_per_gpu;
    record.measured.peak_memory = side.peak_gb;
    record.measured.memory_unit_bytes = 1e9;
    record.measured.fits = side.fits;
    records.push_back(std::move(record));
  }
  return records;
}

std::vector<Record> Compared(const Row& plan, const Row& observed, const Record& base) {
  const std::string& id = base.facts.id;
  if (id.starts_with("torchtitan-asynctp")) {
    const auto overlap = [](bool on) {
      return [on](RecordFacts* f) { f->plan.tensor_parallel_overlap = on; };
    };
    Record titan = base;
    titan.facts.source = "torchtitan";
    titan.facts.cluster = id;
    titan.facts.plan.zero = 3;
    titan.facts.plan.dp = plan.Whole("fsdp");
    titan.facts.plan.sequence_parallel = true;
    titan.facts.precision = plan.Text("quant");
    return Sides(
        titan,
        {{"vanilla", overlap(false), {}, observed.Figure("tokens_per_s_per_gpu_vanilla_tp"), {}},
         {"async", overlap(true), {}, observed.Figure("tokens_per_s_per_gpu_async_tp"), {}}});
  }
  if (id == "issue-lf-3499") {
    const auto stage = [](std::int64_t zero) {
      return [zero](RecordFacts* f) {
        f->plan.zero = zero;
        f->task = "lora";
      };
    };
    const auto step = [&](const char* key) -> std::optional<double> {
      const auto seconds = observed.Figure(key);  // of 20 steps
      return seconds ? std::optional(*seconds / 20) : std::nullopt;
    };
    return Sides(base, {{"zero2", stage(2), step("s_20_steps_zero2"), {}, {}},
                        {"zero3", stage(3), step("s_20_steps_zero3"), {}, {}}});
  }
  if (id == "issue-mllama-27") {
    const auto times = observed.Object("ms");
    const auto seconds = [&](const char* key) -> std::optional<double> {
      const auto ms = times ? times->Figure(key) : std::nullopt;
      return ms ? std::optional(*ms * 1e-3) : std::nullopt;
    };
    const auto micro = [](std::int64_t samples) {
      return [samples](RecordFacts* f) { f->plan.micro_batch = samples; };
    };
    return Sides(base, {{"distributed-mbs2", micro(2), seconds("dist"), {}, {}},
                        {"overlapped-mbs4", micro(4), seconds("ovl"), {}, {}}});
  }
  if (id == "issue-llava-394") {
    const auto plan_of = [](std::int64_t gpus, std::int64_t zero, std::int64_t micro) {
      return [=](RecordFacts* f) {
        f->hardware.gpus = f->hardware.gpus_per_node = gpus;
        f->plan.zero = zero;
        f->plan.micro_batch = micro;
        f->multimodal = false;  // whatever the media, sequences are cut at 2,048 tokens
        f->set.clear();
      };
    };
    return Sides(base, {{"no-deepspeed-4gpu", plan_of(4, 0, 16), {}, {}, {}, false},
                        {"zero3-8gpu", plan_of(8, 3, 4), {}, {}, {}, true}});
  }
  if (id == "issue-swift-1726") {
    const auto model = [](const char* name) {
      return [=](RecordFacts* f) {
        f->model.name = name;
        f->plan.zero = 0;
        f->set.clear();
      };
    };
    return Sides(base, {{"8b", model("InternVL2-8B"), {}, {}, {}, false}});
  }
  if (id.starts_with("issue-thunder-474")) {
    const auto on = [](std::int64_t gpus) {
      return [gpus](RecordFacts* f) {
        f->hardware.gpus = gpus;
        f->hardware.gpus_per_node = gpus;
        f->plan.zero = gpus == 1 ? 0 : 3;
        f->plan.recompute = "none";
        f->set.clear();
      };
    };
    Record thunder = base;
    thunder.facts.source = "thunder-474";
    thunder.facts.cluster = "thunder-474";
    thunder.facts.model.layers =
        FirstNumber(base.facts.model.name, base.facts.model.name.find("cut to"));
    return Sides(thunder, {{"1gpu", on(1), {}, {}, observed.Figure("gb_1gpu_inductor")},
                           {"zero3", on(8), {}, {}, observed.Figure("gb_zero3_inductor")}});
  }
  return {};
}

}  // namespace

std::vector<Record> ReadCase(const Row& row) {
  Record record;
  RecordFacts& facts = record.facts;
  facts.id = row.Text("id");
  facts.group = row.Text("group");
  facts.quality = row.Text("tier");
  facts.cluster = facts.id;
  facts.source = "case-" + facts.id.substr(0, facts.id.find('-'));
  facts.multimodal = facts.group == "multimodal";
  if (const auto model = row.Object("model")) {
    facts.model.name = model->Text("name");
    facts.model.layers = model->WholeOf({"layers", "num_blocks"});
    facts.model.hidden = model->Whole("hidden");
    facts.model.heads = model->WholeOf({"heads", "attn_heads"});
    facts.model.kv_heads = model->Whole("kv_heads");
    facts.model.intermediate = model->WholeOf({"ffn", "feedforward"});
    facts.model.vocabulary = model->Whole("vocab");
  }
  std::optional<std::int64_t> sequence;
  if (const auto model = row.Object("model")) sequence = model->Whole("seq_size");
  if (const auto hardware = row.Object("hardware")) {
    facts.hardware.gpu = hardware->Text("gpu");
    facts.hardware.gpus = hardware->Whole("gpus");
    facts.hardware.gpus_per_node = hardware->Whole("gpus_per_node");
    facts.hardware.intranode = hardware->Text("intra");
    facts.hardware.internode = hardware->TextOf({"inter", "nics"});
  }
  const auto plan = row.Object("plan");
  const auto observed = row.Object("observed");
  if (!plan || !observed) {
    row.Fail(861, plan ? "observed" : "plan", "a case has a plan and what was observed",
             "objects \"plan\" and \"observed\"");
  }
  ReadPlan(*plan, &facts);
  if (!facts.model.sequence) facts.model.sequence = sequence;
  ReadObserved(*observed, &record.measured);
  ReadTotal(*plan, *observed, &record);

  const std::string& id = facts.id;
  if (facts.group == "network") facts.not_simulated = "no training step: a network measurement";
  if (facts.group == "simulator") facts.not_simulated = "about another simulator";
  if (id.starts_with("swift-qwen25-14b")) {
    const std::string framework = plan->Text("framework");
    facts.source = framework == "Megatron" ? "ms-swift-megatron" : "ms-swift-hf";
    facts.set = "swift-qwen25-14b";
    facts.task = "sft";
    facts.plan.zero = framework == "ZeRO2" ? 2 : framework == "ZeRO3" ? 3 : 1;
  } else if (id.starts_with("swift-")) {
    ReadSwift(*plan, &record);
  } else if (id.starts_with("torchtune-3b-ladder")) {
    ReadLadder(*plan, *observed, &record);
  } else if (id.starts_with("torchtune-")) {
    facts.source = "torchtune";
    if (facts.task == "qlora") facts.precision = "nf4 base + bf16";
    if (const auto tokens = observed->Figure("tokens_per_s"); tokens && facts.hardware.gpus)
      record.measured.tokens_per_s_per_gpu = *tokens / static_cast<double>(*facts.hardware.gpus);
  } else if (id.starts_with("litgpt-")) {
    ReadLitgpt(*plan, &record);
  } else if (id.starts_with("fsdpqlora-")) {
    ReadFsdpQlora(*plan, &record);
  } else if (id.starts_with("qwen-")) {
    ReadQwen(*plan, &record);
  } else if (id.starts_with("ao-lowbit")) {
    facts.source = "torchao";
    facts.plan.optimizer = plan->Text("optimizer");
  } else if (id.starts_with("issue-ds-3901")) {
    const std::string strategy = plan->Text("strategy");
    facts.source = strategy == "fsdp" ? "case-falcon-fsdp" : "case-falcon-deepspeed";
    facts.cluster = "issue-ds-3901";
    facts.plan.zero = strategy.starts_with("z2") ? 2 : 3;
    if (Contains(strategy, "off-all")) facts.plan.offload_optimizer = 1;
    if (strategy == "z3-off-all" || Contains(strategy, "off-param"))
      facts.plan.offload_parameters = 1;
    facts.task = "full finetune";
  } else if (std::vector<Record> compared = Compared(*plan, *observed, record); !compared.empty()) {
    return compared;
  }
  return {record};
}

}  // namespace aurum
