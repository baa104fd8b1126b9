#include "sim/explain/memory_tree.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/memory/state.h"
#include "sim/plan/lower.h"
#include "sim/plan/uneven.h"

// Three sources, as in the memory model itself (memory.cc):
//
//   lasting   LastingOf() is a sum over modules, apart from buffers that all share. Asked of a class that
//             has one module alone, it gives that module's part; what is left is the shared buffers.
//   moving    takes and returns of the program up to the peak, by the tensors they name
//   beside    context, communicators, fragmentation: the stack's constants
//
// Example, full fine-tuning of 7B parameters on one GPU: weights of the backbone 12.6 GiB, of the vision
// tower 0.6; activations of the backbone, layer by layer, only what the last forward left.
namespace aurum {
namespace {

const char* MovingName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kActivations:
      return "kept for backward";
    case MemoryKind::kLogits:
      return "logits and loss";
    case MemoryKind::kCommunication:
      return "gathered parameters and buffers";
    case MemoryKind::kGradients:
      return "gradients until the optimizer";
    case MemoryKind::kWorkspace:
      return "recomputed, or the optimizer's";
  }
  return "";
}

MemoryComponent ComponentOf(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kActivations:
      return MemoryComponent::kActivations;
    case MemoryKind::kLogits:
      return MemoryComponent::kLogits;
    case MemoryKind::kCommunication:
      return MemoryComponent::kCommunication;
    case MemoryKind::kGradients:
      return MemoryComponent::kGradients;
    case MemoryKind::kWorkspace:
      return MemoryComponent::kWorkspace;
  }
  return MemoryComponent::kWorkspace;
}

class Builder {
 public:
  Builder(const Scenario& scenario, const Program& program, const Schedule& schedule,
          const ClassMemory& memory, int rank_class)
      : s_(scenario),
        program_(program),
        schedule_(schedule),
        memory_(memory),
        class_(static_cast<std::size_t>(rank_class)) {
    tree_.rank_class = rank_class;
  }

  MemoryTree Make() {
    if (memory_.at == "loading") {
      Loading();
    } else {
      Lasting();
      Moving();
    }
    Beside();
    const auto module = [&](const MemoryItem& item) {
      for (std::size_t i = 0; i < s_.model->modules.size(); ++i) {
        if (s_.model->modules[i].name == item.module) return i;
      }
      return s_.model->modules.size();
    };
    std::stable_sort(tree_.items.begin(), tree_.items.end(),
                     [&](const MemoryItem& a, const MemoryItem& b) {
                       return std::make_tuple(a.component, module(a), -a.bytes) <
                              std::make_tuple(b.component, module(b), -b.bytes);
                     });
    return std::move(tree_);
  }

 private:
  void Add(MemoryComponent component, std::string module, std::string what, double bytes,
           double count = 1) {
    if (bytes < 1) return;
    tree_.items.push_back({component, std::move(module), std::move(what), count, bytes});
  }

  void Loading() {
    Add(MemoryComponent::kWeights, "", "the whole checkpoint, and this GPU's share of it",
        memory_.at_peak[static_cast<std::size_t>(MemoryComponent::kWeights)]);
    Add(MemoryComponent::kWorkspace, "", "libraries' workspaces",
        memory_.at_peak[static_cast<std::size_t>(MemoryComponent::kWorkspace)]);
  }

  void Lasting() {
    const RankClass& whole = program_.classes[class_];
    const LastingMemory all = LastingOf(s_, whole);
    LastingMemory told;
    for (std::size_t i = 0; i < whole.modules.size(); ++i) {
      RankClass alone = whole;
      for (std::size_t j = 0; j < alone.modules.size(); ++j) {
        if (j != i) alone.modules[j] = ModuleShare{};
      }
      const LastingMemory mine = LastingOf(s_, alone);
      const std::string& name = s_.model->modules[i].name;
      Add(MemoryComponent::kWeights, name, "parameters", mine.weights);
      Add(MemoryComponent::kGradients, name, "gradients", mine.gradients);
      Add(MemoryComponent::kOptimizer, name, "moments and master weights", mine.optimizer);
      Add(MemoryComponent::kKvCache, name, "keys and values", mine.kv_cache);
      told.weights += mine.weights;
      told.gradients += mine.gradients;
      told.optimizer += mine.optimizer;
      told.kv_cache += mine.kv_cache;
    }
    Add(MemoryComponent::kWeights, "", "shared", all.weights - told.weights);
    Add(MemoryComponent::kGradients, "", "shared", all.gradients - told.gradients);
    Add(MemoryComponent::kOptimizer, "", "shared", all.optimizer - told.optimizer);
    Add(MemoryComponent::kKvCache, "", "shared", all.kv_cache - told.kv_cache);
    Add(MemoryComponent::kCommunication, "", "buffers that last", all.communication);
    Add(MemoryComponent::kWorkspace, "", "libraries' workspaces", all.workspace);
  }

  // What the class has taken and not returned by its peak, the peak's own moment included.
  void Moving() {
    std::map<std::tuple<MemoryKind, std::int16_t, std::uint32_t>, double> live;
    for (const MemoryEvent& event : program_.memory) {
      if (event.rank_class != class_) continue;
      const Time when = event.at_end ? schedule_.end[event.op] : schedule_.start[event.op];
      if (when > memory_.peak_time) continue;
      const std::int16_t module = event.tensors != kNoTensors
                                      ? program_.tensors[event.tensors].module
                                      : program_.info[event.op].module;
      live[{event.kind, module, event.tensors}] += event.bytes;
    }
    std::map<std::tuple<MemoryComponent, std::string, std::string>, std::pair<double, double>> sums;
    for (const auto& [key, bytes] : live) {
      const auto& [kind, module, tensors] = key;
      const std::string name =
          module < 0 ? "" : s_.model->modules[static_cast<std::size_t>(module)].name;
      double one = 0;
      if (tensors != kNoTensors) {
        for (const KeptTensor& tensor : program_.tensors[tensors].tensors) one += tensor.bytes;
      }
      if (one <= 0) {
        auto& [sum, count] = sums[{ComponentOf(kind), name, MovingName(kind)}];
        sum += bytes;
        count = 1;
        continue;
      }
      const TensorSet& set = program_.tensors[tensors];
      for (const KeptTensor& tensor : set.tensors) {
        auto& [sum, count] = sums[{ComponentOf(kind), name, set.unit + ": " + tensor.name}];
        sum += bytes * tensor.bytes / one;
        count += bytes / one;
      }
    }
    for (const auto& [key, sum] : sums) {
      const auto& [component, module, what] = key;
      Add(component, module, what, sum.first, sum.second);
    }
  }

  void Beside() {
    const double all = memory_.at_peak[static_cast<std::size_t>(MemoryComponent::kRuntime)];
    const double context = s_.stack->runtime_bytes;
    const double communicators = s_.cluster->GpuCount() > 1 ? s_.stack->communicator_bytes : 0;
    const double fragments = memory_.reserved_bytes - memory_.allocated_bytes;
    Add(MemoryComponent::kRuntime, "", "context and libraries", context);
    Add(MemoryComponent::kRuntime, "", "communicators", communicators);
    Add(MemoryComponent::kRuntime, "", "fragmentation of what changes size", fragments);
    Add(MemoryComponent::kRuntime, "", "margin of the state",
        all - context - communicators - fragments);
  }

  const Scenario& s_;
  const Program& program_;
  const Schedule& schedule_;
  const ClassMemory& memory_;
  std::size_t class_;
  MemoryTree tree_;
};

}  // namespace

double MemoryTree::BytesOf(MemoryComponent component) const {
  double sum = 0;
  for (const MemoryItem& item : items) {
    if (item.component == component) sum += item.bytes;
  }
  return sum;
}

MemoryTree MakeMemoryTree(const Evaluation& e) {
  if (!e.data) {
    return Builder(e.scenario, e.program, e.outcome.schedule, e.memory.Heaviest(),
                   e.memory.heaviest)
        .Make();
  }
  const Scenario heaviest = WithHeaviestSample(e.scenario);
  LowerOptions options;
  options.traffic = TrafficOf(e.outcome.level);
  const Program program = Lower(heaviest, options);
  const Outcome outcome = Simulate(program, e.outcome.level);
  const MemoryReport report = MeasureMemory(heaviest, program, outcome);
  MemoryTree tree =
      Builder(heaviest, program, outcome.schedule, report.Heaviest(), report.heaviest).Make();
  tree.rank_class = e.memory.heaviest;
  return tree;
}

}  // namespace aurum
