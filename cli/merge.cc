#include "sim/study/merge.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/io.h"
#include "cli/version.h"

namespace aurum {
namespace {

Json SummaryJson(const MergeSummary& summary, const std::string& output) {
  Json out = Json::Object();
  out.Set("schema", "aurum.merge/1");
  out.Set("tool_version", kToolVersion);
  Json inputs = Json::Array();
  for (const MergeInput& input : summary.inputs) {
    Json each = Json::Object();
    each.Set("file", input.path);
    each.Set("shard", ShardName(input.shard));
    each.Set("points", static_cast<std::int64_t>(input.points));
    inputs.Append(std::move(each));
  }
  out.Set("inputs", std::move(inputs));
  out.Set("output", output);
  const auto count = [&](const char* key, std::size_t value) {
    out.Set(key, static_cast<std::int64_t>(value));
  };
  count("points", summary.points);
  count("stored_before", summary.stored_before);
  count("merged", summary.merged);
  count("duplicates", summary.duplicates);
  count("missing", summary.missing);
  count("ok", summary.ok);
  count("infeasible", summary.infeasible);
  count("failed", summary.failed);
  out.Set("interrupted", summary.interrupted);
  out.Set("warnings", Json::Array());
  return WithRunId(std::move(out));
}

}  // namespace

ExitCode MergeCommand(const Options& options, const std::vector<std::string>& inputs,
                      bool partial) {
  if (options.output.empty()) {
    ThrowInput(708, "a merge needs somewhere to put its points", "-o ALL.db", ExitCode::kUsage);
  }
  if (options.format != Format::kTable && options.format != Format::kJson) {
    ThrowInput(709, "a merge writes a database, and a summary as text or JSON",
               "-o ALL.db, then aurum report ALL.db -o all.csv", ExitCode::kUsage);
  }
  MergeOptions merge;
  merge.partial = partial;
  merge.stop = StopOnInterrupt();
  const MergeSummary summary = MergeStores(inputs, options.output, merge);
  std::string said =
      fmt::format("{} of {} points of {} stores: {} ok, {} infeasible, {} failed",
                  summary.ok + summary.infeasible + summary.failed, summary.points,
                  summary.inputs.size(), summary.ok, summary.infeasible, summary.failed);
  if (summary.duplicates > 0) said += fmt::format("; {} were there twice", summary.duplicates);
  if (summary.stored_before > 0)
    said += fmt::format("; {} were there already", summary.stored_before);
  if (summary.missing > 0) said += fmt::format("; {} are missing", summary.missing);
  Narrate(options, said + ", in " + options.output);
  if (summary.missing > 0) {
    Narrate(options,
            fmt::format("aurum sweep SCENARIO -o {} computes what is missing", options.output));
  }
  if (summary.interrupted) Narrate(options, "interrupted; the same command goes on from here");
  if (options.format == Format::kJson) {
    Options to_stdout = options;
    to_stdout.output.clear();
    WriteOutput(to_stdout, SummaryJson(summary, options.output).Dump(2) + "\n");
  }
  return summary.exit_code();
}

}  // namespace aurum
