#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "sim/core/diagnostic.h"

namespace aurum {

// Real files of others lie beside the checkout and are never part of it. "" where they are absent: the caller returns, and
// the message says that it skipped.
inline std::string SharedPath(const std::string& relative) {
  const char* root = std::getenv("AURUM_SHARED");
  std::string path = std::string(root != nullptr ? root : "../shared") + "/" + relative;
  if (std::filesystem::exists(path)) return path;
  MESSAGE("skipped: ", path, " is not here");
  return "";
}

// The diagnostic that `action` throws; fails the test if it throws none.
template <typename Action>
Diagnostic ThrownBy(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.diagnostic();
  }
  FAIL("no InputError was thrown");
  return {};
}

}  // namespace aurum
