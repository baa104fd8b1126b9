#include "sim/network/max_min.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "tests/engine/random.h"

namespace aurum {
namespace {

using Links = std::vector<std::uint32_t>;

TEST_CASE("one bottleneck is shared by weight, and a cap gives its surplus to the others") {
  const std::vector<double> capacity{100};
  CHECK(MaxMinRates(capacity, std::vector<SharingFlow>{{{0}}, {{0}}, {{0}}, {{0}}}) ==
        std::vector<double>{25, 25, 25, 25});
  CHECK(MaxMinRates(capacity, std::vector<SharingFlow>{{{0}, 1}, {{0}, 3}}) ==
        std::vector<double>{25, 75});
  CHECK(MaxMinRates(capacity, std::vector<SharingFlow>{{{0}, 1, 10}, {{0}, 1}, {{0}, 2}}) ==
        std::vector<double>{10, 30, 60});
  CHECK(MaxMinRates(capacity, std::vector<SharingFlow>{{{0}, 1, 10}, {{0}, 1, 20}}) ==
        std::vector<double>{10, 20});
  CHECK(MaxMinRates(capacity, std::vector<SharingFlow>{{{}, 1, 7}}) == std::vector<double>{7});
}

TEST_CASE("incast: n senders into one port get a share each, a bystander the rest of its link") {
  // Links 0…7 are the senders', 8 is the receiver's, 9 another receiver's.
  std::vector<double> capacity(10, 50e9);
  std::vector<SharingFlow> flows;
  for (std::uint32_t i = 0; i < 8; ++i) flows.push_back({{i, 8}});
  flows.push_back({{0, 9}});
  const std::vector<double> rates = MaxMinRates(capacity, flows);
  for (int i = 0; i < 8; ++i) CHECK(rates[i] == doctest::Approx(50e9 / 8).epsilon(1e-12));
  CHECK(rates[8] == doctest::Approx(50e9 * 7 / 8).epsilon(1e-12));
}

TEST_CASE("the parking lot: the long flow and the short ones meet at the narrowest link") {
  // Bertsekas and Gallager's example of progressive filling: a flow over all links of a line, one
  // short flow per link.
  const std::vector<double> capacity{10, 4, 10};
  const std::vector<double> rates =
      MaxMinRates(capacity, std::vector<SharingFlow>{{{0, 1, 2}}, {{0}}, {{1}}, {{2}}});
  CHECK(rates == std::vector<double>{2, 8, 2, 8});
}

TEST_CASE("the certificate tells a fair allocation from one that is not") {
  const std::vector<double> capacity{10, 10};
  const std::vector<SharingFlow> flows{{{0, 1}}, {{0}}, {{1}, 1, 4}};
  std::string why;
  CHECK(IsMaxMinFair(capacity, flows, std::vector<double>{5, 5, 4}, 1e-12, &why));
  CHECK_FALSE(
      IsMaxMinFair(capacity, flows, std::vector<double>{6, 5, 4}, 1e-12, &why));  // too much
  CHECK(why.find("link 0") != std::string::npos);
  CHECK_FALSE(IsMaxMinFair(capacity, flows, std::vector<double>{4, 6, 4}, 1e-12, &why));  // unfair
  CHECK(why.find("flow 0") != std::string::npos);
  CHECK_FALSE(
      IsMaxMinFair(capacity, flows, std::vector<double>{5, 4, 4}, 1e-12, &why));  // idle capacity
  CHECK_FALSE(
      IsMaxMinFair(capacity, flows, std::vector<double>{5, 5, 5}, 1e-12, &why));  // above its cap
  CHECK(why.find("cap") != std::string::npos);
  CHECK_FALSE(IsMaxMinFair(capacity, flows, std::vector<double>{5, 5, std::nan("")}, 1e-12));
}

// A plain water-filling of everything in small steps of logic, none of code shared with the solver:
// raise all open flows to the lowest level at which a link or a cap is met.
std::vector<double> WaterFill(const std::vector<double>& capacity,
                              const std::vector<SharingFlow>& flows) {
  std::vector<double> rates(flows.size(), 0);
  std::vector<bool> fixed(flows.size(), false);
  for (std::size_t done = 0; done < flows.size();) {
    double level = kNoCap;
    const auto limit = [&](std::uint32_t link) {
      double spare = capacity[link], weight = 0;
      for (std::size_t f = 0; f < flows.size(); ++f) {
        const double times =
            static_cast<double>(std::count(flows[f].links.begin(), flows[f].links.end(), link));
        if (fixed[f]) {
          spare -= rates[f] * times;
        } else {
          weight += flows[f].weight * times;
        }
      }
      return weight > 0 ? std::max(0.0, spare) / weight : kNoCap;
    };
    std::vector<double> limits;
    for (std::uint32_t link = 0; link < capacity.size(); ++link) {
      limits.push_back(limit(link));
      level = std::min(level, limits.back());
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!fixed[f]) level = std::min(level, flows[f].cap_bytes_per_s / flows[f].weight);
    }
    std::vector<std::size_t> now;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (fixed[f]) continue;
      const bool met =
          flows[f].cap_bytes_per_s / flows[f].weight <= level * (1 + 1e-12) ||
          std::any_of(flows[f].links.begin(), flows[f].links.end(),
                      [&](std::uint32_t link) { return limits[link] <= level * (1 + 1e-12); });
      if (met) now.push_back(f);
    }
    for (const std::size_t f : now) {
      fixed[f] = true;
      rates[f] = level * flows[f].weight;
      ++done;
    }
  }
  return rates;
}

SharingFlow RandomFlow(Random& random, std::uint32_t links) {
  SharingFlow flow;
  for (std::uint32_t link = 0; link < links; ++link) {
    if (random() % 4 == 0) flow.links.push_back(link);
  }
  if (flow.links.empty()) flow.links.push_back(random() % links);
  if (random() % 2 == 0) flow.weight = 1 + random() % 4;
  if (random() % 3 == 0) flow.cap_bytes_per_s = 1 + random() % 40;
  return flow;
}

TEST_CASE("random flows: equal to plain water-filling, and the certificate holds") {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> capacity(1 + random() % 8);
    for (double& c : capacity) c = 1 + random() % 100;
    std::vector<SharingFlow> flows(1 + random() % 20);
    for (SharingFlow& flow : flows)
      flow = RandomFlow(random, static_cast<std::uint32_t>(capacity.size()));
    const std::vector<double> rates = MaxMinRates(capacity, flows);
    const std::vector<double> expected = WaterFill(capacity, flows);
    for (std::size_t f = 0; f < flows.size(); ++f)
      CHECK(rates[f] == doctest::Approx(expected[f]).epsilon(1e-9));
    std::string why;
    CHECK_MESSAGE(IsMaxMinFair(capacity, flows, rates, 1e-9, &why), why);
    if (trial % 3 == 0) {  // twice the capacity and twice the caps: twice the rates, to the bit
      std::vector<double> doubled = capacity;
      std::vector<SharingFlow> flows2 = flows;
      for (double& c : doubled) c *= 2;
      for (SharingFlow& flow : flows2) flow.cap_bytes_per_s *= 2;
      const std::vector<double> rates2 = MaxMinRates(doubled, flows2);
      for (std::size_t f = 0; f < flows.size(); ++f) CHECK(rates2[f] == 2 * rates[f]);
    }
  }
}

TEST_CASE("a flow of multiplicity k is k flows, to the bit") {
  Random random(3);
  for (int trial = 0; trial < 300; ++trial) {
    // `copies` of a random system, each with links of its own beside those common to all.
    const std::uint32_t copies = 1 + random() % 6;
    std::vector<double> capacity(1 + random() % 6);
    std::vector<bool> common(capacity.size());
    for (std::size_t link = 0; link < capacity.size(); ++link) {
      capacity[link] = 1 + random() % 100;
      common[link] = random() % 2 == 0;
    }
    const auto links = static_cast<std::uint32_t>(capacity.size());
    std::vector<double> unfolded_capacity;
    for (std::uint32_t copy = 0; copy < copies; ++copy) {
      unfolded_capacity.insert(unfolded_capacity.end(), capacity.begin(), capacity.end());
    }
    std::vector<SharingFlow> folded(1 + random() % 12), unfolded;
    for (SharingFlow& flow : folded) {
      flow = RandomFlow(random, links);
      for (const std::uint32_t link : flow.links) {
        flow.multiplicity.push_back(common[link] ? copies : 1);
      }
      for (std::uint32_t copy = 0; copy < copies; ++copy) {
        SharingFlow one = flow;
        one.multiplicity.clear();
        for (std::uint32_t& link : one.links) link += common[link] ? 0 : copy * links;
        unfolded.push_back(one);
      }
    }
    const std::vector<double> rates = MaxMinRates(capacity, folded);
    const std::vector<double> expected = MaxMinRates(unfolded_capacity, unfolded);
    for (std::size_t f = 0; f < unfolded.size(); ++f) REQUIRE(rates[f / copies] == expected[f]);
    std::string why;
    REQUIRE_MESSAGE(IsMaxMinFair(capacity, folded, rates, 1e-9, &why), why);
    if (copies == 1) continue;
    // The certificate counts multiplicities: the rates of one copy alone are too much for the links
    // in common, if there are any that bind.
    for (SharingFlow& flow : folded) flow.multiplicity.assign(flow.links.size(), 1);
    const std::vector<double> one = MaxMinRates(capacity, folded);
    if (one == rates) continue;
    CHECK_FALSE(IsMaxMinFair(capacity, folded, rates, 1e-9));
  }
}

TEST_CASE("whole units: no link carries more than it can, to the unit, and sums are exact") {
  Random random(4);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> capacity(1 + random() % 8);
    for (double& c : capacity) c = (1 + random() % 1000) / 7.0;
    const RateScale scale(Widest(capacity));
    MaxMinSharing sharing(capacity);
    std::vector<SharingFlow> flows(1 + random() % 60);
    std::vector<std::int64_t> load(capacity.size(), 0);
    for (SharingFlow& flow : flows) {
      flow = RandomFlow(random, static_cast<std::uint32_t>(capacity.size()));
      flow.weight = (1 + random() % 100) / 8.0;
      sharing.Add(flow.links, flow.weight, flow.cap_bytes_per_s);
    }
    sharing.Solve();
    for (MaxMinSharing::FlowId f = 0; f < flows.size(); ++f) {
      for (const std::uint32_t link : flows[f].links) load[link] += sharing.rate_units(f);
    }
    for (std::size_t link = 0; link < capacity.size(); ++link) {
      REQUIRE(load[link] <= scale.Units(capacity[link]));
    }
  }
}

TEST_CASE("a unit is a power of two: 2^50 to 2^51 of them are the widest link") {
  for (const double widest : {1.0, 3e-9, 50e9, 1.8e12, 4.7e18}) {
    const RateScale scale(widest);
    CHECK(scale.Units(widest) >= std::int64_t{1} << 50);
    CHECK(scale.Units(widest) <= std::int64_t{1} << 51);
    CHECK(RateScale(2 * widest).Units(2 * widest) == scale.Units(widest));
    CHECK(scale.BytesPerSecond(scale.Units(widest)) == doctest::Approx(widest).epsilon(1e-14));
    CHECK(scale.Units(widest * 1e-30) == 1);  // nothing that moves is rounded to a standstill
    CHECK(scale.Units(0) == 0);
  }
}

TEST_CASE(
    "of several links that limit a flow at one level, the bottleneck is the first on its way") {
  const std::vector<double> capacity{10, 10, 20};
  for (const Links& way : {Links{0, 1}, Links{1, 0}, Links{2, 1, 0}}) {
    MaxMinSharing sharing(capacity);
    const auto crossing = sharing.Add(way, 1, kNoCap);
    sharing.Add(Links{0}, 1, kNoCap);
    sharing.Add(Links{1}, 1, kNoCap);
    sharing.Solve();
    CHECK(sharing.rate(crossing) == 5);
    CHECK(sharing.bottleneck(crossing) == (way[0] == 2 ? way[1] : way[0]));
  }
  // A cap at that level comes first.
  MaxMinSharing sharing(capacity);
  const auto capped = sharing.Add(Links{0}, 1, 5);
  const auto other = sharing.Add(Links{0}, 1, kNoCap);
  sharing.Solve();
  CHECK(sharing.bottleneck(capped) == MaxMinSharing::kAtCap);
  CHECK(sharing.bottleneck(other) == 0);
  CHECK(sharing.rate(other) == 5);
}

TEST_CASE("capacities that change: a link that is down stops its flows, others take what is free") {
  MaxMinSharing sharing(std::vector<double>{10, 10});
  const auto both = sharing.Add(Links{0, 1}, 1, kNoCap);
  const auto first = sharing.Add(Links{0}, 1, kNoCap);
  const auto second = sharing.Add(Links{1}, 1, kNoCap);
  sharing.Solve();
  CHECK(sharing.rate(both) == 5);
  sharing.SetCapacity(1, 0);
  sharing.Solve();
  CHECK(sharing.rate(both) == 0);
  CHECK(sharing.bottleneck(both) == 1);
  CHECK(sharing.rate(first) == 10);
  CHECK(sharing.rate(second) == 0);
  sharing.SetCapacity(1, 4);
  sharing.Solve();
  CHECK(sharing.rate(both) == 2);
  CHECK(sharing.rate(first) == 8);
  CHECK(sharing.rate(second) == 2);
}

TEST_CASE("epsilon: rates stay within what a link can carry, near the fair ones, at less work") {
  Random random(5);
  std::size_t exact_work = 0, coarse_work = 0;
  const std::vector<double> capacity(40, 100);
  MaxMinSharing exact(capacity), coarse(capacity, 0.02);
  std::vector<MaxMinSharing::FlowId> ids;
  std::vector<Links> ways;
  for (int step = 0; step < 2000; ++step) {
    if (ids.size() >= 150) {
      const std::size_t victim = random() % ids.size();
      exact.Remove(ids[victim]);
      coarse.Remove(ids[victim]);
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(victim));
      ways.erase(ways.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    const std::uint32_t a = random() % 40, b = (a + 1 + random() % 39) % 40;
    ids.push_back(exact.Add(Links{a, b}, 1, kNoCap));
    ways.push_back({a, b});
    REQUIRE(coarse.Add(Links{a, b}, 1, kNoCap) == ids.back());
    exact_work += exact.Solve().size();
    coarse_work += coarse.Solve().size();
    std::vector<double> load(40, 0);
    double exact_sum = 0, coarse_sum = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      REQUIRE(coarse.rate(ids[i]) > 0);
      for (const std::uint32_t link : ways[i]) load[link] += coarse.rate(ids[i]);
      exact_sum += exact.rate(ids[i]);
      coarse_sum += coarse.rate(ids[i]);
    }
    for (const double l : load) REQUIRE(l <= 100);
    REQUIRE(std::abs(coarse_sum / exact_sum - 1) < 0.02);
  }
  CHECK(coarse_work < exact_work * 3 / 4);
}

TEST_CASE(
    "flows that come and go, links that change: after every change the local update is the global "
    "solution") {
  Random random(2);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<double> capacity(4 + random() % 30);
    for (double& c : capacity) c = 1 + random() % 100;
    MaxMinSharing sharing(capacity, RateScale(100), 0);
    std::vector<MaxMinSharing::FlowId> ids;
    std::vector<SharingFlow> flows;
    for (int step = 0; step < 120; ++step) {
      for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
        if (ids.empty() || random() % 5 < 3) {
          SharingFlow flow;
          for (int hop = 0; hop < 3; ++hop) {
            const auto link = static_cast<std::uint32_t>(random() % capacity.size());
            if (std::find(flow.links.begin(), flow.links.end(), link) == flow.links.end())
              flow.links.push_back(link);
          }
          if (random() % 2 == 0) flow.weight = 1 + random() % 3;
          if (random() % 3 == 0) flow.cap_bytes_per_s = 1 + random() % 20;
          if (random() % 3 == 0) {
            for (std::size_t i = 0; i < flow.links.size(); ++i) {
              flow.multiplicity.push_back(1 + random() % 4);
            }
          }
          ids.push_back(
              sharing.Add(flow.links, flow.weight, flow.cap_bytes_per_s, flow.multiplicity));
          flows.push_back(flow);
        } else {
          const std::size_t victim = random() % ids.size();
          sharing.Remove(ids[victim]);
          ids.erase(ids.begin() + victim);
          flows.erase(flows.begin() + victim);
        }
      }
      if (random() % 4 == 0) {
        const auto link = static_cast<MaxMinSharing::LinkId>(random() % capacity.size());
        capacity[link] = random() % 5 == 0 ? 0 : 1 + random() % 100;
        sharing.SetCapacity(link, capacity[link]);
      }
      std::vector<double> before;
      for (const auto id : ids) before.push_back(sharing.rate(id));
      const auto looked_at = sharing.Solve();
      std::vector<double> rates;
      for (const auto id : ids) rates.push_back(sharing.rate(id));
      std::string why;
      REQUIRE_MESSAGE(IsMaxMinFair(capacity, flows, rates, 1e-8, &why), why);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (rates[i] == before[i]) continue;
        CHECK(std::find(looked_at.begin(), looked_at.end(), ids[i]) != looked_at.end());
      }
      if (step % 10 != 0) continue;
      const std::vector<double> fresh = MaxMinRates(capacity, flows);
      for (std::size_t i = 0; i < ids.size(); ++i)
        CHECK(rates[i] == doctest::Approx(fresh[i]).epsilon(1e-8));
      REQUIRE(sharing.flow_count() == ids.size());
    }
  }
}

TEST_CASE("a change is not felt on the other side of the fabric") {
  const std::vector<double> capacity(100, 10);
  MaxMinSharing sharing(capacity);
  for (std::uint32_t link = 0; link < 100; ++link) sharing.Add(Links{link}, 1, kNoCap);
  CHECK(sharing.Solve().size() == 100);
  const auto id = sharing.Add(Links{7}, 1, kNoCap);
  CHECK(sharing.Solve().size() == 2);
  sharing.Remove(id);
  CHECK(sharing.Solve().size() == 1);
  CHECK(sharing.rate(7) == 10);
}

}  // namespace
}  // namespace aurum
