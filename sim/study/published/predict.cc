#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "sim/core/diagnostic.h"
#include "sim/study/evaluate.h"
#include "sim/study/published/validation.h"

namespace aurum {
namespace {

double MemoryOf(const ClassMemory& memory, MemoryLevel level) {
  switch (level) {
    case MemoryLevel::kAllocated:
      return memory.allocated_bytes;
    case MemoryLevel::kReserved:
      return memory.reserved_bytes;
    case MemoryLevel::kDevice:
      return memory.peak_bytes;
  }
  return memory.peak_bytes;
}

// The class of the rank whose peak the source reports.
std::size_t ClassOf(const Evaluation& e, MemoryRank rank, MemoryLevel level) {
  const std::vector<RankClass>& classes = e.program.classes;
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < classes.size(); ++i) {
    const bool better =
        rank == MemoryRank::kLast ? classes[i].stage > classes[chosen].stage
        : rank == MemoryRank::kFirst
            ? classes[i].stage < classes[chosen].stage
            : MemoryOf(e.memory.classes[i], level) > MemoryOf(e.memory.classes[chosen], level);
    if (better) chosen = i;
  }
  return chosen;
}

Prediction Walk(const Json& scenario, const Translation& t, InputCache* cache, Level level) {
  const JsonDocument document =
      ParseJson(scenario.Dump(2), "scenario of " + scenario.Find("name")->AsString());
  const Evaluation e = Evaluate(ReadScenario(document, cache), level);
  Prediction out;
  out.step_s = e.StepSeconds();
  out.time = e.Time();
  out.model_flops = ModelFlopsPerGpu(e);
  out.memory_bytes = MemoryOf(e.memory.classes[ClassOf(e, t.rank, t.level)], t.level);
  out.device_bytes = e.memory.usable_bytes;
  out.step_low = 1 - StepBand(e.scenario);
  out.step_high = 1 + StepBand(e.scenario);
  const double peak = e.memory.Heaviest().peak_bytes;
  if (peak > 0) {
    out.memory_low = e.memory.low_bytes / peak;
    out.memory_high = e.memory.high_bytes / peak;
  }
  out.fits = e.memory.fits;
  out.at_risk = e.memory.at_risk;
  return out;
}

}  // namespace

double PredictStepSeconds(const Translation& t, InputCache* cache) {
  if (!t.model.IsNull()) cache->AddModel(t.model_name, ParseJson(t.model.Dump(2), t.model_name));
  if (!t.cluster.IsNull())
    cache->AddCluster(t.cluster_name, ParseJson(t.cluster.Dump(2), t.cluster_name));
  const Scenario scenario = ReadScenario(ParseJson(t.scenario.Dump(2), "scenario"), cache);
  return Simulate(Lower(scenario), Level::kAnalytic).StepSeconds();
}

PredictedRecord Predict(const RecordFacts& facts, const PublishedSources& sources,
                        const std::string& data_root, InputCache* cache, Level level) {
  PredictedRecord out;
  Translation& t = out.translation = ToScenario(facts, sources, data_root);
  if (!t.skip.empty()) return out;
  const auto document = [&](const Json& json, const char* what) {
    return ParseJson(json.Dump(2), std::string(what) + " of " + facts.id);
  };
  try {
    if (!t.model.IsNull()) cache->AddModel(t.model_name, document(t.model, "model"));
    if (!t.cluster.IsNull()) cache->AddCluster(t.cluster_name, document(t.cluster, "cluster"));
    out.nominal = Walk(t.scenario, t, cache, level);
  } catch (const InputError& error) {
    out.failed = error.diagnostic().CodeName() + ": " + error.diagnostic().message;
    return out;
  }
  out.step_low_s = out.step_high_s = out.nominal->step_s;
  out.memory_low_bytes = out.memory_high_bytes = out.nominal->memory_bytes;
  out.some_end_fits = out.nominal->fits;
  for (const Json& end : t.ends) {
    try {
      const Prediction p = Walk(end, t, cache, level);
      out.some_end_fits = out.some_end_fits || p.fits;
      out.step_low_s = std::min(out.step_low_s, p.step_s);
      out.step_high_s = std::max(out.step_high_s, p.step_s);
      out.memory_low_bytes = std::min(out.memory_low_bytes, p.memory_bytes);
      out.memory_high_bytes = std::max(out.memory_high_bytes, p.memory_bytes);
    } catch (const InputError&) {
      // An end that is no plan (a micro-batch that does not divide) bounds nothing.
    }
  }
  return out;
}

std::vector<PredictedRecord> PredictAll(const std::vector<Record>& records,
                                        const PublishedSources& sources,
                                        const std::string& data_root,
                                        const PublishedOptions& options) {
  std::vector<PredictedRecord> out(records.size());
  InputCache cache(data_root);
  std::mutex mutex;
  std::condition_variable moved;
  std::size_t next = 0, done = 0;
  std::exception_ptr failure;
  const auto work = [&] {
    for (;;) {
      std::size_t i = 0;
      {
        const std::lock_guard lock(mutex);
        if (next >= records.size() || failure != nullptr) return;
        if (options.stop != nullptr && options.stop->load()) return;
        i = next++;
      }
      std::exception_ptr error;
      try {
        out[i] = Predict(records[i].facts, sources, data_root, &cache, options.level);
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      ++done;
      if (error != nullptr && failure == nullptr) failure = error;
      moved.notify_one();
    }
  };
  std::size_t jobs = options.jobs > 0 ? static_cast<std::size_t>(options.jobs)
                                      : std::max(1U, std::thread::hardware_concurrency());
  jobs = std::min(jobs, std::max<std::size_t>(1, records.size()));
  std::vector<std::thread> threads;
  std::size_t running = jobs;
  threads.reserve(jobs);
  for (std::size_t i = 0; i < jobs; ++i) {
    threads.emplace_back([&] {
      work();
      const std::lock_guard lock(mutex);
      --running;
      moved.notify_one();
    });
  }
  {
    std::unique_lock lock(mutex);
    while (running > 0) {
      moved.wait_for(lock, std::chrono::milliseconds(200));
      if (!options.progress) continue;
      const std::size_t now = done;
      lock.unlock();
      options.progress(now, records.size());
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  return out;
}

}  // namespace aurum
