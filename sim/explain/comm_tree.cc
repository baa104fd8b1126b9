#include "sim/explain/comm_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/collectives/steps.h"
#include "sim/plan/host_link.h"
#include "sim/plan/lower.h"
#include "sim/plan/rank_groups.h"
#include "sim/study/wire_bound.h"

// An op of the simulated program knows its bytes, not which collective it is: the plan is lowered a second
// time with its communications. The same plan gives the same ops in the same order, so an op's number tells
// which collective it is. (A reduce-scatter and the all-gather behind it have one size, lane and module: by
// those they cannot be told apart.) Where a collective is simulated step by step there are more ops, and
// those of one stage, lane, kind, module and size are every collective that is known of them. What is
// possible is the wire bound of that collective over all groups of its kind at once; bytes over both times
// are compared as bus bandwidths, which is what nccl-tests prints, so a user can hold it against a
// measurement of his own.
namespace aurum {
namespace {

CommGroup GroupOf(const TimePart& part) {
  switch (part.kind) {
    case OpKind::kContextCollective:
      return CommGroup::kContext;
    case OpKind::kExpertCollective:
      return CommGroup::kExpert;
    case OpKind::kParameterGather:
    case OpKind::kGradientReduce:
      return CommGroup::kData;
    case OpKind::kPipelineTransfer:
      return CommGroup::kPipeline;
    case OpKind::kAlignment:
      return CommGroup::kTokens;
    case OpKind::kHostTransfer:
      return CommGroup::kHost;
    default:
      return CommGroup::kTensor;
  }
}

using PartKey = std::tuple<OpKind, Lane, int, bool>;
PartKey KeyOf(const TimePart& part) { return {part.kind, part.lane, part.module, part.head}; }
PartKey KeyOf(const OpInfo& info) {
  return {info.kind, info.lane, info.module < 0 ? -1 : info.module, info.head};
}

// Which communications an op is, by what two programs of one plan have in common.
class Told {
 public:
  Told(const Scenario& scenario, const Program& simulated) {
    LowerOptions options;
    options.for_execution = true;
    program_ = Lower(scenario, options);
    in_order_ = std::equal(simulated.info.begin(), simulated.info.end(), program_.info.begin(),
                           program_.info.end(), [](const OpInfo& a, const OpInfo& b) {
                             return a.rank_class == b.rank_class && KeyOf(a) == KeyOf(b) &&
                                    a.bytes == b.bytes;
                           });
    if (in_order_) return;
    for (OpId op = 0; op < program_.info.size(); ++op) {
      const std::uint32_t comm = program_.work[op].communication;
      if (comm == kNoWork) continue;
      const OpInfo& info = program_.info[op];
      const int stage = program_.classes[info.rank_class].stage;
      exact_[{stage, KeyOf(info), info.bytes}].insert(comm);
      near_[{stage, KeyOf(info)}].insert(comm);
    }
  }

  // Empty where none is known; several where it may be any of them. Of ops whose size depends on the
  // micro-batch, those of the same kind.
  std::vector<const Communication*> Of(OpId op, int stage, const OpInfo& info) const {
    if (in_order_) {
      const std::uint32_t comm = program_.work[op].communication;
      if (comm == kNoWork) return {};
      return {&program_.communications[comm]};
    }
    const auto exact = exact_.find({stage, KeyOf(info), info.bytes});
    if (exact != exact_.end()) return Distinct(exact->second);
    const auto near = near_.find({stage, KeyOf(info)});
    return near == near_.end() ? std::vector<const Communication*>{} : Distinct(near->second);
  }

 private:
  // One of each collective.
  std::vector<const Communication*> Distinct(const std::set<std::uint32_t>& comms) const {
    std::map<std::pair<bool, CollectiveKind>, const Communication*> distinct;
    for (const std::uint32_t comm : comms) {
      const Communication& one = program_.communications[comm];
      distinct.try_emplace({one.transfer, one.kind}, &one);
    }
    std::vector<const Communication*> out;
    for (const auto& [kind, one] : distinct) out.push_back(one);
    return out;
  }

  Program program_;
  bool in_order_ = false;
  std::map<std::tuple<int, PartKey, double>, std::set<std::uint32_t>> exact_;
  std::map<std::tuple<int, PartKey>, std::set<std::uint32_t>> near_;
};

// Wire bounds a byte, asked once for each collective of each kind of group.
class Bounds {
 public:
  Bounds(const Scenario& scenario, int gpu) : s_(scenario), gpu_(gpu) {}

  struct PerByte {
    double seconds = 0;
    LinkKind bottleneck = LinkKind::kNetwork;
    int ranks = 1;
    bool over_network = false;
  };
  const PerByte& Of(const Communication& comm) {
    const auto [entry, is_new] =
        known_.try_emplace({comm.transfer, comm.kind, comm.stage, comm.groups});
    if (!is_new) return entry->second;
    PerByte& out = entry->second;
    constexpr double kProbe = 1 << 20;
    const std::vector<RankGroup> groups = PlacedGroups(s_.plan, comm.stage, comm.groups);
    const WireBound bound = comm.transfer
                                ? BoundOfTransfers(kProbe, groups, *s_.cluster, gpu_)
                                : BoundOfCollective(comm.kind, kProbe, groups, *s_.cluster, gpu_);
    out.seconds = bound.seconds / kProbe;
    out.bottleneck = bound.bottleneck;
    for (const RankGroup& group : groups) {
      out.ranks = std::max(out.ranks, static_cast<int>(group.size()));
      for (const int gpu : group)
        out.over_network =
            out.over_network || s_.cluster->NodeOf(gpu) != s_.cluster->NodeOf(group.front());
    }
    return out;
  }

 private:
  const Scenario& s_;
  const int gpu_;  // whose groups are meant
  std::map<std::tuple<bool, CollectiveKind, std::size_t, GroupKind>, PerByte> known_;
};

struct Sums {
  std::map<std::string, CommUse> uses;
  double running_s = 0, bus_bytes = 0, wire_s = 0, longest_wire_s = 0;
  LinkKind bottleneck = LinkKind::kNetwork;
  int ranks = 1;
  bool over_network = false;
};

}  // namespace

std::string_view CommGroupName(CommGroup group) {
  switch (group) {
    case CommGroup::kTensor:
      return "tensor parallel";
    case CommGroup::kContext:
      return "context parallel";
    case CommGroup::kExpert:
      return "expert parallel";
    case CommGroup::kData:
      return "data parallel";
    case CommGroup::kPipeline:
      return "pipeline";
    case CommGroup::kTokens:
      return "tokens between modalities";
    case CommGroup::kHost:
      return "host memory";
  }
  return "";
}

CommTree MakeCommTree(const Evaluation& e, const std::vector<TimePart>& parts, int rank_class) {
  const Told told(e.scenario, e.program);
  Bounds bounds(e.scenario, e.program.classes[static_cast<std::size_t>(rank_class)].first_gpu);
  const double host_rate = HostLinkBandwidth(*e.scenario.cluster);
  const std::vector<bool> own = OwnOps(e.program, rank_class);
  std::map<PartKey, Sums> sums;
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (!own[op] || info.lane == Lane::kMain) continue;
    Sums& of = sums[KeyOf(info)];
    const double running_s = Seconds(e.outcome.schedule.end[op] - e.outcome.schedule.start[op]);
    of.running_s += running_s;
    if (info.bytes <= 0) continue;
    const auto use = [&](const std::string& name, double bus_bytes) {
      CommUse& one = of.uses[name];
      one.calls += 1;
      one.bytes += info.bytes;
      one.running_s += running_s;
      one.bus_bytes += bus_bytes;
    };
    if (info.kind == OpKind::kHostTransfer) {
      use("copy", info.bytes);
      of.bus_bytes += info.bytes;
      if (host_rate > 0) of.wire_s += info.bytes / host_rate;
      of.bottleneck = LinkKind::kPcie;
      continue;
    }
    const auto comms = told.Of(op, e.program.classes[info.rank_class].stage, info);
    if (comms.empty()) continue;
    std::string name;
    for (const Communication* one : comms) {
      const std::string word = one->transfer ? "transfer" : std::string(CollectiveName(one->kind));
      name += (name.empty() ? "" : " or ") + word;
    }
    const Communication* comm = comms.front();
    const Bounds::PerByte& bound = bounds.Of(*comm);
    const double bus_bytes = info.bytes * (comm->transfer ? 1 : BusFactor(comm->kind, bound.ranks));
    use(name, bus_bytes);
    of.bus_bytes += bus_bytes;
    const double wire_s = info.bytes * bound.seconds;
    of.wire_s += wire_s;
    if (wire_s > of.longest_wire_s) {
      of.longest_wire_s = wire_s;
      of.bottleneck = bound.bottleneck;
    }
    of.ranks = std::max(of.ranks, comm->transfer ? 2 : bound.ranks);
    of.over_network = of.over_network || bound.over_network;
  }
  CommTree tree;
  tree.step_s = e.StepSeconds();
  for (const TimePart& part : parts) {
    const bool communicates = IsCommunication(part.cause) || part.cause == TimeCause::kAlignment;
    if (!communicates) continue;
    const bool mine = part.own && part.lane != Lane::kMain;
    (mine ? tree.exposed_s : tree.elsewhere_s) += Seconds(part.exposed);
    if (!mine) continue;
    CommItem item;
    item.group = GroupOf(part);
    item.part = part;
    const Sums& of = sums[KeyOf(part)];
    for (const auto& [name, use] : of.uses) {
      item.collective += (item.collective.empty() ? "" : ", ") + name;
      item.uses.push_back(use);
      item.uses.back().collective = name;
    }
    item.ranks = of.ranks;
    item.over_network = of.over_network;
    item.running_s = of.running_s;
    if (of.running_s > 0) item.bus_bytes_per_s = of.bus_bytes / of.running_s;
    if (of.wire_s > 0) item.possible_bytes_per_s = of.bus_bytes / of.wire_s;
    item.bottleneck = of.bottleneck;
    tree.running_s += of.running_s;
    tree.items.push_back(std::move(item));
  }
  std::stable_sort(tree.items.begin(), tree.items.end(), [](const CommItem& a, const CommItem& b) {
    if (a.group != b.group) return a.group < b.group;
    return a.part.exposed != b.part.exposed ? a.part.exposed > b.part.exposed
                                            : a.part.busy > b.part.busy;
  });
  return tree;
}

}  // namespace aurum
