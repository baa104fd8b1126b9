#include "sim/launch/launch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sim/launch/parts.h"
#include "sim/plan/split.h"
#include "sim/study/document_head.h"
#include "sim/study/evaluate.h"

namespace aurum {
namespace {

constexpr const char* kNames[] = {"megatron", "deepspeed", "torchtitan", "accelerate"};
constexpr const char* kVersions[] = {"Megatron-LM, megatron-core 0.15", "DeepSpeed 0.18",
                                     "torchtitan 0.2.1", "Accelerate 1.11"};

std::string Lower(bool value) { return value ? "true" : "false"; }

void CheckEncoders(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  for (std::size_t i = 0; i + 1 < plan.modules.size(); ++i) {
    const ModulePlan& part = plan.modules[i];
    const std::string key = KeyOf(*s.model, i);
    if (part.placement != Placement::kFirstStage) {
      gaps->RefusePlan(key + ".placement = " + PlacementName(part.placement),
                       "encoders run on the first stage's ranks there",
                       key + ".placement = first_stage");
    }
    if (part.micro_batch_size != 0 && part.micro_batch_size != plan.micro_batch_size) {
      gaps->RefusePlan(key + ".micro_batch_size = " + std::to_string(part.micro_batch_size),
                       "an encoder has the backbone's micro-batches there",
                       "remove " + key + ".micro_batch_size");
    }
    if (SplitsTokens(part) && part.tp > 1) {
      gaps->RefusePlan(key + ".split = tokens", "an encoder's tokens are not shared out there",
                       key + ".split = hidden");
    }
  }
}

void CheckWorkload(const Scenario& s, Gaps* gaps) {
  const Workload& w = s.workload;
  if (w.task != Task::kTrain) {
    gaps->RefuseWorkload("its task is not training, and a launch trains", "workload.task = train");
  }
  if (w.packing.policy != PackingPolicy::kNone) {
    gaps->Program("samples packed into rows of " + std::to_string(w.packing.max_tokens) +
                  " tokens, attention inside of each");
  }
  if (w.bucketing != Bucketing::kNone) gaps->Program("rows bucketed by length or modality");
  if (w.balance != Balance::kNone) gaps->Program("rows balanced over the replicas");
  if (w.resolution.policy != ResolutionPolicy::kNative) gaps->Program("images resized beforehand");
}

void CheckImposed(const Scenario& s, Gaps* gaps) {
  const WhatIf& w = s.what_if;
  if (w.flops_per_token || w.comm_bw_bytes_per_s || w.align_ratio || w.nvlink_factor != 1 ||
      w.pcie_factor != 1 || w.network_factor != 1 || w.gemm_speedup != 1 ||
      w.attention_speedup != 1 || w.memory_speedup != 1)
    gaps->Imposed("what_if");
  if (!s.faults.told.empty()) gaps->Imposed("faults");
  if (s.variation.seeds > 0) gaps->Imposed("variation");
  if (!s.pools.empty()) gaps->Imposed("pools: the nodes with other devices must be there");
  if (s.plan.expert_imbalance != 1 || s.plan.routing)
    gaps->Imposed("the imbalance of experts: the router's own will show");
  if (s.plan.dropped_tokens > 0) gaps->Imposed("dropped tokens");
}

}  // namespace

std::string FrameworkName(Framework framework) {
  return kNames[static_cast<std::size_t>(framework)];
}
std::string FrameworkVersion(Framework framework) {
  return kVersions[static_cast<std::size_t>(framework)];
}
const std::vector<Framework>& AllFrameworks() {
  static const std::vector<Framework> all = {Framework::kMegatron, Framework::kDeepSpeed,
                                             Framework::kTorchtitan, Framework::kAccelerate};
  return all;
}
std::optional<Framework> FrameworkByName(std::string_view name) {
  for (const Framework framework : AllFrameworks()) {
    if (name == FrameworkName(framework)) return framework;
  }
  return std::nullopt;
}

void Arguments::Set(const std::string& name, const std::vector<std::string>& values) {
  lines_.push_back({name});
  lines_.back().insert(lines_.back().end(), values.begin(), values.end());
}
std::vector<std::string> Arguments::Words() const {
  std::vector<std::string> words;
  for (const auto& line : lines_) words.insert(words.end(), line.begin(), line.end());
  return words;
}
std::string Arguments::ShellLines() const {
  std::string text;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    text += "   ";
    for (const std::string& word : lines_[i]) text += " " + ShellWord(word);
    text += i + 1 < lines_.size() ? " \\\n" : "\n";
  }
  return text;
}

std::string ShellWord(const std::string& word) {
  if (word.compare(0, 2, "${") == 0) return "\"" + word + "\"";
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-_=./:,+@%") == std::string::npos;
  return plain ? word : "'" + word + "'";
}

std::string Number(double value) {
  for (int digits = 1; digits <= 17; ++digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::stod(text) == value) return text;
  }
  return std::to_string(value);
}

// A name stays within the comment that it stands in.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

std::string Banner(const Scenario& s, Framework framework, const std::vector<std::string>& settable,
                   const std::string& comment) {
  std::string text =
      comment + "Written by Aurum for " + FrameworkVersion(framework) + ".\n" + comment +
      "Scenario: " + OneLine(s.name.empty() ? s.model->name + " on " + s.cluster->name : s.name) +
      " (" + std::to_string(s.cluster->GpuCount()) + " x " + OneLine(s.cluster->gpu.name) + ").\n" +
      comment + "Plan: " + DescribePlan(s.plan) + "; " + DescribeRecipe(s.plan);
  text += "\n";
  for (const std::string& line : settable) text += comment + line + "\n";
  return text;
}

std::string ScriptHead(const Scenario& s, Framework framework,
                       const std::vector<std::string>& settable) {
  return "#!/bin/bash\n" + Banner(s, framework, settable) + "set -euo pipefail\n";
}

const char* HereLine() { return "here=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\n"; }

std::string Torchrun(const Cluster& cluster) {
  std::string text = "torchrun --nproc-per-node " + std::to_string(cluster.gpus_per_node);
  if (cluster.nodes == 1) return text + " --standalone \\\n";
  return text + " --nnodes " + std::to_string(cluster.nodes) +
         " \\\n    --node-rank \"${NODE_RANK:?of this node, from 0}\""
         " --master-addr \"${MASTER_ADDR:?the first node}\" --master-port "
         "\"${MASTER_PORT:-29500}\" \\\n";
}

std::int64_t FixedLength(const Scenario& s) {
  if (s.workload.packing.policy != PackingPolicy::kNone) return s.workload.packing.max_tokens;
  if (s.workload.Uneven()) return 0;
  return static_cast<std::int64_t>(std::ceil(s.sample.backbone_tokens - 1e-9));
}

std::string StepsText(const Scenario& s) {
  if (!s.target) return "${STEPS:-50}";
  return std::to_string(static_cast<std::int64_t>(std::ceil(s.target->Steps() - 1e-9)));
}

bool EvenStages(const Plan& plan) {
  return std::all_of(plan.layers_per_stage.begin(), plan.layers_per_stage.end(),
                     [&](int layers) { return layers == plan.layers_per_stage.front(); });
}

bool TextOnly(const Model& model) { return model.modules.size() == 1; }

std::string KeyOf(const Model& model, std::size_t module) {
  return "plan." + model.modules[module].name;
}

std::string FrozenNames(const Scenario& s) {
  std::string names;
  for (std::size_t i = 0; i < s.plan.modules.size(); ++i) {
    const bool backbone = i + 1 == s.plan.modules.size();
    if (!s.plan.modules[i].frozen || (backbone && s.plan.adapter.kind != AdapterKind::kNone))
      continue;
    names += (names.empty() ? "" : ", ") + s.model->modules[i].name;
  }
  return names;
}

void CheckShared(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  CheckWorkload(s, gaps);
  CheckEncoders(s, gaps);
  CheckImposed(s, gaps);
  for (const Scenario::Input& input : s.inputs) {
    if (input.role == "prune") gaps->Program("the pruned model (" + input.name + ")");
  }
  for (std::size_t i = 0; i < plan.modules.size(); ++i) {
    if (!plan.modules[i].compression.Any()) continue;
    gaps->RefusePlan(KeyOf(*s.model, i) + ".gradient_compression", "it sends whole gradients",
                     "remove gradient_compression");
  }
  // With one stage a schedule says in which order its micro-batches and chunks go.
  if (plan.pp == 1 && plan.StageCount() == 1 &&
      (plan.vpp > 1 || plan.schedule != ScheduleKind::k1F1B)) {
    gaps->RefusePlan(
        "plan.schedule = " + std::string(ScheduleName(plan.schedule)) + " with one stage",
        "a micro-batch goes forward and backward before the next one there",
        "plan.schedule = 1f1b without vpp");
  }
  if (plan.modality_barrier) {
    gaps->RefusePlan("plan.modality_barrier = true", "it knows no barrier between modules",
                     "plan.modality_barrier = false");
  }
  if (plan.adapter.kind == AdapterKind::kPrompt || plan.adapter.per_modality) {
    gaps->RefusePlan("plan.adapter",
                     "it has neither learned prompts nor adapters routed by modality",
                     "plan.adapter.kind = lora without per_modality");
  }
  const auto named = [&](const char* key, CollectiveAlgorithm algorithm) {
    if (algorithm == CollectiveAlgorithm::kAuto) return;
    gaps->Decides(std::string("plan.collectives.") + key + " = " +
                  CollectiveAlgorithmName(algorithm) + " (NCCL chooses)");
  };
  named("tensor_parallel", plan.tensor_parallel_algorithm);
  named("data_parallel", plan.data_parallel_algorithm);
  named("expert_parallel", plan.expert_parallel_algorithm);
  if (plan.expert_buffer_bytes > 0) gaps->Decides("plan.backbone.expert_buffer_mb");
}

void CheckWholeLayers(const Scenario& s, Gaps* gaps) {
  const Recompute& r = s.plan.recompute;
  if (r.scope == RecomputeScope::kSelective) {
    gaps->RefusePlan("plan.recompute = selective", "it recomputes every layer or none",
                     "plan.recompute = full, or none");
  } else if (r.scope == RecomputeScope::kFull && r.layers >= 0) {
    gaps->RefusePlan("plan.recompute.layers = " + std::to_string(r.layers),
                     "it recomputes every layer or none", "remove plan.recompute.layers");
  } else if (r.scope == RecomputeScope::kFull && r.block_layers > 1) {
    gaps->RefusePlan("plan.recompute.block_layers = " + std::to_string(r.block_layers),
                     "its blocks are single layers", "remove plan.recompute.block_layers");
  }
}

Arguments TrainerArguments(const Scenario& s, bool recompute, Gaps* gaps) {
  const Plan& plan = s.plan;
  Arguments a;
  a.Set("--per_device_train_batch_size", plan.micro_batch_size);
  a.Set("--gradient_accumulation_steps", plan.micro_batches);
  if (plan.precision != Precision::kFp32)
    a.Set(plan.precision == Precision::kFp16 ? "--fp16" : "--bf16", "true");
  a.Set("--gradient_checkpointing", Lower(recompute));
  switch (plan.optimizer) {
    case OptimizerKind::kAdam:
      a.Set("--optim", "adamw_torch_fused");
      break;
    case OptimizerKind::kAdam8bit:
      a.Set("--optim", "adamw_bnb_8bit");
      break;
    case OptimizerKind::kAdam4bit:
      a.Set("--optim", "adamw_torch_4bit");
      break;
    case OptimizerKind::kSgd:
      a.Set("--optim", "sgd");
      break;
  }
  a.Set("--max_steps", StepsText(s));
  a.Set("--learning_rate", "${LR:-1e-5}");
  a.Set("--output_dir", "${OUTPUT_DIR:-output}");
  gaps->Program(
      "TRAIN_SCRIPT, which loads model and data and takes transformers.TrainingArguments; LR");
  if (const std::string frozen = FrozenNames(s); !frozen.empty())
    gaps->Program("freezing of " + frozen);
  if (plan.adapter.kind == AdapterKind::kLora || plan.adapter.kind == AdapterKind::kDora) {
    std::string targets;
    for (const std::string& target : plan.adapter.targets)
      targets += (targets.empty() ? "" : ", ") + target;
    std::string text = std::string(plan.adapter.kind == AdapterKind::kLora ? "LoRA" : "DoRA") +
                       " of rank " + std::to_string(plan.adapter.rank) + " on " + targets;
    if (plan.adapter.base != QuantisedBase::kNone)
      text += " over weights in " + QuantisedBaseName(plan.adapter.base);
    gaps->Program(text);
  }
  switch (plan.attention) {
    case AttentionKernel::kStack:
      break;
    case AttentionKernel::kUnfused:
      gaps->Program("attn_implementation = eager when the model is loaded");
      break;
    case AttentionKernel::kFlash1:
    case AttentionKernel::kFlash2:
    case AttentionKernel::kFlash3:
      gaps->Program("attn_implementation = flash_attention_2 or _3 when the model is loaded");
      break;
  }
  if (!plan.loss.empty()) gaps->Program("the loss kernel '" + plan.loss + "'");
  return a;
}

namespace {

LaunchText EmitAs(const Scenario& s, Framework framework, Gaps* gaps) {
  CheckShared(s, gaps);
  switch (framework) {
    case Framework::kMegatron:
      return EmitMegatron(s, gaps);
    case Framework::kDeepSpeed:
      return EmitDeepSpeed(s, gaps);
    case Framework::kTorchtitan:
      return EmitTorchtitan(s, gaps);
    case Framework::kAccelerate:
      return EmitAccelerate(s, gaps);
  }
  return {};
}

}  // namespace

LaunchText Emit(const Scenario& s, Framework framework) {
  Gaps gaps(framework);
  LaunchText launch = EmitAs(s, framework, &gaps);
  if (gaps.Refused()) {
    std::vector<Framework> others;
    for (const Framework other : AllFrameworks()) {
      if (other == framework) continue;
      Gaps of_other(other);
      EmitAs(s, other, &of_other);
      if (!of_other.Refused()) others.push_back(other);
    }
    gaps.ThrowIfRefused(others);
  }
  launch.framework = framework;
  launch.warnings = gaps.Warnings();
  return launch;
}

Json LaunchJson(const LaunchText& launch, const Scenario& s, const std::string& tool_version) {
  Json out = Json::Object();
  out.Set("schema", "aurum.launch/1");
  out.Set("tool_version", tool_version);
  out.Set("name", s.name);
  out.Set("inputs", InputsJson(s.inputs));
  out.Set("warnings", WarningsJson(launch.warnings));
  out.Set("framework", FrameworkName(launch.framework));
  out.Set("version", FrameworkVersion(launch.framework));
  out.Set("gpus", s.cluster->GpuCount());
  Json arguments = Json::Array();
  for (const std::string& word : launch.arguments) arguments.Append(word);
  out.Set("arguments", std::move(arguments));
  Json files = Json::Array();
  for (const LaunchFile& file : launch.files) {
    Json entry = Json::Object();
    entry.Set("name", file.name);
    entry.Set("executable", file.executable);
    entry.Set("text", file.text);
    files.Append(std::move(entry));
  }
  out.Set("files", std::move(files));
  return out;
}

}  // namespace aurum
