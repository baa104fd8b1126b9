#include "sim/study/link_loads.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

namespace aurum {
namespace {

// A transfer's stay on a link.
struct Stay {
  std::uint32_t link;
  Time from, to;
  std::uint32_t transfers;  // that the op stands for, on this link
};

// Fills busy_s and met_s of one link from its stays.
void Sweep(std::span<const Stay> stays, LinkLoad* load) {
  std::vector<std::pair<Time, std::int64_t>> moments;
  for (const Stay& stay : stays) {
    moments.emplace_back(stay.from, stay.transfers);
    moments.emplace_back(stay.to, -static_cast<std::int64_t>(stay.transfers));
  }
  std::sort(moments.begin(), moments.end());  // at one time, ends come first
  std::int64_t running = 0;
  for (std::size_t i = 0; i + 1 < moments.size(); ++i) {
    running += moments[i].second;
    const double stretch = Seconds(moments[i + 1].first - moments[i].first);
    if (running >= 1) load->busy_s += stretch;
    if (running >= 2) load->met_s += stretch;
  }
}

}  // namespace

Loads MeasureLoads(const OpGraph& graph, const Fabric& fabric, const Schedule& schedule,
                   std::span<const std::uint8_t> label, std::size_t label_count,
                   std::span<const std::uint32_t> instances, std::span<const std::uint32_t> link_of,
                   std::span<const std::uint32_t> link_count) {
  assert(label.size() == graph.op_count());
  Loads loads;
  loads.labels.resize(label_count);
  std::vector<LinkLoad> by_link(fabric.capacity_bytes_per_s.size());
  std::vector<Stay> stays;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> own;  // (link, transfers) of one op
  for (OpId op = 0; op < graph.op_count(); ++op) {
    if (graph.pattern(op) == kNoPattern) continue;
    const double nominal = Seconds(graph.duration(op));
    const double actual = Seconds(schedule.end[op] - schedule.start[op]);
    LabelDelay& delay = loads.labels[label[op]];
    const std::uint32_t stands_for = instances.empty() ? 1 : instances[op];
    delay.transfers += stands_for;
    delay.nominal_s += nominal * stands_for;
    delay.actual_s += actual * stands_for;
    if (nominal > 0) delay.worst_factor = std::max(delay.worst_factor, actual / nominal);
    own.clear();
    for (const Flow& flow : graph.traffic(graph.pattern(op)).flows) {
      for (std::size_t hop = 0; hop < flow.links.size(); ++hop) {
        const Crossings crossings = flow.crossings.empty() ? Crossings{} : flow.crossings[hop];
        LinkLoad& load = by_link[flow.links[hop]];
        if (load.bytes_by_label.empty()) load.bytes_by_label.resize(label_count);
        load.bytes_by_label[label[op]] += flow.bytes * crossings.all;
        own.emplace_back(flow.links[hop], (crossings.all + crossings.own - 1) / crossings.own);
      }
    }
    std::sort(own.begin(), own.end());
    const Time from = std::min(schedule.start[op] + graph.latency(op), schedule.end[op]);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (i + 1 < own.size() && own[i + 1].first == own[i].first) continue;  // the most, once
      if (from < schedule.end[op])
        stays.push_back({own[i].first, from, schedule.end[op], own[i].second});
    }
  }
  for (LabelDelay& delay : loads.labels) {
    if (delay.transfers == 0) continue;
    delay.nominal_s /= static_cast<double>(delay.transfers);
    delay.actual_s /= static_cast<double>(delay.transfers);
  }
  std::stable_sort(stays.begin(), stays.end(),
                   [](const Stay& a, const Stay& b) { return a.link < b.link; });
  for (std::size_t i = 0; i < stays.size();) {
    std::size_t last = i;
    while (last < stays.size() && stays[last].link == stays[i].link) ++last;
    const std::uint32_t link = stays[i].link;
    LinkLoad& load = by_link[link];
    load.link = link_of.empty() ? link : link_of[link];
    load.count = link_count.empty() ? 1 : link_count[link];
    load.capacity_bytes_per_s = fabric.capacity_bytes_per_s[link];
    for (const double bytes : load.bytes_by_label) load.bytes += bytes;
    const double whole_s = Seconds(schedule.makespan);
    if (whole_s > 0) load.mean_use = load.bytes / load.capacity_bytes_per_s / whole_s;
    Sweep({stays.data() + i, last - i}, &load);
    loads.links.push_back(std::move(load));
    i = last;
  }
  std::sort(loads.links.begin(), loads.links.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return std::make_tuple(-a.met_s, -a.mean_use, a.link) <
           std::make_tuple(-b.met_s, -b.mean_use, b.link);
  });
  return loads;
}

}  // namespace aurum
