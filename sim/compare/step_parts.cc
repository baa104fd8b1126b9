#include "sim/compare/step_parts.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

namespace aurum {
namespace {

struct Words {
  std::string_view key, name;
};
constexpr std::array<Words, kStepCategories> kWords = {{
    {"compute", "compute"},
    {"tp", "tensor-parallel collectives"},
    {"cp", "context-parallel collectives"},
    {"ep", "experts' all-to-alls"},
    {"dp_gather", "parameter gathers"},
    {"dp_reduce", "gradient reductions"},
    {"pp", "transfers between stages"},
    {"host", "host transfers"},
    {"bubble", "pipeline bubble"},
    {"straggler", "waiting for a slower rank"},
    {"alignment", "alignment wait"},
    {"data", "host, data"},
    {"optimizer", "optimizer"},
}};

StepCategory CategoryOf(GapCause cause) {
  switch (cause) {
    case GapCause::kTp:
      return StepCategory::kTp;
    case GapCause::kCp:
      return StepCategory::kCp;
    case GapCause::kEp:
      return StepCategory::kEp;
    case GapCause::kHost:
      return StepCategory::kHost;
    case GapCause::kDpGather:
      return StepCategory::kDpGather;
    case GapCause::kDpReduce:
      return StepCategory::kDpReduce;
    case GapCause::kPpTransfer:
      return StepCategory::kPp;
    case GapCause::kPpWarmup:
    case GapCause::kPpCooldown:
    case GapCause::kPpOther:
      return StepCategory::kBubble;
    case GapCause::kAlignment:
      return StepCategory::kAlignment;
    case GapCause::kStraggler:
      return StepCategory::kStraggler;
  }
  return StepCategory::kBubble;
}

const char* BubbleName(GapCause cause) {
  switch (cause) {
    case GapCause::kPpWarmup:
      return "warm-up";
    case GapCause::kPpCooldown:
      return "cool-down";
    case GapCause::kPpOther:
      return "between passes";
    default:
      return "";
  }
}

const char* PassName(const OpInfo& info) {
  switch (info.kind) {
    case OpKind::kBackward:
      return info.head ? "head backward" : "backward";
    case OpKind::kWeightGradient:
      return info.head ? "head weight gradients" : "weight gradients";
    case OpKind::kDecode:
      return "decode";
    case OpKind::kForward:
      return info.head ? "head forward" : "forward";
    default:
      return "other";
  }
}

// The category of an operation that is no kernel; false for kernels.
bool CommunicationOf(const OpInfo& info, StepCategory* category) {
  switch (info.kind) {
    case OpKind::kTpCollective:
      *category = StepCategory::kTp;
      return true;
    case OpKind::kContextCollective:
      *category = StepCategory::kCp;
      return true;
    case OpKind::kExpertCollective:
      *category = StepCategory::kEp;
      return true;
    case OpKind::kParameterGather:
      *category = StepCategory::kDpGather;
      return true;
    case OpKind::kGradientReduce:
      *category = StepCategory::kDpReduce;
      return true;
    case OpKind::kPipelineTransfer:
      *category = StepCategory::kPp;
      return true;
    case OpKind::kHostTransfer:
      *category = StepCategory::kHost;
      return true;
    case OpKind::kAlignment:
      *category = StepCategory::kAlignment;
      return true;
    default:
      return false;
  }
}

// Sums by (category, module, pass), in that order.
class Sums {
 public:
  void Add(StepCategory category, const std::string& module, const std::string& what, Time time) {
    sums_[{category, module, what}] += time;
  }
  std::vector<StepPart> Take() const {
    std::vector<StepPart> parts;
    for (const auto& [key, time] : sums_) {
      const auto& [category, module, what] = key;
      if (time.ps != 0) parts.push_back({category, module, what, time});
    }
    return parts;
  }

 private:
  std::map<std::tuple<StepCategory, std::string, std::string>, Time> sums_;
};

// A collective is listed under one class of its stage, which need not be the busiest: of each kind, the class of the
// busiest one's stage that lists most of it.
std::vector<CommunicationPart> CommunicationOfClass(const Evaluation& e, std::size_t busiest) {
  const Program& program = e.program;
  const Schedule& schedule = e.outcome.schedule;
  const int stage = program.classes[busiest].stage;
  std::map<std::pair<StepCategory, std::uint32_t>, CommunicationPart> by_class;
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    StepCategory category{};
    if (!CommunicationOf(info, &category)) continue;
    if (program.classes[info.rank_class].stage != stage) continue;
    CommunicationPart& part = by_class[{category, info.rank_class}];
    part.category = category;
    ++part.operations;
    part.bytes += info.bytes;
    part.busy += schedule.end[op] - schedule.start[op];
  }
  std::vector<CommunicationPart> out;
  for (const auto& [key, part] : by_class) {
    const bool own = key.second == busiest;
    if (out.empty() || out.back().category != part.category) {
      out.push_back(part);
    } else if (own || part.operations > out.back().operations) {
      out.back() = part;
    }
  }
  return out;
}

// What a result tells of a category's gaps.
constexpr std::pair<StepCategory, const char*> kIdleKeys[] = {
    {StepCategory::kTp, "tp_s"},
    {StepCategory::kCp, "cp_s"},
    {StepCategory::kEp, "ep_s"},
    {StepCategory::kDpGather, "dp_all_gather_s"},
    {StepCategory::kDpReduce, "dp_reduce_scatter_s"},
    {StepCategory::kPp, "pp_transfer_s"},
    {StepCategory::kHost, "host_s"},
};
constexpr std::pair<const char*, const char*> kBubbleKeys[] = {
    {"pp_warmup_s", "warm-up"}, {"pp_cooldown_s", "cool-down"}, {"pp_other_s", "between passes"}};

double NumberAt(const Json* object, std::string_view key) {
  const Json* value = object == nullptr ? nullptr : object->Find(key);
  return value != nullptr && value->IsNumber() ? value->AsNumber() : 0;
}

using PartKey = std::tuple<StepCategory, std::string, std::string>;

}  // namespace

std::string_view StepCategoryKey(StepCategory category) {
  return kWords[static_cast<std::size_t>(category)].key;
}

std::string_view StepCategoryName(StepCategory category) {
  return kWords[static_cast<std::size_t>(category)].name;
}

std::string StepPart::Name() const {
  if (!module.empty()) return module + " " + what;
  const std::string name(StepCategoryName(category));
  return what.empty() ? name : name + ", " + what;
}

StepParts PartsOf(const Evaluation& e) {
  StepParts out;
  const auto busiest = static_cast<std::size_t>(e.outcome.busiest_class);
  out.step = e.outcome.schedule.makespan;
  out.rank = RankName(e.program, e.outcome.busiest_class);
  out.detailed = true;
  Sums sums;
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.lane != Lane::kMain || info.rank_class != busiest) continue;
    const Time time = e.program.graph.duration(op);
    if (info.kind == OpKind::kHost) {
      sums.Add(StepCategory::kData, "", "", time);
    } else if (info.kind == OpKind::kOptimizer) {
      sums.Add(StepCategory::kOptimizer, "", "", time);
    } else {
      const std::string module =
          info.module < 0 ? std::string()
                          : e.scenario.model->modules[static_cast<std::size_t>(info.module)].name;
      sums.Add(StepCategory::kCompute, module, PassName(info), time);
    }
  }
  out.communication = CommunicationOfClass(e, busiest);
  for (const Gap& gap : e.outcome.gaps[busiest]) {
    const StepCategory category = CategoryOf(gap.cause);
    sums.Add(category, "", BubbleName(gap.cause), gap.end - gap.start);
    for (CommunicationPart& part : out.communication) {
      if (part.category == category) part.exposed += gap.end - gap.start;
    }
  }
  out.parts = sums.Take();
  std::int64_t sum = 0;
  for (const StepPart& part : out.parts) sum += part.time.ps;
  assert(sum == out.step.ps);
  static_cast<void>(sum);
  return out;
}

StepParts PartsOfResult(const Json& result) {
  StepParts out;
  out.step = TimeFromSeconds(NumberAt(&result, "step_time_s"));
  if (const Json* rank = result.Find("time_rank"); rank != nullptr && rank->IsString())
    out.rank = rank->AsString();
  const Json* time = result.Find("time");
  const Json* idle = result.Find("idle");
  Sums sums;
  const auto add = [&](StepCategory category, const std::string& what, double seconds) {
    sums.Add(category, "", what, TimeFromSeconds(std::max(seconds, 0.0)));
  };
  add(StepCategory::kCompute, "", NumberAt(time, "compute_s"));
  for (const auto& [category, key] : kIdleKeys) add(category, "", NumberAt(idle, key));
  for (const auto& [key, name] : kBubbleKeys)
    add(StepCategory::kBubble, name, NumberAt(idle, key));
  add(StepCategory::kStraggler, "", NumberAt(time, "straggler_wait_s"));
  add(StepCategory::kAlignment, "", NumberAt(time, "alignment_wait_s"));
  add(StepCategory::kData, "", NumberAt(time, "data_wait_s"));
  add(StepCategory::kOptimizer, "", NumberAt(time, "optimizer_s"));
  std::int64_t rest = out.step.ps;
  for (const StepPart& part : sums.Take()) rest -= part.time.ps;
  sums.Add(StepCategory::kCompute, "", "", Time{rest});
  out.parts = sums.Take();
  return out;
}

std::vector<PartChange> CompareParts(const StepParts& a, const StepParts& b) {
  const bool detailed = a.detailed && b.detailed;
  std::map<PartKey, PartChange> changes;
  const auto add = [&](const StepParts& side, StepPart PartChange::*which) {
    for (StepPart part : side.parts) {
      if (!detailed && part.category == StepCategory::kCompute) {
        part.module.clear();
        part.what.clear();
      }
      PartChange& change = changes[{part.category, part.module, part.what}];
      // Both halves bear the name, so that one that is there on one side alone has it too.
      for (StepPart PartChange::*half : {&PartChange::a, &PartChange::b}) {
        (change.*half).category = part.category;
        (change.*half).module = part.module;
        (change.*half).what = part.what;
      }
      (change.*which).time += part.time;
    }
  };
  add(a, &PartChange::a);
  add(b, &PartChange::b);
  std::vector<PartChange> out;
  for (auto& [key, change] : changes) out.push_back(std::move(change));
  std::stable_sort(out.begin(), out.end(), [](const PartChange& x, const PartChange& y) {
    return std::abs(x.ChangePs()) > std::abs(y.ChangePs());
  });
  return out;
}

std::string SignedSeconds(double seconds) {
  const double size = std::abs(seconds);
  if (size < 5e-13) return "0 s";
  const auto [scale, unit] = size >= 0.9995      ? std::pair(1.0, "s")
                             : size >= 0.9995e-3 ? std::pair(1e3, "ms")
                                                 : std::pair(1e6, "µs");
  const double shown = seconds * scale;
  const int digits =
      std::max(0, 2 - static_cast<int>(std::floor(std::log10(std::abs(shown)) + 1e-12)));
  char text[48];
  std::snprintf(text, sizeof text, "%+.*f %s", digits, shown, unit);
  return text;
}

std::string DescribeChange(const StepParts& a, const StepParts& b, int most) {
  std::array<std::int64_t, kStepCategories> sums{};
  for (const StepPart& part : b.parts) sums[static_cast<std::size_t>(part.category)] += part.time.ps;
  for (const StepPart& part : a.parts) sums[static_cast<std::size_t>(part.category)] -= part.time.ps;
  std::vector<int> order(kStepCategories);
  for (int i = 0; i < kStepCategories; ++i) order[static_cast<std::size_t>(i)] = i;
  const auto size = [&](int i) { return std::abs(sums[static_cast<std::size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return size(x) > size(y); });
  const std::int64_t whole = b.step.ps - a.step.ps;
  std::string text = SignedSeconds(static_cast<double>(whole) / kPicosecondsPerSecond);
  for (int told = 0; told < std::min(most, kStepCategories); ++told) {
    const int i = order[static_cast<std::size_t>(told)];
    if (size(i) == 0 || size(i) * 100 < std::abs(whole)) break;
    text += told == 0 ? ": " : ", ";
    text += StepCategoryName(static_cast<StepCategory>(i));
    text += " " + SignedSeconds(static_cast<double>(sums[static_cast<std::size_t>(i)]) /
                                kPicosecondsPerSecond);
  }
  return text;
}

}  // namespace aurum
