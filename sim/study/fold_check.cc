#include "sim/study/fold_check.h"

#include <algorithm>
#include <vector>

namespace aurum {
namespace {

// The ops of every class's compute stream, in order.
std::vector<std::vector<OpId>> Kernels(const Program& program) {
  std::vector<std::vector<OpId>> kernels(program.classes.size());
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    if (info.lane == Lane::kMain) kernels[info.rank_class].push_back(op);
  }
  return kernels;
}

std::string At(const Schedule& schedule, OpId op) {
  return std::to_string(schedule.start[op].ps) + "-" + std::to_string(schedule.end[op].ps) + " ps";
}

}  // namespace

FoldCheck CompareFolded(const Program& folded, const Outcome& folded_outcome,
                        const Program& unfolded, const Outcome& unfolded_outcome) {
  FoldCheck check;
  check.classes = folded.classes.size();
  const Schedule& a = folded_outcome.schedule;
  const Schedule& b = unfolded_outcome.schedule;
  const auto differ = [&](const std::string& what) {
    if (check.equal) check.difference = what;
    check.equal = false;
  };
  if (a.makespan != b.makespan) {
    differ("the step: folded " + std::to_string(a.makespan.ps) + " ps, unfolded " +
           std::to_string(b.makespan.ps) + " ps");
  }
  const std::vector<std::vector<OpId>> ours = Kernels(folded);
  const std::vector<std::vector<OpId>> theirs = Kernels(unfolded);
  int gpus = 0;
  for (const RankClass& c : folded.classes) gpus += c.count;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const std::vector<OpId>& mine = ours[folded.ClassOf(gpu)];
    const std::vector<OpId>& other = theirs[unfolded.ClassOf(gpu)];
    ++check.ranks;
    if (mine.size() != other.size()) {
      differ("GPU " + std::to_string(gpu) + " has another number of kernels");
      continue;
    }
    check.kernels += mine.size();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (a.start[mine[i]] == b.start[other[i]] && a.end[mine[i]] == b.end[other[i]]) continue;
      differ("kernel " + std::to_string(i) + " of GPU " + std::to_string(gpu) + ": folded " +
             At(a, mine[i]) + ", unfolded " + At(b, other[i]));
      break;
    }
  }
  return check;
}

}  // namespace aurum
