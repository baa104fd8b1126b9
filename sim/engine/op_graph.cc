#include "sim/engine/op_graph.h"

#include <algorithm>
#include <cassert>

#include "sim/core/hash.h"

namespace aurum {

// The order is the post-order of a depth-first walk along the predecessors, roots by ascending op
// id.
//
// Why not Kahn's algorithm with a queue: it needs the successor lists, which nothing else in a
// max-plus pass reads. The walk needs the predecessor lists only, finds a cycle as the part of its
// stack above the op that it meets again, and yields 0, 1, 2, … when ops were added in an order
// that already respects their dependencies, so that such a graph is evaluated by streaming through
// memory. Example: streams A: a0 a1, B: b0 b1, a1 needs b0, added as a0 a1 b0 b1. The walk visits
// a0; a1, whose predecessors are a0 (done) and b0, so b0 comes first; then a1; then b1: a0 b0 a1
// b1. Cost: O(ops + dependencies); the stack is explicit, since a chain of a million ops is a
// normal plan.
bool OpGraph::Finish(std::vector<OpId>* cycle) {
  const std::size_t n = op_count();
  first_predecessor_.assign(n + 2, 0);
  // Counting sort of the edges by their later op, shifted by one so that the fill pass leaves the
  // begins in place.
  for (OpId op = 0; op < n; ++op) first_predecessor_[op + 2] = stream_previous_[op] != kNoOp;
  for (const auto& [before, after] : edges_) ++first_predecessor_[after + 2];
  for (std::size_t i = 2; i < n + 2; ++i) first_predecessor_[i] += first_predecessor_[i - 1];
  predecessors_.resize(first_predecessor_[n + 1]);
  for (OpId op = 0; op < n; ++op) {
    if (stream_previous_[op] != kNoOp) {
      predecessors_[first_predecessor_[op + 1]++] = stream_previous_[op];
    }
  }
  for (const auto& [before, after] : edges_)
    predecessors_[first_predecessor_[after + 1]++] = before;
  first_predecessor_.resize(n + 1);

  order_.resize(n);
  std::size_t ordered = 0;
  visit_.assign(n, Visit::kNew);
  walk_.clear();
  for (OpId root = 0; root < n; ++root) {
    if (visit_[root] != Visit::kNew) continue;
    visit_[root] = Visit::kOpen;
    walk_.push_back({root, first_predecessor_[root]});
    while (!walk_.empty()) {
      auto& [op, next] = walk_.back();
      const std::uint32_t last = first_predecessor_[op + 1];
      while (next < last && visit_[predecessors_[next]] == Visit::kDone) ++next;
      if (next == last) {
        visit_[op] = Visit::kDone;
        order_[ordered++] = op;
        walk_.pop_back();
        continue;
      }
      const OpId before = predecessors_[next++];
      if (visit_[before] == Visit::kOpen) {
        if (cycle != nullptr) {
          cycle->clear();
          // The walk goes backwards in time; the cycle is reported forwards.
          for (std::size_t i = walk_.size(); i-- > 0;) {
            cycle->push_back(walk_[i].first);
            if (walk_[i].first == before) break;
          }
        }
        finished_ = false;
        return false;
      }
      visit_[before] = Visit::kOpen;
      walk_.push_back({before, first_predecessor_[before]});
    }
  }
  in_order_ = true;
  for (OpId op = 0; op < n && in_order_; ++op) in_order_ = order_[op] == op;
  finished_ = true;
  return true;
}

StreamId OpGraph::AddStream() {
  stream_last_.push_back(kNoOp);
  return static_cast<StreamId>(stream_count_++);
}

PatternId OpGraph::AddPattern(TrafficPattern pattern) {
  patterns_.push_back(std::move(pattern));
  return static_cast<PatternId>(patterns_.size() - 1);
}

OpId OpGraph::AddOp(StreamId stream, Time duration) {
  return AddTransfer(stream, duration, Time{0}, kNoPattern);
}

OpId OpGraph::AddTransfer(StreamId stream, Time duration, Time latency, PatternId pattern) {
  assert(stream < stream_count_);
  assert(duration >= Time{0} && latency >= Time{0});
  assert(pattern == kNoPattern || pattern < patterns_.size());
  const OpId op = static_cast<OpId>(duration_.size());
  duration_.push_back(duration);
  latency_.push_back(latency);
  stream_.push_back(stream);
  pattern_.push_back(pattern);
  stream_previous_.push_back(stream_last_[stream]);
  stream_last_[stream] = op;
  finished_ = false;
  return op;
}

void OpGraph::AddDependency(OpId before, OpId after) {
  assert(before < op_count() && after < op_count());
  edges_.emplace_back(before, after);
  finished_ = false;
}

void OpGraph::Reserve(std::size_t ops, std::size_t dependencies) {
  duration_.reserve(ops);
  latency_.reserve(ops);
  stream_.reserve(ops);
  pattern_.reserve(ops);
  stream_previous_.reserve(ops);
  edges_.reserve(dependencies);
}

void OpGraph::ClearOps() {
  duration_.clear();
  latency_.clear();
  stream_.clear();
  pattern_.clear();
  stream_previous_.clear();
  stream_last_.clear();
  edges_.clear();
  first_predecessor_.clear();
  predecessors_.clear();
  order_.clear();
  stream_count_ = 0;
  finished_ = false;
}

void OpGraph::Clear() {
  ClearOps();
  patterns_.clear();
}

namespace {

// kInOrder: op ids are already topological, so the walk needs no order array and reads memory front
// to back.
template <bool kInOrder>
std::int64_t Evaluate(std::span<const OpId> order, const std::uint32_t* first,
                      const OpId* predecessors, const Time* duration, std::size_t n, Time* start,
                      Time* end) {
  std::int64_t makespan = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t op = kInOrder ? i : order[i];
    std::int64_t begin = 0;
    for (std::uint32_t k = first[op], last = first[op + 1]; k < last; ++k) {
      begin = std::max(begin, end[predecessors[k]].ps);
    }
    const std::int64_t finish = begin + duration[op].ps;
    start[op].ps = begin;
    end[op].ps = finish;
    makespan = std::max(makespan, finish);
  }
  return makespan;
}

}  // namespace

void EvaluateMaxPlus(const OpGraph& graph, Schedule* schedule) {
  assert(graph.finished_);
  const std::size_t n = graph.op_count();
  schedule->start.resize(n);
  schedule->end.resize(n);
#ifndef NDEBUG
  // The sum of all durations bounds every completion: checked once here, not per addition.
  double total = 0;
  for (const Time duration : graph.duration_) total += static_cast<double>(duration.ps);
  assert(total < 9.2e18 && "the schedule may pass 106 days");
#endif
  const auto evaluate = graph.in_order_ ? Evaluate<true> : Evaluate<false>;
  schedule->makespan = {evaluate(graph.order_, graph.first_predecessor_.data(),
                                 graph.predecessors_.data(), graph.duration_.data(), n,
                                 schedule->start.data(), schedule->end.data())};
}

Schedule EvaluateMaxPlus(const OpGraph& graph) {
  Schedule schedule;
  EvaluateMaxPlus(graph, &schedule);
  return schedule;
}

std::string Signature(const Schedule& schedule) {
  static_assert(sizeof(Time) == sizeof(std::int64_t));
  return HashBytes(schedule.end.data(), schedule.end.size() * sizeof(Time)).Hex();
}

}  // namespace aurum
