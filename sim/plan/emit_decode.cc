#include "sim/plan/emit.h"

#include <array>

// Generation: prefill, then a token at a time.
namespace aurum {

void StageEmitter::Generate() {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(s_.plan.micro_batches); ++i) {
    RunPass({PassKind::kForward, 0, i});
    Decode(i);
  }
}

// One op per new token: all layers and the head, then the tensor-parallel collectives of all layers.
void StageEmitter::Decode(std::int32_t micro_batch) {
  const Module& backbone = s_.model->Backbone();
  const auto sequences = static_cast<double>(s_.plan.micro_batch_size);
  const std::size_t module = s_.model->modules.size() - 1;
  Cursor at;
  at.pass.micro_batch = micro_batch;
  at.front = table_.forward[0][static_cast<std::size_t>(micro_batch)].last;
  const PassCost head =
      CostOfHead(sequences, backbone.hidden, static_cast<double>(backbone.head_vocabulary),
                 s_.plan.tp, context_);
  const CommId reduce = communication_.decode_reduce;
  const double count = 2.0 * backbone.Layers();
  OpInfo info = Kind(OpKind::kDecode, at);
  info.module = static_cast<std::int16_t>(module);
  for (std::int64_t token = 1; token < s_.workload.new_tokens;
       ++token) {  // the first new token comes from the prefill
    KernelCost cost = head.forward;
    const double context_tokens = s_.sample.backbone_tokens + static_cast<double>(token);
    for (const LayerRun& run : backbone.runs) {
      const KernelCost layer = CostOfDecodeLayer(run.layer, backbone.hidden, s_.plan.tp, sequences,
                                                 context_tokens, context_);
      for (int i = 0; i < run.count; ++i) cost += layer;
    }
    cost.memory_s += s_.stack->layer_overhead_s * backbone.Layers();
    CheckClock(cost.Seconds());
    Work work{cost.Seconds(), 0, cost.flops};
    work.kernels = List(std::move(cost.kernels));
    Chain(&at, waves_.AddKernel(stage_, Lane::kMain, info, std::array{work}));
    if (pricer_.Seconds(reduce) > 0)
      ChainCommunication(&at, Lane::kTp, OpKind::kTpCollective, reduce, module, count);
    for (std::size_t c = 0; c < waves_.CountOf(stage_, {}); ++c) {
      RankClass& rank_class = program_.classes[waves_.FirstClass(stage_) + c];
      ModuleShare& share = rank_class.modules[module];
      // A share is of one micro-batch, and all of them decode.
      const auto rounds = static_cast<double>(s_.plan.micro_batches);
      share.flops += cost.flops / rounds;
      share.model_flops += cost.flops / rounds;
      share.forward_flops += cost.flops / rounds;
      share.forward_s += cost.Seconds() * rank_class.slowdown / rounds;
      share.tp_s += SecondsFor(pricer_, stage_, c, reduce) * count / rounds;
    }
  }
}

}  // namespace aurum
