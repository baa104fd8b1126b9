#include <algorithm>
#include <array>

#include "sim/search/space.h"

// Every execution of Calculon's search is one of: a plan here; a plan that is the same as another's,
// because the two differ in what this simulation does not tell apart; or one that no placement of ranks
// realises.
//
//   all-gather of a sequence-parallel layer redone in backward or kept: the gather runs beside the
//     input gradients' product (Megatron-Core), and takes no time of its own
//   tensor-parallel traffic overlapped as a ring or as a pipeline: both go in pieces beside the products
//   which network serves a group: a consequence of the order in which ranks are numbered; whatever is
//     said to be within the node comes first. Groups that are within the node together must fill no
//     more than it.
namespace aurum {
namespace {

enum At {
  kTp,
  kPp,
  kVpp,
  kRecompute,
  kSharding,
  kTraffic,
  kMicroBatch,
  kWeights,
  kActivations,
  kOptimizer,
  kTpOverlap,
  kDpOverlap,
  kOrder
};

// Which of tensor, pipeline and data parallelism are within the node, and the order that puts them
// there.
struct Placed {
  const char* order;
  std::vector<std::array<bool, 3>> networks;  // tp, pp, dp: within the node
};
const std::vector<Placed>& Orders() {
  static const std::vector<Placed> orders = {
      {"tp-cp-dp-pp",
       {{false, false, false}, {true, false, false}, {true, false, true}, {true, true, true}}},
      {"tp-cp-pp-dp", {{true, true, false}}},
      {"pp-tp-cp-dp", {{false, true, false}}},
      {"dp-tp-cp-pp", {{false, false, true}}},
      {"dp-pp-tp-cp", {{false, true, true}}},
  };
  return orders;
}

class CalculonMaker {
 public:
  explicit CalculonMaker(const Scenario& scenario)
      : gpus_(scenario.cluster->GpuCount()),
        node_(scenario.cluster->gpus_per_node),
        batch_(scenario.workload.global_batch_size) {
    const Module& backbone = scenario.model->Backbone();
    layers_ = backbone.Layers();
    const int heads = backbone.runs.front().layer.attention.heads;
    backbone_ = "plan." + backbone.name + ".";
    for (int d = 1; d <= gpus_; ++d) {
      if (gpus_ % d != 0) continue;
      if (d <= heads && backbone.hidden % d == 0 && heads % d == 0) tp_.push_back(d);
      if (d <= layers_ && layers_ % d == 0) pp_.push_back(d);
    }
    for (int d = 1; d <= layers_; ++d) {
      if (layers_ % d == 0) vpp_.push_back(d);
    }
    for (std::int64_t b = 1; b <= batch_; ++b) {
      if (batch_ % b == 0) micro_batch_.push_back(b);
    }
  }

  PlanSpace Make() {
    PlanSpace space;
    space.name = "calculon";
    const auto add = [&](const char* name, const std::string& path, const auto& values, bool state,
                         bool late) {
      Dimension d{name, {}, late, state};
      d.choices = ChoicesOf(path, std::vector<Json>(values.begin(), values.end()));
      space.dimensions.push_back(std::move(d));
    };
    const std::vector<double> shares = {0, 1};
    const std::vector<bool> flags = {false, true};
    add("tp", backbone_ + "tp", tp_, true, false);
    add("pp", backbone_ + "pp", pp_, true, false);
    add("vpp", backbone_ + "vpp", vpp_, true, false);
    add("recompute", "plan.recompute", std::vector<std::string>{"full", "selective", "none"}, false,
        false);
    add("sharding", "plan.sharding", std::vector<std::string>{"zero1", "ddp"}, true, false);
    Dimension traffic{"tp_traffic", {}, false, false};
    for (const int kind : {0, 1, 2}) {
      constexpr const char* kNames[] = {"all-reduce", "scattered transfers", "reduce-scatter"};
      traffic.choices.push_back({kNames[kind],
                                 {{backbone_ + "sequence_parallel", Json(kind == 2)},
                                  {backbone_ + "scatter_gather", Json(kind == 1)}}});
    }
    space.dimensions.push_back(std::move(traffic));
    add("micro_batch_size", "plan.micro_batch_size", micro_batch_, false, false);
    add("weight_offload", "plan.offload.parameters", shares, true, false);
    add("activation_offload", "plan.offload.activations", shares, false, false);
    add("optimizer_offload", "plan.offload.optimizer", shares, true, false);
    add("tp_overlap", "plan.overlap.tensor_parallel", flags, false, true);
    Dimension overlap{"dp_overlap", {}, true, false};
    for (const bool on : flags) {
      overlap.choices.push_back({on ? "on" : "off",
                                 {{"plan.overlap.gradient_reduce", Json(on)},
                                  {"plan.overlap.parameter_gather", Json(on)}}});
    }
    space.dimensions.push_back(std::move(overlap));
    std::vector<std::string> orders;
    for (const Placed& placed : Orders()) orders.emplace_back(placed.order);
    add("rank_order", "plan.rank_order", orders, false, true);
    space.stands_for = [maker = *this](const ChoiceIndices& at) { return maker.StandsFor(at); };
    space.unplaceable_reason =
        "groups that are to use the node's own network fill more than one node together";
    space.alike_reason =
        "another execution is the same plan: a gather that is redone or kept, traffic overlapped "
        "as a ring or a "
        "pipeline, networks that follow from one order of ranks";
    return space;
  }

 private:
  Multiplicity StandsFor(const ChoiceIndices& at) const {
    constexpr Multiplicity kNone{0, 0};
    const int tp = tp_[at[kTp]], pp = pp_[at[kPp]];
    if (gpus_ % (tp * pp) != 0) return kNone;
    const int dp = gpus_ / (tp * pp);
    const int vpp = vpp_[at[kVpp]];
    if (pp == 1 ? vpp != 1 : (layers_ / pp) % vpp != 0) return kNone;
    if (batch_ % dp != 0) return kNone;  // the batch is one that every dp divides
    if ((batch_ / dp) % micro_batch_[at[kMicroBatch]] != 0) return kNone;
    const bool full = at[kRecompute] == 0;
    if (dp == 1 && (at[kSharding] == 0 || at[kDpOverlap] == 1)) return kNone;
    if (tp == 1 && at[kTpOverlap] == 1) return kNone;
    if (full && at[kActivations] == 1) return kNone;
    // Without a group there is no traffic to choose; without stages there are no transfers.
    const std::uint64_t kept_or_redone = full ? 1 : 2;
    std::uint64_t each = at[kTraffic] == 2 ? kept_or_redone : 1;
    if (tp == 1) {
      if (at[kTraffic] != 0) return kNone;
      each = 2 + kept_or_redone;
    } else if (pp == 1) {
      if (at[kTraffic] == 1) return kNone;
      if (at[kTraffic] == 0) each = 2;
    }
    if (at[kTpOverlap] == 1) each *= 2;
    Multiplicity all{0, 0};
    for (const auto& in_node : Orders()[at[kOrder]].networks) {
      const std::array<int, 3> size = {tp, pp, dp};
      int together = 1;
      bool there = true;
      for (std::size_t i = 0; i < 3; ++i) {
        // A group of one has no network to choose: it is counted once, as within the node.
        if (size[i] == 1 && !in_node[i]) there = false;
        if (in_node[i]) together *= size[i];
      }
      if (!there) continue;
      (together <= node_ ? all.alike : all.unplaceable) += each;
    }
    return all;
  }

  int gpus_, node_, layers_ = 1;
  std::int64_t batch_;
  std::string backbone_;
  std::vector<int> tp_, pp_, vpp_;
  std::vector<std::int64_t> micro_batch_;
};

}  // namespace

PlanSpace CalculonSpace(const Scenario& scenario) { return CalculonMaker(scenario).Make(); }

}  // namespace aurum
