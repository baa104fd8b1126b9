#pragma once

#include <cstdint>
#include <vector>

#include "sim/collectives/chunk_builder.h"
#include "sim/collectives/group_shape.h"

namespace aurum {

// The steps of the algorithms that flows.cc describes. Here only what the flow level does not need
// to know: who passes on what, and when. For chunk_build.cc alone.

using LaneId = ChunkBuilder::LaneId;

// Into how many chunks (ChunkOf) a stream of bytes is cut; 2^20 larger ones at most.
std::uint32_t Pieces(double stream);

void AddRingChunks(CollectiveKind kind, double bytes, const GroupShape& shape, bool pipelined,
                   ChunkBuilder* builder);
void AddDoubleTreeChunks(CollectiveKind kind, double bytes, const GroupShape& shape,
                         ChunkBuilder* builder);
// One tree of vertices with a rank each. `input`: the lanes that vertex v's own contribution waits
// for. Returns the lanes that a rank of v waits for that wants the result. Not `reduce`: the root's
// input goes down, the others have none.
std::vector<std::vector<LaneId>> AddTreeChunks(const std::vector<int>& parent,
                                               const std::vector<int>& rank,
                                               const std::vector<std::vector<LaneId>>& input,
                                               double bytes_per_item, std::uint32_t repeats,
                                               bool reduce, int channel, ChunkBuilder* builder);
void AddHalvingChunks(CollectiveKind kind, double bytes, const GroupShape& shape,
                      ChunkBuilder* builder);
void AddLevelChunks(CollectiveKind kind, double bytes, const GroupShape& shape,
                    const Cluster& cluster, int depth, ChunkBuilder* builder);
// bytes[i · n + j] from rank i of the group to rank j.
void AddDirectChunks(CollectiveKind kind, const std::vector<double>& bytes, const RankGroup& group,
                     const GroupShape& shape, const Cluster& cluster, ChunkBuilder* builder);
void AddNvlsChunks(CollectiveKind kind, double bytes, const GroupShape& shape,
                   const Cluster& cluster, ChunkBuilder* builder);
void AddSharpChunks(double bytes, const GroupShape& shape, const Cluster& cluster,
                    ChunkBuilder* builder);

}  // namespace aurum
