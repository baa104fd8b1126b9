#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/space.h"

namespace aurum {

// Plans by number: every number is a plan, the same on every machine. Most parts of the grammar are
// drawn; many plans are impossible, which is part of the test.
class RandomPlan {
 public:
  explicit RandomPlan(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}

  JsonDocument Make(const std::vector<std::string>& more = {}) {
    const std::string model = Pick({kLayers8, kMoe8, kVit8});
    const std::string cluster = Pick({"8xh100-hgx", "16xh100-ndr", "8xa100-hgx"});
    std::vector<std::string> changes = {
        "workload.global_batch_size=" + Pick({"16", "32", "48"}),
        "plan.micro_batch_size=" + Pick({"1", "1", "2"}),
        "plan.sharding=" + Pick({"ddp", "zero1", "zero1", "zero2", "fsdp", "hsdp", "zero3"}),
        "plan.bucket_mb=" + Pick({"0", "25", "400"}),
        "plan.prefetch=" + Pick({"0", "1", "2"}),
        "plan.reshard_after_forward=" + Pick({"true", "true", "false"}),
        "plan.recompute=" +
            Pick({"none", "none", "selective", "full", R"({"scope": "full", "layers": 1})",
                  R"({"scope": "full", "block_layers": 2})",
                  R"({"scope": "selective", "parts": ["norm", "activation", "moe"]})"}),
        "plan.precision=" + Pick({"bf16", "bf16", "bf16", "fp16", "fp8", "fp32"}),
        "plan.optimizer=" + Pick({"adam", "adam", "adam-8bit", "sgd"}),
        "stack=" + Pick({"megatron-core", "pytorch-fsdp", "hf-transformers", "torchtune"})};
    Backbone(model == kMoe8, &changes);
    if (model == kVit8) Vision(&changes);
    if (Chance(4)) {
      changes.push_back("plan.offload={\"" + Pick({"optimizer", "parameters", "activations"}) +
                        "\": " + Pick({"0.5", "1"}) + "}");
    }
    if (Chance(6)) {
      changes.push_back("plan.adapter={\"rank\": 16, \"base\": \"" + Pick({"bf16", "bf16", "nf4"}) +
                        "\"}");
    }
    for (const char* knob : {"gradient_reduce", "parameter_gather", "tensor_parallel",
                             "context_parallel", "expert_parallel", "pipeline", "offload"}) {
      if (Chance(3))
        changes.push_back(std::string("plan.overlap.") + knob + "=" + Pick({"true", "false"}));
    }
    return Document(model, cluster, Join(changes, more));
  }

  bool Chance(std::uint64_t one_in) { return Next() % one_in == 0; }

 private:
  // SplitMix64 (Steele, Lea and Flood 2014).
  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  std::string Pick(std::initializer_list<const char*> choices) {
    return *(choices.begin() + Next() % choices.size());
  }

  void Backbone(bool experts, std::vector<std::string>* changes) {
    std::string backbone = "plan.backbone={\"tp\": " + Pick({"1", "1", "2", "4"}) +
                           ", \"cp\": " + Pick({"1", "1", "1", "2"}) +
                           ", \"context_parallel\": \"" + Pick({"ring", "ulysses"}) + "\"";
    if (experts) {
      backbone += ", \"ep\": " + Pick({"1", "2", "4"});
      if (Chance(4)) backbone += ", \"expert_tp\": 2";
    }
    const bool pipelined = !Chance(3);
    if (pipelined) backbone += ", \"pp\": " + Pick({"2", "2", "4"});
    const std::string schedule =
        pipelined ? Pick({"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe"}) : "1f1b";
    if (schedule == "interleaved") backbone += ", \"vpp\": 2";
    changes->push_back(backbone + "}");
    changes->push_back("plan.schedule=" + schedule);
  }
  void Vision(std::vector<std::string>* changes) {
    changes->push_back(kOneImage);
    changes->push_back("plan.vision.placement=" + Pick({"first_stage", "colocated_dp", "balanced",
                                                        "own_ranks", "in_bubbles"}));
    if (Chance(4)) changes->push_back("plan.vision.micro_batch_size=" + Pick({"1", "2", "4"}));
    if (Chance(4)) changes->push_back("plan.vision.tp=" + Pick({"2", "4"}));
    if (Chance(4)) changes->push_back("plan.vision.pp=2");
    if (Chance(3))
      changes->push_back(std::string("plan.frozen=") +
                         Pick({R"(["vision"])", R"(["vision", "backbone"])", R"(["backbone"])"}));
  }

  std::uint64_t state_;
};

}  // namespace aurum
