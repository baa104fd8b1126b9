#include "real/compare_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tests/real/runs.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

double SumOfParts(const RunComparison& c) {
  double sum = 0;
  for (const ErrorPart& part : c.parts) sum += part.difference_s;
  return sum;
}

bool Warned(const RunComparison& c, int code) {
  return std::any_of(c.warnings.begin(), c.warnings.end(),
                     [&](const Diagnostic& d) { return d.code == code && d.warning; });
}

// Parts sum to the difference, and no op is on two paths.
void CheckSound(const RunComparison& c) {
  const double difference = c.Step().measured - c.Step().predicted;
  CHECK(SumOfParts(c) == doctest::Approx(difference).epsilon(1e-9).scale(c.Step().measured));
  for (std::size_t i = 1; i < c.parts.size(); ++i)
    CHECK(std::abs(c.parts[i - 1].difference_s) >= std::abs(c.parts[i].difference_s));
}

constexpr const char* kPlans[] = {"tp", "dp", "pp", "fsdp"};

TEST_CASE("a run that went as predicted has no error and nothing to explain") {
  for (const char* name : kPlans) {
    CAPTURE(name);
    const JsonDocument document = Loop(name);
    const Executable plan = Predict(document);
    const RunRecord record = Run(document, plan, plan);
    CheckSamePlan(record, plan, document.root);
    const RunComparison c = CompareRun(record, plan, document.root, 1000);
    CHECK(c.Step().RelativeError() == doctest::Approx(0).scale(1).epsilon(1e-9));
    CHECK(c.metrics.size() >= 2);
    CHECK(c.metrics[1].name == "tokens_per_s");
    CHECK(c.metrics[1].measured == doctest::Approx(1000 / record.step_time_s));
    CHECK(c.warnings.empty());
    CHECK(c.scenario_differences.empty());
    CHECK(c.timed_step_s == doctest::Approx(record.step_time_s).epsilon(1e-9));
    for (const ErrorPart& part : c.parts)
      CHECK(std::abs(part.difference_s) <= 1e-9 * record.step_time_s);
    for (const OpClassTime& t : c.classes)
      CHECK(t.measured_s == doctest::Approx(t.predicted_s).epsilon(1e-9));
    CHECK(c.ops.size() == record.ops.size());
  }
}

TEST_CASE(
    "virtual ranks, whose threads meet and send, and a rank's own schedule give one comparison") {
  const JsonDocument document = Loop("pp");
  const Executable plan = Predict(document);
  const Executable truth =
      Slower(plan, [](const OpInfo& info) { return info.kind == OpKind::kBackward ? 1.5 : 1.1; });
  VirtualRun run;
  run.steps = {0, 4, 1};
  const RunComparison virtually =
      CompareRun(RecordOf(document, plan, RunVirtually(plan, truth, run)), plan, document.root, 0);
  const RunComparison scheduled = CompareRun(Run(document, plan, truth), plan, document.root, 0);
  CHECK(virtually.Step().measured == doctest::Approx(scheduled.Step().measured).epsilon(1e-9));
  REQUIRE(virtually.parts.size() == scheduled.parts.size());
  for (std::size_t i = 0; i < virtually.parts.size(); ++i) {
    CHECK(virtually.parts[i].difference_s ==
          doctest::Approx(scheduled.parts[i].difference_s).epsilon(1e-6).scale(1e-6));
  }
}

TEST_CASE("everything 1.2 times as long: the step is predicted 16.7 % short, whatever the plan") {
  for (const char* name : kPlans) {
    CAPTURE(name);
    const JsonDocument document = Loop(name);
    const Executable plan = Predict(document);
    RunRecord record = Run(document, plan, plan);
    for (double& step : record.steps_s) step *= 1.2;
    for (double& step : record.clean_steps_s) step *= 1.2;
    record.step_time_s *= 1.2;
    for (TimedOp& op : record.ops) {
      op.start_s *= 1.2;
      op.duration_s *= 1.2;
    }
    const RunComparison c = CompareRun(record, plan, document.root, 0);
    CHECK(c.Step().RelativeError() == doctest::Approx(1 / 1.2 - 1).epsilon(1e-6));
    CheckSound(c);
    double ops = 0;
    for (const ErrorPart& part : c.parts) {
      if (part.kind != ErrorPartKind::kOps) continue;
      ops += part.share_of_error;
      if (part.predicted_s > 0)
        CHECK(part.measured_s / part.predicted_s == doctest::Approx(1.2).epsilon(1e-6));
    }
    CHECK(ops == doctest::Approx(1).epsilon(1e-6));
    for (const OpClassTime& t : c.classes)
      CHECK(t.measured_s == doctest::Approx(1.2 * t.predicted_s).epsilon(1e-6));
    CHECK(ExplainError(c, plan).find("1.20 × the predicted time") != std::string::npos);
    CHECK(AdviceFor(c, record).find("aurum calibrate --backend virtual") != std::string::npos);
  }
}

TEST_CASE("the class that is slower is the one that is named, with its share") {
  const JsonDocument document = Loop("pp");
  const Executable plan = Predict(document);
  const Executable truth =
      Slower(plan, [](const OpInfo& info) { return info.kind == OpKind::kForward ? 1.8 : 1.0; });
  const RunRecord record = Run(document, plan, truth);
  CHECK(record.step_time_s == doctest::Approx(truth.outcome.StepSeconds()).epsilon(1e-9));
  const RunComparison c = CompareRun(record, plan, document.root, 0);
  CheckSound(c);
  for (const OpClassTime& t : c.classes) {
    CHECK(t.measured_s ==
          doctest::Approx((t.what == OpKind::kForward ? 1.8 : 1.0) * t.predicted_s).epsilon(1e-6));
  }
  const ErrorPart& first = c.parts.front();
  CHECK(first.kind == ErrorPartKind::kOps);
  CHECK(first.what == OpKind::kForward);
  CHECK(first.mostly == "gemm");
  CHECK(first.measured_s / first.predicted_s == doctest::Approx(1.8).epsilon(1e-6));
  CHECK(first.share_of_error > 0.5);
  const std::string text = ExplainError(c, plan);
  CHECK(text.find("forward") == 0);
  CHECK(text.find("mostly gemm kernels, took 1.80 × the predicted time") != std::string::npos);
  const ErrorPart* backward = PartOf(c, ErrorPartKind::kOps, OpKind::kBackward);
  REQUIRE(backward != nullptr);
  CHECK(std::abs(backward->share_of_error) < 1e-6);
}

TEST_CASE("a slow collective is a collective's error, and what others wait for it is no op's") {
  const JsonDocument document = Loop("tp");
  const Executable plan = Predict(document);
  const Executable truth = Slower(
      plan, [](const OpInfo& info) { return info.kind == OpKind::kTpCollective ? 3.0 : 1.0; });
  const RunComparison c = CompareRun(Run(document, plan, truth), plan, document.root, 0);
  CheckSound(c);
  CHECK(c.parts.front().what == OpKind::kTpCollective);
  CHECK(c.parts.front().mostly.empty());
  double share = 0;  // of all modules' collectives
  for (const ErrorPart& part : c.parts)
    share += part.what == OpKind::kTpCollective ? part.share_of_error : 0;
  CHECK(share == doctest::Approx(1).epsilon(1e-6));

  // The last to come waits for nobody: its time is the collective's, on every rank.
  RunRecord late = Run(document, plan, plan);
  bool found = false;
  OpKind what = OpKind::kTpCollective;
  for (TimedOp& op : late.ops) {
    if (op.kind != RankOpKind::kCollective || op.rank != 0 || op.start_s < 1e-3) continue;
    op.start_s -= 1e-3;
    op.duration_s += 1e-3;
    what = op.what;
    found = true;
    break;
  }
  REQUIRE(found);
  const RunComparison waits = CompareRun(late, plan, document.root, 0);
  for (const OpClassTime& t : waits.classes) {
    CHECK(t.measured_s == doctest::Approx(t.predicted_s).epsilon(1e-9));
    CHECK(t.waiting_s == doctest::Approx(t.what == what ? 1e-3 : 0).epsilon(1e-6).scale(1e-3));
  }
}

TEST_CASE("what a sender waits for its receiver is no transfer's time") {
  const JsonDocument document = Loop("pp");
  const Executable plan = Predict(document);
  RunRecord record = Run(document, plan, plan);
  const auto send = std::find_if(record.ops.begin(), record.ops.end(), [](const TimedOp& op) {
    return op.kind == RankOpKind::kSend && op.duration_s > 0;
  });
  REQUIRE(send != record.ops.end());
  const auto receive = std::find_if(record.ops.begin(), record.ops.end(), [&](const TimedOp& op) {
    return op.kind == RankOpKind::kReceive && op.op == send->op;
  });
  REQUIRE(receive != record.ops.end());
  // The receiver comes 1 ms after the sender; both end together.
  receive->start_s = send->start_s + 1e-3;
  receive->duration_s = send->duration_s;
  send->duration_s += 1e-3;
  const RunComparison c = CompareRun(record, plan, document.root, 0);
  for (const OpClassTime& t : c.classes) {
    const bool transfers = t.what == OpKind::kPipelineTransfer;
    CHECK(t.measured_s == doctest::Approx(t.predicted_s).epsilon(1e-9));
    CHECK(t.waiting_s == doctest::Approx(transfers ? 1e-3 : 0).epsilon(1e-6).scale(1e-3));
  }
}

TEST_CASE("time between ops is a gap, time beside whole steps is the timing's") {
  const JsonDocument document = Loop("dp");
  const Executable plan = Predict(document);
  RunRecord record = Run(document, plan, plan);
  // Everything after the first kernel comes 2 ms later, on every rank.
  for (TimedOp& op : record.ops) {
    if (op.start_s > 0) op.start_s += 2e-3;
  }
  record.step_time_s += 1e-3;
  const RunComparison c = CompareRun(record, plan, document.root, 0);
  CheckSound(c);
  const ErrorPart* gaps = PartOf(c, ErrorPartKind::kGaps);
  const ErrorPart* timing = PartOf(c, ErrorPartKind::kTiming);
  REQUIRE(gaps != nullptr);
  REQUIRE(timing != nullptr);
  CHECK(gaps->difference_s == doctest::Approx(2e-3).epsilon(1e-6));
  CHECK(gaps->share_of_error == doctest::Approx(2).epsilon(1e-6));
  CHECK(timing->difference_s == doctest::Approx(-1e-3).epsilon(1e-6));
  CHECK(ExplainError(c, plan).find("gaps between ops make 200 %") == 0);
}

TEST_CASE("the part sums hold for any machine, and the path is one of dependencies") {
  for (const char* name : kPlans) {
    CAPTURE(name);
    const JsonDocument document = Loop(name);
    const Executable plan = Predict(document);
    for (int seed = 1; seed <= 3; ++seed) {
      const Executable truth = Slower(plan, [&](const OpInfo& info) {
        const int mix = (static_cast<int>(info.kind) * 7 + info.micro_batch * 3 + seed * 5) % 11;
        return 0.5 + 0.15 * mix;
      });
      RunRecord record = Run(document, plan, truth);
      const RunComparison c = CompareRun(record, plan, document.root, 0);
      CheckSound(c);
      CHECK(c.Step().measured == doctest::Approx(truth.outcome.StepSeconds()).epsilon(1e-9));
      // A machine that does what the program says leaves no gaps on its critical path.
      const ErrorPart* gaps = PartOf(c, ErrorPartKind::kGaps);
      CHECK((gaps == nullptr || gaps->difference_s <= 1e-6 * record.step_time_s));
    }
  }
}

TEST_CASE("another plan is refused with its first difference, another title is not") {
  const JsonDocument document = Loop("pp");
  const Executable plan = Predict(document);
  const RunRecord record = Run(document, plan, plan);
  const JsonDocument other = Loop("pp", {"plan.micro_batch_size=2"});
  const Diagnostic d = ThrownBy([&] { CheckSamePlan(record, Predict(other), other.root); });
  CHECK(d.code == 981);
  CHECK(d.message.find("plan.micro_batch_size is 1 in the run and 2 here") != std::string::npos);

  const JsonDocument renamed = Loop("pp", {"name=other", "question=why"});
  CheckSamePlan(record, Predict(renamed), renamed.root);
  CHECK(CompareRun(record, plan, renamed.root, 0).scenario_differences.empty());

  RunRecord unknown = record;
  unknown.shape = "another";
  CHECK(ThrownBy([&] {
          CheckSamePlan(unknown, plan, document.root);
        }).message.find("of the same document") != std::string::npos);
}

TEST_CASE("a record whose ops are not its plan's is none") {
  const JsonDocument document = Loop("tp");
  const Executable plan = Predict(document);
  RunRecord record = Run(document, plan, plan);
  RunRecord shorter = record;
  shorter.ops.pop_back();
  CHECK(ThrownBy([&] { CheckSamePlan(shorter, plan, document.root); }).code == 901);
  RunRecord unknown = record;
  unknown.ops.front().op = 1U << 30U;
  CHECK(ThrownBy([&] { CheckSamePlan(unknown, plan, document.root); }).code == 901);
  // Whole steps alone can be compared, but not explained.
  record.ops.clear();
  CheckSamePlan(record, plan, document.root);
  const RunComparison c = CompareRun(record, plan, document.root, 0);
  CHECK(c.parts.empty());
  CHECK(ExplainError(c, plan).find("no times of ops") != std::string::npos);
}

TEST_CASE("another device, unsteady steps, falling clocks and failed checks are told") {
  const JsonDocument document = Loop("tp");
  const Executable plan = Predict(document);
  RunRecord record = Run(document, plan, plan);
  CHECK(record.ranks.front().device.find("(virtual)") != std::string::npos);
  record.ranks[0].device = "NVIDIA Imaginary Z900";
  record.ranks[1].clock_before_mhz = 1980;
  record.ranks[1].clock_after_mhz = 1410;
  record.variation = 0.08;
  record.clean_steps_s.resize(1);
  record.checks.push_back({"replicas", false, "rank 1 differs"});
  const RunComparison c = CompareRun(record, plan, document.root, 0);
  for (const int code : {1980, 1981, 1982, 1983}) {
    CAPTURE(code);
    CHECK(Warned(c, code));
  }
  const auto device = std::find_if(c.warnings.begin(), c.warnings.end(),
                                   [](const Diagnostic& d) { return d.code == 1980; });
  CHECK(device->message.find("NVIDIA Imaginary Z900") != std::string::npos);
  CHECK(device->message.find(plan.scenario.profile->device.name) != std::string::npos);
  CHECK(AdviceFor(c, record).find("the profile is of another device") == 0);
  CHECK(std::count_if(c.warnings.begin(), c.warnings.end(),
                      [](const Diagnostic& d) { return d.code == 1981; }) == 2);
}

TEST_CASE("devices are the same under the names that drivers and datasheets give them") {
  const JsonDocument document = Loop("tp");
  Executable plan = Predict(document);
  RunRecord record = Run(document, plan, plan);
  const auto warned = [&](const char* run, const char* profile) {
    Profile changed = *plan.scenario.profile;
    changed.device.name = profile;
    plan.scenario.profile = std::make_shared<const Profile>(changed);
    for (RankFacts& facts : record.ranks) facts.device = run;
    return Warned(CompareRun(record, plan, document.root, 0), 1980);
  };
  CHECK_FALSE(warned("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM 80 GB"));
  CHECK_FALSE(warned("NVIDIA H200", "NVIDIA H200 SXM 141 GB"));
  CHECK_FALSE(warned("one core of AMD EPYC 7B13", "AMD EPYC 7B13"));
  CHECK_FALSE(warned("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"));
  CHECK(warned("NVIDIA H200", "NVIDIA H100 SXM 80 GB"));
  CHECK(warned("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090"));
  CHECK(warned("one core of AMD EPYC 9654", "one core of AMD EPYC 7B13"));
}

TEST_CASE("a rank alone is compared with its own part of the step") {
  const JsonDocument document = Loop("pp");
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    const Executable plan = Predict(document, rank);
    const RunRecord record = Run(document, plan, plan);
    CHECK(record.lone_rank == rank);
    CheckSamePlan(record, plan, document.root);
    const RunComparison c = CompareRun(record, plan, document.root, 1000);
    CHECK(c.Step().RelativeError() == doctest::Approx(0).scale(1).epsilon(1e-9));
    CHECK(c.Step().of == "rank " + std::to_string(rank) + ", alone");
    CHECK(std::none_of(c.metrics.begin(), c.metrics.end(),
                       [](const RunMetric& m) { return m.name == "tokens_per_s"; }));
    bool modelled = false;
    for (const OpClassTime& t : c.classes) modelled = modelled || t.modelled;
    CHECK(modelled);
    // All ranks together are another program.
    const Executable all = Predict(document);
    CHECK(ThrownBy([&] { CheckSamePlan(record, all, document.root); }).code >= 901);
  }
}

TEST_CASE("memory is compared on the rank that held most, where both sides know it") {
  const JsonDocument document = Loop("pp");
  const Executable plan = Predict(document);
  RunRecord record = Run(document, plan, plan);
  REQUIRE(plan.peak_bytes[1] > 0);
  for (RankFacts& facts : record.ranks) facts.peak_memory_bytes = 0;
  const auto memory = [&] {
    const RunComparison c = CompareRun(record, plan, document.root, 0);
    const auto found = std::find_if(c.metrics.begin(), c.metrics.end(),
                                    [](const RunMetric& m) { return m.name == "peak_memory_gib"; });
    return found == c.metrics.end() ? RunMetric() : *found;
  };
  CHECK(memory().name.empty());
  record.ranks[0].peak_memory_bytes = 1;
  record.ranks[1].peak_memory_bytes = plan.peak_bytes[1] / 0.9;
  CHECK(memory().of == "rank 1");
  CHECK(memory().RelativeError() == doctest::Approx(-0.1).epsilon(1e-9));
}

TEST_CASE("other levels predict the same plan, but for one that takes ops apart") {
  InputCache cache(".");
  const JsonDocument document = Loop("pp");
  const Executable plan = Predict(document);
  const RunRecord record = Run(document, plan, plan);
  for (const Level level : {Level::kFlow, Level::kAuto}) {
    const Executable flow = PredictRun(ReadScenario(document, &cache), level, 0, -1);
    CheckSamePlan(record, flow, document.root);
    CheckSound(CompareRun(record, flow, document.root, 0));
  }
  CHECK(ThrownBy([&] { PredictRun(ReadScenario(document, &cache), Level::kChunk, 0, -1); }).code ==
        982);
  CHECK(ThrownBy([&] { PredictRun(ReadScenario(document, &cache), Level::kFlow, 0, 0); }).code ==
        982);
}

TEST_CASE("tolerances by backend") {
  CHECK(DefaultTolerance("virtual") == 0.01);
  CHECK(DefaultTolerance("cuda") == 0.05);
  CHECK(DefaultTolerance("cpu") == 0.25);
}

}  // namespace
}  // namespace aurum
