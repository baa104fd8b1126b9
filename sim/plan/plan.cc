#include "sim/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

// "1, 2, 4 or 8": the values in [1, limit] that pass.
template <typename Passes>
std::string Choices(int limit, Passes passes) {
  std::vector<int> good;
  for (int i = 1; i <= limit; ++i) {
    if (passes(i)) good.push_back(i);
  }
  std::string text;
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (i > 0) text += i + 1 == good.size() ? " or " : ", ";
    text += std::to_string(good[i]);
  }
  return text;
}

// Heads, key/value heads (sharded or replicated evenly) and MLP widths of every layer.
bool HeadsDivide(const Module& module, int tp) {
  for (const LayerRun& run : module.runs) {
    const Attention& a = run.layer.attention;
    if (a.heads % tp != 0) return false;
    if (a.kv_heads > 0 && a.kv_heads % tp != 0 && tp % a.kv_heads != 0) return false;
  }
  return true;
}
bool MlpDivides(const Module& module, int tp) {
  for (const LayerRun& run : module.runs) {
    const Mlp& m = run.layer.mlp;
    if (m.intermediate % tp != 0 || m.expert_intermediate % tp != 0 ||
        m.shared_intermediate % tp != 0)
      return false;
  }
  return true;
}
int Heads(const Module& module) {
  return module.runs.empty() ? 0 : module.runs.front().layer.attention.heads;
}

[[noreturn]] void Infeasible(const ObjectReader& reader, int code, std::string_view key,
                             std::string message, std::string help, std::string note = "") {
  reader.Fail(code, key, std::move(message), std::move(help), std::move(note),
              ExitCode::kInfeasible);
}

void Warn(const ObjectReader& reader, int code, std::string_view key, std::string message,
          std::string help, std::vector<Diagnostic>* warnings) {
  if (warnings == nullptr) return;
  Diagnostic d;
  d.code = code;
  d.warning = true;
  d.message = std::move(message);
  d.help = std::move(help);
  const Json* at = reader.value().Find(key);
  d.where =
      reader.document().Locate(at == nullptr ? reader.value() : *at,
                               reader.pointer() + (key.empty() ? "" : "/" + std::string(key)));
  warnings->push_back(std::move(d));
}

void CheckTensorParallel(const ObjectReader& at, const Module& module, int tp, int gpus) {
  if (tp > 1 && !HeadsDivide(module, tp)) {
    const int kv = module.runs.front().layer.attention.kv_heads;
    Infeasible(at, 311, "tp",
               "tp = " + std::to_string(tp) + " does not divide the " +
                   std::to_string(Heads(module)) + " attention heads (" + std::to_string(kv) +
                   " of keys and values) of '" + module.name + "'",
               "tp = " + Choices(std::min({Heads(module), 64, gpus}), [&](int t) {
                 return HeadsDivide(module, t) && MlpDivides(module, t);
               }));
  }
  if (tp > 1 && !MlpDivides(module, tp)) {
    Infeasible(
        at, 323, "tp",
        "tp = " + std::to_string(tp) + " does not divide the MLP width of '" + module.name + "'",
        "tp = " + Choices(std::min(64, gpus),
                          [&](int t) { return HeadsDivide(module, t) && MlpDivides(module, t); }));
  }
}

const std::vector<std::string> kShardings = {"ddp", "zero1", "fsdp"};
const std::vector<std::string> kRecomputes = {"none", "selective", "full"};

}  // namespace

std::string ShardingName(Sharding sharding) {
  return kShardings[static_cast<std::size_t>(sharding)];
}

std::string RecomputeName(Recompute recompute) {
  return kRecomputes[static_cast<std::size_t>(recompute)];
}

Plan ReadPlan(ObjectReader reader, const Model& model, const Cluster& cluster,
              const Workload& workload, std::vector<Diagnostic>* warnings) {
  Plan plan;
  plan.micro_batch_size = reader.IntegerOr("micro_batch_size", 1, 1, 1'000'000);
  if (const Json* given = reader.value().Find("sharding"); given != nullptr && given->IsString()) {
    if (given->AsString() == "zero3") {
      reader.Fail(108, "sharding",
                  "ZeRO-3 is written 'fsdp' here: both shard parameters, gradients and optimizer",
                  "sharding = fsdp");
    }
    if (given->AsString() == "zero2") {
      reader.Fail(108, "sharding", "ZeRO-2 is not simulated",
                  "sharding = zero1 (optimizer sharded) or fsdp (everything sharded) stand on "
                  "either side of it");
    }
  }
  plan.sharding = static_cast<Sharding>(reader.ChoiceOr("sharding", 1, kShardings));
  plan.recompute = static_cast<Recompute>(reader.ChoiceOr("recompute", 0, kRecomputes));
  reader.ChoiceOr("schedule", 0, {"1f1b"});
  if (auto collectives = reader.ObjectIf("collectives")) {
    std::vector<std::string> names{"auto"};
    for (const CollectiveAlgorithm algorithm : NamedAlgorithms())
      names.push_back(CollectiveAlgorithmName(algorithm));
    const auto read = [&](const char* key) {
      return CollectiveAlgorithmByName(names[collectives->ChoiceOr(key, 0, names)]);
    };
    plan.tensor_parallel_algorithm = read("tensor_parallel");
    plan.data_parallel_algorithm = read("data_parallel");
    plan.in_network_reduction = collectives->BoolOr("in_network_reduction", false);
    collectives->Finish();
  }
  plan.precision =
      reader.ChoiceOr("precision", 0, {"bf16", "fp16"}) == 0 ? DType::kBf16 : DType::kFp16;
  if (auto overlap = reader.ObjectIf("overlap")) {
    plan.overlap_gradient_reduce = overlap->BoolOr("gradient_reduce", true);
    plan.overlap_parameter_gather = overlap->BoolOr("parameter_gather", true);
    overlap->Finish();
  }

  const Module& backbone = model.Backbone();
  plan.modules.resize(model.modules.size());
  ObjectReader at_backbone = reader;
  if (auto part = reader.ObjectIf(backbone.name)) {
    at_backbone = *part;
    plan.tp = static_cast<int>(part->IntegerOr("tp", 1, 1, 1024));
    plan.pp = static_cast<int>(part->IntegerOr("pp", 1, 1, 1024));
    plan.sequence_parallel = part->BoolOr("sequence_parallel", plan.tp > 1);
    if (part->Has("layers_per_stage")) {
      for (const std::int64_t layers : part->Integers("layers_per_stage", 1, 100'000)) {
        plan.layers_per_stage.push_back(static_cast<int>(layers));
      }
    }
    part->Finish();
  }
  CheckTensorParallel(at_backbone, backbone, plan.tp, cluster.GpuCount());

  const int gpus = cluster.GpuCount();
  const int model_parallel = plan.tp * plan.pp;
  if (gpus % model_parallel != 0) {
    const bool other = plan.pp > 1 && gpus % plan.tp == 0;
    const std::string key = other ? "pp" : "tp";
    std::string help;
    if (other) {
      help = "pp = " + Choices(std::min(gpus / plan.tp, backbone.Layers()), [&](int p) {
               return gpus % (plan.tp * p) == 0 && backbone.Layers() % p == 0;
             });
    } else {
      help = "tp = " + Choices(std::min(gpus, 64), [&](int t) {
               return gpus % t == 0 && HeadsDivide(backbone, t) && MlpDivides(backbone, t);
             });
    }
    help += ", or a cluster whose GPUs are a multiple of " + std::to_string(model_parallel);
    Infeasible(at_backbone, 312, key,
               "tp·pp = " + std::to_string(model_parallel) + " does not divide the " +
                   std::to_string(gpus) + " GPUs of cluster '" + cluster.name + "'",
               help, "tp = " + std::to_string(plan.tp) + ", pp = " + std::to_string(plan.pp));
  }
  plan.dp = gpus / model_parallel;
  if (plan.layers_per_stage.empty()) {
    if (backbone.Layers() % plan.pp != 0) {
      Infeasible(at_backbone, 313, "pp",
                 "pp = " + std::to_string(plan.pp) + " does not divide the " +
                     std::to_string(backbone.Layers()) + " layers of the backbone",
                 "pp = " + Choices(backbone.Layers(), [&](int p) {
                   return backbone.Layers() % p == 0 && gpus % (plan.tp * p) == 0;
                 }) + ", or say how to split them: layers_per_stage");
    }
    plan.layers_per_stage.assign(static_cast<std::size_t>(plan.pp), backbone.Layers() / plan.pp);
  }
  const std::int64_t listed =
      std::accumulate(plan.layers_per_stage.begin(), plan.layers_per_stage.end(), std::int64_t{0});
  if (static_cast<int>(plan.layers_per_stage.size()) != plan.pp || listed != backbone.Layers()) {
    Infeasible(at_backbone, 313, "layers_per_stage",
               "layers_per_stage has " + std::to_string(plan.layers_per_stage.size()) +
                   " stages and " + std::to_string(listed) + " layers; the plan has " +
                   std::to_string(plan.pp) + " stages, the backbone " +
                   std::to_string(backbone.Layers()) + " layers",
               "give pp numbers that sum to the layers of the backbone");
  }

  const std::int64_t per_round = plan.dp * plan.micro_batch_size;
  if (workload.global_batch_size % per_round != 0) {
    const std::int64_t batch = workload.global_batch_size;
    std::string help = "global_batch_size = " + std::to_string((batch / per_round + 1) * per_round);
    if (batch % plan.dp == 0) {
      std::int64_t fitting = plan.micro_batch_size;
      while ((batch / plan.dp) % fitting != 0) --fitting;
      help += ", or micro_batch_size = " + std::to_string(fitting);
    }
    Infeasible(reader, 314, "micro_batch_size",
               "global_batch_size = " + std::to_string(batch) +
                   " is not a multiple of dp · micro_batch_size = " + std::to_string(plan.dp) +
                   " · " + std::to_string(plan.micro_batch_size),
               help, "dp = " + std::to_string(gpus) + " GPUs / (tp · pp)");
  }
  plan.micro_batches = workload.global_batch_size / per_round;

  for (std::size_t i = 0; i < model.modules.size(); ++i) {
    const Module& module = model.modules[i];
    ModulePlan& part = plan.modules[i];
    if (i + 1 == model.modules.size()) {
      part.tp = plan.tp;
      continue;
    }
    auto given = reader.ObjectIf(module.name);
    if (!given) continue;
    part.tp = static_cast<int>(given->IntegerOr("tp", 1, 1, 1024));
    part.placement =
        static_cast<Placement>(given->ChoiceOr("placement", 0, {"first_stage", "colocated_dp"}));
    given->Finish();
    CheckTensorParallel(*given, module, part.tp, cluster.GpuCount());
    if (part.tp != 1 && part.tp != plan.tp) {
      Infeasible(*given, 316, "tp",
                 "'" + module.name + "' has tp = " + std::to_string(part.tp) +
                     " beside a backbone with tp = " + std::to_string(plan.tp),
                 plan.tp == 1
                     ? "tp = 1, or raise the backbone's tp"
                     : "tp = 1 (replicated on the backbone's tensor-parallel ranks) or tp = " +
                           std::to_string(plan.tp));
    }
    if (part.placement == Placement::kColocatedDp && part.tp != 1) {
      Infeasible(*given, 316, "tp",
                 "placement 'colocated_dp' runs '" + module.name +
                     "' data-parallel inside of the backbone's tp group, so its own tp is 1",
                 "tp = 1, or placement = first_stage");
    }
  }

  if (reader.Has("frozen")) {
    std::vector<std::string> names;
    for (const Module& module : model.modules) names.push_back(module.name);
    for (const std::string& name : reader.Strings("frozen")) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) {
        const std::string nearest = NearestName(name, names);
        std::string help = nearest.empty() ? "" : "did you mean '" + nearest + "'? ";
        help += "modules:";
        for (const std::string& known : names) help += " " + known;
        reader.Fail(322, "frozen", "model '" + model.name + "' has no module '" + name + "'", help);
      }
      plan.modules[static_cast<std::size_t>(found - names.begin())].frozen = true;
    }
  }
  if (workload.task == Task::kTrain && std::all_of(plan.modules.begin(), plan.modules.end(),
                                                   [](const ModulePlan& m) { return m.frozen; })) {
    Infeasible(reader, 321, "frozen", "every module is frozen: there is nothing to train",
               "leave at least one module out of 'frozen'");
  }
  if (workload.task == Task::kGenerate &&
      (model.task == ModelTask::kContrastive || backbone.head_vocabulary == 0)) {
    Infeasible(reader, 318, "", "'" + model.name + "' has no output head: it generates nothing",
               "a generative model, or task = train");
  }
  if (workload.task == Task::kGenerate) {
    if (plan.pp > 1) {
      Infeasible(at_backbone, 318, "pp",
                 "generation is simulated with tensor and data parallelism only", "pp = 1");
    }
    if (plan.sharding == Sharding::kFsdp) {
      Infeasible(reader, 318, "sharding",
                 "sharded parameters do not serve generation: every token would gather all weights",
                 "sharding = ddp");
    }
  }
  reader.Finish();

  if (plan.sequence_parallel && plan.tp == 1) {
    Warn(at_backbone, 1315, "sequence_parallel", "sequence_parallel does nothing with tp = 1",
         "remove it, or raise tp", warnings);
    plan.sequence_parallel = false;
  }
  if (plan.tp > 1 && cluster.NvLinkDomainOf(0) != cluster.NvLinkDomainOf(plan.tp - 1)) {
    Warn(at_backbone, 1319, "tp",
         "a tensor-parallel group of " + std::to_string(plan.tp) +
             " leaves the NVLink domain: each layer waits for slower links",
         "keep tp within one node's NVLink, and use pp or dp across nodes", warnings);
  }
  if (plan.pp > 1 && plan.micro_batches < plan.pp) {
    Warn(reader, 1320, "micro_batch_size",
         std::to_string(plan.micro_batches) + " micro-batches do not fill " +
             std::to_string(plan.pp) + " pipeline stages",
         "raise global_batch_size, or lower micro_batch_size or pp", warnings);
  }
  return plan;
}

}  // namespace aurum
