#include "real/virtual/virtual_run.h"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/core/json.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Executable Ready(const std::string& file, const std::vector<std::string>& set = {},
                 const std::string& profile = "", int lone_rank = -1) {
  JsonDocument document = ReadJsonFile("scenarios/" + file + ".json");
  for (const std::string& assignment : set) ApplyOverride(&document, assignment);
  InputCache cache(".");
  Scenario scenario = ReadScenario(document, &cache);
  if (!profile.empty()) scenario.profile = cache.GetProfile(profile).value;
  return MakeExecutable(std::move(scenario), lone_rank);
}

double StepOf(const Executable& e, const Executable& truth, const VirtualRun& run) {
  return MakeRunRecord(e, RunVirtually(e, truth, run), run.steps).step_time_s;
}

VirtualRun Short() {
  VirtualRun run;
  run.steps = {0, 1, 1};
  return run;
}

// The engine and the ranks' threads know nothing of each other: one evaluates a graph, the other sends
// clocks around. Both must come to the same picosecond.
TEST_CASE("threads that carry clocks take the simulated step") {
  struct Case {
    const char* file;
    std::vector<std::string> set;
  };
  const std::vector<Case> cases = {
      {"loop-dp", {}},
      {"loop-dp", {"plan.sharding=zero2"}},
      {"loop-tp", {}},
      {"loop-tp", {"plan.overlap={\"tensor_parallel\": true}"}},
      {"loop-pp", {}},
      {"loop-pp", {"plan.schedule=gpipe"}},
      {"loop-pp", {"plan.schedule=zb-h1"}},
      {"loop-pp",
       {"plan.backbone={\"tp\": 2, \"pp\": 4, \"vpp\": 2, "
        "\"layers_per_stage\": [4, 4, 4, 4, 4, 4, 4, 4]}"}},
      {"loop-fsdp", {}},
      {"loop-fsdp", {"plan.sharding=hsdp", "plan.shard_group=4"}},
      {"loop-ep", {}},
      {"loop-ep", {"plan.overlap={\"expert_parallel\": true}"}},
      {"loop-vlm", {}},
      {"loop-vlm",
       {"plan.vision={\"tp\": 1, \"placement\": \"own_ranks\", \"pp\": 1}",
        "plan.backbone={\"tp\": 1, \"pp\": 1}"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.file);
    for (const std::string& set : c.set) CAPTURE(set);
    std::string refused;
    try {
      const Executable e = Ready(c.file, c.set);
      CHECK(StepOf(e, e, Short()) == doctest::Approx(e.outcome.StepSeconds()).epsilon(1e-9));
    } catch (const InputError& error) {
      refused = FormatDiagnostic(error.diagnostic());
    }
    CHECK(refused == "");
  }
}

TEST_CASE("a hidden truth decides, not the prediction") {
  const Executable e = Ready("loop-tp");
  const Executable truth = Ready("loop-tp", {}, "a100");
  const double measured = StepOf(e, truth, Short());
  CHECK(measured == doctest::Approx(truth.outcome.StepSeconds()).epsilon(1e-9));
  CHECK(measured > 1.5 * e.outcome.StepSeconds());
}

TEST_CASE("noise is seeded: the same bytes again, others under another seed") {
  const Executable e = Ready("loop-pp");
  VirtualRun run = Short();
  run.noise = 0.02;
  run.steps = {1, 3, 2};
  const double once = StepOf(e, e, run);
  CHECK(StepOf(e, e, run) == once);
  run.seed = 2;
  CHECK(StepOf(e, e, run) != once);
  CHECK(StepOf(e, e, run) == doctest::Approx(e.outcome.StepSeconds()).epsilon(0.02));
}

TEST_CASE("a lone rank's step, its compute by the truth, the rest modelled") {
  const Executable e = Ready("loop-pp", {}, "", 3);
  const std::vector<RankRun> runs = RunVirtually(e, e, Short());
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].facts.rank == 3);
  CHECK(runs[0].steps[0].seconds <= e.outcome.StepSeconds() * (1 + 1e-9));
  CHECK(runs[0].steps[0].seconds > 0.8 * e.outcome.StepSeconds());
}

TEST_CASE("a rank that throws stops all of them, and is named") {
  const Executable e = Ready("loop-pp");
  VirtualRun run = Short();
  run.disturb = [](int rank, std::int64_t, std::size_t index) {
    if (rank == 2 && index == 7) ThrowInput(910, "rank 2 was killed", "none");
  };
  CHECK(ThrownBy([&] { RunVirtually(e, e, run); }).message == "rank 2 was killed");
}

TEST_CASE("a rank that hangs is named, with those that wait for it") {
  const Executable e = Ready("loop-tp");
  VirtualRun run = Short();
  run.silence_timeout_s = 0.3;
  run.disturb = [](int rank, std::int64_t, std::size_t index) {
    if (rank == 5 && index == 20) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  };
  const Diagnostic d = ThrownBy([&] { RunVirtually(e, e, run); });
  CHECK(d.code == 911);
  CHECK(d.message.substr(0, 17) == "rank 5 in step 0 ");
  CHECK(d.message.find(" hangs; waiting for it: rank 0 in step 0 at '") != std::string::npos);
}

TEST_CASE("what cannot be executed is refused") {
  CHECK(ThrownBy([] { Ready("loop-dp", {"what_if={\"align_ratio\": 0.5}"}); }).code == 903);
  CHECK(ThrownBy([] { Ready("qwen2.5-vl-72b-64xh100-sick"); }).code == 903);
  CHECK(ThrownBy([] { Ready("llava-1.6-7b-mixture-8xa100"); }).code == 903);
  CHECK(ThrownBy([] { Ready("loop-dp", {}, "", 8); }).code == 902);
  const Executable e = Ready("loop-dp");
  const Executable other = Ready("loop-dp", {"plan.sharding=ddp"});
  CHECK(ThrownBy([&] { RunVirtually(e, other, Short()); }).code == 905);
}

}  // namespace
}  // namespace aurum
