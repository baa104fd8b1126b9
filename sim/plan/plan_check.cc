#include "sim/plan/plan_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "sim/cost/dtype_table.h"
#include "sim/plan/expert_routing.h"
#include "sim/plan/split.h"

// The rules of a plan, each a function that names what is broken, where, and what would do instead.
// Degrees come first (they decide the replicas), then the batch, then what needs both.
namespace aurum {
namespace {

std::string Text(std::int64_t value) { return std::to_string(value); }

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
    if (m.intermediate % tp != 0 || m.shared_intermediate % tp != 0) return false;
  }
  return true;
}
int Heads(const Module& module) {
  return module.runs.empty() ? 0 : module.runs.front().layer.attention.heads;
}
int MostExperts(const Module& module) {
  int experts = 0;
  for (const LayerRun& run : module.runs) experts = std::max(experts, run.layer.mlp.experts);
  return experts;
}

[[noreturn]] void Infeasible(const ObjectReader& reader, int code, std::string_view key,
                             std::string message, std::string help, std::string note = "") {
  reader.Fail(code, key, std::move(message), std::move(help), std::move(note),
              ExitCode::kInfeasible);
}

class Checker {
 public:
  Checker(const PlanInputs& inputs, const PlanReaders& at, Plan* plan,
          std::vector<Diagnostic>* warnings)
      : in_(inputs), at_(at), plan_(*plan), warnings_(warnings) {}

  void Run() {
    TensorParallel(at_.backbone, Backbone(), plan_.tp);
    ContextParallel();
    Experts();
    Encoders();
    Degrees();
    ExpertDegrees();
    Routing();
    Layers();
    Batch();
    Schedule();
    EncoderBatches();
    Sharded();
    Gradients();
    OffloadAndPrecision();
    Adapters();
    Trains();
    Generates();
    Placed();
    Costly();
  }

 private:
  const Module& Backbone() const { return in_.model.Backbone(); }
  int Gpus() const { return in_.cluster.GpuCount(); }
  bool Training() const { return in_.workload.task == Task::kTrain; }

  void Warn(const ObjectReader& reader, int code, std::string_view key, std::string message,
            std::string help) {
    if (warnings_ == nullptr) return;
    Diagnostic d;
    d.code = code;
    d.warning = true;
    d.message = std::move(message);
    d.help = std::move(help);
    const Json* at = reader.value().Find(key);
    d.where =
        reader.document().Locate(at == nullptr ? reader.value() : *at,
                                 reader.pointer() + (key.empty() ? "" : "/" + std::string(key)));
    warnings_->push_back(std::move(d));
  }

  // `beside`: of an encoder on the backbone's ranks, whose tp is 1 or the backbone's; else 0.
  void TensorParallel(const ObjectReader& at, const Module& module, int tp, int beside = 0) {
    if (tp == 1) return;
    const auto choices = [&] {
      const std::string good =
          Choices(std::min({std::max(Heads(module), 1), 64, Gpus()}), [&](int t) {
            return HeadsDivide(module, t) && MlpDivides(module, t) &&
                   (beside == 0 || t == 1 || t == beside);
          });
      return "tp = " + good +
             (good == "1" && module.kind == ModuleKind::kEncoder
                  ? "; placement = colocated_dp shares its images out instead"
                  : "");
    };
    if (!HeadsDivide(module, tp)) {
      const int kv = module.runs.front().layer.attention.kv_heads;
      Infeasible(at, 311, "tp",
                 "tp = " + Text(tp) + " does not divide the " + Text(Heads(module)) +
                     " attention heads (" + Text(kv) + " of keys and values) of '" + module.name +
                     "'",
                 choices());
    }
    if (!MlpDivides(module, tp)) {
      Infeasible(at, 323, "tp",
                 "tp = " + Text(tp) + " does not divide the MLP width of '" + module.name + "'",
                 choices());
    }
  }

  // Ulysses gives every GPU of the group whole sequences of its own heads (Jacobs et al. 2023).
  void ContextParallel() {
    if (plan_.cp == 1 || plan_.cp_kind != ContextParallelKind::kUlysses) return;
    const auto divides = [&](int cp) {
      for (const LayerRun& run : Backbone().runs) {
        const Attention& a = run.layer.attention;
        const int heads = a.heads / plan_.tp;
        const int kv = std::max(a.kv_heads / plan_.tp, 1);
        if (heads % cp != 0 || (kv % cp != 0 && cp % kv != 0)) return false;
      }
      return true;
    };
    if (divides(plan_.cp)) return;
    Infeasible(at_.backbone, 370, "cp",
               "Ulysses shares out heads: cp = " + Text(plan_.cp) + " does not divide the " +
                   Text(Heads(Backbone()) / plan_.tp) + " heads that tp = " + Text(plan_.tp) +
                   " leaves on a GPU",
               "cp = " + Choices(std::min(64, Gpus()), divides) +
                   ", or context_parallel = ring, which shares out tokens");
  }

  void Experts() {
    const int experts = MostExperts(Backbone());
    if (plan_.ep > 1 && experts == 0) {
      Infeasible(at_.backbone, 371, "ep",
                 "ep = " + Text(plan_.ep) + ", and '" + in_.model.name + "' has no experts",
                 "remove ep; cp or dp use more GPUs");
    }
    for (const LayerRun& run : Backbone().runs) {
      const Mlp& m = run.layer.mlp;
      if (m.experts == 0) continue;
      if (m.experts % plan_.ep != 0) {
        Infeasible(at_.backbone, 372, "ep",
                   "ep = " + Text(plan_.ep) + " does not divide the " + Text(m.experts) +
                       " experts of a layer",
                   "ep = " + Choices(std::min(m.experts, Gpus()),
                                     [&](int e) { return m.experts % e == 0; }));
      }
      if (m.expert_intermediate % plan_.expert_tp != 0) {
        Infeasible(at_.backbone, 372, "expert_tp",
                   "expert_tp = " + Text(plan_.expert_tp) + " does not divide the width " +
                       Text(m.expert_intermediate) + " of an expert",
                   "expert_tp = " + Choices(std::min(64, Gpus()),
                                            [&](int t) { return m.expert_intermediate % t == 0; }));
      }
    }
  }

  void Encoders() {
    for (std::size_t i = 0; i + 1 < in_.model.modules.size(); ++i) {
      const ModulePlan& part = plan_.modules[i];
      if (!at_.modules[i]) continue;
      const ObjectReader& at = *at_.modules[i];
      const Module& module = in_.model.modules[i];
      const bool own = part.placement == Placement::kOwnRanks;
      if (SplitsTokens(part)) {
        SplitTokens(at, module, part);
      } else {
        TensorParallel(at, module, part.tp, own ? 0 : plan_.tp);
      }
      if (!own && part.tp != 1 && part.tp != plan_.tp) {
        Infeasible(at, 316, "tp",
                   "'" + module.name + "' has tp = " + Text(part.tp) +
                       " beside a backbone with tp = " + Text(plan_.tp),
                   plan_.tp == 1
                       ? "tp = 1, or raise the backbone's tp"
                       : "tp = 1 (replicated on the backbone's tensor-parallel ranks) or tp = " +
                             Text(plan_.tp) + "; or placement = own_ranks");
      }
      if (part.placement == Placement::kColocatedDp && part.tp != 1) {
        Infeasible(at, 316, "tp",
                   "placement 'colocated_dp' runs '" + module.name +
                       "' data-parallel inside of the backbone's tp group, so its own tp is 1",
                   "tp = 1, or placement = first_stage");
      }
      const int ranks = plan_.tp * plan_.cp;
      if (own && ranks % part.tp != 0 && part.tp % ranks != 0) {
        Infeasible(at, 316, "tp",
                   "the " + Text(part.tp) + " ranks of '" + module.name +
                       "' cannot hand their tokens evenly to the tp·cp = " + Text(ranks) +
                       " ranks of a replica of the backbone",
                   "a tp that divides " + Text(ranks) + ", or a multiple of it");
      }
      if (!own && at.value().Find("pp") != nullptr && part.pp > 1) {
        Infeasible(at, 373, "pp",
                   "'" + module.name + "' has pipeline stages of its own only on ranks of its own",
                   "placement = own_ranks, or remove pp");
      }
      if (part.placement == Placement::kInBubbles) {
        if (plan_.pp == 1) {
          Infeasible(at, 374, "placement", "one pipeline stage has no bubbles to fill",
                     "placement = first_stage, or pp > 1");
        }
        if (plan_.schedule != ScheduleKind::k1F1B && plan_.schedule != ScheduleKind::kInterleaved) {
          Infeasible(at, 374, "placement",
                     "bubbles are filled in the schedules 1f1b and interleaved, not in " +
                         std::string(ScheduleName(plan_.schedule)),
                     "schedule = 1f1b or interleaved, or another placement");
        }
      }
      if (!part.layers_per_stage.empty()) EncoderLayers(at, module, part);
      if (own) plan_.encoder_stages += part.pp;
    }
  }

  // Its tp GPUs take tp pieces of every sequence, and tp shares of its heads in between.
  void SplitTokens(const ObjectReader& at, const Module& module, const ModulePlan& part) {
    if (part.placement != Placement::kFirstStage && part.placement != Placement::kOwnRanks) {
      Infeasible(at, 766, "split",
                 "'" + module.name + "' is not on one group of GPUs that could share its tokens",
                 "placement = first_stage or own_ranks, or split = hidden");
    }
    if (in_.model.task == ModelTask::kContrastive) {
      Infeasible(at, 766, "split",
                 "a contrastive tower pools its tokens into one feature, which none of the GPUs "
                 "that share them would hold",
                 "split = hidden, or tp = 1");
    }
    const auto heads_divide = [&](int tp) {
      return std::all_of(module.runs.begin(), module.runs.end(), [&](const LayerRun& run) {
        const Attention& a = run.layer.attention;
        return a.heads % tp == 0 && (a.kv_heads % tp == 0 || tp % std::max(a.kv_heads, 1) == 0);
      });
    };
    std::vector<std::int64_t> lengths;  // mean lengths that are no whole numbers have no divisors
    const SampleLoad load = LoadOfSample(in_.model, in_.workload, nullptr);
    for (std::size_t i = 0; i < in_.model.modules.size(); ++i) {
      if (&in_.model.modules[i] != &module) continue;
      for (const SequenceBatch& batch : load.modules[i].batches) {
        const auto whole = static_cast<std::int64_t>(batch.tokens);
        if (static_cast<double>(whole) == batch.tokens) lengths.push_back(whole);
      }
    }
    const auto tokens_divide = [&](int tp) {
      return std::all_of(lengths.begin(), lengths.end(),
                         [&](std::int64_t tokens) { return tokens % tp == 0; });
    };
    const std::string good =
        Choices(64, [&](int tp) { return heads_divide(tp) && tokens_divide(tp); });
    if (!heads_divide(part.tp)) {
      Infeasible(at, 763, "tp",
                 "tokens are exchanged for heads: tp = " + Text(part.tp) + " does not divide the " +
                     Text(Heads(module)) + " attention heads of '" + module.name + "'",
                 "tp = " + good);
    }
    for (const std::int64_t tokens : lengths) {
      if (tokens % part.tp == 0) continue;
      Infeasible(at, 764, "tp",
                 "tp = " + Text(part.tp) + " does not share out the " + Text(tokens) +
                     " tokens of a sequence of '" + module.name + "'",
                 "tp = " + good + ", or split = hidden");
    }
  }

  void EncoderLayers(const ObjectReader& at, const Module& module, const ModulePlan& part) {
    const bool own = part.placement == Placement::kOwnRanks;
    if (!own && part.placement != Placement::kBalanced) {
      Infeasible(at, 373, "layers_per_stage",
                 "'" + module.name + "' is on one stage: there are no layers to share out",
                 "placement = balanced or own_ranks, or remove layers_per_stage");
    }
    const auto stages = static_cast<std::int64_t>(part.layers_per_stage.size());
    const std::int64_t listed = std::accumulate(part.layers_per_stage.begin(),
                                                part.layers_per_stage.end(), std::int64_t{0});
    const int most = own ? part.pp : plan_.Positions();
    if (listed != module.Layers() || (own ? stages != most : stages > most)) {
      Infeasible(at, 313, "layers_per_stage",
                 "layers_per_stage has " + Text(stages) + " stages and " + Text(listed) +
                     " layers; there are " + Text(most) + " stages, and '" + module.name +
                     "' has " + Text(module.Layers()) + " layers",
                 "give numbers for its stages that sum to its layers");
    }
  }

  void Degrees() {
    const int gpus = Gpus();
    int encoders = 0;
    for (const ModulePlan& part : plan_.modules)
      encoders += part.placement == Placement::kOwnRanks ? part.tp * part.pp : 0;
    const int model_parallel = plan_.tp * plan_.cp * plan_.pp + encoders;
    if (gpus % model_parallel == 0) {
      plan_.dp = gpus / model_parallel;
      return;
    }
    const Module& backbone = Backbone();
    const bool other = plan_.pp > 1 && gpus % (plan_.tp * plan_.cp) == 0;
    const bool context = plan_.cp > 1 && !other;
    const std::string key = other ? "pp" : context ? "cp" : "tp";
    std::string help;
    if (other) {
      help =
          "pp = " + Choices(std::min(gpus / plan_.tp, backbone.Layers()), [&](int p) {
            return gpus % (plan_.tp * plan_.cp * p + encoders) == 0 && backbone.Layers() % p == 0;
          });
    } else if (context) {
      help = "cp = " +
             Choices(gpus, [&](int c) { return gpus % (plan_.tp * c * plan_.pp + encoders) == 0; });
    } else {
      help = "tp = " + Choices(std::min(gpus, 64), [&](int t) {
               return gpus % (t * plan_.cp * plan_.pp + encoders) == 0 &&
                      HeadsDivide(backbone, t) && MlpDivides(backbone, t);
             });
    }
    if (help.size() <= 5) help = "other degrees";
    if (encoders > 0)
      help += "; tp and pp of an encoder on ranks of its own (" + Text(encoders) +
              " GPUs a replica here) and layers_per_stage, for stages that do not divide, move too";
    help += ", or a cluster whose GPUs are a multiple of " + Text(model_parallel);
    const std::string product = std::string("tp") + (plan_.cp > 1 ? "·cp" : "") + "·pp" +
                                (encoders > 0 ? " + the encoders' own ranks" : "");
    Infeasible(at_.backbone, 312, key,
               product + " = " + Text(model_parallel) + " does not divide the " + Text(gpus) +
                   " GPUs of cluster '" + in_.cluster.name + "'",
               help,
               "tp = " + Text(plan_.tp) +
                   (plan_.cp > 1 ? ", cp = " + Text(plan_.cp) : std::string()) +
                   ", pp = " + Text(plan_.pp));
  }

  void ExpertDegrees() {
    if (MostExperts(Backbone()) == 0) return;
    const int width = plan_.tp * plan_.cp * plan_.dp;
    if (width % (plan_.expert_tp * plan_.ep) == 0) return;
    Infeasible(at_.backbone, 375, "ep",
               "expert_tp·ep = " + Text(plan_.expert_tp) + "·" + Text(plan_.ep) +
                   " does not divide the tp·cp·dp = " + Text(width) + " GPUs of a stage",
               "ep = " + Choices(std::min(width, MostExperts(Backbone())), [&](int e) {
                 return width % (plan_.expert_tp * e) == 0 && MostExperts(Backbone()) % e == 0;
               }));
  }

  // Which modules have tokens in the backbone's sequence: encoders, and its own text.
  void Routing() {
    if (!plan_.routing) return;
    const Json* told = at_.backbone.value().Find("expert_routing");
    const ObjectReader at(at_.backbone.document(), *told,
                          at_.backbone.pointer() + "/expert_routing");
    if (MostExperts(Backbone()) == 0) {
      Infeasible(at_.backbone, 631, "expert_routing",
                 "'" + in_.model.name + "' has no experts that tokens could be routed to",
                 "remove expert_routing, or a model with experts: aurum list models");
    }
    std::vector<std::string> known;
    for (std::size_t i = 0; i < in_.model.modules.size(); ++i) {
      const Module& module = in_.model.modules[i];
      if (module.kind == ModuleKind::kEncoder || i + 1 == in_.model.modules.size())
        known.push_back(module.name);
    }
    std::vector<std::string> named;
    for (const ExpertRouting::Skew& skew : plan_.routing->skew) {
      std::string help = "one entry for each of:";
      for (const std::string& name : known) help += " " + name;
      if (std::find(known.begin(), known.end(), skew.module) == known.end()) {
        const std::string nearest = NearestName(skew.module, known);
        at.Fail(632, "skew", "no tokens of the backbone's sequence are from '" + skew.module + "'",
                (nearest.empty() ? "" : "did you mean '" + nearest + "'? ") + help);
      }
      if (std::find(named.begin(), named.end(), skew.module) != named.end())
        at.Fail(632, "skew", "'" + skew.module + "' has two exponents", help);
      named.push_back(skew.module);
    }
    ApplyRouting(in_.model, LoadOfSample(in_.model, in_.workload, nullptr), &plan_);
  }

  void Layers() {
    const Module& backbone = Backbone();
    const int positions = plan_.Positions();
    const std::string key = plan_.vpp > 1 && backbone.Layers() % plan_.pp == 0 ? "vpp" : "pp";
    if (plan_.layers_per_stage.empty()) {
      const bool balanced =
          std::any_of(plan_.modules.begin(), plan_.modules.end(), [](const ModulePlan& part) {
            return part.placement == Placement::kBalanced && part.layers_per_stage.empty();
          });
      if (balanced && positions > 1) return;  // the lowering finds the split
      if (backbone.Layers() % positions != 0) {
        const bool chunks = key == "vpp";
        Infeasible(
            at_.backbone, 313, key,
            (chunks ? "pp·vpp = " + Text(plan_.pp) + "·" + Text(plan_.vpp)
                    : "pp = " + Text(plan_.pp)) +
                " does not divide the " + Text(backbone.Layers()) + " layers of the backbone",
            chunks ? "vpp = " +
                         Choices(backbone.Layers() / plan_.pp,
                                 [&](int v) { return backbone.Layers() % (plan_.pp * v) == 0; }) +
                         ", or say how to split them: layers_per_stage"
                   : "pp = " + Choices(backbone.Layers(), [&](int p) {
                       return backbone.Layers() % p == 0 && Gpus() % (plan_.tp * plan_.cp * p) == 0;
                     }) + ", or say how to split them: layers_per_stage");
      }
      plan_.layers_per_stage.assign(static_cast<std::size_t>(positions),
                                    backbone.Layers() / positions);
    }
    const std::int64_t listed = std::accumulate(plan_.layers_per_stage.begin(),
                                                plan_.layers_per_stage.end(), std::int64_t{0});
    if (static_cast<int>(plan_.layers_per_stage.size()) != positions ||
        listed != backbone.Layers()) {
      Infeasible(at_.backbone, 313, "layers_per_stage",
                 "layers_per_stage has " + Text(static_cast<int>(plan_.layers_per_stage.size())) +
                     " stages and " + Text(listed) + " layers; the plan has " + Text(positions) +
                     " stages" + (plan_.vpp > 1 ? " (pp·vpp)" : "") + ", the backbone " +
                     Text(backbone.Layers()) + " layers",
                 "give " + std::string(plan_.vpp > 1 ? "pp·vpp" : "pp") +
                     " numbers that sum to the layers of the backbone");
    }
  }

  void Batch() {
    const std::int64_t per_round = plan_.dp * plan_.micro_batch_size;
    const std::int64_t batch = in_.workload.global_batch_size;
    if (batch % per_round != 0) {
      std::string help =
          "global_batch_size = " + std::to_string((batch / per_round + 1) * per_round);
      if (batch % plan_.dp == 0) {
        std::int64_t fitting = plan_.micro_batch_size;
        while ((batch / plan_.dp) % fitting != 0) --fitting;
        help += ", or micro_batch_size = " + std::to_string(fitting);
      }
      Infeasible(at_.whole, 314, "micro_batch_size",
                 "global_batch_size = " + Text(batch) +
                     " is not a multiple of dp · micro_batch_size = " + Text(plan_.dp) + " · " +
                     Text(plan_.micro_batch_size),
                 help,
                 std::string("dp = ") + std::to_string(Gpus()) + " GPUs / (tp · " +
                     (plan_.cp > 1 ? "cp · " : "") + "pp)");
    }
    plan_.micro_batches = batch / per_round;
  }

  void Schedule() {
    if (plan_.schedule == ScheduleKind::kInterleaved && plan_.vpp == 1) {
      Infeasible(at_.whole, 376, "schedule",
                 "one chunk a stage leaves nothing to interleave: this is 1f1b",
                 "vpp = 2 or more under '" + Backbone().name + "', or schedule = 1f1b");
    }
    if (plan_.vpp > 1 &&
        (plan_.schedule == ScheduleKind::kGpipe || plan_.schedule == ScheduleKind::k1F1B ||
         plan_.schedule == ScheduleKind::kZeroBubbleH1)) {
      Infeasible(at_.backbone, 376, "vpp",
                 "schedule '" + std::string(ScheduleName(plan_.schedule)) +
                     "' has one chunk a stage, the plan vpp = " + Text(plan_.vpp),
                 "schedule = interleaved, or vpp = 1");
    }
    if (plan_.pp == 1 && plan_.vpp > 1) {
      Infeasible(at_.backbone, 376, "vpp",
                 "one pipeline stage has no bubble that chunks could shrink", "vpp = 1, or pp > 1");
    }
    if (plan_.pp == 1 || !Training()) return;
    if (plan_.micro_batches > 1'000'000) return;  // refused for its size, later
    const ShapeFault fault = CheckPipeline(plan_.Pipeline());
    if (fault.message.empty()) return;
    // A schedule that was not told follows from vpp.
    const bool told = at_.whole.value().Find("schedule") != nullptr;
    Infeasible(told ? at_.whole : at_.backbone, 377, told ? "schedule" : "vpp", fault.message,
               fault.help);
  }

  // An encoder may run several micro-batches of the backbone at once, or each in pieces.
  void EncoderBatches() {
    for (std::size_t i = 0; i + 1 < plan_.modules.size(); ++i) {
      const std::int64_t own = plan_.modules[i].micro_batch_size;
      if (own == 0 || own == plan_.micro_batch_size) continue;
      const std::int64_t replica = plan_.micro_batches * plan_.micro_batch_size;
      const bool fits = own > plan_.micro_batch_size
                            ? own % plan_.micro_batch_size == 0 && replica % own == 0
                            : plan_.micro_batch_size % own == 0;
      if (!fits) {
        Infeasible(*at_.modules[i], 378, "micro_batch_size",
                   "an encoder's micro-batch of " + Text(own) +
                       " samples does not go evenly into the backbone's of " +
                       Text(plan_.micro_batch_size) + " and the " + Text(replica) +
                       " samples of a replica",
                   "a divisor of " + Text(plan_.micro_batch_size) +
                       ", or a multiple of it that divides " + Text(replica));
      }
      if (plan_.schedule == ScheduleKind::kDualPipe) {
        Infeasible(*at_.modules[i], 378, "micro_batch_size",
                   "in two directions neighbouring micro-batches enter at different ends: an "
                   "encoder has no batch of its own",
                   "remove micro_batch_size, or another schedule than dualpipe");
      }
      if (plan_.modules[i].placement == Placement::kInBubbles ||
          plan_.modules[i].placement == Placement::kBalanced) {
        Infeasible(
            *at_.modules[i], 378, "micro_batch_size",
            "an encoder in bubbles or balanced over stages runs with the backbone's "
            "micro-batches",
            "remove micro_batch_size, or placement = first_stage, colocated_dp or own_ranks");
      }
    }
  }

  void Sharded() {
    const bool pipelined = plan_.pp + plan_.encoder_stages > 1;
    const Json* told = at_.whole.value().Find("sharding");
    const bool zero3 = told != nullptr && told->IsString() && told->AsString() == "zero3";
    if (pipelined && (plan_.sharding == Sharding::kZero2 || zero3)) {
      Infeasible(
          at_.whole, 379, "sharding",
          "ZeRO-" + std::string(zero3 ? "3" : "2") +
              " with pipeline stages would reduce or gather for every micro-batch of every "
              "stage: frameworks with pipelines share out the optimizer alone",
          "sharding = zero1 with the pipeline (Megatron-LM's distributed optimizer, "
          "DeepSpeed's stage 1); or pp = 1; or fsdp, where the framework runs FSDP inside of "
          "stages (torchtitan)");
    }
    if (plan_.sharding == Sharding::kHsdp) {
      const int ranks = plan_.ReplicaRanks();
      if (plan_.shard_group == 0) {
        plan_.shard_group = std::min(in_.cluster.gpus_per_node / plan_.tp, ranks);
        if (plan_.shard_group < 1 || ranks % plan_.shard_group != 0) plan_.shard_group = ranks;
      }
      if (ranks % plan_.shard_group != 0) {
        Infeasible(at_.whole, 380, "shard_group",
                   "a shard group of " + Text(plan_.shard_group) +
                       " GPUs does not divide the cp·dp = " + Text(ranks) + " replicas",
                   "shard_group = " + Choices(ranks, [&](int g) { return ranks % g == 0; }));
      }
    } else if (at_.whole.value().Find("shard_group") != nullptr) {
      Infeasible(
          at_.whole, 380, "shard_group",
          "shard_group belongs to sharding 'hsdp', not to '" + ShardingName(plan_.sharding) + "'",
          "sharding = hsdp, or remove it");
    }
  }

  // What compresses gradients must see them whole, once a step, on one rank.
  void Gradients() {
    bool any = false;
    for (std::size_t i = 0; i < plan_.modules.size(); ++i) {
      if (!plan_.modules[i].compression.Any()) continue;
      any = true;
      const ObjectReader& at = *at_.modules[i];
      const char* key = "gradient_compression";
      if (plan_.sharding != Sharding::kDdp) {
        Infeasible(at, 388, key,
                   "sparse gradients are gathered whole by every replica; '" +
                       ShardingName(plan_.sharding) + "' leaves each a part of them",
                   "sharding = ddp, or no gradient_compression");
      }
      if (!Training() || plan_.ReplicaRanks() == 1) {
        Warn(at, 1388, key,
             Training() ? "gradient_compression changes nothing: one replica exchanges no gradients"
                        : "gradient_compression changes nothing: this workload has no gradients",
             "remove it");
        plan_.modules[i].compression = {};
        continue;
      }
      if (plan_.modules[i].frozen) {
        Infeasible(at, 388, key,
                   "'" + in_.model.modules[i].name + "' is frozen: it has no gradients",
                   "remove gradient_compression here");
      }
      if (plan_.modules[i].compression.index_bits < 64 &&
          std::ldexp(1.0, plan_.modules[i].compression.index_bits) <
              static_cast<double>(ModuleParameters(in_.model.modules[i])) /
                  (plan_.modules[i].tp * std::max(plan_.modules[i].pp, 1))) {
        Warn(at, 1388, key,
             "indices of " + Text(plan_.modules[i].compression.index_bits) +
                 " bits do not reach all parameters of '" + in_.model.modules[i].name +
                 "': they count from the start of a bucket",
             "index_bits = 32 reach 4.3·10⁹ entries");
      }
    }
    const bool sharded = plan_.sharding == Sharding::kFsdp || plan_.sharding == Sharding::kHsdp ||
                         plan_.sharding == Sharding::kZero2;
    if (plan_.reduce_every_micro_batch && (sharded || any)) {
      Infeasible(
          at_.whole, 389, "reduce_every_micro_batch",
          any ? "a sparse gradient is chosen once a step, from what all micro-batches add up to"
              : "'" + ShardingName(plan_.sharding) + "' reduces in every micro-batch by itself",
          any ? "remove one of the two" : "remove it, or sharding = ddp or zero1");
    }
    if (plan_.modality_barrier && in_.model.modules.size() == 1) {
      Warn(at_.whole, 1389, "modality_barrier",
           "modality_barrier changes nothing: one module has no border",
           "remove it, or take a model with an encoder");
    }
  }

  void OffloadAndPrecision() {
    const bool sharded = plan_.sharding == Sharding::kFsdp || plan_.sharding == Sharding::kHsdp;
    if (plan_.offload.parameters > 0 && !sharded) {
      Infeasible(at_.whole, 381, "offload",
                 "parameters come and go unit by unit only where they are gathered unit by unit",
                 "sharding = fsdp (ZeRO-3); or offload the optimizer alone");
    }
    if (plan_.offload.activations > 0 && plan_.recompute.scope == RecomputeScope::kFull &&
        plan_.recompute.layers < 0 && plan_.recompute.block_layers > 1) {
      Infeasible(at_.whole, 381, "offload",
                 "activations of blocks that are recomputed at once do not leave one by one",
                 "block_layers = 1");
    }
    const DeviceFacts& device = in_.profile.device;
    const double capability = device.compute_capability;
    const bool block_scaled =
        plan_.precision == Precision::kMxfp8 || plan_.precision == Precision::kNvfp4;
    if (IsNarrow(plan_.precision) &&
        (!in_.profile.Supports(DType::kFp8) || (block_scaled && capability < 10))) {
      Infeasible(at_.whole, 382, "precision",
                 "'" + device.name + "' has no matrix units for " + PrecisionName(plan_.precision),
                 in_.profile.Supports(DType::kFp8)
                     ? "precision = fp8 or fp8-block; mxfp8 and nvfp4 came with Blackwell"
                     : "precision = bf16; fp8 came with Ada and Hopper, mxfp8 and nvfp4 with "
                       "Blackwell");
    }
    // fp32 sums on CUDA cores take the place of matrix units that a device has for fp16 alone.
    if (plan_.precision == Precision::kBf16 && !HasMatrixUnits(in_.profile, DType::kBf16) &&
        HasMatrixUnits(in_.profile, DType::kFp16)) {
      Warn(at_.whole, 1391, "precision",
           "'" + device.name +
               "' has no matrix units for bf16: its products run on CUDA cores in "
               "fp32, at a fraction of the fp16 rate",
           "precision = fp16, with loss scaling; or a GPU from Ampere on");
    }
    if (plan_.attention == AttentionKernel::kFlash2 && capability > 0 && capability < 8) {
      Infeasible(at_.whole, 392, "attention",
                 "FlashAttention 2 is written for Ampere and later; '" + device.name +
                     "' has compute capability " + Json(capability).Dump(),
                 capability >= 7.5 ? "attention = flash1, which runs on Turing; or unfused"
                                   : "attention = unfused, or leave it to the stack");
    }
    if (plan_.attention == AttentionKernel::kFlash3 && (capability < 9 || capability >= 10)) {
      Infeasible(at_.whole, 383, "attention",
                 "FlashAttention 3 is written for Hopper; '" + device.name + "' is not",
                 "attention = flash2, or leave it to the stack");
    }
  }

  void Adapters() {
    const Adapter& adapter = plan_.adapter;
    if (adapter.kind == AdapterKind::kNone) return;
    const Json* at = at_.whole.value().Find("adapter");
    const auto fail = [&](const char* key, const std::string& message, const std::string& help) {
      const std::string pointer = at_.whole.pointer() + "/adapter";
      ObjectReader reader(at_.whole.document(), *at, pointer);
      Infeasible(reader, 384, key, message, help);
    };
    if (adapter.base != QuantisedBase::kNone && plan_.tp > 1) {
      fail("base", "a base in few bits is not cut by tensor parallelism: its blocks of scales are",
           "tp = 1 with fsdp; or base = bf16");
    }
    int narrowest = Backbone().hidden;
    if (adapter.rank > narrowest) {
      fail("rank",
           "rank " + Text(adapter.rank) + " is wider than the hidden width " + Text(narrowest),
           "ranks from 4 to 256 are usual");
    }
    if (!Training())
      fail("kind", "adapters are trained, this workload has no backward", "task = train");
  }

  void Trains() {
    if (!Training()) return;
    if (plan_.adapter.kind == AdapterKind::kNone &&
        std::all_of(plan_.modules.begin(), plan_.modules.end(),
                    [](const ModulePlan& m) { return m.frozen; })) {
      Infeasible(at_.whole, 321, "frozen", "every module is frozen: there is nothing to train",
                 "leave at least one module out of 'frozen', or add an adapter");
    }
  }

  void Generates() {
    if (Training()) return;
    const Module& backbone = Backbone();
    const bool generates = in_.workload.task == Task::kGenerate;
    if (generates && (in_.model.task == ModelTask::kContrastive || backbone.head_vocabulary == 0)) {
      Infeasible(at_.whole, 318, "",
                 "'" + in_.model.name + "' has no output head: it generates nothing",
                 "a generative model, or task = train");
    }
    if (plan_.pp > 1 || plan_.encoder_stages > 0) {
      Infeasible(
          at_.backbone, 318, "pp",
          "generation and forward passes are simulated with tensor and data parallelism only",
          "pp = 1");
    }
    if (plan_.sharding == Sharding::kFsdp || plan_.sharding == Sharding::kHsdp) {
      Infeasible(at_.whole, 318, "sharding",
                 generates ? "sharded parameters do not serve generation: every token would gather "
                             "all weights"
                           : "forward passes alone are simulated with whole parameters",
                 "sharding = ddp");
    }
    if (plan_.cp > 1 || plan_.ep > 1 || plan_.offload.Any() || IsNarrow(plan_.precision)) {
      Infeasible(at_.backbone, 318, plan_.cp > 1 ? "cp" : "ep",
                 "context and expert parallelism, offload and narrow formats are simulated for "
                 "training alone",
                 "tp and dp in bf16 when task = generate");
    }
  }

  void Placed() {
    if (plan_.scatter_gather && (plan_.sequence_parallel || plan_.tp == 1 || plan_.pp == 1)) {
      Warn(at_.backbone, 1392, "scatter_gather",
           plan_.sequence_parallel ? "with sequence_parallel every rank sends its share anyway"
                                   : "scatter_gather does nothing without tp > 1 and pp > 1",
           "remove it");
      plan_.scatter_gather = false;
    }
    if (plan_.rank_order != kDefaultRankOrder && plan_.encoder_stages > 0) {
      Infeasible(at_.whole, 393, "rank_order",
                 "encoders on ranks of their own are numbered before the backbone's",
                 "remove rank_order, or place the encoder elsewhere");
    }
  }

  void Costly() {
    if (plan_.sequence_parallel && plan_.tp == 1) {
      Warn(at_.backbone, 1315, "sequence_parallel", "sequence_parallel does nothing with tp = 1",
           "remove it, or raise tp");
      plan_.sequence_parallel = false;
    }
    if (plan_.tp > 1 && in_.cluster.NvLinkDomainOf(0) != in_.cluster.NvLinkDomainOf(plan_.tp - 1)) {
      Warn(at_.backbone, 1319, "tp",
           "a tensor-parallel group of " + Text(plan_.tp) +
               " leaves the NVLink domain: each layer waits for slower links",
           "keep tp within one node's NVLink, and use pp or dp across nodes");
    }
    if (plan_.pp > 1 && plan_.micro_batches < plan_.pp) {
      Warn(at_.whole, 1320, "micro_batch_size",
           Text(plan_.micro_batches) + " micro-batches do not fill " + Text(plan_.pp) +
               " pipeline stages",
           "raise global_batch_size, or lower micro_batch_size or pp");
    }
    if (plan_.ep > 1 && plan_.tp > 1 && !plan_.sequence_parallel) {
      Warn(at_.backbone, 1324, "sequence_parallel",
           "experts with tp > 1 and no sequence parallelism: every GPU of a tp group routes the "
           "same tokens; Megatron-Core refuses it",
           "sequence_parallel = true");
    }
  }

  const PlanInputs& in_;
  const PlanReaders& at_;
  Plan& plan_;
  std::vector<Diagnostic>* warnings_;
};

}  // namespace

void CheckPlan(const PlanInputs& inputs, const PlanReaders& at, Plan* plan,
               std::vector<Diagnostic>* warnings) {
  Checker(inputs, at, plan, warnings).Run();
}

}  // namespace aurum
