#include "sim/plan/pricing.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <set>
#include <utility>

#include "sim/collectives/effective_fabric.h"
#include "sim/plan/gradient_compression.h"
#include "sim/plan/pools.h"
#include "sim/plan/split.h"
#include "sim/workload/layer_cost.h"

namespace aurum {
namespace {

std::vector<std::pair<int, int>> Pairs(const std::vector<RankGroup>& groups) {
  std::vector<std::pair<int, int>> pairs;
  pairs.reserve(groups.size());
  for (const RankGroup& pair : groups) pairs.emplace_back(pair[0], pair[1]);
  return pairs;
}

}  // namespace

PlanPricer::PlanPricer(const Scenario& scenario, const LowerOptions& options, Program* program)
    : s_(scenario), options_(options), program_(*program) {}

// Imposing a bus bandwidth scales every link alike. Scaling bandwidth by f is moving 1/f of the
// bytes.
void PlanPricer::ResolveCommScale() {
  const auto stage = static_cast<std::size_t>(s_.plan.encoder_stages);
  const bool replicas = s_.plan.ReplicaRanks() > 1;
  const GroupKind kind = replicas ? GroupKind::kDp : GroupKind::kTp;
  constexpr double kProbe = 1 << 30;
  CollectiveOptions options = Options(GroupKind::kDp);
  options.want_pattern = false;
  double bandwidth = 0;
  if (replicas || s_.plan.tp > 1) {
    bandwidth =
        PriceCollective(CollectiveKind::kAllReduce, kProbe, PlacedGroups(s_.plan, stage, kind),
                        *s_.cluster, *s_.profile, options)
            .bus_bandwidth_bytes_per_s;
  } else if (s_.plan.StageCount() > 1) {
    const Asked probe{.transfer = true, .bytes = kProbe, .groups = GroupKind::kForward};
    bandwidth = kProbe / Cost(probe, PlacedGroups(s_.plan, 0, GroupKind::kForward)).seconds;
  } else {
    return;
  }
  program_.own_bus_bandwidth = bandwidth;
  program_.comm_scale = ScaleOfBandwidth();
}

double PlanPricer::ScaleOfBandwidth() const {
  if (!s_.what_if.comm_bw_bytes_per_s || program_.own_bus_bandwidth <= 0) return 1;
  return *s_.what_if.comm_bw_bytes_per_s / program_.own_bus_bandwidth;
}

CollectiveOptions PlanPricer::Options(GroupKind groups) const {
  CollectiveOptions options;
  options.network_efficiency = s_.stack->network_efficiency;
  const bool inside = groups == GroupKind::kTp || groups == GroupKind::kExpertTp;
  options.intra_factor = inside ? s_.stack->tp_communication_factor : 1;
  options.want_pattern = options_.traffic != Traffic::kNone;
  return options;
}

// With the algorithm that the plan names, where there is such a one for the kind.
CollectiveOptions PlanPricer::OptionsFor(const Asked& asked) const {
  CollectiveOptions options = Options(asked.groups);
  options.sharp = s_.plan.in_network_reduction;
  CollectiveAlgorithm named = CollectiveAlgorithm::kAuto;
  if (asked.groups == GroupKind::kTp) named = s_.plan.tensor_parallel_algorithm;
  if (asked.groups == GroupKind::kEp) named = s_.plan.expert_parallel_algorithm;
  if (asked.groups == GroupKind::kDp || asked.groups == GroupKind::kExpertDp)
    named = s_.plan.data_parallel_algorithm;
  if (!asked.transfer && IsDefinedFor(named, asked.kind)) options.algorithm = named;
  return options;
}

// What a collective passes in at most at once: experts' all-to-alls the expert buffer, gradients a
// bucket. More than it holds is done again and again, each time with what it holds. Every piece pays the
// latency, the wires carry the same bytes in all: t = ⌈S/B⌉ · latency + flow(S), both by what the cluster
// and its profile say of a message of B bytes.
double PlanPricer::BufferOf(const Asked& asked) const {
  if (asked.transfer || program_.executable) return 0;
  if (asked.groups == GroupKind::kEp) return s_.plan.expert_buffer_bytes;
  const bool reduces =
      asked.kind == CollectiveKind::kAllReduce || asked.kind == CollectiveKind::kReduceScatter;
  const bool replicas = asked.groups == GroupKind::kDp || asked.groups == GroupKind::kExpertDp;
  const bool by_unit =  // whatever the bucket
      s_.plan.sharding == Sharding::kFsdp || s_.plan.sharding == Sharding::kHsdp;
  return reduces && replicas && !by_unit ? s_.plan.bucket_bytes : 0;
}

double PlanPricer::Pieces(const Asked& asked) const {
  const double buffer = BufferOf(asked);
  return buffer > 0 ? std::max(1.0, std::ceil(asked.bytes / buffer - 1e-9)) : 1;
}

namespace {

// `cost` is that of one full buffer, of which `bytes` of the whole are `scale` times as much.
void Repeat(double pieces, double scale, CollectiveCost* cost) {
  const double flow_s = (cost->seconds - cost->latency_s) * scale;
  const double one_s = cost->seconds;
  cost->latency_s *= pieces;
  cost->seconds = cost->latency_s + flow_s;
  if (cost->seconds > 0) cost->bus_bandwidth_bytes_per_s *= scale * one_s / cost->seconds;
  for (Flow& flow : cost->pattern.flows) flow.bytes *= scale;
}

}  // namespace

CollectiveCost PlanPricer::Cost(const Asked& asked, const std::vector<RankGroup>& groups) const {
  const double bytes = asked.bytes / program_.comm_scale;
  const double pieces = Pieces(asked);
  if (pieces > 1) {
    const double buffer = BufferOf(asked);
    CollectiveCost cost = PriceCollective(asked.kind, buffer / program_.comm_scale, groups,
                                          *s_.cluster, *s_.profile, OptionsFor(asked));
    Repeat(pieces, asked.bytes / buffer, &cost);
    return cost;
  }
  if (!asked.transfer) {
    return PriceCollective(asked.kind, bytes, groups, *s_.cluster, *s_.profile, OptionsFor(asked));
  }
  CollectiveCost cost = PriceTransfer(bytes / TransferShares(asked), Pairs(groups), *s_.cluster,
                                      *s_.profile, OptionsFor(asked));
  AddGather(asked, &cost);
  return cost;
}

std::vector<CollectiveCost> PlanPricer::Costs(const Asked& asked,
                                              const std::vector<RankGroup>& groups) const {
  const double bytes = asked.bytes / program_.comm_scale;
  const double pieces = Pieces(asked);
  if (pieces > 1) {
    const double buffer = BufferOf(asked);
    std::vector<CollectiveCost> costs =
        PriceGroups(asked.kind, buffer / program_.comm_scale, groups, *s_.cluster, *s_.profile,
                    OptionsFor(asked));
    for (CollectiveCost& cost : costs) Repeat(pieces, asked.bytes / buffer, &cost);
    return costs;
  }
  if (!asked.transfer) {
    return PriceGroups(asked.kind, bytes, groups, *s_.cluster, *s_.profile, OptionsFor(asked));
  }
  std::vector<CollectiveCost> costs = PriceTransfers(bytes / TransferShares(asked), Pairs(groups),
                                                     *s_.cluster, *s_.profile, OptionsFor(asked));
  for (CollectiveCost& cost : costs) AddGather(asked, &cost);
  return costs;
}

// Of a transfer between stages: the parts that a tensor-parallel group sends of it, one each.
int PlanPricer::TransferShares(const Asked& asked) const {
  const StageLayout here = LayoutOf(s_.plan, asked.stage);
  return s_.plan.scatter_gather && here.tp == s_.plan.tp ? s_.plan.tp : 1;
}

// The receivers put the parts together before they go on.
void PlanPricer::AddGather(const Asked& asked, CollectiveCost* cost) const {
  if (TransferShares(asked) == 1) return;
  const auto to = NeighbourOf(s_.plan, asked.stage, asked.groups);
  CollectiveOptions options = Options(GroupKind::kTp);
  options.want_pattern = false;
  const double gather_s =
      PriceCollective(CollectiveKind::kAllGather, asked.bytes / program_.comm_scale,
                      PlacedGroups(s_.plan, *to, GroupKind::kTp), *s_.cluster, *s_.profile, options)
          .seconds;
  cost->seconds += gather_s;
  cost->latency_s += gather_s;
}

std::vector<Communication> PlanPricer::Communications() const {
  std::vector<Communication> all;
  all.reserve(asked_.size());
  for (const Asked& asked : asked_)
    all.push_back({asked.transfer, asked.kind, asked.bytes, asked.stage, asked.groups});
  return all;
}

CommId PlanPricer::Ask(const Asked& asked) {
  const auto key = std::make_tuple(asked.transfer ? -1 : static_cast<int>(asked.kind), asked.bytes,
                                   asked.stage, asked.groups);
  const auto [entry, is_new] = known_.try_emplace(key, static_cast<CommId>(asked_.size()));
  if (is_new) asked_.push_back(asked);
  ++asked_[entry->second].times;
  return entry->second;
}

CommId PlanPricer::Collective(CollectiveKind kind, double bytes, std::size_t stage,
                              GroupKind groups) {
  if (bytes <= 0 || GroupSize(s_.plan, stage, groups) < 2) return kNoComm;
  return Ask({.kind = kind, .bytes = bytes, .stage = stage, .groups = groups});
}

CommId PlanPricer::Transfer(double bytes, std::size_t stage, GroupKind direction) {
  if (bytes <= 0) return kNoComm;
  return Ask({.transfer = true, .bytes = bytes, .stage = stage, .groups = direction});
}

void PlanPricer::Settle() {
  ResolveCommScale();
  SettlePriced();
}

void PlanPricer::SettleCosts(PriceBook* book) {
  if (s_.what_if.comm_bw_bytes_per_s) ResolveCommScale();
  if (book != nullptr) {
    if (const auto number = book->NumberOf(s_.cluster, s_.profile)) {
      book_ = book;
      book_number_ = *number;
    }
  }
  SettlePriced();
}

void PlanPricer::SettlePriced() {
  // Without traffic, and where all groups of a stage cost the same, a stage is a class: a sweep need
  // not look for it a million times.
  const bool sought = options_.traffic != Traffic::kNone || options_.fold == Fold::kOff ||
                      s_.faults.Any() || s_.step != nullptr || !s_.pools.empty();
  if (sought || !PriceAlike()) PriceEachGroup();
  for (Asked& asked : asked_) {
    const StageClasses& classes = classes_[asked.stage];
    for (std::size_t g = 0; g < classes.first_group[static_cast<int>(asked.groups)].size(); ++g)
      asked.longest_s = std::max(asked.longest_s, prices_[asked.first_price + g].seconds);
    asked.speaks = asked.longest_s > 0;
  }
  program_.alignment.seconds_per_micro_batch =
      Seconds(alignment_.forward) + Seconds(alignment_.backward);
}

void PlanPricer::SettleUnpriced() {
  classes_ = OneClassPerStage(s_.plan);
  for (Asked& asked : asked_) {
    asked.first_price = prices_.size();
    prices_.emplace_back();
  }
}

// False, and nothing is priced, where groups of one kind and stage cost differently: because some
// cross a leaf or an NVLink domain, say, and others do not.
bool PlanPricer::PriceAlike() {
  std::vector<Priced> prices;
  own_provenance_ = program_.provenance;
  provenance_of_.clear();
  Provenance provenance = own_provenance_;
  for (Asked& asked : asked_) {
    const AlikePrice price = book_ == nullptr ? PriceOfAlike(asked) : BookedPriceOf(asked);
    if (!price.alike) return false;
    provenance = Weakest(provenance, price.provenance);
    asked.first_price = prices.size();
    prices.push_back({price.seconds, price.latency_s});
    provenance_of_.push_back(price.provenance);
  }
  program_.provenance = provenance;
  prices_ = std::move(prices);
  classes_ = OneClassPerStage(s_.plan);
  alike_ = true;
  priced_scale_ = program_.comm_scale;
  return true;
}

AlikePrice PlanPricer::PriceOfAlike(const Asked& asked) const {
  const std::vector<CollectiveCost> costs =
      Costs(asked, PlacedGroups(s_.plan, asked.stage, asked.groups));
  AlikePrice price{true, costs.front().seconds, costs.front().latency_s};
  for (const CollectiveCost& cost : costs) {
    price.provenance = Weakest(price.provenance, cost.provenance);
    if (TimeFromSeconds(cost.seconds) != TimeFromSeconds(price.seconds)) price.alike = false;
  }
  return price;
}

AlikePrice PlanPricer::BookedPriceOf(const Asked& asked) const {
  return book_->Get(BookKey(asked), [&] { return PriceOfAlike(asked); });
}

// What PriceOfAlike() reads: the GPUs (by how the stage and the one it sends to are cut, and how ranks
// are ordered), the bytes and how they are passed on, and what the stack and the plan say of it.
PriceBook::Key PlanPricer::BookKey(const Asked& asked) const {
  PriceBook::Key key{};
  std::size_t at = 0;
  const auto number = [&](auto value) { key[at++] = static_cast<std::uint64_t>(value); };
  const auto pair = [&](int a, int b) {
    number(static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 |
           static_cast<std::uint32_t>(b));
  };
  const auto figure = [&](double value) { number(std::bit_cast<std::uint64_t>(value)); };
  const auto layout = [&](const StageLayout& l) {
    pair(l.first_gpu, l.tp);
    pair(l.cp, l.dp);
    pair(l.expert_tp, l.ep);
    number(l.shard);
  };
  const CollectiveOptions options = OptionsFor(asked);
  number(book_number_);
  pair(asked.transfer ? -1 : static_cast<int>(asked.kind), static_cast<int>(asked.groups));
  pair(static_cast<int>(options.algorithm), options.sharp ? 1 : 0);
  figure(asked.bytes);
  figure(BufferOf(asked));
  figure(program_.comm_scale);
  figure(options.network_efficiency);
  figure(options.intra_factor);
  figure(s_.stack->tp_communication_factor);
  layout(LayoutOf(s_.plan, asked.stage));
  if (IsPair(asked.groups)) {
    layout(LayoutOf(s_.plan, *NeighbourOf(s_.plan, asked.stage, asked.groups)));
    number(TransferShares(asked));
  } else {
    at += 5;
  }
  if (s_.plan.rank_order != kDefaultRankOrder) {
    std::uint64_t order = 1;
    for (const RankDimension d : s_.plan.rank_order)
      order = order << 8 | static_cast<std::uint64_t>(d);
    number(order);
    pair(s_.plan.tp, s_.plan.cp);
    pair(s_.plan.dp, s_.plan.pp);
  }
  assert(at <= key.size());
  return key;
}

const AlikePrice& PlanPricer::KnownPriceOf(CommId comm) {
  constexpr std::size_t kMostPrices = 200'000;
  known_prices_.resize(asked_.size());
  const auto [entry, is_new] =
      known_prices_[comm].try_emplace({asked_[comm].bytes, program_.comm_scale});
  if (!is_new) return entry->second;
  if (++known_price_count_ > kMostPrices) {
    known_prices_.assign(asked_.size(), {});
    known_price_count_ = 1;
    return known_prices_[comm]
        .try_emplace({asked_[comm].bytes, program_.comm_scale}, PriceOfAlike(asked_[comm]))
        .first->second;
  }
  entry->second = PriceOfAlike(asked_[comm]);
  return entry->second;
}

bool PlanPricer::Reprice() {
  if (!alike_) return false;
  Alignment& a = program_.alignment;
  program_.comm_scale = ScaleOfBandwidth();
  if (aligns_) {
    if (a.imposed != s_.what_if.align_ratio.has_value()) return false;
    if (a.imposed) {
      a.ratio = *s_.what_if.align_ratio;
      a.bytes_per_micro_batch = (1 - a.ratio) * a.tokens_per_micro_batch * aligned_token_bytes_;
      const bool exchanges = a.bytes_per_micro_batch > 0 && aligns_in_group_;
      if (exchanges != (alignment_.forward != kNoComm)) return false;
      if (alignment_.forward != kNoComm) {
        Asked& exchange = asked_[alignment_.forward];
        if (exchange.times > 1) return false;  // something else is as large by chance
        exchange.bytes = a.bytes_per_micro_batch;
      }
    }
  }
  const bool rescaled = priced_scale_ != program_.comm_scale;
  priced_scale_ = 0;  // until all are priced
  for (CommId comm = 0; comm < asked_.size(); ++comm) {
    if (!rescaled && comm != alignment_.forward) continue;
    Asked& asked = asked_[comm];
    const AlikePrice& price = KnownPriceOf(comm);
    if (!price.alike || (price.seconds > 0) != asked.speaks) return false;
    Priced& now = prices_[asked.first_price];
    now.seconds = price.seconds;
    now.latency_s = price.latency_s;
    asked.longest_s = std::max(0.0, price.seconds);
    provenance_of_[comm] = price.provenance;
  }
  priced_scale_ = program_.comm_scale;
  program_.provenance = own_provenance_;
  for (const Provenance provenance : provenance_of_)
    program_.provenance = Weakest(program_.provenance, provenance);
  a.seconds_per_micro_batch = Seconds(alignment_.forward) + Seconds(alignment_.backward);
  return true;
}

Fabric PlanPricer::WholeFabric() const {
  Fabric fabric = EffectiveFabric(*s_.cluster, *s_.profile, Options(GroupKind::kDp));
  fabric.changes = s_.faults.link_changes;
  return fabric;
}

// By communication: the first whose groups do the same apart from sizes, or itself. A layer's
// gradients, an embedding's and the parameters' way back mostly are one shape.
std::vector<CommId> PlanPricer::SameShapes(
    const std::vector<std::vector<CollectiveCost>>& costs) const {
  std::vector<CommId> like(costs.size());
  for (CommId comm = 0; comm < costs.size(); ++comm) {
    like[comm] = comm;
    for (CommId other = 0; other < comm && like[comm] == comm; ++other) {
      if (like[other] != other || asked_[other].stage != asked_[comm].stage ||
          asked_[other].groups != asked_[comm].groups)
        continue;
      ShapeComparison shapes;
      bool same = true;
      for (std::size_t g = 0; same && g < costs[comm].size(); ++g) {
        const CollectiveCost& a = costs[other][g];
        const CollectiveCost& b = costs[comm][g];
        same = shapes.SameFigures(a.seconds, a.latency_s, b.seconds, b.latency_s) &&
               shapes.Same(a.pattern, b.pattern);
      }
      if (same) like[comm] = other;
    }
  }
  return like;
}

std::shared_ptr<const ChunkProgram> PlanPricer::Chunks(const Asked& asked,
                                                       const RankGroup& group) const {
  if (asked.transfer) return nullptr;
  if (const double pieces = Pieces(asked); pieces > 1) {
    // The steps of one buffer, as long as all of them in a row.
    const double buffer = BufferOf(asked);
    ChunkProgram program = BuildChunks(asked.kind, buffer / program_.comm_scale, group, *s_.cluster,
                                       *s_.profile, OptionsFor(asked));
    for (ChunkLane& lane : program.lanes) {
      lane.latency = TimeFromSeconds(aurum::Seconds(lane.latency) * pieces);
      lane.bytes *= asked.bytes / buffer;
    }
    return std::make_shared<const ChunkProgram>(std::move(program));
  }
  return std::make_shared<const ChunkProgram>(
      BuildChunks(asked.kind, asked.bytes / program_.comm_scale, group, *s_.cluster, *s_.profile,
                  OptionsFor(asked)));
}

// With traffic, a group is priced as if it were alone: what groups do to each other on common links
// is for the event loop to find out. Without, the price counts the bytes of all groups at once.
void PlanPricer::PriceEachGroup() {
  std::vector<std::vector<CollectiveCost>> costs;  // by communication and group
  costs.reserve(asked_.size());
  for (const Asked& asked : asked_) {
    const std::vector<RankGroup> groups = PlacedGroups(s_.plan, asked.stage, asked.groups);
    costs.emplace_back();
    if (options_.traffic != Traffic::kNone) {
      costs.back().reserve(groups.size());
      for (const RankGroup& group : groups) costs.back().push_back(Cost(asked, {group}));
    } else {
      costs.back() = Costs(asked, groups);
    }
    for (const CollectiveCost& cost : costs.back())
      program_.provenance = Weakest(program_.provenance, cost.provenance);
  }

  const Fabric whole = options_.traffic != Traffic::kNone ? WholeFabric() : Fabric{};
  if (options_.fold == Fold::kOff || options_.traffic == Traffic::kChunks) {
    classes_ = OneClassPerRank(s_.plan);
    for (CommId comm = 0; comm < asked_.size(); ++comm) {
      Asked& asked = asked_[comm];
      asked.first_price = prices_.size();
      const std::vector<RankGroup> groups = PlacedGroups(s_.plan, asked.stage, asked.groups);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        CollectiveCost& cost = costs[comm][g];
        Priced priced{cost.seconds, cost.latency_s};
        if (options_.traffic == Traffic::kChunks) priced.chunks = Chunks(asked, groups[g]);
        if (priced.chunks == nullptr && !cost.pattern.flows.empty())
          priced.pattern = program_.graph.AddPattern(std::move(cost.pattern));
        prices_.push_back(std::move(priced));
      }
    }
    program_.fabric = whole;
    return;
  }

  std::vector<std::uint64_t> rank_colour;
  for (const double slowdown : s_.faults.gpu_slowdown)
    rank_colour.push_back(std::bit_cast<std::uint64_t>(slowdown));
  if (s_.step != nullptr) AddReplicaColours(s_.plan, &rank_colour);
  if (!s_.pools.empty()) AddPoolColours(s_, &rank_colour);
  RankFolding ranks(s_.plan, rank_colour);
  ColouredGraph& graph = ranks.graph();
  TrafficFolding traffic(whole, &graph);
  std::vector<std::vector<std::size_t>> transfer_of(asked_.size());
  constexpr std::uint32_t kCommunication = 200;  // label
  const std::vector<CommId> like = SameShapes(costs);
  for (CommId comm = 0; comm < asked_.size(); ++comm) {
    if (like[comm] != comm) {
      transfer_of[comm] = transfer_of[like[comm]];
      continue;
    }
    for (std::size_t g = 0; g < costs[comm].size(); ++g) {
      const CollectiveCost& cost = costs[comm][g];
      // As the clock sees them: what is less than a picosecond makes no difference.
      const std::uint64_t colour =
          static_cast<std::uint64_t>(TimeFromSeconds(cost.seconds).ps) * 0x9e3779b97f4a7c15ULL +
          static_cast<std::uint64_t>(TimeFromSeconds(cost.latency_s).ps) * 0xd6e8feb86659fd93ULL +
          comm;
      const auto vertex = graph.AddVertex(colour);
      const auto group = ranks.GroupVertex(asked_[comm].stage, asked_[comm].groups, g);
      graph.AddEdge(group, vertex, kCommunication);
      graph.AddEdge(vertex, group, kCommunication);
      transfer_of[comm].push_back(traffic.Add(vertex, cost.pattern));
    }
  }
  const Refinement refinement = Refine(graph);
  traffic.Use(refinement);
  classes_ = ranks.Classes(refinement);
  for (CommId comm = 0; comm < asked_.size(); ++comm) {
    asked_[comm].first_price = prices_.size();
    const StageClasses& classes = classes_[asked_[comm].stage];
    for (const std::uint32_t g : classes.first_group[static_cast<int>(asked_[comm].groups)]) {
      const CollectiveCost& cost = costs[comm][g];
      PatternId pattern = kNoPattern;
      if (!cost.pattern.flows.empty())
        pattern = program_.graph.AddPattern(traffic.Folded(transfer_of[comm][g], cost.pattern));
      prices_.push_back({cost.seconds, cost.latency_s, pattern});
    }
  }
  program_.fabric = traffic.fabric();
  program_.link_of = traffic.link_of();
  program_.link_count = traffic.link_count();
}

// Tokens that encoders hand to the backbone. Naturally: with colocated_dp each rank of a replica
// produced its share of them. Imposed: the stated share sits on the wrong replica and crosses the
// data-parallel group (or the tp group if there is no other).
PlanPricer::AlignmentCommunication PlanPricer::AskForAlignment(std::size_t stage) {
  Alignment& a = program_.alignment;
  AlignmentCommunication asked;
  a.tokens_per_micro_batch =
      s_.sample.cross_modal_tokens * static_cast<double>(s_.plan.micro_batch_size);
  if (a.tokens_per_micro_batch <= 0 || s_.model->task == ModelTask::kContrastive) return asked;
  int streams = 1;  // that the connector makes of a token: deepstack's go to later layers
  for (const Module& module : s_.model->modules) streams = std::max(streams, 1 + module.deepstack);
  const double token_bytes = s_.model->Backbone().hidden * kValueBytes * streams;
  bool colocated = false;
  bool backward = false;
  const std::vector<bool> flows = Training() ? ModulesWithBackward(*s_.model, s_.plan)
                                             : std::vector<bool>(s_.model->modules.size(), false);
  int shared = 1;  // ranks that each hold a part of a replica's tokens
  for (std::size_t i = 0; i + 1 < s_.model->modules.size(); ++i) {
    const ModulePlan& part = s_.plan.modules[i];
    int among = 1;
    if (part.placement == Placement::kColocatedDp) among = s_.plan.tp * s_.plan.cp;
    // On its own ranks' tokens arrive in even shares; beside the backbone they lie in its tp group.
    if (SplitsTokens(part))
      among = s_.plan.tp * (part.placement == Placement::kOwnRanks ? s_.plan.cp : 1);
    shared = std::max(shared, among);
    colocated = colocated || among > 1;
    backward = backward || flows[i];
  }
  const double natural = colocated ? 1.0 / shared : 1.0;
  aligns_ = true;
  aligned_token_bytes_ = token_bytes;
  a.imposed = s_.what_if.align_ratio.has_value();
  a.ratio = s_.what_if.align_ratio.value_or(natural);
  a.bytes_per_micro_batch = (1 - a.ratio) * a.tokens_per_micro_batch * token_bytes;
  const GroupKind imposed_over = s_.plan.dp > 1 ? GroupKind::kDp : GroupKind::kTp;
  aligns_in_group_ = GroupSize(s_.plan, stage, imposed_over) > 1;
  if (a.bytes_per_micro_batch <= 0) return asked;
  if (a.imposed) {
    asked.forward =
        Collective(CollectiveKind::kAllToAll, a.bytes_per_micro_batch, stage, imposed_over);
  } else if (s_.plan.tp == 1) {  // the ranks that share a sequence share its images
    asked.forward =
        Collective(CollectiveKind::kAllToAll, a.tokens_per_micro_batch * token_bytes / shared,
                   stage, GroupKind::kCp);
  } else if (s_.plan.sequence_parallel) {
    asked.forward =
        Collective(CollectiveKind::kAllToAll, a.tokens_per_micro_batch * token_bytes / s_.plan.tp,
                   stage, GroupKind::kTp);
  } else {
    asked.forward = Collective(CollectiveKind::kAllGather, a.tokens_per_micro_batch * token_bytes,
                               stage, GroupKind::kTp);
  }
  if (backward) asked.backward = asked.forward;
  if (alignment_.forward == kNoComm) alignment_ = asked;
  return asked;
}

// A token goes to k experts. Where it crosses to each domain once, and experts are anywhere with equal
// chance, it visits d·(1 − (1 − 1/d)^k) of d domains instead of sending k copies: 3.6 instead of 8 for 8
// experts over 4 nodes.
double PlanPricer::ExpertShare(const Unit& unit, std::size_t stage) const {
  if (!s_.stack->experts_once_per_node || unit.layer == nullptr || s_.plan.ep < 2) return 1;
  const double k = static_cast<double>(unit.layer->mlp.experts_per_token);
  std::set<int> domains;
  const std::vector<RankGroup> groups = PlacedGroups(s_.plan, stage, GroupKind::kEp);
  for (const int rank : groups.front()) domains.insert(s_.cluster->NvLinkDomainOf(rank));
  const auto d = static_cast<double>(domains.size());
  if (k <= 1 || d <= 1) return 1;
  return std::min(1.0, d * (1 - std::pow(1 - 1 / d, k)) / k);
}

UnitCommunication PlanPricer::Inside(const Unit& unit, std::size_t stage) {
  UnitCommunication of;
  if (unit.tp_collectives) {
    const bool backbone = unit.module + 1 == s_.model->modules.size();
    if (backbone && s_.plan.sequence_parallel) {
      of.tp_before = Collective(CollectiveKind::kAllGather, unit.tp_bytes, stage, GroupKind::kTp);
      of.tp_after =
          Collective(CollectiveKind::kReduceScatter, unit.tp_bytes, stage, GroupKind::kTp);
    } else {
      of.tp_after = Collective(CollectiveKind::kAllReduce, unit.tp_bytes, stage, GroupKind::kTp);
    }
  }
  // Keys and values go around the ring; in backward their gradients go with them.
  of.ring = Collective(CollectiveKind::kAllGather, unit.ring_bytes, stage, GroupKind::kCp);
  if (of.ring != kNoComm)
    of.ring_backward =
        Collective(CollectiveKind::kAllGather, 2 * unit.ring_bytes, stage, GroupKind::kCp);
  of.features = Collective(CollectiveKind::kAllGather, unit.feature_bytes, stage, GroupKind::kDp);
  of.ulysses = Collective(CollectiveKind::kAllToAll, unit.ulysses_bytes / 2, stage,
                          unit.split_tokens ? GroupKind::kTp : GroupKind::kCp);
  const double once = unit.dispatch_bytes > 0 ? ExpertShare(unit, stage) : 1;
  of.dispatch =
      Collective(CollectiveKind::kAllToAll, once * unit.dispatch_bytes, stage, GroupKind::kEp);
  of.combine =
      Collective(CollectiveKind::kAllToAll, once * unit.combine_bytes, stage, GroupKind::kEp);
  of.expert_gather =
      Collective(CollectiveKind::kAllGather, unit.expert_tp_bytes, stage, GroupKind::kExpertTp);
  of.expert_reduce =
      Collective(CollectiveKind::kReduceScatter, unit.expert_tp_bytes, stage, GroupKind::kExpertTp);
  return of;
}

void PlanPricer::AskForGathers(const Unit& unit, std::size_t stage, UnitCommunication* of) {
  const Sharding sharding = s_.plan.sharding;
  if (!Training() || sharding == Sharding::kDdp) return;
  const bool all = sharding == Sharding::kFsdp || sharding == Sharding::kHsdp;
  const double each = s_.stack->parameter_exchange_bytes;
  const UnitParameters& p = unit.parameters;
  double dense = all || unit.trained ? p.dense : 0, experts = all || unit.trained ? p.experts : 0;
  // A base in few bits travels in few bits; its scales with it.
  const double narrow = p.quantised > 0 ? BytesOf(s_.plan.adapter.base) / each : 1;
  const double few = std::max(p.quantised - p.experts, 0.0);
  dense = dense - few + few * narrow + p.adapters;
  if (p.quantised > 0) experts *= narrow;
  const GroupKind group = sharding == Sharding::kHsdp ? GroupKind::kShard : GroupKind::kDp;
  of->gather = Collective(CollectiveKind::kAllGather, dense * each, stage, group);
  of->gather_experts =
      Collective(CollectiveKind::kAllGather, experts * each, stage, GroupKind::kExpertDp);
}

void PlanPricer::AskForReductions(const Bucket& bucket, std::size_t stage, UnitCommunication* of) {
  if (!Training()) return;
  const double dense = bucket.dense, experts = bucket.experts;
  // GPUs that share a module's tokens or images hold the same weights and each its own's gradient.
  // Behind the data-parallel reduction they add up what it left them: all, or their shard.
  const StageLayout layout = LayoutOf(s_.plan, stage);
  double left = bucket.split;
  if (s_.plan.sharding == Sharding::kHsdp)
    left /= layout.shard;
  else if (s_.plan.sharding != Sharding::kDdp)
    left /= layout.cp * layout.dp;
  of->reduce_tokens = Collective(CollectiveKind::kAllReduce,
                                 left * s_.stack->gradient_exchange_bytes, stage, GroupKind::kTp);
  if (const GradientCompression& c = s_.plan.modules[bucket.module].compression; c.Sparse()) {
    // nccl-tests' size of an all-gather is what comes together.
    const auto gather = [&](double entries, GroupKind groups) {
      return Collective(
          CollectiveKind::kAllGather,
          PayloadBytes(c, entries) * static_cast<double>(GroupSize(s_.plan, stage, groups)), stage,
          groups);
    };
    of->reduce = gather(dense, GroupKind::kDp);
    of->reduce_experts = gather(experts, GroupKind::kExpertDp);
    return;
  }
  const double each = s_.stack->gradient_exchange_bytes;
  const auto ask = [&](CollectiveKind kind, double parameters, GroupKind groups) {
    return Collective(kind, parameters * each, stage, groups);
  };
  switch (s_.plan.sharding) {
    case Sharding::kDdp:
      of->reduce = ask(CollectiveKind::kAllReduce, dense, GroupKind::kDp);
      of->reduce_experts = ask(CollectiveKind::kAllReduce, experts, GroupKind::kExpertDp);
      break;
    case Sharding::kHsdp: {
      of->reduce = ask(CollectiveKind::kReduceScatter, dense, GroupKind::kShard);
      const int shard = LayoutOf(s_.plan, stage).shard;
      of->reduce_replicas = ask(CollectiveKind::kAllReduce, dense / shard, GroupKind::kReplica);
      of->reduce_experts = ask(CollectiveKind::kReduceScatter, experts, GroupKind::kExpertDp);
      break;
    }
    default:
      of->reduce = ask(CollectiveKind::kReduceScatter, dense, GroupKind::kDp);
      of->reduce_experts = ask(CollectiveKind::kReduceScatter, experts, GroupKind::kExpertDp);
      break;
  }
}

}  // namespace aurum
