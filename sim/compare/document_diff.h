#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// One place of two scenarios that is not the same. Absent where a side does not have it.
struct KeyChange {
  std::string pointer;  // JSON pointer: "/plan/backbone/tp"
  std::string path;     // dotted, as --set takes it: "plan.backbone.tp"
  std::optional<Json> a, b;
};

// What a scenario leaves to defaults that depend on its other files, told: "profile" is the one that the cluster
// names, "stack" is megatron-core. `profile_of_cluster` is that name. Two scenarios on two clusters then differ in
// their links and in their GPUs' kernels, each a key of its own.
void TellDefaults(const std::string& profile_of_cluster, JsonDocument* document);

// The places where two scenarios differ and which matter to a simulation, in the order of A's keys, then those of B
// alone. Objects are gone through key by key; lists of objects that are equally long, element by element; all else is
// compared as a whole, and so is an object that one side lacks, but for "plan" and "what_if", whose keys have
// defaults. Names, questions, sweeps and phases are no difference.
std::vector<KeyChange> DiffScenarios(const Json& a, const Json& b);

// Makes the place what it is in B (or in A), or removes it. Values get a source of their own, so that a message about one
// names it.
void ApplyChange(const KeyChange& change, bool to_b, JsonDocument* document);

// Fewer, larger changes: differences of one section ("plan", "workload", ...) become one, until there are `most`. A
// merged change has the section's path and no values; its parts are in order.
struct ChangeGroup {
  std::string path;
  std::vector<KeyChange> changes;
};
std::vector<ChangeGroup> GroupChanges(std::vector<KeyChange> changes, std::size_t most);

// "8", "\"zero1\"" without quotes, "[3, 5]" shortened to `most` characters; "(not there)".
std::string ShowValue(const std::optional<Json>& value, std::size_t most = 40);

}  // namespace aurum
