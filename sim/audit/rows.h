#pragma once

#include "sim/audit/audit.h"

namespace aurum {

// What computations write formulas with: four significant digits. And a verdict by sign alone.
std::string Show(double value);
Verdict HoldsIf(bool holds);

// How each claim is computed, by what it is about. Every file below adds its own.
void AddFormulaRows(Computations* to);   // rows_formula.cc: the formula, its terms, FLOPs per token
void AddParallelRows(Computations* to);  // rows_parallel.cc: plans, gradients, phases, pools
void AddNetworkRows(Computations* to);   // rows_network.cc: collectives, cuts, expert parallelism
void AddDataRows(Computations* to);      // rows_data.cc: packing, routing of tokens, loaders
void AddRecipeRows(Computations* to);    // rows_recipe.cc: adapters, pruning, precision, memory
void AddMonitoringRows(Computations* to);  // rows_monitoring.cc: alarms, traces, root causes
Computations AllComputations();

}  // namespace aurum
