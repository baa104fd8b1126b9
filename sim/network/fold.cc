#include "sim/network/fold.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace aurum {

// In a training job almost everything happens many times at once: 2,048 tensor-parallel groups
// reduce over 2,048 NVLink planes in the same microsecond. Simulate one, and let it stand for all.
// Not by assuming that they are alike, but by finding out.
//
// The insight. Make every op, flow and link a vertex; let an op see the ops it waits for and its
// flows, a flow its transfer and the links on its way, a link the flows that cross it. Refine the
// colours (durations, bytes, weights, caps, capacities, faults) to an equitable partition. Then all
// members of a class do the same thing at the same time, by induction over the events: at the first
// instant all ops of a class start together; max-min rates are a function of capacities and of how
// many flows of which class cross which class of link, which are equal within a class; so equal
// flows end together, and so do the ops. What the quotient needs to know is one number per flow and
// link: how many flows of that class share one link of that class (Crossings::all), so that
// capacity is divided as on the full fabric. Sums over a link are exact integers in the solver
// (max_min.cc), so m · rate is rate + … + rate, and the folded times are the unfolded ones bit for
// bit, not nearly.
//
// Example: a ring over the NICs of 12,663 nodes through a fat tree: 101,304 flows on 607,836 links.
// Three classes of flows: to a node under the same leaf, under the same pod, across the core. One
// degraded NIC: its flow in and its flow out are classes of their own, and so are the flows that
// share a leaf's uplink with those, and nothing else.
//
// What does not fold: hashed ECMP (every uplink has another load), per-op jitter, random traffic.
// Then there are as many classes as flows, and the answer is still the exact one.
//
// A fault is no special case: it is a colour. Grohe et al., "Dimension reduction via colour
// refinement" (2014), prove for linear programs what is used here for max-min.

namespace {

// Kinds of vertices and labels of edges.
enum : std::uint64_t { kLinkVertex = 11, kFlowVertex, kSharedVertex, kOpVertex };
enum : std::uint32_t { kWaits = 1, kPartOf, kCrosses, kOnLink };
constexpr std::uint32_t kFirstHop = 16;           // + hop: the only flow of its transfer on a link
constexpr std::uint32_t kFirstSharedHop = 65536;  // + hop: one of several

std::uint64_t Combine(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash ^= hash >> 32;
  return hash * 0xd6e8feb86659fd93ULL;
}
std::uint64_t Combine(std::uint64_t hash, double value) {
  return Combine(hash, std::bit_cast<std::uint64_t>(value));
}
std::uint64_t Combine(std::uint64_t hash, Time value) {
  return Combine(hash, static_cast<std::uint64_t>(value.ps));
}

}  // namespace

TrafficFolding::TrafficFolding(const Fabric& fabric, ColouredGraph* graph)
    : fabric_(fabric), graph_(*graph) {
  link_colour_.reserve(fabric.capacity_bytes_per_s.size());
  for (const double capacity : fabric.capacity_bytes_per_s) {
    link_colour_.push_back(Combine(std::uint64_t{kLinkVertex}, capacity));
  }
  for (const LinkChange& change : fabric.changes) {
    std::uint64_t& colour = link_colour_[change.link];
    colour = Combine(Combine(colour, change.at), change.factor);
  }
  link_vertex_.assign(link_colour_.size(), kNoIndex);
}

TrafficFolding::VertexId TrafficFolding::LinkVertex(std::uint32_t link) {
  if (link_vertex_[link] == kNoIndex) {
    link_vertex_[link] = graph_.AddVertex(link_colour_[link]);
    used_links_.push_back(link);
  }
  return link_vertex_[link];
}

std::size_t TrafficFolding::Add(VertexId transfer, const TrafficPattern& pattern) {
  const VertexId first = static_cast<VertexId>(graph_.vertex_count());
  for (const Flow& flow : pattern.flows) {
    std::uint64_t colour = Combine(std::uint64_t{kFlowVertex}, flow.bytes);
    colour = Combine(Combine(colour, flow.weight), flow.cap_bytes_per_s);
    graph_.AddVertex(colour);
  }
  // (link, flow, hop), by link.
  struct Crossing {
    std::uint32_t link, flow, hop;
  };
  std::vector<Crossing> crossings;
  for (std::uint32_t f = 0; f < pattern.flows.size(); ++f) {
    graph_.AddEdge(transfer, first + f, kPartOf);
    graph_.AddEdge(first + f, transfer, kPartOf);
    const std::vector<std::uint32_t>& links = pattern.flows[f].links;
    for (std::uint32_t hop = 0; hop < links.size(); ++hop)
      crossings.push_back({links[hop], f, hop});
  }
  std::stable_sort(crossings.begin(), crossings.end(),
                   [](const Crossing& a, const Crossing& b) { return a.link < b.link; });
  for (std::size_t i = 0; i < crossings.size();) {
    std::size_t last = i + 1;
    while (last < crossings.size() && crossings[last].link == crossings[i].link) ++last;
    const VertexId link = LinkVertex(crossings[i].link);
    if (last == i + 1) {
      const VertexId flow = first + crossings[i].flow;
      graph_.AddEdge(flow, link, kFirstHop + crossings[i].hop);
      graph_.AddEdge(link, flow, kCrosses);
    } else {
      // Several flows of one transfer on one link: a vertex for their meeting, so that flows which
      // meet their own transfer's are told from flows which meet others'.
      const VertexId shared = graph_.AddVertex(kSharedVertex);
      graph_.AddEdge(shared, link, kOnLink);
      graph_.AddEdge(link, shared, kOnLink);
      for (std::size_t k = i; k < last; ++k) {
        graph_.AddEdge(first + crossings[k].flow, shared, kFirstSharedHop + crossings[k].hop);
        graph_.AddEdge(shared, first + crossings[k].flow, kCrosses);
      }
    }
    i = last;
  }
  transfers_.push_back({&pattern, first});
  return transfers_.size() - 1;
}

void TrafficFolding::Use(const Refinement& refinement) {
  refinement_ = &refinement;
  number_of_class_.assign(refinement.first.size(), kNoIndex);
  std::vector<std::uint32_t> folded_of(fabric_.capacity_bytes_per_s.size(), kNoIndex);
  for (const std::uint32_t link : used_links_) {
    std::uint32_t& number = number_of_class_[refinement.class_of[link_vertex_[link]]];
    if (number == kNoIndex) {
      number = static_cast<std::uint32_t>(link_of_.size());
      link_of_.push_back(link);
      link_count_.push_back(0);
      folded_.capacity_bytes_per_s.push_back(fabric_.capacity_bytes_per_s[link]);
      folded_of[link] = number;  // of the representative only
    }
    ++link_count_[number];
  }
  for (const LinkChange& change : fabric_.changes) {
    if (folded_of[change.link] != kNoIndex)
      folded_.changes.push_back({change.at, folded_of[change.link], change.factor});
  }
  crossings_.resize(link_of_.size());
  std::vector<bool> seen(refinement.first.size(), false);
  for (const Transfer& transfer : transfers_) {
    for (std::uint32_t f = 0; f < transfer.pattern->flows.size(); ++f) {
      const std::uint32_t flow_class = refinement.class_of[transfer.first_flow + f];
      if (!seen[flow_class]) ++flow_classes_;
      seen[flow_class] = true;
      for (const std::uint32_t link : transfer.pattern->flows[f].links) {
        if (folded_of[link] != kNoIndex) crossings_[folded_of[link]].emplace_back(flow_class, 1);
      }
    }
  }
  for (auto& of_link : crossings_) {
    std::sort(of_link.begin(), of_link.end());
    std::size_t kept = 0;
    for (const auto& [flow_class, count] : of_link) {
      if (kept > 0 && of_link[kept - 1].first == flow_class) {
        of_link[kept - 1].second += count;
      } else {
        of_link[kept++] = {flow_class, count};
      }
    }
    of_link.resize(kept);
    of_link.shrink_to_fit();
  }
}

TrafficPattern TrafficFolding::Folded(std::size_t index) const {
  return Folded(index, *transfers_[index].pattern);
}

TrafficPattern TrafficFolding::Folded(std::size_t index, const TrafficPattern& pattern) const {
  assert(refinement_ != nullptr);
  const Transfer& transfer = transfers_[index];
  const std::vector<Flow>& flows = pattern.flows;
  assert(flows.size() == transfer.pattern->flows.size());
  const auto class_of = [&](std::uint32_t f) {
    return refinement_->class_of[transfer.first_flow + f];
  };
  // Flow classes of this transfer by first member; and its flows on each link, by (link, class).
  std::vector<std::pair<std::uint32_t, std::uint32_t>> first_of_class;  // (class, flow)
  std::vector<std::pair<std::uint32_t, std::uint32_t>> on_link;         // (link, class)
  for (std::uint32_t f = 0; f < flows.size(); ++f) {
    first_of_class.emplace_back(class_of(f), f);
    for (const std::uint32_t link : flows[f].links) on_link.emplace_back(link, class_of(f));
  }
  std::sort(on_link.begin(), on_link.end());
  std::sort(first_of_class.begin(), first_of_class.end());
  first_of_class.erase(std::unique(first_of_class.begin(), first_of_class.end(),
                                   [](const auto& a, const auto& b) { return a.first == b.first; }),
                       first_of_class.end());
  std::sort(first_of_class.begin(), first_of_class.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  TrafficPattern folded;
  for (const auto& [flow_class, f] : first_of_class) {
    Flow flow = flows[f];
    flow.links.clear();
    for (const std::uint32_t link : flows[f].links) {
      const std::uint32_t number = number_of_class_[refinement_->class_of[link_vertex_[link]]];
      if (std::find(flow.links.begin(), flow.links.end(), number) != flow.links.end()) continue;
      const auto [low, high] =
          std::equal_range(on_link.begin(), on_link.end(), std::make_pair(link, flow_class));
      const auto all = std::lower_bound(crossings_[number].begin(), crossings_[number].end(),
                                        std::make_pair(flow_class, std::uint32_t{0}));
      assert(all != crossings_[number].end() && all->first == flow_class);
      flow.links.push_back(number);
      flow.crossings.push_back({all->second, static_cast<std::uint32_t>(high - low)});
    }
    folded.flows.push_back(std::move(flow));
  }
  return folded;
}

bool ShapeComparison::Match(const Sizes& a, const Sizes& b) {
  constexpr std::size_t kMost = 32;  // sizes; more are not worth the search
  for (const auto& [ours, theirs] : matched_) {
    if ((ours == a) != (theirs == b)) return false;
    if (ours == a) return true;
  }
  matched_.emplace_back(a, b);
  return matched_.size() <= kMost;
}

bool ShapeComparison::Same(const TrafficPattern& a, const TrafficPattern& b) {
  same_ = same_ && a.flows.size() == b.flows.size();
  for (std::size_t f = 0; same_ && f < a.flows.size(); ++f) {
    const Flow& ours = a.flows[f];
    const Flow& theirs = b.flows[f];
    same_ =
        ours.links == theirs.links && Match({ours.bytes, ours.weight, ours.cap_bytes_per_s},
                                            {theirs.bytes, theirs.weight, theirs.cap_bytes_per_s});
  }
  return same_;
}

bool ShapeComparison::SameFigures(double a1, double a2, double b1, double b2) {
  return same_ = same_ && Match({a1, a2, -1}, {b1, b2, -1});
}

FoldedGraph FoldGraph(const OpGraph& graph, const Fabric& fabric) {
  ColouredGraph structure;
  for (OpId op = 0; op < graph.op_count(); ++op) {
    std::uint64_t colour = Combine(std::uint64_t{kOpVertex}, graph.duration(op));
    structure.AddVertex(Combine(colour, graph.latency(op)));
  }
  for (OpId op = 0; op < graph.op_count(); ++op) {
    for (const OpId before : graph.predecessors(op)) structure.AddEdge(op, before, kWaits);
  }
  TrafficFolding folding(fabric, &structure);
  std::vector<std::size_t> transfer_of(graph.op_count(), 0);
  for (OpId op = 0; op < graph.op_count(); ++op) {
    if (graph.pattern(op) != kNoPattern)
      transfer_of[op] = folding.Add(op, graph.traffic(graph.pattern(op)));
  }
  const Refinement refinement = Refine(structure);
  folding.Use(refinement);

  FoldedGraph folded;
  folded.rounds = refinement.rounds;
  folded.fabric = folding.fabric();
  folded.flow_classes = folding.flow_classes();
  folded.link_classes = folding.link_of().size();
  std::vector<OpId> number(refinement.first.size(), kNoOp);
  std::vector<OpId> member;  // by op of the folded graph
  for (OpId op = 0; op < graph.op_count(); ++op) {
    OpId& at = number[refinement.class_of[op]];
    if (at == kNoOp) {
      const StreamId stream = folded.graph.AddStream();
      if (graph.pattern(op) == kNoPattern) {
        at = folded.graph.AddOp(stream, graph.duration(op));
      } else {
        at = folded.graph.AddTransfer(stream, graph.duration(op), graph.latency(op),
                                      folded.graph.AddPattern(folding.Folded(transfer_of[op])));
      }
      member.push_back(op);
    }
    folded.op_of.push_back(at);
  }
  std::vector<OpId> before;
  for (OpId op = 0; op < member.size(); ++op) {
    before.clear();
    for (const OpId original : graph.predecessors(member[op]))
      before.push_back(folded.op_of[original]);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (const OpId predecessor : before) folded.graph.AddDependency(predecessor, op);
  }
  [[maybe_unused]] const bool acyclic = folded.graph.Finish();
  assert(acyclic);  // a class is as deep in the graph as its members
  return folded;
}

Schedule Unfold(const Schedule& folded, const FoldedGraph& graph) {
  Schedule schedule;
  schedule.makespan = folded.makespan;
  schedule.start.reserve(graph.op_of.size());
  schedule.end.reserve(graph.op_of.size());
  for (OpId op = 0; op < graph.op_of.size(); ++op) {
    schedule.start.push_back(folded.start[graph.op_of[op]]);
    schedule.end.push_back(folded.end[graph.op_of[op]]);
    if (schedule.stalled == kNoOp && graph.op_of[op] == folded.stalled) schedule.stalled = op;
  }
  return schedule;
}

}  // namespace aurum
