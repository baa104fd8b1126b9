#include "sim/formula/golden.h"

#include <algorithm>
#include <numeric>

#include "sim/plan/bubble_fill.h"

// How the terms come out of a program
// -----------------------------------
// A program knows, per rank class and module, the kernel seconds and FLOPs of a micro-batch and the undisturbed seconds of every
// collective. With m micro-batches:
//
//   F_k / B_k = m · (forward + backward + recomputation kernels of k on its busiest class)
//   G_k / C_k = the gradient collectives of k per step, as if nothing hid them
//   Comm_k    = m · (collectives of tensor, context and expert parallelism + pipeline transfers)
//               + parameter gathers + bubble
//   P_align   = wait of the first micro-batch for its encoders + m · exchange of misaligned tokens, both ways
//
// The bubble is the backbone's, by schedule, where a round is one micro-batch forward and backward on one of p stages with what it
// says to its neighbours, w of it weight gradients, and each stage holds v chunks:
//
//   gpipe, 1f1b    all stages' rounds but the heaviest's: (p − 1) rounds where stages are even (Narayanan et al. 2021)
//   interleaved    the same / v (the same paper)
//   zb-h1          the same, of rounds less 2·w: (p − 1)·(T_F + T_B − T_W) (Qi et al., "Zero Bubble Pipeline Parallelism", 2024)
//   zb-v, dualpipe nothing, or nearly so, where forward, input and weight gradients take equally long; they do not, so that the
//                  schedule is walked with its own seconds, without communication
//
// An encoder on ranks of its own makes the backbone wait for its last backward, and waits itself while one micro-batch passes the
// backbone. An encoder in bubbles takes its kernels out of them on the stage where they run: so the critical path says, while
// max_k sees the backbone with the whole bubble and the encoder beside it.
//
// max_k ignores that encoders and backbone share a GPU; the sum over k ignores that they may not; the critical path adds what runs on
// one stage and takes the worst stage.
namespace aurum {
namespace {

double Kernels(const ModuleShare& share) { return share.forward_s + share.backward_s; }

// Of one class and micro-batch, over its ops in a step: what ModuleShare does not tell.
struct FromOps {
  std::vector<double> comm_s;  // by module: context and expert parallelism
  double weight_gradient_s = 0;
};

std::vector<FromOps> ReadOps(const Program& program, std::size_t modules) {
  std::vector<FromOps> of(program.classes.size());
  for (FromOps& one : of) one.comm_s.resize(modules);
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    const bool says =
        info.kind == OpKind::kContextCollective || info.kind == OpKind::kExpertCollective;
    if (!says && info.kind != OpKind::kWeightGradient) continue;
    const double seconds = Seconds(program.graph.duration(op));
    FromOps& mine = of[info.rank_class];
    if (says && info.module >= 0)
      mine.comm_s[static_cast<std::size_t>(info.module)] += seconds;
    else
      mine.weight_gradient_s += seconds;
  }
  // A collective names one class of its group; those of a stage do the same.
  for (std::size_t c = 0; c < of.size(); ++c) {
    for (std::size_t d = 0; d < of.size(); ++d) {
      if (program.classes[c].stage != program.classes[d].stage) continue;
      for (std::size_t k = 0; k < modules; ++k)
        of[c].comm_s[k] = std::max(of[c].comm_s[k], of[d].comm_s[k]);
    }
  }
  return of;
}

// One micro-batch on one stage: the slowest of its classes.
struct Round {
  double forward_s = 0,
         backward_s = 0;         // of all that is in the passes, with tensor-parallel collectives
  double transfer_s = 0;         // both ways
  double weight_gradient_s = 0;  // of backward_s
  double Seconds() const { return forward_s + backward_s + transfer_s; }
};

bool InBubbles(const Scenario& s, std::size_t module) {
  return s.plan.modules[module].placement == Placement::kInBubbles;
}

std::vector<Round> RoundsOf(const Scenario& s, const Program& program,
                            const std::vector<FromOps>& ops) {
  std::vector<Round> rounds(static_cast<std::size_t>(program.classes.back().stage) + 1);
  const auto m = static_cast<double>(program.micro_batches);
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const RankClass& of = program.classes[c];
    Round round;
    for (std::size_t k = 0; k < of.modules.size(); ++k) {
      if (InBubbles(s, k)) continue;
      const ModuleShare& share = of.modules[k];
      const double both = share.tp_s + ops[c].comm_s[k] / m;
      // As many collectives forward as backward, and once more where all is recomputed.
      const bool again = s.plan.recompute.scope == RecomputeScope::kFull;
      const double part = share.backward_s > 0 ? (again ? 1.0 / 3 : 0.5) : 1;
      round.forward_s += share.forward_s + part * both;
      round.backward_s += share.backward_s + (1 - part) * both;
    }
    round.transfer_s = of.transfer_s;
    round.weight_gradient_s = ops[c].weight_gradient_s / m;
    Round& stage = rounds[static_cast<std::size_t>(of.stage)];
    if (round.Seconds() > stage.Seconds() * (1 + 1e-12)) stage = round;
  }
  return rounds;
}

// All of them but the largest.
double AllButMost(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) -
         *std::max_element(seconds.begin(), seconds.end());
}

// The schedule with these seconds, walked: what the busiest stage idles.
double Walked(const Scenario& s, const std::vector<Round>& backbone) {
  BubbleFillInput input;
  input.shape = s.plan.Pipeline();
  const int enough = 4 * input.shape.stages;  // the bubble does not grow with further micro-batches
  input.shape.micro_batches =
      static_cast<int>(std::min<std::int64_t>(s.plan.micro_batches, enough - enough % 2));
  // A micro-batch passes one chunk of DualPipe's two, and both of a V's.
  const bool two_ways = input.shape.kind == ScheduleKind::kDualPipe;
  const double share = two_ways ? 1.0 : 1.0 / input.shape.chunks;
  double busiest = 0;
  for (const Round& round : backbone) {
    // The rest of a round; what passes between stages is not walked.
    const double other = round.backward_s - round.weight_gradient_s;
    const ChunkSeconds chunk{share * round.forward_s, share * other,
                             share * round.weight_gradient_s};
    input.seconds.emplace_back(static_cast<std::size_t>(input.shape.chunks), chunk);
    busiest = std::max(busiest, round.forward_s + round.backward_s);
  }
  return std::max(0.0, FillBubbles(input).backbone_span_s - input.shape.micro_batches * busiest);
}

Bubble BubbleOf(const Scenario& s, const std::vector<Round>& backbone) {
  Bubble bubble;
  if (backbone.size() < 2 || s.workload.task == Task::kGenerate) return bubble;
  bubble.closed = true;
  std::vector<double> seconds;
  const auto all = [&](double less) {
    for (const Round& round : backbone)
      seconds.push_back(std::max(0.0, round.Seconds() - less * round.weight_gradient_s));
    return AllButMost(seconds);
  };
  switch (s.plan.schedule) {
    case ScheduleKind::kGpipe:
    case ScheduleKind::k1F1B:
    case ScheduleKind::kInterleaved:
      bubble.seconds = all(0) / s.plan.vpp;
      bubble.rule = s.plan.vpp > 1 ? "(p − 1) rounds / v" : "(p − 1) rounds";
      break;
    case ScheduleKind::kZeroBubbleH1:
      bubble.seconds = all(2);
      bubble.rule = "(p − 1) rounds less two weight gradients";
      break;
    case ScheduleKind::kZeroBubbleV:
    case ScheduleKind::kDualPipe:
      bubble.seconds = Walked(s, backbone);
      bubble.rule = "the schedule, walked without communication";
      bubble.closed = false;
      break;
  }
  return bubble;
}

}  // namespace

Golden GoldenTerms(const Scenario& s, const Program& program) {
  Golden golden;
  const auto m = static_cast<double>(program.micro_batches);
  const std::size_t modules = s.model->modules.size();
  const std::vector<FromOps> ops = ReadOps(program, modules);
  const std::vector<Round> rounds = RoundsOf(s, program, ops);
  const auto own = static_cast<std::ptrdiff_t>(s.plan.encoder_stages);
  const std::vector<Round> backbone(rounds.begin() + own, rounds.end());
  golden.bubble = BubbleOf(s, backbone);

  // Encoders on ranks of their own: how long the first micro-batch takes through them, forward and
  // backward, and the last one through the backbone.
  double fill = 0, drain = 0, through = 0;
  for (auto stage = rounds.begin(); stage != rounds.begin() + own; ++stage) {
    fill += stage->forward_s;
    drain += stage->backward_s;
  }
  if (own > 0) {
    for (const Round& round : backbone) through += round.Seconds();
    golden.align_move_s += m * rounds[static_cast<std::size_t>(own) - 1].transfer_s;
  }
  // In bubbles: the first encoder pass has no bubble before it.
  for (std::size_t k = 0; k + 1 < modules; ++k) {
    if (InBubbles(s, k)) fill += program.classes.back().modules[k].forward_s * s.plan.pp;
  }
  golden.align_wait_s = fill;
  golden.align_move_s += m * program.alignment.seconds_per_micro_batch;
  golden.p_align_s = golden.align_wait_s + golden.align_move_s;

  const auto quotients = [](GoldenTerm* t) {
    t->rate_flops_per_s = t->f_over_b_s > 0 ? t->flops / t->f_over_b_s : 0;
    t->gradient_bytes_per_s = t->g_over_c_s > 0 ? t->gradient_bytes / t->g_over_c_s : 0;
    t->forward_over_b_s = t->rate_flops_per_s > 0 ? t->forward_flops / t->rate_flops_per_s : 0;
  };
  for (std::size_t k = 0; k < modules; ++k) {
    std::size_t busiest = 0;
    for (std::size_t c = 0; c < program.classes.size(); ++c) {
      if (Kernels(program.classes[c].modules[k]) >
          Kernels(program.classes[busiest].modules[k]) * (1 + 1e-12))
        busiest = c;
    }
    const RankClass& of = program.classes[busiest];
    const ModuleShare& share = of.modules[k];
    GoldenTerm term;
    term.module = s.model->modules[k].name;
    term.flops = m * share.flops;
    term.forward_flops = m * share.forward_flops;
    term.f_over_b_s = m * Kernels(share);
    term.gradient_bytes = share.gradient_bytes;
    term.g_over_c_s = share.gradient_s;
    if (k + 1 == modules) {
      term.bubble_s = golden.bubble.seconds + drain;
    } else if (of.stage < own) {
      term.bubble_s = through;
    }
    term.comm_s = m * share.tp_s + ops[busiest].comm_s[k] + share.gather_s + term.bubble_s;
    if (k + 1 == modules) term.comm_s += m * of.transfer_s;
    quotients(&term);
    golden.terms.push_back(std::move(term));
  }
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const RankClass& of = program.classes[c];
    GoldenTerm path;
    path.module = of.name;
    double in_bubbles = 0;
    for (std::size_t k = 0; k < modules; ++k) {
      const ModuleShare& share = of.modules[k];
      path.f_over_b_s += m * Kernels(share);
      path.flops += m * share.flops;
      path.forward_flops += m * share.forward_flops;
      path.g_over_c_s += share.gradient_s;
      path.gradient_bytes += share.gradient_bytes;
      path.comm_s += m * share.tp_s + ops[c].comm_s[k] + share.gather_s;
      if (InBubbles(s, k)) in_bubbles += m * (Kernels(share) + share.tp_s);
    }
    const double idle = of.stage < own ? through : golden.bubble.seconds + drain;
    path.bubble_s = std::max(0.0, idle - in_bubbles);
    path.comm_s += m * of.transfer_s + path.bubble_s;
    const double now = golden.path.f_over_b_s + golden.path.g_over_c_s + golden.path.comm_s;
    if (path.f_over_b_s + path.g_over_c_s + path.comm_s > now * (1 + 1e-12)) golden.path = path;
    golden.not_in_formula_s = std::max(golden.not_in_formula_s, of.optimizer_s);
  }
  quotients(&golden.path);
  golden.not_in_formula_s += s.stack->step_overhead_s + s.data_stall_s;
  return golden;
}

double GoldenSeconds(const Golden& golden, Combine combine, double alpha, double beta,
                     FlopsReading reading) {
  const auto value = [&](const GoldenTerm& t) {
    return (reading == FlopsReading::kForward ? t.forward_over_b_s : t.f_over_b_s) + t.g_over_c_s +
           alpha * t.comm_s;
  };
  double total = 0;
  switch (combine) {
    case Combine::kMax:
      for (const GoldenTerm& term : golden.terms) total = std::max(total, value(term));
      break;
    case Combine::kSum:
      for (const GoldenTerm& term : golden.terms) total += value(term);
      break;
    case Combine::kCriticalPath:
      total = value(golden.path);
      break;
  }
  return total + beta * golden.p_align_s;
}

}  // namespace aurum
