#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <map>

#include "sim/collectives/chunk.h"
#include "sim/collectives/chunk_share.h"
#include "sim/engine/colour_refinement.h"

namespace aurum {

// When an item ends depends on its lane's own numbers, on the lanes that it waits for, and on who
// shares a crowded link with it; on nothing else. So colour refinement over lanes and crowded links
// (sim/engine/colour_refinement.h) finds lanes that end at the same picosecond, item by item: a
// lane looks at the lanes that it waits for, with their lags, and at its crowded links; a link at
// the lanes on it. Links that nobody can crowd do not matter, and who waits *for* a lane does not
// either. One lane of a class then runs for all; on a link it counts as often as lanes of its class
// cross such a link.
//
// Example: the 1,024 lanes of an all-reduce ring are one class, which waits for itself with lag 1.
// With one slower link each lane is at its own distance from it and nothing folds: that is the
// truth, since the slow lane's delay reaches every other one after another number of steps.

namespace {

std::uint64_t Mixed(std::uint64_t into, std::uint64_t value) {
  into ^= value + 0x9e3779b97f4a7c15ULL + (into << 6) + (into >> 2);
  into *= 0xff51afd7ed558ccdULL;
  return into ^ (into >> 33);
}

constexpr std::uint32_t kOnLink = 1U << 30;
constexpr std::uint32_t kOfLink = 1U << 31;

}  // namespace

ChunkProgram FoldChunks(const ChunkProgram& program, std::vector<std::uint32_t>* class_of) {
  assert(program.crossings.empty());
  const std::vector<bool> crowded = CrowdedLinks(program);
  const std::size_t n = program.lanes.size();
  ColouredGraph graph;
  graph.Reserve(n + program.links.size(), program.waits.size() + 2 * program.hops.size());
  for (const ChunkLane& lane : program.lanes) {
    std::uint64_t colour = Mixed(1, std::bit_cast<std::uint64_t>(lane.bytes));
    colour = Mixed(colour, lane.repeats);
    colour = Mixed(colour, static_cast<std::uint64_t>(lane.latency.ps));
    colour = Mixed(colour, std::bit_cast<std::uint64_t>(MostOf(program, lane)));
    colour = Mixed(colour, static_cast<std::uint64_t>(lane.stage));
    graph.AddVertex(colour);
  }
  std::vector<ColouredGraph::VertexId> vertex_of_link(program.links.size(), 0);
  std::vector<std::uint32_t> link_of_vertex;
  for (std::size_t link = 0; link < program.links.size(); ++link) {
    if (!crowded[link]) continue;
    vertex_of_link[link] =
        graph.AddVertex(Mixed(2, std::bit_cast<std::uint64_t>(program.capacity_bytes_per_s[link])));
    link_of_vertex.push_back(static_cast<std::uint32_t>(link));
  }
  for (std::size_t l = 0; l < n; ++l) {
    const auto lane = static_cast<ColouredGraph::VertexId>(l);
    for (const ChunkWait& wait : program.WaitsOf(program.lanes[l]))
      graph.AddEdge(lane, wait.lane, static_cast<std::uint32_t>(wait.lag + 1));
    for (const std::uint32_t link : program.HopsOf(program.lanes[l])) {
      if (!crowded[link]) continue;
      graph.AddEdge(lane, vertex_of_link[link], kOnLink);
      graph.AddEdge(vertex_of_link[link], lane, kOfLink);
    }
  }
  const Refinement classes = Refine(graph);

  // Classes are numbered by first member, so those of lanes come first.
  ChunkProgram folded;
  folded.algorithm = program.algorithm;
  std::map<std::uint32_t, std::uint32_t> link_of_class;  // of links; to places in folded.links
  // How often lanes of a class cross one link of a class.
  std::map<std::uint32_t, std::map<std::uint32_t, std::uint32_t>> crossing;
  std::vector<std::uint32_t> first_link_of_class;
  for (std::size_t v = n; v < classes.class_of.size(); ++v) {
    const std::uint32_t c = classes.class_of[v];
    if (classes.first[c] != v) continue;
    const std::uint32_t link = link_of_vertex[v - n];
    link_of_class[c] = static_cast<std::uint32_t>(folded.links.size());
    folded.links.push_back(program.links[link]);
    folded.capacity_bytes_per_s.push_back(program.capacity_bytes_per_s[link]);
    first_link_of_class.push_back(link);
  }
  std::vector<std::uint32_t> folded_link(program.links.size(), 0xffffffffU);
  for (std::size_t i = 0; i < first_link_of_class.size(); ++i)
    folded_link[first_link_of_class[i]] = static_cast<std::uint32_t>(i);
  for (std::size_t l = 0; l < n; ++l) {
    for (const std::uint32_t link : program.HopsOf(program.lanes[l])) {
      if (folded_link[link] != 0xffffffffU) ++crossing[folded_link[link]][classes.class_of[l]];
    }
  }
  for (std::size_t c = 0; c < classes.first.size() && classes.first[c] < n; ++c) {
    const ChunkLane& member = program.lanes[classes.first[c]];
    ChunkLane lane = member;
    lane.cap_bytes_per_s = MostOf(program, member);
    if (lane.bytes <= 0) lane.cap_bytes_per_s = 0;
    lane.first_wait = static_cast<std::uint32_t>(folded.waits.size());
    std::vector<std::pair<std::uint32_t, std::int32_t>> waits;
    for (const ChunkWait& wait : program.WaitsOf(member))
      waits.emplace_back(classes.class_of[wait.lane], wait.lag);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    for (const auto& [on, lag] : waits) folded.waits.push_back({on, lag});
    lane.wait_count = static_cast<std::uint32_t>(waits.size());
    lane.first_hop = static_cast<std::uint32_t>(folded.hops.size());
    std::vector<std::uint32_t> hops;
    for (const std::uint32_t link : program.HopsOf(member)) {
      if (crowded[link]) hops.push_back(link_of_class.at(classes.class_of[vertex_of_link[link]]));
    }
    std::sort(hops.begin(), hops.end());
    hops.erase(std::unique(hops.begin(), hops.end()), hops.end());
    for (const std::uint32_t link : hops) {
      folded.hops.push_back(link);
      folded.crossings.push_back(crossing.at(link).at(static_cast<std::uint32_t>(c)));
    }
    lane.hop_count = static_cast<std::uint32_t>(hops.size());
    folded.lanes.push_back(lane);
  }
  if (class_of != nullptr)
    class_of->assign(classes.class_of.begin(),
                     classes.class_of.begin() + static_cast<std::ptrdiff_t>(n));
  return folded;
}

}  // namespace aurum
