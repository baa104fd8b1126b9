#include "sim/explain/work_tree.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/plan/lower.h"
#include "sim/plan/pools.h"
#include "sim/study/busy_split.h"

// A program that is simulated has the seconds of every op, but not which kernels they were: a list of them
// for each of a million ops would cost more than the simulation. So the plan is lowered a second time, for
// execution, and what an op of one kind, module, chunk and micro-batch consists of there divides the time
// that it took here. Dividing by shares keeps what-if factors, slow devices and the exact sum.
namespace aurum {
namespace {

// Stage, kind, module, head, chunk, micro-batch: what ops of several classes have in common.
using OpKey = std::tuple<int, OpKind, int, bool, int, int>;
OpKey KeyOf(const Program& program, OpId op) {
  const OpInfo& info = program.info[op];
  return {program.classes[info.rank_class].stage,
          info.kind,
          info.module,
          info.head,
          info.chunk,
          info.micro_batch};
}

// One kernel of a list, with what it would take alone.
struct Priced {
  const Kernel* kernel = nullptr;
  double seconds = 0, flops = 0, bytes = 0;
  KernelSides sides;
};

Bound BoundOf(double seconds, const KernelSides& sides) {
  const double most = std::max(sides.arithmetic_s, sides.memory_s);
  if (most < 0.5 * seconds || most <= 0) return Bound::kNeither;
  return sides.arithmetic_s >= sides.memory_s ? Bound::kArithmetic : Bound::kMemory;
}

struct Listed {
  std::uint32_t list = 0, repeats = 1;
};

}  // namespace

std::string_view BoundName(Bound bound) {
  switch (bound) {
    case Bound::kArithmetic:
      return "compute";
    case Bound::kMemory:
      return "HBM";
    case Bound::kNeither:
      return "launch and size";
  }
  return "";
}

Bound KernelGroup::Binds() const {
  if (neither_s >= arithmetic_bound_s && neither_s >= memory_bound_s) return Bound::kNeither;
  return arithmetic_bound_s >= memory_bound_s ? Bound::kArithmetic : Bound::kMemory;
}

double KernelGroup::Attained() const {
  if (seconds <= 0) return 0;
  switch (Binds()) {
    case Bound::kArithmetic:
      return arithmetic_s / seconds;
    case Bound::kMemory:
      return memory_s / seconds;
    case Bound::kNeither:
      return std::max(arithmetic_s, memory_s) / seconds;
  }
  return 0;
}

WorkTree MakeWorkTree(const Evaluation& e, int rank_class) {
  LowerOptions options;
  options.for_execution = true;
  const Program listed = Lower(e.scenario, options);
  const auto c = static_cast<std::uint32_t>(rank_class);
  const Profile& profile =
      ProfileOfPool(e.scenario, PoolOf(e.scenario, e.program.classes[c].first_gpu));
  const Stack& stack = *e.scenario.stack;
  const double bandwidth =
      profile.device.memory_bandwidth_bytes_per_s * profile.memory_bound_efficiency;

  std::vector<std::vector<Priced>> lists;
  for (const std::vector<Kernel>& kernels : listed.kernels) {
    std::vector<Priced>& list = lists.emplace_back();
    for (const Kernel& kernel : kernels) {
      Priced priced{&kernel, KernelSeconds(kernel, profile, stack), KernelFlops(kernel), 0, {}};
      if (kernel.kind != KernelKind::kHost) priced.sides = SidesOf(kernel, profile);
      priced.bytes = priced.sides.memory_s * bandwidth;
      list.push_back(priced);
    }
  }
  // Of classes of one stage the first stands for all.
  std::map<OpKey, std::vector<Listed>> alike;
  std::map<OpKey, std::uint32_t> first_class;
  for (OpId op = 0; op < listed.info.size(); ++op) {
    const OpWork& work = listed.work[op];
    if (work.kernels == kNoWork || listed.info[op].lane != Lane::kMain) continue;
    const OpKey key = KeyOf(listed, op);
    const auto [entry, is_new] = first_class.try_emplace(key, listed.info[op].rank_class);
    if (entry->second == listed.info[op].rank_class)
      alike[key].push_back({work.kernels, work.repeats});
  }
  // Time of all ops of one key in the class, to be divided by their kernels.
  std::map<OpKey, double> took;
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.lane != Lane::kMain || info.rank_class != c) continue;
    took[KeyOf(e.program, op)] +=
        Seconds(e.outcome.schedule.end[op] - e.outcome.schedule.start[op]) - info.slowed_s;
  }

  WorkTree tree;
  std::map<std::tuple<bool, int, OpKind, bool, KernelKind>, KernelGroup> groups;
  std::map<std::pair<std::string, std::string>, KernelShape> shapes;
  std::map<std::uint32_t, std::vector<std::string>> described;  // by list
  for (const auto& [key, seconds] : took) {
    const auto& [stage, kind, module, head, chunk, micro_batch] = key;
    const auto group = [&](KernelKind kernel) -> KernelGroup& {
      KernelGroup& of = groups[{module < 0, module, kind, head, kernel}];
      of.module = module;
      of.kind = kind;
      of.head = head;
      of.kernel = kernel;
      return of;
    };
    const auto found = alike.find(key);
    double all = 0;
    if (found != alike.end()) {
      for (const Listed& work : found->second) {
        for (const Priced& kernel : lists[work.list]) all += kernel.seconds * work.repeats;
      }
    }
    if (all <= 0) {  // nothing is listed of it
      KernelGroup& of = group(kind == OpKind::kHost ? KernelKind::kHost : KernelKind::kMemory);
      of.seconds += seconds;
      of.neither_s += seconds;
      continue;
    }
    TimePart part;
    part.kind = kind;
    part.module = module;
    part.head = head;
    const std::string where = DescribePart(part, *e.scenario.model);
    for (const Listed& work : found->second) {
      std::vector<std::string>& names = described[work.list];
      if (names.empty()) {
        for (const Priced& kernel : lists[work.list]) names.push_back(Describe(*kernel.kernel));
      }
      for (std::size_t i = 0; i < lists[work.list].size(); ++i) {
        const Priced& kernel = lists[work.list][i];
        const double times = work.repeats;
        const double mine = seconds * kernel.seconds * times / all;
        const Bound bound = BoundOf(kernel.seconds, kernel.sides);
        KernelGroup& of = group(kernel.kernel->kind);
        of.calls += work.repeats;
        of.seconds += mine;
        of.flops += kernel.flops * times;
        of.bytes += kernel.bytes * times;
        of.arithmetic_s += kernel.sides.arithmetic_s * times;
        of.memory_s += kernel.sides.memory_s * times;
        (bound == Bound::kArithmetic ? of.arithmetic_bound_s
         : bound == Bound::kMemory   ? of.memory_bound_s
                                     : of.neither_s) += mine;
        KernelShape& shape = shapes[{names[i], where}];
        shape.calls += work.repeats;
        shape.seconds += mine;
        shape.flops += kernel.flops * times;
        shape.bound = bound;
        if (kernel.seconds > 0)
          shape.attained =
              std::max(kernel.sides.arithmetic_s, kernel.sides.memory_s) / kernel.seconds;
      }
    }
  }
  for (auto& [key, of] : groups) tree.groups.push_back(of);
  for (auto& [key, shape] : shapes) {
    shape.what = key.first;
    shape.where = key.second;
    tree.shapes.push_back(std::move(shape));
  }
  std::stable_sort(
      tree.shapes.begin(), tree.shapes.end(),
      [](const KernelShape& a, const KernelShape& b) { return a.seconds > b.seconds; });
  return tree;
}

}  // namespace aurum
