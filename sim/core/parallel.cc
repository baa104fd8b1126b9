#include "sim/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace aurum {

std::size_t ThreadsOf(int jobs) {
  return jobs > 0 ? static_cast<std::size_t>(jobs)
                  : std::max(1U, std::thread::hardware_concurrency());
}

void InParallel(std::size_t count, int jobs,
                const std::function<void(std::size_t thread, std::size_t i)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> halt{false};
  std::exception_ptr failed;
  std::mutex guard;
  const auto run = [&](std::size_t thread) {
    for (std::size_t i = next++; i < count && !halt; i = next++) {
      try {
        work(thread, i);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!failed) failed = std::current_exception();
        halt = true;
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t < std::min(ThreadsOf(jobs), count); ++t) threads.emplace_back(run, t);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace aurum
