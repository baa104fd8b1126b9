#include "calibrate/fit_stacks.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/core/json.h"

namespace aurum {
namespace {

// Rows of one source, each measured as `factor` times what is predicted for it.
std::vector<Record> Rows(const std::string& source, double factor, std::size_t most) {
  std::vector<Record> rows;
  for (Record& record : ReadRecords(ReadJsonFile("calibrate/published/training.json"), nullptr)) {
    if (record.facts.source == source && record.facts.flags.empty() && record.measured.iteration_s)
      rows.push_back(std::move(record));
  }
  if (rows.size() > most) rows.resize(most);
  FitOptions options;
  options.rounds = 0;
  const FitReport report = FitStacks(rows, OpenPublishedSources("."), ".", options);
  for (Record& record : rows) {
    for (const StackFitRow& row : report.rows)
      if (row.id == record.facts.id) record.measured.iteration_s = factor * row.predicted_s;
  }
  return rows;
}

const StackFit& Of(const FitReport& report, const std::string& name) {
  for (const StackFit& fit : report.stacks)
    if (fit.name == name) return fit;
  FAIL(name);
  return report.stacks.front();
}

TEST_CASE("fit of stacks: what all rows say is found, by their own stack, left out or not") {
  const std::vector<Record> rows = Rows("kwai-atc24", 1.08, 14);
  REQUIRE(rows.size() == 14);
  FitOptions options;
  options.rounds = 1;
  const FitReport report = FitStacks(rows, OpenPublishedSources("."), ".", options);
  REQUIRE(report.rows.size() == 14);
  for (const StackFitRow& row : report.rows) {
    CAPTURE(row.id);
    // 8 % slower everywhere: found but for what the priors hold back and one linear step misses.
    CHECK(std::abs(row.in_sample) < 0.02);
    CHECK(std::abs(row.cluster_out) < 0.05);
    CHECK(row.source_out < row.in_sample - 0.01);  // without these rows nobody knows
  }
  CHECK(Of(report, "megatron-kwai").owner == "megatron-kwai");
  CHECK(Of(report, "megatron-kwai").stack.gemm_factor >
        LoadStack("megatron-kwai", ".").gemm_factor);
  // Nobody else has rows: the common set, which every such stack shares.
  CHECK(Of(report, "torchtitan").owner.empty());
  CHECK(Of(report, "torchtitan").stack.network_efficiency ==
        Of(report, "pytorch-fsdp").stack.network_efficiency);
  // The same bytes whatever the threads.
  options.jobs = 1;
  const FitReport again = FitStacks(rows, OpenPublishedSources("."), ".", options);
  for (std::size_t i = 0; i < report.rows.size(); ++i)
    CHECK(again.rows[i].cluster_out == report.rows[i].cluster_out);
}

TEST_CASE("fit of stacks: too few rows bend nothing of their own") {
  FitOptions options;
  options.rounds = 1;
  const FitReport report =
      FitStacks(Rows("kwai-atc24", 1.08, 6), OpenPublishedSources("."), ".", options);
  CHECK(Of(report, "megatron-kwai").owner.empty());
  CHECK(Of(report, "megatron-kwai").stack.gemm_factor == 1);
}

}  // namespace
}  // namespace aurum
