#include "reports/trace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/json.h"
#include "sim/plan/scenario_file.h"
#include "sim/study/run_id.h"

namespace aurum {
namespace {

Evaluation EvaluateFile(const std::string& file, Level level = Level::kAnalytic) {
  InputCache cache(".");
  return Evaluate(ReadScenario(OpenScenarioFile(file), &cache), level);
}

struct Span {
  double start = 0, end = 0;
};
using Threads = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Span>>;

Threads SpansOf(const Json& trace) {
  Threads threads;
  for (const Json& event : trace.Find("traceEvents")->items()) {
    if (event.Find("ph")->AsString() != "X") continue;
    const double ts = event.Find("ts")->AsNumber();
    threads[{event.Find("pid")->AsInteger(), event.Find("tid")->AsInteger()}].push_back(
        {ts, ts + event.Find("dur")->AsNumber()});
  }
  return threads;
}

TEST_CASE("a trace is JSON, its spans do not overlap, and kernels and waits fill the step") {
  for (const char* file :
       {"scenarios/qwen2.5-vl-72b-64xh100.json", "scenarios/llava-1.6-7b-finetune-8xa100.json",
        "scenarios/qwen2.5-vl-72b-64xh100-sick.json", "scenarios/clip-vit-l-14-4x4090.json"}) {
    CAPTURE(file);
    const Evaluation e = EvaluateFile(file);
    const std::string text = TraceText(e, "aurum 1", "aurum simulate x");
    CHECK(text == TraceText(e, "aurum 1", "aurum simulate x"));
    const Json trace = ParseJson(text, "trace").root;
    Threads threads = SpansOf(trace);
    std::map<std::int64_t, double> filled;
    constexpr double kPicosecond = 1e-6;  // in microseconds, plus what a double rounds
    const double slack = kPicosecond + 1e-9 * e.StepSeconds() * 1e6;
    for (auto& [thread, spans] : threads) {
      std::sort(spans.begin(), spans.end(),
                [](const Span& a, const Span& b) { return a.start < b.start; });
      for (std::size_t i = 1; i < spans.size(); ++i)
        CHECK(spans[i].start >= spans[i - 1].end - slack);
      CHECK(spans.back().end <= e.StepSeconds() * 1e6 + slack);
      for (const Span& span : spans) {
        if (thread.second <= 2) filled[thread.first] += span.end - span.start;
      }
    }
    const Json* left = trace.Find("metadata")->Find("left_out")->Find("rank_classes");
    CHECK(filled.size() + left->items().size() == e.program.classes.size());
    for (const auto& [pid, microseconds] : filled)
      CHECK(microseconds == doctest::Approx(e.StepSeconds() * 1e6).epsilon(1e-6));
  }
}

TEST_CASE("every thread with spans has a name, every process is a class, and the run has its id") {
  const Evaluation e = EvaluateFile("scenarios/qwen2.5-vl-72b-64xh100.json");
  const Json trace = ParseJson(TraceText(e, "aurum 1", "x"), "trace").root;
  CHECK(trace.members()[0].first == "displayTimeUnit");
  CHECK(trace.members()[1].first == "traceEvents");
  std::set<std::pair<std::int64_t, std::int64_t>> named;
  std::set<std::int64_t> processes;
  for (const Json& event : trace.Find("traceEvents")->items()) {
    if (event.Find("name")->AsString() == "thread_name")
      named.insert({event.Find("pid")->AsInteger(), event.Find("tid")->AsInteger()});
    if (event.Find("name")->AsString() == "process_name")
      processes.insert(event.Find("pid")->AsInteger());
  }
  for (const auto& [thread, spans] : SpansOf(trace)) CHECK(named.contains(thread));
  CHECK(processes.size() == e.program.classes.size());
  const Json* metadata = trace.Find("metadata");
  CHECK(metadata->Find("run_id")->AsString() == RunId(e, "aurum 1"));
  CHECK(metadata->Find("run_id")->AsString() ==
        ResultJson(e, {}, "aurum 1").Find("run_id")->AsString());
  CHECK(metadata->Find("step_time_s")->AsNumber() == e.StepSeconds());
  CHECK(metadata->Find("left_out")->Find("spans")->AsInteger() == 0);
}

TEST_CASE("collectives carry kind, group, bytes and a bus bandwidth that their time gives") {
  const Evaluation e = EvaluateFile("scenarios/qwen2.5-vl-72b-64xh100.json");
  const Json trace = ParseJson(TraceText(e, "aurum 1", "x"), "trace").root;
  std::set<std::string> kinds;
  int without = 0, with = 0;
  for (const Json& event : trace.Find("traceEvents")->items()) {
    const Json* cat = event.Find("cat");
    if (cat == nullptr || cat->AsString() != "communication") continue;
    const Json& args = *event.Find("args");
    if (args.Find("collective") == nullptr) {
      ++without;
      continue;
    }
    ++with;
    kinds.insert(args.Find("collective")->AsString());
    const double n = args.Find("group_ranks")->AsNumber();
    const double bandwidth = args.Find("bus_bandwidth_bytes_per_s")->AsNumber();
    CHECK(bandwidth > 0);
    // No collective of tensor parallelism beats the GPUs' 450 GB/s of NVLink by more than in-network
    // reduction makes of it.
    if (args.Find("group")->AsString() == "tp") CHECK(bandwidth < 2 * 450e9);
    if (args.Find("collective")->AsString() == "all_reduce") {
      const double algorithm = args.Find("bytes")->AsNumber() / args.Find("duration_s")->AsNumber();
      CHECK(bandwidth == doctest::Approx(algorithm * 2 * (n - 1) / n));
    }
  }
  CHECK(with > 100);
  CHECK(without == 0);
  CHECK(kinds.contains("send_recv"));
  CHECK(kinds.contains("all_gather"));
}

TEST_CASE("the size is bounded, and what is left out is told") {
  const Evaluation e = EvaluateFile("scenarios/qwen2.5-vl-72b-64xh100.json");
  const Json all = ParseJson(TraceText(e, "v", "x"), "trace").root;
  std::size_t count = 0;
  for (const auto& [thread, spans] : SpansOf(all)) count += spans.size();
  for (const std::size_t most : {std::size_t{50}, count / 2, count}) {
    const Json some = ParseJson(TraceText(e, "v", "x", most), "trace").root;
    std::size_t shown = 0;
    for (const auto& [thread, spans] : SpansOf(some)) shown += spans.size();
    CHECK(shown <= most);
    CHECK(shown > 0);
    const Json* left = some.Find("metadata")->Find("left_out");
    CHECK(left->Find("spans")->AsInteger() == static_cast<std::int64_t>(count - shown));
    CHECK(left->Find("rank_classes")->items().empty() == (most == count));
  }
}

TEST_CASE("traces at the levels that share links") {
  const Evaluation e = EvaluateFile("scenarios/qwen2.5-vl-72b-64xh100-sick.json", Level::kFlow);
  const Json trace = ParseJson(TraceText(e, "v", "x"), "trace").root;
  CHECK(trace.Find("metadata")->Find("level")->AsString() == "flow");
  CHECK(SpansOf(trace).size() > e.program.classes.size());
}

}  // namespace
}  // namespace aurum
