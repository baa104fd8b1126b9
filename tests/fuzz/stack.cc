#include "sim/cost/stack.h"

#include "tests/fuzz/entry.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](std::string text) {
    const aurum::Stack stack = aurum::ReadStack(aurum::ParseJson(std::move(text), "fuzz.json"));
    aurum::Require(stack.dp_overlap >= 0 && stack.dp_overlap <= 1, "a share is a share");
    aurum::Require(stack.weight_bytes >= 0 && stack.runtime_bytes >= 0, "bytes are not negative");
  });
}
