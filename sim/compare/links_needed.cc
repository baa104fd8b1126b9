#include "sim/compare/links_needed.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "sim/compare/substitute.h"

namespace aurum {
namespace {

constexpr double kMost = 64;
constexpr int kHalvings = 10;  // of log 64: within 0.4 %

double SamplesPerGpuSecond(const Evaluation& e) {
  return static_cast<double>(e.scenario.workload.global_batch_size) / e.StepSeconds() /
         e.scenario.cluster->GpuCount();
}

struct Knob {
  const char* links;
  std::vector<const char*> factors;
};

// A copy of the document with links `factor` times as fast as they are in it.
JsonDocument Faster(const JsonDocument& document, const Knob& knob, double factor,
                    std::vector<std::string>* set) {
  JsonDocument out = document;
  for (const char* key : knob.factors) {
    const std::string path = std::string("what_if.") + key;
    const Json* now = FindPath(out.root, path);
    const double value = factor * (now != nullptr && now->IsNumber() ? now->AsNumber() : 1);
    char text[48];
    std::snprintf(text, sizeof text, "%.4g", value);
    if (set != nullptr) set->push_back(path + "=" + text);
    SetPath(&out, path, Json(value), path + " = " + text);
  }
  return out;
}

}  // namespace

bool SameWork(const Scenario& a, const Scenario& b) {
  const auto hash = [](const Scenario& s) {
    for (const Scenario::Input& input : s.inputs) {
      if (input.role == "model") return input.hash;
    }
    return std::string();
  };
  return hash(a) == hash(b) && a.workload.task == b.workload.task &&
         a.sample.backbone_tokens == b.sample.backbone_tokens &&
         a.sample.cross_modal_tokens == b.sample.cross_modal_tokens &&
         (a.steps == nullptr) == (b.steps == nullptr);
}

std::optional<LinksNeeded> FindLinksNeeded(const JsonDocument& a, const Evaluation& of_a,
                                           const JsonDocument& b, const Evaluation& of_b,
                                           InputCache* cache) {
  if (!SameWork(of_a.scenario, of_b.scenario)) return std::nullopt;
  const double rate_a = SamplesPerGpuSecond(of_a), rate_b = SamplesPerGpuSecond(of_b);
  LinksNeeded out;
  out.of_b = rate_b < rate_a;
  if (std::min(rate_a, rate_b) >= kKeepsUp * std::max(rate_a, rate_b)) return std::nullopt;
  const Evaluation& slow = out.of_b ? of_b : of_a;
  const JsonDocument& document = out.of_b ? b : a;
  const Cluster& cluster = *slow.scenario.cluster;
  if (cluster.GpuCount() == 1) return std::nullopt;
  out.step_s = slow.StepSeconds();
  // Its own scenario on the other's cluster, if that is a plan.
  double measure = std::max(rate_a, rate_b);
  out.measure_step_s = (out.of_b ? of_a : of_b).StepSeconds();
  const Level level = slow.outcome.level;
  out.own_plan = false;
  if (const Json* other = (out.of_b ? a : b).root.Find("cluster"); other != nullptr) {
    JsonDocument moved = document;
    SetPath(&moved, "cluster", *other, "cluster of the other side");
    try {
      const Evaluation e = EvaluatePlain(moved, cache, level);
      out.own_plan = true;
      measure = SamplesPerGpuSecond(e);
      out.measure_step_s = e.StepSeconds();
    } catch (const InputError&) {
      out.own_plan = false;
    }
  }
  if (std::min(rate_a, rate_b) >= kKeepsUp * measure) return std::nullopt;
  out.target_s = out.step_s * std::min(rate_a, rate_b) / (kKeepsUp * measure);

  std::vector<Knob> knobs;
  if (cluster.nodes > 1) {
    knobs.push_back({"network", {"network_factor"}});
    knobs.push_back({"network and PCIe", {"network_factor", "pcie_factor"}});
  } else {
    knobs.push_back({"PCIe", {"pcie_factor"}});
  }
  if (cluster.HasNvLink()) knobs.push_back({"NVLink", {"nvlink_factor"}});
  for (const Knob& knob : knobs) {
    const auto step_at = [&](double factor) {
      return EvaluatePlain(Faster(document, knob, factor, nullptr), cache, level).StepSeconds();
    };
    LinksOfKind kind;
    kind.links = knob.links;
    kind.factor = kMost;
    try {
      kind.step_s = step_at(kMost);
      kind.enough = kind.step_s <= out.target_s;
      double low = 0, high = std::log(kMost);
      for (int i = 0; i < kHalvings && kind.enough; ++i) {
        const double middle = (low + high) / 2;
        const double step = step_at(std::exp(middle));
        if (step <= out.target_s) {
          high = middle;
          kind.step_s = step;
        } else {
          low = middle;
        }
      }
      kind.factor = kind.enough ? std::exp(high) : kMost;
    } catch (const InputError&) {
      continue;  // the factor and one that the scenario has leave what links can be
    }
    // Both kinds are no news where one is enough, unless it asks for much less.
    if (knob.factors.size() > 1 && !out.kinds.empty() && out.kinds.back().enough &&
        kind.factor > 0.9 * out.kinds.back().factor)
      continue;
    Faster(document, knob, kind.factor, &kind.set);
    if (cluster.nodes > 1 && std::string_view(knob.factors.front()) == "network_factor") {
      kind.gb_per_s_per_gpu = cluster.NetworkBandwidthPerGpu() / 1e9;
      kind.needed_gb_per_s_per_gpu = kind.gb_per_s_per_gpu * kind.factor;
    }
    out.kinds.push_back(std::move(kind));
  }
  return out;
}

}  // namespace aurum
