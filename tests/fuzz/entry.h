#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sim/core/diagnostic.h"

// What libFuzzer calls, and in the tests our own driver. Each file of this folder defines it for
// one parser.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace aurum {

// Stops the process, so that whoever drives it keeps the input.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Runs a parser. Bad input may only be an InputError, with a number and a message; anything else
// escapes and is a finding.
template <typename Parse>
int Try(const std::uint8_t* data, std::size_t size, Parse parse) {
  try {
    parse(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const InputError& error) {
    const Diagnostic& diagnostic = error.diagnostic();
    Require(diagnostic.code >= 100 && diagnostic.code < 1000, "an error has a code E0100 … E0999");
    Require(!diagnostic.message.empty(), "an error has a message");
    Require(diagnostic.where.line == 0 || diagnostic.where.column > 0,
            "a place with a line has a column");
  }
  return 0;
}

}  // namespace aurum
