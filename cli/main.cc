#include <CLI/CLI.hpp>

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/monitor.h"
#include "cli/version.h"
#include "real/cuda/cuda_backend.h"
#include "sim/collectives/nccl_tests.h"

namespace aurum {
namespace {

// Where the catalogues are: AURUM_DATA, else beside an installed binary (../share/aurum), else the source tree.
std::string DataRoot(const char* argv0) {
  namespace fs = std::filesystem;
  if (const char* given = std::getenv("AURUM_DATA"); given != nullptr && *given != '\0')
    return given;
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) self = argv0;
  const fs::path shared = self.parent_path() / ".." / "share" / "aurum";
  if (fs::exists(shared / "models", error)) return fs::weakly_canonical(shared, error).string();
  return kSourceDataRoot;
}

std::string Quoted(const std::string& word) {
  const bool plain =
      !word.empty() &&
      word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%") ==
          std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// CLI11 reports an unknown command as unexpected arguments; name the nearest one.
std::string CommandHelp(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  for (const std::string& word : words) {
    if (word.empty() || word[0] == '-') continue;
    const std::string nearest = NearestName(word, names);
    return nearest.empty() || nearest == word ? "aurum --help lists the commands"
                                              : "did you mean '" + nearest + "'?";
  }
  return "aurum --help lists the commands";
}

// CLI11's own range lets NaN pass.
CLI::Validator Between(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        double value = 0;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
        if (read.ec == std::errc() && read.ptr == text.data() + text.size() && value >= low &&
            value <= high)
          return {};
        char range[96];
        std::snprintf(range, sizeof range, "%s is no number from %g to %g",
                      text.substr(0, 40).c_str(), low, high);
        return range;
      },
      "NUMBER");
}

// "5%" and "0.05" are the same tolerance; a bare 5 could be meant as either, and is neither.
double ShareOf(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  const std::string_view unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
  const bool percent = unit == "%";
  if (read.ec != std::errc() || !(percent || unit.empty()) || !std::isfinite(value) || value < 0) {
    ThrowInput(1, "--tolerance '" + text + "' is neither a percentage nor a share",
               "--tolerance 5%, or 0.05", ExitCode::kUsage);
  }
  if (!percent && value >= 1) {
    char much[40];
    std::snprintf(much, sizeof much, "%g", value * 100);
    ThrowInput(1, "--tolerance " + text + " would be " + much + " %",
               "did you mean " + text + "%? A share is below 1", ExitCode::kUsage);
  }
  return percent ? value / 100 : value;
}

int Main(int argc, char** argv) {
  Options options;
  options.data_root = DataRoot(argv[0]);
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  options.command_line = "aurum";
  for (const std::string& word : words) options.command_line += " " + Quoted(word);

  CLI::App app{"Aurum: what would this multimodal training plan cost, and what limits it?",
               "aurum"};
  app.require_subcommand(0, 1);
  app.option_defaults()->always_capture_default(false);
  bool version = false, json = false, no_progress = false;
  std::string format, level = "analytic", fold = "on", color = "auto", combine = "max", profile;
  app.add_flag("--version", version, "version, build and attached devices");

  const auto common = [&](CLI::App* command) {
    command->add_flag("--json", json, "one JSON document on standard output");
    command->add_option("--format", format, "table, json, jsonl, csv or md")
        ->check(CLI::IsMember({"table", "json", "jsonl", "csv", "md"}));
    command->add_option("-o,--output", options.output, "write here instead of standard output");
    command->add_flag("-q,--quiet", options.quiet, "no narration and no warnings");
    command->add_option("--color", color, "auto, always or never (NO_COLOR is respected)")
        ->check(CLI::IsMember({"auto", "always", "never"}));
  };
  const auto run_options = [&](CLI::App* command) {
    command
        ->add_option("--set", options.set,
                     "path=value in the scenario, dotted or JSON pointer; repeatable")
        ->allow_extra_args(false);
    command->add_option("--profile", profile, "use this profile: a name or a file");
    command
        ->add_option("--level", level,
                     "analytic (priced times), flow (collectives share links), auto (flow only "
                     "where they meet) or chunk (every step of every channel)")
        ->check(CLI::IsMember({"analytic", "flow", "auto", "chunk"}));
    command
        ->add_option("--epsilon", options.epsilon,
                     "of flow, auto and chunk: rates may be off the fair ones by this share; 0 is "
                     "exact")
        ->check(Between(0.0, 0.1));
    command
        ->add_option("--fold", fold,
                     "on: simulate ranks that are alike once; off: every rank; verify: both, and "
                     "compare")
        ->check(CLI::IsMember({"on", "off", "verify"}));
  };
  const auto scenario_options = [&](CLI::App* command) {
    run_options(command);
    command->add_option("--combine", combine, "of the golden formula: max, sum or critical_path")
        ->check(CLI::IsMember({"max", "sum", "critical_path"}));
    command
        ->add_option("--alpha", options.weights.alpha,
                     "of the golden formula: exposed share of Comm")
        ->check(Between(0.0, 1.0));
    command->add_option("--beta", options.weights.beta, "of the golden formula: weight of P_align")
        ->check(Between(0.0, 1e6));
  };

  std::string scenario, cluster, what, kind, file;
  std::vector<std::string> inputs;
  DesignOptions design;
  std::vector<int> path;
  std::string loads;
  int links_shown = 20;

  CLI::App* simulate =
      app.add_subcommand("simulate", "one step: time, throughput, memory, what limits it");
  simulate->add_option("scenario", scenario, "scenario file")->required();
  simulate->add_flag("--dry-run", options.dry_run, "validate only");
  simulate->add_flag("-v,--verbose", options.verbose,
                     "the largest tensors at the peak and what GPUs are busy with, too");
  simulate->add_flag("--timeline", options.timeline,
                     "draw what every pipeline stage does over the step");
  simulate
      ->add_option("--width", options.width,
                   "columns of the timeline (default: the terminal's, or 100)")
      ->check(CLI::Range(40, 4000));
  simulate->add_option("--trace", options.trace,
                       "write the step as a trace that Perfetto and chrome://tracing open");
  simulate->add_option("--prometheus", options.prometheus,
                       "write figures of the result in Prometheus' text format");
  common(simulate);
  scenario_options(simulate);

  ExecuteCommandLine execute_line;
  CLI::App* execute = app.add_subcommand(
      "execute", "run the plan for real and write a record of every op (opens in Perfetto)");
  execute->add_option("scenario", scenario, "scenario file")->required();
  execute
      ->add_option("--backend", execute_line.backend,
                   "cuda (default), cpu or virtual (logical clocks)")
      ->check(CLI::IsMember({"cuda", "cpu", "virtual"}));
  execute
      ->add_option(
          "--rank", execute_line.lone_rank,
          "this rank alone, on one device; what it exchanges with others becomes a delay of "
          "its modelled length")
      ->check(CLI::NonNegativeNumber);
  execute->add_option("--truth", execute_line.truth,
                      "virtual: the hidden profile that ops take their time from");
  execute
      ->add_option("--noise", execute_line.noise,
                   "virtual: relative standard deviation of an op's time")
      ->check(Between(0.0, 0.3));
  execute->add_option("--seed", execute_line.seed, "of noise and data");
  execute->add_option("--steps", execute_line.steps.steps, "whole steps that are timed")
      ->check(CLI::Range(1, 100000));
  execute->add_option("--timed-steps", execute_line.steps.timed_steps, "steps timed op by op")
      ->check(CLI::Range(0, 1000));
  execute->add_option("--warm-up", execute_line.steps.warm_up, "steps before")
      ->check(CLI::Range(0, 1000));
  execute->add_flag("--dry-run", options.dry_run, "validate and lower only");
  common(execute);
  run_options(execute);

  CalibrateCommandLine calibrate_line;
  std::string collective;
  CLI::App* calibrate = app.add_subcommand(
      "calibrate", "measure this machine, or read what others measured, and write its profile");
  calibrate->add_option("--backend", calibrate_line.backend, "cuda (default), cpu or virtual")
      ->check(CLI::IsMember({"cuda", "cpu", "virtual"}));
  calibrate
      ->add_option("--for", calibrate_line.scenarios,
                   "a scenario whose very kernels are measured too; repeatable")
      ->allow_extra_args(false);
  calibrate->add_option("--from", calibrate_line.from,
                        "files instead of a machine: nccl-tests, PyTorch traces, Nsight Systems' "
                        "SQLite, tables, measurements; several may be mixed");
  calibrate->add_option("--base", calibrate_line.base,
                        "the profile that has what is not measured: a name or a file");
  calibrate->add_option("--op", collective, "--from: the collective of a log that does not tell it")
      ->check([](const std::string& name) {
        return CollectiveByTestName(name) ? std::string()
                                          : "'" + name + "' is no collective of nccl-tests";
      });
  calibrate->add_option("--gpus", calibrate_line.import.gpus, "--from: the same of its GPUs")
      ->check(CLI::Range(1, 1 << 24));
  calibrate->add_option("--nodes", calibrate_line.import.nodes, "--from: the same of its nodes")
      ->check(CLI::Range(1, 1 << 20));
  calibrate->add_option("--truth", calibrate_line.truth, "virtual: the hidden profile");
  calibrate
      ->add_option("--noise", calibrate_line.noise,
                   "virtual: relative standard deviation of a sample")
      ->check(Between(0.0, 0.3));
  calibrate->add_option("--ranks", calibrate_line.ranks, "cpu: cores that are measured together")
      ->check(CLI::Range(1, 1024));
  calibrate
      ->add_option("--budget", calibrate_line.budget_s,
                   "seconds of the machine's time (default: 240)")
      ->check(Between(1.0, 86400.0));
  calibrate->add_option("--seed", calibrate_line.seed, "of shapes, their order, data and noise")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 62));
  calibrate->add_flag("--force", calibrate_line.force, "replace files that are there already");
  calibrate->add_option("--measurements", calibrate_line.measurements,
                        "the raw samples go here, to be fitted again with --from");
  calibrate->add_option("--name", calibrate_line.name, "of the profile (default: the file's)");
  calibrate->add_option("--profile", profile, "of --for: use this profile instead");
  common(calibrate);

  CLI::App* sweep = app.add_subcommand(
      "sweep", "all points of the scenario's axes into a database; an interrupted one goes on");
  sweep->add_option("scenario", scenario, "scenario file")->required();
  sweep
      ->add_option("--vary", design.vary,
                   "path=a,b,c or path=lo:hi:step or path=lo:hi:*factor; to draw from, "
                   "path=lo:hi[:log][:int]; repeatable")
      ->allow_extra_args(false);
  sweep->add_option(
      "--design", design.kind,
      "which points: grid (all combinations), zip (axes walk together), list, random, "
      "lhs (Latin hypercube)");
  sweep->add_option("--points", design.points,
                    "how many points to draw, or a file of points: .csv, .json or .jsonl");
  sweep->add_option("--seed", design.seed, "of drawn points (default: 1)")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 62));
  sweep->add_option("--zip", design.zip, "path,path: axes that walk together; repeatable")
      ->allow_extra_args(false);
  sweep
      ->add_option("--cross", design.cross,
                   "path,path: axes that are not drawn, but crossed with the drawn points")
      ->allow_extra_args(false);
  sweep->add_option("-j,--jobs", options.jobs, "threads (default: one per core)")
      ->check(CLI::Range(0, 4096));
  sweep->add_flag("--dry-run", options.dry_run,
                  "validate and count the points only; -v shows the first, "
                  "--format csv or jsonl all of them");
  sweep->add_flag("-v,--verbose", options.verbose, "--dry-run: the first points");
  SpreadCommandLine spread;
  sweep
      ->add_option(
          "--shard", spread.shard,
          "i/n: this part of the points alone, for job arrays; aurum merge joins the parts")
      ->check([](const std::string& text) {  // an unset variable of a job wishes for nothing
        return text.empty() ? std::string("a shard is i/n: 2/4 is the second of four")
                            : std::string();
      });
  sweep
      ->add_option("--mpi", spread.mpi,
                   "auto (where mpirun or srun has started several processes), on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  sweep
      ->add_option("--worker-timeout", spread.worker_timeout_s,
                   "mpi: seconds of silence after which a process is lost and its points are done "
                   "again (default: 30)")
      ->check(Between(1.0, 86400.0));
  sweep->add_flag("--no-progress", no_progress, "no progress line");
  common(sweep);
  scenario_options(sweep);

  bool partial = false;
  CLI::App* merge = app.add_subcommand(
      "merge", "databases of one sweep, of shards or of runs apart, into one: -o ALL.db");
  merge->add_option("inputs", inputs, "PART.db...")->required();
  merge->add_flag("--partial", partial,
                  "also where points are missing; aurum sweep -o ALL.db computes them");
  common(merge);

  CLI::App* search = app.add_subcommand(
      "search", "the best plans for a model on a cluster; every other one with its reason");
  SearchCommandLine search_line;
  search->add_option("scenario", scenario, "scenario file")->required();
  search
      ->add_option("--objective", search_line.objective,
                   "throughput (default), time to the target, cost or energy")
      ->check(CLI::IsMember({"throughput", "time", "cost", "energy"}));
  search->add_option("--top", search_line.top, "so many plans (default: 10)")
      ->check(CLI::Range(1, 10000));
  search->add_flag("--pareto", search_line.pareto,
                   "the exact front of time, memory, GPUs, cost and energy: nothing is bounded out "
                   "that may be on it");
  search->add_flag("--at-risk", search_line.at_risk,
                   "also plans of which nobody can tell whether they fit");
  search
      ->add_option("--space", search_line.space,
                   "auto, or calculon: every execution of its search (default: the scenario's)")
      ->check(CLI::IsMember({"auto", "calculon"}));
  search
      ->add_option("--vary", search_line.vary,
                   "path=a,b,c: these choices for a path of the scenario; repeatable")
      ->allow_extra_args(false);
  search
      ->add_option("--keep", search_line.keep,
                   "a dimension that stays as the plan has it; repeatable")
      ->allow_extra_args(false);
  search
      ->add_option("--emit", search_line.emit,
                   "launch arguments of the best plan that the framework can run: megatron, "
                   "deepspeed, torchtitan or accelerate")
      ->check(CLI::IsMember({"megatron", "deepspeed", "torchtitan", "accelerate"}));
  search->add_option("--emit-to", search_line.emit_to,
                     "of --emit: the folder where the files go (default: after the plans)");
  search->add_option("-j,--jobs", options.jobs, "threads (default: one per core)")
      ->check(CLI::Range(0, 4096));
  search->add_flag("--dry-run", options.dry_run, "show the space only");
  search->add_flag("-v,--verbose", options.verbose, "every reason, each with a plan that shows it");
  search->add_flag("--no-progress", no_progress, "no progress line");
  common(search);
  scenario_options(search);

  CLI::App* report = app.add_subcommand(
      "report", "a report of results, a sweep or a scenario: .html, .md or .csv");
  report->add_option("inputs", inputs, "RUN.db, RESULT.json or SCENARIO.json; several are joined")
      ->required();
  common(report);

  CLI::App* formula =
      app.add_subcommand("formula", "the golden formula's terms beside the simulation");
  FormulaCommandLine formula_line;
  formula->footer(
      "What is shown:\n"
      "  as it is    T = combine_k [F/B + G/C + alpha Comm] + beta P_align, term by term, and what "
      "it "
      "leaves out\n"
      "  --fit       alpha and beta of steps that were simulated or run, and how far off T stays\n"
      "  --boundary  over which FLOPs, bandwidths and alignments T is within 10 %, and what fails "
      "elsewhere");
  formula->add_option("scenario", scenario, "scenario file")->required();
  formula->add_option("--fit", formula_line.fit,
                      "fit alpha and beta to these steps: databases of aurum sweep, run records of "
                      "aurum execute");
  formula->add_flag("--boundary", formula_line.boundary,
                    "where the formula holds over FLOPs per token, bandwidth and alignment ratio: "
                    "the scenario's own sweep of them, or a grid around it");
  formula
      ->add_option("--grid", formula_line.grid,
                   "of --boundary: so many values a side (default: the scenario's own, or 8)")
      ->check(CLI::Range(2, 40));
  formula->add_option("-j,--jobs", options.jobs, "of --boundary: threads (default: one per core)")
      ->check(CLI::Range(0, 4096));
  common(formula);
  scenario_options(formula);

  CLI::App* topology = app.add_subcommand("topology", "draws a cluster, its paths and GB/s");
  topology->add_option("cluster", cluster, "name or file")->required();
  topology->add_option("--path", path, "two GPUs: every hop between them")->expected(2);
  topology->add_option(
      "--loads", loads,
      "a scenario or a traffic document: what it puts on each link of the cluster");
  topology->add_option("--links", links_shown, "so many links of --loads, the most shared first")
      ->check(CLI::Range(1, 1000000));
  ExpectCommand expect;
  const auto expect_option = [&](CLI::Option* option) { return option->group("Expected busbw"); };
  expect_option(topology->add_flag("--expect", expect.expect,
                                   "what nccl-tests should show: time, algbw, busbw, and why"));
  expect_option(topology->add_option(
      "--op", expect.op,
      "all_reduce (default), all_gather, reduce_scatter, all_to_all, broadcast, send_recv or all"));
  expect_option(topology->add_option("--gpus", expect.gpus,
                                     "ranks 0 to N-1 (default: all powers of two, and all)"))
      ->check(CLI::Range(1, 100000000));
  expect_option(topology->add_option("--sizes", expect.sizes, "1M,64M,1G (default: a ladder)"));
  expect_option(topology->add_option(
      "--measured", expect.measured,
      "output of nccl-tests, text or JSON: put beside the expected, with a verdict"));
  expect_option(topology->add_flag("--no-nvls", expect.no_nvls,
                                   "as with NCCL_NVLS_ENABLE=0, or a type that NVSwitches do not "
                                   "add (int8)"));
  run_options(topology);
  common(topology);

  CLI::App* import_command = app.add_subcommand("import", "turns other tools' files into Aurum's");
  import_command
      ->add_option("kind", kind,
                   "hf: a Hugging Face config.json; nccl-topo: what NCCL or RCCL write with "
                   "NCCL_TOPO_DUMP_FILE; nvidia-smi: the output of nvidia-smi topo -m")
      ->required();
  import_command->add_option("file", file, "the file to read")->required();
  common(import_command);
  TopologyImportOptions machine;
  const auto machine_option = [&](const char* option, auto* value, const char* about) {
    return import_command->add_option(option, *value, about)->group("Topologies");
  };
  machine_option("--name", &machine.name, "of the cluster (default: the output file's)");
  machine_option("--gpu", &machine.gpu, "h100, a100, v100-32, …: where the file does not tell");
  machine_option("--gpu-memory-gib", &machine.gpu_memory_gib,
                 "of one GPU, instead of its datasheet's")
      ->check(Between(1e-3, 1e6));
  machine_option("--profile", &profile, "what a scenario takes for this GPU");
  machine_option("--pcie-gen", &machine.pcie_generation,
                 "of links whose speed the file does not tell")
      ->check(CLI::Range(1, 6));
  machine_option("--inter-socket-gb-per-s", &machine.inter_socket_gb_per_s,
                 "between CPUs, one direction")
      ->check(Between(1e-3, 1e6));
  machine_option("--nvlinks", &machine.nvlinks,
                 "of each GPU to NVSwitches, where an XML lists none; 0: none")
      ->check(CLI::Range(0, 1024));
  machine_option("--nic-gbit", &machine.nic_gbit_per_s, "of NICs whose rate the file does not tell")
      ->check(Between(1e-3, 1e6));
  machine_option("--nodes", &machine.nodes, "such nodes, joined by a fat tree")
      ->check(CLI::Range(1, 65536));
  machine_option("--switch-ports", &machine.switch_ports, "of the fat tree's switches")
      ->check(CLI::Range(2, 4096));

  PublishedCommand published;
  std::string tolerance;
  CLI::App* validate =
      app.add_subcommand("validate", "predicted against measured: one run, or published records");
  std::string measured_run;
  validate->add_option("scenario", scenario, "of --measured: the scenario that was executed");
  CLI::Option_group* measured = validate->add_option_group("Measured, one of");
  measured->add_option("--measured", measured_run,
                       "what aurum execute wrote for the scenario (docs/validate-your-plan.md)");
  measured->add_option("--published", published.records,
                       "records of others' measurements (docs/handbook.md, \"How true is it\")");
  measured->add_option("--encoders", published.encoders,
                       "rows of vision encoders' throughput, as of timm's benchmark tables");
  measured->require_option(1);
  CLI::Option* tolerance_option = validate->add_option(
      "--tolerance", tolerance,
      "5% or 0.05: exit code 5 if the step's error exceeds it (--measured; default 5% "
      "of a cuda run, 25% of cpu, 1% of virtual), or the mean error of a source "
      "(--published; no default)");
  validate->add_option("--show", published.show,
                       "one record's id: the model, cluster and scenario that it becomes");
  validate->add_option("--html", published.html,
                       "write a page of the comparison besides: charts, scores by source, the rows "
                       "furthest off by their terms; of --measured: both timelines, what makes the "
                       "difference");
  validate
      ->add_option("--set", options.set,
                   "of --measured: path=value in the scenario, as of simulate; repeatable")
      ->allow_extra_args(false);
  validate->add_option("--profile", profile, "of --measured: use this profile: a name or a file");
  validate
      ->add_option("--epsilon", options.epsilon,
                   "of --measured at level flow or auto: rates may be off by this share")
      ->check(Between(0.0, 0.1));
  validate->add_option("--level", level, "analytic, flow, auto or chunk, as of simulate")
      ->check(CLI::IsMember({"analytic", "flow", "auto", "chunk"}));
  validate->add_option("-j,--jobs", options.jobs, "threads (default: one per core)")
      ->check(CLI::Range(0, 4096));
  validate->add_flag("--no-progress", no_progress, "no progress line");
  common(validate);

  std::vector<std::string> rows;
  CLI::App* audit = app.add_subcommand(
      "audit", "recomputes the claims of two articles on multimodal training, row by row");
  audit->add_option("rows", rows, "A15, or A15.formula; all if left out");
  audit->add_flag("-v,--verbose", options.verbose, "how each figure comes about");
  common(audit);

  MonitorCommandLine watch;
  CLI::App* monitor = app.add_subcommand(
      "monitor", "alignment and speed of a training log, with alarms (docs/monitor.md)");
  monitor->add_option("log", watch.log, "JSON lines, one a step; - is standard input");
  AddMonitorOptions(monitor, &watch, &options);
  common(monitor);
  CutScoreInputs score;
  CLI::App* decide = app.add_subcommand(
      "decide", "simulates every alternative of one decision of a plan and ranks them");
  decide
      ->add_option("what", what,
                   "split: what an encoder's GPUs share; experts: the expert-parallel size; cut: "
                   "where the pipeline's stages begin")
      ->required()
      ->check(CLI::IsMember({"split", "experts", "cut"}));
  decide->footer(
      "What can be decided; the plan as it is always is one of the alternatives:\n"
      "  split    what an encoder's GPUs share: heads, tokens, nothing, or each takes its own "
      "images\n"
      "  experts  over how many GPUs a mixture's experts are spread, and how its all-to-all goes\n"
      "  cut      behind which layers the pipeline's stages end, an encoder's layers with them");
  decide->add_option("scenario", scenario, "scenario file")->required();
  decide
      ->add_option("--kv-reuse", score.kv_reuse,
                   "cut: of the published score, one number or one for each layer that may move")
      ->delimiter(',')
      ->check(Between(0.0, 1.0));
  decide->add_option("--gradient-variance", score.gradient_variance, "cut: the same")
      ->delimiter(',')
      ->check(Between(0.0, 1e6));
  decide->add_option("-j,--jobs", options.jobs, "threads (default: one per core)")
      ->check(CLI::Range(0, 4096));
  common(decide);
  run_options(decide);

  std::string framework;
  CLI::App* emit = app.add_subcommand(
      "emit", "launch arguments and configuration files that run a scenario's plan");
  emit->add_option("scenario", scenario, "scenario file")->required();
  emit->add_option("-f,--framework", framework,
                   "megatron, deepspeed, torchtitan or accelerate; what it cannot do is refused by "
                   "its key")
      ->required()
      ->check(CLI::IsMember({"megatron", "deepspeed", "torchtitan", "accelerate"}));
  emit->footer(
      "-o names a folder: launch.sh and the files that it reads are written there. Without, they "
      "are\nshown one after another.");
  common(emit);
  run_options(emit);

  CompareCommandLine compare_line;
  CLI::App* compare = app.add_subcommand(
      "compare", "two steps or two sweeps: what differs, where the seconds are, and why");
  compare->footer(
      "What can stand on a side:\n"
      "  a scenario    simulated now; one alone is compared with itself under --set-b\n"
      "  a result      of aurum simulate --json, as it was\n"
      "  a cluster     by name or file: the other side's scenario on it, or --scenario's\n"
      "  a database    of aurum sweep, with another one: point by point\n"
      "Exit code 5 where a condition of --fail-if holds, for tests of recipes.");
  compare
      ->add_option("given", compare_line.given,
                   "A and B: scenarios, results, clusters or databases")
      ->required()
      ->expected(1, 2);
  compare->add_option("--scenario", compare_line.scenario,
                      "what is simulated on the clusters that are compared");
  compare->add_option("--set-a", compare_line.set_a, "path=value in A's scenario alone; repeatable")
      ->allow_extra_args(false);
  compare
      ->add_option("--set-b", compare_line.set_b,
                   "the same of B; without a second file, B is A with it")
      ->allow_extra_args(false);
  compare
      ->add_option("--fail-if", compare_line.fail_if,
                   "'step_time_s > 5%' (rises by more), 'memory.peak_gib > +2' (by a value), 'mfu "
                   "< 0.35' (of B alone): exit code 5; repeatable")
      ->allow_extra_args(false);
  compare->add_option("--by", compare_line.by,
                      "of databases: the figure whose largest changes are shown (default: "
                      "step_time_s)");
  compare->add_flag("--no-substitute", compare_line.no_substitute,
                    "leave out what each input does alone and in order");
  compare->add_flag("-v,--verbose", options.verbose, "small parts of the step, too");
  common(compare);
  compare
      ->add_option("--set", options.set,
                   "path=value in both scenarios, dotted or JSON pointer; repeatable")
      ->allow_extra_args(false);
  compare->add_option("--profile", profile, "use this profile on both sides: a name or a file");
  compare->add_option("--level", level, "analytic, flow, auto or chunk, as of simulate")
      ->check(CLI::IsMember({"analytic", "flow", "auto", "chunk"}));
  std::vector<std::string> topics;
  CLI::App* explain = app.add_subcommand(
      "explain", "why a step takes what it takes, what would change that, and what fits");
  explain->add_option("scenario", scenario, "scenario file")->required();
  explain
      ->add_option(
          "--what", topics,
          "time, memory, comm, formula, oom or sensitivity; several by commas; all if left "
          "out")
      ->delimiter(',');
  explain->footer(
      "What is explained:\n"
      "  time         by module, kind of op and kernel, what binds each; the critical path\n"
      "  memory       by component, module and tensor, at the peak of the fullest GPU\n"
      "  comm         by parallel group and collective; whether the topology matters at all\n"
      "  formula      the golden formula's terms\n"
      "  oom          which micro-batches fit; where the plan does not, fixes by what they cost\n"
      "  sensitivity  what 10 % more of each resource buys; where encoders could work instead");
  explain->add_flag("-v,--verbose", options.verbose,
                    "every kernel, tensor and part; also where one topic is asked for");
  explain->add_option("-j,--jobs", options.jobs, "threads (default: one per core)")
      ->check(CLI::Range(0, 4096));
  common(explain);
  scenario_options(explain);

  CLI::App* list = app.add_subcommand(
      "list", "names in the catalogue: models, clusters, profiles, stacks; rates by dtype");
  list->add_option("what", what,
                   "models, clusters, profiles or stacks, all if left out; dtypes: what each "
                   "profile computes in");
  common(list);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::ParseError& error) {
    Diagnostic d;
    d.code = 1;
    d.message = error.what();
    d.help = app.get_subcommands().empty() ? CommandHelp(app, words)
                                           : "aurum " + app.get_subcommands().front()->get_name() +
                                                 " --help shows what it takes";
    PrintDiagnostic(options, d);
    return static_cast<int>(ExitCode::kUsage);
  }

  const char* no_color = std::getenv("NO_COLOR");
  options.color_errors =
      color == "always" ||
      (color == "auto" && (no_color == nullptr || *no_color == '\0') && isatty(STDERR_FILENO) != 0);
  options.progress = !no_progress && !options.quiet;
  options.level = *LevelByName(level);
  options.fold = fold == "off" ? Fold::kOff : fold == "verify" ? Fold::kVerify : Fold::kOn;
  options.weights.combine = combine == "sum"             ? Combine::kSum
                            : combine == "critical_path" ? Combine::kCriticalPath
                                                         : Combine::kMax;
  if (!profile.empty()) options.profile = profile;
  if (json || format == "json") options.format = Format::kJson;
  if (format == "jsonl") options.format = Format::kJsonLines;
  if (format == "csv") options.format = Format::kCsv;
  if (format == "md") options.format = Format::kMarkdown;

  if (!expect.expect && expect.measured.empty() &&
      (!expect.op.empty() || !expect.sizes.empty() || expect.gpus > 0 || expect.no_nvls)) {
    Diagnostic d;
    d.code = 1;
    d.message = "--op, --gpus, --sizes and --no-nvls are of --expect";
    d.help = "add --expect, or --measured FILE";
    PrintDiagnostic(options, d);
    return static_cast<int>(ExitCode::kUsage);
  }

  // Data on standard output is one document: a drawing is none.
  if ((options.timeline || options.width > 0) &&
      (!options.timeline ||
       (options.format != Format::kTable && options.format != Format::kMarkdown))) {
    Diagnostic d;
    d.code = 1;
    d.message = options.timeline ? "--timeline is a drawing for people, no part of a document"
                                 : "--width is of --timeline";
    d.help = options.timeline ? "leave out --json or --format, or --timeline; for programs: aurum "
                                "report SCENARIO --json, key 'timeline'"
                              : "add --timeline";
    PrintDiagnostic(options, d);
    return static_cast<int>(ExitCode::kUsage);
  }

  if (validate->parsed() && measured_run.empty() == !scenario.empty()) {
    Diagnostic d;
    d.code = 1;
    d.message = scenario.empty() ? "--measured needs the scenario that was executed"
                                 : "a scenario is compared with --measured RUN.json";
    d.help = "aurum validate SCENARIO.json --measured RUN.json";
    PrintDiagnostic(options, d);
    return static_cast<int>(ExitCode::kUsage);
  }
  const bool changed = !options.set.empty() || options.profile || options.epsilon > 0;
  if (validate->parsed() && (measured_run.empty() ? changed : !published.show.empty())) {
    Diagnostic d;
    d.code = 1;
    d.message = measured_run.empty() ? "--set, --profile and --epsilon are of --measured"
                                     : "--show is of --published";
    d.help = "aurum validate --help shows what belongs together";
    PrintDiagnostic(options, d);
    return static_cast<int>(ExitCode::kUsage);
  }

  try {
    std::vector<std::string> all_inputs = inputs;
    for (const auto* more : {&calibrate_line.from, &calibrate_line.scenarios, &compare_line.given})
      all_inputs.insert(all_inputs.end(), more->begin(), more->end());
    all_inputs.push_back(calibrate_line.base);
    all_inputs.push_back(calibrate_line.truth);
    for (const std::string& more :
         {scenario, measured_run, file, loads, cluster, compare_line.scenario, published.records,
          published.encoders, expect.measured, execute_line.truth, profile, watch.log,
          watch.baseline, watch.simulate})
      all_inputs.push_back(more);
    RefuseToReplace(all_inputs, {{"-o", options.output},
                                 {"--prometheus", options.prometheus},
                                 {"--trace", options.trace},
                                 {"--html", published.html},
                                 {"--measurements", calibrate_line.measurements}});
    if (!std::filesystem::is_directory(options.data_root + "/models/catalogue")) {
      ThrowInput(206, "no catalogues under '" + options.data_root + "'",
                 "set AURUM_DATA to the folder that holds models/, topologies/ and calibrate/, or "
                 "unset it");
    }
    // No database goes to standard output.
    if ((sweep->parsed() || merge->parsed()) && options.output == "-") options.output.clear();
    ExitCode code = ExitCode::kOk;
    if (version) {
      code = VersionCommand(options);
    } else if (simulate->parsed()) {
      code = SimulateCommand(options, scenario);
    } else if (execute->parsed()) {
      code = ExecuteCommand(options, scenario, execute_line);
    } else if (calibrate->parsed()) {
      if (!collective.empty()) calibrate_line.import.kind = CollectiveByTestName(collective);
      code = CalibrateCommand(options, calibrate_line);
    } else if (sweep->parsed()) {
      code = SweepCommand(options, scenario, design, spread);
    } else if (merge->parsed()) {
      code = MergeCommand(options, inputs, partial);
    } else if (search->parsed()) {
      code = SearchCommand(options, scenario, search_line);
    } else if (report->parsed()) {
      code = ReportCommand(options, inputs);
    } else if (formula->parsed()) {
      code = FormulaCommand(options, scenario, formula_line);
    } else if (topology->parsed()) {
      if (expect.expect || !expect.measured.empty()) {
        code = ExpectTopologyCommand(options, cluster, expect);
      } else {
        code = loads.empty() ? TopologyCommand(options, cluster, path)
                             : LoadsCommand(options, cluster, loads, links_shown);
      }
    } else if (import_command->parsed()) {
      code = ImportCommand(options, kind, file, machine);
    } else if (validate->parsed()) {
      if (tolerance_option->count() > 0) published.tolerance = ShareOf(tolerance);
      code = measured_run.empty()
                 ? ValidateCommand(options, published)
                 : ValidateRunCommand(
                       options, {scenario, measured_run, published.html,
                                 tolerance_option->count() > 0 ? std::optional(ShareOf(tolerance))
                                                               : std::nullopt});
    } else if (audit->parsed()) {
      code = AuditCommand(options, rows);
    } else if (monitor->parsed()) {
      code = MonitorCommand(options, watch);
    } else if (decide->parsed()) {
      code = DecideCommand(options, what, scenario, score);
    } else if (emit->parsed()) {
      code = EmitCommand(options, scenario, framework);
    } else if (compare->parsed()) {
      code = CompareCommand(options, compare_line);
    } else if (explain->parsed()) {
      code = ExplainCommand(options, scenario, topics);
    } else if (list->parsed()) {
      code = ListCommand(options, what);
    } else {
      std::fputs(app.help().c_str(), stderr);
      code = ExitCode::kUsage;
    }
    return static_cast<int>(code);
  } catch (const InputError& error) {
    if (options.format == Format::kJson || options.format == Format::kJsonLines) {
      Json out = Json::Object();
      out.Set("schema", "aurum.error/1");
      out.Set("error", DiagnosticJson(error.diagnostic()));
      std::puts(out.Dump(options.format == Format::kJson ? 2 : -1).c_str());
    }
    PrintDiagnostic(options, error.diagnostic());
    return static_cast<int>(error.exit_code());
  }
}

}  // namespace
}  // namespace aurum

int main(int argc, char** argv) {
  try {
    // Hidden: one rank of a job on GPUs, started by `aurum execute`.
    if (argc == 4 && std::string_view(argv[1]) == "worker-cuda") {
      return aurum::CudaWorkerMain(argv[2], std::atoi(argv[3]));
    }
    return aurum::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr,
                 "error[E0000]: internal error: %s\nhelp: this is a fault of Aurum, not of your "
                 "input; please report the command and its files\n",
                 error.what());
    return static_cast<int>(aurum::ExitCode::kInternal);
  }
}
