#include "sim/monitor/root_cause.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "sim/core/json.h"
#include "sim/monitor/fault_corpus.h"
#include "sim/plan/scenario_file.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

StepRecord Healthy(int ranks) {
  StepRecord record;
  record.step_time_s = 1;
  for (int r = 0; r < ranks; ++r) {
    RankTimes rank;
    rank.rank = r;
    rank.node = r / 4;
    rank.compute_s = 0.8;
    rank.dp_s = 0.1;
    rank.data_wait_s = 0.1;
    record.ranks.push_back(rank);
  }
  record.nodes = {{0, 1e-6}, {1, 1e-6}};
  return record;
}

TEST_CASE("a slow GPU is told from those that wait for it") {
  const StepRecord healthy = Healthy(8);
  StepRecord now = healthy;
  now.step_time_s = 1.24;
  for (RankTimes& rank : now.ranks) rank.dp_s += 0.24;  // the seven others, in the collective
  now.ranks[5].compute_s *= 1.3;
  now.ranks[5].dp_s = 0.1;
  const Diagnosis d = Diagnose(healthy, now);
  CHECK(d.cause == RootCause::kSlowGpu);
  CHECK(d.ranks == std::vector{5});
  CHECK(d.nodes == std::vector{1});
  CHECK(d.explained_share == doctest::Approx(1));
}

TEST_CASE("network, retransmissions, data, alignment, more work and nothing") {
  const StepRecord healthy = Healthy(8);
  const auto with = [&](double step, auto change) {
    StepRecord now = healthy;
    now.step_time_s = step;
    for (RankTimes& rank : now.ranks) change(&rank);
    return now;
  };
  StepRecord now = with(1.2, [](RankTimes* r) { r->dp_s += r->rank >= 4 ? 0.2 : 0; });
  CHECK(Diagnose(healthy, now).cause == RootCause::kSickLink);
  CHECK(Diagnose(healthy, now).nodes == std::vector{1});
  now.nodes[1].retransmitted_share = 0.1;
  CHECK(Diagnose(healthy, now).cause == RootCause::kRetransmissions);
  CHECK(Diagnose(healthy, now).nodes == std::vector{1});
  CHECK(Diagnose(healthy, with(1.3, [](RankTimes* r) { r->data_wait_s += 0.3; })).cause ==
        RootCause::kDataStall);
  CHECK(Diagnose(healthy, with(1.3, [](RankTimes* r) { r->alignment_wait_s += 0.3; })).cause ==
        RootCause::kMisalignment);
  CHECK(Diagnose(healthy, with(1.4, [](RankTimes* r) { r->compute_s *= 1.5; })).cause ==
        RootCause::kMoreWork);
  CHECK(Diagnose(healthy, with(1.001, [](RankTimes*) {})).cause == RootCause::kNone);
  CHECK(Diagnose(healthy, with(0.8, [](RankTimes*) {})).cause == RootCause::kNone);
}

TEST_CASE("every cause has a remedy of its own") {
  std::set<std::string_view> remedies;
  for (int cause = 1; cause < kRootCauses; ++cause)
    remedies.insert(RootCauseRemedy(static_cast<RootCause>(cause)));
  CHECK(remedies.size() == kRootCauses - 1);
  CHECK_FALSE(remedies.contains(""));
  CHECK(RootCauseRemedy(RootCause::kNone).empty());
}

TEST_CASE("records that do not go together are refused") {
  const StepRecord healthy = Healthy(8);
  StepRecord other = Healthy(4);
  CHECK(ThrownBy([&] { Diagnose(healthy, other); }).code == 784);
  other = Healthy(8);
  std::swap(other.ranks[0], other.ranks[1]);
  other.step_time_s = 2;
  CHECK(ThrownBy([&] { Diagnose(healthy, other); }).code == 784);
  other.ranks.clear();
  CHECK(ThrownBy([&] { Diagnose(healthy, other); }).code == 784);
  CHECK(ThrownBy([&] { MeanOf({healthy, Healthy(4)}); }).code == 784);
  StepRecord twice = healthy;
  twice.step_time_s = 3;
  CHECK(*MeanOf({healthy, twice}).step_time_s == 2);
}

TEST_CASE("no scenario and no model is in both the fit and the score") {
  const auto models = [](const std::vector<std::string>& files) {
    std::set<std::string> names;
    for (const std::string& file : files)
      names.insert(ReadJsonFile(file).root.Find("model")->AsString());
    return names;
  };
  const auto fit = models(CauseFitScenarios()), score = models(CauseScoreScenarios());
  for (const std::string& name : fit) CHECK_FALSE(score.contains(name));
}

TEST_CASE("the shipped rules are those that the fit scenarios give, and hold on unseen ones") {
  InputCache cache(".");
  const auto corpus = [&](const std::vector<std::string>& files, int each, std::uint64_t seed) {
    std::vector<LabelledStep> all;
    for (const std::string& file : files) {
      for (LabelledStep& step : DrawFaults(OpenScenarioFile(file), &cache, each, seed))
        all.push_back(std::move(step));
    }
    return all;
  };
  const std::vector<LabelledStep> fit = corpus(CauseFitScenarios(), 5, 1);
  const CauseRules fitted = FitCauseRules(fit);
  const CauseRules shipped;
  MESSAGE("fitted: ", fitted.least_excess, " ", fitted.explains);
  CHECK(ScoreCauses(fit, shipped).right >= ScoreCauses(fit, fitted).right - 1);
  const std::vector<LabelledStep> unseen = corpus(CauseScoreScenarios(), 5, 2);
  const CauseScore score = ScoreCauses(unseen);
  MESSAGE("accuracy on unseen: ", score.Accuracy(), " of ", score.steps, "; places ",
          score.place_named, " of ", score.placed, ", suspects ", score.suspects);
  for (const LabelledStep& step : unseen) {
    const Diagnosis d = Diagnose(step.healthy, step.now);
    if (d.cause != step.truth)
      MESSAGE(RootCauseName(step.truth), " as ", RootCauseName(d.cause), ": ", step.fault);
  }
  CHECK(score.Accuracy() > 0.85);
  CHECK(score.place_named >= 0.9 * score.placed);
  // The same seed gives the same faults.
  const std::vector<LabelledStep> again = corpus({CauseScoreScenarios()[1]}, 2, 2);
  const std::vector<LabelledStep> once = corpus({CauseScoreScenarios()[1]}, 2, 2);
  for (std::size_t i = 0; i < again.size(); ++i)
    CHECK(StepLine(again[i].now) == StepLine(once[i].now));
}

}  // namespace
}  // namespace aurum
