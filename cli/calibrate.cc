// aurum calibrate: measures a machine, or reads what others measured, and fits a profile.
#include "calibrate/measure.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "calibrate/build_profiles.h"
#include "calibrate/cuda/cuda_bench.h"
#include "calibrate/exact_calls.h"
#include "calibrate/fit_profile.h"
#include "calibrate/import.h"
#include "calibrate/virtual_bench.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/io.h"
#include "cli/version.h"
#include "real/cpu/cpu_launch.h"
#include "real/supervisor.h"
#include "sim/core/text_file.h"
#include "sim/cost/exact.h"

namespace aurum {
namespace {

double WallClock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string PercentOrNone(double share) { return std::isnan(share) ? "–" : ShowPercent(share); }

// The calls of the scenarios. Which kernels a plan runs does not hang on what they cost, but for the
// split of layers over uneven stages; so a scenario whose profile is still to be made is lowered with
// the base, or a profile of the catalogue.
ExactCalls CallsOfScenarios(const Options& options, const CalibrateCommandLine& command) {
  ExactCalls calls;
  InputCache cache(options.data_root);
  for (const std::string& file : command.scenarios) {
    JsonDocument document = OpenScenario(options, file);
    const auto add = [&] { AddCallsOf(ReadScenario(document, &cache), &calls); };
    try {
      add();
    } catch (const InputError& error) {
      const int code = error.diagnostic().code;
      if (options.profile || (code != 201 && code != 230)) throw;
      const std::string lent = command.base.empty() ? "h100" : command.base;
      SetPath(&document, "profile", Json(lent), "the profile to be made");
      add();
      Narrate(options, file + ": its profile is not there yet; split over stages as by " + lent);
    }
  }
  return calls;
}

struct MeasuredMachine {
  Measurements measurements;
  std::vector<std::string> remarks;
};

MeasurementOptions OptionsOf(const CalibrateCommandLine& command) {
  MeasurementOptions measure;
  measure.seed = command.seed;
  measure.budget_s = command.budget_s;
  measure.burn_s = std::min(measure.burn_s, command.budget_s / 10);
  return measure;
}

Measurements MeasureVirtual(const Options& options, const CalibrateCommandLine& command,
                            const ExactCalls& calls, const MeasureHooks& narrate) {
  if (command.truth.empty()) {
    ThrowInput(1, "a virtual machine takes its times from a profile: --truth is missing",
               "--truth h100", ExitCode::kUsage);
  }
  VirtualBenchOptions bench_options;
  bench_options.noise = command.noise;
  bench_options.seed = command.seed;
  VirtualBench bench(ReadProfile(OpenProfile(command.truth, options.data_root)), bench_options);
  MeasureHooks hooks = narrate;
  hooks.clock = [&] { return bench.ClockSeconds(); };
  return Measure(&bench, PlanMeasurements(bench.Describe(), calls, OptionsOf(command)), hooks);
}

Measurements MeasureCuda(const CalibrateCommandLine& command, const ExactCalls& calls,
                         const MeasureHooks& narrate) {
  CudaBenchOptions bench_options;
  bench_options.seed = command.seed;
  bench_options.beside_others = command.force;
  const std::unique_ptr<Bench> bench = MakeCudaBench(bench_options);
  MeasureHooks hooks = narrate;
  hooks.clock = WallClock;
  return Measure(bench.get(), PlanMeasurements(bench->Describe(), calls, OptionsOf(command)),
                 hooks);
}

Measurements MeasureCpu(const Options& options, const CalibrateCommandLine& command,
                        const ExactCalls& calls, const MeasureHooks& hooks) {
  BenchDevice device;
  device.backend = "cpu";
  device.dtypes = {DType::kFp32};
  device.devices = command.ranks;
  Job job;
  job.what = "calibrate";
  job.data_root = options.data_root;
  job.ranks = command.ranks;
  job.seed = command.seed;
  job.options = WriteMeasurementPlan(PlanMeasurements(device, calls, OptionsOf(command)));
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::atomic<bool>* stop = StopOnInterrupt();
  const std::string text =
      RunMeasurementJob(job, CpuLaunch(self.parent_path().string(), command.ranks), hooks.narrate,
                        [stop] { return stop->load(); });
  EndOnInterrupt();
  return ReadMeasurements(ParseJson(text, "the job's measurements"));
}

void RefuseOverwriting(const Options& options, const CalibrateCommandLine& command) {
  if (options.output.empty()) {
    ThrowInput(1, "where does the profile go?", "-o PROFILE.json", ExitCode::kUsage);
  }
  std::error_code error;
  if (std::filesystem::exists(options.output, error) && !command.force) {
    ThrowInput(832, "'" + options.output + "' is there already", "another name, or --force",
               ExitCode::kUsage);
  }
  if (!command.measurements.empty() && std::filesystem::exists(command.measurements, error) &&
      !command.force) {
    ThrowInput(832, "'" + command.measurements + "' is there already", "another name, or --force",
               ExitCode::kUsage);
  }
}

Table PartsTable(const ProfileFit& fit) {
  Table table({"part", "form", "points", "held out", "training sizes", "fitted on"}, "<<>>><");
  for (const FittedPart& part : fit.parts) {
    table.Row({part.what, part.form, std::to_string(part.points), PercentOrNone(part.holdout_mape),
               PercentOrNone(part.training_mape), part.range});
  }
  return table;
}

Json ResultJson(const Options& options, const MeasuredMachine& machine, const ProfileFit& fit) {
  const auto share = [](double value) { return std::isnan(value) ? Json() : Json(value); };
  Json out = Json::Object();
  out.Set("schema", "aurum.calibration/1");
  out.Set("tool_version", kToolVersion);
  out.Set("profile", fit.profile.name);
  out.Set("output", options.output);
  out.Set("device", fit.profile.device.name);
  out.Set("backend", machine.measurements.device.backend);
  out.Set("provenance", ProvenanceName(fit.profile.provenance));
  out.Set("error_band", fit.profile.error_band);
  out.Set("error_band_source", fit.profile.error_band_source);
  out.Set("elapsed_s", machine.measurements.elapsed_s);
  Json& parts = out.Set("parts", Json::Array());
  for (const FittedPart& part : fit.parts) {
    Json& json = parts.Append(Json::Object());
    json.Set("part", part.what);
    json.Set("form", part.form);
    json.Set("points", part.points);
    json.Set("holdout_mape", share(part.holdout_mape));
    json.Set("training_size_mape", share(part.training_mape));
    json.Set("range", part.range);
    json.Set("source", part.source);
  }
  Json& overlaps = out.Set("overlap_slowdowns", Json::Array());
  for (const OverlapSlowdown& overlap : fit.overlaps) {
    Json& json = overlaps.Append(Json::Object());
    json.Set("kernel", Describe(overlap.kernel));
    json.Set("collective", CollectiveName(overlap.collective));
    json.Set("bytes", overlap.bytes);
    json.Set("factor", overlap.factor);
  }
  Json& remarks = out.Set("remarks", Json::Array());
  for (const std::string& remark : machine.remarks) remarks.Append(remark);
  return out;
}

std::string ResultText(const Options& options, const MeasuredMachine& machine,
                       const ProfileFit& fit) {
  std::string out = PartsTable(fit).As(options.format);
  if (!fit.overlaps.empty()) {
    Table overlaps({"beside a collective (of a stack, not in the profile)", "takes"}, "<>");
    for (const OverlapSlowdown& o : fit.overlaps) {
      overlaps.Row({Describe(o.kernel) + " beside " + CollectiveName(o.collective),
                    fmt::format("× {:.2f}", o.factor)});
    }
    out += "\n" + overlaps.As(options.format);
  }
  if (options.format == Format::kCsv) return out;
  out += fmt::format("\n{}: {} for {}, quoted with ± {}\n  {}\n", options.output, fit.profile.name,
                     fit.profile.device.name, ShowPercent(fit.profile.error_band),
                     fit.profile.error_band_source);
  for (const std::string& remark : machine.remarks) out += "  " + remark + "\n";
  return out;
}

}  // namespace

ExitCode CalibrateCommand(const Options& options, const CalibrateCommandLine& command) {
  RefuseOverwriting(options, command);
  Profile base;
  if (!command.base.empty()) base = ReadProfile(OpenProfile(command.base, options.data_root));
  MeasuredMachine machine;
  if (!command.from.empty()) {
    machine.measurements.device.backend = "import";
    ImportFiles(command.from, command.import, &machine.measurements, &machine.remarks);
    if (machine.measurements.device.backend == "import" && command.base.empty()) {
      ThrowInput(839, "these files do not tell what the device is, nor all that a profile needs",
                 "--base PROFILE names the one that has the rest: `aurum list profiles`",
                 ExitCode::kUsage);
    }
  } else {
    const ExactCalls calls = CallsOfScenarios(options, command);
    if (!command.scenarios.empty()) {
      Narrate(options, fmt::format("the plans run {} distinct kernels and {} collectives",
                                   calls.kernels.size(), calls.collectives.size()));
    }
    MeasureHooks hooks;
    hooks.narrate = [&](const std::string& line) { Narrate(options, line); };
    machine.measurements = command.backend == "virtual"
                               ? MeasureVirtual(options, command, calls, hooks)
                           : command.backend == "cpu" ? MeasureCpu(options, command, calls, hooks)
                                                      : MeasureCuda(command, calls, hooks);
  }
  if (!command.measurements.empty()) {
    WriteTextFile(command.measurements, WriteMeasurements(machine.measurements).Dump(1) + "\n");
  }
  FitProfileOptions fit_options;
  fit_options.name =
      command.name.empty() ? std::filesystem::path(options.output).stem().string() : command.name;
  if (!command.base.empty()) fit_options.base = &base;
  const ProfileFit fit = FitProfileWithReport(machine.measurements, fit_options);
  machine.remarks.insert(machine.remarks.end(), fit.remarks.begin(), fit.remarks.end());
  const std::string text = ProfileText(fit.profile);
  ReadProfile(ParseJson(text, options.output));  // what cannot be read again is not written
  WriteTextFile(options.output, text);
  Options shown = options;
  shown.output.clear();
  const bool json = options.format == Format::kJson || options.format == Format::kJsonLines;
  WriteOutput(shown, json ? WithRunId(ResultJson(options, machine, fit))
                                    .Dump(options.format == Format::kJson ? 2 : -1) +
                                "\n"
                          : ResultText(options, machine, fit));
  return ExitCode::kOk;
}

}  // namespace aurum
