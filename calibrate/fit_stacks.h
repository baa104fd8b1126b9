#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/profile.h"
#include "sim/cost/stack.h"
#include "sim/study/published/record.h"
#include "sim/study/published/sources.h"

namespace aurum {

// The physical constants of software stacks, fitted on published step times, and how far off they
// are where they have not been fitted (fit_stacks.cc has the method).

// One constant that may be fitted: how far a stack's strays from the common set, in logarithms.
struct StackConstant {
  const char* key;
  double Stack::*member;
  double prior;  // before anything is fitted: the step-time study's fixed set
  double deviation;
  double largest;  // physical bound
};
const std::vector<StackConstant>& StackConstants();

// One measured step.
struct StackFitRow {
  std::string id, source, cluster, model, stack, profile;
  bool narrow = false;  // 8- and 4-bit products
  double measured_s = 0;
  double predicted_s = 0;  // with the fitted constants
  // log(predicted / measured): fitted on it; with its cluster left out; with its source left out.
  double in_sample = 0, cluster_out = 0, source_out = 0;
};

struct StackFit {
  std::string name;
  Stack stack;  // with the fitted constants
  // Whose constants it has: its own, its base's, or "" for the common set.
  std::string owner;
  int rows = 0, clusters = 0, models = 0;  // that these constants were fitted on
  // 90 % of steps that they were not fitted on err less; and the mean. Over the owner's rows, each
  // cluster left out; of the common set over all rows of compiled or of eager stacks, each source left
  // out.
  double left_out_mape = 0, left_out_p90 = 0;
};

// One term left out of the simulator, the others' constants as they stand.
struct Ablation {
  std::string term;
  double mape = 0;          // over all rows
  double cluster_mape = 0;  // mean over clusters
};

struct FitReport {
  std::vector<StackFitRow> rows;
  std::vector<StackFit> stacks;
  std::map<std::string, double> rates;   // by group of devices: measured over modelled GEMM time
  std::map<std::string, double> common;  // the common set's constants
  std::vector<Ablation> ablations;
};

struct FitOptions {
  int rounds = 3;       // of linearisation
  bool ablate = false;  // FitReport::ablations, the first with every term
  int jobs = 0;
};
// Fits on every record that has a step time and can be simulated, kept out: those whose stack is
// `hosted` (host-bound runs say nothing of kernels).
FitReport FitStacks(const std::vector<Record>& records, const PublishedSources& sources,
                    const std::string& data_root, const FitOptions& options);

}  // namespace aurum
