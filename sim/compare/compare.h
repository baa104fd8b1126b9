#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/compare/document_diff.h"
#include "sim/compare/fail_if.h"
#include "sim/compare/links_needed.h"
#include "sim/compare/side.h"
#include "sim/compare/step_parts.h"
#include "sim/compare/substitute.h"

namespace aurum {

// Two steps side by side: what is different, where the seconds and bytes of the difference are, and which inputs make
// them.

struct MemoryChange {
  std::string component;  // "weights", …
  double a_bytes = 0, b_bytes = 0;
};

struct CollectiveChange {
  StepCategory category = StepCategory::kTp;
  CommunicationPart a, b;  // all 0 on a side that has none
};

// A fact of model, cluster, profile or data that is not the same, for people: the inputs may have other names and be
// equal, or the same name and differ.
struct FactChange {
  std::string of, fact, unit;  // "cluster", "network per GPU", "GB/s"
  Json a, b;
};

// What more (or fewer) GPUs make of the same work. Ideal is A's step with every part dealt over B's GPUs for B's
// batch: part · (GPUs of A / GPUs of B) · (batch of B / batch of A). What B takes beyond that is lost, part by part,
// in a sum that closes to rounding.
struct Scaling {
  int gpus_a = 0, gpus_b = 0;
  double batch_a = 0, batch_b = 0;
  double ideal_step_s = 0;
  double speedup = 1;        // samples per second, B over A
  double ideal_speedup = 1;  // GPUs, B over A
  struct Part {
    std::string name;
    double a_s = 0, ideal_s = 0, b_s = 0;
    double LostSeconds() const { return b_s - ideal_s; }
  };
  std::vector<Part> parts;  // the largest loss first
  double Efficiency() const { return speedup / ideal_speedup; }
};

struct Comparison {
  Side a, b;
  StepParts parts_a, parts_b;
  std::vector<PartChange> parts;  // sum to the change of the step
  std::vector<CollectiveChange> communication;
  std::vector<MemoryChange> memory;  // sum to the change of the peak
  std::vector<FactChange> facts;
  std::vector<KeyChange> changes;            // of the scenarios, where both are known
  std::optional<Scaling> scaling;            // GPUs or batch differ, the work of a sample does not
  std::optional<Substitution> substitution;  // both were simulated, and something differs
  std::optional<LinksNeeded> links;          // clusters differ, and one falls behind
  std::vector<Judged> judged;
  std::vector<std::string> notes;  // what a reader must know to read the figures rightly
  std::string summary;             // a sentence or two
  bool Failed() const;
};

struct CompareOptions {
  bool substitute = true;
  std::vector<Condition> fail_if;
};

// Deterministic. Errors: E0881 of a condition; none else, since both sides were walked before.
Comparison Compare(Side a, Side b, InputCache* cache, const CompareOptions& options);

// The document of `compare --json` (docs/schema/comparison.schema.json).
Json ComparisonJson(const Comparison& comparison, const std::string& tool_version);

}  // namespace aurum
