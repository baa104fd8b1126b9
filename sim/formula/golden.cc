#include "sim/formula/golden.h"

#include <algorithm>

// How the terms come out of a program
// -----------------------------------
// A program knows, per rank class and module, the kernel seconds and FLOPs of a micro-batch and the undisturbed seconds of every
// collective. With m micro-batches:
//
//   F_k / B_k = m · (forward + backward + recomputation kernels of k on its busiest class)
//   G_k / C_k = the gradient collectives of k per step, as if nothing hid them
//   Comm_k    = m · (tensor-parallel collectives + pipeline transfers) + parameter gathers + bubble
//   bubble    = (p − 1) · one micro-batch on the heaviest stage, for the backbone (1F1B: Narayanan et al. 2021)
//   P_align   = m · exchange of misaligned tokens, both ways
//
// max_k ignores that encoders and backbone share a GPU; the sum over k ignores that they may not; the critical path adds what runs on
// one stage and takes the worst stage.
namespace aurum {
namespace {

double Kernels(const ModuleShare& share) { return share.forward_s + share.backward_s; }

}  // namespace

Golden GoldenTerms(const Scenario& s, const Program& program) {
  Golden golden;
  const auto m = static_cast<double>(program.micro_batches);
  const std::size_t modules = s.model->modules.size();
  const auto stages = static_cast<double>(program.classes.back().stage + 1);
  double heaviest_round = 0;
  for (const RankClass& c : program.classes) {
    double round = c.transfer_s / 2;
    for (const ModuleShare& share : c.modules) round += Kernels(share) + share.tp_s;
    heaviest_round = std::max(heaviest_round, round);
  }
  const double bubble = (stages - 1) * heaviest_round;
  for (std::size_t k = 0; k < modules; ++k) {
    const RankClass* busiest = &program.classes.front();
    for (const RankClass& c : program.classes) {
      if (Kernels(c.modules[k]) > Kernels(busiest->modules[k]) * (1 + 1e-12)) busiest = &c;
    }
    const ModuleShare& share = busiest->modules[k];
    GoldenTerm term;
    term.module = s.model->modules[k].name;
    term.flops = m * share.flops;
    term.forward_flops = m * share.forward_flops;
    term.f_over_b_s = m * Kernels(share);
    term.rate_flops_per_s = term.f_over_b_s > 0 ? term.flops / term.f_over_b_s : 0;
    term.gradient_bytes = share.gradient_bytes;
    term.g_over_c_s = share.gradient_s;
    term.gradient_bytes_per_s = share.gradient_s > 0 ? share.gradient_bytes / share.gradient_s : 0;
    term.comm_s = m * share.tp_s + share.gather_s;
    if (k + 1 == modules) term.comm_s += m * busiest->transfer_s + bubble;
    golden.terms.push_back(std::move(term));
  }
  for (const RankClass& c : program.classes) {
    GoldenTerm path;
    path.module = c.name;
    for (const ModuleShare& share : c.modules) {
      path.f_over_b_s += m * Kernels(share);
      path.flops += m * share.flops;
      path.forward_flops += m * share.forward_flops;
      path.g_over_c_s += share.gradient_s;
      path.gradient_bytes += share.gradient_bytes;
      path.comm_s += m * share.tp_s + share.gather_s;
    }
    path.comm_s += m * c.transfer_s + bubble;
    const double now = golden.path.f_over_b_s + golden.path.g_over_c_s + golden.path.comm_s;
    if (path.f_over_b_s + path.g_over_c_s + path.comm_s > now * (1 + 1e-12)) golden.path = path;
    golden.not_in_formula_s = std::max(golden.not_in_formula_s, c.optimizer_s);
  }
  if (golden.path.f_over_b_s > 0)
    golden.path.rate_flops_per_s = golden.path.flops / golden.path.f_over_b_s;
  if (golden.path.g_over_c_s > 0)
    golden.path.gradient_bytes_per_s = golden.path.gradient_bytes / golden.path.g_over_c_s;
  golden.not_in_formula_s += s.stack->step_overhead_s + s.data_stall_s;
  golden.p_align_s = m * program.alignment.seconds_per_micro_batch;
  return golden;
}

double GoldenSeconds(const Golden& golden, Combine combine, double alpha, double beta) {
  const auto value = [&](const GoldenTerm& t) {
    return t.f_over_b_s + t.g_over_c_s + alpha * t.comm_s;
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
