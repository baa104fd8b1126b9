#pragma once

#include <string>

#include "sim/core/json.h"

namespace aurum {

// The figures of an island as CSV (RFC 4180: comma, quotes where needed, lines end in \n).
// With a sweep: one row per simulated point,
//   model, cluster, flops_gflop_per_token, comm_bw_gb_per_s, align_ratio, simulated_step_time_s
//   (empty: failed), formula_step_time_s, relative_gap, modality (the one inside the max), its
//   f_over_b_s, g_over_c_s, alpha_comm_s, beta_p_align_s, limit, reason
// Without: one row per figure: section, item, figure, value, unit, low, high (empty where no
// interval is known).
std::string CsvReport(const Json& island);

}  // namespace aurum
