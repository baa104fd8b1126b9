#include "sim/study/loader_stall.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <string>
#include <vector>

#include "sim/study/data_report.h"
#include "sim/study/evaluate.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

TEST_CASE("even times: nothing in advance adds up, one batch in advance takes the longer") {
  CHECK(EvenStall(3, 2, 0) == 3);
  CHECK(EvenStall(3, 2, 1) == 1);
  CHECK(EvenStall(3, 2, 50) == 1);
  CHECK(EvenStall(1, 2, 1) == 0);
}

TEST_CASE("the queue's limits are the closed forms") {
  for (const int prefetch : {0, 1, 2, 7}) {
    for (const double load : {0.5, 1.0, 1.7}) {
      for (const int nodes : {1, 3}) {
        CAPTURE(prefetch);
        CAPTURE(load);
        CHECK(QueuedStall(load, 0, 1, prefetch, nodes, 5, 400) ==
              doctest::Approx(EvenStall(load, 1, prefetch)).epsilon(1e-9));
      }
    }
  }
  // Nothing in advance: the step waits for every load, whatever their spread: its mean.
  CHECK(QueuedStall(0.8, 0.5, 1, 0, 1, 5, 20'000) == doctest::Approx(0.8).epsilon(0.02));
}

TEST_CASE("spread costs, more so with few slots, near saturation, and with more nodes") {
  const auto stall = [](double load, double cv, int prefetch, int nodes) {
    return QueuedStall(load, cv, 1, prefetch, nodes, 5, 20'000);
  };
  CHECK(stall(0.9, 0.5, 1, 1) > 0.1);
  CHECK(stall(0.9, 0.5, 1, 1) > stall(0.9, 0.2, 1, 1));
  double before = stall(0.9, 0.5, 1, 1);
  for (const int prefetch : {2, 4}) {
    const double now = stall(0.9, 0.5, prefetch, 1);
    CAPTURE(prefetch);
    CHECK(now < before);
    before = now;
  }
  CHECK(stall(0.5, 0.5, 2, 1) < stall(0.9, 0.5, 2, 1));
  CHECK(stall(0.9, 0.5, 2, 8) > stall(0.9, 0.5, 2, 1));
  CHECK(stall(0.9, 0.5, 2, 8) == stall(0.9, 0.5, 2, 8));  // drawn by numbers, not by state
  // The essay's example; of one slot see below.
  CHECK(stall(0.9, 0.5, 2, 1) == doctest::Approx(0.036).epsilon(0.15));
  CHECK(stall(0.9, 0.5, 4, 1) == doctest::Approx(0.0057).epsilon(0.4));
  CHECK(stall(0.9, 0.5, 32, 1) < 0.001);
}

// One slot, loads of mean L and steps of 1 with no spread of steps: the mean cycle is E[max(1, load)],
// as the loader begins when the step does. For a log-normal of median m and σ that is
// Φ(ln(1/m)/σ) + L·(1 − Φ(ln(1/m)/σ − σ)).
TEST_CASE("one slot is the mean of the longer of step and load") {
  const double load = 0.9, cv = 0.5;
  const double sigma = std::sqrt(std::log1p(cv * cv));
  const double d = (-std::log(load) + sigma * sigma / 2) / sigma;
  const auto phi = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const double mean = phi(d) + load * (1 - phi(d - sigma));
  CHECK(QueuedStall(load, cv, 1, 1, 1, 3, 200'000) == doctest::Approx(mean - 1).epsilon(0.03));
}

// 1080p photographs as JPEG, one A100 node.
const std::vector<std::string> kLoader = {
    R"(workload.loader={"read_gb_per_s": 8, "bytes_per_pixel": 0.3, "decode_ms_per_megapixel": 9,
       "workers": 4, "prefetch": 2, "copies": 1, "copy_gb_per_s": 10})",
    R"(workload.images=[{"width": 1920, "height": 1080}])"};
Evaluation With(std::vector<std::string> more) {
  std::vector<std::string> all = kLoader;
  all.insert(all.end(), more.begin(), more.end());
  return EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", all));
}

TEST_CASE("a loader that keeps up costs nothing, one that does not is waited for") {
  const Evaluation fast = With({});
  REQUIRE(fast.loader);
  CHECK(fast.loader->load_s < fast.loader->step_s);
  CHECK(fast.loader->stall_s == 0);
  const Evaluation without =
      EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", {kLoader[1]}));
  CHECK(!without.loader);
  CHECK(fast.outcome.signature == without.outcome.signature);
  CHECK(fast.StepSeconds() == without.StepSeconds());

  const Evaluation slow = With({"workload.loader.decode_ms_per_megapixel=5000"});
  REQUIRE(slow.loader->stall_s > 0);
  CHECK(slow.loader->stall_s ==
        doctest::Approx(slow.loader->load_s - fast.StepSeconds()).epsilon(1e-9));
  CHECK(slow.StepSeconds() == doctest::Approx(slow.loader->load_s).epsilon(1e-6));
  // It is an op of the program: breakdown and busy time have it.
  CHECK(slow.Time().data_wait_s ==
        doctest::Approx(fast.Time().data_wait_s + slow.loader->stall_s).epsilon(1e-9));
  CHECK(slow.Time().Sum() == doctest::Approx(slow.StepSeconds()).epsilon(1e-9));
  CHECK(slow.Time().compute_s == doctest::Approx(fast.Time().compute_s).epsilon(1e-9));

  // Half the workers decode for twice as long, and the step waits for all of that.
  const Evaluation half =
      With({"workload.loader.decode_ms_per_megapixel=5000", "workload.loader.workers=2"});
  CHECK(half.loader->batch.decode_s == doctest::Approx(2 * slow.loader->batch.decode_s));
  CHECK(half.StepSeconds() - slow.StepSeconds() ==
        doctest::Approx(slow.loader->batch.decode_s).epsilon(1e-6));
  // Nothing in advance: the load is added to the step.
  const Evaluation none = With({"workload.loader.prefetch=0"});
  CHECK(none.StepSeconds() ==
        doctest::Approx(fast.StepSeconds() + none.loader->load_s).epsilon(1e-6));
  // A copy less.
  const Evaluation two = With({"workload.loader.copies=2"});
  CHECK(two.loader->load_s - fast.loader->load_s ==
        doctest::Approx(fast.loader->batch.copy_s).epsilon(1e-9));
}

TEST_CASE("the loader's place in a pipeline, over nodes, and in results") {
  const std::vector<std::string> slow = {
      R"(workload.loader={"read_gb_per_s": 0.0001, "workers": 4})"};
  // Four bytes a token from a disk of 100 kB/s a node.
  const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100", slow));
  REQUIRE(e.loader);
  const double samples = static_cast<double>(e.scenario.workload.global_batch_size);
  const double nodes = std::min(e.scenario.cluster->nodes, e.scenario.plan.dp);
  const double tokens = static_cast<double>(e.scenario.workload.text_tokens);
  CHECK(e.loader->batch.read_s == doctest::Approx(samples / nodes * tokens * 4 / 1e5));
  for (const TimeBreakdown& time : e.outcome.time)
    CHECK(time.data_wait_s >= e.loader->stall_s * (1 - 1e-9));
  CHECK(e.StepSeconds() == doctest::Approx(e.loader->step_s + e.loader->stall_s).epsilon(1e-6));
  const Json result = ResultJson(e, {}, "test");
  REQUIRE(result.Find("loader") != nullptr);
  CHECK(result.Find("loader")->Find("stall_s")->AsNumber() == e.loader->stall_s);
  CHECK(result.Find("loader")->Find("stall_share")->AsNumber() ==
        doctest::Approx(e.loader->stall_s / e.StepSeconds()));
  bool told = false;
  for (const auto& [name, text] : DescribeData(e)) told = told || name == "loader";
  CHECK(told);
}

TEST_CASE("where samples differ, the mean step is what the loader has to keep up with") {
  const std::vector<std::string> loader = {
      R"(workload.loader={"read_gb_per_s": 8, "bytes_per_pixel": 0.3,
         "decode_ms_per_megapixel": 4000, "workers": 1, "prefetch": 2, "decode_cv": 0.3})",
      "workload.draws=3"};
  const Evaluation e = EvaluateDocument(Shipped("llava-1.6-7b-mixture-8xa100", loader));
  REQUIRE(e.loader);
  REQUIRE(e.data);
  const Evaluation without =
      EvaluateDocument(Shipped("llava-1.6-7b-mixture-8xa100", {"workload.draws=3"}));
  CHECK(e.loader->step_s == without.data->mean_s);
  CHECK(e.loader->stall_s > std::max(0.0, e.loader->load_s - e.loader->step_s));
  CHECK(e.data->mean_s == doctest::Approx(without.data->mean_s + e.loader->stall_s).epsilon(1e-6));
}

}  // namespace
}  // namespace aurum
