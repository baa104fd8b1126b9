#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sim/study/design.h"
#include "sim/study/point.h"
#include "sim/study/shard.h"
#include "sim/study/store.h"

namespace aurum {

// One point's figures from its scenario (without a "sweep" section). Called from several threads at
// once, each with a document of its own, which changes after the call returns.
//   - Figures have the same kind (number or text) at every point, and come in one order. A point
//   may have fewer or more than
//     others; columns are made as figures first appear in the order of the ordinals, so nothing is
//     declared up front.
//   - An InputError is the point's result: "infeasible" if its exit code says so, else "failed".
//   - Any other std::exception is a mistake of ours: the point has failed (E0729) and the sweep goes
//   on.
//   - std::bad_alloc, and what is no std::exception, ends the sweep and comes out of RunSweep, after
//   what is done has been stored.
// It must be a function of the document alone, or results depend on the thread that computed them.
using PointEvaluator = std::function<std::vector<Figure>(const JsonDocument& point_scenario)>;

struct SweepProgress {
  std::size_t total = 0;       // points of the study, or of the shard
  std::size_t done = 0;        // of them: evaluated, or stored by an earlier run
  std::size_t failed = 0;      // of those done
  std::size_t infeasible = 0;  // of those done
  std::size_t committed = 0;   // stored so that a kill loses them no more
  double elapsed_s = 0;        // of this run
  double eta_s = 0;            // at the mean speed of this run; 0 until a point is done
};

// Ordinals from `begin` up to `end`.
struct PointRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// How points are evaluated elsewhere: taken from a running sweep, and their rows brought back.
struct SweepExchange {
  std::function<std::size_t()> left;                 // points that nobody has taken
  std::function<PointRange(std::size_t most)> take;  // the earliest; empty: none is left now
  std::function<void(PointRange range)> give_back;   // taken, and not evaluated after all
  // All rows of the range, in order. Waits while the store is behind.
  std::function<void(PointRange range, std::vector<PointRow> rows)> deliver;
  std::function<bool()> stopped;  // nothing that is brought now is waited for
};

struct SweepOptions {
  int jobs = 0;  // threads that evaluate; 0: one for each processor
  Shard shard;   // only these points; the same as the store's (assert)
  const std::atomic<bool>* stop =
      nullptr;  // looked at before each point; true ends the sweep early
  // Called by the thread that called RunSweep, at most five times a second, and once at the end.
  std::function<void(const SweepProgress&)> progress;
  // Runs in a thread of its own beside those that evaluate, and returns when all that it has taken
  // is delivered or given back, or the sweep is stopped. An exception ends the sweep.
  std::function<void(const SweepExchange&)> outside;
  int outside_jobs = 0;  // threads behind it: what is left is divided among them too
  // Only without a store: every point, in the order of the ordinals, on the calling thread.
  std::function<void(const PointRow&)> on_point;
};

struct SweepSummary {
  std::size_t total = 0;  // points of the study, or of the shard
  std::size_t stored_before =
      0;  // of them, stored by earlier runs and not evaluated again, whatever their status
  std::size_t evaluated = 0;  // by this run
  std::size_t ok = 0;         // of all points that are done, as are the next two
  std::size_t infeasible = 0;
  std::size_t failed = 0;
  bool interrupted = false;  // stopped with points missing
  double elapsed_s = 0;
  std::string first_failure;  // the diagnostic of the failed point with the lowest ordinal that
                              // this run evaluated

  // 130 if interrupted, 6 if a point failed, else 0: an infeasible point is an answer.
  ExitCode exit_code() const;
};

// One point: where the cursor moves to and what the evaluator makes of it.
PointRow EvaluatePoint(PointCursor* cursor, const PointEvaluator& evaluate, std::size_t ordinal);

// Evaluates every point of the design that `store` does not hold yet, and stores it; with no store
// hands it to on_point. The store must be of this scenario and this design (assert). At the end of a
// complete run the store is in its final form and byte for byte the same for any number of jobs and
// any history of interruptions; after an interrupted one it is closed and can be opened again.
// Errors: E0106 if an axis' path leads through something that is no object or array of the
// scenario, and those of Store (a full disk ends the sweep; what was committed stays).
SweepSummary RunSweep(const JsonDocument& scenario, const Design& design,
                      const PointEvaluator& evaluate, const SweepOptions& options, Store* store);

}  // namespace aurum
