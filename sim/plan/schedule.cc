#include "sim/plan/schedule.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>

namespace aurum {

// Pipeline schedules
// ==================
//
// Insight: p stages compute at once only if each has a micro-batch to work on. The first stage cannot begin its backwards
// before a micro-batch has been all the way down and up again, so the schedules differ in what they put into that wait,
// and in how many micro-batches they must keep for it. A schedule is nothing but an order of passes for every stage. Times
// follow from the order, so the same lists serve uneven stages, slow links and interleaved communication.
//
// F is a forward, I the input gradients, W the weight gradients, B = I + W the whole backward of one stage, all for one
// micro-batch. Every drawing has F = I = W = 1; "-" is forward, "#" backward or input gradients, "+" weight gradients, and
// a number begins a pass of that micro-batch.
//
// GPipe (Huang et al., NeurIPS 2019). Bubble (p - 1)(F + B), memory m micro-batches. With v chunks of layers a stage it
// goes breadth first (Lamy-Poirier, 2023): bubble (p - 1)(F + B) / v for m >= p, memory m v chunks.
//
//   0 |0-1-2-............0###1###2###|
//   1 |..0-1-2-......0###1###2###....|
//   2 |....0-1-2-0###1###2###........|
//
// 1F1B (Narayanan et al., SOSP 2019; SC 2021). As soon as a backward is there it goes first: the same bubble, but stage i
// keeps min(m, p - i) micro-batches.
//
//   0 |0-1-2-........0###3-1###..2###..3###|
//   1 |..0-1-....0###2-1###3-2###..3###....|
//   2 |....0-0###1-1###2-2###3-3###........|
//
// Interleaved 1F1B (Narayanan et al., SC 2021). Stage i holds the chunks i, i + p, …, and micro-batches go around in groups
// of p. The wait is for a chunk instead of a stage: bubble (p - 1)(F + B) / v. Before its first backward the stage runs
// 2 (p - 1 - i) + (v - 1) p forwards and one more, and keeps as many chunks. a and b are the chunks:
//
//   0 |0a-1a-0b-1b-2a-...0b####3a-1b####2b-0a####3b-1a####...2b####...3b####2a####3a####|
//   1 |...0a-1a-0b-0b####1b-1b####2a-0a####3a-1a####2b-2b####3b-3b####2a####3a####......|
//
// Zero-bubble H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023). Only input gradients are waited for, so weight
// gradients may come later, where the stage would idle. Stage i puts them off by i micro-batches: then every stage keeps
// min(m, p), what the first stage of 1F1B keeps. Bubble (p - 1)(F + I - W) if W <= F; this is (p - 1)(F + B - 2W). (W > F
// fills no more than F.)
//
//   0 |0-1-2-....0#0+3-1#1+2#2+3#3+|
//   1 |..0-1-..0#2-1#0+3-2#1+3#2+3+|
//   2 |....0-0#1-1#2-2#0+3-3#1+2+3+|
//
// Zero-bubble V (Qi et al. 2023; the V shape as a building block: "Pipeline Parallelism with Controllable Memory", 2024).
// Stage i holds the chunks i and 2p - 1 - i, so a micro-batch ends where it began, and the last stage begins with its gradient
// at once. With F = I = W and m >= 2p - 1 no stage idles between its first and its last pass; as stage i starts i hops late, the
// step as a whole is (p - 1) F / 2 longer than its work. Every stage keeps 2p chunks, the p stages of 1F1B's first.
// Other proportions leave bubbles: the order is the one of equal times.
//
//   0 |0a-1a-2a-0b-0b#0b+1b-1b#1b+3a-0a#0a+2b-2b#2b+1a#1a+3b-3b#3b+2a#2a+3a#3a+...|
//   1 |...0a-0b-1a-1b-0b#0b+2a-0a#0a+2b-1b#1b+3a-1a#1a+3b-2b#2b+2a#3b#3a#2a+3b+3a+|
//
// DualPipe (DeepSeek-V3 technical report, 2024, section 3.2.1 and figure 5). Half of the micro-batches enter at the last stage
// and run the other way, through a second copy of the layers: chunk 0 of stage i is position i, chunk 1 position p - 1 - i.
// In the steady state the forward of one direction and the backward of the other run as one (`with_next`), each
// computing while the other communicates. Bubble (p/2 - 1)(F&B + B - 3W), F&B being such a pair; exact for F = I and
// W <= F, and the bubble of the middle stages: the outer ones have fewer pairs and, where F&B < F + B, idle less. Every
// stage keeps at most p + 1 micro-batches. 4 to 7 come the other way:
//
//   0 |0-1-2-4-4#4+5-3-5b##..6-0a##6b##..7-1a##7b##2#2+3#3+|
//   1 |..0-4-1-5-2-4b##6-0a##3-5b##7-1a##6b##2a##..7#3#7+3+|
//   2 |..4-0-5-1-6-0a##2-4b##7-1a##3-5b##2a##6b##..3#7#3+7+|
//   3 |4-5-6-0-0#0+1-7-1a##..2-4b##2a##..3-5b##3a##6#6+7#7+|
//
// All lists are written down in closed form, in O(passes); none is searched for. They cannot deadlock for any
// number of micro-batches: leaving micro-batches out of an order that works leaves an order that works, because no
// pass waits for a pass of another micro-batch except through the order.

namespace {

constexpr std::array<std::pair<ScheduleKind, std::string_view>, 6> kNames{{
    {ScheduleKind::kGpipe, "gpipe"},
    {ScheduleKind::k1F1B, "1f1b"},
    {ScheduleKind::kInterleaved, "interleaved"},
    {ScheduleKind::kZeroBubbleH1, "zb-h1"},
    {ScheduleKind::kZeroBubbleV, "zb-v"},
    {ScheduleKind::kDualPipe, "dualpipe"},
}};

// Writes the list of one stage. A schedule says only of which chunk the next pass is: which micro-batch
// that is follows from counting, because every chunk takes its micro-batches in order. Passes of
// micro-batches that the step does not have are left out.
class StageWriter {
 public:
  explicit StageWriter(const PipelineShape& shape)
      : shape_(shape), forwards_(FirstMicroBatches(shape)), backwards_(forwards_) {}

  void Forward(int chunk) { Put({PassKind::kForward, chunk, forwards_[Index(chunk)]++}); }
  // Both gradients at once.
  void Backward(int chunk) { Put({PassKind::kBackward, chunk, backwards_[Index(chunk)]++}); }
  // A forward and a backward that run as one.
  void Pair(int forward_chunk, int backward_chunk) {
    Put({PassKind::kForward, forward_chunk, forwards_[Index(forward_chunk)]++, true});
    Backward(backward_chunk);
  }
  // The input gradients alone: the weight gradients wait in line.
  void InputGradient(int chunk) {
    const int micro_batch = backwards_[Index(chunk)]++;
    Put({PassKind::kInputGradient, chunk, micro_batch});
    waiting_.push_back({PassKind::kWeightGradient, chunk, micro_batch});
  }
  // The weight gradients that have waited longest.
  void WeightGradient() {
    assert(!waiting_.empty());
    Put(waiting_.front());
    waiting_.erase(waiting_.begin());
  }
  // The same of one chunk. False: none waits.
  bool WeightGradientOf(int chunk) {
    const auto first = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const Pass& pass) { return pass.chunk == chunk; });
    if (first == waiting_.end()) return false;
    Put(*first);
    waiting_.erase(first);
    return true;
  }
  bool HasWaiting() const { return !waiting_.empty(); }

  std::vector<Pass> Finish() && { return std::move(passes_); }

 private:
  static std::size_t Index(int chunk) { return static_cast<std::size_t>(chunk); }
  static std::vector<int> FirstMicroBatches(const PipelineShape& shape) {
    std::vector<int> first(Index(shape.chunks), 0);
    if (shape.kind == ScheduleKind::kDualPipe) first[1] = shape.micro_batches / 2;
    return first;
  }
  void Put(const Pass& pass) {
    if (pass.micro_batch < shape_.micro_batches) passes_.push_back(pass);
  }

  const PipelineShape& shape_;
  std::vector<int> forwards_, backwards_;  // by chunk: the next micro-batch
  std::vector<Pass> waiting_;              // at most 2p: a queue of its own would not pay
  std::vector<Pass> passes_;
};

// All forwards chunk by chunk, then all backwards from the last chunk to the first.
std::vector<Pass> GpipeStage(const PipelineShape& shape) {
  StageWriter stage(shape);
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int k = 0; k < shape.micro_batches; ++k) stage.Forward(chunk);
  }
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    for (int k = 0; k < shape.micro_batches; ++k) stage.Backward(chunk);
  }
  return std::move(stage).Finish();
}

// 1F1B, plain (v = 1) or interleaved: `warm_up` forwards, then a forward and a backward in turn, then the backwards
// that are left. The k-th forward is of chunk (k / p) mod v, the k-th backward of the mirrored one.
std::vector<Pass> OneForwardOneBackwardStage(const PipelineShape& shape, int stage_index) {
  const int p = shape.stages, v = shape.chunks;
  const int passes = shape.micro_batches * v;
  // With one chunk a stage needs one forward ahead of the next stage to keep it busy. With more, a micro-batch comes
  // around in groups of p, and Megatron-LM runs two ahead, so that sending and computing overlap.
  const int warm_up =
      std::min(passes, v == 1 ? p - 1 - stage_index : 2 * (p - 1 - stage_index) + (v - 1) * p);
  StageWriter stage(shape);
  int forwards = 0;
  while (forwards < warm_up) stage.Forward(forwards++ / p % v);
  for (int backwards = 0; backwards < passes; ++backwards) {
    if (forwards < passes) stage.Forward(forwards++ / p % v);
    stage.Backward(v - 1 - backwards / p % v);
  }
  return std::move(stage).Finish();
}

// 1F1B whose weight gradients lag the input gradients by as many micro-batches as the stage has forwards fewer than
// stage 0: the later the stage, the more of them are left for the end.
std::vector<Pass> ZeroBubbleH1Stage(const PipelineShape& shape, int stage_index) {
  StageWriter stage(shape);
  const int warm_up = std::min(shape.micro_batches, shape.stages - 1 - stage_index);
  for (int k = 0; k < warm_up; ++k) stage.Forward(0);
  for (int k = 0; k < shape.micro_batches; ++k) {
    stage.Forward(0);  // left out where none is left
    stage.InputGradient(0);
    if (k >= stage_index) stage.WeightGradient();
  }
  while (stage.HasWaiting()) stage.WeightGradient();
  return std::move(stage).Finish();
}

std::vector<Pass> ZeroBubbleVStage(const PipelineShape& shape, int stage_index) {
  const int p = shape.stages, i = stage_index;
  // The pattern needs 2p - 1 micro-batches; of fewer, the rest is left out of it.
  const int m = std::max(shape.micro_batches, 2 * p - 1);
  StageWriter stage(shape);
  // Down the V until micro-batch 0 has come back up to this stage …
  for (int k = 0; k < 2 * (p - i) - 1; ++k) stage.Forward(0);
  for (int k = 0; k < i; ++k) {
    stage.Forward(1);
    stage.Forward(0);
  }
  // … and until its gradient has come down to here again: the memory is full now, with 2p chunks.
  for (int k = 0; k < p - i; ++k) {
    stage.Forward(1);
    stage.InputGradient(1);
    stage.WeightGradientOf(1);
  }
  // Both chunks in turn, each forward in the memory that the weight gradients before it have freed.
  int forwards = 2 * p - 1 - i;
  for (int k = 0; k < m - p; ++k) {
    if (forwards++ < m) stage.Forward(0);
    stage.InputGradient(0);
    stage.WeightGradientOf(0);
    stage.Forward(1);
    stage.InputGradient(1);
    stage.WeightGradientOf(1);
  }
  // Input gradients first, because the stages below wait for them; weight gradients fill what is left.
  for (int k = 0; k < i; ++k) {
    stage.InputGradient(0);
    stage.InputGradient(1);
  }
  for (int k = 0; k < p - i; ++k) {
    stage.InputGradient(0);
    stage.WeightGradientOf(0);
  }
  while (stage.WeightGradientOf(1)) continue;
  while (stage.WeightGradientOf(0)) continue;
  return std::move(stage).Finish();
}

std::vector<Pass> DualPipeStage(const PipelineShape& shape, int stage_index) {
  const int p = shape.stages;
  const int half = p / 2, m = shape.micro_batches / 2;  // of one direction
  // Mirrored halves: stage i and stage p - 1 - i do the same with their chunks exchanged. `near` enters at the end that
  // is r stages away, `far` comes from the other end.
  const int r = std::min(stage_index, p - 1 - stage_index);
  const int near = stage_index < half ? 0 : 1, far = 1 - near;
  const bool middle = r == half - 1;
  StageWriter stage(shape);
  // Fill: the near direction alone, then both.
  for (int k = 0; k < 2 * (half - 1 - r); ++k) stage.Forward(near);
  for (int k = 0; k < r + 1; ++k) {
    stage.Forward(near);
    stage.Forward(far);
  }
  // The first backwards of the far direction go on at once; their weight gradients fill the wait.
  for (int k = 0; k < half - 1 - r; ++k) {
    stage.InputGradient(far);
    stage.WeightGradient();
    stage.Forward(far);
  }
  // Steady state: the forward of one direction runs as one with the backward of the other.
  for (int k = 0; k < m - p + r + 1; ++k) {
    if (k == 0 && middle) {
      // The far backward waits for the other middle stage, which waits for this forward: these two cannot be one.
      stage.Forward(near);
      stage.Backward(far);
    } else {
      stage.Pair(near, far);
    }
    stage.Pair(far, near);
  }
  for (int k = 0; k < half - 1 - r; ++k) {
    stage.Backward(far);
    stage.Pair(far, near);
  }
  // Drain: backwards of both directions, of which the second half leaves its weight gradients for later.
  bool split = false;
  for (int k = 0; k < r + 1; ++k) {
    if (k == (r + 1) / 2 && r % 2 == 1) split = true;
    split ? stage.InputGradient(far) : stage.Backward(far);
    if (k == (r + 1) / 2 && r % 2 == 0) split = true;
    split ? stage.InputGradient(near) : stage.Backward(near);
  }
  for (int k = 0; k < half - 1 - r; ++k) {
    stage.WeightGradient();
    stage.InputGradient(near);
  }
  while (stage.HasWaiting()) stage.WeightGradient();
  return std::move(stage).Finish();
}

bool IsV(const PipelineShape& shape) { return shape.kind == ScheduleKind::kZeroBubbleV; }
bool IsDual(const PipelineShape& shape) { return shape.kind == ScheduleKind::kDualPipe; }

}  // namespace

std::string_view ScheduleName(ScheduleKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  assert(false);
  return "";
}

std::optional<ScheduleKind> ScheduleByName(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

int PositionOf(const PipelineShape& shape, int stage, int chunk) {
  const int p = shape.stages;
  if (IsV(shape)) return chunk == 0 ? stage : 2 * p - 1 - stage;
  if (IsDual(shape)) return chunk == 0 ? stage : p - 1 - stage;
  return chunk * p + stage;
}

std::optional<StageChunk> NextOf(const PipelineShape& shape, int stage, int chunk) {
  const int last = shape.stages - 1;
  if (IsV(shape) || IsDual(shape)) {
    if (chunk == 1) return stage == 0 ? std::nullopt : std::optional(StageChunk{stage - 1, 1});
    if (stage < last) return StageChunk{stage + 1, 0};
    return IsV(shape) ? std::optional(StageChunk{last, 1}) : std::nullopt;
  }
  if (stage < last) return StageChunk{stage + 1, chunk};
  return chunk + 1 < shape.chunks ? std::optional(StageChunk{0, chunk + 1}) : std::nullopt;
}

std::optional<StageChunk> PreviousOf(const PipelineShape& shape, int stage, int chunk) {
  const int last = shape.stages - 1;
  if (IsV(shape) || IsDual(shape)) {
    if (chunk == 0) return stage == 0 ? std::nullopt : std::optional(StageChunk{stage - 1, 0});
    if (stage < last) return StageChunk{stage + 1, 1};
    return IsV(shape) ? std::optional(StageChunk{last, 0}) : std::nullopt;
  }
  if (stage > 0) return StageChunk{stage - 1, chunk};
  return chunk > 0 ? std::optional(StageChunk{last, chunk - 1}) : std::nullopt;
}

bool RunsThrough(const PipelineShape& shape, int chunk, int micro_batch) {
  return !IsDual(shape) || (micro_batch < shape.micro_batches / 2) == (chunk == 0);
}

ShapeFault CheckPipeline(const PipelineShape& shape) {
  const std::string name(ScheduleName(shape.kind));
  const int p = shape.stages, v = shape.chunks, m = shape.micro_batches;
  const auto count = [](int number, const std::string& what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  if (p < 1) return {"a pipeline of " + count(p, "stage"), "give it 1 stage or more"};
  if (v < 1) return {count(v, "chunk") + " on a stage", "give every stage 1 chunk or more"};
  if (m < 1) {
    return {"a step of " + count(m, "micro-batch") + (m == 1 ? "" : "es"),
            "raise the global batch or lower the micro-batch: a step needs 1 micro-batch or more"};
  }
  switch (shape.kind) {
    case ScheduleKind::kGpipe:
      return {};
    case ScheduleKind::k1F1B:
    case ScheduleKind::kZeroBubbleH1:
      if (v == 1) return {};
      return {name + " runs one chunk a stage, not " + std::to_string(v),
              "use \"interleaved\" (or \"zb-v\" for 2 chunks), or 1 chunk a stage"};
    case ScheduleKind::kInterleaved:
      if (v == 1 || m % p == 0) return {};
      return {"interleaved runs micro-batches in groups of " + count(p, "stage") + ": " +
                  std::to_string(m) + " micro-batches are no multiple of " + std::to_string(p),
              "use " + std::to_string((m / p + 1) * p) +
                  (m > p ? " or " + std::to_string(m / p * p) : "") +
                  " micro-batches, or 1 chunk a stage"};
    case ScheduleKind::kZeroBubbleV:
      if (v == 2) return {};
      return {"zb-v runs 2 chunks a stage, not " + std::to_string(v), "use 2 chunks a stage"};
    case ScheduleKind::kDualPipe:
      if (v != 2) {
        return {"dualpipe runs 2 chunks a stage, one of each direction, not " + std::to_string(v),
                "use 2 chunks a stage"};
      }
      if (p % 2 != 0) {
        return {"dualpipe mirrors its stages in pairs: " + count(p, "stage") + " cannot be paired",
                "use " + std::to_string(p + 1) + (p > 1 ? " or " + std::to_string(p - 1) : "") +
                    " stages"};
      }
      if (m % 2 != 0) {
        return {
            "dualpipe sends half of the micro-batches each way: " + std::to_string(m) + " is odd",
            "use " + std::to_string(std::max(m + 1, 2 * p)) + " micro-batches"};
      }
      if (m < 2 * p) {
        return {"dualpipe keeps every stage busy with at least two micro-batches a stage: " +
                    std::to_string(m) + " micro-batches on " + count(p, "stage"),
                "use " + std::to_string(2 * p) + " micro-batches or more, or fewer stages"};
      }
      return {};
  }
  assert(false);
  return {};
}

std::vector<std::vector<Pass>> MakeSchedule(const PipelineShape& shape) {
  assert(CheckPipeline(shape).message.empty());
  std::vector<std::vector<Pass>> stages;
  stages.reserve(static_cast<std::size_t>(shape.stages));
  for (int i = 0; i < shape.stages; ++i) {
    switch (shape.kind) {
      case ScheduleKind::kGpipe:
        stages.push_back(GpipeStage(shape));
        break;
      case ScheduleKind::k1F1B:
      case ScheduleKind::kInterleaved:
        stages.push_back(OneForwardOneBackwardStage(shape, i));
        break;
      case ScheduleKind::kZeroBubbleH1:
        stages.push_back(ZeroBubbleH1Stage(shape, i));
        break;
      case ScheduleKind::kZeroBubbleV:
        stages.push_back(ZeroBubbleVStage(shape, i));
        break;
      case ScheduleKind::kDualPipe:
        stages.push_back(DualPipeStage(shape, i));
        break;
    }
  }
  return stages;
}

}  // namespace aurum
