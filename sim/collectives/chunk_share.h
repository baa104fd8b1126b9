#pragma once

#include <vector>

#include "sim/collectives/chunk.h"

namespace aurum {

// The program by discrete events, links shared by max-min fairness: when each lane ends. Folded
// programs (with crossings) too, bit for bit as their unfolded ones. Memory O(lanes + hops + waits).
std::vector<Time> RunBySharing(const ChunkProgram& program);

// The most a lane can get: its cap, or the narrowest of its links.
double MostOf(const ChunkProgram& program, const ChunkLane& lane);

// Links that may be asked for more than they have, when every lane takes the most it can: by place
// in program.links. Sums within a relative 1e-9 of the capacity count as fitting.
std::vector<bool> CrowdedLinks(const ChunkProgram& program);

}  // namespace aurum
