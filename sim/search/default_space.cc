#include <algorithm>
#include <set>

#include "sim/search/space.h"

namespace aurum {
namespace {

std::vector<int> Divisors(int n) {
  std::vector<int> all;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) all.push_back(d);
  }
  return all;
}

class DefaultMaker {
 public:
  explicit DefaultMaker(const Scenario& scenario)
      : s_(scenario), backbone_("plan." + scenario.model->Backbone().name + ".") {}

  PlanSpace Make() {
    space_.name = "auto";
    Degrees();
    Batch();
    if (s_.workload.task == Task::kTrain) {
      Recompute_();
      Sharding_();
      Offload_();
    }
    Encoders();
    Order();
    return std::move(space_);
  }

 private:
  template <typename T>
  void Add(const std::string& name, const std::string& path, const std::vector<T>& values,
           bool state = true, bool late = false) {
    if (values.size() < 2) return;
    Dimension d;
    d.name = name;
    d.state = state;
    d.late = late;
    d.choices = ChoicesOf(path, std::vector<Json>(values.begin(), values.end()));
    space_.dimensions.push_back(std::move(d));
  }

  void Degrees() {
    const Module& backbone = s_.model->Backbone();
    const int gpus = s_.cluster->GpuCount();
    const Attention& attention = backbone.runs.front().layer.attention;
    // Tensor parallelism stays where links are fast.
    int domain = 1;
    while (domain < std::min(gpus, s_.cluster->gpus_per_node) ||
           (domain < gpus && s_.cluster->HasNvLink() &&
            s_.cluster->NvLinkDomainOf(domain) == s_.cluster->NvLinkDomainOf(0)))
      ++domain;
    std::vector<int> tp, cp, ep;
    for (const int d : Divisors(gpus)) {
      if (d <= domain && attention.heads % d == 0) tp.push_back(d);
      // A GPU's part of a sequence is long enough to be worth its exchange.
      if (d <= 32 && s_.sample.backbone_tokens / d >= 2048) cp.push_back(d);
    }
    Add("tp", backbone_ + "tp", tp);
    if (s_.workload.task != Task::kTrain) return;
    if (s_.sample.backbone_tokens >= 8192) Add("cp", backbone_ + "cp", cp);
    Pipelines();
    int experts = 0;
    for (const LayerRun& run : backbone.runs) experts = std::max(experts, run.layer.mlp.experts);
    if (experts > 1) {
      for (const int d : Divisors(experts)) {
        if (d <= gpus && d <= 64) ep.push_back(d);
      }
      Add("ep", backbone_ + "ep", ep);
    }
  }

  // Stages and chunks together: one stage has no chunks to gain from, and where layers do not divide,
  // how they are split goes with both.
  void Pipelines() {
    const int layers = s_.model->Backbone().Layers();
    std::vector<int> stages;
    int divide = 0;
    for (const int p : Divisors(s_.cluster->GpuCount())) {
      if (p > std::min(layers, 64)) continue;
      stages.push_back(p);
      divide += layers % p == 0 ? 1 : 0;
    }
    const bool uneven = TellsSplit() || 2 * divide <= static_cast<int>(stages.size());
    Dimension d;
    d.name = "pipeline";
    for (const int p : stages) {
      for (int v = 1; v <= (p == 1 ? 1 : 8); ++v) {
        const int positions = p * v;
        if (positions > layers) break;
        const int rest = layers % positions;
        // Chunks that differ by more than the ends' layers gain nothing from being more.
        if (rest != 0 && (!uneven || (v > 1 && positions - rest > 2))) continue;
        Choice choice{"pp " + std::to_string(p) + (v > 1 ? " vpp " + std::to_string(v) : ""),
                      {{backbone_ + "pp", Json(p)}, {backbone_ + "vpp", Json(v)}}};
        if (uneven)
          choice.set.emplace_back(backbone_ + "layers_per_stage", Split(layers, positions));
        d.choices.push_back(std::move(choice));
      }
    }
    if (d.choices.size() > 1) space_.dimensions.push_back(std::move(d));
  }

  // The plan tells a split whose parts differ: an even one is what its reader makes of none.
  bool TellsSplit() const {
    const std::vector<int>& split = s_.plan.layers_per_stage;
    return std::any_of(split.begin(), split.end(),
                       [&](int layers) { return layers != split.front(); });
  }

  // Even, with the fewer layers at both ends, where embedding and head are, the last first.
  static Json Split(int layers, int positions) {
    std::vector<int> split(static_cast<std::size_t>(positions), layers / positions);
    int more = layers % positions;
    for (int i = 0; i < positions && more > 0; ++i) {
      // 1, 2, … p − 2, 0, p − 1
      const int at = i < positions - 2 ? i + 1 : i == positions - 2 ? 0 : positions - 1;
      ++split[static_cast<std::size_t>(at)];
      --more;
    }
    Json list = Json::Array();
    for (const int count : split) list.Append(Json(count));
    return list;
  }

  void Batch() {
    std::vector<std::int64_t> sizes;
    for (std::int64_t b = 1; b <= std::min<std::int64_t>(64, s_.workload.global_batch_size); b *= 2)
      sizes.push_back(b);
    const std::int64_t told = s_.plan.micro_batch_size;
    if (std::find(sizes.begin(), sizes.end(), told) == sizes.end()) sizes.push_back(told);
    Add("micro_batch_size", "plan.micro_batch_size", sizes, false);
  }

  void Recompute_() {
    Add<std::string>("recompute", "plan.recompute", {"none", "selective", "full"}, false);
  }

  // Of a step's state; ddp saves nothing where zero1 is to be had.
  void Sharding_() {
    if (s_.cluster->GpuCount() == 1) return;
    Add<std::string>("sharding", "plan.sharding", {"zero1", "zero2", "fsdp"});
  }

  // Only where the optimizer may not fit: its states alone are half of the cluster.
  void Offload_() {
    double parameters = 0;
    for (std::size_t i = 0; i < s_.model->modules.size(); ++i) {
      const Module& module = s_.model->modules[i];
      if (s_.plan.modules[i].frozen) continue;
      for (const LayerRun& run : module.runs)
        parameters += static_cast<double>(LayerParameters(run.layer, module.hidden)) * run.count;
    }
    constexpr double kStateBytes = 16;  // weights, gradients and Adam in mixed precision
    const double device = s_.cluster->gpu.memory_bytes * s_.cluster->GpuCount();
    if (kStateBytes * parameters < 0.5 * device) return;
    Dimension d;
    d.name = "offload";
    for (const double share : {0.0, 1.0})
      d.choices.push_back(
          {share > 0 ? "optimizer" : "none", {{"plan.offload.optimizer", Json(share)}}});
    space_.dimensions.push_back(std::move(d));
  }

  void Encoders() {
    for (std::size_t i = 0; i + 1 < s_.model->modules.size(); ++i) {
      const Module& module = s_.model->modules[i];
      if (module.kind != ModuleKind::kEncoder || module.Layers() == 0) continue;
      if (s_.workload.task != Task::kTrain) continue;
      Add<std::string>(module.name, "plan." + module.name + ".placement",
                       {"first_stage", "colocated_dp", "balanced", "in_bubbles"});
    }
  }

  void Order() {
    if (s_.cluster->nodes == 1 || s_.workload.task != Task::kTrain) return;
    Add<std::string>("rank_order", "plan.rank_order", {"tp-cp-dp-pp", "tp-cp-pp-dp"}, false, true);
  }

  const Scenario& s_;
  std::string backbone_;
  PlanSpace space_;
};

}  // namespace

PlanSpace DefaultSpace(const Scenario& scenario) { return DefaultMaker(scenario).Make(); }

}  // namespace aurum
