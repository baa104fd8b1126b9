#include "real/rank_program.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "real/execution.h"
#include "sim/core/json.h"

namespace aurum {
namespace {

Scenario Read(const std::string& file, const std::vector<std::string>& set = {}) {
  JsonDocument document = ReadJsonFile("scenarios/" + file + ".json");
  for (const std::string& assignment : set) ApplyOverride(&document, assignment);
  InputCache cache(".");
  return ReadScenario(document, &cache);
}

// Every op of the program is in the programs of exactly the ranks that take part in it.
TEST_CASE("the ranks' programs together are the program") {
  for (const char* name : {"loop-dp", "loop-tp", "loop-pp", "loop-fsdp", "loop-ep", "loop-vlm"}) {
    CAPTURE(name);
    const Executable e = MakeExecutable(Read(name));
    std::map<OpId, int> times;                            // kernels and collectives
    std::map<std::tuple<OpId, int, int>, int> sent, got;  // op, from, to
    for (int rank = 0; rank < e.Ranks(); ++rank) {
      const RankProgram mine = e.RankAt(rank);
      for (const RankOp& op : mine.ops) {
        for (const std::uint32_t wait : op.waits) CHECK(wait < &op - mine.ops.data());
        if (op.kind == RankOpKind::kSend) {
          for (const int to : op.peers) ++sent[{op.op, rank, to}];
        } else if (op.kind == RankOpKind::kReceive) {
          ++got[{op.op, op.peers.at(0), rank}];
        } else {
          ++times[op.op];
        }
      }
    }
    CHECK(sent == got);
    for (const auto& [message, count] : sent) CHECK(count == 1);
    for (OpId op = 0; op < e.program.info.size(); ++op) {
      const OpWork& work = e.program.work[op];
      if (work.communication == kNoWork) {
        CHECK(times[op] == 1);
        continue;
      }
      const Communication& c = e.program.communications[work.communication];
      if (!c.transfer)
        CHECK(times[op] == static_cast<int>(GroupSize(e.scenario.plan, c.stage, c.groups)));
    }
  }
}

// Kernels of one op have together the seconds that the simulator takes for it.
TEST_CASE("the kernels of an op are its time") {
  for (const char* name :
       {"loop-dp", "loop-tp", "loop-ep", "loop-vlm", "llava-1.6-7b-finetune-8xa100"}) {
    CAPTURE(name);
    Scenario scenario = Read(name);
    LowerOptions options;
    options.for_execution = true;
    const Program program = Lower(scenario, options);
    int compared = 0;
    for (OpId op = 0; op < program.info.size(); ++op) {
      if (program.work[op].kernels == kNoWork) continue;
      double seconds = program.info[op].slowed_s;
      for (const Kernel& kernel : program.kernels[program.work[op].kernels])
        seconds +=
            KernelSeconds(kernel, *scenario.profile, *scenario.stack) * program.work[op].repeats;
      CHECK(seconds == doctest::Approx(Seconds(program.graph.duration(op))).epsilon(1e-9));
      ++compared;
    }
    CHECK(compared > 100);
  }
}

TEST_CASE("listing kernels changes nothing else") {
  Scenario scenario = Read("loop-vlm");
  LowerOptions options;
  const std::string plain = Simulate(Lower(scenario, options), Level::kAnalytic).signature;
  options.for_execution = true;
  CHECK(Simulate(Lower(scenario, options), Level::kAnalytic).signature == plain);
}

TEST_CASE("a shape tells plans apart and does not hang on durations") {
  const auto shape = [](const Scenario& scenario) {
    return ShapeOf(MakeExecutable(scenario).program);
  };
  const std::string plain = shape(Read("loop-tp"));
  CHECK(shape(Read("loop-tp", {"profile=h200"})) == plain);
  CHECK(shape(Read("loop-tp", {"plan.backbone.tp=2", "plan.vision.tp=2"})) != plain);
  CHECK(shape(Read("loop-tp", {"workload.text_tokens=513"})) != plain);
  CHECK(shape(Read("loop-tp", {"plan.sharding=ddp"})) != plain);
}

// A lone rank: its own kernels, and delays; its critical path is the whole step's.
TEST_CASE("a lone rank's delays end its step when the plan's ends") {
  for (const char* name : {"loop-dp", "loop-tp", "loop-pp", "loop-fsdp", "loop-ep", "loop-vlm"}) {
    CAPTURE(name);
    const Executable e = MakeExecutable(Read(name), 0);
    const RankProgram mine = e.RankAt(0);
    std::vector<double> end(mine.ops.size()), queue(mine.queues.size());
    double last = 0;
    std::size_t computes = 0;
    for (std::size_t i = 0; i < mine.ops.size(); ++i) {
      const RankOp& op = mine.ops[i];
      double start = queue[op.queue];
      for (const std::uint32_t wait : op.waits) start = std::max(start, end[wait]);
      if (op.kind == RankOpKind::kDelay) start = std::max(start, op.not_before_s);
      if (op.kind == RankOpKind::kCompute) ++computes;
      end[i] = queue[op.queue] = start + op.modelled_s;
      last = std::max(last, end[i]);
      CHECK(end[i] == doctest::Approx(Seconds(e.outcome.schedule.end[op.op])).epsilon(1e-9));
    }
    std::size_t own = 0;
    for (OpId op = 0; op < e.program.info.size(); ++op)
      own += e.program.work[op].communication == kNoWork &&
             e.program.info[op].rank_class == e.program.ClassOf(0);
    CHECK(computes == own);
    CHECK(last <= e.outcome.StepSeconds() * (1 + 1e-12));
  }
}

}  // namespace
}  // namespace aurum
