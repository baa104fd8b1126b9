#pragma once

#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/core/time.h"

namespace aurum {

// A future event list: a 4-ary heap on the key (time, order). Equal keys do not occur, so any
// correct heap pops the same sequence. Four children share a cache line or two, which makes it
// shallower and faster than a binary heap. Push and Pop O(log n); peek O(1).
template <typename Payload>
class EventHeap {
 public:
  struct Event {
    Time time;
    std::uint64_t order;
    Payload payload;
  };

  bool empty() const { return events_.empty(); }
  std::size_t size() const { return events_.size(); }
  Time top_time() const { return events_.front().time; }
  const Event& top() const { return events_.front(); }
  void Clear() { events_.clear(); }

  void Push(const Event& event) {
    events_.push_back(event);
    std::size_t i = events_.size() - 1;
    while (i > 0) {
      const std::size_t parent = (i - 1) / 4;
      if (!Earlier(event, events_[parent])) break;
      events_[i] = events_[parent];
      i = parent;
    }
    events_[i] = event;
  }

  Event Pop() {
    const Event popped = events_.front();
    const Event last = events_.back();
    events_.pop_back();
    const std::size_t n = events_.size();
    if (n == 0) return popped;
    std::size_t i = 0;
    for (;;) {
      const std::size_t first = 4 * i + 1;
      if (first >= n) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < first + 4 && child < n; ++child) {
        if (Earlier(events_[child], events_[least])) least = child;
      }
      if (!Earlier(events_[least], last)) break;
      events_[i] = events_[least];
      i = least;
    }
    events_[i] = last;
    return popped;
  }

 private:
  static bool Earlier(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.order < b.order;
  }
  std::vector<Event> events_;
};

// The same for events that are moved: each has a slot (a small integer), at most one event per
// slot. Set, Erase O(log n).
class IndexedEventHeap {
 public:
  bool empty() const { return entries_.empty(); }
  Time top_time() const { return entries_.front().time; }
  std::uint32_t top_slot() const { return entries_.front().slot; }

  // Inserts the slot's event or moves it. `order` breaks ties and must be unique.
  void Set(std::uint32_t slot, Time time, std::uint64_t order) {
    if (slot >= position_.size()) position_.resize(slot + 1, kAbsent);
    const Entry entry{time, order, slot};
    std::size_t i = position_[slot];
    if (i == kAbsent) {
      i = entries_.size();
      entries_.push_back(entry);
      Up(i, entry);
    } else {
      Move(i, entry);
    }
  }

  // No effect where the slot has no event.
  void Erase(std::uint32_t slot) {
    if (slot >= position_.size() || position_[slot] == kAbsent) return;
    const std::size_t i = position_[slot];
    position_[slot] = kAbsent;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (i < entries_.size()) Move(i, last);
  }

 private:
  struct Entry {
    Time time;
    std::uint64_t order;
    std::uint32_t slot;
  };
  static constexpr std::uint32_t kAbsent = 0xffffffffU;

  static bool Earlier(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time < b.time : a.order < b.order;
  }
  void Place(std::size_t i, const Entry& entry) {
    entries_[i] = entry;
    position_[entry.slot] = static_cast<std::uint32_t>(i);
  }
  void Move(std::size_t i, const Entry& entry) {
    if (i > 0 && Earlier(entry, entries_[(i - 1) / 4])) {
      Up(i, entry);
    } else {
      Down(i, entry);
    }
  }
  void Up(std::size_t i, const Entry& entry) {
    while (i > 0) {
      const std::size_t parent = (i - 1) / 4;
      if (!Earlier(entry, entries_[parent])) break;
      Place(i, entries_[parent]);
      i = parent;
    }
    Place(i, entry);
  }
  void Down(std::size_t i, const Entry& entry) {
    const std::size_t n = entries_.size();
    for (;;) {
      const std::size_t first = 4 * i + 1;
      if (first >= n) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < first + 4 && child < n; ++child) {
        if (Earlier(entries_[child], entries_[least])) least = child;
      }
      if (!Earlier(entries_[least], entry)) break;
      Place(i, entries_[least]);
      i = least;
    }
    Place(i, entry);
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> position_;  // by slot
};

}  // namespace aurum
