#include "sim/plan/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace aurum {
namespace {

// StageSeconds of the passes of one whole stage; a chunk takes its share of them. DualPipe's stages hold a whole stage in
// each direction.
struct StageSeconds {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  // What an overlapped pair takes, as a share of its two passes in a row.
  double pair = 1;
};

struct Timed {
  Pass pass{};
  double start = 0, end = 0;
};
struct Timeline {
  bool deadlock = false;
  std::vector<std::vector<Timed>> stages;
  double span = 0;  // from 0 to the last end
};

bool IsBackward(PassKind kind) {
  return kind == PassKind::kBackward || kind == PassKind::kInputGradient;
}

double SecondsOfPass(const PipelineShape& shape, const StageSeconds& seconds, PassKind kind) {
  const double share = shape.kind == ScheduleKind::kDualPipe ? 1.0 : 1.0 / shape.chunks;
  switch (kind) {
    case PassKind::kForward:
      return share * seconds.forward;
    case PassKind::kBackward:
      return share * (seconds.input_gradient + seconds.weight_gradient);
    case PassKind::kInputGradient:
      return share * seconds.input_gradient;
    case PassKind::kWeightGradient:
      return share * seconds.weight_gradient;
    default:
      return 0;
  }
}

// Every pass as soon as its stage is free and what it needs is there; transfers take no time. An overlapped pair is one
// pass that needs what either needs.
Timeline Run(const PipelineShape& shape, const std::vector<std::vector<Pass>>& lists,
             const StageSeconds& seconds) {
  Timeline timeline;
  timeline.stages.resize(lists.size());
  std::map<std::tuple<bool, int, int, int>, double> done;  // backward?, stage, chunk, micro-batch
  const auto ready = [&](int stage, const Pass& pass, double* at) {
    if (pass.kind == PassKind::kWeightGradient)
      return true;  // its input gradient is earlier in the list
    const bool backward = IsBackward(pass.kind);
    const auto from =
        backward ? NextOf(shape, stage, pass.chunk) : PreviousOf(shape, stage, pass.chunk);
    const auto own = done.find({false, stage, pass.chunk, pass.micro_batch});
    if (backward && own == done.end()) return false;
    if (!from) return true;
    const auto it = done.find({backward, from->stage, from->chunk, pass.micro_batch});
    if (it == done.end()) return false;
    *at = std::max(*at, it->second);
    return true;
  };
  std::vector<std::size_t> next(lists.size(), 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      while (next[i] < lists[i].size()) {
        const std::size_t count = lists[i][next[i]].with_next ? 2 : 1;
        double start = timeline.stages[i].empty() ? 0 : timeline.stages[i].back().end;
        double duration = 0;
        bool all = true;
        for (std::size_t k = 0; k < count; ++k) {
          const Pass& pass = lists[i].at(next[i] + k);
          all = all && ready(static_cast<int>(i), pass, &start);
          duration += SecondsOfPass(shape, seconds, pass.kind);
        }
        if (!all) break;
        if (count == 2) duration *= seconds.pair;
        for (std::size_t k = 0; k < count; ++k) {
          const Pass& pass = lists[i][next[i] + k];
          timeline.stages[i].push_back({pass, start, start + duration});
          if (pass.kind != PassKind::kWeightGradient) {
            done[{IsBackward(pass.kind), static_cast<int>(i), pass.chunk, pass.micro_batch}] =
                start + duration;
          }
        }
        timeline.span = std::max(timeline.span, start + duration);
        next[i] += count;
        moved = true;
      }
    }
  }
  for (std::size_t i = 0; i < lists.size(); ++i) timeline.deadlock |= next[i] < lists[i].size();
  return timeline;
}

// What a stage of the whole step computes, overlapped pairs counted once.
double Busy(const std::vector<Timed>& stage) {
  double busy = 0;
  for (std::size_t k = 0; k < stage.size(); ++k) {
    busy += stage[k].end - stage[k].start;
    if (stage[k].pass.with_next) ++k;
  }
  return busy;
}
double Span(const std::vector<Timed>& stage) { return stage.back().end - stage.front().start; }

// Most chunks whose activations a stage keeps at once: from the forward until nothing of the backward is left.
int PeakChunks(const std::vector<Pass>& list) {
  int held = 0, peak = 0;
  for (const Pass& pass : list) {
    if (pass.kind == PassKind::kForward) peak = std::max(peak, ++held);
    if (pass.kind == PassKind::kBackward || pass.kind == PassKind::kWeightGradient) --held;
  }
  CHECK(held == 0);
  return peak;
}

std::string Describe(const PipelineShape& shape) {
  return std::string(ScheduleName(shape.kind)) + " p=" + std::to_string(shape.stages) +
         " v=" + std::to_string(shape.chunks) + " m=" + std::to_string(shape.micro_batches);
}

// Every shape of a small world that is allowed.
std::vector<PipelineShape> SmallShapes(int most_stages, int most_chunks, int most_micro_batches) {
  std::vector<PipelineShape> shapes;
  for (const ScheduleKind kind :
       {ScheduleKind::kGpipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
        ScheduleKind::kZeroBubbleH1, ScheduleKind::kZeroBubbleV, ScheduleKind::kDualPipe}) {
    for (int p = 1; p <= most_stages; ++p) {
      for (int v = 1; v <= most_chunks; ++v) {
        for (int m = 1; m <= most_micro_batches; ++m) {
          const PipelineShape shape{kind, p, v, m};
          if (CheckPipeline(shape).message.empty()) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

TEST_CASE("names read back") {
  for (const std::string name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe"}) {
    const auto kind = ScheduleByName(name);
    REQUIRE(kind);
    CHECK(ScheduleName(*kind) == name);
  }
  CHECK(!ScheduleByName("1F1B"));
  CHECK(!ScheduleByName(""));
}

TEST_CASE("the chunks of a model follow each other from position to position") {
  for (const PipelineShape& shape : SmallShapes(6, 4, 24)) {
    INFO(Describe(shape));
    const bool dual = shape.kind == ScheduleKind::kDualPipe;
    const int positions = shape.stages * (dual ? 1 : shape.chunks);
    std::vector<int> holders(static_cast<std::size_t>(positions), 0);
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        const int position = PositionOf(shape, stage, chunk);
        REQUIRE(position >= 0);
        REQUIRE(position < positions);
        ++holders[static_cast<std::size_t>(position)];
        const auto next = NextOf(shape, stage, chunk);
        const auto previous = PreviousOf(shape, stage, chunk);
        CHECK(next.has_value() == (position + 1 < positions));
        CHECK(previous.has_value() == (position > 0));
        if (next) {
          CHECK(PositionOf(shape, next->stage, next->chunk) == position + 1);
          CHECK(PreviousOf(shape, next->stage, next->chunk) == StageChunk{stage, chunk});
        }
        if (previous) CHECK(PositionOf(shape, previous->stage, previous->chunk) == position - 1);
      }
    }
    // DualPipe keeps every position twice, once in each direction.
    for (const int count : holders) CHECK(count == (dual ? 2 : 1));
  }
}

TEST_CASE("every pass once, its parts in order, and no deadlock") {
  int dualpipes = 0;
  for (const PipelineShape& shape : SmallShapes(8, 4, 26)) {
    INFO(Describe(shape));
    dualpipes += shape.kind == ScheduleKind::kDualPipe;
    const auto lists = MakeSchedule(shape);
    REQUIRE(lists.size() == static_cast<std::size_t>(shape.stages));
    std::size_t wrong = 0;
    for (const auto& list : lists) {
      // By chunk and micro-batch: forward, whole backward, input gradient, weight gradient.
      std::map<std::pair<int, int>, std::array<int, 4>> seen;
      for (std::size_t k = 0; k < list.size(); ++k) {
        const Pass& pass = list[k];
        auto& counts = seen[{pass.chunk, pass.micro_batch}];
        wrong += pass.kind != PassKind::kForward && counts[0] != 1;
        wrong += pass.kind == PassKind::kWeightGradient && counts[2] != 1;
        REQUIRE(pass.kind <= PassKind::kWeightGradient);
        ++counts[static_cast<std::size_t>(pass.kind)];
        if (pass.with_next) {
          REQUIRE(k + 1 < list.size());
          wrong += shape.kind != ScheduleKind::kDualPipe || pass.kind != PassKind::kForward ||
                   list[k + 1].kind != PassKind::kBackward || list[k + 1].with_next ||
                   list[k + 1].chunk == pass.chunk;
        }
      }
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        for (int m = 0; m < shape.micro_batches; ++m) {
          const bool runs = RunsThrough(shape, chunk, m);
          const auto it = seen.find({chunk, m});
          wrong += runs != (it != seen.end());
          if (!runs || it == seen.end()) continue;
          const auto& [forward, backward, input, weight] = it->second;
          wrong += forward != 1 || backward + input != 1 || input != weight;
          seen.erase(it);
        }
      }
      wrong += seen.size();
    }
    CHECK(wrong == 0);
    CHECK(!Run(shape, lists, {}).deadlock);
    CHECK(!Run(shape, lists, {1.0, 1.3, 0.6, 0.8}).deadlock);
    CHECK(MakeSchedule(shape) == lists);
  }
  CHECK(dualpipes == 12 + 10 + 8 + 6);  // p = 2, 4, 6, 8 with even m from 2p to 26
}

// Forward, input gradient and weight gradient of a whole stage, in several proportions.
const std::vector<StageSeconds> kSeconds = {
    {1, 1, 1}, {1, 2, 1}, {2, 1.5, 0.5}, {1, 1, 2}, {3, 2, 0.25}};

void CheckSpan(const PipelineShape& shape, const StageSeconds& seconds, double bubble) {
  INFO(Describe(shape), " F=", seconds.forward, " I=", seconds.input_gradient,
       " W=", seconds.weight_gradient);
  const Timeline timeline = Run(shape, MakeSchedule(shape), seconds);
  for (const auto& stage : timeline.stages) {
    CHECK(timeline.span - Busy(stage) == doctest::Approx(bubble).epsilon(1e-9));
  }
}

TEST_CASE("GPipe and 1F1B idle for (p - 1)(F + B)") {
  for (const StageSeconds& seconds : kSeconds) {
    const double whole = seconds.forward + seconds.input_gradient + seconds.weight_gradient;
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 20; ++m) {
        CheckSpan({ScheduleKind::kGpipe, p, 1, m}, seconds, (p - 1) * whole);
        CheckSpan({ScheduleKind::k1F1B, p, 1, m}, seconds, (p - 1) * whole);
      }
      // Breadth first: a micro-batch comes around only after all others, so the bubble shrinks as it does interleaved.
      for (int v = 2; v <= 4; ++v) {
        for (int m = p; m <= 20; ++m) {
          CheckSpan({ScheduleKind::kGpipe, p, v, m}, seconds, (p - 1) * whole / v);
        }
      }
    }
  }
}

TEST_CASE("interleaved 1F1B idles for (p - 1)(F + B) / v") {
  for (const StageSeconds& seconds : kSeconds) {
    const double whole = seconds.forward + seconds.input_gradient + seconds.weight_gradient;
    for (int p = 1; p <= 8; ++p) {
      for (int v = 1; v <= 4; ++v) {
        for (int groups = 1; groups <= 4; ++groups) {
          CheckSpan({ScheduleKind::kInterleaved, p, v, groups * p}, seconds, (p - 1) * whole / v);
        }
      }
    }
  }
}

TEST_CASE("zero-bubble H1 idles for (p - 1)(F + B - 2W), B both gradients") {
  for (const StageSeconds& seconds : kSeconds) {
    const auto& [forward, input, weight, pair] = seconds;
    // The paper's law is of W <= F: a weight gradient longer than the forward that it stands in for fills no more than that.
    for (int p = 1; p <= 8; ++p) {
      for (int m = p; m <= 20; ++m) {
        CheckSpan({ScheduleKind::kZeroBubbleH1, p, 1, m}, seconds,
                  (p - 1) * (forward + input - std::min(forward, weight)));
      }
    }
  }
}

TEST_CASE("zero-bubble V leaves no bubble between the first and the last pass of a stage") {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 2 * p; m <= 26; ++m) {
      const PipelineShape shape{ScheduleKind::kZeroBubbleV, p, 2, m};
      INFO(Describe(shape));
      const Timeline timeline = Run(shape, MakeSchedule(shape), {});
      for (int i = 0; i < p; ++i) {
        const auto& stage = timeline.stages[static_cast<std::size_t>(i)];
        CHECK(Span(stage) == Busy(stage));
        CHECK(stage.front().start == 0.5 * i);  // half a stage a hop
      }
      // Seen from outside the last stage starts late: that, and nothing else, lengthens the step.
      CHECK(timeline.span == 3.0 * m + 0.5 * (p - 1));
    }
  }
}

TEST_CASE("DualPipe idles for (p/2 - 1)(F&B + B - 3W)") {
  // The report's law supposes that a forward takes as long as the input gradients, and no weight gradient longer. Its
  // idle time is that of the middle stages: the outer ones run fewer overlapped pairs, so they save less and idle less.
  for (const double pair : {1.0, 0.9, 0.75}) {
    for (const double weight : {1.0, 0.75, 0.5}) {
      for (int p = 2; p <= 10; p += 2) {
        for (int m = 2 * p; m <= 26; m += 2) {
          const PipelineShape shape{ScheduleKind::kDualPipe, p, 2, m};
          INFO(Describe(shape), " W=", weight, " pair=", pair);
          const std::size_t middle = static_cast<std::size_t>(p) / 2;
          const double backward = 1 + weight;
          const double law = (p / 2 - 1) * (pair * (1 + backward) + backward - 3 * weight);
          const Timeline timeline = Run(shape, MakeSchedule(shape), {1, 1, weight, pair});
          CHECK(timeline.span - Busy(timeline.stages[middle - 1]) == doctest::Approx(law));
          CHECK(timeline.span - Busy(timeline.stages[middle]) == doctest::Approx(law));
          for (const auto& stage : timeline.stages) {
            const double idle = timeline.span - Busy(stage);
            if (pair == 1) CHECK(idle == doctest::Approx(law));
            CHECK(idle <= law + 1e-9);
          }
        }
      }
    }
  }
}

TEST_CASE("no schedule keeps more activations than its paper says") {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 26; ++m) {
      const auto check = [&](ScheduleKind kind, int chunks, const auto& law) {
        const PipelineShape shape{kind, p, chunks, m};
        if (!CheckPipeline(shape).message.empty()) return;
        INFO(Describe(shape));
        const auto lists = MakeSchedule(shape);
        for (int i = 0; i < p; ++i) {
          INFO("stage ", i);
          CHECK(PeakChunks(lists[static_cast<std::size_t>(i)]) == law(i));
        }
      };
      check(ScheduleKind::kGpipe, 1, [&](int) { return m; });
      check(ScheduleKind::k1F1B, 1, [&](int i) { return std::min(m, p - i); });
      // Every stage as much as the first of 1F1B: its weight gradients keep what its forwards do not.
      check(ScheduleKind::kZeroBubbleH1, 1, [&](int) { return std::min(m, p); });
      for (int v = 2; v <= 4; ++v) {
        check(ScheduleKind::kInterleaved, v,
              [&](int i) { return std::min(m * v, (v - 1) * p + 2 * (p - i - 1) + 1); });
      }
      // Halves of a stage: p stages in all.
      if (m >= 2 * p - 1) check(ScheduleKind::kZeroBubbleV, 2, [&](int) { return 2 * p; });
      check(ScheduleKind::kDualPipe, 2, [&](int) { return p + 1; });
    }
  }
}

TEST_CASE("fewer micro-batches than a zero-bubble V wants still take the least memory") {
  for (int p = 2; p <= 8; ++p) {
    for (int m = 1; m < 2 * p - 1; ++m) {
      for (const auto& list : MakeSchedule({ScheduleKind::kZeroBubbleV, p, 2, m})) {
        CHECK(PeakChunks(list) <= std::min(2 * p, 2 * m));
      }
    }
  }
}

TEST_CASE("a list that is wrong is seen to deadlock") {  // the referee itself
  const PipelineShape shape{ScheduleKind::k1F1B, 2, 1, 2};
  auto lists = MakeSchedule(shape);
  std::swap(lists[0][1], lists[0][2]);
  std::swap(lists[1][0], lists[1][2]);
  CHECK(Run(shape, lists, {}).deadlock);
}

TEST_CASE("the lists of the papers' figures") {
  const auto text = [](const std::vector<Pass>& list) {
    std::string line;
    for (const Pass& pass : list) {
      line += std::string("FBIW")[static_cast<std::size_t>(pass.kind)] +
              std::to_string(pass.micro_batch) +
              std::string(static_cast<std::size_t>(pass.chunk), '\'') +
              (pass.with_next ? "+" : " ");
    }
    return line;
  };
  CHECK(text(MakeSchedule({ScheduleKind::k1F1B, 4, 1, 4})[2]) == "F0 F1 B0 F2 B1 F3 B2 B3 ");
  CHECK(text(MakeSchedule({ScheduleKind::kInterleaved, 2, 2, 4})[0]) ==
        "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3 ");
  CHECK(text(MakeSchedule({ScheduleKind::kZeroBubbleH1, 3, 1, 4})[1]) ==
        "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 ");
  CHECK(text(MakeSchedule({ScheduleKind::kZeroBubbleV, 2, 2, 4})[0]) ==
        "F0 F1 F2 F0' I0' W0' F1' I1' W1' F3 I0 W0 F2' I2' W2' I1 W1 F3' I3' W3' I2 W2 I3 W3 ");
  CHECK(text(MakeSchedule({ScheduleKind::kDualPipe, 2, 2, 4})[0]) ==
        "F0 F2' F1 B2' F3'+B0 B3' I1 W1 ");
}

TEST_CASE("a shape that no schedule can run is named with its remedy") {
  const auto fault = [](ScheduleKind kind, int p, int v, int m) {
    const ShapeFault found = CheckPipeline({kind, p, v, m});
    CHECK(found.message.empty() == found.help.empty());
    return found.message + " | " + found.help;
  };
  CHECK(fault(ScheduleKind::kInterleaved, 4, 2, 6) ==
        "interleaved runs micro-batches in groups of 4 stages: 6 micro-batches are no multiple of "
        "4 | "
        "use 8 or 4 micro-batches, or 1 chunk a stage");
  CHECK(fault(ScheduleKind::kInterleaved, 4, 2, 3) ==
        "interleaved runs micro-batches in groups of 4 stages: 3 micro-batches are no multiple of "
        "4 | "
        "use 4 micro-batches, or 1 chunk a stage");
  CHECK(fault(ScheduleKind::k1F1B, 4, 2, 8).find("use \"interleaved\"") != std::string::npos);
  CHECK(fault(ScheduleKind::kZeroBubbleV, 4, 1, 8).find("use 2 chunks") != std::string::npos);
  CHECK(fault(ScheduleKind::kDualPipe, 3, 2, 8).find("use 4 or 2 stages") != std::string::npos);
  CHECK(fault(ScheduleKind::kDualPipe, 1, 2, 8).find("use 2 stages") != std::string::npos);
  CHECK(fault(ScheduleKind::kDualPipe, 4, 2, 9).find("use 10 micro-batches") != std::string::npos);
  CHECK(fault(ScheduleKind::kDualPipe, 4, 2, 6).find("use 8 micro-batches") != std::string::npos);
  for (const int none : {0, -3}) {
    CHECK(fault(ScheduleKind::kGpipe, none, 1, 1) != " | ");
    CHECK(fault(ScheduleKind::kGpipe, 1, none, 1) != " | ");
    CHECK(fault(ScheduleKind::kGpipe, 1, 1, none) != " | ");
  }
  // What the remedy says is allowed.
  CHECK(fault(ScheduleKind::kInterleaved, 4, 2, 8) == " | ");
  CHECK(fault(ScheduleKind::kInterleaved, 4, 1, 6) == " | ");
  CHECK(fault(ScheduleKind::kDualPipe, 4, 2, 8) == " | ");
  CHECK(fault(ScheduleKind::kZeroBubbleV, 4, 2, 1) == " | ");
}

}  // namespace
}  // namespace aurum
