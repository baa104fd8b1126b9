#include "sim/compare/facts.h"

#include <cmath>
#include <string>
#include <utility>

#include "sim/core/units.h"

namespace aurum {
namespace {

struct Fact {
  std::string of, fact, unit;
  Json value;
};

// Four digits are enough to tell two rates apart, and hide what rounding leaves of one.
Json Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return Json(0);
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return Json(std::round(value * scale) / scale);
}

std::vector<Fact> FactsOf(const Scenario& s) {
  std::vector<Fact> out;
  const auto add = [&](const char* of, const char* fact, const char* unit, Json value) {
    out.push_back({of, fact, unit, std::move(value)});
  };
  add("model", "name", "", s.model->name);
  add("model", "parameters", "billions",
      Rounded(static_cast<double>(ModelParameters(*s.model)) / 1e9));
  add("data", "backbone tokens per sample", "", Rounded(s.sample.backbone_tokens));
  add("data", "of them from media", "", Rounded(s.sample.cross_modal_tokens));
  add("data", "samples a step", "", Json(s.workload.global_batch_size));
  add("plan", "degrees and micro-batches", "", DescribePlan(s.plan));
  add("plan", "encoders", "", DescribeEncoders(s.plan, *s.model));
  add("plan", "recipe", "", DescribeRecipe(s.plan));
  add("plan", "replicas", "", Json(s.plan.dp));
  add("plan", "micro-batches a replica and step", "", Json(s.plan.micro_batches));
  const Cluster& c = *s.cluster;
  add("cluster", "name", "", c.name);
  add("cluster", "nodes × GPUs", "",
      std::to_string(c.nodes) + " × " + std::to_string(c.gpus_per_node));
  add("cluster", "GPU", "", c.gpu.name);
  add("cluster", "memory of a GPU", "GiB", Rounded(c.gpu.memory_bytes / kGiB));
  if (c.gpus_per_node > 1)
    add("cluster", "between two GPUs of a node", "GB/s", Rounded(c.RouteBandwidth(0, 1) / kGiga));
  if (c.nodes > 1) {
    add("cluster", "out of a node, per GPU", "GB/s", Rounded(c.NetworkBandwidthPerGpu() / kGiga));
    add("cluster", "transport between nodes", "", std::string(TransportName(c.transport)));
  }
  const Profile& p = *s.profile;
  add("profile", "name", "", p.name);
  if (const auto gemm = p.gemm.find(DType::kBf16); gemm != p.gemm.end()) {
    add("profile", "bf16 products, sustained", "TFLOP/s",
        Rounded(gemm->second.rate_flops / p.SustainedFactor(DType::kBf16) / kTera));
  }
  add("profile", "memory bandwidth", "GB/s",
      Rounded(p.device.memory_bandwidth_bytes_per_s * p.memory_bound_efficiency / kGiga));
  add("stack", "name", "", s.stack->name);
  return out;
}

std::vector<FactChange> CompareInputs(const Json& a, const Json& b) {
  std::vector<FactChange> out;
  const auto find = [](const Json& result, const std::string& role) -> const Json* {
    const Json* inputs = result.Find("inputs");
    if (inputs == nullptr || !inputs->IsArray()) return nullptr;
    for (const Json& input : inputs->items()) {
      const Json* of = input.Find("role");
      if (of != nullptr && of->IsString() && of->AsString() == role) return &input;
    }
    return nullptr;
  };
  for (const char* role : {"model", "cluster", "profile", "stack"}) {
    const Json *of_a = find(a, role), *of_b = find(b, role);
    if (of_a == nullptr || of_b == nullptr) continue;
    const auto text = [](const Json& input, const char* key) {
      const Json* value = input.Find(key);
      return value != nullptr && value->IsString() ? value->AsString() : std::string();
    };
    if (text(*of_a, "name") != text(*of_b, "name")) {
      out.push_back({role, "name", "", text(*of_a, "name"), text(*of_b, "name")});
    } else if (text(*of_a, "hash") != text(*of_b, "hash")) {
      out.push_back({role, "content of " + text(*of_a, "name") + " (hash)", "", text(*of_a, "hash"),
                     text(*of_b, "hash")});
    }
  }
  return out;
}

}  // namespace

std::vector<FactChange> CompareFacts(const Side& a, const Side& b) {
  if (!a.evaluation || !b.evaluation) return CompareInputs(a.result, b.result);
  const std::vector<Fact> of_a = FactsOf(a.evaluation->scenario);
  const std::vector<Fact> of_b = FactsOf(b.evaluation->scenario);
  std::vector<FactChange> out;
  const auto find = [](const std::vector<Fact>& facts, const Fact& like) -> const Fact* {
    for (const Fact& fact : facts) {
      if (fact.of == like.of && fact.fact == like.fact) return &fact;
    }
    return nullptr;
  };
  for (const Fact& fact : of_a) {
    const Fact* other = find(of_b, fact);
    if (other != nullptr && other->value.Dump() == fact.value.Dump()) continue;
    out.push_back(
        {fact.of, fact.fact, fact.unit, fact.value, other == nullptr ? Json() : other->value});
  }
  for (const Fact& fact : of_b) {
    if (find(of_a, fact) == nullptr)
      out.push_back({fact.of, fact.fact, fact.unit, Json(), fact.value});
  }
  return out;
}

}  // namespace aurum
