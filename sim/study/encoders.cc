#include "sim/study/encoders.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "sim/core/diagnostic.h"
#include "sim/cost/profile.h"
#include "sim/cost/stack.h"
#include "sim/workload/layer_cost.h"

// How a row becomes seconds
// =========================
//
// Inference is the forward pass of a batch under torch.autocast: patch embedding, layers, classifier; the
// 32-bit weights are read and written in 16 bits on the way. A training step is forward and backward
// and SGD with momentum on the 32-bit weights. The layers cost what they cost in a training plan
// (sim/workload/layer_cost.h) with the stack that is nearest: Hugging Face's eager layers, or, where
// the row says compiled, torchtune's compiled ones; attention in separate kernels where PyTorch is
// older than 2.0, which brought the fused one. Their step overhead belongs to a trainer's loop and is
// left out: a benchmark has none.
//
// GMACs that a row tells are timm's count of multiply-accumulates; ForwardMacs() must meet it, which
// tests check: it tells a misread name from a mispredicted time.

namespace aurum {
namespace {

struct Dimensions {
  const char* size;
  int hidden, layers, heads, mlp;
  bool gated = false;
};

// timm, vision_transformer.py: embed_dim, depth, num_heads, embed_dim · mlp_ratio.
constexpr Dimensions kVit[] = {
    {"tiny", 192, 12, 3, 768},        {"wee", 256, 14, 4, 1280},
    {"pwee", 256, 16, 4, 1280},       {"little", 320, 14, 5, 1792},
    {"dlittle", 320, 14, 5, 1792},    {"small", 384, 12, 6, 1536},
    {"medium", 512, 12, 8, 2048},     {"mediumd", 512, 20, 8, 2048},
    {"betwixt", 640, 12, 10, 2560},   {"base", 768, 12, 12, 3072},
    {"so150m", 896, 18, 14, 2304},    {"so150m2", 832, 21, 13, 2176},
    {"large", 1024, 24, 16, 4096},    {"so400m", 1152, 27, 16, 4304},
    {"huge", 1280, 32, 16, 5120},     {"giant", 1408, 40, 16, 6144},
    {"giantopt", 1536, 40, 16, 6144}, {"gigantic", 1664, 48, 16, 8192},
};
// eva.py: EVA-02's gated MLP has 4 · 2/3 of the width.
constexpr Dimensions kEva02[] = {{"tiny", 192, 12, 3, 512, true},
                                 {"small", 384, 12, 6, 1024, true},
                                 {"base", 768, 12, 12, 2048, true},
                                 {"large", 1024, 24, 16, 2730, true}};
constexpr Dimensions kAimv2[] = {{"large", 1024, 24, 8, 2816, true},
                                 {"huge", 1536, 24, 12, 4096, true},
                                 {"1b", 2048, 24, 16, 5632, true},
                                 {"3b", 3072, 24, 24, 8192, true}};
// Where a family departs from its size.
constexpr Dimensions kPlus = {"plus", 896, 12, 14, 3584};  // vit_base_…plus…
constexpr Dimensions kDinov2Giant = {"giant", 1536, 40, 24, 4096, true};
constexpr Dimensions kDinov3HugePlus = {"huge", 1280, 32, 20, 5120, true};
constexpr Dimensions kDinov3SmallPlus = {"small", 384, 12, 6, 1536, true};
constexpr Dimensions kSpatialGigantic = {"gigantic", 1536, 50, 16, 8960};

template <std::size_t n>
const Dimensions* Named(const Dimensions (&table)[n], const std::string& size) {
  for (const Dimensions& d : table) {
    if (size == d.size) return &d;
  }
  return nullptr;
}

std::vector<std::string> Words(const std::string& name) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at <= name.size()) {
    const std::size_t end = std::min(name.find('_', at), name.size());
    words.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The digits behind `prefix`, which are all that follows; 0 if it is another word.
int NumberBehind(const std::string& word, const std::string& prefix) {
  if (!word.starts_with(prefix) || word.size() == prefix.size()) return 0;
  int value = 0;
  for (std::size_t i = prefix.size(); i < word.size(); ++i) {
    if (word[i] < '0' || word[i] > '9' || value > 100000) return 0;
    value = 10 * value + (word[i] - '0');
  }
  return value;
}

}  // namespace

double VisionTransformer::ForwardMacs(bool attention) const {
  double macs = patches * static_cast<double>(module.input.front().in) *
                static_cast<double>(module.input.front().out);
  const double h = module.hidden;
  for (const LayerRun& run : module.runs) {
    const double matrices =
        4 * h * h + (run.layer.mlp.gated ? 3 : 2) * h * run.layer.mlp.intermediate;
    macs += run.count * (tokens * matrices + (attention ? 2 * tokens * tokens * h : 0));
    // One query reads keys and values of all tokens.
    if (pooled) macs += 2 * tokens * h * h + 2 * h * h + 2 * h * run.layer.mlp.intermediate;
  }
  for (const Linear& linear : module.output) {
    macs += static_cast<double>(linear.in) * static_cast<double>(linear.out);
  }
  return macs;
}

std::optional<VisionTransformer> VisionTransformerFromName(const std::string& name, int image_size,
                                                           std::string* reason) {
  *reason = "model kind not supported";
  const std::vector<std::string> words = Words(name);
  const auto has = [&](const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (words.size() < 2) return std::nullopt;
  const std::string& family = words[0];
  const bool vit = family == "vit" || family == "flexivit";
  const bool deit = family == "deit" || family == "deit3";
  const bool beit = family == "beit" || family == "beitv2" || family == "beit3";
  std::size_t at = 1;
  bool relative = false;
  if (words[1] == "relpos" || words[1] == "srelpos") {
    relative = true;
    ++at;
  } else if (words[1] == "pe") {  // Perception Encoder: vit_pe_core_small_…
    at = 3;
  }
  if (at >= words.size()) return std::nullopt;
  const std::string& size = words[at];
  const Dimensions* found = nullptr;
  if (vit || deit || beit || family == "eva") found = Named(kVit, size);
  if (family == "eva02") found = Named(kEva02, size);
  if (family == "aimv2") found = Named(kAimv2, size);
  if (found == nullptr) return std::nullopt;
  // Stems of convolutions ("r50", "resnet26d", "mci"), with a stride of their own ("s16").
  int patch = family == "flexivit" ? 16 : 0;
  int registers = 0;
  int repeats = 1;
  for (const std::string& word : words) {
    if (word.starts_with("resnet") || NumberBehind(word, "r") > 0 || word == "r" ||
        NumberBehind(word, "s") > 0 || word == "mci") {
      return std::nullopt;
    }
    patch = std::max(patch, NumberBehind(word, "patch"));
    registers = std::max(registers, NumberBehind(word, "reg"));
    if (word == "18x2" || word == "36x1")
      repeats = 3;  // of 12 layers, one after another or side by side
  }
  if (patch == 0) return std::nullopt;
  Dimensions d = *found;
  if (has("plus")) {
    if (has("dinov3")) {
      d = size == "huge" ? kDinov3HugePlus : kDinov3SmallPlus;
    } else {
      d = kPlus;
    }
  }
  if (has("dinov2") && size == "giant") d = kDinov2Giant;
  if (has("spatial") && size == "gigantic") d = kSpatialGigantic;

  const bool siglip = has("siglip");
  VisionTransformer out;
  out.image_size = image_size;
  out.patches = std::floor(image_size / patch) * std::floor(image_size / patch);
  double own = 1;  // a class token
  if (has("gap") || siglip || family == "aimv2" || (relative && !has("cls") && !has("clsgap")) ||
      (vit && has("rpn")) || has("map")) {
    own = 0;
  }
  if (has("distilled")) own = 2;
  if (has("dinov3")) registers = 4;
  out.tokens = out.patches + own + registers;
  out.pooled = (siglip && !has("gap")) || has("map");

  Module& module = out.module;
  module.name = name;
  module.kind = ModuleKind::kEncoder;
  module.modality = Modality::kVision;
  module.hidden = d.hidden;
  module.input = {{3LL * patch * patch, d.hidden, true, 1}};
  Layer layer;
  layer.attention.heads = d.heads;
  layer.attention.kv_heads = d.heads;
  layer.attention.head_dim = d.hidden / d.heads;
  layer.attention.qkv_bias = true;
  layer.attention.output_bias = true;
  layer.mlp.intermediate = d.mlp;
  layer.mlp.gated = d.gated;
  layer.mlp.bias = true;
  layer.layer_norm = true;
  layer.norm_parameters = 4LL * d.hidden;
  module.runs = {{d.layers * repeats, layer}};
  const double h = d.hidden;
  out.parameters = d.layers * repeats * (4 * h * h + (d.gated ? 3 : 2) * h * d.mlp) +
                   3.0 * patch * patch * h + (out.pooled ? 4 * h * h + 2 * h * d.mlp : 0);
  reason->clear();
  return out;
}

namespace {

// Cards as tables spell them.
const std::map<std::string, std::string>& Profiles() {
  static const std::map<std::string, std::string> profiles = {
      {"RTX 3090", "rtx3090"},
      {"RTX 4090", "rtx4090"},
      {"RTX 5090", "rtx5090"},
      {"RTX PRO 6000 Max-Q", "rtx-pro-6000-max-q"},
      {"A100", "a100"},
      {"A100-SXM4-80GB", "a100"},
      {"A100-SXM4-40GB", "a100-40"},
      {"V100-SXM2-16GB", "v100-16"},
      {"V100-SXM2-32GB", "v100-32"},
      {"H100-80GB", "h100"},
      {"L40S-48GB", "l40s"},
      {"T4", "t4"},
  };
  return profiles;
}

// 32-bit weights, read, and their 16-bit copies, written.
constexpr double kCastBytes = 4 + 2;
// SGD with momentum: weight and momentum read and written, gradient read, 32 bits each.
constexpr double kSgdBytes = 20;

struct Costs {
  double seconds = 0;
  double matrix_s = 0;
};

Costs StepOf(const VisionTransformer& vit, double batch, bool training, bool autocast,
             const CostContext& context) {
  KernelCost kernels;
  double host = 0;
  const auto add = [&](const PassCost& pass) {
    kernels += pass.forward;
    if (training) kernels += pass.input_gradient + pass.weight_gradient;
  };
  const Module& module = vit.module;
  const double h = module.hidden;
  for (const Linear& input : module.input) {
    add(CostOfLinear(batch * vit.patches, static_cast<double>(input.in),
                     static_cast<double>(input.out), context));
  }
  for (const LayerRun& run : module.runs) {
    LayerShape shape;
    shape.hidden = module.hidden;
    shape.batches = {{batch, vit.tokens}};
    const LayerCost cost = CostOfLayer(run.layer, shape, context);
    PassCost layer = cost.attention;
    layer += cost.mlp;
    for (int i = 0; i < run.count; ++i) add(layer);
    host += run.count * context.stack->host_per_layer_s * (training ? 2 : 1);
    if (vit.pooled) {
      add(CostOfLinear(batch * vit.tokens, h, 2 * h, context));
      add(CostOfLinear(batch, h, 2 * h, context));
    }
  }
  const double casts = autocast ? kCastBytes : 0;
  const double state = vit.parameters * (casts + (training ? kSgdBytes : 0));
  if (state > 0) kernels.memory_s += context.profile->MemoryBoundSeconds(state);
  Costs out;
  out.matrix_s = kernels.gemm_s + kernels.attention_s;
  out.seconds = std::max(kernels.Seconds(), host);
  return out;
}

class RowReader {
 public:
  RowReader(const JsonDocument& document, const Json& row, std::size_t index)
      : document_(document), row_(row), pointer_("/" + std::to_string(index)) {}

  std::string Text(const char* key) const {
    const Json* value = Get(key);
    if (value == nullptr) return "";
    if (!value->IsString()) Fail(*value, key, "a string");
    return value->AsString();
  }
  double Number(const char* key) const {  // 0 where it is missing
    const Json* value = Get(key);
    if (value == nullptr) return 0;
    if (!value->IsNumber() || value->AsNumber() < 0) Fail(*value, key, "a number from 0");
    return value->AsNumber();
  }
  bool Flag(const char* key) const {
    const Json* value = Get(key);
    if (value == nullptr) return false;
    if (!value->IsBool()) Fail(*value, key, "true or false");
    return value->AsBool();
  }
  bool Has(const char* key) const { return Get(key) != nullptr; }

 private:
  const Json* Get(const char* key) const {
    const Json* value = row_.Find(key);
    return value == nullptr || value->IsNull() ? nullptr : value;
  }
  [[noreturn]] void Fail(const Json& value, const std::string& key, const std::string& what) const {
    Diagnostic d;
    d.code = 861;
    d.message = "'" + key + "' is " + std::string(value.TypeName()) + ", not " + what;
    d.help = "leave it out where it is not known";
    d.where = document_.Locate(value, pointer_ + "/" + key);
    throw InputError(d, ExitCode::kInvalidInput);
  }

  const JsonDocument& document_;
  const Json& row_;
  std::string pointer_;
};

template <typename T, typename Read>
const T& Cached(std::map<std::string, std::unique_ptr<T>>* cache, const std::string& name,
                Read read) {
  std::unique_ptr<T>& entry = (*cache)[name];
  if (!entry) entry = std::make_unique<T>(read());
  return *entry;
}

}  // namespace

std::vector<EncoderRow> PredictEncoders(const JsonDocument& document,
                                        const std::string& data_root) {
  if (!document.root.IsArray()) {
    Diagnostic d;
    d.code = 860;
    d.message = "this is " + std::string(document.root.TypeName()) + ", not an array of rows";
    d.help = "[{\"id\": …, \"model\": …, \"gpu\": …, \"batch\": …, \"step_ms\": …}, …]";
    d.where = document.Locate(document.root, "");
    throw InputError(d, ExitCode::kInvalidInput);
  }
  std::map<std::string, std::unique_ptr<Profile>> profiles;
  std::map<std::string, std::unique_ptr<Stack>> stacks;
  std::vector<EncoderRow> rows;
  for (std::size_t i = 0; i < document.root.items().size(); ++i) {
    const Json& item = document.root.items()[i];
    if (!item.IsObject()) {
      Diagnostic d;
      d.code = 860;
      d.message = "a row that is " + std::string(item.TypeName()) + ", not an object";
      d.help = "each row is an object";
      d.where = document.Locate(item, "/" + std::to_string(i));
      throw InputError(d, ExitCode::kInvalidInput);
    }
    const RowReader reader(document, item, i);
    EncoderRow row;
    row.id = reader.Text("id");
    row.gpu = reader.Text("gpu");
    row.model = reader.Text("model");
    row.gmacs = reader.Number("gmacs");
    const std::string told = reader.Text("kind");
    const bool training = told.starts_with("vision encoder training step");
    const bool compiled = reader.Flag("compiled");
    row.kind = std::string(training ? "training" : "inference") + (compiled ? ", compiled" : "");
    const double batch = reader.Number("batch");
    const double samples_per_s = reader.Number("samples_per_s");
    row.measured_s = reader.Number("step_ms") * 1e-3;
    if (row.measured_s == 0 && samples_per_s > 0) row.measured_s = batch / samples_per_s;
    const std::string precision = reader.Text("precision");
    const std::string framework = reader.Text("framework");
    const bool unfused = framework.find("PyTorch 1.") != std::string::npos;
    const int image_size = static_cast<int>(std::min(reader.Number("img_size"), 1e5));

    std::optional<VisionTransformer> vit;
    if (!training && told != "vision encoder inference") {
      row.skipped = "model kind not supported";
    } else {
      vit = VisionTransformerFromName(row.model, image_size, &row.skipped);
    }
    if (vit) {
      if (reader.Has("flags")) {
        row.skipped = "the row is flagged as doubtful";
      } else if (reader.Number("num_gpus") > 1) {
        row.skipped = "several GPUs";
      } else if (!Profiles().contains(row.gpu)) {
        row.skipped = "no profile of this GPU";
      } else if (precision != "AMP FP16" && precision != "AMP BF16" && precision != "BF16") {
        row.skipped = "precision not supported";
      } else if (batch < 1 || row.measured_s <= 0 || image_size < 1 || vit->patches < 1) {
        row.skipped = "no batch, image size or time";
      }
    }
    if (row.skipped.empty()) {
      row.profile = Profiles().at(row.gpu);
      CostContext context;
      context.profile = &Cached(&profiles, row.profile,
                                [&] { return ReadProfile(OpenProfile(row.profile, data_root)); });
      const std::string stack = compiled  ? "torchtune"
                                : unfused ? "hf-transformers-unfused"
                                          : "hf-transformers";
      context.stack = &Cached(&stacks, stack, [&] { return LoadStack(stack, data_root); });
      context.precision = precision == "AMP FP16" ? Precision::kFp16 : Precision::kBf16;
      const Costs costs = StepOf(*vit, batch, training, precision != "BF16", context);
      row.predicted_s = costs.seconds;
      row.matrix_share = costs.matrix_s / costs.seconds;
      row.our_gmacs = vit->ForwardMacs() / 1e9;
      row.our_gmacs_without_attention = vit->ForwardMacs(false) / 1e9;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

std::vector<EncoderScore> ScoreEncoders(const std::vector<EncoderRow>& rows) {
  std::map<std::pair<std::string, std::string>, std::pair<EncoderScore, std::vector<double>>>
      groups;
  for (const EncoderRow& row : rows) {
    auto& [score, errors] = groups[{row.gpu, row.kind}];
    score.gpu = row.gpu;
    score.kind = row.kind;
    if (row.skipped.empty()) {
      ++score.compared;
      errors.push_back(row.predicted_s / row.measured_s - 1);
    } else {
      ++score.skipped;
    }
  }
  std::vector<EncoderScore> scores;
  for (auto& [key, group] : groups) {
    auto& [score, errors] = group;
    if (!errors.empty()) {
      score.bias = Median(errors);
      for (double& error : errors) error = std::abs(error);
      score.median_ape = Median(errors);
      for (const double error : errors) score.mape += error / static_cast<double>(errors.size());
    }
    scores.push_back(score);
  }
  return scores;
}

}  // namespace aurum
