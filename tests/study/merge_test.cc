#include "sim/study/merge.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/core/object_reader.h"
#include "sim/study/database.h"
#include "sim/study/store_reader.h"
#include "sim/study/sweep.h"
#include "tests/study/scratch.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Study MergedStudy() {
  Study study;
  study.scenario = ParseJson(R"({"a": 0, "plan": {"b": "x"}})", "small.json");
  study.design = Design({ParseVary("plan.b=x,y,z"), ParseVary("a=1:40:1")});
  study.tool_version = "test";
  study.fingerprint = "print";
  return study;
}

// Which figures a point has changes from point to point, as it does with models and encoders: columns
// are what merging has to bring into one order.
std::vector<Figure> EvaluateMerged(const JsonDocument& point) {
  ObjectReader reader(point, point.root, "");
  const std::int64_t a = reader.Integer("a", 1, 1000);
  ObjectReader plan = reader.Object("plan");
  const std::string b = plan.String("b");
  if (b == "y" && a % 9 == 4)
    plan.Fail(312, "b", "b does not divide", "another b", "", ExitCode::kInfeasible);
  if (b == "z" && a == 7) reader.Fail(107, "a", "a is unlucky", "another a");
  std::vector<Figure> figures = {{"time_s", 1.0 / static_cast<double>(a)}};
  if (b == "z") figures.push_back({"f_over_b_s.audio", static_cast<double>(a)});
  if (b != "y" || a > 20) figures.push_back({"f_over_b_s.vision", 2.0 * static_cast<double>(a)});
  if (a == 33) figures.push_back({"rare", std::nan("")});
  figures.push_back({"bound", b + "!"});
  return figures;
}

void SweepInto(const std::string& path, Study study, Shard shard, std::size_t most = SIZE_MAX) {
  study.shard = shard;
  Store store = Store::Open(path, study);
  SweepOptions options;
  options.jobs = 1;
  options.shard = shard;
  std::atomic<bool> stop = false;
  std::atomic<std::size_t> calls = 0;
  options.stop = &stop;
  RunSweep(
      study.scenario, study.design,
      [&](const JsonDocument& point) {
        if (++calls >= most) stop = true;
        return EvaluateMerged(point);
      },
      options, &store);
}

std::vector<std::string> Shards(const Scratch& scratch, std::size_t count) {
  std::vector<std::string> paths;
  for (std::size_t i = 1; i <= count; ++i) {
    paths.push_back(scratch.File("of" + std::to_string(count) + "-" + std::to_string(i) + ".db"));
    SweepInto(paths.back(), MergedStudy(), {i, count});
  }
  return paths;
}

std::string Whole(const Scratch& scratch) {
  const std::string path = scratch.File("whole.db");
  SweepInto(path, MergedStudy(), {});
  return FileBytes(path);
}

TEST_CASE("any number of shards, merged in any order, is what one process writes") {
  const Scratch scratch;
  const std::string whole = Whole(scratch);
  for (const std::size_t count : {1, 2, 3, 4, 40, 200}) {
    CAPTURE(count);
    std::vector<std::string> paths = Shards(scratch, count);
    for (const bool backwards : {false, true}) {
      if (backwards) std::reverse(paths.begin(), paths.end());
      const std::string merged =
          scratch.File("merged" + std::to_string(count) + (backwards ? "b.db" : "f.db"));
      const MergeSummary summary = MergeStores(paths, merged, {});
      CHECK(summary.points == 120);
      CHECK(summary.merged == 120);
      CHECK(summary.missing == 0);
      CHECK(summary.duplicates == 0);
      CHECK(summary.failed == 1);
      CHECK(summary.infeasible == 5);
      CHECK(summary.ok == 114);
      CHECK(summary.exit_code() == ExitCode::kPartial);
      CHECK((FileBytes(merged) == whole));
    }
  }
}

// Threads, ranks and kills decide in what order points are stored. Here the first point that has both
// audio and vision comes last, after points that have either.
TEST_CASE("points stored in any order give the columns of the order of the ordinals") {
  const Scratch scratch;
  const std::string whole = Whole(scratch);
  const Study study = MergedStudy();
  std::vector<PointRow> rows;
  SweepOptions options;
  options.on_point = [&](const PointRow& row) { rows.push_back(row); };
  RunSweep(study.scenario, study.design, EvaluateMerged, options, nullptr);
  for (int turn = 0; turn < 3; ++turn) {
    if (turn > 0) std::reverse(rows.begin(), rows.end());
    if (turn == 2) std::rotate(rows.begin(), rows.begin() + 90, rows.end());
    const std::string path = scratch.File("turn" + std::to_string(turn) + ".db");
    for (std::size_t i = 0; i < rows.size(); i += 50) {  // several runs, as of interrupted ones
      Store store = Store::Open(path, study);
      for (std::size_t k = i; k < std::min(i + 50, rows.size()); ++k) store.Insert(rows[k]);
      store.Close();
    }
    Store::Open(path, study).Finish();
    CHECK((FileBytes(path) == whole));
  }
}

TEST_CASE("a store of a shard says so, and is final when the shard is complete") {
  const Scratch scratch;
  const std::string path = Shards(scratch, 4)[1];
  StoreReader reader(path);
  CHECK(reader.info().shard == Shard{2, 4});
  CHECK(reader.info().points == 120);
  CHECK(reader.info().complete);
  CHECK(reader.Count() == ShardPoints({2, 4}, 120));
  StoredPoint point;
  while (reader.Next(&point)) CHECK(ShardOf(point.ordinal, 120, 4) == 2);
  const std::string bytes = FileBytes(path);
  SweepInto(path, MergedStudy(), {2, 4});
  CHECK((FileBytes(path) == bytes));
  for (const Shard other : {Shard{3, 4}, Shard{2, 5}, Shard{}}) {
    Study study = MergedStudy();
    study.shard = other;
    const Diagnostic error = ThrownBy([&] { Store::Open(path, study); });
    CHECK(error.code == 723);
    CHECK(error.message.find("shard 2/4") != std::string::npos);
  }
  CHECK((FileBytes(path) == bytes));
}

TEST_CASE("overlaps are dropped, unfinished stores of one study make a whole") {
  const Scratch scratch;
  const std::string whole = Whole(scratch);
  std::vector<std::string> paths = Shards(scratch, 2);
  const std::vector<std::string> quarters = Shards(scratch, 4);
  paths.push_back(quarters[0]);
  paths.push_back(scratch.File("begun.db"));
  SweepInto(paths.back(), MergedStudy(), {}, 50);
  StoreReader begun(paths.back());
  const std::size_t also = begun.Count() + ShardPoints({1, 4}, 120);
  REQUIRE(begun.Count() >= 50);
  const MergeSummary summary = MergeStores(paths, scratch.File("merged.db"), {});
  CHECK(summary.duplicates == also);
  CHECK(summary.merged == 120);
  CHECK((FileBytes(scratch.File("merged.db")) == whole));
  CHECK(summary.inputs[3].shard.IsWhole());
  CHECK(summary.inputs[3].points == begun.Count());
}

TEST_CASE("missing shards are named with their remedy, and nothing is written") {
  const Scratch scratch;
  std::vector<std::string> paths = Shards(scratch, 4);
  paths.erase(paths.begin() + 2);
  const std::string half = scratch.File("half.db");
  SweepInto(half, MergedStudy(), {4, 4}, 10);
  paths[2] = half;
  const std::string out = scratch.File("merged.db");
  const Diagnostic error = ThrownBy([&] { MergeStores(paths, out, {}); });
  CHECK(error.code == 848);
  CHECK(error.message.find("shard 3/4 is not among them") != std::string::npos);
  CHECK(error.message.find("shard 4/4 has 10 of its 30 points in '" + half) != std::string::npos);
  CHECK(error.message.find("shard 1/4") == std::string::npos);
  CHECK(error.help.find("--shard 3/4 -o RUN-3.db") != std::string::npos);
  CHECK(!std::filesystem::exists(out));

  const std::vector<std::string> mixed = {paths[0], Shards(scratch, 3)[0]};
  const Diagnostic unnamed = ThrownBy([&] { MergeStores(mixed, out, {}); });
  CHECK(unnamed.code == 848);
  CHECK(unnamed.message.find("plan.b = ") != std::string::npos);
  CHECK(!std::filesystem::exists(out));
}

TEST_CASE("a partial merge is a store that a sweep, or the missing shard, completes") {
  const Scratch scratch;
  const std::string whole = Whole(scratch);
  const std::vector<std::string> paths = Shards(scratch, 4);
  const std::string out = scratch.File("merged.db");
  MergeOptions partial;
  partial.partial = true;
  const MergeSummary summary = MergeStores({paths[3], paths[0]}, out, partial);
  CHECK(summary.missing == 60);
  CHECK(summary.merged == 60);
  CHECK(summary.exit_code() == ExitCode::kPartial);
  CHECK(StoreReader(out).Count() == 60);
  CHECK(!StoreReader(out).info().complete);
  std::filesystem::copy_file(out, scratch.File("swept.db"));
  SweepInto(scratch.File("swept.db"), MergedStudy(), {});
  CHECK((FileBytes(scratch.File("swept.db")) == whole));
  const MergeSummary rest = MergeStores({paths[1], paths[2]}, out, {});
  CHECK(rest.stored_before == 60);
  CHECK(rest.merged == 60);
  CHECK((FileBytes(out) == whole));
  CHECK(MergeStores({paths[1]}, out, {}).merged == 0);  // all there
  CHECK((FileBytes(out) == whole));
}

TEST_CASE("another study, or another version's, is refused with what differs") {
  const Scratch scratch;
  const std::string out = scratch.File("merged.db");
  const std::string mine = Shards(scratch, 2)[0];
  const auto refused = [&](const Study& study, const std::string& why) {
    const std::string other = scratch.File("other.db");
    std::filesystem::remove(other);
    SweepInto(other, study, {2, 2});
    const Diagnostic error = ThrownBy([&] { MergeStores({mine, other}, out, {}); });
    CHECK(error.code == 847);
    CAPTURE(error.message);
    CHECK(error.message.find(why) != std::string::npos);
    CHECK(error.message.find(other) != std::string::npos);
    CHECK(!std::filesystem::exists(out));
  };
  Study study = MergedStudy();
  study.scenario = ParseJson(R"({"a": 1, "plan": {"b": "x"}})", "small.json");
  refused(study, "/a is 0 there and 1 here");
  study = MergedStudy();
  study.design = Design({ParseVary("plan.b=x,y,z"), ParseVary("a=1:41:1")});
  refused(study, "/sweep/axes/1");
  study = MergedStudy();
  study.tool_version = "later";
  refused(study, "computed by Aurum test");
  study = MergedStudy();
  study.fingerprint = "changed";
  refused(study, "profile");
}

TEST_CASE("a point with two results is refused with both of them") {
  const Scratch scratch;
  const std::string out = scratch.File("merged.db");
  std::vector<std::string> paths = Shards(scratch, 2);
  // Of a complete store a checksum tells that it was changed; of one that is not, nothing but this.
  const std::string whole = scratch.File("whole.db");
  SweepInto(whole, MergedStudy(), {}, 50);
  const auto change = [](const std::string& path, const std::string& sql) {
    Database database(path, Database::Mode::kCreate);
    database.Execute(sql);
  };
  change(whole, "UPDATE points SET time_s = 7 WHERE ordinal = 1");
  const Diagnostic error = ThrownBy([&] { MergeStores({paths[1], paths[0], whole}, out, {}); });
  CHECK(error.code == 849);
  CHECK(error.message.find("point 1 (plan.b = \"x\", a = 2)") != std::string::npos);
  CHECK(error.message.find("time_s is 0.5 in '" + paths[1] + "' and 7.0 in '" + whole + "'") !=
        std::string::npos);
  CHECK(!std::filesystem::exists(out));

  change(whole, "UPDATE points SET time_s = 0.5 WHERE ordinal = 1");
  CHECK(MergeStores({paths[1], paths[0], whole}, out, {}).duplicates == StoreReader(whole).Count());
  change(whole, "UPDATE points SET status = 'failed' WHERE ordinal = 0");
  const Diagnostic status = ThrownBy([&] { MergeStores({whole, paths[0], paths[1]}, out, {}); });
  CHECK(status.code == 849);
  CHECK(status.message.find("its status is failed") != std::string::npos);
  // The output's own rows are no exception.
  const Diagnostic own = ThrownBy([&] { MergeStores({whole}, out, {}); });
  CHECK(own.code == 849);
  CHECK(own.message.find(out) != std::string::npos);

  const std::string begun = scratch.File("begun.db");
  SweepInto(begun, MergedStudy(), {}, 50);
  change(begun, "UPDATE points SET id = zeroblob(16) WHERE ordinal = 0");
  const Diagnostic id = ThrownBy([&] { MergeStores({begun}, scratch.File("n.db"), {}); });
  CHECK(id.code == 849);
  CHECK(id.message.find("has the id 00000000000000000000000000000000") != std::string::npos);

  change(paths[0], "UPDATE points SET time_s = 7 WHERE ordinal = 0");
  CHECK(ThrownBy([&] { MergeStores(paths, scratch.File("n.db"), {}); }).code == 721);
}

TEST_CASE("what is no store, and what is named twice, is refused") {
  const Scratch scratch;
  const std::string out = scratch.File("merged.db");
  const std::string mine = Shards(scratch, 2)[0];
  CHECK(ThrownBy([&] { MergeStores({}, out, {}); }).code == 850);
  const std::string again = scratch.Folder() + "/./of2-1.db";
  CHECK(ThrownBy([&] { MergeStores({mine, again}, out, {}); }).code == 850);
  CHECK(ThrownBy([&] { MergeStores({mine, scratch.File("none.db")}, out, {}); }).code == 201);
  WriteBytes(scratch.File("text.db"), "not a database, but long enough to look like one, or so");
  CHECK(ThrownBy([&] { MergeStores({mine, scratch.File("text.db")}, out, {}); }).code == 721);
  CHECK(!std::filesystem::exists(out));
  CHECK(ThrownBy([&] { MergeStores({mine}, scratch.File("text.db"), {}); }).code == 721);
  CHECK(FileBytes(scratch.File("text.db")).starts_with("not a database"));
}

TEST_CASE("an interrupted merge goes on") {
  const Scratch scratch;
  const std::string whole = Whole(scratch);
  const std::vector<std::string> paths = Shards(scratch, 3);
  const std::string out = scratch.File("merged.db");
  std::atomic<bool> stop = true;
  MergeOptions options;
  options.stop = &stop;
  const MergeSummary none = MergeStores(paths, out, options);
  CHECK(none.interrupted);
  CHECK(none.exit_code() == ExitCode::kInterrupted);
  stop = false;
  CHECK(!MergeStores(paths, out, options).interrupted);
  CHECK((FileBytes(out) == whole));
}

}  // namespace
}  // namespace aurum
