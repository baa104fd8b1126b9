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

TEST_CASE("flows that come and go: after every change the local update is the global solution") {
  Random random(2);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<double> capacity(4 + random() % 30);
    for (double& c : capacity) c = 1 + random() % 100;
    MaxMinSharing sharing(capacity);
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
          ids.push_back(sharing.Add(flow.links, flow.weight, flow.cap_bytes_per_s));
          flows.push_back(flow);
        } else {
          const std::size_t victim = random() % ids.size();
          sharing.Remove(ids[victim]);
          ids.erase(ids.begin() + victim);
          flows.erase(flows.begin() + victim);
        }
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
