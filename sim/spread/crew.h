#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/spread/courier.h"
#include "sim/spread/message.h"
#include "sim/study/store.h"
#include "sim/study/sweep.h"

namespace aurum {

// A sweep over several processes: rank 0 manages (and evaluates and alone writes), the others
// evaluate what it grants them. The database is the one that a single process writes.
//
//   rank 0   RunSweep, whose `outside` is CrewLeader::Lead; then DismissCrew on every way out
//   others   ServeCrew, until they are dismissed
struct CrewOptions {
  double silence_s = 30;  // a worker that has not been heard of for so long is lost
  double beat_s = 1;      // every process says so often that it is there
};

// Rank 0's part.
class CrewLeader {
 public:
  // `study`: its StudyKey. `news` are told by the thread that leads, one line each: workers that are
  // lost, come back, leave, or take no part.
  CrewLeader(Courier* courier, std::string study, const CrewOptions& options,
             std::function<void(const std::string&)> news);

  // Grants points to the other ranks and delivers what they send, until none is left to take and
  // all that was granted is back, or the sweep is stopped. A worker that is silent for silence_s is
  // lost: its points go back, and somebody else evaluates them. Should it speak again it gets new
  // ones; what it sends of the old ones is dropped, so no point is delivered twice. A worker of
  // another study gets no points.
  // Throws std::runtime_error if an evaluation on another rank ended the sweep there (EvaluatePoint).
  void Lead(const SweepExchange& exchange);
  bool HasLost() const;  // a worker, and not heard of it since
  // After DismissCrew(): until every worker has said that it goes. One that does not within silence_s
  // is lost, so that nobody waits for it at the very end.
  void AwaitGoodbyes();

 private:
  using Clock = std::chrono::steady_clock;
  struct Want {
    int rank = 0;
    std::uint32_t slot = 0;
    std::size_t size = 0;
  };
  struct Worker {
    std::string name;  // "rank 2 on node7"
    Clock::time_point heard;
    bool known = false;  // has said hello
    bool lost = false;
    bool apart = false;                           // gets no points
    std::map<std::uint32_t, PointRange> granted;  // by slot
  };

  void Handle(const Parcel& parcel, const SweepExchange& exchange);
  void TakeRows(int rank, Message message, const SweepExchange& exchange);
  void TakeBack(int rank, const SweepExchange& exchange);
  void FindLost(const SweepExchange& exchange);
  void Grant(const SweepExchange& exchange);
  bool AllBack() const;

  Courier* courier_;
  std::string study_;
  CrewOptions options_;
  std::function<void(const std::string&)> news_;
  std::vector<Worker> workers_;  // by rank; 0 is not used
  std::deque<Want> wants_;
  Clock::time_point beaten_;
};

// Sends everybody home; on every way out of rank 0, also where nothing was led.
void DismissCrew(Courier* courier);

struct ServeSummary {
  std::size_t evaluated = 0;
  bool deserted = false;  // the manager fell silent
};

// Evaluates points for rank 0 with `jobs` threads on the machine `where`, until it is dismissed or `stop` is true, or rank
// 0 is silent for ten times silence_s.
ServeSummary ServeCrew(Courier* courier, const Study& study, const PointEvaluator& evaluate,
                       int jobs, const std::string& where, const std::atomic<bool>* stop,
                       const CrewOptions& options);
// Of a rank that cannot take part because of its input: tells rank 0 why.
void RefuseToServe(Courier* courier, const std::string& where, const std::string& why);

// Waits to be sent home, or for `stop`.
void AwaitDismissal(Courier* courier, const std::atomic<bool>* stop);

// A hash of all that makes a study, shards included: ranks with equal ones compute equal points.
std::string StudyKey(const Study& study);

}  // namespace aurum
