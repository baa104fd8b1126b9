#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/model.h"
#include "sim/core/json.h"
#include "sim/cost/profile.h"
#include "sim/cost/stack.h"
#include "sim/plan/faults.h"
#include "sim/plan/goodput.h"
#include "sim/plan/plan.h"
#include "sim/workload/sample_file.h"
#include "sim/workload/step_draw.h"
#include "sim/workload/workload.h"
#include "topologies/cluster.h"

namespace aurum {

// What the reader of a scenario imposes against the facts.
struct WhatIf {
  std::optional<double> flops_per_token;  // forward FLOPs per token of the backbone's sequence
  std::optional<double>
      comm_bw_bytes_per_s;            // bus bandwidth of the widest group (see ResolveCommScale)
  std::optional<double> align_ratio;  // 0…1
  double nvlink_factor = 1, pcie_factor = 1, network_factor = 1;  // on the cluster's links
  // Kernels run so many times as fast: matrix products, attention, those bound by memory.
  double gemm_speedup = 1, attention_speedup = 1, memory_speedup = 1;
};

// Nodes with another device than the cluster's.
struct Pool {
  std::vector<int> nodes;
  std::string profile_name;
  std::shared_ptr<const Profile> profile;
};

// How long training is to go on: so many steps, times a factor of the recipe (fewer steps for the
// same loss is a fact about learning, which no simulation of time knows).
struct Target {
  double steps = 0;
  double steps_factor = 1;
  double Steps() const { return steps * steps_factor; }
};

// What may be spent; absent: any amount.
struct Budget {
  std::optional<int> gpus;
  std::optional<double> device_gib, hours, energy_kwh, step_s;
};

// What a device and its energy cost, in a currency of the reader's.
struct Prices {
  std::string currency;  // "USD"
  double gpu_hour = 0;   // of one device
  double kwh = 0;
};

// All inputs of one simulation, read and checked.
struct Scenario {
  std::string name, question;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const Profile> profile;
  std::shared_ptr<const Stack> stack;
  Workload workload;
  Plan plan;
  WhatIf what_if;
  Faults faults;
  Variation variation;
  std::optional<GoodputSpec> goodput;
  std::vector<Pool> pools;
  std::optional<Target> target;
  std::optional<Budget> budget;
  std::optional<Prices> prices;
  double data_stall_s = 0;  // the step waits so long for its data (sim/study/loader_stall.h)
  SampleLoad sample;
  // Of an uneven workload: the steps that were drawn, and the one that is lowered; none of either
  // where all micro-batches are scenario.sample.
  std::shared_ptr<const std::vector<StepLoads>> steps;
  const StepLoads* step = nullptr;
  std::vector<Diagnostic> warnings;
  struct Input {
    std::string role, name, hash;  // "model", "llava-1.6-7b", content hash
  };
  std::vector<Input> inputs;
};

// Catalogue files, read once and shared by all threads and all points of a study.
class InputCache {
 public:
  explicit InputCache(std::string data_root) : data_root_(std::move(data_root)) {}
  template <typename T>
  struct Entry {
    std::shared_ptr<const T> value;
    std::string hash;  // of the file's text
  };
  Entry<Model> GetModel(const std::string& name_or_file);
  Entry<Cluster> GetCluster(const std::string& name_or_file);
  Entry<Profile> GetProfile(const std::string& name_or_file);
  Entry<Stack> GetStack(const std::string& name_or_file);
  // Documents that are no files, under the name that a scenario gives them. A name that is already
  // known keeps its entry, so that all who add the same document share it. Errors: as of the files.
  void AddModel(const std::string& name, const JsonDocument& document);
  void AddCluster(const std::string& name, const JsonDocument& document);
  // These replace what had the name.
  void AddStack(const std::string& name, const Stack& stack);
  void AddProfile(const std::string& name, const Profile& profile);
  SampleFileCache* samples() { return &samples_; }

 private:
  template <typename T, typename Read>
  void Add(std::unordered_map<std::string, Entry<T>>* known, const std::string& name,
           const JsonDocument& document, Read read);
  template <typename T, typename Open, typename Read>
  Entry<T> Get(std::unordered_map<std::string, Entry<T>>* known, const std::string& name, Open open,
               Read read);

  std::string data_root_;
  std::mutex mutex_;
  std::unordered_map<std::string, Entry<Model>> models_;
  std::unordered_map<std::string, Entry<Cluster>> clusters_;
  std::unordered_map<std::string, Entry<Profile>> profiles_;
  std::unordered_map<std::string, Entry<Stack>> stacks_;
  SampleFileCache samples_;
};

// Relative half-width of the 90 % interval that a step time of this scenario is quoted with: what the
// stack's constants miss on runs that they were not fitted on (time.band_share) and, where the device
// was not measured itself, what its derived profile adds.
double StepBand(const Scenario& scenario);

// Reads and validates a scenario (docs/schema/scenario.schema.json). The key "sweep" is left to the studies.
Scenario ReadScenario(const JsonDocument& document, InputCache* cache);

}  // namespace aurum
