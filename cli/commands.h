#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/import.h"
#include "cli/options.h"
#include "real/rank_backend.h"
#include "sim/study/design.h"
#include "sim/study/pipeline_cut.h"
#include "topologies/machine.h"

namespace aurum {

// One function per command. Each returns the exit code; bad input is thrown as InputError and reported by main.
ExitCode SimulateCommand(const Options& options, const std::string& scenario);
// The golden formula's terms; its fit to steps that were simulated or measured; where it holds.
struct FormulaCommandLine {
  std::vector<std::string> fit;  // RUN.db, RUN.json
  bool boundary = false;
  int grid = 0;  // values a side; 0: the scenario's own, or 8
};
ExitCode FormulaCommand(const Options& options, const std::string& scenario,
                        const FormulaCommandLine& command);
// How the points of a sweep are spread over processes.
struct SpreadCommandLine {
  std::string shard;             // "2/4": only these points; "": all
  std::string mpi = "auto";      // auto: where a launcher of MPI has started several processes
  double worker_timeout_s = 30;  // mpi: a silent worker is lost after
};
ExitCode SweepCommand(const Options& options, const std::string& scenario,
                      const DesignOptions& design, const SpreadCommandLine& spread);
// Databases of one study into one. `partial`: also without some of its points.
ExitCode MergeCommand(const Options& options, const std::vector<std::string>& inputs, bool partial);
ExitCode ReportCommand(const Options& options, const std::vector<std::string>& inputs);
ExitCode TopologyCommand(const Options& options, const std::string& cluster,
                         const std::vector<int>& path);
// What nccl-tests should show on the cluster, or what it did show beside it.
struct ExpectCommand {
  bool expect = false;
  std::string op;        // a collective or "all"; empty: all_reduce, or what the file tells
  std::string sizes;     // "1M,64M,1G"; empty: a ladder
  std::string measured;  // nccl-tests' output; empty: none
  int gpus = 0;          // 0: all powers of two and all, or what the file tells
  bool no_nvls = false;
};
// Exit code 5 where what was measured lies below expectation, or its results were wrong.
ExitCode ExpectTopologyCommand(const Options& options, const std::string& cluster,
                               const ExpectCommand& command);
// What a scenario's step, or a traffic document, puts on each link of its cluster.
ExitCode LoadsCommand(const Options& options, const std::string& cluster, const std::string& file,
                      int links_shown);
ExitCode ImportCommand(const Options& options, const std::string& kind, const std::string& file,
                       const TopologyImportOptions& topology);
// Predicted against measured, over a file of published records.
struct PublishedCommand {
  std::string records;   // the file
  std::string encoders;  // or a file of encoder throughput
  std::string show;      // an id: the documents of this record's prediction, nothing else
  std::string html;      // a page of the comparison goes there as well; "": none
  std::optional<double> tolerance;  // of a source's mean error, as a share: exit code 5 beyond
};
ExitCode ValidateCommand(const Options& options, const PublishedCommand& command);
// Predicted against one execution of the same plan.
struct MeasuredCommand {
  std::string scenario;             // the file
  std::string run;                  // what aurum execute wrote
  std::string html;                 // a page of the comparison goes there as well; "": none
  std::optional<double> tolerance;  // of the step time, as a share; default by the run's backend
};
// Exit code 5 where the step time is outside tolerance.
ExitCode ValidateRunCommand(const Options& options, const MeasuredCommand& command);
// Runs a plan for real, or on logical clocks, and writes what it was.
struct ExecuteCommandLine {
  std::string backend = "cuda";
  int lone_rank = -1;  // this rank alone, the others modelled; -1: all
  std::string truth;   // virtual: the hidden profile
  double noise = 0;    // virtual: of an op's duration
  std::uint64_t seed = 1;
  StepPlan steps;
};
// Exit code 5 where a check of the run failed, 7 without the hardware.
ExitCode ExecuteCommand(const Options& options, const std::string& scenario,
                        const ExecuteCommandLine& command);
// Measures a machine, or reads measurements of others, and writes the profile that fits them.
struct CalibrateCommandLine {
  std::string backend = "cuda";
  std::vector<std::string> scenarios;  // whose very kernels are measured
  std::vector<std::string> from;       // files instead of a machine
  ImportOptions import;                // of logs that do not tell
  std::string base;                    // profile of what is not measured
  std::string truth;                   // virtual: the hidden profile
  double noise = 0;                    // virtual: of a sample
  int ranks = 2;                       // cpu
  double budget_s = 240;
  std::uint64_t seed = 1;
  bool force = false;  // replace the files that are to be written; measure a GPU that others use
  std::string measurements;  // the raw samples go there as well; "": nowhere
  std::string name;          // of the profile; "": the file's
};
// Exit code 7 without the hardware.
ExitCode CalibrateCommand(const Options& options, const CalibrateCommandLine& command);
// The claims of the articles, recomputed: all, or those of some rows ("A15") or ids ("A15.formula").
ExitCode AuditCommand(const Options& options, std::vector<std::string> rows);
// Simulates the alternatives of one decision of a plan ("split", "experts" or "cut") and ranks them. Exit code 4
// where none of them is a plan. `score`: of cuts, what no simulation knows.
ExitCode DecideCommand(const Options& options, const std::string& what, const std::string& scenario,
                       const CutScoreInputs& score);
// The scenario's plan as a framework takes it: files on standard output, or into the folder -o.
ExitCode EmitCommand(const Options& options, const std::string& scenario,
                     const std::string& framework);
// The same of a plan that a search found. Files go into `folder`; "": to standard output.
void WriteLaunch(const Options& options, const Scenario& scenario, const std::string& framework,
                 const std::string& folder);
// The best plans of a space around the scenario.
struct SearchCommandLine {
  std::string objective = "throughput";
  int top = 10;
  bool pareto = false, at_risk = false;
  std::string space;              // "auto", "calculon"; "": the scenario's own, or auto
  std::vector<std::string> vary;  // path=a,b,c
  std::vector<std::string> keep;  // names of dimensions
  std::string emit;               // the framework that is to run the best plan; "": none
  std::string emit_to;            // a folder; "": after the plans
};
// Exit code 4 where no plan fits.
ExitCode SearchCommand(const Options& options, const std::string& scenario,
                       const SearchCommandLine& command);
// What differs between two steps or two sweeps, where, and why.
struct CompareCommandLine {
  std::vector<std::string> given;         // one or two: scenarios, results, clusters, databases
  std::string scenario;                   // of clusters: what is simulated on them
  std::vector<std::string> set_a, set_b;  // path=value of one side alone
  std::vector<std::string> fail_if;       // conditions (sim/compare/fail_if.h)
  std::string by;                         // of databases: the figure that orders points
  bool no_substitute = false;             // leave out what each input does alone
};
// Exit code 5 where a condition fails.
ExitCode CompareCommand(const Options& options, const CompareCommandLine& command);
// Why a step takes what it takes, of the topics in `what` (sim/explain/explain.h; empty: all).
ExitCode ExplainCommand(const Options& options, const std::string& scenario,
                        const std::vector<std::string>& what);
ExitCode ListCommand(const Options& options, const std::string& what);
ExitCode VersionCommand(const Options& options);

}  // namespace aurum
