#include "models/prune.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

// What a cut through one width takes with it
// ------------------------------------------
// A transformer layer has three widths that can be cut on their own, and one that cannot:
//
//   heads      q, k, v and o lose whole heads; the stream keeps its width            ∝ share
//   MLP width  up, gate and down lose columns and rows                               ∝ share
//   layers     whole layers go                                                       ∝ share
//   channels   the stream itself: every matrix of the module that reads or writes it, its norms and
//              embeddings, and the matrices of its neighbours that take it in or hand it over.
//              Heads and MLP width stay, so matrices shrink by the share, not by its square.
//
// "Keep 85 % of the channels" is therefore 0.85 of the parameters; with heads and MLP cut as well it
// is 0.85² = 0.72; neither is the 0.59 that goes with some published "85 %".
//
// Grouped-query attention has a key and value head for every group of query heads. A group goes as a
// whole: cutting inside of one leaves its keys, and groups of unequal size fit no kernel.
namespace aurum {
namespace {

// A share of the whole up to 1, a count above.
int Left(ObjectReader& r, const char* key, int whole, const char* what) {
  if (!r.Has(key)) return whole;
  const double value = r.Number(key, 0, 1e9);
  double left = value;
  if (value <= 1) {
    left = std::round(value * whole);
  } else if (value != std::floor(value)) {
    r.Fail(652, key, std::string("above 1 it is a count of ") + what + ", and whole",
           "a share of at most 1, or a whole number");
  }
  if (left < 1 || left > whole) {
    r.Fail(652, key,
           std::to_string(static_cast<std::int64_t>(left)) + " of " + std::to_string(whole) + " " +
               what + " would be left",
           "a share above 0 and up to 1, or a count of 1 … " + std::to_string(whole));
  }
  return static_cast<int>(left);
}

std::string Percent(double share) {
  const auto tenths = static_cast<std::int64_t>(std::llround(share * 1000));
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
  return text + " %";
}

void Tell(std::string* told, double share, const char* what) {
  if (share == 1) return;
  *told += (told->empty() ? "" : ", ") + Percent(share) + " of its " + what;
}

void CutHeads(ObjectReader& r, Module* m, std::string* told) {
  if (!r.Has("keep_heads")) return;
  for (LayerRun& run : m->runs) {
    for (Attention* a : {&run.layer.attention, &run.layer.cross}) {
      if (a->heads == 0) continue;
      const int group = a->heads / a->kv_heads;
      const bool share = r.Number("keep_heads", 0, 1e9) <= 1;
      int left = Left(r, "keep_heads", a->heads, "heads");
      if (share && group > 1) left = std::max(1, (left + group / 2) / group) * group;
      if (left % group != 0) {
        r.Fail(651, "keep_heads",
               std::to_string(left) + " heads are not whole groups: " + std::to_string(group) +
                   " query heads of '" + m->name + "' share a head of keys and values",
               "a multiple of " + std::to_string(group) + ", or a share");
      }
      const double kept = static_cast<double>(left) / a->heads;
      if (a == &run.layer.attention && &run == m->runs.data()) Tell(told, kept, "heads");
      a->heads = left;
      a->kv_heads = left / group;
    }
  }
}

void CutMlp(ObjectReader& r, Module* m, std::string* told) {
  if (!r.Has("keep_ffn")) return;
  bool first = true;
  for (LayerRun& run : m->runs) {
    Mlp& mlp = run.layer.mlp;
    for (int* width : {&mlp.intermediate, &mlp.expert_intermediate, &mlp.shared_intermediate}) {
      if (*width == 0) continue;
      const int left = Left(r, "keep_ffn", *width, "columns of an MLP");
      if (first) Tell(told, static_cast<double>(left) / *width, "MLP width");
      first = false;
      *width = left;
    }
  }
}

// Evenly over the module: layer i of N stays where ⌊(i+1)·n/N⌋ > ⌊i·n/N⌋.
void CutLayers(ObjectReader& r, Module* m, std::string* told) {
  if (!r.Has("keep_layers")) return;
  const int whole = m->Layers();
  const int left = Left(r, "keep_layers", whole, "layers");
  if (m->layers_skipped >= left) {
    r.Fail(652, "keep_layers",
           "'" + m->name + "' would have " + std::to_string(left) +
               " layers, and nobody reads the last " + std::to_string(m->layers_skipped),
           "at least " + std::to_string(m->layers_skipped + 1));
  }
  std::vector<LayerRun> runs = std::move(m->runs);
  m->runs.clear();
  std::int64_t index = 0;
  for (const LayerRun& run : runs) {
    for (int k = 0; k < run.count; ++k, ++index) {
      if ((index + 1) * left / whole > index * left / whole) AppendLayer(m, run.layer);
    }
  }
  Tell(told, static_cast<double>(left) / whole, "layers");
}

std::int64_t Scaled(std::int64_t value, double share) {
  return std::llround(static_cast<double>(value) * share);
}

// Norms of the hidden width shrink with it, those of heads do not.
void CutNorms(Layer* layer, int before, int after) {
  const std::int64_t each = static_cast<std::int64_t>(before) * (layer->layer_norm ? 2 : 1);
  const std::int64_t whole = layer->norm_parameters / each;
  layer->norm_parameters -= whole * (each - each / before * after);
  layer->other_parameters = Scaled(layer->other_parameters, static_cast<double>(after) / before);
}

// A side of a neighbour's matrix that is the cut stream, or several of its tokens side by side.
void CutSide(std::int64_t* side, int before, int after) {
  if (*side % before == 0) *side = *side / before * after;
}

void CutChannels(ObjectReader& r, std::size_t index, Model* model, std::string* told) {
  if (!r.Has("keep_hidden")) return;
  Module& m = model->modules[index];
  const int before = m.hidden;
  const int after = Left(r, "keep_hidden", before, "channels");
  if (after == before) return;
  const double share = static_cast<double>(after) / before;
  m.hidden = after;
  for (LayerRun& run : m.runs) CutNorms(&run.layer, before, after);
  if (m.mtp_layers > 0) CutNorms(&m.mtp_layer, before, after);
  m.embedding_parameters = Scaled(m.embedding_parameters, share);
  if (m.resampler.queries > 0 && after % m.resampler.heads != 0) {
    r.Fail(651, "keep_hidden",
           std::to_string(after) + " channels are not a multiple of the resampler's " +
               std::to_string(m.resampler.heads) + " heads",
           "a multiple of " + std::to_string(m.resampler.heads));
  }
  // Its own inputs make the stream, its own outputs begin with it.
  if (!m.input.empty()) CutSide(&m.input.back().out, before, after);
  if (m.kind == ModuleKind::kConnector) {
    // Named by the width of what it makes, which is the backbone's; its layers, if any, have it too.
    if (!m.output.empty() && !m.runs.empty()) CutSide(&m.output.front().in, before, after);
    return;
  }
  if (!m.output.empty()) CutSide(&m.output.front().in, before, after);
  for (std::size_t i = 0; i < model->modules.size(); ++i) {
    Module& other = model->modules[i];
    if (i == index) continue;
    const bool backbone = m.kind == ModuleKind::kBackbone;
    // A tower that the backbone never reads (contrastive) hands it nothing.
    if (backbone && model->task == ModelTask::kGenerative && other.kind == ModuleKind::kConnector) {
      // Every output as wide as the backbone is cut: DeepStack has one for each of its mergers.
      for (Linear& linear : other.output) {
        if (linear.out == before) linear.out = after;
      }
      const bool square = other.output.size() > 1;
      for (std::size_t k = 1; square && k < other.output.size(); ++k) {
        if (other.output[k].in == before && other.output[k - 1].out == after)
          other.output[k].in = after;
      }
      if (other.hidden == before) other.hidden = after;
    }
    const bool follows =
        !backbone && other.modality == m.modality && other.kind == ModuleKind::kConnector;
    if (follows) {
      if (!other.input.empty()) {
        CutSide(&other.input.front().in, before, after);
      } else if (!other.output.empty() && other.runs.empty()) {
        CutSide(&other.output.front().in, before, after);
      }
      if (other.resampler.kv_input == before) other.resampler.kv_input = after;
      for (LayerRun& run : other.runs) {
        for (Attention* a : {&run.layer.attention, &run.layer.cross}) {
          if (a->kv_input == before) a->kv_input = after;
        }
      }
    }
  }
  Tell(told, share, "channels");
}

// The same matrices several times, side by side; their sum is one afterwards.
void Branch(int branches, std::vector<Linear>* linears) {
  std::vector<Linear> apart;
  for (const Linear& linear : *linears)
    apart.insert(apart.end(), static_cast<std::size_t>(branches), linear);
  *linears = std::move(apart);
}

void ReadTokens(ObjectReader& r, const Module& m, PrunedModule* out, std::string* told) {
  if (!r.Has("keep_tokens")) return;
  const double value = r.Number("keep_tokens", 0, 1e9);
  if (m.kind == ModuleKind::kBackbone) {
    r.Fail(653, "keep_tokens", "the backbone's own text is not merged",
           "keep_tokens of an encoder says how many of its tokens reach the backbone");
  }
  if (value <= 0 || (value > 1 && value != std::floor(value))) {
    r.Fail(652, "keep_tokens", "no share of tokens, and no count",
           "a share above 0 and up to 1, or the tokens of a sample that are left");
  }
  if (value <= 1) {
    out->token_share = value;
    Tell(told, value, "tokens");
  } else {
    out->token_count = static_cast<int>(value);
    *told += (told->empty() ? "" : ", ") + std::to_string(out->token_count) + " of its tokens";
  }
}

void PruneOne(ObjectReader r, std::size_t index, bool training, PrunedModel* out,
              std::vector<Diagnostic>* warnings) {
  const bool mask = r.ChoiceOr("mode", 0, {"slice", "mask"}) == 1;
  const std::string name = out->model.modules[index].name;
  std::string told;
  {
    const Module& m = out->model.modules[index];
    for (const char* key : {"keep_heads", "keep_ffn", "keep_layers"}) {
      if (r.Has(key) && m.runs.empty())
        r.Fail(653, key, "'" + name + "' has no layers", "prune the module that has them");
    }
  }
  Model whole;
  if (mask) whole = out->model;
  CutHeads(r, &out->model.modules[index], &told);
  CutMlp(r, &out->model.modules[index], &told);
  CutLayers(r, &out->model.modules[index], &told);
  CutChannels(r, index, &out->model, &told);
  if (mask && !told.empty()) {
    out->model = std::move(whole);
    Diagnostic d;
    d.code = 1390;
    d.warning = true;
    d.message = "a mask on '" + name + "' multiplies by zeros: " + told +
                " would be left, but no matrix gets smaller, and nothing is saved";
    d.help = "mode = slice takes the masked rows and columns out";
    d.where = r.document().Locate(r.value(), r.pointer());
    if (warnings != nullptr) warnings->push_back(std::move(d));
    told.clear();
  }
  ReadTokens(r, out->model.modules[index], &out->modules[index], &told);
  const int branches = static_cast<int>(r.IntegerOr("branches", 1, 1, 16));
  if (branches > 1) {
    Module& m = out->model.modules[index];
    if (m.input.empty() && m.output.empty()) {
      r.Fail(653, "branches",
             "'" + name + "' has no convolution or projection that could be trained as several",
             "the modules with an 'input' or 'output' have: patch embeddings, mergers, connectors");
    }
    if (training) {
      Branch(branches, &m.input);
      Branch(branches, &m.output);
    }
    told += (told.empty() ? "" : ", ") + std::to_string(branches) +
            (training ? " parallel branches" : " branches merged");
  }
  r.Finish();
  if (!told.empty()) out->told += (out->told.empty() ? "" : "; ") + name + ": " + told;
}

}  // namespace

PrunedModel PruneModel(const Model& model, ObjectReader reader, bool training,
                       std::vector<Diagnostic>* warnings) {
  PrunedModel out;
  out.model = model;
  out.modules.resize(model.modules.size());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < model.modules.size(); ++i) {
    names.push_back(model.modules[i].name);
    out.modules[i].name = model.modules[i].name;
    out.modules[i].parameters_before = ModuleParameters(model.modules[i]);
  }
  for (const std::string& key : reader.Keys()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    const std::string nearest = NearestName(key, names);
    std::string help = nearest.empty() ? "" : "did you mean '" + nearest + "'? ";
    help += "modules:";
    for (const std::string& known : names) help += " " + known;
    reader.Fail(650, key, "model '" + model.name + "' has no module '" + key + "'", help);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (reader.Has(names[i])) PruneOne(reader.Object(names[i]), i, training, &out, warnings);
  }
  reader.Finish();
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.modules[i].parameters_after = ModuleParameters(out.model.modules[i]);
    if (out.modules[i].token_share != 1 || out.modules[i].token_count > 0) out.any_tokens = true;
  }
  return out;
}

}  // namespace aurum
