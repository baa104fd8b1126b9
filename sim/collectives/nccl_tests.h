#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cost/profile.h"

namespace aurum {

// What nccl-tests wrote: its text, of any version, under the prefixes that mpirun, srun and loggers
// put before lines; or its JSON (-J). Of either, only what is below is kept: hosts, process ids, paths
// and the environment, which the JSON carries whole, are neither stored nor shown in an error.

struct NcclTestRow {
  double bytes = 0;   // total, > 0
  std::string type;   // "float", "half", "uint8"
  std::string redop;  // "sum"; empty in old files
  // 0 where it was not measured.
  double out_of_place_s = 0, in_place_s = 0;
  double out_of_place_busbw = 0, in_place_busbw = 0;  // B/s
  double out_of_place_algbw = 0;
  bool wrong = false;  // the check of the results found errors
  int line = 0;        // of the file; 0 in JSON
};

struct NcclTestRun {
  std::optional<CollectiveKind> kind;  // where the file tells, or its figures leave one
  int gpus = 0;                        // 0 = not told
  int nodes = 0;                       // hosts, counted and forgotten; 0 = not told
  std::string gpu;                     // "NVIDIA H100 80GB HBM3"; empty if not told
  std::vector<NcclTestRow> rows;       // never empty
};

// `name` for messages. Several tests in one file are several runs. E0570 a row that cannot be read,
// E0571 no results.
std::vector<NcclTestRun> ReadNcclTests(const std::string& name, const std::string& text);

// A collective by the name of nccl-tests' program or Aurum's own: "alltoall_perf", "all_to_all".
std::optional<CollectiveKind> CollectiveByTestName(std::string_view name);

// The GPUs that the ratio of busbw to algbw tells for a kind; 0 where it tells none.
int GpusByRatio(CollectiveKind kind, const NcclTestRun& run);

}  // namespace aurum
