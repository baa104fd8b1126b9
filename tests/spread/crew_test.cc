#include "sim/spread/crew.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/core/object_reader.h"
#include "sim/study/store_reader.h"
#include "tests/study/scratch.h"

namespace aurum {
namespace {

// A network in memory. A rank that is cut off goes on without noticing: what it sends and what is
// sent to it is lost, as of a machine that has lost its power or its cable.
class Network {
 public:
  explicit Network(int size) : boxes_(static_cast<std::size_t>(size)), cut_(boxes_.size()) {}

  void Send(int from, int to, std::string bytes) {
    const std::lock_guard lock(mutex_);
    if (cut_[static_cast<std::size_t>(from)] || cut_[static_cast<std::size_t>(to)]) return;
    boxes_[static_cast<std::size_t>(to)].push_back({from, std::move(bytes)});
    arrived_.notify_all();
  }
  std::optional<Parcel> Receive(int at, double seconds) {
    std::unique_lock lock(mutex_);
    std::deque<Parcel>& box = boxes_[static_cast<std::size_t>(at)];
    arrived_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !box.empty(); });
    if (box.empty()) return std::nullopt;
    Parcel parcel = std::move(box.front());
    box.pop_front();
    return parcel;
  }
  void Cut(int rank, bool cut) {
    const std::lock_guard lock(mutex_);
    cut_[static_cast<std::size_t>(rank)] = cut;
  }
  int size() const { return static_cast<int>(boxes_.size()); }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::deque<Parcel>> boxes_;
  std::vector<bool> cut_;
};

class NetworkCourier : public Courier {
 public:
  NetworkCourier(Network* network, int rank) : network_(network), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return network_->size(); }
  void Send(int to, std::string bytes) override { network_->Send(rank_, to, std::move(bytes)); }
  std::optional<Parcel> Receive(double seconds) override {
    return network_->Receive(rank_, seconds);
  }

 private:
  Network* network_;
  int rank_;
};

Study GridStudy() {
  Study study;
  study.scenario = ParseJson(R"({"a": 0, "plan": {"b": "x"}})", "grid.json");
  study.design = Design({ParseVary("a=1:200:1"), ParseVary("plan.b=x,y,z")});
  study.tool_version = "test";
  return study;
}

std::vector<Figure> Evaluate(const JsonDocument& point) {
  ObjectReader reader(point, point.root, "");
  const std::int64_t a = reader.Integer("a", 1, 1000);
  ObjectReader plan = reader.Object("plan");
  const std::string b = plan.String("b");
  if (a % 7 == 3 && b == "y")
    plan.Fail(312, "b", "b does not divide", "another b", "", ExitCode::kInfeasible);
  std::vector<Figure> figures = {{"time_s", 1.0 / static_cast<double>(a)}, {"bound", b + "!"}};
  if (b == "z") figures.insert(figures.begin() + 1, {"only_z", static_cast<double>(a)});
  return figures;
}

void Nap(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// A run of as many ranks as the network has. `work(rank)` comes before each point of that rank.
struct Run {
  Network network;
  CrewOptions options;
  Study study = GridStudy();
  std::function<void(int)> work = [](int) {};
  std::function<Study(int)> study_of = [this](int) { return study; };
  std::vector<std::string> news;
  std::atomic<int> told = 0;  // how many
  std::vector<ServeSummary> served;
  bool has_lost = false;

  explicit Run(int ranks) : network(ranks) {
    options.silence_s = 60;
    options.beat_s = 0.02;
  }

  SweepSummary Into(const std::string& path) {
    served.assign(static_cast<std::size_t>(network.size()), {});
    std::vector<std::thread> workers;
    for (int rank = 1; rank < network.size(); ++rank) {
      workers.emplace_back([this, rank] {
        NetworkCourier courier(&network, rank);
        const Study mine = study_of(rank);
        served[static_cast<std::size_t>(rank)] = ServeCrew(
            &courier, mine,
            [this, rank](const JsonDocument& point) {
              work(rank);
              return Evaluate(point);
            },
            2, "machine" + std::to_string(rank), nullptr, options);
      });
    }
    NetworkCourier courier(&network, 0);
    CrewLeader leader(&courier, StudyKey(study), options, [this](const std::string& line) {
      news.push_back(line);
      ++told;
    });
    SweepOptions run;
    run.jobs = 1;
    run.outside = [&](const SweepExchange& exchange) { leader.Lead(exchange); };
    run.outside_jobs = 2 * (network.size() - 1);
    SweepSummary summary;
    std::exception_ptr error;
    try {
      Store store = Store::Open(path, study);
      summary = RunSweep(
          study.scenario, study.design,
          [this](const JsonDocument& point) {
            work(0);
            return Evaluate(point);
          },
          run, &store);
    } catch (...) {
      error = std::current_exception();
    }
    has_lost = leader.HasLost();
    for (int rank = 1; rank < network.size(); ++rank) network.Cut(rank, false);
    DismissCrew(&courier);
    for (std::thread& worker : workers) worker.join();
    if (error) std::rethrow_exception(error);
    return summary;
  }
};

std::string Alone(const Scratch& scratch) {
  const Study study = GridStudy();
  const std::string path = scratch.File("alone.db");
  Store store = Store::Open(path, study);
  RunSweep(study.scenario, study.design, Evaluate, {}, &store);
  return FileBytes(path);
}

TEST_CASE("any number of processes writes what one writes, and all of them work") {
  const Scratch scratch;
  const std::string alone = Alone(scratch);
  for (const int ranks : {1, 2, 5}) {
    CAPTURE(ranks);
    Run run(ranks);
    run.work = [](int) { Nap(0.0002); };
    const std::string path = scratch.File(std::to_string(ranks) + ".db");
    const SweepSummary summary = run.Into(path);
    CHECK(summary.evaluated == 600);
    CHECK(summary.infeasible == 29);  // a in {3, 10, ... 199} with y
    CHECK((FileBytes(path) == alone));
    CHECK(run.news.empty());
    CHECK(!run.has_lost);
    for (std::size_t i = 1; i < run.served.size(); ++i) CHECK(run.served[i].evaluated > 0);
  }
}

TEST_CASE(
    "a run of several goes on where another was interrupted, and adds nothing to a whole one") {
  const Scratch scratch;
  const std::string alone = Alone(scratch);
  const std::string path = scratch.File("parts.db");
  {
    const Study study = GridStudy();
    std::atomic<bool> stop = false;
    std::atomic<int> calls = 0;
    SweepOptions options;
    options.jobs = 2;
    options.stop = &stop;
    Store store = Store::Open(path, study);
    const SweepSummary part = RunSweep(
        study.scenario, study.design,
        [&](const JsonDocument& point) {
          if (++calls == 100) stop = true;
          return Evaluate(point);
        },
        options, &store);
    REQUIRE(part.interrupted);
  }
  Run run(3);
  const SweepSummary rest = run.Into(path);
  CHECK(rest.stored_before >= 100);
  CHECK(rest.stored_before + rest.evaluated == 600);
  CHECK((FileBytes(path) == alone));
  Run again(3);
  CHECK(again.Into(path).evaluated == 0);
  CHECK((FileBytes(path) == alone));
}

TEST_CASE("what a lost worker had is done again by others") {
  const Scratch scratch;
  const std::string alone = Alone(scratch);
  Run run(3);
  run.options.silence_s = 1;
  std::atomic<int> done = 0;
  std::atomic<bool> cut = false;
  run.work = [&](int rank) {
    // Rank 2 is cut off in the middle of a range.
    if (rank == 2 && ++done == 5) {
      run.network.Cut(2, true);
      cut = true;
    }
    Nap(0.0005);
  };
  const std::string path = scratch.File("lost.db");
  const SweepSummary summary = run.Into(path);
  REQUIRE(cut);
  CHECK(summary.evaluated == 600);
  CHECK((FileBytes(path) == alone));
  CHECK(run.has_lost);
  REQUIRE(!run.news.empty());
  CHECK(run.news[0].find("rank 2 on machine2 has been silent") == 0);
  CHECK(run.news[0].find("points are done again") != std::string::npos);
}

TEST_CASE("a worker that comes back gets new points, and its old ones count once") {
  const Scratch scratch;
  const std::string alone = Alone(scratch);
  Run run(2);
  run.options.silence_s = 1;
  std::atomic<int> done = 0;
  std::atomic<int> after = 0;
  run.work = [&](int rank) {
    if (rank == 0) {
      Nap(after > 20 ? 0.0 : 0.01);  // leaves enough for the one that comes back
      return;
    }
    const int mine = ++done;
    if (mine == 3) {
      run.network.Cut(1, true);
      while (run.told == 0) Nap(0.01);
      run.network.Cut(1, false);
    }
    if (mine > 3) ++after;
  };
  const std::string path = scratch.File("back.db");
  const SweepSummary summary = run.Into(path);
  CHECK(summary.evaluated == 600);
  CHECK(summary.ok == 571);
  CHECK((FileBytes(path) == alone));
  CHECK(after > 20);
  REQUIRE(run.news.size() >= 2);
  CHECK(run.news[0].find("silent") != std::string::npos);
  CHECK(run.news[1] == "rank 1 on machine1 is back");
}

TEST_CASE("rank 0 finishes alone where all others are lost, or never come") {
  const Scratch scratch;
  const std::string alone = Alone(scratch);
  Run run(4);
  run.options.silence_s = 0.2;
  for (int rank = 1; rank < 4; ++rank) run.network.Cut(rank, true);
  run.work = [](int) { Nap(0.001); };
  const std::string path = scratch.File("alone-after-all.db");
  CHECK(run.Into(path).evaluated == 600);
  CHECK((FileBytes(path) == alone));
  CHECK(run.news.size() == 3);
}

TEST_CASE("a worker that reads another study takes no part") {
  const Scratch scratch;
  const std::string alone = Alone(scratch);
  Run run(3);
  run.work = [](int) { Nap(0.0002); };
  run.study_of = [&](int rank) {
    Study mine = GridStudy();
    if (rank == 1) mine.fingerprint = "a catalogue of last week";
    return mine;
  };
  const std::string path = scratch.File("other.db");
  run.Into(path);
  CHECK((FileBytes(path) == alone));
  CHECK(run.served[1].evaluated == 0);
  CHECK(run.served[2].evaluated > 0);
  REQUIRE(run.news.size() == 1);
  CHECK(run.news[0].find("rank 1 on machine1 reads another study") == 0);
}

TEST_CASE("no memory on any rank ends the sweep, and what is done stays") {
  const Scratch scratch;
  Run run(2);
  std::atomic<int> done = 0;
  run.work = [&](int rank) {
    Nap(0.0005);
    if (rank == 1 && ++done == 40) throw std::bad_alloc();
  };
  const std::string path = scratch.File("fault.db");
  std::string what;
  try {
    run.Into(path);
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
  CHECK(what == "rank 1 on machine1: " + std::string(std::bad_alloc().what()));
  CHECK(StoreReader(path).Count() > 0);
  CHECK(StoreReader(path).Count() < 600);
}

TEST_CASE("a worker ends where rank 0 falls silent") {
  Network network(2);
  NetworkCourier manager(&network, 0);
  NetworkCourier courier(&network, 1);
  CrewOptions options;
  options.silence_s = 0.02;
  manager.Send(1, Pack({.kind = MessageKind::kBeat}));
  const ServeSummary summary =
      ServeCrew(&courier, GridStudy(), Evaluate, 1, "here", nullptr, options);
  CHECK(summary.deserted);
  CHECK(summary.evaluated == 0);
}

TEST_CASE("a worker that is told to stop says so, and loses nothing that it has done") {
  Network network(2);
  NetworkCourier manager(&network, 0);
  std::atomic<bool> stop = false;
  std::thread worker([&] {
    NetworkCourier courier(&network, 1);
    ServeCrew(&courier, GridStudy(),
              [&](const JsonDocument& point) {
                stop = true;
                return Evaluate(point);
              },
              1, "here", &stop, {});
  });
  CHECK(Unpack(manager.Receive(10)->bytes).kind == MessageKind::kHello);
  CHECK(Unpack(manager.Receive(10)->bytes).kind == MessageKind::kRows);  // its first wish
  manager.Send(1, Pack({.kind = MessageKind::kGrant, .begin = 10, .at = 10, .end = 20}));
  Message rows;
  Message leave;
  while (leave.kind != MessageKind::kLeave) {
    leave = Unpack(manager.Receive(10)->bytes);
    if (leave.kind == MessageKind::kRows) rows = leave;
  }
  worker.join();
  CHECK(rows.begin == 10);
  CHECK(rows.at >= 11);
  CHECK(rows.rows.size() == rows.at - 10);
  CHECK(leave.text.empty());
}

}  // namespace
}  // namespace aurum
