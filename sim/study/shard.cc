#include "sim/study/shard.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

std::optional<std::size_t> WholeNumber(std::string_view text) {
  std::size_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return {};
  return value;
}

}  // namespace

std::size_t ShardPoints(const Shard& shard, std::size_t points) {
  if (shard.IsWhole()) return points;
  const std::size_t block = ShardBlock(points, shard.count);
  std::size_t mine = 0;
  for (std::size_t at = 0; at < points; at += block) {
    if (InShard(shard, at, points)) mine += std::min(block, points - at);
  }
  return mine;
}

Shard ParseShard(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto fail = [&](const std::string& why, const std::string& help) {
    ThrowInput(846, "'" + std::string(text.substr(0, 60)) + "' is no shard: " + why, help,
               ExitCode::kUsage);
  };
  const std::string example = "--shard 1/4 is the first of four; the others are 2/4, 3/4 and 4/4";
  if (slash == std::string_view::npos) fail("it is not i/n", example);
  const auto index = WholeNumber(text.substr(0, slash));
  const auto count = WholeNumber(text.substr(slash + 1));
  if (!index || !count) fail("it is not i/n of two whole numbers", example);
  if (*index == 0) {
    fail("shards count from 1",
         "of a job array that counts from 0: --shard $((INDEX + 1))/" + std::to_string(*count));
  }
  if (*count > kMaxShards) {
    fail("there are at most " + std::to_string(kMaxShards) + " shards", "fewer shards");
  }
  if (*index > *count) fail("there are only " + std::to_string(*count), example);
  return {*index, *count};
}

std::string ShardName(const Shard& shard) {
  return std::to_string(shard.index) + "/" + std::to_string(shard.count);
}

}  // namespace aurum
