#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/measure.h"

namespace aurum {

// Measurements that people already have, as rows of Measurements: `aurum calibrate --from`.
//
//   aurum.measurements/1   what `aurum calibrate --measurements` wrote
//   nccl-tests             text or JSON (sim/collectives/nccl_tests.h)
//   PyTorch Kineto         traceEvents of the profiler: collectives, and products and attention of
//                          traces with record_shapes
//   Nsight Systems         the SQLite export
//   tables                 calibrate/table.h: comma-separated, known by their header
//
// Which of them a file is, its first bytes tell. Errors, all with the file:
//   E0835 none of these · E0836 nothing in it that a profile is made of
//   E0840 one GPU alone · E0841 a bandwidth that no machine has · E0842 wrong results
//   E0843 too few sizes · E0844 several nodes · E0845 figures that contradict the number of GPUs
//   E0572 which collective is not told · and those of the readers.
struct ImportOptions {
  // Of logs that do not tell them.
  std::optional<CollectiveKind> kind;
  int gpus = 0;
  int nodes = 0;
};

// Whether all files are of the same machine cannot be told; the caller says which. Appends rows and
// remarks ("12 products of unknown shape left out"). Files of one run (Kineto: a trace a rank) belong
// into one call: of a collective, the least over the ranks is taken, since a rank's own time holds
// its waiting for the others.
void ImportFiles(const std::vector<std::string>& paths, const ImportOptions& options,
                 Measurements* measurements, std::vector<std::string>* remarks);

// Each kind by itself, `name` for messages.
std::vector<MeasuredRow> RowsOfNcclTests(const std::string& name, const std::string& text,
                                         const ImportOptions& options);
std::vector<MeasuredRow> RowsOfTable(const std::string& name, const std::string& text);
std::vector<MeasuredRow> RowsOfKineto(const std::vector<std::string>& paths,
                                      std::vector<std::string>* remarks);
std::vector<MeasuredRow> RowsOfNsight(const std::string& path, std::vector<std::string>* remarks);

// In lower case: the same kernel is spelt in several ways.
std::string LowerName(std::string name);

}  // namespace aurum
