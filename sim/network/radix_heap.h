#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/core/time.h"

namespace aurum {

// A monotone future event list: nothing is pushed before the time of the last event that top() or
// Pop() gave. The same sequence as EventHeap, (time, order).
//
// A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, Faster algorithms for the shortest path problem,
// J. ACM 37(2), 1990). An event lies in the bucket of the highest bit in which its time differs from
// the last popped time. When the current instant is used up, the first bucket that holds anything is
// dealt out anew around its earliest time: all its events move to lower buckets, since they agree
// with that time in the bit that gave the bucket its number. So an event moves at most 63 times, in
// practice a few, and always sequentially through memory: no comparisons down a tree, and a tie
// costs one append. Within an instant events are sorted by order once, and those pushed into it wait
// in a small heap.
//
// Example: last = 8 (1000b); pushed 9, 13, 12 (1001b, 1101b, 1100b): buckets 1, 3, 3. Pop gives 9;
// then bucket 3 is dealt out around 12: 12 is the instant, 13 goes to bucket 1.
//
// Measured in the hold model (aurum_bench_event_list), millions of pops and pushes a second, with few
// ties / with many: 17 / 26 at 1,000 pending, 9 / 19 at a million, where the 4-ary heap has 19 / 15
// and 1 / 3, and std::priority_queue 17 / 12 and 0.6 / 1.5. At 10 pending the 4-ary heap is ahead,
// 44 / 38 to 28 / 27.
//
// Push O(1), Pop amortised O(bits) moves and O(log ties) for the order.
template <typename Payload>
class RadixHeap {
 public:
  RadixHeap() { earliest_.fill(kTimeMax.ps); }

  struct Event {
    Time time;
    std::uint64_t order;
    Payload payload;
  };

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  // Time of the earliest event. Moves nothing, so earlier events may still be pushed.
  Time top_time() const {
    if (next_ < instant_.size() || !late_.empty()) return {last_};
    return {earliest_[static_cast<std::size_t>(std::countr_zero(occupied_)) + 1]};
  }
  // The earliest event: its time is the current one from now on.
  const Event& top() {
    Advance();
    return LateIsFirst() ? late_.front() : instant_[next_];
  }

  void Push(const Event& event) {
    assert(event.time.ps >= last_);
    ++size_;
    const std::size_t bucket = BucketOf(event.time.ps);
    if (bucket > 0) {
      Deal(bucket, event);
      return;
    }
    late_.push_back(event);
    std::push_heap(late_.begin(), late_.end(), Later);
  }

  Event Pop() {
    Advance();
    --size_;
    if (!LateIsFirst()) return instant_[next_++];
    std::pop_heap(late_.begin(), late_.end(), Later);
    const Event event = late_.back();
    late_.pop_back();
    return event;
  }

  void Clear() {
    for (std::vector<Event>& bucket : buckets_) bucket.clear();
    earliest_.fill(kTimeMax.ps);
    instant_.clear();
    late_.clear();
    next_ = size_ = 0;
    occupied_ = 0;
    last_ = 0;
  }

 private:
  static bool Later(const Event& a, const Event& b) { return a.order > b.order; }
  std::size_t BucketOf(std::int64_t time) const {
    return static_cast<std::size_t>(
        std::bit_width(static_cast<std::uint64_t>(time) ^ static_cast<std::uint64_t>(last_)));
  }
  void Deal(std::size_t bucket, const Event& event) {
    buckets_[bucket].push_back(event);
    earliest_[bucket] = std::min(earliest_[bucket], event.time.ps);
    occupied_ |= std::uint64_t{1} << (bucket - 1);
  }
  bool LateIsFirst() const {
    return next_ == instant_.size() ||
           (!late_.empty() && late_.front().order < instant_[next_].order);
  }

  // Makes an event of the earliest time current, if none is.
  void Advance() {
    assert(size_ > 0);
    if (next_ < instant_.size() || !late_.empty()) return;
    instant_.clear();
    next_ = 0;
    const std::size_t first = static_cast<std::size_t>(std::countr_zero(occupied_)) + 1;
    std::vector<Event>& bucket = buckets_[first];
    last_ = earliest_[first];
    earliest_[first] = kTimeMax.ps;
    occupied_ &= occupied_ - 1;
    bool sorted = true;
    for (const Event& event : bucket) {
      const std::size_t to = BucketOf(event.time.ps);
      if (to > 0) {
        Deal(to, event);
      } else {
        sorted = sorted && (instant_.empty() || instant_.back().order < event.order);
        instant_.push_back(event);
      }
    }
    bucket.clear();
    if (sorted) return;
    std::sort(instant_.begin(), instant_.end(),
              [](const Event& a, const Event& b) { return a.order < b.order; });
  }

  std::array<std::vector<Event>, 65> buckets_;  // [0] is instant_ and late_
  std::array<std::int64_t, 65> earliest_;       // time in each bucket; kTimeMax: empty
  std::vector<Event> instant_;                  // of time last_, from next_ on, by order
  std::vector<Event> late_;                     // heap: of time last_, pushed since
  std::size_t next_ = 0;
  std::size_t size_ = 0;
  std::uint64_t occupied_ = 0;  // bit i: buckets_[i + 1] is not empty
  std::int64_t last_ = 0;
};

}  // namespace aurum
