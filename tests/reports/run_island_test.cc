#include "reports/run_island.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "reports/html.h"
#include "reports/text.h"
#include "tests/real/runs.h"

namespace aurum {
namespace {

const RunOrigin kRunOrigin{
    {"test", "aurum validate", "2026-01-01T00:00:00Z"}, "run.json", "abc", "analytic", 0.05};

Json IslandOf(const std::string& name, double factor) {
  const JsonDocument document = Loop(name);
  const Executable plan = Predict(document);
  const RunRecord record = Run(document, plan, Slower(plan, [&](const OpInfo&) { return factor; }));
  return RunIsland(record, CompareRun(record, plan, document.root, 1000), plan, kRunOrigin);
}

TEST_CASE("the answer says yes or no, both figures and why") {
  const std::string good = TextOf(IslandOf("tp", 1.02), "answer");
  CHECK(good.find("Yes: ") == 0);
  CHECK(good.find("within the tolerance of 5 %.") != std::string::npos);
  const std::string bad = TextOf(IslandOf("tp", 1.5), "answer");
  CHECK(bad.find("No: ") == 0);
  CHECK(bad.find("33.3 %, outside the tolerance of 5 %.") != std::string::npos);
  CHECK(bad.find("took 1.50 × the predicted time") != std::string::npos);
  CHECK(TextOf(ObjectOf(IslandOf("tp", 1), "findings"), "difference") ==
        "There is no difference to explain.");
}

TEST_CASE("a long step is drawn in few events, which lose no time") {
  const JsonDocument document = Loop("pp");
  const Executable plan = Predict(document);
  const RunRecord record = Run(document, plan, Slower(plan, [](const OpInfo&) { return 1.25; }));
  const RunComparison comparison = CompareRun(record, plan, document.root, 0);
  const Json island = RunIsland(record, comparison, plan, kRunOrigin);
  const Json& timelines = ObjectOf(ObjectOf(island, "run"), "timelines");
  CHECK(BoolOf(timelines, "joined"));
  const std::vector<Json>& events = ArrayOf(timelines, "events").items();
  CHECK(events.size() <= 4000);
  REQUIRE(ArrayOf(timelines, "ranks").items().size() == 8);
  double drawn_predicted = 0, drawn_measured = 0, predicted = 0, measured = 0;
  std::int64_t ops = 0, all = 0;
  for (const Json& event : events) {
    const std::vector<Json>& e = event.items();
    REQUIRE(e.size() == 13);
    CHECK(e[5].AsNumber() <= e[6].AsNumber());
    CHECK(e[7].AsNumber() <= e[8].AsNumber());
    drawn_predicted += e[9].AsNumber();
    drawn_measured += e[10].AsNumber();
    ops += e[11].AsInteger();
  }
  for (const ComparedOp& op : comparison.ops) {
    const double p = op.predicted_end_s - op.predicted_start_s;
    const double m = op.measured_end_s - op.measured_start_s;
    predicted += p;
    measured += m;
    all += p > 0 || m > 0 ? 1 : 0;
  }
  CHECK(drawn_predicted == doctest::Approx(predicted).epsilon(1e-5));
  CHECK(drawn_measured == doctest::Approx(measured).epsilon(1e-5));
  CHECK(ops == all);
}

TEST_CASE("a page of a run is a function of its record") {
  CHECK(HtmlReport(IslandOf("dp", 1.1)) == HtmlReport(IslandOf("dp", 1.1)));
}

}  // namespace
}  // namespace aurum
