#include "sim/spread/crew.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "sim/core/hash.h"

// How points travel
//
// A worker asks for points for each of its threads, and the manager grants a range of ordinals. With
// the rows of a range goes the wish for the next, so one thread costs one message each way for every
// kChunkSeconds of its work, whatever a point costs. A range that turns out slow is cut short after
// kDeliverSeconds, and its rest goes back, as inside of one process (sweep.cc).
//
// What a lost worker costs: results are functions of the scenario, so a range that did not come back
// is simply granted again. The manager keeps, for each thread of each worker, the range that it has;
// rows count only if they are of this range. Example: worker 2 has [40, 60) and falls silent; after
// silence_s [40, 60) goes back and rank 0 takes it. Worker 2 was only suspended, and now sends its
// rows of [40, 60): nothing is granted to it, they are dropped, and it gets another range.
namespace aurum {
namespace {

constexpr double kChunkSeconds = 0.2;
constexpr double kDeliverSeconds = 0.5;
constexpr double kPollSeconds = 0.001;
constexpr std::size_t kLargestChunk = 8192;
constexpr double kManagerPatience = 10;  // times silence_s: the manager may wait for its disk

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string RankName(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

CrewLeader::CrewLeader(Courier* courier, std::string study, const CrewOptions& options,
                       std::function<void(const std::string&)> news)
    : courier_(courier),
      study_(std::move(study)),
      options_(options),
      news_(std::move(news)),
      workers_(static_cast<std::size_t>(courier->size())),
      beaten_(Clock::now()) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].name = RankName(static_cast<int>(i));
    workers_[i].heard = Clock::now();
  }
}

void CrewLeader::Lead(const SweepExchange& exchange) {
  // What is left may still be taken by a worker that has not said hello yet; only when the others
  // have taken all of it is there nothing to wait for.
  while (!exchange.stopped() && !(AllBack() && exchange.left() == 0)) {
    if (Since(beaten_) >= options_.beat_s) {
      for (int rank = 1; rank < courier_->size(); ++rank)
        courier_->Send(rank, Pack({.kind = MessageKind::kBeat}));
      beaten_ = Clock::now();
    }
    const std::optional<Parcel> parcel = courier_->Receive(kPollSeconds);
    if (parcel) {
      Handle(*parcel, exchange);
    } else {
      // Only when nothing waits to be read: this thread itself may have been held up.
      FindLost(exchange);
    }
    Grant(exchange);
  }
}

bool CrewLeader::AllBack() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.granted.empty(); });
}

void CrewLeader::Handle(const Parcel& parcel, const SweepExchange& exchange) {
  Message message = Unpack(parcel.bytes);
  Worker& worker = workers_.at(static_cast<std::size_t>(parcel.from));
  worker.heard = Clock::now();
  if (worker.lost) {
    worker.lost = false;
    news_(worker.name + " is back");
  }
  switch (message.kind) {
    case MessageKind::kHello:
      worker.known = true;
      worker.name += " on " + message.text;
      if (message.study != study_) {
        worker.apart = true;
        news_(worker.name +
              " reads another study there (its scenario, a catalogue or its version differs) and "
              "takes no part");
        courier_->Send(parcel.from, Pack({.kind = MessageKind::kEnd}));
      }
      return;
    case MessageKind::kRows:
      TakeRows(parcel.from, std::move(message), exchange);
      return;
    case MessageKind::kLeave:
      if (!message.text.empty()) news_(worker.name + " takes no part: " + message.text);
      TakeBack(parcel.from, exchange);
      worker.apart = true;
      return;
    case MessageKind::kError:
      throw std::runtime_error(worker.name + ": " + message.text);
    case MessageKind::kBeat:
    case MessageKind::kGrant:
    case MessageKind::kEnd:
      return;
  }
}

void CrewLeader::TakeRows(int rank, Message message, const SweepExchange& exchange) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  const auto granted = worker.granted.find(message.slot);
  if (granted != worker.granted.end() && granted->second.begin == message.begin &&
      granted->second.end == message.end) {
    worker.granted.erase(granted);
    exchange.give_back({message.at, message.end});
    exchange.deliver({message.begin, message.at}, std::move(message.rows));
  }
  if (!worker.apart) wants_.push_back({rank, message.slot, static_cast<std::size_t>(message.size)});
}

// All that a worker has, and all that it wants.
void CrewLeader::TakeBack(int rank, const SweepExchange& exchange) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  for (const auto& [slot, range] : worker.granted) exchange.give_back(range);
  worker.granted.clear();
  std::erase_if(wants_, [&](const Want& want) { return want.rank == rank; });
}

void CrewLeader::FindLost(const SweepExchange& exchange) {
  for (std::size_t i = 1; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.lost || worker.apart || Since(worker.heard) < options_.silence_s) continue;
    std::size_t points = 0;
    for (const auto& [slot, range] : worker.granted) points += range.end - range.begin;
    worker.lost = true;
    const std::string silence = worker.name + " has been silent for " +
                                std::to_string(static_cast<long long>(Since(worker.heard))) + " s";
    news_(silence + (points > 0 ? ": its " + std::to_string(points) + " points are done again"
                                : ": nothing waits for it"));
    TakeBack(static_cast<int>(i), exchange);
  }
}

void CrewLeader::Grant(const SweepExchange& exchange) {
  while (!wants_.empty()) {
    const Want want = wants_.front();
    const PointRange range = exchange.take(std::clamp<std::size_t>(want.size, 1, kLargestChunk));
    if (range.begin == range.end) return;
    wants_.pop_front();
    workers_[static_cast<std::size_t>(want.rank)].granted[want.slot] = range;
    courier_->Send(want.rank, Pack({.kind = MessageKind::kGrant,
                                    .slot = want.slot,
                                    .begin = range.begin,
                                    .at = range.begin,
                                    .end = range.end}));
  }
}

bool CrewLeader::HasLost() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.lost; });
}

void CrewLeader::AwaitGoodbyes() {
  const Clock::time_point dismissed = Clock::now();
  const auto here = [](const Worker& worker) { return !worker.lost && !worker.apart; };
  while (std::any_of(workers_.begin() + 1, workers_.end(), here)) {
    if (const std::optional<Parcel> parcel = courier_->Receive(kPollSeconds)) {
      if (Unpack(parcel->bytes).kind == MessageKind::kLeave)
        workers_.at(static_cast<std::size_t>(parcel->from)).apart = true;
    } else if (Since(dismissed) >= options_.silence_s) {
      for (std::size_t i = 1; i < workers_.size(); ++i) {
        if (!here(workers_[i])) continue;
        workers_[i].lost = true;
        news_(workers_[i].name + " did not say that it goes");
      }
    }
  }
}

void DismissCrew(Courier* courier) {
  for (int rank = 1; rank < courier->size(); ++rank)
    courier->Send(rank, Pack({.kind = MessageKind::kEnd}));
}

// ---- a worker

namespace {

// Between a worker's threads and the one of them that has the courier.
class Desk {
 public:
  explicit Desk(std::size_t slots) : grants_(slots) {}

  // For a thread: waits for its next range; none: it is to end.
  std::optional<PointRange> Next(std::uint32_t slot) {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return grants_[slot].has_value() || closed_; });
    return closed_ ? std::nullopt : std::exchange(grants_[slot], std::nullopt);
  }
  void Bring(Message message) {
    const std::lock_guard lock(mutex_);
    out_.push_back(std::move(message));
  }
  void Fail(std::string what) { Bring({.kind = MessageKind::kError, .text = std::move(what)}); }

  void Grant(std::uint32_t slot, PointRange range) {
    const std::lock_guard lock(mutex_);
    grants_.at(slot) = range;
    ready_.notify_all();
  }
  std::vector<Message> TakeOut() {
    const std::lock_guard lock(mutex_);
    return std::exchange(out_, {});
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    ready_.notify_all();
  }
  bool closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<std::optional<PointRange>> grants_;
  std::vector<Message> out_;
  bool closed_ = false;
};

void Evaluate(Desk* desk, std::uint32_t slot, const Study& study, const PointEvaluator& evaluate) {
  try {
    PointCursor cursor(study.scenario, study.design);
    double mean = 0;  // seconds per point
    Message rows{.kind = MessageKind::kRows, .slot = slot, .size = 1};
    for (;;) {
      desk->Bring(std::move(rows));
      const std::optional<PointRange> range = desk->Next(slot);
      if (!range) return;
      rows = {.kind = MessageKind::kRows,
              .slot = slot,
              .begin = range->begin,
              .at = range->begin,
              .end = range->end};
      const auto start = std::chrono::steady_clock::now();
      double elapsed = 0;
      while (rows.at < range->end && elapsed < kDeliverSeconds && !desk->closed()) {
        rows.rows.push_back(EvaluatePoint(&cursor, evaluate, rows.at));
        ++rows.at;
        elapsed = Since(start);
      }
      if (rows.at > rows.begin) {
        const double now = std::max(elapsed / static_cast<double>(rows.at - rows.begin), 1e-9);
        mean = mean == 0 ? now : 0.5 * (mean + now);
      }
      rows.size = mean > 0 ? std::clamp(static_cast<std::size_t>(kChunkSeconds / mean),
                                        std::size_t{1}, kLargestChunk)
                           : 1;
    }
  } catch (const std::exception& error) {
    desk->Fail(error.what());
  }
}

// Threads that end on every way out.
class Threads {
 public:
  explicit Threads(Desk* desk) : desk_(desk) {}
  ~Threads() {
    desk_->Close();
    for (std::thread& thread : threads_) thread.join();
  }
  template <typename... Args>
  void Start(Args... args) {
    threads_.emplace_back(args...);
  }

 private:
  Desk* desk_;
  std::vector<std::thread> threads_;
};

}  // namespace

ServeSummary ServeCrew(Courier* courier, const Study& study, const PointEvaluator& evaluate,
                       int jobs, const std::string& where, const std::atomic<bool>* stop,
                       const CrewOptions& options) {
  ServeSummary summary;
  courier->Send(0, Pack({.kind = MessageKind::kHello, .text = where, .study = StudyKey(study)}));
  const auto send = [&](Desk* desk) {
    for (const Message& message : desk->TakeOut()) {
      summary.evaluated += message.rows.size();
      courier->Send(0, Pack(message));
    }
  };
  const std::size_t slots = static_cast<std::size_t>(std::max(1, jobs));
  Desk desk(slots);
  {
    Threads threads(&desk);
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      threads.Start([&desk, &study, &evaluate, slot] { Evaluate(&desk, slot, study, evaluate); });
    }
    auto beaten = std::chrono::steady_clock::now();
    std::optional<std::chrono::steady_clock::time_point> heard;
    bool ended = false;
    while (!ended && !(stop != nullptr && stop->load())) {
      send(&desk);
      if (Since(beaten) >= options.beat_s) {
        courier->Send(0, Pack({.kind = MessageKind::kBeat}));
        beaten = std::chrono::steady_clock::now();
      }
      const std::optional<Parcel> parcel = courier->Receive(kPollSeconds);
      if (!parcel) {
        if (heard && Since(*heard) > kManagerPatience * options.silence_s) {
          summary.deserted = true;
          return summary;
        }
        continue;
      }
      heard = std::chrono::steady_clock::now();
      const Message message = Unpack(parcel->bytes);
      if (message.kind == MessageKind::kGrant)
        desk.Grant(message.slot, {static_cast<std::size_t>(message.begin),
                                  static_cast<std::size_t>(message.end)});
      ended = message.kind == MessageKind::kEnd;
    }
    if (ended) {
      courier->Send(0, Pack({.kind = MessageKind::kLeave}));
      return summary;
    }
  }
  // Told to stop: what is done goes out, then the wish for no more.
  send(&desk);
  courier->Send(0, Pack({.kind = MessageKind::kLeave}));
  return summary;
}

void RefuseToServe(Courier* courier, const std::string& where, const std::string& why) {
  courier->Send(0, Pack({.kind = MessageKind::kLeave, .text = why + " (" + where + ")"}));
}

void AwaitDismissal(Courier* courier, const std::atomic<bool>* stop) {
  while (stop == nullptr || !stop->load()) {
    const std::optional<Parcel> parcel = courier->Receive(kPollSeconds);
    if (parcel && Unpack(parcel->bytes).kind == MessageKind::kEnd) return;
  }
}

std::string StudyKey(const Study& study) {
  std::string text = std::string(kResultSchema) + "\n" + study.tool_version + "\n" +
                     study.fingerprint + "\n" + ShardName(study.shard) + "\n" +
                     study.design.AxesJson().Dump() + "\n" + study.design.SpecJson().Dump() + "\n" +
                     WithoutSweep(study.scenario.root).Dump();
  return HashText(text).Hex();
}

}  // namespace aurum
