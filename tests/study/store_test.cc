#include "sim/study/store.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <csignal>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "sim/study/database.h"
#include "tests/study/scratch.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Study SmallStudy() {
  Study study;
  study.scenario =
      ParseJson(R"({"model": "m", "plan": {"tp": 1}, "sweep": {"axes": []}})", "s.json");
  study.design = std::vector<Axis>{ParseVary("plan.tp=1,2,4"), ParseVary("model=a,b")};
  study.tool_version = "1.2.3";
  return study;
}

PointRow StoredRow(const Study& study, std::size_t ordinal) {
  PointRow row;
  row.ordinal = ordinal;
  row.id = PointId(study.scenario, study.design, ordinal);
  row.figures = {{"step_time_s", 0.1 * static_cast<double>(ordinal) + 1.0 / 3},
                 {"bottleneck", std::string("network")}};
  return row;
}

void Fill(Store* store, const Study& study, const std::vector<std::size_t>& ordinals) {
  for (const std::size_t ordinal : ordinals) store->Insert(StoredRow(study, ordinal));
}

TEST_CASE("what is stored is read back exactly, in the order of the ordinals") {
  const Scratch scratch;
  const std::string path = scratch.File("run.db");
  const Study study = SmallStudy();
  Store store = Store::Open(path, study);
  CHECK(store.points() == 6);
  CHECK(store.Count() == 0);
  Fill(&store, study, {5, 0, 2});
  PointRow failed = StoredRow(study, 3);
  failed.status = PointStatus::kFailed;
  failed.diagnostic = "error[E0312]: tp does not divide";
  failed.figures.clear();
  store.Insert(failed);
  PointRow odd = StoredRow(study, 1);
  odd.figures = {{"step_time_s", std::nan("")}, {"slope", std::numeric_limits<double>::infinity()}};
  store.Insert(odd);
  PointRow again = StoredRow(study, 5);
  again.figures = {{"step_time_s", -1.0}};
  store.Insert(again);  // is there already
  PointRow infeasible = StoredRow(study, 4);
  infeasible.status = PointStatus::kInfeasible;
  infeasible.figures.clear();
  store.Insert(infeasible);
  CHECK(store.Count() == 6);
  CHECK(store.committed() == 0);
  store.Finish();
  CHECK(store.committed() == 6);

  StoreReader reader(path);
  CHECK(reader.info().tool_version == "1.2.3");
  CHECK(reader.info().result_schema == kResultSchema);
  CHECK(reader.info().points == 6);
  CHECK(reader.info().complete);
  CHECK(reader.info().scenario.Dump() == R"({"model":"m","plan":{"tp":1}})");
  CHECK(reader.Count() == 6);
  CHECK(reader.Count(PointStatus::kOk) == 4);
  CHECK(reader.Count(PointStatus::kFailed) == 1);
  CHECK(reader.Count(PointStatus::kInfeasible) == 1);
  REQUIRE(reader.info().figures.size() == 3);
  CHECK(reader.info().figures[0].name == "step_time_s");
  CHECK(reader.info().figures[1].name == "bottleneck");
  CHECK(reader.info().figures[1].text);
  CHECK(reader.info().figures[2].name == "slope");
  StoredPoint point;
  for (std::size_t i = 0; i < 6; ++i) {
    REQUIRE(reader.Next(&point));
    CHECK(point.ordinal == i);
    CHECK(point.id == PointId(study.scenario, study.design, i));
    CHECK(point.axis_values[0].AsInteger() == (1 << (i / 2)));
    CHECK(point.axis_values[1].AsString() == (i % 2 == 0 ? "a" : "b"));
    if (i == 3) {
      CHECK(point.status == PointStatus::kFailed);
      CHECK(point.diagnostic == failed.diagnostic);
      CHECK(point.figures[0].IsNull());
    } else if (i == 1) {
      CHECK(point.figures[0].IsNull());  // NaN is absent
      CHECK(std::isinf(point.figures[2].AsNumber()));
    } else if (i != 4) {
      CHECK(point.figures[0].AsNumber() == 0.1 * static_cast<double>(i) + 1.0 / 3);
      CHECK(point.figures[1].AsString() == "network");
    }
  }
  CHECK(!reader.Next(&point));
}

TEST_CASE("the final bytes do not depend on the order of insertion, commits or reopening") {
  const Scratch scratch;
  const Study study = SmallStudy();
  std::string bytes;
  int run = 0;
  for (const std::vector<std::vector<std::size_t>>& parts :
       {std::vector<std::vector<std::size_t>>{{0, 1, 2, 3, 4, 5}},
        {{5, 4, 3, 2, 1, 0}},
        {{3}, {}, {1, 5}, {0, 2, 4}}}) {
    const std::string path = scratch.File(std::to_string(run++) + ".db");
    for (const auto& part : parts) {
      Store store = Store::Open(path, study);
      for (const std::size_t ordinal : part) {
        // A figure that only some points have: its column must not depend on who came first.
        PointRow row = StoredRow(study, ordinal);
        if (ordinal >= 2) row.figures.push_back({"late_" + std::to_string(ordinal / 2), 1.0});
        store.Insert(row);
        store.Commit();
      }
      if (store.Count() == 6) {
        store.Finish();
      } else {
        store.Close();
      }
    }
    CHECK(!std::filesystem::exists(path + "-wal"));
    if (bytes.empty()) bytes = FileBytes(path);
    CHECK(bytes.size() > 4096);
    CHECK(FileBytes(path) == bytes);
  }
  // A complete store is not touched by another look.
  const auto written = std::filesystem::last_write_time(scratch.File("0.db"));
  Store store = Store::Open(scratch.File("0.db"), study);
  CHECK(store.Count() == 6);
  store.Finish();
  CHECK(FileBytes(scratch.File("0.db")) == bytes);
  CHECK(std::filesystem::last_write_time(scratch.File("0.db")) == written);
}

TEST_CASE("what was committed is there after the writer died, what was not is not") {
  const Scratch scratch;
  const std::string path = scratch.File("run.db");
  const Study study = SmallStudy();
  {
    Store store = Store::Open(path, study);
    Fill(&store, study, {0, 1});
    store.Commit();
    Fill(&store, study, {2});
    // A reader beside the writer sees what is committed.
    StoreReader reader(path);
    CHECK(reader.Count() == 2);
    CHECK(!reader.info().complete);
  }
  Store store = Store::Open(path, study);
  CHECK(store.Has(1));
  CHECK(!store.Has(2));
  CHECK(store.Count(PointStatus::kOk) == 2);
}

TEST_CASE("names that SQLite would confuse get columns of their own") {
  const Scratch scratch;
  Study study = SmallStudy();
  study.design = std::vector<Axis>{ParseVary("status=1,2"), ParseVary("a\"b=x"),
                                   ParseVary("Seed=[1],{\"x\":2}")};
  Store store = Store::Open(scratch.File("run.db"), study);
  for (std::size_t i = 0; i < 4; ++i) {
    PointRow row = StoredRow(study, i);
    row.figures = {{"seed", 1.5}, {"ID", 2.5}};
    store.Insert(row);
  }
  store.Finish();
  StoreReader reader(scratch.File("run.db"));
  CHECK(reader.info().axis_columns == std::vector<std::string>{"status_", "a\"b", "Seed"});
  CHECK(reader.info().figures[0].column == "seed_");
  CHECK(reader.info().figures[1].column == "ID_");
  StoredPoint point;
  REQUIRE(reader.Next(&point));
  REQUIRE(reader.Next(&point));
  CHECK(point.axis_values[2].Dump() == R"({"x":2})");
  CHECK(point.figures[0].AsNumber() == 1.5);
  CHECK(point.figures[1].AsNumber() == 2.5);
}

TEST_CASE("another study is refused, and the message says where it differs") {
  const Scratch scratch;
  const std::string path = scratch.File("run.db");
  Store::Open(path, SmallStudy()).Close();
  const std::string bytes = FileBytes(path);
  const auto refused = [&](const Study& study) {
    const Diagnostic d = ThrownBy([&] { Store::Open(path, study); });
    CHECK(d.code == 723);
    CHECK(FileBytes(path) == bytes);
    return d.message;
  };
  Study study = SmallStudy();
  study.scenario = ParseJson(R"({"model": "m", "plan": {"tp": 8}})", "s.json");
  CHECK(refused(study).find("/plan/tp is 1 there and 8 here") != std::string::npos);
  study = SmallStudy();
  {
    std::vector<Axis> axes = study.design.axes();
    axes[0] = ParseVary("plan.tp=1,2,8");
    study.design = axes;
  }
  CHECK(refused(study).find("/sweep/axes/0/values/2 is 4 there and 8 here") != std::string::npos);
  study = SmallStudy();
  study.tool_version = "1.2.4";
  CHECK(refused(study).find("1.2.4") != std::string::npos);
  study = SmallStudy();
  study.fingerprint = "other";
  CHECK(refused(study).find("changed since") != std::string::npos);
  study = SmallStudy();
  study.scenario = ParseJson(R"({"plan": {"tp": 1}, "model": "m"})", "s.json");
  CHECK(refused(study).find("order") != std::string::npos);
  // A changed sweep section alone is no other study.
  study = SmallStudy();
  study.scenario = ParseJson(R"({"model": "m", "plan": {"tp": 1}})", "elsewhere.json");
  CHECK(Store::Open(path, study).Count() == 0);
}

TEST_CASE("nothing that is no store of ours is opened or changed") {
  const Scratch scratch;
  const Study study = SmallStudy();
  const auto code = [&](const std::string& path) {
    return ThrownBy([&] { Store::Open(path, study); }).code;
  };
  CHECK(code("") == 720);
  CHECK(code(scratch.Folder()) == 720);
  CHECK(code(scratch.File("absent/run.db")) == 720);
  CHECK(!std::filesystem::exists(scratch.File("absent")));
  CHECK(code("/dev/null") == 720);

  const std::string text = scratch.File("notes.txt");
  WriteBytes(text, "do not lose me");
  CHECK(code(text) == 721);
  CHECK(FileBytes(text) == "do not lose me");

  std::mt19937_64 random(7);
  std::string noise;
  for (int i = 0; i < 20000; ++i) noise += static_cast<char>(random() & 0xff);
  const std::string noisy = scratch.File("noise.db");
  WriteBytes(noisy, noise);
  CHECK(code(noisy) == 721);
  CHECK(FileBytes(noisy) == noise);
  // With the right first bytes.
  noise.replace(0, 16, std::string("SQLite format 3\0", 16));
  WriteBytes(noisy, noise);
  CHECK(code(noisy) == 721);
  CHECK(FileBytes(noisy) == noise);

  const std::string foreign = scratch.File("foreign.db");
  {
    Database database(foreign, Database::Mode::kCreate);
    database.Execute("CREATE TABLE people(name TEXT); INSERT INTO people VALUES ('Ada')");
  }
  const std::string before = FileBytes(foreign);
  CHECK(code(foreign) == 722);
  CHECK(FileBytes(foreign) == before);
  CHECK(ThrownBy([&] { StoreReader reader(foreign); }).code == 722);
  const std::string meta = scratch.File("meta.db");
  Database(meta, Database::Mode::kCreate).Execute("CREATE TABLE meta(key TEXT, value TEXT)");
  CHECK(code(meta) == 722);
  const std::string later = scratch.File("later.db");
  Database(later, Database::Mode::kCreate)
      .Execute(
          "CREATE TABLE meta(key TEXT, value TEXT); INSERT INTO meta VALUES ('schema', "
          "'aurum.sweep/9')");
  CHECK(code(later) == 727);
  CHECK(ThrownBy([&] { StoreReader reader(later); }).code == 727);
  CHECK(ThrownBy([&] { StoreReader reader(scratch.File("none.db")); }).code == 201);
}

TEST_CASE("a foreign database in WAL mode keeps its log when it is refused") {
  const Scratch scratch;
  const std::string path = scratch.File("foreign.db");
  Database database(path, Database::Mode::kCreate);
  database.Execute("PRAGMA journal_mode = WAL; CREATE TABLE people(name TEXT)");
  // As a program leaves it that was killed: the log beside the file, nothing checkpointed.
  std::filesystem::copy_file(path, scratch.File("copy.db"));
  std::filesystem::copy_file(path + "-wal", scratch.File("copy.db-wal"));
  const std::string log = FileBytes(scratch.File("copy.db-wal"));
  REQUIRE(!log.empty());
  CHECK(ThrownBy([&] { Store::Open(scratch.File("copy.db"), SmallStudy()); }).code == 722);
  CHECK(FileBytes(scratch.File("copy.db-wal")) == log);
}

TEST_CASE("damage inside of a store is found before anything is added") {
  const Scratch scratch;
  const std::string path = scratch.File("run.db");
  Study study = SmallStudy();
  study.design = std::vector<Axis>{ParseVary("n=1:2000:1")};
  {
    Store store = Store::Open(path, study);
    for (std::size_t i = 0; i < 1000; ++i) store.Insert(StoredRow(study, i));
    store.Close();
  }
  const std::string bytes = FileBytes(path);
  REQUIRE(bytes.size() > 40000);
  std::string damaged = bytes;
  for (std::size_t i = 8192; i < bytes.size() - 4096; ++i) damaged[i] = static_cast<char>(0x5a ^ i);
  WriteBytes(path, damaged);
  CHECK(ThrownBy([&] { Store::Open(path, study); }).code == 721);
  CHECK(FileBytes(path) == damaged);
  WriteBytes(path, bytes.substr(0, bytes.size() / 2));
  CHECK(ThrownBy([&] { Store::Open(path, study); }).code == 721);
}

// Of a store that has all its points and its seal.
std::string Complete(const std::string& path, const Study& study) {
  {
    Store store = Store::Open(path, study);
    Fill(&store, study, {0, 1, 2, 3, 4, 5});
    store.Finish();
  }
  return FileBytes(path);
}

TEST_CASE("every flipped bit of a store's header is damage, and never an error of the program") {
  const Scratch scratch;
  const std::string path = scratch.File("run.db"), copy = scratch.File("copy.db");
  const Study study = SmallStudy();
  const std::string bytes = Complete(path, study);
  for (std::size_t bit = 0; bit < 100 * 8; ++bit) {
    CAPTURE(bit);
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    WriteBytes(copy, damaged);
    CHECK(ThrownBy([&] { StoreReader reader(copy); }).code == 721);
    CHECK(FileBytes(copy) == damaged);
  }
}

TEST_CASE("a table or a column that is gone is damage; its name is no value") {
  const Scratch scratch;
  const Study study = SmallStudy();
  int made = 0;
  for (const char* change :
       {"DROP TABLE points", "ALTER TABLE points RENAME COLUMN step_time_s TO gone",
        "ALTER TABLE points RENAME COLUMN id TO gone",
        "ALTER TABLE points RENAME COLUMN status TO gone"}) {
    CAPTURE(change);
    const std::string path = scratch.File(std::to_string(made++) + ".db");
    {
      Store store = Store::Open(path, study);
      Fill(&store, study, {0, 1});
      store.Close();
    }
    Database(path, Database::Mode::kCreate).Execute(change);
    CHECK(ThrownBy([&] { StoreReader reader(path); }).code == 721);
    CHECK(ThrownBy([&] {
            Store store = Store::Open(path, study);
            store.Insert(StoredRow(study, 2));
            store.Commit();
          }).code == 721);
  }
}

TEST_CASE("the log of another file does not change what a complete store says") {
  const Scratch scratch;
  const std::string path = scratch.File("run.db"), other = scratch.File("other.db");
  const Study study = SmallStudy();
  const std::string bytes = Complete(path, study);
  WriteBytes(other, bytes);
  {
    // As a program leaves it that was killed; without the checks of a reader, it would be applied.
    Database database(other, Database::Mode::kCreate);
    database.Execute("PRAGMA journal_mode = WAL; UPDATE points SET step_time_s = 7");
    std::filesystem::copy_file(other + "-wal", path + "-wal");
  }
  CHECK(ThrownBy([&] { StoreReader reader(path); }).code == 721);
  CHECK(ThrownBy([&] { Store::Open(path, study); }).code == 721);
  CHECK(FileBytes(path) == bytes);
  std::filesystem::remove(path + "-wal");
  std::filesystem::remove(path + "-shm");
  CHECK(StoreReader(path).Count(PointStatus::kOk) == 6);
}

TEST_CASE("rows that no sweep writes are damage") {
  const Scratch scratch;
  const Study study = SmallStudy();
  int made = 0;
  for (const char* change :
       {"UPDATE points SET status = 'weird' WHERE ordinal = 1",
        "UPDATE points SET step_time_s = 'long' WHERE ordinal = 1",
        "UPDATE points SET bottleneck = x'00' WHERE ordinal = 1",
        "INSERT OR REPLACE INTO meta VALUES ('orders', '[[0, [\"nosuch\"]]]')"}) {
    CAPTURE(change);
    const std::string path = scratch.File(std::to_string(made++) + ".db");
    {
      Store store = Store::Open(path, study);
      Fill(&store, study, {0, 1});
      store.Close();
    }
    Database(path, Database::Mode::kCreate).Execute(change);
    CHECK(ThrownBy([&] {
            StoreReader reader(path);
            StoredPoint point;
            while (reader.Next(&point)) {
            }
          }).code == 721);
  }
}

TEST_CASE("a file that is read-only or in use is refused") {
  const Scratch scratch;
  const std::string path = scratch.File("run.db");
  const Study study = SmallStudy();
  Store::Open(path, study).Close();
  ::chmod(path.c_str(), 0444);
  CHECK(ThrownBy([&] { Store::Open(path, study); }).code == 725);
  ::chmod(path.c_str(), 0644);
  {
    const Store first = Store::Open(path, study);
    const Diagnostic second = ThrownBy([&] { Store::Open(path, study); });
    CHECK(second.code == 724);
    CHECK(second.message.find("another sweep") != std::string::npos);
  }
  Database other(path, Database::Mode::kCreate);
  other.Execute("BEGIN EXCLUSIVE");
  CHECK(ThrownBy([&] { Store::Open(path, study); }).code == 724);
  other.Execute("COMMIT");
  CHECK(Store::Open(path, study).Count() == 0);
}

TEST_CASE("a full disk is an error that keeps what was committed") {
  const Scratch scratch;
  const std::string path = scratch.File("run.db");
  Study study = SmallStudy();
  study.design = std::vector<Axis>{ParseVary("n=1:5000:1")};
  // No file may grow beyond 256 KiB; the signal that would end the process becomes an error of
  // write().
  struct rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 256 << 10;
  std::size_t committed = 0;
  int code = 0;
  std::string help;
  {
    Store store = Store::Open(path, study);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    try {
      for (std::size_t i = 0; i < 5000; ++i) {
        store.Insert(StoredRow(study, i));
        if (i % 100 == 99) {
          store.Commit();
          committed = store.committed();
        }
      }
    } catch (const InputError& error) {
      code = error.diagnostic().code;
      help = error.diagnostic().help;
    }
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  CHECK(code == 726);
  CHECK(help.find("free some space") != std::string::npos);
  CHECK(committed > 0);
  CHECK(committed < 5000);
  Store store = Store::Open(path, study);
  CHECK(store.Count() == committed);
  for (std::size_t i = 0; i < committed; ++i) REQUIRE(store.Has(i));
}

}  // namespace
}  // namespace aurum
