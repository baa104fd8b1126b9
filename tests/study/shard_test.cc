#include "sim/study/shard.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/core/diagnostic.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

TEST_CASE("every point is in exactly one shard, and shards are of one size but for a block") {
  for (const std::size_t points : {1, 2, 7, 10, 64, 1000, 4096, 100'000}) {
    for (const std::size_t count : {1, 2, 3, 4, 7, 16, 100, 4096}) {
      CAPTURE(points);
      CAPTURE(count);
      std::vector<std::size_t> sizes(count, 0);
      int wrong = 0;
      for (std::size_t i = 0; i < points; ++i) {
        const std::size_t shard = ShardOf(i, points, count);
        if (shard < 1 || shard > count) FAIL("there is no shard ", shard);
        ++sizes[shard - 1];
        wrong += InShard({shard, count}, i, points) ? 0 : 1;
        wrong += shard > 1 && InShard({1, count}, i, points) ? 1 : 0;
      }
      CHECK(wrong == 0);
      const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
      CHECK(*most - *least <= ShardBlock(points, count));
      if (ShardBlock(points, count) > 1) CHECK(ShardBlock(points, count) * 31 <= *least);
      for (const std::size_t i : {std::size_t{1}, count})
        CHECK(ShardPoints({i, count}, points) == sizes[i - 1]);
    }
  }
}

TEST_CASE("the deal is the documented one: stores of today are shards of tomorrow") {
  std::string dealt;
  for (std::size_t i = 0; i < 10; ++i) dealt += std::to_string(ShardOf(i, 10, 3));
  CHECK(dealt == "1232313121");
}

// Axes whose length is that of a round would give a shard one value for good.
TEST_CASE("a shard sees every value of an axis as long as the number of shards") {
  for (const std::size_t count : {2, 4, 8}) {
    const std::size_t points = count * 31;  // the last axis has `count` values, blocks are of one
    REQUIRE(ShardBlock(points, count) == 1);
    std::vector<std::size_t> seen(count, 0);
    for (std::size_t i = 0; i < points; ++i) {
      if (InShard({1, count}, i, points)) ++seen[i % count];
    }
    const auto [least, most] = std::minmax_element(seen.begin(), seen.end());
    CHECK(*least >= 31 / count);
    CHECK(*most - *least <= 1);
  }
}

TEST_CASE("shards are read as they are written") {
  CHECK(ParseShard("2/4") == Shard{2, 4});
  CHECK(ShardName({2, 4}) == "2/4");
  CHECK(ParseShard("1/1").IsWhole());
  for (const char* bad : {"", "/", "1", "1/", "/4", "1/0", "5/4", "-1/4", "1/4/4", "a/4", "1/b",
                          " 1/4", "1.5/4", "1/9999999", "1/99999999999999999999999"}) {
    CAPTURE(bad);
    const Diagnostic error = ThrownBy([&] { ParseShard(bad); });
    CHECK(error.code == 846);
    CHECK(!error.help.empty());
  }
  const Diagnostic zero = ThrownBy([] { ParseShard("0/4"); });
  CHECK(zero.message.find("count from 1") != std::string::npos);
  CHECK(zero.help.find("/4") != std::string::npos);
}

}  // namespace
}  // namespace aurum
