#include "calibrate/measure.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace aurum {
namespace {

Samples Ask(Bench* bench, const MeasuredItem& item, Bench::Burn* burn) {
  switch (item.kind) {
    case MeasuredKind::kKernel:
      return bench->Time(item.kernel, item.samples);
    case MeasuredKind::kLaunchGap:
      return bench->LaunchGap(item.graph, item.samples);
    case MeasuredKind::kCopy:
      return bench->Copy(item.copy, item.bytes, item.samples);
    case MeasuredKind::kCollective:
      return bench->Collective(item.collective, item.gpus, item.bytes, item.dtype, item.samples);
    case MeasuredKind::kBeside:
      return bench->Beside(item.kernel, item.collective, item.bytes, item.samples);
    case MeasuredKind::kBurn:
      *burn = bench->BurnFor(item.kernel, item.burn_s);
      return {};
  }
  return {};
}

double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

std::vector<double> Sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

std::string MeasuredKindName(MeasuredKind kind) {
  switch (kind) {
    case MeasuredKind::kKernel:
      return "kernel";
    case MeasuredKind::kLaunchGap:
      return "launch_gap";
    case MeasuredKind::kCopy:
      return "copy";
    case MeasuredKind::kCollective:
      return "collective";
    case MeasuredKind::kBeside:
      return "beside";
    case MeasuredKind::kBurn:
      return "burn";
  }
  return "kernel";
}

std::string Describe(const MeasuredItem& item) {
  char bytes[48];
  std::snprintf(bytes, sizeof bytes, "%.0f bytes", item.bytes);
  switch (item.kind) {
    case MeasuredKind::kKernel:
      return Describe(item.kernel);
    case MeasuredKind::kLaunchGap:
      return item.graph ? "launch gap in a graph" : "launch gap in a stream";
    case MeasuredKind::kCopy:
      return "copy " + CopyKindName(item.copy) + " of " + bytes;
    case MeasuredKind::kCollective:
      return CollectiveName(item.collective) + " of " + bytes + " on " + std::to_string(item.gpus) +
             " devices, " + DTypeName(item.dtype);
    case MeasuredKind::kBeside:
      return Describe(item.kernel) + " beside " + CollectiveName(item.collective) + " of " + bytes;
    case MeasuredKind::kBurn:
      return "burn of " + Describe(item.kernel);
  }
  return "";
}

Measurements Measure(Bench* bench, const MeasurementPlan& plan, const MeasureHooks& hooks) {
  Measurements out;
  out.device = bench->Describe();
  out.seed = plan.seed;
  const double start = hooks.clock ? hooks.clock() : 0;
  const auto elapsed = [&] { return hooks.clock ? hooks.clock() - start : 0; };
  double kept_for_burns = 0;
  for (const MeasuredItem& item : plan.items) {
    if (item.kind == MeasuredKind::kBurn) kept_for_burns += item.burn_s;
  }
  const std::size_t count = plan.items.size();
  for (std::size_t i = 0; i < count; ++i) {
    const MeasuredItem& item = plan.items[i];
    const bool burn = item.kind == MeasuredKind::kBurn;
    if (!burn && plan.budget_s > 0 && elapsed() > plan.budget_s - kept_for_burns) {
      out.left_out.push_back({item, "budget"});
      continue;
    }
    MeasuredRow row;
    row.item = item;
    row.samples = Ask(bench, item, &row.burn);
    const bool empty = burn ? row.burn.first_s <= 0 : row.samples.seconds.empty();
    if (empty) {
      out.left_out.push_back(
          {item, row.samples.disturbed > 0 ? "disturbed" : "not on this device"});
    } else {
      out.rows.push_back(std::move(row));
    }
    // Ten lines, whatever the number of questions.
    if (hooks.narrate && (i + 1) * 10 / count != i * 10 / count) {
      hooks.narrate("measured " + std::to_string(i + 1) + " of " + std::to_string(count) + ": " +
                    Describe(item));
    }
  }
  out.elapsed_s = elapsed();
  return out;
}

double TypicalSeconds(const MeasuredRow& row) {
  if (row.samples.seconds.empty()) return 0;
  return Quantile(Sorted(row.samples.seconds), 0.5);
}

double Spread(const MeasuredRow& row) {
  if (row.samples.seconds.empty()) return 0;
  const std::vector<double> sorted = Sorted(row.samples.seconds);
  const double median = Quantile(sorted, 0.5);
  return median > 0 ? (Quantile(sorted, 0.75) - Quantile(sorted, 0.25)) / 2 / median : 0;
}

}  // namespace aurum
