#pragma once

#include <memory>

#include "sim/plan/program.h"
#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"

namespace aurum {

// One plan, timed again and again under other what-ifs: the fast path of a sweep.
//
// Insight. FLOPs per token, bandwidth, alignment ratio and kernel speed-ups change what ops take, not
// which ops there are or what they wait for. So a plan is lowered once, on tape (tape.h): every op is of
// an atom, and an atom's duration is a formula of kernel costs and prices of communications. Another
// what-if asks for
//
//   kernel costs of each layer     again where FLOPs or speed-ups changed      (remembered)
//   prices of communications       again where bandwidth or alignment changed  (remembered)
//   durations                      a few hundred atoms
//   start times                    chains of ops (sim/engine/chains.h), not ops
//   where time goes                of the busiest class alone, gap by gap as Simulate() tells them apart
//
// Every number is formed by the same operations in the same order as in Lower() and Simulate(), so that
// results are the same to the last bit: tests compare them on all scenarios. Where a what-if changes
// more than durations (an exchange of tokens that was not there, groups that cease to cost the same),
// Retime() says so and the caller lowers.
//
// Cost: GPT-3 175B on 64 GPUs (109,000 ops) 0.1 ms, where lowering and simulating take 20.
class Retimer {
 public:
  // Null where another what-if may change more than durations: samples that differ, pools, faults,
  // generation, encoders in bubbles, ranks of a stage that are not alike. Lowers the scenario; throws
  // what Lower() throws. Level kAnalytic.
  static std::unique_ptr<Retimer> Make(const Scenario& scenario);
  virtual ~Retimer() = default;

  // A program that tells all of the plan's but its ops: of them it has those that figures are read from
  // (collectives of context and expert parallelism, weight gradients), in order.
  virtual Program MakeFigures() const = 0;
  // Sets what changes: of a program of MakeFigures(), costs and scales; of an outcome of this plan, the
  // makespan, the busiest class and its time, and start and end of the program's ops as if each began
  // at 0. False, and both are of no use: Lower() and Simulate() instead.
  virtual bool Retime(const WhatIf& what_if, Program* figures, Outcome* outcome) = 0;

  // After a Retime() that was true: the scenario with that what-if; whether memory is taken and returned
  // in the same order as with the scenario's own; when every op of the whole program runs, whose graph
  // has the durations of the scenario's own what-if.
  virtual const Scenario& scenario() const = 0;
  virtual bool SameMemoryOrder() const = 0;
  virtual const Program& Whole() const = 0;
  virtual void Expand(Schedule* schedule) const = 0;
};

}  // namespace aurum
