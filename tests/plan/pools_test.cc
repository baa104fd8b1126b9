#include "sim/plan/pools.h"

#include <doctest/doctest.h>

#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Evaluation Mixed(const std::vector<std::string>& changes = {}, Level level = Level::kAnalytic) {
  return EvaluateDocument(Shipped("articles/a20-two-kinds-of-gpus", changes), level);
}

TEST_CASE("a pool of the cluster's own device changes nothing") {
  const Evaluation plain = Mixed({"pools=[]"});
  const Evaluation same = Mixed({R"(pools=[{"nodes": [1, 2], "profile": "a100"}])"});
  CHECK(same.StepSeconds() == plain.StepSeconds());
  CHECK(same.memory.Heaviest().peak_bytes == plain.memory.Heaviest().peak_bytes);
}

TEST_CASE("all nodes in one pool are a cluster of that device") {
  const Evaluation pooled = Mixed({R"(pools=[{"nodes": [0, 1, 2, 3], "profile": "h100"}])"});
  const Evaluation whole = Mixed({"pools=[]", "profile=h100"});
  CHECK(pooled.Time().compute_s == doctest::Approx(whole.Time().compute_s).epsilon(1e-9));
}

TEST_CASE("fast devices wait for slow ones: the step is as long as with slow ones alone") {
  const Evaluation mixed = Mixed();
  const Evaluation slow = Mixed({"pools=[]"});
  const Evaluation fast = Mixed({R"(pools=[{"nodes": [0, 1, 2, 3], "profile": "h100"}])"});
  CHECK(mixed.StepSeconds() > fast.StepSeconds() * 1.5);
  CHECK(mixed.StepSeconds() == doctest::Approx(slow.StepSeconds()).epsilon(0.05));
  REQUIRE(mixed.program.classes.size() == 2);
  CHECK(mixed.outcome.time[0].compute_s < mixed.outcome.time[1].compute_s);  // H100 first
  CHECK(mixed.outcome.time[0].Sum() == doctest::Approx(mixed.StepSeconds()).epsilon(1e-9));
  for (const Level level : {Level::kFlow, Level::kAuto})
    CHECK(Mixed({}, level).StepSeconds() == doctest::Approx(mixed.StepSeconds()).epsilon(0.05));
}

TEST_CASE("the smaller device's memory decides where it is the fuller one") {
  const Evaluation mixed = Mixed({R"(pools=[{"nodes": [3], "profile": "a100-40"}])"});
  CHECK(mixed.memory.device_bytes < 41 * 1024.0 * 1024 * 1024);
  CHECK_FALSE(mixed.memory.fits);
  CHECK(Mixed({"pools=[]"}).memory.fits);
}

TEST_CASE("MFU is of all devices' peaks") {
  const Evaluation mixed = Mixed();
  CHECK(MeanPeakFlops(mixed.scenario) == doctest::Approx((312e12 + 989.4e12) / 2).epsilon(0.01));
}

TEST_CASE("pools that make no sense are refused at their place") {
  const auto thrown = [](const std::string& pools) {
    return ThrownBy([&] { Mixed({"pools=" + pools}); });
  };
  CHECK(thrown(R"([{"nodes": [4], "profile": "h100"}])").code == 356);
  CHECK(thrown(R"([{"nodes": [], "profile": "h100"}])").code == 356);
  const Diagnostic twice =
      thrown(R"([{"nodes": [1], "profile": "h100"}, {"nodes": [1], "profile": "a100"}])");
  CHECK(twice.code == 356);
  CHECK(twice.where.pointer == "/pools/1/nodes");
  CHECK(thrown(R"([{"nodes": [1], "profile": "h1000"}])").code == 230);
  CHECK(ThrownBy([&] { Mixed({"workload.task=generate", "workload.new_tokens=4"}); }).code == 357);
}

}  // namespace
}  // namespace aurum
