#include "sim/explain/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "sim/core/units.h"

namespace aurum {
namespace {

std::string Percent(double share) { return fmt::format("{:.3g} %", share * 100); }
std::string Gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / kGiB); }
std::string Took(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                         : fmt::format("{:.3g} µs", seconds * 1e6);
}

std::string SetWords(const std::vector<std::string>& set) {
  std::string out;
  for (const std::string& word : set) {
    const bool plain = word.find_first_of(" {}[]\"*?") == std::string::npos;
    out += out.empty() ? "--set " : " --set ";
    out += plain ? word : "'" + word + "'";
  }
  return out;
}

const char* KernelWords(KernelKind kind) {
  switch (kind) {
    case KernelKind::kGemm:
      return "matrix products";
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
    case KernelKind::kDecodeAttention:
      return "attention";
    case KernelKind::kMemory:
      return "memory-bound kernels";
    case KernelKind::kHost:
      return "host work";
  }
  return "";
}

// Of the kernels of one module, op and kind, those that take longest.
std::string LargestKernels(const Evaluation& e, const WorkTree& work) {
  const KernelGroup* of = nullptr;
  for (const KernelGroup& group : work.groups) {
    if (group.module >= 0 && (of == nullptr || group.seconds > of->seconds)) of = &group;
  }
  if (of == nullptr) return "";
  TimePart part;
  part.module = of->module;
  part.kind = of->kind;
  part.head = of->head;
  const char* rate = "the nearer of its two rates: launches and small sizes bind them";
  if (of->Binds() == Bound::kArithmetic) rate = "the device's FLOP/s";
  if (of->Binds() == Bound::kMemory) rate = "its memory bandwidth";
  return fmt::format("{} in {} take {} of the step, at {} of {}", KernelWords(of->kernel),
                     DescribePart(part, *e.scenario.model), Percent(of->seconds / e.StepSeconds()),
                     Percent(of->Attained()), rate);
}

std::string LargestWait(const Evaluation& e, const Explanation& x) {
  const TimePart* most = nullptr;
  for (const TimePart& part : x.parts) {
    if (part.cause == TimeCause::kCompute || part.cause == TimeCause::kOptimizer ||
        part.cause == TimeCause::kData)
      continue;
    if (most == nullptr || part.exposed > most->exposed) most = &part;
  }
  if (most == nullptr || most->exposed.ps == 0) return "";
  std::string text =
      fmt::format("it waits longest for {} ({} of the step", DescribePart(*most, *e.scenario.model),
                  Percent(Seconds(most->exposed) / e.StepSeconds()));
  if (x.comm) {
    for (const CommItem& item : x.comm->items) {
      if (item.part.kind != most->kind || item.part.lane != most->lane ||
          item.part.module != most->module || item.part.head != most->head || !most->own)
        continue;
      if (item.possible_bytes_per_s > 0) {
        text += fmt::format(", at {} of what {} would carry", Percent(item.Attained()),
                            LinkKindName(item.bottleneck));
      }
    }
  }
  return text + ")";
}

std::string BoundText(const Evaluation& e, const Explanation& x) {
  const TimeBreakdown& t = e.Time();
  const double step = e.StepSeconds();
  std::string text =
      fmt::format("A step takes {} on {}. ", Took(step), RankName(e.program, x.rank_class));
  const std::string wait = LargestWait(e, x);
  const double compute = (t.compute_s + t.optimizer_s) / step;
  switch (WhatLimits(t)) {
    case Limit::kCompute:
      text += fmt::format("Compute binds it: kernels run {} of the time", Percent(compute));
      break;
    case Limit::kNetwork:
      text += fmt::format(
          "Communication binds it: compute waits {} of the time for collectives "
          "and transfers, and runs {} of it",
          Percent(t.exposed_comm_s / step), Percent(compute));
      break;
    case Limit::kPipeline:
      text += fmt::format(
          "The pipeline binds it: stages wait {} of the time for each other, and "
          "compute {} of it",
          Percent(t.bubble_s / step), Percent(compute));
      break;
    case Limit::kAlignment:
      text += fmt::format(
          "Alignment binds it: {} of the time the backbone waits for tokens of "
          "another modality",
          Percent(t.alignment_wait_s / step));
      break;
    case Limit::kData:
      text += fmt::format("Data binds it: {} of the time the device waits for its host",
                          Percent(t.data_wait_s / step));
      break;
  }
  if (x.work) {
    const std::string kernels = LargestKernels(e, *x.work);
    if (!kernels.empty()) text += "; " + kernels;
  }
  if (!wait.empty()) text += "; " + wait;
  return text + ".";
}

std::string PathText(const Evaluation& e, const CriticalPath& path) {
  double kernels = 0, waits = 0;
  for (const TimePart& part : path.parts)
    (part.lane == Lane::kMain ? kernels : waits) += Seconds(part.exposed);
  const double step = e.StepSeconds();
  std::string text =
      fmt::format("The critical path is {} ops, {} of its time kernels and {} communication",
                  path.ops.size(), Percent(kernels / step), Percent(waits / step));
  if (path.crossings > 0)
    text += fmt::format(", and goes from one stage to another {} times", path.crossings);
  if (!path.parts.empty()) {
    text +=
        fmt::format("; most of it is {} ({})", DescribePart(path.parts.front(), *e.scenario.model),
                    Percent(Seconds(path.parts.front().exposed) / step));
  }
  return text + ".";
}

std::string TopologyText(const Evaluation& e, const Explanation& x) {
  if (e.scenario.cluster->GpuCount() < 2) return "There is one GPU: no link matters.";
  if (x.comm->running_s <= 0)
    return "The topology does not matter here: nothing is exchanged between GPUs.";
  if (x.links.empty()) return "";
  const LinkLimit& all = x.links.front();
  const bool matters = all.step_share >= kTopologyMatters;
  const std::string exposed = Percent(x.comm->ExposedShare());
  const std::string waits = Percent(x.comm->StepShare());
  // Where little is hidden, that it is little in all is what counts.
  constexpr double kHidden = 0.25;
  std::string text =
      std::string("The topology ") + (matters ? "matters" : "does not matter") + " here because ";
  if (matters) {
    text += fmt::format("{} of communication is exposed: compute waits {} of the step for it",
                        exposed, waits);
  } else if (x.comm->ExposedShare() > kHidden) {
    text += fmt::format(
        "compute waits no more than {} of the step for communication ({} of it is exposed)", waits,
        exposed);
  } else {
    text += fmt::format("{} of communication is exposed ({} of the step)", exposed, waits);
  }
  text += fmt::format("; links a thousand times as fast would {} {} of the step",
                      all.step_share < -5e-4 ? "cost" : "save", Percent(std::abs(all.step_share)));
  std::string kinds;
  for (std::size_t i = 1; i < x.links.size(); ++i) {
    if (!matters) break;
    kinds += fmt::format("{}{} alone {}", kinds.empty() ? "" : ", ", x.links[i].name,
                         Percent(x.links[i].step_share));
  }
  if (!kinds.empty()) text += " (" + kinds + ")";
  if (e.scenario.what_if.comm_bw_bytes_per_s)
    text += "; collectives run at the bandwidth that the scenario imposes, whatever the links";
  return text + ".";
}

std::string MemoryText(const Evaluation& e, const MemoryTree& tree) {
  const MemoryReport& report = e.memory;
  const double peak = report.Heaviest().peak_bytes;
  // The largest lines by component and module.
  std::map<std::pair<MemoryComponent, std::string>, double> sums;
  for (const MemoryItem& item : tree.items) sums[{item.component, item.module}] += item.bytes;
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [key, bytes] : sums) {
    order.emplace_back(bytes, MemoryComponentName(key.first) +
                                  (key.second.empty() ? "" : " of the " + key.second));
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string most;
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 3); ++i) {
    most += fmt::format("{}{} {}", i == 0 ? "" : ", ", Gib(order[i].first), order[i].second);
  }
  return fmt::format("{} of {} usable at the peak, on {}, at {}: {}. Most is {}.", Gib(peak),
                     Gib(report.usable_bytes), RankName(e.program, report.heaviest),
                     report.Heaviest().at, FitName(report.verdict), most);
}

std::string FitText(const Evaluation& e, const Explanation& x) {
  std::string text;
  const MicroBatchRow* largest = nullptr;
  const MicroBatchRow* fastest = nullptr;
  for (const MicroBatchRow& row : x.micro_batches) {
    if (row.verdict != Fit::kFits) continue;
    if (largest == nullptr || row.size > largest->size) largest = &row;
    if (fastest == nullptr || row.samples_per_s > fastest->samples_per_s) fastest = &row;
  }
  if (largest != nullptr) {
    text = fmt::format("Micro-batches up to {} fit; of them {} is the fastest ({:.3g} samples/s)",
                       largest->size, fastest->size, fastest->samples_per_s);
    text += ". ";
  } else if (!x.micro_batches.empty()) {
    text = "No micro-batch fits as the plan is. ";
  }
  for (const Recipe& recipe : x.recipes) {
    std::int64_t most = 0;
    for (const MicroBatchRow& row : recipe.micro_batches) {
      if (row.verdict == Fit::kFits) most = std::max(most, row.size);
    }
    text += most > 0 ? fmt::format("With {} micro-batches up to {} fit. ", recipe.name, most)
                     : fmt::format("With {} none fits either. ", recipe.name);
  }
  if (e.memory.verdict == Fit::kFits) {
    const double free = e.memory.usable_bytes - e.memory.Heaviest().peak_bytes;
    return text + fmt::format("{} are free.", Gib(free));
  }
  const auto& fixes = x.fixes->fixes;
  const auto told = [&](const Fix& fix) {
    const double base = fix.step_s - fix.step_delta_s;
    return fmt::format("{} ({}; the step {:+.3g} %, {})", fix.what, SetWords(fix.set),
                       100 * fix.step_delta_s / base, Gib(fix.peak_bytes));
  };
  if (fixes.empty() || fixes.front().verdict == Fit::kDoesNotFit)
    return text + fmt::format(
                      "None of {} changes makes it fit: more GPUs, or GPUs with more "
                      "memory.",
                      x.fixes->tried);
  text +=
      "The cheapest change that " +
      std::string(fixes.front().verdict == Fit::kFits ? "makes it fit" : "brings it to the edge") +
      " is " + told(fixes.front());
  // Where that changes what is trained, the cheapest that does not.
  if (!fixes.front().caution.empty()) {
    const auto plain = std::find_if(fixes.begin(), fixes.end(), [](const Fix& fix) {
      return fix.caution.empty() && fix.verdict != Fit::kDoesNotFit;
    });
    if (plain != fixes.end()) text += "; without other results, " + told(*plain);
  }
  return text + ".";
}

std::string SensitivityText(const Explanation& x) {
  std::string best;
  const Sensitivity* choice = nullptr;
  int told = 0;
  for (const Sensitivity& s : x.sensitivities) {
    if (s.resource && told < 3 && s.step_share >= 5e-4 && s.factor < 2) {
      best += fmt::format("{}10 % more {} buys {}", told == 0 ? "" : ", ", s.name,
                          Percent(s.step_share));
      ++told;
    }
    if (!s.resource && s.verdict == Fit::kFits && s.throughput_share > 0.005 &&
        (choice == nullptr || s.throughput_share > choice->throughput_share))
      choice = &s;
  }
  if (told == 0) best = "No resource that is 10 % larger shortens the step";
  best[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(best[0])));
  if (choice != nullptr) {
    best += fmt::format("; {} fits and gives {} more tokens a second", choice->name,
                        Percent(choice->throughput_share));
  }
  return best + ".";
}

// What is simulated again is not the step above where samples differ.
std::string SamplesText(const Evaluation& e) {
  if (!e.data || e.data->step_s.size() < 2) return "";
  return fmt::format(
      "Samples differ: {} steps were drawn, and the step above is the typical one. What is "
      "simulated "
      "again (micro-batches, fixes, other resources) is timed on the first of them and compared "
      "with "
      "it; its memory holds the heaviest samples of all.",
      e.data->step_s.size());
}

std::string FormulaText(const Evaluation& e) {
  const double formula = GoldenSeconds(e.golden, Combine::kCriticalPath, 1, 1);
  const double gap = formula / e.StepSeconds() - 1;
  const auto largest = std::max_element(
      e.golden.terms.begin(), e.golden.terms.end(), [](const GoldenTerm& a, const GoldenTerm& b) {
        return a.f_over_b_s + a.g_over_c_s + a.comm_s < b.f_over_b_s + b.g_over_c_s + b.comm_s;
      });
  std::string text = fmt::format(
      "By the golden formula (critical path, nothing hidden) {}, {:+.3g} % "
      "of the simulation",
      Took(formula), gap * 100);
  if (largest != e.golden.terms.end()) {
    text +=
        fmt::format("; its largest term is {}: F/B {}, G/C {}, Comm {}", largest->module,
                    Took(largest->f_over_b_s), Took(largest->g_over_c_s), Took(largest->comm_s));
  }
  return text + ".";
}

}  // namespace

std::vector<Finding> MakeFindings(const Evaluation& e, const Explanation& x,
                                  const ExplainTopics& topics) {
  std::vector<Finding> out;
  const auto add = [&](const char* topic, std::string text) {
    if (!text.empty()) out.push_back({topic, std::move(text)});
  };
  if (topics.time || topics.comm || topics.sensitivity) add("bound", BoundText(e, x));
  if (x.path) add("path", PathText(e, *x.path));
  if (x.comm) add("topology", TopologyText(e, x));
  if (x.memory) add("memory", MemoryText(e, *x.memory));
  if (topics.oom) add("fit", FitText(e, x));
  if (topics.sensitivity) add("sensitivity", SensitivityText(x));
  if (topics.oom || topics.sensitivity || (topics.comm && !x.links.empty()))
    add("samples", SamplesText(e));
  if (x.encoders) add("encoders", x.encoders->reason + ".");
  if (topics.formula) add("formula", FormulaText(e));
  return out;
}

}  // namespace aurum
