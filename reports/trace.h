#pragma once

#include <cstddef>
#include <string>

#include "sim/study/evaluate.h"

namespace aurum {

// A simulated step as a trace that Perfetto and chrome://tracing open (Trace Event Format). A process
// is a class of ranks, a thread one of its streams: kernels, each kind of collective, and, apart from
// those, what the kernels' stream waits for. Collectives carry their kind, bytes, ranks and bus
// bandwidth. The memory that moves is a counter. `ts` and `dur` are microseconds of simulated time, as
// the format wants; `args` has seconds and bytes, with the unit in the name.
//
// The run's id, the units and what was left out stand under "metadata". At most `most_spans` spans: then
// the busiest class first, the heaviest, and others in order while they fit; of a class that alone is
// too much, the longest spans. Same input, same bytes.
inline constexpr std::size_t kMostSpans = 200000;
std::string TraceText(const Evaluation& evaluation, const std::string& tool_version,
                      const std::string& command_line, std::size_t most_spans = kMostSpans);

}  // namespace aurum
