#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "sim/study/published/fields.h"
#include "sim/study/published/record.h"

// Facts told in words
//
// Tables of published measurements tell part of a run in prose: "FlashAttention 0.2.8, PyTorch
// 1.10", "layers 17/23 over the two stages", "H100-96GB (500W limit)". Each reader below knows a few
// phrases and says nothing where none of them stands. Figures that were measured are never read, and
// none of the notes' larger figures is left in them for the readers that look for words (sources.h).
//
//   fact                         phrases
//   version                      "26.06" in software and framework; "container 26.06" in notes
//   power limit                  "500W", "500 W" in the GPU's name; "500 W limit" in notes
//   attention kernel             "no FlashAttention", "unfused attention"; "FlashAttention 0.2.8"
//   compiled                     "torch.compile"; "no compile"
//   tensor-parallel overlap      "AsyncTP", "async TP=True", "TP comm overlap"; "async TP=False"
//   8-bit optimizer              "8-bit" behind "optimizer"
//   adapter rank                 "rank 32" of a run with adapters
//   layers of the stages         "layers 17/23", "16/24 layer split"
//   experts in balance           "force-balanced", "forced load balancing", "balanced gate"
//   frozen modules               "(ViT and aligner frozen)", "projector only", "connector only"
//   what a peak counts           "max allocated", "peak reserved", "nvidia-smi"
//   samples shorter than told    "max length", "lengths vary", "natural lengths", "sequence limit"

namespace aurum {
namespace {

bool Digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::size_t DigitsEnd(const std::string& text, std::size_t from) {
  while (from < text.size() && Digit(text[from])) ++from;
  return from;
}

// The number before the first " w" or "w" that ends a word, where it may be a GPU's power.
std::optional<double> WattsIn(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!Digit(text[at]) || (at > 0 && (Digit(text[at - 1]) || text[at - 1] == '.'))) continue;
    const std::size_t end = DigitsEnd(text, at);
    std::size_t unit = end;
    if (unit < text.size() && text[unit] == ' ') ++unit;
    const bool watts =
        unit < text.size() && text[unit] == 'w' &&
        (unit + 1 == text.size() || std::isalnum(static_cast<unsigned char>(text[unit + 1])) == 0);
    if (!watts || end - at > 4) continue;
    const double value = std::strtod(text.substr(at, end - at).c_str(), nullptr);
    if (value >= 50 && value <= 3000) return value;
  }
  return std::nullopt;
}

// "17/23" that stands at `from`: at least two numbers.
std::vector<std::int64_t> Fractions(const std::string& text, std::size_t from) {
  std::vector<std::int64_t> numbers;
  for (;;) {
    const std::size_t end = DigitsEnd(text, from);
    if (end == from || end - from > 4) return {};
    numbers.push_back(FirstNumber(text, from).value_or(0));
    if (end >= text.size() || text[end] != '/') break;
    from = end + 1;
  }
  return numbers.size() > 1 ? numbers : std::vector<std::int64_t>{};
}

std::vector<std::int64_t> LayersPerStage(const std::string& notes) {
  if (const std::size_t at = notes.find("layers "); at != std::string::npos) {
    if (auto numbers = Fractions(notes, at + 7); !numbers.empty()) return numbers;
  }
  if (const std::size_t at = notes.find(" layer split"); at != std::string::npos) {
    std::size_t from = at;
    while (from > 0 && (Digit(notes[from - 1]) || notes[from - 1] == '/')) --from;
    return Fractions(notes, from);
  }
  return {};
}

std::string FrozenIn(const std::string& task) {
  if (ContainsAny(task, {"projector only", "connector only", "aligner only"}))
    return "vision,backbone";
  if (Contains(task, "language + projector")) return "vision";
  if (!Contains(task, "frozen")) return "";
  const bool vision = ContainsAny(task, {"vit", "vision"});
  const bool connector = ContainsAny(task, {"aligner", "connector", "projector"});
  return vision && connector ? "vision,connector"
         : vision            ? "vision"
         : connector         ? "connector"
                             : "";
}

// "FlashAttention 0.2.8", "flash attention 1": the first; "flashattention-2", "FlashAttention 2.5": the
// second. "" where no number follows.
std::string FlashGeneration(const std::string& notes) {
  for (const std::string_view name : {"flashattention", "flash attention", "flash-attn"}) {
    std::size_t at = notes.find(name);
    if (at == std::string::npos) continue;
    at = notes.find_first_not_of(" -v", at + name.size());
    if (at == std::string::npos || !Digit(notes[at]) || DigitsEnd(notes, at) - at > 1) return "";
    if (notes[at] <= '1') return "flash1";
    if (notes[at] <= '3') return std::string("flash") + notes[at];
  }
  return Contains(notes, "triton attention") || Contains(notes, "attention (triton") ? "flash1"
                                                                                     : "";
}

std::optional<std::int64_t> Rank(const std::string& notes) {
  for (std::size_t at = notes.find("rank "); at != std::string::npos;
       at = notes.find("rank ", at + 1)) {
    if (at + 5 < notes.size() && Digit(notes[at + 5])) return FirstNumber(notes, at + 5);
  }
  return std::nullopt;
}

// Notes say what was measured, too: figures of three digits and more, or with a point, end here.
std::string WithoutFigures(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = DigitsEnd(text, at);
    if (end == at) {
      out += text[at++];
      continue;
    }
    const bool point =
        end + 1 < text.size() && (text[end] == '.' || text[end] == ',') && Digit(text[end + 1]);
    if (point) end = DigitsEnd(text, end + 1);
    out += point || end - at >= 3 ? "#" : text.substr(at, end - at);
    at = end;
  }
  return out;
}

}  // namespace

std::optional<int> ReleaseIn(const std::string& text) {
  for (std::size_t at = 0; at + 4 < text.size(); ++at) {
    const bool begins = at == 0 || (!Digit(text[at - 1]) && text[at - 1] != '.');
    if (!begins || text[at] != '2' || !Digit(text[at + 1]) || text[at + 2] != '.') continue;
    if (!Digit(text[at + 3]) || !Digit(text[at + 4])) continue;
    if (at + 5 < text.size() && Digit(text[at + 5])) continue;
    const int major = (text[at] - '0') * 10 + (text[at + 1] - '0');
    const int minor = (text[at + 3] - '0') * 10 + (text[at + 4] - '0');
    if (minor >= 1 && minor <= 12) return 100 * major + minor;  // a month
  }
  return std::nullopt;
}

void ReadNotes(RecordFacts* facts) {
  const std::string notes = Lower(facts->notes);
  const std::string task = Lower(facts->task);
  PlanFacts& plan = facts->plan;

  if (!facts->version) facts->version = ReleaseIn(facts->software);
  if (!facts->version) facts->version = ReleaseIn(facts->framework);
  if (!facts->version) {
    if (const std::size_t at = notes.find("container "); at != std::string::npos)
      facts->version = ReleaseIn(notes.substr(at, 24));
  }

  HardwareFacts& hardware = facts->hardware;
  if (!hardware.power_limit_w) hardware.power_limit_w = WattsIn(Lower(hardware.gpu));
  if (!hardware.power_limit_w) {
    for (const std::string_view phrase : {"w limit", "w power limit", "w gpus"}) {
      const std::size_t at = notes.find(phrase);
      if (at == std::string::npos) continue;
      hardware.power_limit_w = WattsIn(notes.substr(at < 6 ? 0 : at - 6, at < 6 ? at + 1 : 7));
    }
  }

  if (plan.attention.empty()) {
    if (ContainsAny(notes, {"no flashattention", "no flash attention", "without flashattention",
                            "without flash attention", "unfused attention"}))
      plan.attention = "unfused";
    else if (ContainsAny(notes, {"flashattention", "flash attention", "flash-attn"}))
      plan.attention = "flash";
  }
  if (plan.attention_kernel.empty() && plan.attention == "flash")
    plan.attention_kernel = FlashGeneration(notes);
  if (!plan.compiled) {
    if (ContainsAny(notes, {"no compile", "without torch.compile", "no regional compile"}))
      plan.compiled = false;
    else if (Contains(notes, "torch.compile"))
      plan.compiled = true;
  }
  if (!plan.tensor_parallel_overlap) {
    if (ContainsAny(notes, {"async tp=false", "asynctp=false"}))
      plan.tensor_parallel_overlap = false;
    else if (ContainsAny(notes, {"asynctp", "async tp", "tp comm overlap"}))
      plan.tensor_parallel_overlap = true;
  }
  if (plan.optimizer.empty()) {
    if (const std::size_t at = notes.find("optimizer adam"); at != std::string::npos) {
      const std::string rest = notes.substr(at, notes.find(';', at) - at);
      if (ContainsAny(rest, {"8-bit", "8bit"})) plan.optimizer = "8-bit";
    }
  }
  if (ContainsAny(task, {"lora", "dora"}) && !plan.adapter_rank) plan.adapter_rank = Rank(notes);
  if (plan.layers_per_stage.empty()) plan.layers_per_stage = LayersPerStage(notes);
  if (plan.frozen.empty()) plan.frozen = FrozenIn(task);
  if (facts->model.moe && !plan.expert_imbalance &&
      ContainsAny(notes, {"force-balanced", "forced-balance", "forced load balancing",
                          "balanced gate", "forced balance"}))
    plan.expert_imbalance = 1;
  if (facts->memory_counts.empty()) {
    if (ContainsAny(notes, {"max allocated", "max_memory_allocated", "peak allocated",
                            "peak active", "allocated mb"}))
      facts->memory_counts = "allocated";
    else if (ContainsAny(notes, {"max_memory_reserved", "peak reserved", "peak = reserved"}))
      facts->memory_counts = "reserved";
    else if (Contains(notes, "nvidia-smi"))
      facts->memory_counts = "device";
  }
  if (ContainsAny(notes, {"max length", "lengths vary", "natural length", "sequence limit",
                          "variable lengths"}))
    facts->model.sequence_is_limit = true;
  facts->notes = WithoutFigures(facts->notes);
}

}  // namespace aurum
