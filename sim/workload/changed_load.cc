#include "sim/workload/changed_load.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/core/diagnostic.h"
#include "sim/workload/sample_tokens.h"

namespace aurum {
namespace {

void Scale(double share, ModuleLoad* load) {
  for (SequenceBatch& batch : load->batches) batch.tokens *= share;
  load->tokens *= share;
  load->real_tokens *= share;
}

// The backbone's sequences get `removed` tokens shorter, those of one sample together.
void Shorten(double removed, SampleLoad* load) {
  if (load->backbone_tokens <= 0) return;
  Scale(1 - removed / load->backbone_tokens, &load->modules.back());
  load->modules.back().output_tokens -= removed;
  load->backbone_tokens -= removed;
  load->real_tokens -= removed;
}

}  // namespace

void KeepMediaTokens(const Model& model, const std::vector<PrunedModule>& modules,
                     SampleLoad* load) {
  const MediaChains chains(model);
  for (const Modality modality : kMediaModalities) {
    const MediaChain& chain = chains.Of(modality);
    double share = 1, count = 0;
    std::string name;
    for (const int i : {chain.encoder, chain.connector}) {
      if (i < 0) continue;
      const PrunedModule& module = modules[static_cast<std::size_t>(i)];
      if (module.token_share == 1 && module.token_count == 0) continue;
      share = module.token_share;
      count = module.token_count;
      name = module.name;
    }
    if (name.empty()) continue;
    if (model.task == ModelTask::kContrastive) {
      ThrowInput(
          653, "no backbone takes the tokens of '" + name + "': they are pooled in the tower",
          "remove keep_tokens; keep_hidden, keep_heads, keep_ffn and keep_layers change a tower");
    }
    if (chain.resamples || chain.queries > 0) {
      ThrowInput(654, "learned queries decide how many tokens of '" + name + "' reach the backbone",
                 "fewer queries in the model's file; keep_tokens is for connectors that map token "
                 "by token");
    }
    ModuleLoad& last = load->modules[static_cast<std::size_t>(
        chain.connector >= 0 ? chain.connector : chain.encoder)];
    const double all = last.output_tokens;
    if (all <= 0) {
      ThrowInput(653, "a sample of this workload has no tokens of '" + name + "'",
                 "add media, or remove keep_tokens");
    }
    if (count > all) {
      ThrowInput(654,
                 std::to_string(static_cast<std::int64_t>(count)) + " tokens of '" + name +
                     "' are more than the " + std::to_string(static_cast<std::int64_t>(all)) +
                     " of a sample",
                 "a share of at most 1, or fewer");
    }
    const double left = count > 0 ? count : std::max(1.0, std::round(share * all));
    const double exact = left / all, removed = all - left;
    if (chain.encoder >= 0) {
      ModuleLoad& encoder = load->modules[static_cast<std::size_t>(chain.encoder)];
      encoder.output_tokens *= exact;
    }
    if (chain.connector >= 0) {
      Scale(exact, &last);
      last.output_tokens = left;
    }
    if (model.task == ModelTask::kContrastive) continue;
    load->cross_modal_tokens -= removed;
    if (load->cross_attention_tokens > 0 && modality != Modality::kAudio) {
      load->cross_attention_tokens -= removed;
    } else {
      Shorten(removed, load);
    }
  }
}

void AddPromptTokens(const Model& model, double tokens, SampleLoad* load) {
  for (std::size_t i = 0; i < model.modules.size(); ++i) {
    if (model.modules[i].runs.empty()) continue;
    ModuleLoad& module = load->modules[i];
    double sequences = 0;
    for (SequenceBatch& batch : module.batches) {
      batch.tokens += tokens;
      sequences += batch.sequences;
    }
    const double more = tokens * sequences;
    module.tokens += more;
    module.real_tokens += more;
    // What leaves an encoder are the tokens of its input: prompts stay behind.
    if (i + 1 < model.modules.size()) continue;
    module.output_tokens += more;
    load->backbone_tokens += more;
    load->real_tokens += more;
  }
}

}  // namespace aurum
