#include "sim/plan/goodput.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/shared.h"

namespace aurum {
namespace {

GoodputSpec Read(const std::string& text) {
  const JsonDocument document = ParseJson(text, "goodput.json");
  return ReadGoodput(ObjectReader(document, document.root, ""));
}

// 1,024 GPUs that fail every 2 hours together.
GoodputSpec Fleet() {
  GoodputSpec spec;
  spec.mtbf_s = 1024 * 7200.0;
  spec.checkpoint_s = 30;
  spec.restart_s = 240;
  spec.detection_s = 120;
  spec.days = 10;
  return spec;
}

TEST_CASE("the closed form is Daly's where failures are noticed at once") {
  GoodputSpec spec = Fleet();
  spec.detection_s = 0;
  spec.interval_s = 900;
  const double m = 7200;
  const Goodput got = ExpectedGoodput(spec, 1024, 128);
  CHECK(got.failures_per_s == doctest::Approx(1 / m).epsilon(1e-12));
  const double segment = m * std::exp(240 / m) * (std::exp(930 / m) - 1);
  CHECK(got.fraction == doctest::Approx(900 / segment).epsilon(1e-12));
  CHECK(got.expected_s == doctest::Approx(10 * 86400.0 / got.fraction).epsilon(1e-12));
  // Per node: 128 nodes of 8 times the rate are the same fleet.
  spec.mtbf_of_node = true;
  spec.mtbf_s /= 8;
  CHECK(ExpectedGoodput(spec, 1024, 128).fraction == doctest::Approx(got.fraction).epsilon(1e-12));
}

TEST_CASE("limits: no failures leave the checkpoints, free recovery the lost work") {
  GoodputSpec spec = Fleet();
  spec.interval_s = 970;
  spec.mtbf_s = 1e15;
  Goodput got = ExpectedGoodput(spec, 1024, 128);
  CHECK(got.fraction == doctest::Approx(0.97).epsilon(1e-6));
  CHECK(got.checkpoint_share == doctest::Approx(0.03).epsilon(1e-6));
  CHECK(got.interruptions < 1e-3);
  spec = Fleet();
  spec.checkpoint_s = spec.restart_s = spec.detection_s = 0;
  spec.interval_s = 720;
  got = ExpectedGoodput(spec, 1024, 128);
  CHECK(got.fraction == doctest::Approx(0.1 / std::expm1(0.1)).epsilon(1e-12));
  CHECK(got.lost_work_share == doctest::Approx(1 - got.fraction).epsilon(1e-12));
}

TEST_CASE("the shares sum to 1, and the interruptions are λ times the time that can be hit") {
  for (const double interval : {60.0, 600.0, 6000.0, 60000.0}) {
    GoodputSpec spec = Fleet();
    spec.interval_s = interval;
    spec.days = interval * 100 / 86400;
    const Goodput got = ExpectedGoodput(spec, 1024, 128);
    CAPTURE(interval);
    const double all = got.fraction + got.checkpoint_share + got.lost_work_share +
                       got.detection_share + got.restart_share;
    CHECK(all == doctest::Approx(1).epsilon(1e-12));
    CHECK(got.lost_work_share > 0);
    CHECK(got.interruptions ==
          doctest::Approx(got.failures_per_s * got.expected_s * (1 - got.detection_share))
              .epsilon(1e-9));
  }
}

TEST_CASE("the best interval is best, and Young's and Daly's are near where they should be") {
  for (const double share : {1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1.0}) {  // C / M
    CAPTURE(share);
    const double m = 36000;
    const double c = share * m;
    const double best = BestInterval(1 / m, c);
    const auto goodput = [&](double tau) { return tau / std::expm1((tau + c) / m); };
    CHECK(goodput(best) >= goodput(best * 1.001));
    CHECK(goodput(best) >= goodput(best * 0.999));
    // The equation that it solves.
    CHECK((1 - best / m) * std::exp(best / m) == doctest::Approx(std::exp(-share)).epsilon(1e-9));
    // Young overshoots by √(2C/M)/3 at first order; Daly's next terms leave the third.
    const double young = YoungInterval(1 / m, c) / best - 1;
    const double daly = DalyInterval(1 / m, c) / best - 1;
    const double x = std::sqrt(2 * share);
    CHECK(std::abs(young - x / 3) < 0.12 * x * x + 1e-9);
    CHECK(std::abs(daly) < 0.01 * x * x * x + 1e-9);
    CHECK(goodput(DalyInterval(1 / m, c)) > goodput(best) * (1 - 1e-3));
  }
  CHECK(YoungInterval(1.0 / 36000, 50) == doctest::Approx(std::sqrt(2 * 50 * 36000.0)));
  CHECK(DalyInterval(1.0, 2.0) == 1.0);  // C ≥ 2M: an interval of M
  // Neither restart nor detection moves it.
  GoodputSpec spec = Fleet();
  const double before = ExpectedGoodput(spec, 1024, 128).interval_s;
  spec.restart_s = 3600;
  spec.detection_s = 600;
  CHECK(ExpectedGoodput(spec, 1024, 128).interval_s == before);
}

TEST_CASE("a seeded Monte Carlo agrees within its confidence interval") {
  struct Row {
    double interval, restart, detection, checkpoint;
    int gpus;
  };
  for (const Row& row : {Row{900, 240, 120, 30, 1024}, Row{5000, 1800, 600, 300, 1024},
                         Row{300, 0, 0, 10, 4096}, Row{20000, 3600, 0, 60, 2048}}) {
    GoodputSpec spec = Fleet();
    spec.interval_s = row.interval;
    spec.restart_s = row.restart;
    spec.detection_s = row.detection;
    spec.checkpoint_s = row.checkpoint;
    CAPTURE(row.interval);
    const Goodput expected = ExpectedGoodput(spec, row.gpus, row.gpus / 8);
    const GoodputSamples drawn = SampleGoodput(spec, row.gpus, row.gpus / 8, 1, 4000);
    CHECK(drawn.standard_error_s < 0.01 * expected.expected_s);
    CHECK(std::abs(drawn.mean_s - expected.expected_s) < 4 * drawn.standard_error_s);
    CHECK(drawn.p50_s < drawn.p99_s);
    CHECK(drawn.wall_s.front() >= spec.days * 86400);
    // The same draws again, and the first of them whatever comes after.
    CHECK(SampleGoodput(spec, row.gpus, row.gpus / 8, 1, 4000).wall_s == drawn.wall_s);
    CHECK(SampleGoodput(spec, row.gpus, row.gpus / 8, 2, 4000).mean_s != drawn.mean_s);
  }
}

TEST_CASE("percentiles of a run without failures are its length") {
  GoodputSpec spec = Fleet();
  spec.mtbf_s = 1e18;
  spec.interval_s = 3600;
  const GoodputSamples drawn = SampleGoodput(spec, 1, 1, 0, 100);
  const double wall = 240 * 3630.0;  // ten days are 240 intervals
  CHECK(drawn.p50_s == doctest::Approx(wall).epsilon(1e-12));
  CHECK(drawn.p99_s == doctest::Approx(wall).epsilon(1e-12));
  spec.days = 1.5 / 24;  // one interval and a half
  CHECK(SampleGoodput(spec, 1, 1, 0, 2).p50_s == doctest::Approx(3630 + 1830));
  CHECK(ExpectedGoodput(spec, 1, 1).expected_s == doctest::Approx(3630 + 1830));
}

TEST_CASE("Llama 3 405B: what 466 interruptions in 54 days and 90 % allow") {
  // "The Llama 3 Herd of Models" (2024), section 3.3.4: 16,384 H100, a 54-day period, 466 job
  // interruptions, effective training time above 90 %. The paper gives no checkpoint cost and no
  // restart time, so this tests that its three figures are consistent, and what they imply.
  const double hours = 16384.0 * 54 * 24 / 466;
  CHECK(hours == doctest::Approx(45565).epsilon(1e-3));
  GoodputSpec spec;
  spec.mtbf_s = hours * 3600;
  spec.checkpoint_s = 10;  // assumed, as are the next two
  spec.detection_s = 60;
  spec.restart_s = 240;
  spec.days = 50;
  const Goodput got = ExpectedGoodput(spec, 16384, 2048);
  CHECK(1 / got.failures_per_s == doctest::Approx(2.781 * 3600).epsilon(1e-3));
  CHECK(got.fraction > 0.9);
  CHECK(got.fraction < 0.95);
  // Even with free checkpoints, 90 % leave at most a ninth of the 2.8 h: 18.5 minutes a failure.
  spec.interval_s = 1;
  spec.checkpoint_s = 0;
  spec.detection_s = 0;
  spec.restart_s = 60 * 17;
  CHECK(ExpectedGoodput(spec, 16384, 2048).fraction > 0.9);
  spec.restart_s = 60 * 18.5;
  CHECK(ExpectedGoodput(spec, 16384, 2048).fraction < 0.9);
  // And with whole hours between checkpoints the target is out of reach.
  spec.restart_s = 300;
  spec.interval_s = 3600;
  CHECK(ExpectedGoodput(spec, 16384, 2048).fraction < 0.9);
}

TEST_CASE("the input, and what is wrong with it") {
  const std::string good =
      R"({"mtbf_gpu_hours": 50000, "checkpoint_s": 30, "restart_s": 240, "detection_s": 60, "days": 30})";
  const GoodputSpec spec = Read(good);
  CHECK(spec.mtbf_s == 50000 * 3600.0);
  CHECK(!spec.mtbf_of_node);
  CHECK(!spec.interval_s);
  CHECK(spec.checkpoint_s == 30);
  CHECK(spec.restart_s == 240);
  CHECK(spec.detection_s == 60);
  CHECK(spec.days == 30);
  const auto with = [&](const std::string& change) {
    JsonDocument document = ParseJson(good, "goodput.json");
    ApplyOverride(&document, change);
    return ReadGoodput(ObjectReader(document, document.root, ""));
  };
  CHECK(with("checkpoint_interval_s=1800").interval_s == 1800.0);
  struct Row {
    const char* change;
    int code;
  };
  for (const Row& row :
       {Row{"mtbf_node_hours=1000", 760}, Row{"mtbf_gpu_hours=null", 760},
        Row{"mtbf_gpu_hours=0", 107}, Row{"checkpoint_s=0", 761}, Row{"checkpoint_s=-1", 107},
        Row{"checkpoint_interval_s=0", 107}, Row{"restart_s=null", 102}, Row{"days=0", 107},
        Row{"day=1", 101}, Row{"detection_s=soon", 103}}) {
    CAPTURE(row.change);
    const Diagnostic d = ThrownBy([&] { with(row.change); });
    CHECK(d.code == row.code);
    CHECK(d.where.line == 1);
  }
  GoodputSpec never = Fleet();
  never.interval_s = 1e6;
  const Diagnostic d = ThrownBy([&] { ExpectedGoodput(never, 1024, 128); });
  CHECK(d.code == 762);
  CHECK(!d.help.empty());
  CHECK(ThrownBy([&] { SampleGoodput(never, 1024, 128, 0, 2); }).code == 762);
}

}  // namespace
}  // namespace aurum
