#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/study/point.h"

namespace aurum {

// What the ranks of a sweep tell each other, as bytes: all machines of a run are of one kind, so
// numbers go as they lie in memory. A message that ends too early, or holds what it cannot, is a
// std::runtime_error: the other end is no Aurum of this version.
enum class MessageKind : std::uint8_t {
  kHello,  // worker: text = where it is; study = hash of what it would compute
  kRows,   // worker: rows of [begin, at) are here, [at, end) goes back, and `size` more points are
           // wanted for this slot; at first with an empty range
  kBeat,   // both: still here
  kLeave,  // worker: it takes no more points; text = why, "" where it was told to
  kError,  // worker: text = a fault of the program, which ends the sweep
  kGrant,  // manager: evaluate [begin, end) in this slot
  kEnd,    // manager: nothing is left to do
};

struct Message {
  MessageKind kind = MessageKind::kBeat;
  std::uint32_t slot = 0;  // a thread of the worker
  std::uint64_t begin = 0, at = 0, end = 0;
  std::uint64_t size = 0;
  std::string text = {}, study = {};
  std::vector<PointRow> rows = {};
};

std::string Pack(const Message& message);
Message Unpack(std::string_view bytes);

}  // namespace aurum
