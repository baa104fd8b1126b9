#pragma once

#include <string>
#include <vector>

#include "sim/study/evaluate.h"
#include "sim/study/point.h"

namespace aurum {

// The figures of one evaluation that a study stores, one column each; the unit is in the name. Figures of one module k are
// "f_over_b_s.K", "g_over_c_s.K", "comm_s.K" and "bubble_s.K".
std::vector<Figure> FiguresOf(const Evaluation& evaluation);

}  // namespace aurum
