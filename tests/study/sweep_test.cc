#include "sim/study/sweep.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <new>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/core/object_reader.h"
#include "tests/study/scratch.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Study GridStudy() {
  Study study;
  study.scenario = ParseJson(R"({"a": 0, "plan": {"b": "x"}})", "grid.json");
  study.design =
      std::vector<Axis>{ParseVary("a=1:40:1"), ParseVary("plan.b=x,y,z"), ParseVary("c=0.1:1:0.1")};
  study.tool_version = "test";
  return study;
}

// Some points fail, some are infeasible, and some have a figure more.
std::vector<Figure> EvaluateGrid(const JsonDocument& point) {
  ObjectReader reader(point, point.root, "");
  const std::int64_t a = reader.Integer("a", 1, 1000);
  ObjectReader plan = reader.Object("plan");
  const std::string b = plan.String("b");
  const double c = reader.Number("c", 0, 1);
  if (a % 7 == 3 && b == "y")
    plan.Fail(312, "b", "b does not divide", "another b", "", ExitCode::kInfeasible);
  if (a % 11 == 1 && c > 0.85) reader.Fail(107, "c", "c is too large", "less c");
  std::vector<Figure> figures = {{"time_s", static_cast<double>(a) / c}, {"bound", b + "!"}};
  if (a > 20) figures.push_back({"extra", c});
  return figures;
}

SweepSummary RunGrid(const std::string& path, const Study& study, const PointEvaluator& evaluate,
                     SweepOptions options) {
  Store store = Store::Open(path, study);
  return RunSweep(study.scenario, study.design, evaluate, options, &store);
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
    return EvaluateGrid(point);
  };
}

TEST_CASE("any number of jobs gives the same bytes, and failures stop nothing") {
  const Scratch scratch;
  const Study study = GridStudy();
  std::string bytes;
  for (const int jobs : {1, 2, 4}) {
    std::atomic<int> calls = 0;
    const std::string path = scratch.File(std::to_string(jobs) + ".db");
    const SweepSummary summary = RunGrid(path, study, Uneven(&calls), Jobs(jobs));
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
      CHECK(point.figures[0].AsNumber() ==
            point.axis_values[0].AsNumber() / point.axis_values[2].AsNumber());
    } else {
      CHECK(point.diagnostic.find(point.status == PointStatus::kFailed ? "E0107" : "E0312") !=
            std::string::npos);
    }
  }
  CHECK(next == 1200);
}

TEST_CASE("interrupted and resumed, again and again, gives the bytes of an uninterrupted run") {
  const Scratch scratch;
  const Study study = GridStudy();
  CHECK(RunGrid(scratch.File("whole.db"), study, EvaluateGrid, Jobs(2)).evaluated == 1200);
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
      return EvaluateGrid(point);
    };
    const SweepSummary summary = RunGrid(path, study, evaluate, options);
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
  const SweepSummary again = RunGrid(
      path, study, [](const JsonDocument&) -> std::vector<Figure> { throw 1; }, Jobs(2));
  CHECK(again.evaluated == 0);
  CHECK(again.failed == 24);
}

TEST_CASE("one slow point neither holds back the others nor reorders anything") {
  const Scratch scratch;
  Study study = GridStudy();
  study.design = std::vector<Axis>{ParseVary("a=1:300:1")};
  std::atomic<bool> slow_may_end = false;
  // A figure's name depends on the point, so the columns show in which order points were seen.
  const auto figures = [](const JsonDocument& point) {
    const std::int64_t a = point.root.Find("a")->AsInteger();
    return std::vector<Figure>{{"a" + std::to_string(a / 100), static_cast<double>(a)}};
  };
  // The second point takes until the store holds 100 points that come after it: for ever, if the
  // store waited for it.
  const auto evaluate = [&](const JsonDocument& point) {
    const bool slow = point.root.Find("a")->AsInteger() == 2;
    for (int i = 0; slow && !slow_may_end; ++i) {
      if (i == 60'000) throw std::bad_alloc();  // nothing was stored beyond the slow point
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return figures(point);
  };
  SweepOptions options = Jobs(2);
  options.progress = [&](const SweepProgress& progress) {
    CHECK(progress.committed <= progress.done);
    if (progress.committed > 100) slow_may_end = true;
  };
  Store store = Store::Open(scratch.File("two.db"), study);
  CHECK(RunSweep(study.scenario, study.design, evaluate, options, &store).ok == 300);
  RunGrid(scratch.File("one.db"), study, figures, Jobs(1));
  CHECK((FileBytes(scratch.File("one.db")) == FileBytes(scratch.File("two.db"))));
}

TEST_CASE("without a store every point is handed over in order") {
  const Study study = GridStudy();
  for (const int jobs : {1, 3}) {
    SweepOptions options = Jobs(jobs);
    std::vector<PointRow> rows;
    options.on_point = [&](const PointRow& row) { rows.push_back(row); };
    const SweepSummary summary =
        RunSweep(study.scenario, study.design, EvaluateGrid, options, nullptr);
    REQUIRE(rows.size() == 1200);
    std::set<std::string> ids;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(rows[i].ordinal == i);
      ids.insert(rows[i].id.Hex());
    }
    CHECK(ids.size() == 1200);
    CHECK(rows[777].id == PointId(study.scenario, study.design, 777));
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

TEST_CASE("a point that meets a bug has failed, and stops nothing") {
  const Scratch scratch;
  const Study study = GridStudy();
  const auto evaluate = [&](const JsonDocument& point) {
    if (point.root.Find("a")->AsInteger() == 5) throw std::logic_error("a negative time");
    return EvaluateGrid(point);
  };
  const SweepSummary summary = RunGrid(scratch.File("run.db"), study, evaluate, Jobs(3));
  CHECK(summary.evaluated == 1200);
  CHECK(summary.failed == 24 + 30);
  CHECK(summary.exit_code() == ExitCode::kPartial);
  StoreReader reader(scratch.File("run.db"));
  StoredPoint point;
  while (reader.Next(&point)) {
    if (point.axis_values[0].AsInteger() != 5) continue;
    CHECK(point.diagnostic.find("error[E0729]") != std::string::npos);
    CHECK(point.diagnostic.find("a negative time") != std::string::npos);
  }
}

TEST_CASE("a machine out of memory ends the sweep, and what was done stays") {
  const Scratch scratch;
  const Study study = GridStudy();
  std::atomic<int> calls = 0;
  const auto evaluate = [&](const JsonDocument& point) {
    if (calls.fetch_add(1) == 500) throw std::bad_alloc();
    return EvaluateGrid(point);
  };
  CHECK_THROWS_AS(RunGrid(scratch.File("run.db"), study, evaluate, Jobs(3)), std::bad_alloc);
  CHECK(Store::Open(scratch.File("run.db"), study).Count() == static_cast<std::size_t>(calls) - 1);
}

TEST_CASE("a path that cannot be set is one error, and no point is evaluated") {
  Study study = GridStudy();
  study.design = std::vector<Axis>{ParseVary("a.b.c=1,2")};
  const Diagnostic d =
      ThrownBy([&] { RunSweep(study.scenario, study.design, EvaluateGrid, Jobs(2), nullptr); });
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
  RunSweep(study.scenario, study.design, EvaluateGrid, options, nullptr);
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
  const Study study = GridStudy();
  RunGrid(scratch.File("whole.db"), study, EvaluateGrid, Jobs(1));
  const std::string whole = FileBytes(scratch.File("whole.db"));
  const std::string path = scratch.File("run.db");
  std::mt19937 random(20);
  std::size_t stored = 0;
  int killed = 0;
  int completed = 0;
  while (killed < 20) {
    REQUIRE(killed + completed < 200);
    int channel[2];
    REQUIRE(::pipe(channel) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // Small commits, of points in random order, and after each one word of how much is safe; then
      // a sweep for the rest.
      ::close(channel[0]);
      const auto say = [&](std::size_t safe) {
        if (::write(channel[1], &safe, sizeof safe) != sizeof safe) ::_exit(2);
      };
      try {
        Store store = Store::Open(path, study);
        std::vector<std::size_t> missing;
        for (std::size_t i = 0; i < store.points(); ++i) {
          if (!store.Has(i)) missing.push_back(i);
        }
        std::mt19937 shuffler(static_cast<unsigned>(missing.size()));
        std::shuffle(missing.begin(), missing.end(), shuffler);
        PointCursor cursor(study.scenario, study.design);
        for (std::size_t i = 0; i < missing.size() / 2; ++i) {
          PointRow row;
          row.ordinal = missing[i];
          cursor.MoveTo(row.ordinal);
          row.id = cursor.id();
          try {
            row.figures = EvaluateGrid(cursor.document());
          } catch (const InputError& error) {
            row.status = error.exit_code() == ExitCode::kInfeasible ? PointStatus::kInfeasible
                                                                    : PointStatus::kFailed;
            row.diagnostic = error.what();
          }
          store.Insert(row);
          if (i % 20 != 0) continue;
          store.Commit();
          say(store.committed());
        }
        const SweepSummary summary =
            RunSweep(study.scenario, study.design, EvaluateGrid, Jobs(2), &store);
        say(summary.total);
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    ::close(channel[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 60'000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    std::size_t safe = 0;
    for (std::size_t said = 0; ::read(channel[0], &said, sizeof said) == sizeof said;) safe = said;
    ::close(channel[0]);
    if (WIFSIGNALED(status)) {
      ++killed;
      if (!std::filesystem::exists(path)) continue;
      const Store store = Store::Open(path, study);
      CHECK(store.Count() >= safe);
      CHECK(store.Count() >= stored);
      stored = store.Count();
    } else {
      CHECK(WEXITSTATUS(status) == 0);
    }
    if (!WIFSIGNALED(status) || stored == 1200) {
      // Complete, or all but: the bytes are those of a run that nothing disturbed. Then begin
      // again.
      ++completed;
      RunGrid(path, study, EvaluateGrid, Jobs(2));
      CHECK((FileBytes(path) == whole));
      for (const char* rest : {"", "-wal", "-shm", "-journal", "-final"})
        std::filesystem::remove(path + rest);
      stored = 0;
    }
  }
  const SweepSummary summary = RunGrid(path, study, EvaluateGrid, Jobs(2));
  CHECK(summary.stored_before == stored);
  CHECK(summary.stored_before + summary.evaluated == 1200);
  CHECK((FileBytes(path) == whole));
  CHECK(!std::filesystem::exists(path + "-wal"));
  CHECK(!std::filesystem::exists(path + "-final"));
  MESSAGE(completed, " runs completed between the kills");
}
#endif

}  // namespace
}  // namespace aurum
