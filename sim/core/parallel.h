#pragma once

#include <cstddef>
#include <functional>

namespace aurum {

// How many threads `jobs` asks for: 0 = one a core.
std::size_t ThreadsOf(int jobs);

// work(thread, i) once for every i < count, on so many threads, the caller's among them; `thread` is
// below ThreadsOf(jobs), and no two at once have the same. After an exception no i is begun; the first
// one comes out when all threads have ended.
void InParallel(std::size_t count, int jobs,
                const std::function<void(std::size_t thread, std::size_t i)>& work);

}  // namespace aurum
