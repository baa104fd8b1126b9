#include "real/run_record.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "real/op_names.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// Every field away from its default, doubles without a short decimal form.
RunRecord Full() {
  RunRecord r;
  r.tool_version = "0.1 \"quoted\" \xe2\x80\xa8 </script>";
  r.command_line = "aurum execute plan.json --set 'a=b'";
  r.date = "2026-01-02T03:04:05Z";
  r.backend = "cpu";
  r.scenario_name = "two ranks";
  r.scenario =
      ParseJson(R"({"name": "x", "plan": {"pp": 2, "share": 0.1}, "list": [1, null]})", "s").root;
  r.shape = "0123456789abcdef";
  r.seed = 42;
  r.clock = "thread CPU time";
  r.versions = {{"Open MPI", "4.1.4"}, {"OpenBLAS", "0.3.21"}, {"Open MPI", "again"}};
  r.ranks = {{0, "host", "one core of A", 1.0 / 3 * 1e9, 2400, 2399.9, 0.0125},
             {3, "host", "one core of B", 0, 0, 0, 0}};
  r.warm_up = 2;
  r.steps_s = {0.1 + 0.2, 1.0 / 3, 0.30000000000000016};
  r.clean_steps_s = {0.1 + 0.2};
  r.wall_steps_s = {0.5, 0.6, 2.0 / 3};
  r.step_time_s = 0.1 + 0.2;
  r.variation = 1.0 / 30;
  r.checks = {{"sums", true, "all"}, {"replicas", false, "rank 3 differs"}};
  r.warnings = {"one", "two"};
  const double third = 1.0 / 3;
  r.ops = {{0, 0, RankOpKind::kCompute, Lane::kMain, false, OpKind::kForward, 1, 0, 0, third, 0.1},
           {0, 7, RankOpKind::kSend, Lane::kPpForward, false, OpKind::kPipelineTransfer, -1, 0,
            third, 1e-7 * third, 0},
           // As medians of several steps may: it begins before the first has ended.
           {0, 1, RankOpKind::kCompute, Lane::kMain, false, OpKind::kBackward, 1, 0, third * 0.999,
            0.7, 0.2},
           {3, 7, RankOpKind::kReceive, Lane::kPpForward, true, OpKind::kPipelineTransfer, -1, 0,
            third, std::nextafter(third, 1), 5e-324},
           {3, 4294967294U, RankOpKind::kDelay, Lane::kHostIn, false, OpKind::kWeightGradient,
            32767, 2147483647, 12345.678901234567, 1e-12, third}};
  return r;
}

RunRecord Again(const RunRecord& record) {
  return ReadRunRecord(ParseJson(RunRecordText(record), "run.json"));
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, "not there: ", from);
  return text.replace(at, from.size(), to);
}

Diagnostic Refused(const std::string& text) {
  return ThrownBy([&] { ReadRunRecord(ParseJson(text, "run.json")); });
}

TEST_CASE("run record: everything comes back as it was") {
  const RunRecord a = Full(), b = Again(a);
  CHECK(a.tool_version == b.tool_version);
  CHECK(a.command_line == b.command_line);
  CHECK(a.date == b.date);
  CHECK(a.backend == b.backend);
  CHECK(a.scenario_name == b.scenario_name);
  CHECK(a.scenario.Dump() == b.scenario.Dump());
  CHECK(a.shape == b.shape);
  CHECK(a.seed == b.seed);
  CHECK(a.lone_rank == b.lone_rank);
  CHECK(a.clock == b.clock);
  CHECK(a.versions == b.versions);
  CHECK(a.warm_up == b.warm_up);
  CHECK(a.steps_s == b.steps_s);
  CHECK(a.clean_steps_s == b.clean_steps_s);
  CHECK(a.wall_steps_s == b.wall_steps_s);
  CHECK(a.step_time_s == b.step_time_s);
  CHECK(a.variation == b.variation);
  CHECK(a.warnings == b.warnings);
  REQUIRE(b.ranks.size() == 2);
  CHECK(b.ranks[0].peak_memory_bytes == a.ranks[0].peak_memory_bytes);
  CHECK(b.ranks[0].clock_after_mhz == a.ranks[0].clock_after_mhz);
  CHECK(b.ranks[0].throttled_share == a.ranks[0].throttled_share);
  CHECK(b.ranks[1].rank == 3);
  CHECK(b.ranks[1].device == "one core of B");
  REQUIRE(b.checks.size() == 2);
  CHECK(b.checks[1].name == "replicas");
  CHECK_FALSE(b.checks[1].passed);
  CHECK(b.checks[1].detail == "rank 3 differs");
  REQUIRE(b.ops.size() == a.ops.size());
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    const TimedOp &x = a.ops[i], &y = b.ops[i];
    CAPTURE(i);
    CHECK(x.rank == y.rank);
    CHECK(x.op == y.op);
    CHECK(x.kind == y.kind);
    CHECK(x.lane == y.lane);
    CHECK(x.receives == y.receives);
    CHECK(x.what == y.what);
    CHECK(x.module == y.module);
    CHECK(x.micro_batch == y.micro_batch);
    CHECK(x.start_s == y.start_s);  // to the last bit
    CHECK(x.duration_s == y.duration_s);
    CHECK(x.modelled_s == y.modelled_s);
  }
  CHECK(RunRecordText(a) == RunRecordText(b));
}

TEST_CASE("run record: seeds beyond what JSON readers keep whole, clocks apart, and a rank alone") {
  RunRecord r = Full();
  for (const std::uint64_t seed :
       {std::uint64_t{0}, (std::uint64_t{1} << 53U), (std::uint64_t{1} << 53U) + 1,
        std::numeric_limits<std::uint64_t>::max()}) {
    r.seed = seed;
    CHECK(Again(r).seed == seed);
  }
  r.ops.back().start_s = -1e-6 / 3;  // ahead of rank 0's clock
  CHECK(Again(r).ops.back().start_s == r.ops.back().start_s);
  r.ranks.erase(r.ranks.begin());
  r.ops.erase(r.ops.begin(), r.ops.begin() + 3);
  r.lone_rank = 3;
  CHECK(Again(r).lone_rank == 3);
}

TEST_CASE("run record: a trace whose keys come first, with names, and slices that nest") {
  const std::string text = RunRecordText(Full());
  // Perfetto stops at the first key that is no trace's.
  CHECK(text.rfind("{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [", 0) == 0);
  const Json root = ParseJson(text, "run.json").root;
  CHECK(root.members()[2].first == "schema");
  std::map<std::int64_t, std::string> processes;
  std::set<std::pair<std::int64_t, std::int64_t>> threads;
  std::map<std::pair<std::int64_t, std::int64_t>, double> free_from;
  std::size_t slices = 0;
  for (const Json& event : root.Find("traceEvents")->items()) {
    const std::int64_t pid = event.Find("pid")->AsInteger(), tid = event.Find("tid")->AsInteger();
    const std::string name = event.Find("name")->AsString();
    if (event.Find("ph")->AsString() == "M") {
      if (name == "process_name") processes[pid] = event.Find("args")->Find("name")->AsString();
      if (name == "thread_name") threads.insert({pid, tid});
      continue;
    }
    REQUIRE(event.Find("ph")->AsString() == "X");
    ++slices;
    CHECK(processes.contains(pid));
    CHECK(threads.contains({pid, tid}));
    CHECK(tid > 0);
    const double ts = event.Find("ts")->AsNumber(), dur = event.Find("dur")->AsNumber();
    CHECK(ts >= free_from[{pid, tid}] - 1e-6);  // no overlap on a thread
    free_from[{pid, tid}] = ts + dur;
    for (const char* key : {"op", "micro_batch", "module", "modelled_s"})
      CHECK(event.Find("args")->Find(key) != nullptr);
  }
  CHECK(slices == 5);
  CHECK(processes[3] == "rank 3, one core of B");
  CHECK(root.Find("traceEvents")->items().back().Find("name")->AsString() ==
        "weight_gradient 2147483647");
}

TEST_CASE("run record: what is missing, odd or contradicts itself has its place and a remedy") {
  const std::string good = RunRecordText(Full());
  struct Case {
    const char *from, *to, *pointer, *says;
  };
  const Case cases[] = {
      {"\"aurum.run/1\"", "\"aurum.result/1\"", "/schema", "run record"},
      {"\"shape\": ", "\"shap\": ", "", "shape"},
      {"\"warm_up\": 2", "\"warm_up\": 2.5", "/warm_up", ""},
      {"\"warm_up\": 2", "\"warm_up\": -1", "/warm_up", "-1"},
      {"\"backend\": \"cpu\"", "\"backend\": \"gpu\"", "/backend", "gpu"},
      {"\"seed\": 42", "\"seed\": -42", "/seed", "whole number"},
      {"\"seed\": 42", "\"seed\": \"99999999999999999999\"", "/seed", "whole number"},
      {"[\"OpenBLAS\",\"0.3.21\"]", "[\"OpenBLAS\"]", "/versions", "pairs"},
      {"\"rank\":3", "\"rank\":0", "/ranks/1/rank", "twice"},
      {"\"throttled_share\":0.0125", "\"throttled_share\":1.25", "/ranks/0/throttled_share", ""},
      {"\"step_time_s\": 0.30000000000000004", "\"step_time_s\": 0", "/step_time_s", ""},
      {"\"step_time_s\": 0.30000000000000004", "\"step_time_s\": null", "", "step_time_s"},
      {"\"passed\":false", "\"passed\":\"no\"", "/checks/1/passed", ""},
      {"\"kind\":\"send\"", "\"kind\":\"sent\"", "/traceEvents/13/args/kind", "sent"},
      {"\"lane\":\"host_in\"", "\"lane\":\"host\"", "/traceEvents/16/tid", "tid"},
      {"\"start_s\":12345.678901234567", "\"start_s\":12345.7", "/traceEvents/16/ts", "start_s"},
      {"\"duration_s\":0.7", "\"duration_s\":0.07", "/traceEvents/14/dur", "duration_s"},
      {"\"duration_s\":0.7", "\"duration_ms\":0.7", "/traceEvents/14/args", "duration_s"},
      {"\"ph\":\"X\"", "\"ph\":\"B\"", "/traceEvents/12/ph", "B"},
      {"\"modelled_s\":0.1}", "\"modelled_s\":0.1,\"extra\":1}", "/traceEvents/12/args/extra",
       "extra"},
      {"\"lone_rank\": -1", "\"lone_rank\": 3", "/lone_rank", "alone"},
      {"\"scenario\": {", "\"extra\": 1, \"scenario\": {", "/extra", "extra"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.to);
    const Diagnostic d = Refused(Replaced(good, c.from, c.to));
    CHECK(d.code == 901);
    CHECK(d.where.file == "run.json");
    CHECK(d.where.line > 0);
    CHECK(d.where.pointer == c.pointer);
    CHECK(d.message.find(c.says) != std::string::npos);
  }
  CHECK(Refused("[]").code == 901);
  CHECK(Refused("{}").code == 901);
  CHECK(Refused("{").code == 100);  // no JSON at all
}

TEST_CASE("run record: ops of ranks that are not told, or out of order") {
  RunRecord r = Full();
  r.ops.back().rank = 2;
  CHECK(Refused(RunRecordText(r)).message.find("no rank 2") != std::string::npos);
  r = Full();
  std::swap(r.ops.front(), r.ops.back());
  CHECK(Refused(RunRecordText(r)).code == 901);
  r = Full();
  r.steps_s.clear();
  CHECK(Refused(RunRecordText(r)).where.pointer == "/steps_s");
}

TEST_CASE("names: every lane and kind has one of its own") {
  for (const auto* names : {&LaneNames(), &OpKindNames(), &RankOpKindNames()})
    CHECK(std::set<std::string>(names->begin(), names->end()).size() == names->size());
  CHECK(LaneName(Lane::kHostIn) == "host_in");
  CHECK(LaneName(Lane::kDp) == "dp");
  CHECK(OpKindName(OpKind::kHostTransfer) == "host_transfer");
  CHECK(RankOpKindName(RankOpKind::kDelay) == "delay");
}

}  // namespace
}  // namespace aurum
