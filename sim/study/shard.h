#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace aurum {

// A part of a study that one process computes by itself: shard `index` of `count`, from 1 to count.
// Which points it has depends on nothing but these two and the number of points of the study, so
// machines that know nothing of each other divide the work without a word.
//
// Points are dealt in blocks of neighbours: neighbours differ on the last axis alone, and what they
// share is computed once. A round of blocks gives every shard one, and each round begins with the
// next shard, so that a shard does not always get the same values of an axis whose length divides
// the round. Example of 10 points and 3 shards (blocks of one point):
//
//     ordinal  0 1 2  3 4 5  6 7 8  9
//     shard    1 2 3  2 3 1  3 1 2  1
//
// Numbers of points of two shards differ by no more than a block, which is at most a 32nd of a
// shard where it has more than one point.
struct Shard {
  std::size_t index = 1;
  std::size_t count = 1;

  bool IsWhole() const { return count == 1; }
  bool operator==(const Shard&) const = default;
};

constexpr std::size_t kMaxShards = 1'000'000;
constexpr std::size_t kLargestShardBlock = 256;

// Points in a block, of a study of `points` in `count` shards.
constexpr std::size_t ShardBlock(std::size_t points, std::size_t count) {
  return std::clamp<std::size_t>(points / (count * 32), 1, kLargestShardBlock);
}

// The shard, from 1, that has a point. points > ordinal, count >= 1.
constexpr std::size_t ShardOf(std::size_t ordinal, std::size_t points, std::size_t count) {
  const std::size_t block = ordinal / ShardBlock(points, count);
  return (block + block / count) % count + 1;
}

inline bool InShard(const Shard& shard, std::size_t ordinal, std::size_t points) {
  return shard.IsWhole() || ShardOf(ordinal, points, shard.count) == shard.index;
}

// How many points a shard has; 0 where there are more shards than points. O(points / block).
std::size_t ShardPoints(const Shard& shard, std::size_t points);

// "2/4" both ways. E0846: not i/n with 1 <= i <= n <= kMaxShards.
Shard ParseShard(std::string_view text);
std::string ShardName(const Shard& shard);

}  // namespace aurum
