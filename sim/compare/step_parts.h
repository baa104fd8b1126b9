#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/core/time.h"
#include "sim/study/evaluate.h"

namespace aurum {

// What a moment of a step goes to.
enum class StepCategory : std::uint8_t {
  kCompute,
  kSlowed,     // compute again: what communication beside it costs
  kTp,         // exposed: compute waits for a tensor-parallel collective
  kCp,         // exposed: context parallelism
  kEp,         // exposed: experts' all-to-alls
  kDpGather,   // exposed: gathers of parameters
  kDpReduce,   // exposed: reductions of gradients
  kPp,         // exposed: transfers between stages
  kHost,       // exposed: transfers to and from host memory
  kBubble,     // another stage computes
  kStraggler,  // a slower rank of the same stage computes
  kAlignment,  // tokens of another modality are on their way
  kData,       // the host prepares the step
  kOptimizer,
};
inline constexpr int kStepCategories = 14;
std::string_view StepCategoryKey(StepCategory category);   // "dp_reduce"
std::string_view StepCategoryName(StepCategory category);  // "gradient reductions"

// One term of a step's sum.
struct StepPart {
  StepCategory category = StepCategory::kCompute;
  std::string module;  // of compute and collectives: "backbone"; "" where none is told
  std::string what;    // of compute: "forward", "backward", "head backward"; of a bubble: "warm-up"
  Time time;
  // "backbone backward", "gradient reductions, backbone", "pipeline bubble, warm-up"
  std::string Name() const;
};

// What one kind of collective does in a step, on one GPU of the busiest class.
struct CommunicationPart {
  StepCategory category = StepCategory::kTp;
  std::size_t operations = 0;
  double bytes = 0;  // that the GPU exchanges, in nccl-tests' convention
  Time busy;         // at least one runs; those of two modules are told apart and added up
  Time exposed;      // the compute stream waits for them, as in the parts
};

// A step as a sum.
struct StepParts {
  Time step;
  std::string rank;             // whose seconds these are: the class with the most compute
  std::vector<StepPart> parts;  // none is empty; they sum to `step`, to the picosecond
  std::vector<CommunicationPart> communication;  // that there is, in the order of the categories
  bool detailed = false;                         // by module and pass, communication with bytes
};

// The parts of the busiest class (sim/study/time_parts.h), by what they are called. O(ops).
StepParts PartsOf(const Evaluation& evaluation);

// The same of a document of `simulate --json`, which tells categories alone, in double precision: what rounding
// leaves of the step (nanoseconds at most) is compute's. A step without a breakdown is one part.
StepParts PartsOfResult(const Json& result);

// One term of the difference of two steps.
struct PartChange {
  StepPart a, b;  // of the same name; the time of one that is not there is 0
  std::int64_t ChangePs() const { return b.time.ps - a.time.ps; }
  double ChangeSeconds() const { return static_cast<double>(ChangePs()) / kPicosecondsPerSecond; }
  std::string Name() const { return a.Name(); }
};

// Parts of the same category, module and pass face each other; the largest change first, equal ones in the order of
// the categories. The changes sum to b.step − a.step exactly. Where only one side is detailed, both are told by
// category.
std::vector<PartChange> CompareParts(const StepParts& a, const StepParts& b);

// "+12.3 s: gradient reductions +11.9 s, backbone backward +0.4 s": the whole, then its largest terms, at most
// `most`, none below a hundredth of the whole. Compute's passes are told together.
std::string DescribeChange(const StepParts& a, const StepParts& b, int most = 3);

// "+1.23 s", "-4.5 ms", "0 s"; three digits.
std::string SignedSeconds(double seconds);

}  // namespace aurum
