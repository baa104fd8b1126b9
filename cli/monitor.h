#pragma once

#include <string>

#include "cli/options.h"
#include "sim/monitor/rules.h"

namespace CLI {
class App;
}

namespace aurum {

struct MonitorCommandLine {
  std::string log;        // a file, or "-"
  bool follow = false;    // go on as the log grows
  double idle_s = 0;      // of --follow: end after so long without a line; 0 = never
  double poll_s = 0.2;    // of --follow: between two looks
  std::string baseline;   // a file, or mar=0.8,step_time_s=1.2; "": learnt
  std::string simulate;   // a series or a scenario, in place of the log
  bool diagnose = false;  // what made steps slower, from the ranks' times in the log
  MonitorRules rules;
};

// What the command takes beside the log and what all commands take.
void AddMonitorOptions(CLI::App* command, MonitorCommandLine* line, Options* options);

// Exit code 0 where no alarm was raised, 5 where one was, 6 where the log was too short for a baseline.
ExitCode MonitorCommand(const Options& options, const MonitorCommandLine& command);
ExitCode MonitorSimulateCommand(const Options& options, const MonitorCommandLine& command);

}  // namespace aurum
