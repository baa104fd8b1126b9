#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/diagnostic.h"
#include "sim/core/json.h"
#include "sim/plan/scenario.h"

namespace aurum {

// A plan as a training framework takes it: the arguments and configuration files that run this
// scenario there. Names are those of the versions below, in their own source:
//
//   megatron    Megatron-LM, megatron-core 0.15 (megatron/training/arguments.py)
//   deepspeed   DeepSpeed 0.18 (deepspeed/runtime/config.py, runtime/zero/config.py)
//   torchtitan  torchtitan 0.2.1 (torchtitan/config/job_config.py)
//   accelerate  Accelerate 1.11 (commands/config/config_args.py, parallelism_config.py)
//
// What a framework cannot do is refused by its key, all of it at once; what it can do and decides for
// itself, or leaves to the training program, is a warning that names it. Nothing is dropped in silence.
enum class Framework { kMegatron, kDeepSpeed, kTorchtitan, kAccelerate };
std::string FrameworkName(Framework framework);  // "megatron"
std::optional<Framework> FrameworkByName(std::string_view name);
const std::vector<Framework>& AllFrameworks();
std::string FrameworkVersion(Framework framework);  // "Megatron-LM, megatron-core 0.15"

struct LaunchFile {
  std::string name;  // "launch.sh", "ds_config.json", …
  std::string text;
  bool executable = false;
};

struct LaunchText {
  Framework framework = Framework::kMegatron;
  std::vector<LaunchFile>
      files;  // launch.sh first; it finds the others beside itself, wherever it is started
  // What launch.sh passes to the training program, word by word. "${LR:-1e-4}" and the like are
  // for the shell: what a scenario does not know and the user may set, and "${here}", the script's
  // folder.
  std::vector<std::string> arguments;
  std::vector<Diagnostic> warnings;
};

// Errors, with exit code 4: E0950 the framework cannot run this plan, E0951 this model, E0952 this
// workload; each lists every obstacle, the remedies, and the frameworks that take the scenario as it is. Warnings: W1950 what the framework decides
// itself, W1951 what the scenario imposes and no run obeys, W1952 what the training program or its
// user must add, W1953 the prediction is of another software stack.
LaunchText Emit(const Scenario& scenario, Framework framework);

// docs/schema/launch.schema.json
Json LaunchJson(const LaunchText& launch, const Scenario& scenario,
                const std::string& tool_version);

}  // namespace aurum
