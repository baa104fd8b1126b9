#include "sim/study/sweep.h"

#include <csignal>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/study/scratch.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Study GridStudy() {
  Study study;
  study.scenario = ParseJson(R"({"a": 0, "plan": {"b": "x"}})", "grid.json");
  study.axes = {ParseVary("a=1:40:1"), ParseVary("plan.b=x,y,z"), ParseVary("c=0.1:1:0.1")};
  study.tool_version = "test";
  return study;
}

// Some points fail, some are infeasible, and some have a figure more.
std::vector<Figure> Evaluate(const JsonDocument& point) {
  ObjectReader reader(point, point.root, "");
  const std::int64_t a = reader.Integer("a", 1, 1000);
  ObjectReader plan = reader.Object("plan");
  const std::string b = plan.String("b");
  const double c = reader.Number("c", 0, 1);
  if (a % 7 == 3 && b == "y") plan.Fail(312, "b", "b does not divide", "another b", "", ExitCode::kInfeasible);
  if (a % 11 == 1 && c > 0.85) reader.Fail(107, "c", "c is too large", "less c");
  std::vector<Figure> figures = {{"time_s", static_cast<double>(a) / c}, {"bound", b + "!"}};
  if (a > 20) figures.push_back({"extra", c});
  return figures;
}

SweepSummary Run(const std::string& path, const Study& study, const PointEvaluator& evaluate, SweepOptions options) {
  Store store = Store::Open(path, study);
  return RunSweep(study.scenario, study.axes, evaluate, options, &store);
}

SweepOptions Jobs(int jobs) {
  SweepOptions options;
  options.jobs = jobs;
  return options;
}

// Long enough for the threads to overtake each other.
PointEvaluator Uneven(std::atomic<int>* calls) {
  return [calls](const JsonDocument& point) {
    const int call = calls->fetch_add(1);
    if (call % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    return Evaluate(point);
  };
}

TEST_CASE("any number of jobs gives the same bytes, and failures stop nothing") {
  const Scratch scratch;
  const Study study = GridStudy();
  std::string bytes;
  for (const int jobs : {1, 2, 4}) {
    std::atomic<int> calls = 0;
    const std::string path = scratch.File(std::to_string(jobs) + ".db");
    const SweepSummary summary = Run(path, study, Uneven(&calls), Jobs(jobs));
    CHECK(calls == 1200);
    CHECK(summary.total == 1200);
    CHECK(summary.evaluated == 1200);
    CHECK(summary.stored_before == 0);
    // a in {3, 10, 17, 24, 31, 38} with y; a in {1, 12, 23, 34} with c of 0.9 or 1.
    CHECK(summary.infeasible == 6 * 10);
    CHECK(summary.failed == 4 * 3 * 2);
    CHECK(summary.ok == 1200 - 60 - 24);
    CHECK(!summary.interrupted);
    CHECK(summary.exit_code() == ExitCode::kPartial);
    CHECK(summary.first_failure.find("axis c = 0.9") != std::string::npos);
    if (bytes.empty()) bytes = FileBytes(path);
    CHECK(bytes.size() > 50000);
    CHECK((FileBytes(path) == bytes));
  }
  StoreReader reader(scratch.File("2.db"));
  StoredPoint point;
  std::size_t next = 0;
  while (reader.Next(&point)) {
    CHECK(point.ordinal == next++);
    if (point.status == PointStatus::kOk) {
      CHECK(point.figures[0].AsNumber() == point.axis_values[0].AsNumber() / point.axis_values[2].AsNumber());
    } else {
      CHECK(point.diagnostic.find(point.status == PointStatus::kFailed ? "E0107" : "E0312") != std::string::npos);
    }
  }
  CHECK(next == 1200);
}

TEST_CASE("interrupted and resumed, again and again, gives the bytes of an uninterrupted run") {
  const Scratch scratch;
  const Study study = GridStudy();
  CHECK(Run(scratch.File("whole.db"), study, Evaluate, Jobs(2)).evaluated == 1200);
  const std::string path = scratch.File("parts.db");
  std::size_t done = 0;
  int rounds = 0;
  while (done < 1200) {
    std::atomic<bool> stop = false;
    std::atomic<int> calls = 0;
    SweepOptions options = Jobs(1 + rounds % 3);
    options.stop = &stop;
    const auto evaluate = [&](const JsonDocument& point) {
      if (calls.fetch_add(1) == 170) stop = true;
      return Evaluate(point);
    };
    const SweepSummary summary = Run(path, study, evaluate, options);
    CHECK(summary.stored_before == done);
    // What was evaluated was stored: no call was in vain.
    CHECK(summary.evaluated == static_cast<std::size_t>(calls));
    done += summary.evaluated;
    CHECK(summary.ok + summary.infeasible + summary.failed == done);
    CHECK(summary.interrupted == (done < 1200));
    if (summary.interrupted) CHECK(summary.exit_code() == ExitCode::kInterrupted);
    CHECK(!std::filesystem::exists(path + "-wal"));
    REQUIRE(++rounds < 20);
  }
  CHECK(rounds >= 6);
  CHECK((FileBytes(path) == FileBytes(scratch.File("whole.db"))));
  // Once more: nothing is left to do, and nothing is done.
  const SweepSummary again = Run(path, study, [](const JsonDocument&) -> std::vector<Figure> { throw 1; }, Jobs(2));
  CHECK(again.evaluated == 0);
  CHECK(again.failed == 24);
}

TEST_CASE("one slow point neither holds back the others nor reorders anything") {
  const Scratch scratch;
  Study study = GridStudy();
  study.axes = {ParseVary("a=1:300:1")};
  const auto evaluate = [](const JsonDocument& point) {
    const std::int64_t a = point.root.Find("a")->AsInteger();
    // The second point outlasts the second that the writer waits for order; the rest is stored around it.
    if (a == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1600));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::vector<Figure>{{"a" + std::to_string(a / 100), static_cast<double>(a)}};
  };
  SweepOptions options = Jobs(2);
  std::size_t most_while_slow = 0;
  options.progress = [&](const SweepProgress& progress) {
    if (progress.done < 300) most_while_slow = std::max(most_while_slow, progress.committed);
    CHECK(progress.committed <= progress.done);
    CHECK(progress.total == 300);
  };
  Run(scratch.File("two.db"), study, evaluate, options);
  CHECK(most_while_slow > 100);
  const auto quick = [](const JsonDocument& point) {
    const std::int64_t a = point.root.Find("a")->AsInteger();
    return std::vector<Figure>{{"a" + std::to_string(a / 100), static_cast<double>(a)}};
  };
  Run(scratch.File("one.db"), study, quick, Jobs(1));
  CHECK((FileBytes(scratch.File("one.db")) == FileBytes(scratch.File("two.db"))));
}

TEST_CASE("without a store every point is handed over in order") {
  const Study study = GridStudy();
  for (const int jobs : {1, 3}) {
    SweepOptions options = Jobs(jobs);
    std::vector<PointRow> rows;
    options.on_point = [&](const PointRow& row) { rows.push_back(row); };
    const SweepSummary summary = RunSweep(study.scenario, study.axes, Evaluate, options, nullptr);
    REQUIRE(rows.size() == 1200);
    std::set<std::string> ids;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(rows[i].ordinal == i);
      ids.insert(rows[i].id.Hex());
    }
    CHECK(ids.size() == 1200);
    CHECK(rows[777].id == PointId(study.scenario, study.axes, 777));
    CHECK(summary.failed == 24);
  }
}

TEST_CASE("no axes is a sweep of one point") {
  SweepOptions options;
  std::size_t rows = 0;
  options.on_point = [&](const PointRow&) { ++rows; };
  const JsonDocument scenario = ParseJson(R"({"a": 1})", "s");
  const auto evaluate = [](const JsonDocument& point) {
    return std::vector<Figure>{{"a", point.root.Find("a")->AsNumber()}};
  };
  const SweepSummary summary = RunSweep(scenario, {}, evaluate, options, nullptr);
  CHECK(rows == 1);
  CHECK(summary.ok == 1);
  CHECK(summary.exit_code() == ExitCode::kOk);
}

TEST_CASE("a bug in the evaluator ends the sweep, and what was done stays") {
  const Scratch scratch;
  const Study study = GridStudy();
  std::atomic<int> calls = 0;
  const auto evaluate = [&](const JsonDocument& point) {
    if (calls.fetch_add(1) == 500) throw std::runtime_error("bug");
    return Evaluate(point);
  };
  CHECK_THROWS_AS(Run(scratch.File("run.db"), study, evaluate, Jobs(3)), std::runtime_error);
  CHECK(Store::Open(scratch.File("run.db"), study).Count() == static_cast<std::size_t>(calls) - 1);
}

TEST_CASE("a path that cannot be set is one error, and no point is evaluated") {
  Study study = GridStudy();
  study.axes = {ParseVary("a.b.c=1,2")};
  const Diagnostic d =
      ThrownBy([&] { RunSweep(study.scenario, study.axes, Evaluate, Jobs(2), nullptr); });
  CHECK(d.code == 106);
}

TEST_CASE("progress is reported in moderation and ends at the total") {
  Study study = GridStudy();
  SweepOptions options = Jobs(2);
  int reports = 0;
  SweepProgress last;
  options.progress = [&](const SweepProgress& progress) {
    ++reports;
    CHECK(progress.done >= last.done);
    CHECK(progress.elapsed_s >= last.elapsed_s);
    last = progress;
  };
  RunSweep(study.scenario, study.axes, Evaluate, options, nullptr);
  CHECK(last.done == 1200);
  CHECK(last.failed == 24);
  CHECK(last.infeasible == 60);
  CHECK(last.eta_s == 0);
  CHECK(reports <= 1 + last.elapsed_s * 5);
}

// A thread started in the child of a process that had threads is more than ThreadSanitizer follows.
#ifndef __SANITIZE_THREAD__
TEST_CASE("killed at any moment, a sweep loses no committed point and completes later") {
  const Scratch scratch;
  Study study = GridStudy();
  study.axes[0] = ParseVary("a=1:400:1");  // 12,000 points
  const std::string path = scratch.File("run.db");
  const auto evaluate = [](const JsonDocument& point) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    std::vector<Figure> figures = Evaluate(point);
    while (std::chrono::steady_clock::now() < until) {
    }
    return figures;
  };
  std::mt19937 random(20);
  std::size_t stored = 0;
  int killed = 0;
  for (int round = 0; round < 20; ++round) {
    int channel[2];
    REQUIRE(::pipe(channel) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // Commits small batches, and says after each one how much is safe.
      ::close(channel[0]);
      try {
        Store store = Store::Open(path, study);
        SweepOptions options = Jobs(2);
        std::mutex mutex;
        for (std::size_t i = 0; i < store.points(); ++i) {
          if (store.Has(i)) continue;
          PointCursor cursor(study.scenario, study.axes);
          cursor.MoveTo(i);
          PointRow row;
          row.ordinal = i;
          row.id = cursor.id();
          row.figures = {{"time_s", 1.0}, {"bound", std::string("direct")}};
          if (i % 3 == 0) store.Insert(row);
          if (i % 97 == 0) {
            store.Commit();
            const std::size_t safe = store.committed();
            if (::write(channel[1], &safe, sizeof safe) != sizeof safe) ::_exit(2);
          }
          if (i > 6000) break;
        }
        store.Close();
        Store again = Store::Open(path, study);
        options.progress = [&](const SweepProgress& progress) {
          if (::write(channel[1], &progress.committed, sizeof progress.committed) < 0) ::_exit(2);
        };
        RunSweep(study.scenario, study.axes, evaluate, options, &again);
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    ::close(channel[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + random() % 60000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) {
      ++killed;
    } else {
      CHECK(WEXITSTATUS(status) == 0);
    }
    std::size_t safe = 0;
    for (std::size_t said = 0; ::read(channel[0], &said, sizeof said) == sizeof said;) safe = said;
    ::close(channel[0]);
    if (!std::filesystem::exists(path)) continue;
    const Store store = Store::Open(path, study);
    CHECK(store.Count() >= safe);
    CHECK(store.Count() >= stored);
    stored = store.Count();
  }
  CHECK(killed > 0);
  const SweepSummary summary = Run(path, study, evaluate, Jobs(2));
  CHECK(summary.stored_before == stored);
  CHECK(summary.stored_before + summary.evaluated == 12000);
  StoreReader reader(path);
  CHECK(reader.info().complete);
  StoredPoint point;
  std::set<std::string> ids;
  std::size_t rows = 0;
  while (reader.Next(&point)) {
    CHECK(point.ordinal == rows++);
    ids.insert(point.id.Hex());
  }
  CHECK(rows == 12000);
  CHECK(ids.size() == 12000);
}
#endif

}  // namespace
}  // namespace aurum
