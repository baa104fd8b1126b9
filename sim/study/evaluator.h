#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/core/json.h"
#include "sim/plan/retime.h"
#include "sim/plan/scenario.h"
#include "sim/study/evaluate.h"
#include "sim/study/point.h"

namespace aurum {

// Evaluates scenarios one after the other, as fast as their likeness allows: what a study calls for
// every point. Scenarios that differ in what they impose alone (what_if: FLOPs per token, bus bandwidth,
// alignment ratio, kernel speed-ups) share one lowered plan (sim/plan/retime.h); the others are walked
// from the beginning. Results are the same to the last bit, whatever was evaluated before.
//
// One per thread: it is not safe to share. It holds up to kMostShapes plans, those used last.
class Evaluator {
 public:
  // `cache` is shared and must outlive the evaluator.
  Evaluator(InputCache* cache, Level level, Fold fold = Fold::kOn)
      : cache_(cache), level_(level), fold_(fold) {}

  // The scenario's walk, as far as figures, budgets and memory are read from it: FiguresOf(), JudgeBudget()
  // and the memory's peaks are those of Evaluate(ReadScenario(document, cache), level, fold). What only a
  // full result shows may be missing (a signature, the schedule, gaps, gradient_sync, times of memory):
  // Evaluate() has it. Valid until the next call. Throws what those throw.
  const Evaluation& Walk(const JsonDocument& document);

  struct Counts {
    std::size_t walked = 0;   // from the beginning
    std::size_t retimed = 0;  // on a plan that was there
  };
  const Counts& counts() const { return counts_; }

 private:
  static constexpr std::size_t kMostShapes = 16;
  static constexpr std::size_t kMostSeen = 64;
  static constexpr std::size_t kMostKeptOps = 2'000'000;  // of all plans, about half a gigabyte

  // What scenarios that share a plan agree in.
  struct Likeness {
    enum class Alignment : std::uint8_t { kNatural, kWhole, kImposed };
    Json base;  // less what may change
    Alignment alignment = Alignment::kNatural;
  };
  struct Shape {
    Likeness likeness;
    std::unique_ptr<Retimer> retimer;  // null: another what-if is another plan
    Evaluation evaluation;
    MemoryReport own_memory;  // under the what-if that it was lowered with
    bool has_own_memory = true;
    std::size_t ops = 0;
  };

  static Likeness::Alignment AlignmentOf(const Json& scenario);
  static Likeness LikenessOf(const Json& scenario);
  static bool Has(const Json& scenario, const Likeness& likeness);
  Shape* Find(const JsonDocument& document);
  bool Retime(const JsonDocument& document, Shape* shape);
  bool SeenBefore(const JsonDocument& document);
  void Keep(const JsonDocument& document);

  InputCache* cache_;
  Level level_;
  Fold fold_;
  std::deque<std::unique_ptr<Shape>> shapes_;  // the last used first
  std::deque<Likeness> seen_;                  // that were walked once
  Evaluation walked_;
  Counts counts_;
};

// An evaluator for each thread that asks.
class Evaluators {
 public:
  Evaluators(InputCache* cache, Level level, Fold fold = Fold::kOn)
      : cache_(cache), level_(level), fold_(fold) {}
  Evaluator& Mine();

 private:
  InputCache* cache_;
  Level level_;
  Fold fold_;
  std::mutex mutex_;
  std::map<std::thread::id, std::unique_ptr<Evaluator>> evaluators_;
};

}  // namespace aurum
