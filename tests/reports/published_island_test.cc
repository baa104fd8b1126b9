#include "reports/published_island.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "reports/html.h"
#include "reports/text.h"

namespace aurum {
namespace {

MetricRow Row(const std::string& id, const char* metric, double predicted, double measured) {
  MetricRow row;
  row.id = id;
  row.metric = metric;
  row.source = "one";
  row.cluster = id;
  row.what = "a model";
  row.predicted = predicted;
  row.measured = measured;
  row.band_low = predicted * 0.9;
  row.band_high = predicted * 1.1;
  return row;
}

TimeBreakdown Breakdown() {
  TimeBreakdown time;
  time.compute_s = 6;
  time.slowed_s = 0.5;
  time.exposed_comm_s = 2.5;
  time.tp_s = 1.5;
  time.dp_gather_s = 0.7;  // 0.3 of the exposed communication has no kind
  time.bubble_s = 1;
  time.data_wait_s = 0.48;
  time.optimizer_s = 0.02;
  return time;
}

PublishedReport Report() {
  PublishedReport report;
  MetricRow step = Row("step", kIterationMetric, 10, 13);
  step.time = Breakdown();
  step.model_flops = 1e15;
  step.low = 10;
  step.high = 12;
  step.assumed = {"recompute not told: none"};
  MetricRow memory = Row("memory", kMemoryMetric, 40, 41);
  MetricRow skipped = Row("skipped", kIterationMetric, 0, 0);
  skipped.skipped = "sharding not told";
  skipped.source = "two";
  report.rows = {memory, step, skipped};
  report.records = 3;
  report.compared = 2;
  report.fits = {{"step", "one", true, true, false, 10, 80},
                 {"memory", "one", false, true, true, 79, 80}};
  return report;
}

const PublishedOrigin kPublishedOrigin{
    {"test", "aurum validate", "2026-01-01T00:00:00Z"}, "records.json", "abc", "def", "analytic"};

TEST_CASE("the terms of a step in words: by kind, largest first, small ones left out") {
  CHECK(
      TermsText(Breakdown()) ==
      "compute 6.00 s (60 %), tensor-parallel exchange 1.50 s (15 %), pipeline bubbles 1.00 s (10 "
      "%), parameter gathers 700 ms (7 %), host and data 480 ms (5 %), other communication 300 ms "
      "(3 %)");
  CHECK(TermsText(TimeBreakdown()).empty());
}

TEST_CASE(
    "the row furthest off comes first, its terms sum to its prediction, its gap is measured by "
    "them") {
  const Json island = PublishedIsland(Report(), kPublishedOrigin);
  const Json& validation = ObjectOf(island, "validation");
  const std::vector<Json>& worst = ArrayOf(validation, "worst").items();
  REQUIRE(worst.size() == 2);
  CHECK(TextOf(worst[0], "id") == "step");
  double sum = 0;
  for (const Json& term : ArrayOf(worst[0], "terms").items()) sum += *NumberOf(term, "s");
  CHECK(sum == doctest::Approx(10).epsilon(1e-12));
  const std::string text = TextOf(worst[0], "explanation");
  CHECK(text.find("hidden communication slows the compute by 500 ms") != std::string::npos);
  CHECK(text.find("100 model TFLOP/s per GPU predicted, 76.9 measured") != std::string::npos);
  CHECK(text.find("The measured step is 3.00 s longer: 50 % of the compute predicted.") !=
        std::string::npos);
  CHECK(TextOf(worst[0], "bounds") ==
        "What is not told moves the prediction from 10.0 s to 12.0 s: the measurement lies above. "
        "The 90 "
        "% interval reaches from 9.00 s to 11.0 s: it lies above.");
  CHECK(worst[1].Find("terms") == nullptr);
  CHECK(TextOf(worst[1], "explanation") == "1.00 GiB more than predicted were measured.");
  CHECK(TextOf(worst[1], "bounds") ==
        "The 90 % interval reaches from 36.0 GiB to 44.0 GiB: the measurement lies inside.");
}

TEST_CASE("scores are those of the report, and rows that are not compared keep their reason") {
  const PublishedReport report = Report();
  const Json island = PublishedIsland(report, kPublishedOrigin);
  const Json& validation = ObjectOf(island, "validation");
  const Json& step = ObjectOf(ObjectOf(validation, "metrics"), kIterationMetric);
  CHECK(*NumberOf(step, "mape") == doctest::Approx(3.0 / 13).epsilon(1e-4));
  CHECK(*NumberOf(step, "n") == 1);
  CHECK(*NumberOf(step, "skipped") == 1);
  const std::vector<Json>& sources = ArrayOf(validation, "by_source").items();
  REQUIRE(sources.size() == 3);  // one and two of the step time, one of the memory
  CHECK(TextOf(sources[1], "source") == "two");
  CHECK(ObjectOf(sources[1], "score").Find("mape")->IsNull());
  const std::vector<Json>& skipped = ArrayOf(validation, "skipped").items();
  REQUIRE(skipped.size() == 1);
  CHECK(TextOf(skipped[0], "reason") == "sharding not told");
  CHECK(ArrayOf(skipped[0], "ids").items().at(0).AsString() == "skipped");
  const std::vector<Json>& fits = ArrayOf(validation, "fits").items();
  CHECK(*NumberOf(fits.at(0), "predicted_at_risk") == 1);
  CHECK(*NumberOf(fits.at(1), "predicted_fits") == 1);
  CHECK(TextOf(island, "answer")
            .find("Step time: off by 23.1 % in the mean over 1 row of 1 source") == 0);
}

TEST_CASE("equal reports give equal islands, and other inputs another run") {
  CHECK(PublishedIsland(Report(), kPublishedOrigin).Dump() ==
        PublishedIsland(Report(), kPublishedOrigin).Dump());
  PublishedOrigin other = kPublishedOrigin;
  other.records_hash = "abd";
  CHECK(TextOf(PublishedIsland(Report(), kPublishedOrigin), "run_id") !=
        TextOf(PublishedIsland(Report(), other), "run_id"));
}

TEST_CASE("a report of nothing is a page that says so") {
  const Json island = PublishedIsland(PublishedReport(), kPublishedOrigin);
  CHECK(TextOf(island, "answer").find("No row of this file could be compared") == 0);
  CHECK(ArrayOf(ObjectOf(island, "validation"), "rows").items().empty());
  CHECK(HtmlReport(island).find("No row of this file") != std::string::npos);
}

}  // namespace
}  // namespace aurum
