#include "sim/network/meetings.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace aurum {

// Two ways to answer the same question; loads are exact sums, so the answers are the same.
//
// By link: every link knows the sum of the peaks on it and who is alone there. A transfer that comes
// adds its peaks; a link whose sum is now above its capacity gives up those that are alone there.
// O(links of the pattern) per arrival and departure: best for point-to-point transfers.
//
// By pattern: a collective over a large cluster crosses 100,000 links, and one of a few patterns runs
// in every layer. So patterns know their neighbours, those with a common link, and a pattern that
// comes asks which of them are active: O(neighbours). Sums over links are made once per combination
// of active neighbours and remembered, since every micro-batch brings the same few combinations.

namespace {

// Up to this many links per transfer, on average, it is quickest to count by link.
constexpr std::size_t kFewLinks = 6;
// Past this many pairs of patterns per crossing, listing neighbours costs more than counting.
constexpr std::size_t kPairsPerCrossing = 64;
// Links to look at from which on a meeting is worth remembering, and how many are kept.
constexpr std::size_t kWorthRemembering = 256;
constexpr std::size_t kMostRemembered = 4096;

}  // namespace

Meetings::Meetings(const OpGraph& graph, const PreparedTraffic& traffic)
    : traffic_(traffic), alone_(graph.op_count(), false) {
  std::size_t transfers = 0;
  std::size_t crossings = 0;
  for (OpId op = 0; op < graph.op_count(); ++op) {
    if (graph.pattern(op) == kNoPattern) continue;
    ++transfers;
    crossings += traffic.peaks(graph.pattern(op)).size();
  }
  if (crossings > kFewLinks * transfers) FindNeighbours();
  if (by_link_) {
    links_.resize(traffic.capacity().size());
    return;
  }
  load_.assign(traffic.capacity().size(), -1);
  for (PatternId id = 0; id < traffic.pattern_count(); ++id) {
    const std::span<const LinkPeak> peaks = traffic.peaks(id);
    crowds_itself_.push_back(std::any_of(peaks.begin(), peaks.end(), [&](const LinkPeak& peak) {
      return peak.most > Limit(peak.link);
    }));
  }
  active_count_.assign(traffic.pattern_count(), 0);
  first_active_.assign(traffic.pattern_count(), kNoOp);
  next_active_.assign(graph.op_count(), kNoOp);
  previous_active_.assign(graph.op_count(), kNoOp);
}

// Lists them, unless there are too many pairs.
void Meetings::FindNeighbours() {
  std::vector<std::uint32_t> first(traffic_.capacity().size() + 2, 0);
  for (PatternId id = 0; id < traffic_.pattern_count(); ++id) {
    for (const LinkPeak& peak : traffic_.peaks(id)) ++first[peak.link + 2];
  }
  std::size_t pairs = 0;
  std::size_t crossings = 0;
  for (std::size_t i = 2; i < first.size(); ++i) {
    pairs += std::size_t{first[i]} * first[i];
    crossings += first[i];
    first[i] += first[i - 1];
  }
  if (pairs > kPairsPerCrossing * (crossings + 1024)) return;
  by_link_ = false;
  std::vector<PatternId> on_link(crossings);
  for (PatternId id = 0; id < traffic_.pattern_count(); ++id) {
    for (const LinkPeak& peak : traffic_.peaks(id)) on_link[first[peak.link + 1]++] = id;
  }
  std::vector<PatternId> seen_by(traffic_.pattern_count(), kNoPattern);
  for (PatternId id = 0; id < traffic_.pattern_count(); ++id) {
    first_neighbour_.push_back(static_cast<std::uint32_t>(neighbours_.size()));
    for (const LinkPeak& peak : traffic_.peaks(id)) {
      for (std::uint32_t i = first[peak.link]; i < first[peak.link + 1]; ++i) {
        if (seen_by[on_link[i]] == id) continue;
        seen_by[on_link[i]] = id;
        neighbours_.push_back(on_link[i]);
      }
    }
  }
  first_neighbour_.push_back(static_cast<std::uint32_t>(neighbours_.size()));
}

std::span<const OpId> Meetings::Arrive(OpId op, PatternId pattern) {
  met_.clear();
  alone_[op] = true;
  if (by_link_) {
    ArriveByLink(op, pattern);
  } else {
    ArriveByPattern(op, pattern);
  }
  // What happens on a link that changes is not in the transfer's duration.
  if (traffic_.changes(pattern)) Stop(op);
  return met_;
}

void Meetings::Leave(OpId op, PatternId pattern) {
  alone_[op] = false;
  if (by_link_) {
    for (const LinkPeak& peak : traffic_.peaks(pattern)) {
      LinkState& link = links_[peak.link];
      link.load -= peak.most;
      if (--link.active == 0) link.alone.clear();
    }
    return;
  }
  --active_count_[pattern];
  const OpId next = next_active_[op];
  const OpId previous = previous_active_[op];
  (previous == kNoOp ? first_active_[pattern] : next_active_[previous]) = next;
  if (next != kNoOp) previous_active_[next] = previous;
}

void Meetings::Stop(OpId op) {
  if (!alone_[op]) return;
  alone_[op] = false;
  met_.push_back(op);
}

void Meetings::ArriveByLink(OpId op, PatternId pattern) {
  for (const LinkPeak& peak : traffic_.peaks(pattern)) {
    LinkState& link = links_[peak.link];
    link.load += peak.most;
    ++link.active;
    if (link.load <= Limit(peak.link)) {
      // Ops that left while others stayed are swept out when they are the most.
      if (link.alone.size() > 2 * std::size_t{link.active} + 8) {
        std::erase_if(link.alone, [&](OpId other) { return !alone_[other]; });
      }
      link.alone.push_back(op);
      continue;
    }
    for (const OpId other : link.alone) Stop(other);
    link.alone.clear();
    Stop(op);
  }
}

void Meetings::ArriveByPattern(OpId op, PatternId pattern) {
  const std::vector<PatternId>& meeting = PatternsThatMeet(pattern);
  ++active_count_[pattern];
  next_active_[op] = first_active_[pattern];
  previous_active_[op] = kNoOp;
  if (first_active_[pattern] != kNoOp) previous_active_[first_active_[pattern]] = op;
  first_active_[pattern] = op;
  for (const PatternId met : meeting) {
    for (OpId other = first_active_[met]; other != kNoOp; other = next_active_[other]) Stop(other);
  }
}

// The patterns that must share if a transfer of `arriving` starts now: those active on a link that
// could be asked for more than its capacity, and `arriving` itself; empty if there is no such link.
const std::vector<PatternId>& Meetings::PatternsThatMeet(PatternId arriving) {
  std::vector<std::uint32_t>& key = meeting_key_;
  key.assign(1, arriving);
  std::size_t work = traffic_.peaks(arriving).size();
  for (std::uint32_t i = first_neighbour_[arriving]; i < first_neighbour_[arriving + 1]; ++i) {
    const PatternId id = neighbours_[i];
    if (active_count_[id] == 0) continue;
    key.push_back(id);
    key.push_back(active_count_[id]);
    work += traffic_.peaks(id).size();
  }
  meeting_.clear();
  if (key.size() == 1 && !crowds_itself_[arriving]) return meeting_;
  if (work < kWorthRemembering) {
    FindMeeting(arriving, &meeting_);
    return meeting_;
  }
  const auto found = meetings_.find(key);
  if (found != meetings_.end()) return found->second;
  if (meetings_.size() >= kMostRemembered) meetings_.clear();
  std::vector<PatternId>& remembered = meetings_[key];
  FindMeeting(arriving, &remembered);
  return remembered;
}

// Works on meeting_key_: (arriving, then each active neighbour and how many ops of it are active).
void Meetings::FindMeeting(PatternId arriving, std::vector<PatternId>* meeting) {
  const std::span<const LinkPeak> own = traffic_.peaks(arriving);
  for (const LinkPeak& peak : own) load_[peak.link] = peak.most;
  for (std::size_t i = 1; i < meeting_key_.size(); i += 2) {
    const WideInt count = meeting_key_[i + 1];
    for (const LinkPeak& peak : traffic_.peaks(meeting_key_[i])) {
      if (load_[peak.link] >= 0) load_[peak.link] += count * peak.most;
    }
  }
  const auto overloaded = [&](const LinkPeak& peak) { return load_[peak.link] > Limit(peak.link); };
  if (std::any_of(own.begin(), own.end(), overloaded)) {
    meeting->push_back(arriving);
    for (std::size_t i = 1; i < meeting_key_.size(); i += 2) {
      const std::span<const LinkPeak> peaks = traffic_.peaks(meeting_key_[i]);
      if (meeting_key_[i] != arriving && std::any_of(peaks.begin(), peaks.end(), overloaded)) {
        meeting->push_back(meeting_key_[i]);
      }
    }
  }
  for (const LinkPeak& peak : own) load_[peak.link] = -1;
}

}  // namespace aurum
