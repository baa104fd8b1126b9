// The laws of pipeline schedules (sim/plan/schedule.cc, the essay) in whole plans, not in lists: stages
// that are equal, transfers that take next to nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/plan/schedule.h"
#include "tests/plan/space.h"

namespace aurum {
namespace {

struct Shape {
  const char* schedule;
  int p, v, m;
};

// 96 equal layers on 8 · GPUs; one replica a pipeline of p.
JsonDocument Pipeline(const Shape& s, const std::vector<std::string>& more = {}) {
  const std::string gpus = std::to_string(s.p);
  std::vector<std::string> changes = {
      "workload.global_batch_size=" + std::to_string(8 / s.p * s.m),
      "workload.text_tokens=2048",
      "plan.sharding=ddp",
      std::string("plan.schedule=") + s.schedule,
      "plan.backbone={\"pp\": " + gpus + ", \"vpp\": " + std::to_string(s.v) + "}",
      "what_if.comm_bw_gb_per_s=1000000"};
  return Document(kLayers96, "8xh100-hgx", Join(changes, more));
}

// Seconds of the passes of one micro-batch through one whole stage.
struct Passes {
  double forward = 0, input = 0, weight = 0;
  double Backward() const { return input + weight; }
};
Passes PassesOf(const Evaluation& e, int stage) {
  Passes passes;
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.lane != Lane::kMain || static_cast<int>(info.rank_class) != stage) continue;
    const double seconds = Seconds(e.program.graph.duration(op));
    if (info.kind == OpKind::kForward) passes.forward += seconds;
    if (info.kind == OpKind::kBackward) passes.input += seconds;
    if (info.kind == OpKind::kWeightGradient) passes.weight += seconds;
  }
  const auto m = static_cast<double>(e.program.micro_batches);
  return {passes.forward / m, passes.input / m, passes.weight / m};
}
// What the step takes beyond its host, its optimizer and its work.
double Bubble(const Evaluation& e) {
  const Passes passes = PassesOf(e, 0);
  return e.StepSeconds() - e.scenario.stack->step_overhead_s - e.program.classes[0].optimizer_s -
         static_cast<double>(e.program.micro_batches) * (passes.forward + passes.Backward());
}

TEST_CASE("GPipe and 1F1B idle (p - 1) rounds, and v chunks a v-th of it") {
  for (const Shape& s : std::vector<Shape>{{"gpipe", 4, 1, 8},
                                           {"gpipe", 8, 1, 16},
                                           {"1f1b", 4, 1, 8},
                                           {"1f1b", 8, 1, 16},
                                           {"interleaved", 4, 2, 8},
                                           {"interleaved", 4, 3, 8},
                                           {"interleaved", 8, 2, 16},
                                           {"interleaved", 8, 3, 16},
                                           {"interleaved", 8, 12, 16},
                                           {"interleaved", 4, 12, 8}}) {
    CAPTURE(s.schedule);
    CAPTURE(s.p);
    CAPTURE(s.v);
    const Evaluation e = EvaluateDocument(Pipeline(s));
    const Passes passes = PassesOf(e, 0);
    const double round = passes.forward + passes.Backward();
    CHECK(passes.weight == 0);
    CHECK(Bubble(e) == doctest::Approx((s.p - 1) * round / s.v).epsilon(0.02));
    for (const TimeBreakdown& time : e.outcome.time)
      CHECK(time.bubble_s + time.pp_transfer_s ==
            doctest::Approx((s.p - 1) * round / s.v).epsilon(0.02));
  }
}

TEST_CASE("zero-bubble H1 idles (p - 1)(F + I - W)") {
  for (const int p : {2, 4, 8}) {
    CAPTURE(p);
    const Evaluation e = EvaluateDocument(Pipeline({"zb-h1", p, 1, 2 * p}));
    const Passes passes = PassesOf(e, 0);
    const double w = std::min(passes.weight, passes.forward);
    CHECK(passes.weight > 0);
    CHECK(Bubble(e) ==
          doctest::Approx((p - 1) * (passes.forward + passes.input - w)).epsilon(0.03));
  }
}

// When a list of passes ends, if every pass takes what the plan's stages take: the lists alone, without
// units, streams and transfers.
double EndOfLists(const PipelineShape& shape, const Passes& stage) {
  const std::vector<std::vector<Pass>> lists = MakeSchedule(shape);
  const double directions = shape.kind == ScheduleKind::kDualPipe ? 1 : shape.chunks;
  std::map<std::tuple<int, int, int, bool>, double> done;  // stage, chunk, micro-batch, forward
  std::vector<std::size_t> next(lists.size(), 0);
  std::vector<double> free(lists.size(), 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      while (next[i] < lists[i].size()) {
        const int at = static_cast<int>(i);
        // A pair runs as one: it starts when both may, and both end together.
        const std::size_t count = lists[i][next[i]].with_next ? 2 : 1;
        double start = free[i], length = 0;
        bool ready = true;
        for (std::size_t k = 0; k < count; ++k) {
          const Pass& pass = lists[i][next[i] + k];
          const bool forward = pass.kind == PassKind::kForward;
          const bool whole = pass.kind == PassKind::kBackward;
          length += (forward                                 ? stage.forward
                     : whole                                 ? stage.Backward()
                     : pass.kind == PassKind::kInputGradient ? stage.input
                                                             : stage.weight) /
                    directions;
          if (pass.kind == PassKind::kWeightGradient) continue;
          const auto from =
              forward ? PreviousOf(shape, at, pass.chunk) : NextOf(shape, at, pass.chunk);
          const auto key = from ? std::tuple(from->stage, from->chunk, pass.micro_batch, forward)
                                : std::tuple(at, pass.chunk, pass.micro_batch, true);
          if (!from && forward) continue;
          const auto found = done.find(key);
          if (found == done.end())
            ready = false;
          else
            start = std::max(start, found->second);
        }
        if (!ready) break;
        free[i] = start + length;
        for (std::size_t k = 0; k < count; ++k) {
          const Pass& pass = lists[i][next[i] + k];
          if (pass.kind != PassKind::kWeightGradient)
            done[{at, pass.chunk, pass.micro_batch, pass.kind == PassKind::kForward}] = free[i];
        }
        next[i] += count;
        moved = true;
      }
    }
  }
  for (std::size_t i = 0; i < lists.size(); ++i) REQUIRE(next[i] == lists[i].size());
  return *std::max_element(free.begin(), free.end());
}

TEST_CASE("a plan takes as long as its lists of passes") {
  for (const Shape& s : std::vector<Shape>{{"gpipe", 4, 1, 6},
                                           {"1f1b", 4, 1, 3},
                                           {"1f1b", 8, 1, 12},
                                           {"interleaved", 4, 3, 12},
                                           {"interleaved", 8, 12, 8},
                                           {"zb-h1", 4, 1, 9},
                                           {"zb-h1", 8, 1, 20},
                                           {"zb-v", 4, 2, 8},
                                           {"zb-v", 8, 2, 20},
                                           {"dualpipe", 4, 2, 8},
                                           {"dualpipe", 8, 2, 20}}) {
    CAPTURE(s.schedule);
    CAPTURE(s.p);
    CAPTURE(s.m);
    const Evaluation e = EvaluateDocument(Pipeline(s));
    Passes passes = PassesOf(e, 0);
    if (passes.weight == 0) std::swap(passes.weight, passes.input);
    const PipelineShape shape{*ScheduleByName(s.schedule), s.p, s.v, s.m};
    const double expected = EndOfLists(shape, passes);
    const double took =
        e.StepSeconds() - e.scenario.stack->step_overhead_s - e.program.classes[0].optimizer_s;
    if (shape.kind == ScheduleKind::kDualPipe) {
      // Pairs advance unit by unit, so both hand on before the pair ends: some units of 12 or 24 faster.
      CHECK(took <= expected * 1.01);
      CHECK(took >= expected * 0.9);
    } else {
      CHECK(took == doctest::Approx(expected).epsilon(0.01));
    }
  }
}

// Activations at their peak, in those that one micro-batch leaves in a stage.
std::vector<double> Kept(const Shape& s) {
  const Evaluation one = EvaluateDocument(Pipeline({"1f1b", s.p, 1, 1}));
  const double unit = Peak(one.memory.classes[0].activations);
  const Evaluation e = EvaluateDocument(Pipeline(s));
  std::vector<double> kept;
  for (const ClassMemory& memory : e.memory.classes) {
    kept.push_back(Peak(memory.activations) / unit);
    CHECK(memory.left_bytes == 0);
  }
  return kept;
}

TEST_CASE("every stage keeps as many micro-batches as its schedule says") {
  const int p = 4, m = 12;
  const std::vector<double> gpipe = Kept({"gpipe", p, 1, m}), one = Kept({"1f1b", p, 1, m}),
                            h1 = Kept({"zb-h1", p, 1, m}), v = Kept({"zb-v", p, 2, m}),
                            dual = Kept({"dualpipe", p, 2, m}), few = Kept({"1f1b", p, 1, 2});
  for (int i = 0; i < p; ++i) {
    CAPTURE(i);
    const auto at = static_cast<std::size_t>(i);
    CHECK(gpipe[at] == doctest::Approx(m).epsilon(1e-9));
    CHECK(one[at] == doctest::Approx(p - i).epsilon(1e-9));
    CHECK(few[at] == doctest::Approx(std::min(2, p - i)).epsilon(1e-9));
    CHECK(h1[at] == doctest::Approx(p).epsilon(1e-9));
    CHECK(v[at] == doctest::Approx(p).epsilon(1e-9));
    CHECK(dual[at] <= p + 1 + 1e-9);
    CHECK(dual[at] > p - 1);
  }
  for (const int chunks : {2, 3, 12}) {
    CAPTURE(chunks);
    const std::vector<double> kept = Kept({"interleaved", p, chunks, m});
    for (int i = 0; i < p; ++i) {
      const double forwards = 2 * (p - 1 - i) + (chunks - 1) * p + 1;
      CHECK(kept[static_cast<std::size_t>(i)] == doctest::Approx(forwards / chunks).epsilon(1e-9));
    }
  }
}

TEST_CASE("schedules rank by time and by memory as their papers say") {
  const int p = 8, m = 16;
  const auto measure = [&](const char* schedule, int v) {
    const Evaluation e = EvaluateDocument(Pipeline({schedule, p, v, m}));
    double most = 0;
    for (const ClassMemory& memory : e.memory.classes)
      most = std::max(most, Peak(memory.activations));
    return std::pair(e.StepSeconds(), most);
  };
  const auto gpipe = measure("gpipe", 1), one = measure("1f1b", 1), two = measure("interleaved", 2),
             twelve = measure("interleaved", 12), h1 = measure("zb-h1", 1), v = measure("zb-v", 2),
             dual = measure("dualpipe", 2);
  // Narayanan et al. 2021: the same time as GPipe in the memory of p instead of m; chunks trade memory
  // for time. Qi et al. 2023: H1 is faster in the memory of 1F1B; 2024: V faster still.
  CHECK(gpipe.first == doctest::Approx(one.first).epsilon(2e-3));
  CHECK(gpipe.second == doctest::Approx(one.second * m / p).epsilon(1e-6));
  CHECK(two.first < one.first);
  CHECK(twelve.first < two.first);
  CHECK(two.second > one.second);
  CHECK(h1.first < one.first);
  CHECK(h1.second == doctest::Approx(one.second).epsilon(1e-6));
  CHECK(v.first < h1.first);
  CHECK(v.second == doctest::Approx(one.second).epsilon(1e-6));
  // DeepSeek-V3, table 2: DualPipe's bubble is less than 1F1B's and H1's, its memory (p + 1) / p.
  CHECK(dual.first < h1.first);
  CHECK(dual.second <= one.second * (p + 1) / p * (1 + 1e-6));
  CHECK(dual.second > one.second);
}

}  // namespace
}  // namespace aurum
