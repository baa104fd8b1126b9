#include "sim/engine/chains.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <unordered_map>

#include "sim/core/hash.h"

namespace aurum {
namespace {

// Chains under construction.
struct Growing {
  std::vector<OpId> ops;
  struct Before {
    std::uint32_t chain, at;  // the op of that chain whose end it waits for
  };
  std::vector<Before> before;  // one for each chain that it waits for, the latest op of it
  std::uint64_t label = 0;
};

}  // namespace

ChainedGraph::ChainedGraph(const OpGraph& graph, std::span<const std::uint32_t> duration_class,
                           std::span<const std::uint64_t> label) {
  const std::size_t n = graph.op_count();
  assert(duration_class.size() == n && label.size() == n);
  place_.resize(n);
  std::vector<Growing> growing;
  // Whether `op` has ended when chain `c` starts or before its last link does.
  const auto over = [&](std::uint32_t c, OpId op) {
    const Place& place = place_[op];
    if (place.chain == c) return true;
    return std::any_of(growing[c].before.begin(), growing[c].before.end(), [&](const auto& before) {
      return before.chain == place.chain && before.at >= place.at;
    });
  };
  for (const OpId op : graph.order()) {
    const auto predecessors = graph.predecessors(op);
    // The chain whose last link this op follows at once.
    std::uint32_t mine = UINT32_MAX;
    for (const OpId before : predecessors) {
      const Place& place = place_[before];
      const Growing& chain = growing[place.chain];
      if (chain.label != label[op] || place.at + 1 != chain.ops.size()) continue;
      const bool follows = std::all_of(predecessors.begin(), predecessors.end(), [&](OpId other) {
        return other == before || over(place.chain, other);
      });
      if (!follows) continue;
      mine = place.chain;
      break;
    }
    if (mine == UINT32_MAX) {
      mine = static_cast<std::uint32_t>(growing.size());
      Growing chain;
      chain.label = label[op];
      for (const OpId before : predecessors) {
        const Place& place = place_[before];
        const auto known =
            std::find_if(chain.before.begin(), chain.before.end(),
                         [&](const auto& other) { return other.chain == place.chain; });
        if (known == chain.before.end()) {
          chain.before.push_back({place.chain, place.at});
        } else {
          known->at = std::max(known->at, place.at);
        }
      }
      growing.push_back(std::move(chain));
    }
    place_[op] = {mine, static_cast<std::uint32_t>(growing[mine].ops.size())};
    growing[mine].ops.push_back(op);
  }

  // What a chain waits for was there when it began: chains are in topological order.
  std::unordered_map<std::string, std::uint32_t> known;  // the bytes of a sequence of classes
  std::string bytes;
  chains_.reserve(growing.size() + 1);
  link_.reserve(n);
  for (const Growing& chain : growing) {
    bytes.clear();
    for (const OpId op : chain.ops)
      bytes.append(reinterpret_cast<const char*>(&duration_class[op]), sizeof(std::uint32_t));
    const auto [entry, is_new] =
        known.try_emplace(bytes, static_cast<std::uint32_t>(kinds_.size()));
    if (is_new) {
      kinds_.push_back({static_cast<std::uint32_t>(link_class_.size()),
                        static_cast<std::uint32_t>(chain.ops.size())});
      for (const OpId op : chain.ops) link_class_.push_back(duration_class[op]);
    }
    chains_.push_back({entry->second, static_cast<std::uint32_t>(edges_.size()),
                       static_cast<std::uint32_t>(link_.size())});
    for (const auto& before : chain.before)
      edges_.push_back({before.chain, kinds_[chains_[before.chain].kind].first + before.at});
    link_.insert(link_.end(), chain.ops.begin(), chain.ops.end());
  }
  prefix_.resize(link_class_.size());
  start_.resize(chains_.size());
}

Time ChainedGraph::Evaluate(std::span<const Time> durations) {
  for (const Kind& kind : kinds_) {
    Time sum;
    for (std::uint32_t i = kind.first; i < kind.first + kind.size; ++i) {
      sum += durations[link_class_[i]];
      prefix_[i] = sum;
    }
  }
  Time makespan;
  const std::size_t n = chains_.size();
  for (std::size_t c = 0; c < n; ++c) {
    Time begin;
    const std::size_t last = c + 1 < n ? chains_[c + 1].first_edge : edges_.size();
    for (std::size_t e = chains_[c].first_edge; e < last; ++e)
      begin = std::max(begin, start_[edges_[e].chain] + prefix_[edges_[e].at]);
    start_[c] = begin;
    const Kind& kind = kinds_[chains_[c].kind];
    makespan = std::max(makespan, begin + prefix_[kind.first + kind.size - 1]);
  }
  return makespan;
}

void ChainedGraph::Expand(Schedule* schedule) const {
  schedule->start.resize(place_.size());
  schedule->end.resize(place_.size());
  schedule->makespan = {};
  for (std::uint32_t c = 0; c < chains_.size(); ++c) {
    Time at = start_[c];
    const Kind& kind = kinds_[chains_[c].kind];
    const std::span<const OpId> ops = links(c);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      schedule->start[ops[i]] = at;
      at = start_[c] + prefix_[kind.first + i];
      schedule->end[ops[i]] = at;
    }
    schedule->makespan = std::max(schedule->makespan, at);
  }
}

}  // namespace aurum
