#pragma once

#include <vector>

#include "sim/plan/units.h"

namespace aurum {

// What a module of the model sees on one GPU in one micro-batch of its own.
struct Share {
  const Module* module = nullptr;
  std::size_t index = 0;
  double tp = 1;
  double cp = 1;  // GPUs that share each sequence: of a module whose tokens are split, its tp
  ContextParallelKind cp_kind = ContextParallelKind::kRing;
  bool split_tokens = false;  // they are its tensor-parallel group (SplitAxis::kTokens)
  bool sequence_parallel = false;
  double samples = 1;  // of the micro-batch that this GPU works on
  std::vector<SequenceBatch> batches;
  double output_tokens = 0;
  double kv_source_tokens = 0;
  bool backward = false, trained = false;
  bool backbone = false;
  int every = 1, pieces = 1;
};

// Of all sequences together.
double TotalTokens(const std::vector<SequenceBatch>& batches);

// Makes the units of a module: what its parts cost, keep, say and hold on one GPU of a stage.
class UnitMaker {
 public:
  UnitMaker(const Scenario& scenario, const CostContext& context)
      : scenario_(scenario), plan_(scenario.plan), context_(context) {}

  // Token embedding, patch embedding and other inputs.
  void AddInput(const Share& share, std::vector<Unit>* units) const;
  // Layers `first` … `last` of the module, those among them that are executed.
  void AddLayers(const Share& share, int first, int last, std::vector<Unit>* units) const;
  // Resampler and output matrices: a merger, a connector, a projection.
  void AddOutput(const Share& share, std::vector<Unit>* units) const;
  // Output head and loss, and the modules that predict further tokens.
  void AddHead(const Share& share, std::vector<Unit>* units) const;

  // Of two towers: the features of all replicas against this GPU's own (CLIP with a local loss).
  void AddContrastiveLoss(const Share& share, std::vector<Unit>* units) const;

 private:
  void AddMultiTokenPrediction(const Share& share, std::vector<Unit>* units) const;
  // `shared`: its matrix is another head's.
  Unit HeadUnit(const Share& share, bool shared) const;
  bool Training() const { return scenario_.workload.task == Task::kTrain; }
  // Narrow formats are for the products of the backbone's layers.
  CostContext Wide() const;
  void AddHostTime(Unit* unit) const;
  void AddRouting(Unit* unit) const;
  double PromptTokens(const Share& share) const;
  double AdapterCopies() const;
  static Unit Base(const Share& share, const char* name);
  double AdapterParameters(const Layer& layer, double hidden, double tp, bool apart) const;
  Unit LayerUnit(const Share& share, const Layer& layer, const Recompute& recompute) const;
  void AddContextBytes(const Layer& layer, const Share& share, double tokens, Unit* unit) const;
  void CountParameters(const Layer& layer, const Share& share, bool apart,
                       UnitParameters* out) const;

  const Scenario& scenario_;
  const Plan& plan_;
  const CostContext& context_;
};

}  // namespace aurum
