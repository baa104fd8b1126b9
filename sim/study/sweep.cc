#include "sim/study/sweep.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

// How a sweep runs
//
// Workers evaluate, the calling thread stores. Three things keep the overhead per point in the
// microseconds:
//   1. A worker's scenario is one document that changes in place (PointCursor).
//   2. Work is taken and results are handed over in chunks of about kChunkSeconds, whatever a point
//   costs: the size follows
//      the worker's running mean. A chunk that turns out slow is cut short: what it has is
//      delivered after kDeliverSeconds and the rest goes back for anyone to take, so one expensive
//      corner of the space neither idles the other threads nor keeps finished points from the disk.
//   3. Rows are inserted in transactions of thousands.
//
// Order: the writer holds chunks back until all before them have arrived, so rows are inserted (and
// columns made) in the order of the ordinals, which is also the cheapest order for the database.
// Two limits keep this from costing safety or memory: at least every kCommitSeconds, and when
// kHeldRows are waiting, what has arrived is stored out of order. The final form of the store does
// not depend on the order of insertion.
namespace aurum {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kChunkSeconds = 0.005;
constexpr double kDeliverSeconds = 0.05;
// Between commits: a share of the time since the start, so that a kill costs a short run little too.
constexpr double kCommitShare = 0.25;
constexpr double kFirstCommitSeconds = 0.05;
constexpr double kCommitSeconds = 1.0;
constexpr double kProgressSeconds = 0.2;
constexpr std::size_t kLargestChunk = 4096;
constexpr std::size_t kCommitRows = 10'000;
constexpr std::size_t kHeldRows = 50'000;  // waiting for an earlier chunk
constexpr std::size_t kQueuedRows =
    50'000;  // not yet taken by the writer: then workers wait for it

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

using Range = PointRange;

// The points that are to do, as runs of ordinals.
std::vector<Range> MissingRanges(std::size_t points, const Shard& shard, const Store* store) {
  if (store == nullptr && shard.IsWhole())
    return points > 0 ? std::vector<Range>{{0, points}} : std::vector<Range>{};
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < points; ++i) {
    if (!InShard(shard, i, points) || (store != nullptr && store->Has(i))) continue;
    if (ranges.empty() || ranges.back().end != i) ranges.push_back({i, i});
    ranges.back().end = i + 1;
  }
  return ranges;
}

// What is left to do. A lock and not an atomic counter, because work also comes back; it is taken
// once per chunk.
class WorkQueue {
 public:
  WorkQueue(const std::vector<Range>& ranges, std::size_t jobs)
      : ranges_(ranges.begin(), ranges.end()), jobs_(jobs) {
    for (const Range& range : ranges) left_ += range.end - range.begin;
  }

  // Up to `size` points, the earliest; fewer near the end, so that the threads finish together.
  // Empty: nothing is left.
  Range Take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    if (ranges_.empty()) return {};
    Range& first = ranges_.front();
    size = std::min({size, first.end - first.begin, std::max<std::size_t>(1, left_ / (4 * jobs_))});
    const Range taken = {first.begin, first.begin + size};
    first.begin += size;
    if (first.begin == first.end) ranges_.pop_front();
    left_ -= size;
    return taken;
  }

  std::size_t left() {
    const std::lock_guard lock(mutex_);
    return left_;
  }

  void GiveBack(Range range) {
    if (range.begin == range.end) return;
    const std::lock_guard lock(mutex_);
    ranges_.push_front(range);
    left_ += range.end - range.begin;
  }

 private:
  std::mutex mutex_;
  std::deque<Range> ranges_;
  std::size_t left_ = 0;
  std::size_t jobs_;
};

struct PointChunk {
  Range range;
  std::vector<PointRow> rows;
};

// From the workers to the writer.
class ResultQueue {
 public:
  explicit ResultQueue(std::size_t workers) : running_(workers) {}

  void Push(PointChunk chunk) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return rows_ < kQueuedRows || abandoned_; });
    rows_ += chunk.rows.size();
    chunks_.push_back(std::move(chunk));
    ready_.notify_one();
  }
  // A worker has ended, with an exception if it met one that is no InputError.
  void Leave(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    --running_;
    if (error && !error_) error_ = std::move(error);
    ready_.notify_one();
  }
  // What has arrived, waiting a little for something to. Sets `finished` once no worker is left and
  // nothing will follow.
  std::vector<PointChunk> Pop(double seconds, bool* finished) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return !chunks_.empty() || running_ == 0; });
    *finished = running_ == 0;
    rows_ = 0;
    room_.notify_all();
    return std::exchange(chunks_, {});
  }
  void Abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    room_.notify_all();
  }
  std::exception_ptr error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable room_;
  std::vector<PointChunk> chunks_;
  std::size_t rows_ = 0;
  std::size_t running_;
  bool abandoned_ = false;
  std::exception_ptr error_;
};

struct Shared {
  const JsonDocument& scenario;
  const Design& design;
  const PointEvaluator& evaluate;
  const std::atomic<bool>* stop;
  std::atomic<bool> halt = false;  // the sweep has failed
  WorkQueue work;
  ResultQueue results;

  bool Stopped() const {
    return halt.load(std::memory_order_relaxed) || (stop != nullptr && stop->load());
  }
};

void WorkOn(Shared* shared) {
  std::exception_ptr error;
  try {
    PointCursor cursor(shared->scenario, shared->design);
    double mean = 0;  // seconds per point
    while (!shared->Stopped()) {
      const std::size_t size = mean > 0 ? std::clamp(static_cast<std::size_t>(kChunkSeconds / mean),
                                                     std::size_t{1}, kLargestChunk)
                                        : 1;
      const Range range = shared->work.Take(size);
      if (range.begin == range.end) break;
      const Clock::time_point start = Clock::now();
      PointChunk chunk;
      chunk.rows.reserve(range.end - range.begin);
      std::size_t at = range.begin;
      double elapsed = 0;
      std::exception_ptr thrown;
      while (at < range.end && elapsed < kDeliverSeconds && !shared->Stopped()) {
        try {
          chunk.rows.push_back(EvaluatePoint(&cursor, shared->evaluate, at));
        } catch (...) {
          thrown = std::current_exception();
          break;
        }
        ++at;
        elapsed = Since(start);
      }
      chunk.range = {range.begin, at};
      shared->work.GiveBack({at, range.end});
      const std::size_t done = at - range.begin;
      if (done > 0) {
        const double now = elapsed / static_cast<double>(done);
        mean = mean == 0 ? now : 0.5 * (mean + now);
        mean = std::max(mean, 1e-9);
        shared->results.Push(std::move(chunk));
      }
      if (thrown) std::rethrow_exception(thrown);
    }
  } catch (...) {
    error = std::current_exception();
    shared->halt = true;
  }
  shared->results.Leave(error);
}

// Has points evaluated by others, and what they leave by this thread.
void WorkOutside(Shared* shared, const std::function<void(const SweepExchange&)>& outside) {
  SweepExchange exchange;
  exchange.left = [shared] { return shared->work.left(); };
  exchange.take = [shared](std::size_t most) { return shared->work.Take(most); };
  exchange.give_back = [shared](Range range) { shared->work.GiveBack(range); };
  exchange.deliver = [shared](Range range, std::vector<PointRow> rows) {
    assert(rows.size() == range.end - range.begin);
    if (!rows.empty()) shared->results.Push({range, std::move(rows)});
  };
  exchange.stopped = [shared] { return shared->Stopped(); };
  try {
    outside(exchange);
  } catch (...) {
    shared->halt = true;
    shared->results.Leave(std::current_exception());
    return;
  }
  WorkOn(shared);
}

// Brings chunks into the order of the ordinals.
class Sequencer {
 public:
  explicit Sequencer(const std::vector<Range>& ranges) : ranges_(ranges) {
    if (!ranges_.empty()) next_ = ranges_[0].begin;
  }

  void Add(PointChunk chunk) {
    held_rows_ += chunk.rows.size();
    held_.emplace(chunk.range.begin, std::move(chunk));
  }
  // Rows of the chunks that all before have arrived for.
  template <typename Use>
  void TakeReady(Use use) {
    while (!held_.empty() && held_.begin()->first == next_) {
      PointChunk chunk = std::move(held_.extract(held_.begin()).mapped());
      held_rows_ -= chunk.rows.size();
      for (const PointRow& row : chunk.rows) use(row);
      next_ = chunk.range.end;
      if (next_ == ranges_[range_].end && range_ + 1 < ranges_.size())
        next_ = ranges_[++range_].begin;
    }
  }
  // Rows of everything that has arrived, once; their chunks still count for the order.
  template <typename Use>
  void TakeAll(Use use) {
    TakeReady(use);
    for (auto& [begin, chunk] : held_) {
      for (const PointRow& row : chunk.rows) use(row);
      chunk.rows = {};
    }
    held_rows_ = 0;
  }
  std::size_t held_rows() const { return held_rows_; }

 private:
  const std::vector<Range>& ranges_;
  std::map<std::size_t, PointChunk> held_;
  std::size_t held_rows_ = 0;
  std::size_t range_ = 0;
  std::size_t next_ = 0;
};

// Threads that are joined on every way out.
class Workers {
 public:
  Workers(Shared* shared, std::size_t jobs, const SweepOptions& options) : shared_(shared) {
    for (std::size_t i = 0; i < jobs; ++i) threads_.emplace_back(WorkOn, shared);
    if (options.outside) threads_.emplace_back(WorkOutside, shared, options.outside);
  }
  ~Workers() {
    shared_->halt = true;
    shared_->results.Abandon();
    Join();
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  Shared* shared_;
  std::vector<std::thread> threads_;
};

}  // namespace

PointRow EvaluatePoint(PointCursor* cursor, const PointEvaluator& evaluate, std::size_t ordinal) {
  PointRow row;
  row.ordinal = ordinal;
  cursor->MoveTo(ordinal);
  row.id = cursor->id();
  try {
    row.figures = evaluate(cursor->document());
  } catch (const InputError& error) {
    row.status = error.exit_code() == ExitCode::kInfeasible ? PointStatus::kInfeasible
                                                            : PointStatus::kFailed;
    row.diagnostic = error.what();
  } catch (const std::bad_alloc&) {
    throw;  // says nothing about the point
  } catch (const std::exception& error) {
    row.status = PointStatus::kFailed;
    Diagnostic d;
    d.code = 729;
    d.message = std::string("an error of the program, not of the input: ") + error.what();
    d.help = "please report it with this point's scenario";
    row.diagnostic = FormatDiagnostic(d);
  }
  return row;
}

ExitCode SweepSummary::exit_code() const {
  if (interrupted) return ExitCode::kInterrupted;
  return failed > 0 ? ExitCode::kPartial : ExitCode::kOk;
}

SweepSummary RunSweep(const JsonDocument& scenario, const Design& design,
                      const PointEvaluator& evaluate, const SweepOptions& options, Store* store) {
  const Clock::time_point start = Clock::now();
  SweepSummary summary;
  const std::size_t points = design.points();
  summary.total = ShardPoints(options.shard, points);
  assert(store == nullptr || store->points() == points);
  assert(store == nullptr || store->study().shard == options.shard);
  if (store != nullptr) {
    summary.stored_before = store->Count();
    summary.ok = store->Count(PointStatus::kOk);
    summary.infeasible = store->Count(PointStatus::kInfeasible);
    summary.failed = store->Count(PointStatus::kFailed);
  }
  const std::vector<Range> missing = MissingRanges(points, options.shard, store);
  const std::size_t to_do = summary.total - summary.stored_before;
  PointCursor(scenario,
              design);  // a path that cannot be set at all is one error, not one per point

  const auto report = [&] {
    if (!options.progress) return;
    SweepProgress progress;
    progress.total = summary.total;
    progress.done = summary.stored_before + summary.evaluated;
    progress.failed = summary.failed;
    progress.infeasible = summary.infeasible;
    progress.committed = store != nullptr ? store->committed() : 0;
    progress.elapsed_s = Since(start);
    if (summary.evaluated > 0) {
      const auto left = static_cast<double>(to_do - summary.evaluated);
      progress.eta_s = progress.elapsed_s / static_cast<double>(summary.evaluated) * left;
    }
    options.progress(progress);
  };

  std::size_t lowest_failure = SIZE_MAX;
  const auto count = [&](const PointRow& row) {
    ++summary.evaluated;
    if (row.status == PointStatus::kOk) ++summary.ok;
    if (row.status == PointStatus::kInfeasible) ++summary.infeasible;
    if (row.status != PointStatus::kFailed) return;
    ++summary.failed;
    if (row.ordinal < lowest_failure) {
      lowest_failure = row.ordinal;
      summary.first_failure = row.diagnostic;
    }
  };

  std::exception_ptr error;
  if (to_do > 0) {
    const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
    const std::size_t jobs =
        std::min(options.jobs > 0 ? static_cast<std::size_t>(options.jobs) : processors, to_do);
    const std::size_t crew = jobs + static_cast<std::size_t>(std::max(0, options.outside_jobs));
    Shared shared{scenario,
                  design,
                  evaluate,
                  options.stop,
                  false,
                  WorkQueue(missing, crew),
                  ResultQueue(jobs + (options.outside ? 1 : 0))};
    Workers workers(&shared, jobs, options);
    Sequencer sequencer(missing);
    const auto use = [&](const PointRow& row) {
      if (store != nullptr) {
        store->Insert(row);
      } else if (options.on_point) {
        options.on_point(row);
      }
    };
    Clock::time_point committed = Clock::now();
    Clock::time_point reported = Clock::now();
    bool finished = false;
    while (!finished) {
      for (PointChunk& chunk : shared.results.Pop(kProgressSeconds, &finished)) {
        for (const PointRow& row : chunk.rows) count(row);
        sequencer.Add(std::move(chunk));
      }
      sequencer.TakeReady(use);
      if (store != nullptr) {
        const double patience =
            std::clamp(kCommitShare * Since(start), kFirstCommitSeconds, kCommitSeconds);
        const bool due = finished || Since(committed) >= patience;
        if (due || sequencer.held_rows() >= kHeldRows) sequencer.TakeAll(use);
        if (due || store->Count() - store->committed() >= kCommitRows) {
          store->Commit();
          committed = Clock::now();
        }
      }
      if (Since(reported) >= kProgressSeconds) {
        report();
        reported = Clock::now();
      }
    }
    // Interrupted without a store: what was done beyond the first gap is handed over too, still in
    // order.
    sequencer.TakeAll(use);
    workers.Join();
    error = shared.results.error();
  }
  summary.interrupted = summary.evaluated < to_do;
  if (store != nullptr) {
    if (summary.interrupted) {
      store->Close();
    } else {
      store->Finish();
    }
  }
  if (error) std::rethrow_exception(error);
  summary.elapsed_s = Since(start);
  report();
  return summary;
}

}  // namespace aurum
