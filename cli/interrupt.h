#pragma once

#include <atomic>

namespace aurum {

// From now on the first SIGINT or SIGTERM sets the flag that is returned, and the command ends in order;
// a second SIGINT ends the process at once. One flag for all callers.
const std::atomic<bool>* StopOnInterrupt();
// From now on either ends the process again.
void EndOnInterrupt();

}  // namespace aurum
