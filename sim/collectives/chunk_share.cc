#include "sim/collectives/chunk_share.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

namespace aurum {

// Events are the end of an item's latency and the end of its transmission. All events of an instant
// are taken before rates are solved again, once, and only in the part of the program that changed:
// lanes and crowded links that hang together. Progressive filling (Bertsekas and Gallager, Data
// Networks, 6.5.2): the least level at which a lane meets its own most, or a link its capacity,
// fixes the lanes that it limits; go on with the rest.
//
// Folded and unfolded must agree to the last bit, so no sum may depend on how many lanes stand for
// how many: what a link has given away is the sum over *levels*, in ascending order, of the number
// of crossings fixed there times the level. Whether 8 lanes or one lane of 8 crossings were fixed
// at a level, the terms are the same. And a lane's progress is written down when its rate changes,
// not when its neighbours' do.
//
// sim/network's solver does the same job for flows that come and go at large, in whole units. This
// one knows that a lane is always there and works on the crowded links alone; as the two share no
// code, a program run here and the same expanded into a graph check each other.

namespace {

constexpr double kSlack = 1e-9;
constexpr std::uint32_t kNone = 0xffffffffU;

std::uint32_t CrossingsOf(const ChunkProgram& program, std::uint32_t hop) {
  return program.crossings.empty() ? 1 : program.crossings[hop];
}

class Sharing {
 public:
  explicit Sharing(const ChunkProgram& program) : p_(program) {
    const std::size_t n = p_.lanes.size();
    lanes_.resize(n);
    const std::vector<bool> crowded = CrowdedLinks(p_);
    links_.resize(p_.links.size());
    for (std::size_t l = 0; l < n; ++l) {
      const ChunkLane& lane = p_.lanes[l];
      lanes_[l].most = MostOf(p_, lane);
      for (std::uint32_t h = lane.first_hop; h < lane.first_hop + lane.hop_count; ++h) {
        if (!crowded[p_.hops[h]]) continue;
        lanes_[l].hops.push_back({p_.hops[h], CrossingsOf(p_, h)});
        links_[p_.hops[h]].lanes.push_back(static_cast<std::uint32_t>(l));
      }
      for (const ChunkWait& wait : p_.WaitsOf(lane))
        lanes_[wait.lane].followers.push_back(static_cast<std::uint32_t>(l));
    }
    for (Link& link : links_) {
      // A lane may cross a link more than once.
      link.lanes.erase(std::unique(link.lanes.begin(), link.lanes.end()), link.lanes.end());
    }
  }

  std::vector<Time> Run() {
    for (std::uint32_t l = 0; l < lanes_.size(); ++l) Arm(l, {0});
    while (!events_.empty()) {
      const Time now = std::get<0>(events_.top());
      while (!events_.empty() && std::get<0>(events_.top()) == now) {
        const auto [time, kind, lane, stamp] = events_.top();
        events_.pop();
        if (kind == Kind::kEnd) {
          if (lanes_[lane].stamp == stamp) EndItem(lane, now);
        } else {
          Start(lane, now);
        }
      }
      Solve(now);
    }
    std::vector<Time> ends;
    ends.reserve(lanes_.size());
    for (const Lane& lane : lanes_) {
      assert(lane.ended == p_.lanes[ends.size()].repeats);
      ends.push_back(lane.last_end);
    }
    return ends;
  }

 private:
  enum class Kind : std::uint8_t { kEnd, kReady };
  struct Hop {
    std::uint32_t link, crossings;
  };
  struct Lane {
    double most = 0;
    std::vector<Hop> hops;                              // crowded links alone
    std::vector<std::uint32_t> followers;               // lanes that wait for this one
    std::uint32_t armed = 0, started = 0, ended = 0;    // items
    std::vector<std::pair<Time, std::uint32_t>> ready;  // (from, items up to), a queue
    std::size_t ready_head = 0;
    bool flowing = false;
    double rate = 0, left = 0;
    Time since{};
    std::uint32_t stamp = 0;
    Time last_end{};
    std::uint32_t round = 0;
    bool fixed = false;
    double new_rate = 0;
  };
  struct Link {
    std::vector<std::uint32_t> lanes;
    bool dirty = false;
    std::uint32_t round = 0;
    double given = 0;
    std::uint64_t open = 0, fixed_now = 0;
  };

  // Items whose waits are over wait for their latency alone.
  void Arm(std::uint32_t l, Time now) {
    Lane& lane = lanes_[l];
    const ChunkLane& what = p_.lanes[l];
    const std::uint32_t before = lane.armed;
    while (lane.armed < what.repeats && Ready(what, lane.armed)) ++lane.armed;
    if (lane.armed == before) return;
    const Time from = now + what.latency;
    lane.ready.emplace_back(from, lane.armed);
    events_.emplace(from, Kind::kReady, l, 0);
  }

  bool Ready(const ChunkLane& what, std::uint32_t item) const {
    for (const ChunkWait& wait : p_.WaitsOf(what)) {
      const std::uint32_t ended = lanes_[wait.lane].ended;
      if (wait.lag == kAllItems) {
        if (ended < p_.lanes[wait.lane].repeats) return false;
      } else if (item >= static_cast<std::uint32_t>(wait.lag) &&
                 ended <= item - static_cast<std::uint32_t>(wait.lag)) {
        return false;
      }
    }
    return true;
  }

  void Start(std::uint32_t l, Time now) {
    Lane& lane = lanes_[l];
    if (lane.flowing || lane.started == lane.armed) return;
    while (lane.ready_head < lane.ready.size() &&
           lane.ready[lane.ready_head].second <= lane.started)
      ++lane.ready_head;
    if (lane.ready_head == lane.ready.size() || lane.ready[lane.ready_head].first > now) return;
    if (lane.ready_head > 64) {
      lane.ready.erase(lane.ready.begin(),
                       lane.ready.begin() + static_cast<std::ptrdiff_t>(lane.ready_head));
      lane.ready_head = 0;
    }
    const ChunkLane& what = p_.lanes[l];
    ++lane.started;
    lane.flowing = true;
    ++lane.stamp;
    if (what.bytes <= 0 || lane.most == std::numeric_limits<double>::infinity()) {
      lane.rate = 0;
      events_.emplace(now, Kind::kEnd, l, lane.stamp);
      return;
    }
    lane.left = what.bytes;
    lane.since = now;
    if (lane.hops.empty()) {
      lane.rate = lane.most;
      events_.emplace(now + TransmissionTime(what.bytes, lane.rate), Kind::kEnd, l, lane.stamp);
      return;
    }
    lane.rate = 0;
    MarkDirty(l);
  }

  void EndItem(std::uint32_t l, Time now) {
    Lane& lane = lanes_[l];
    lane.flowing = false;
    lane.rate = 0;
    ++lane.ended;
    lane.last_end = now;
    MarkDirty(l);
    Start(l, now);
    for (const std::uint32_t follower : lane.followers) Arm(follower, now);
  }

  void MarkDirty(std::uint32_t l) {
    for (const Hop& hop : lanes_[l].hops) {
      if (links_[hop.link].dirty) continue;
      links_[hop.link].dirty = true;
      dirty_.push_back(hop.link);
    }
  }

  bool Shares(std::uint32_t l) const {
    const Lane& lane = lanes_[l];
    return lane.flowing && lane.left > 0 && !lane.hops.empty();
  }

  void Solve(Time now) {
    if (dirty_.empty()) return;
    ++round_;
    component_lanes_.clear();
    component_links_.clear();
    const auto take_link = [&](std::uint32_t id) {
      if (links_[id].round == round_) return;
      links_[id].round = round_;
      component_links_.push_back(id);
    };
    for (const std::uint32_t id : dirty_) {
      links_[id].dirty = false;
      take_link(id);
    }
    dirty_.clear();
    for (std::size_t i = 0; i < component_links_.size(); ++i) {
      for (const std::uint32_t l : links_[component_links_[i]].lanes) {
        if (lanes_[l].round == round_ || !Shares(l)) continue;
        lanes_[l].round = round_;
        lanes_[l].fixed = false;
        component_lanes_.push_back(l);
        for (const Hop& hop : lanes_[l].hops) take_link(hop.link);
      }
    }
    for (const std::uint32_t id : component_links_) {
      links_[id].given = 0;
      links_[id].open = links_[id].fixed_now = 0;
    }
    for (const std::uint32_t l : component_lanes_) {
      for (const Hop& hop : lanes_[l].hops) links_[hop.link].open += hop.crossings;
    }
    Fill();
    for (const std::uint32_t l : component_lanes_) {
      Lane& lane = lanes_[l];
      if (lane.new_rate == lane.rate) continue;
      lane.left -= lane.rate * Seconds(now - lane.since);
      lane.since = now;
      lane.rate = lane.new_rate;
      ++lane.stamp;
      const Time left = lane.left > 0 ? TransmissionTime(lane.left, lane.rate) : Time{0};
      lane.left = std::max(lane.left, std::numeric_limits<double>::min());
      events_.emplace(now + left, Kind::kEnd, l, lane.stamp);
    }
  }

  double Share(const Link& link, std::uint32_t id) const {
    return std::max(0.0, p_.capacity_bytes_per_s[id] - link.given) / static_cast<double>(link.open);
  }

  void Fill() {
    std::vector<std::uint32_t>& open = open_lanes_;
    open = component_lanes_;
    while (!open.empty()) {
      double level = std::numeric_limits<double>::infinity();
      for (const std::uint32_t l : open) level = std::min(level, lanes_[l].most);
      for (const std::uint32_t id : component_links_) {
        if (links_[id].open > 0) level = std::min(level, Share(links_[id], id));
      }
      // Limits within rounding of the level belong to it: equal shares of different links.
      const double reach = level * (1 + kSlack);
      for (const std::uint32_t id : component_links_) {
        Link& link = links_[id];
        if (link.open == 0 || Share(link, id) > reach) continue;
        for (const std::uint32_t l : link.lanes) {
          if (lanes_[l].round == round_ && !lanes_[l].fixed) lanes_[l].fixed = true;
        }
      }
      for (const std::uint32_t l : open) {
        Lane& lane = lanes_[l];
        if (lane.most <= reach) lane.fixed = true;
        if (!lane.fixed) continue;
        lane.new_rate = std::min(level, lane.most);
        for (const Hop& hop : lane.hops) links_[hop.link].fixed_now += hop.crossings;
      }
      for (const std::uint32_t id : component_links_) {
        Link& link = links_[id];
        if (link.fixed_now == 0) continue;
        link.given += static_cast<double>(link.fixed_now) * level;
        link.open -= link.fixed_now;
        link.fixed_now = 0;
      }
      std::erase_if(open, [&](std::uint32_t l) { return lanes_[l].fixed; });
    }
  }

  const ChunkProgram& p_;
  std::vector<Lane> lanes_;
  std::vector<Link> links_;
  using Event = std::tuple<Time, Kind, std::uint32_t, std::uint32_t>;  // time, kind, lane, stamp
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::uint32_t> dirty_, component_lanes_, component_links_, open_lanes_;
  std::uint32_t round_ = 0;
};

}  // namespace

double MostOf(const ChunkProgram& program, const ChunkLane& lane) {
  double most =
      lane.cap_bytes_per_s > 0 ? lane.cap_bytes_per_s : std::numeric_limits<double>::infinity();
  for (const std::uint32_t link : program.HopsOf(lane))
    most = std::min(most, program.capacity_bytes_per_s[link]);
  return most;
}

std::vector<bool> CrowdedLinks(const ChunkProgram& program) {
  std::vector<double> asked(program.links.size(), 0);
  for (const ChunkLane& lane : program.lanes) {
    if (lane.bytes <= 0) continue;
    const double most = MostOf(program, lane);
    for (std::uint32_t h = lane.first_hop; h < lane.first_hop + lane.hop_count; ++h)
      asked[program.hops[h]] += most * CrossingsOf(program, h);
  }
  std::vector<bool> crowded(program.links.size());
  for (std::size_t link = 0; link < asked.size(); ++link)
    crowded[link] = asked[link] > program.capacity_bytes_per_s[link] * (1 + kSlack);
  return crowded;
}

std::vector<Time> RunBySharing(const ChunkProgram& program) { return Sharing(program).Run(); }

}  // namespace aurum
