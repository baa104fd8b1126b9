#pragma once

#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/plan/scenario.h"
#include "sim/study/decide.h"

namespace aurum {

// Where to cut a model into pipeline stages
// ------------------------------------------
// The layers that may move (the backbone's, and those of encoders whose placement is balanced) stand in
// a row; pp·vpp − 1 cuts make stages of it. Three ways to choose them are laid side by side, and each
// result is simulated with the plan's own schedule, transfers and memory:
//
//   score     a rule found in the literature on aligned pipelines: cut behind the layer with the largest
//             1/(latency + 1 µs) · kv_reuse · (1 − variance). It prefers light layers, whatever stands
//             left and right of them. As published, its list begins at the second layer and argmax counts
//             from the list's own beginning, so the index is one too small, and the last layer is never
//             looked at; both are kept beside the repaired form.
//   min–max   BalancedCut (sim/plan/balanced_cut.h): the heaviest stage is as light as can be. For equal
//             transfers and no memory limit that is the best of a long 1F1B; the warm-up of a short one
//             it does not see.
//   search    from the best of the above, layers move over one cut at a time while the *simulated* step
//             gets shorter. A local optimum: no sequence of single moves improves on it.
//
// Example: layers of 5, 1, 1, 1 in two stages. The score cuts behind one of the light ones, say {3, 1}
// with 7 on the first stage; min–max {1, 3} with 5.
//
// Cost: one simulation a candidate, at most `most` in all.

// The layers in a row, with what each takes on one GPU, forward and forward with backward, and what
// crosses a cut behind it. Work that is no layer (embedding, connector, head) counts with its
// neighbour; so does what stays where it is.
struct MovableLayer {
  std::size_t module = 0;
  int layer = 0;
  double forward_s = 0;
  double whole_s = 0;
  double boundary_bytes = 0;  // on one GPU, for one micro-batch; 0 behind the last
};
std::vector<MovableLayer> MovableLayers(const Scenario& scenario);

// What the score needs to know and no simulation of time can: shares 0 … 1, one number for every layer
// or one for each.
struct CutScoreInputs {
  std::vector<double> kv_reuse{1.0};
  std::vector<double> gradient_variance{0.0};
};
// 1/(latency + 1e-6) · kv_reuse · (1 − variance), latency in seconds.
std::vector<double> CutScores(const std::vector<double>& latency_s, const CutScoreInputs& inputs);
// Behind which item the published loop cuts, and behind which it would if its index were right and its
// range whole. Items are counted from 0; a cut behind the last is none, so neither proposes it. The
// published loop needs three items.
struct Breakpoint {
  int published = 0, repaired = 0;
};
Breakpoint BestBreakpoint(const std::vector<double>& scores);

struct CutOptions {
  CutScoreInputs score;
  int most = 60;  // simulations
  Level level = Level::kAnalytic;
  int jobs = 0;
};

// How a list of layers per position is told: "plan.backbone.layers_per_stage=[10,22]", …
std::vector<std::string> CutAssignments(const Scenario& scenario, const std::vector<int>& counts);

// As Decide() ranks them: the plan's own cut, an even one, the score's two, min–max, and the search's
// where it is another one. E0769 where there is nothing to cut.
Decision DecideCut(const JsonDocument& document, InputCache* cache, const CutOptions& options);

}  // namespace aurum
