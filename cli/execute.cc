#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/io.h"
#include "cli/version.h"
#include "real/cpu/cpu_launch.h"
#include "real/cuda/cuda_backend.h"
#include "real/device_query.h"
#include "real/execution.h"
#include "real/supervisor.h"
#include "real/virtual/virtual_run.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

Launch LaunchOf(const std::string& backend, int ranks) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  if (backend == "cpu") return CpuLaunch(self.parent_path().string(), ranks);
  return CudaLaunch(self.string());
}

std::string Now() {
  std::time_t now = std::time(nullptr);
  // Equal inputs give equal bytes where somebody asks for it.
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH"); epoch != nullptr && *epoch != '\0')
    now = static_cast<std::time_t>(std::strtoll(epoch, nullptr, 10));
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::vector<RankRun> RunOnVirtualRanks(const Options& options, const ExecuteCommandLine& command,
                                       const JsonDocument& document, const Executable& plan,
                                       InputCache* cache) {
  VirtualRun run;
  run.truth = command.truth;
  run.noise = command.noise;
  run.seed = command.seed;
  run.steps = command.steps;
  Scenario truth = ReadScenario(document, cache);
  if (!command.truth.empty()) {
    truth.profile = cache->GetProfile(command.truth).value;
  } else {
    Narrate(options, "no --truth: the virtual ranks take what the scenario's own profile says");
  }
  // The split of layers is the plan's, not what the truth would balance.
  truth.plan = plan.scenario.plan;
  return RunVirtually(plan, MakeExecutable(std::move(truth), plan.lone_rank), run);
}

std::string Summary(const RunRecord& record, const Executable& e, Format format) {
  Table facts({"", ""}, "<<");
  const double predicted = e.PredictedSeconds();
  double off = (predicted / record.step_time_s - 1) * 100;
  if (std::abs(off) < 0.05) off = 0;  // not "-0.0"
  facts.Row({"scenario", record.scenario_name});
  facts.Row({"backend",
             fmt::format("{}, by {}{}", record.backend, record.clock,
                         record.lone_rank >= 0 ? fmt::format(", rank {} alone", record.lone_rank)
                                               : fmt::format(", {} ranks", record.ranks.size()))});
  facts.Row({"step time",
             fmt::format("{} measured, {} predicted ({:+.1f} %)", ShowSeconds(record.step_time_s),
                         ShowSeconds(predicted), (predicted / record.step_time_s - 1) * 100)});
  facts.Row(
      {"steps", fmt::format("{} timed, {} of them clean, varying by {}", record.steps_s.size(),
                            record.clean_steps_s.size(), ShowPercent(record.variation))});
  if (!record.wall_steps_s.empty()) {
    facts.Row({"wall clock", ShowSeconds(MedianOf(record.wall_steps_s)) + " a step"});
  }
  for (const RunCheck& check : record.checks)
    facts.Row({"check: " + check.name,
               fmt::format("{}: {}", check.passed ? "passed" : "FAILED", check.detail)});
  return facts.As(format);
}

}  // namespace

ExitCode ExecuteCommand(const Options& options, const std::string& file,
                        const ExecuteCommandLine& command) {
  if (options.output.empty()) {
    ThrowInput(1, "where does the run record go?", "-o RUN.json", ExitCode::kUsage);
  }
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  Scenario scenario = ReadScenario(document, &cache);
  PrintWarnings(options, scenario.warnings);
  RefuseToReplace(scenario, {{"-o", options.output}});
  const Executable plan = MakeExecutable(std::move(scenario), command.lone_rank);
  if (options.dry_run) {
    Narrate(options, fmt::format("valid: {} ops, shape {}", plan.program.info.size(),
                                 ShapeOf(plan.program)));
    return ExitCode::kOk;
  }
  RunRecord base;
  std::vector<RankRun> runs;
  if (command.backend == "virtual") {
    runs = RunOnVirtualRanks(options, command, document, plan, &cache);
    base.clock = "logical clocks";
    base.versions = {{"truth", command.truth.empty() ? plan.scenario.profile->name : command.truth},
                     {"noise", fmt::format("{}", command.noise)}};
  } else {
    Job job;
    job.what = "execute";
    job.scenario = document.root;
    job.data_root = options.data_root;
    job.ranks = plan.Ranks();
    job.lone_rank = plan.lone_rank;
    job.steps = command.steps;
    job.seed = command.seed;
    const std::atomic<bool>* stop = StopOnInterrupt();
    runs = RunJob(
        job, LaunchOf(command.backend, job.ranks),
        [&](const std::string& line) { Narrate(options, line); }, [stop] { return stop->load(); });
    EndOnInterrupt();
    const bool cpu = command.backend == "cpu";
    base.clock = cpu ? "thread CPU time" : "device events";
    base.versions = {{"backend", cpu ? DescribeCpuBackend() : AttachedDevices()}};
  }
  RunRecord record = MakeRunRecord(plan, runs, command.steps);
  record.tool_version = kToolVersion;
  record.command_line = options.command_line;
  record.date = Now();
  record.backend = command.backend;
  record.scenario = document.root;
  record.seed = command.seed;
  record.clock = base.clock;
  record.versions = base.versions;
  WriteTextFile(options.output, RunRecordText(record));
  if (!options.quiet) {
    const std::string text = Summary(record, plan, options.format);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  const bool passed = std::all_of(record.checks.begin(), record.checks.end(),
                                  [](const RunCheck& check) { return check.passed; });
  if (!passed) {
    Diagnostic d;
    d.code = 907;
    d.message = "the plan ran, but a check failed";
    d.help = "the record tells which; a run that fails one is no measurement";
    PrintDiagnostic(options, d);
    return ExitCode::kOutsideTolerance;
  }
  return ExitCode::kOk;
}

}  // namespace aurum
