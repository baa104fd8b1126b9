#include "cli/interrupt.h"

#include <csignal>

namespace aurum {
namespace {

std::atomic<bool> g_stop{false};

// Whoever presses Ctrl-C twice means it; schedulers send SIGTERM to a process and again to its group.
void OnInterrupt(int signal) {
  if (g_stop.exchange(true) && signal == SIGINT) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

const std::atomic<bool>* StopOnInterrupt() {
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  return &g_stop;
}

void EndOnInterrupt() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace aurum
