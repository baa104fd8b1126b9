#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/launch/gaps.h"
#include "sim/launch/launch.h"
#include "sim/plan/scenario.h"

namespace aurum {

// What the four writers share. For this room only.

// Arguments of a program: a name and its values.
class Arguments {
 public:
  void Flag(const std::string& name) { lines_.push_back({name}); }
  void Set(const std::string& name, const std::string& value) { lines_.push_back({name, value}); }
  void Set(const std::string& name, std::int64_t value) { Set(name, std::to_string(value)); }
  void Set(const std::string& name, const std::vector<std::string>& values);
  std::vector<std::string> Words() const;
  // One argument a line, continued with backslashes, words quoted for a shell where they need it;
  // "${…}" stays open to it.
  std::string ShellLines() const;

 private:
  std::vector<std::vector<std::string>> lines_;
};

std::string ShellWord(const std::string& word);
std::string Number(double value);  // shortest: "0.5", "2"
// "# Written by Aurum …" with scenario, plan and what to set; every line begins with `comment`.
std::string Banner(const Scenario& scenario, Framework framework,
                   const std::vector<std::string>& settable, const std::string& comment = "# ");
// "#!/bin/bash", the banner, errors end the script.
std::string ScriptHead(const Scenario& scenario, Framework framework,
                       const std::vector<std::string>& settable);
// A line that sets $here to the script's folder: where the files beside it are.
const char* HereLine();
// torchrun over the cluster's nodes; ends with a backslash and a new line.
std::string Torchrun(const Cluster& cluster);

// The sequence length that every sample has; 0 where they differ (then nothing fixed can be told).
std::int64_t FixedLength(const Scenario& scenario);
// Steps to the target, or a shell expression with 50 as its default.
std::string StepsText(const Scenario& scenario);
// Layers of every stage are equally many.
bool EvenStages(const Plan& plan);
// Whether the model is its backbone alone.
bool TextOnly(const Model& model);
// "plan.backbone", "plan.vision", …
std::string KeyOf(const Model& model, std::size_t module);
// Names of the modules that are frozen, adapters apart: "vision, backbone".
std::string FrozenNames(const Scenario& scenario);

// What no framework of the four does, or none can be told.
void CheckShared(const Scenario& scenario, Gaps* gaps);
// Recomputation that Hugging Face's switch can do: none, or every layer.
void CheckWholeLayers(const Scenario& scenario, Gaps* gaps);
// The same arguments that transformers.TrainingArguments gives to a training program (batch,
// accumulation, precision, recomputation, optimizer, steps).
Arguments TrainerArguments(const Scenario& scenario, bool recompute, Gaps* gaps);

LaunchText EmitMegatron(const Scenario& scenario, Gaps* gaps);
LaunchText EmitDeepSpeed(const Scenario& scenario, Gaps* gaps);
LaunchText EmitTorchtitan(const Scenario& scenario, Gaps* gaps);
LaunchText EmitAccelerate(const Scenario& scenario, Gaps* gaps);

// The configuration of DeepSpeed that ZeRO, offload and precision of the plan come to.
Json DeepSpeedConfig(const Scenario& scenario, Gaps* gaps);

// Arguments that describe a decoder to Megatron-LM; refuses what it has no words for.
void MegatronModel(const Scenario& scenario, Gaps* gaps, Arguments* arguments);

}  // namespace aurum
