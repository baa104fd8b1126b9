#include "sim/compare/step_parts.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "sim/study/time_parts.h"

namespace aurum {
namespace {

struct Words {
  std::string_view key, name;
};
constexpr std::array<Words, kStepCategories> kWords = {{
    {"compute", "compute"},
    {"slowed", "compute slowed by hidden communication"},
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

StepCategory CategoryOf(TimeCause cause) {
  switch (cause) {
    case TimeCause::kCompute:
      return StepCategory::kCompute;
    case TimeCause::kTp:
      return StepCategory::kTp;
    case TimeCause::kCp:
      return StepCategory::kCp;
    case TimeCause::kEp:
      return StepCategory::kEp;
    case TimeCause::kHost:
      return StepCategory::kHost;
    case TimeCause::kDpGather:
      return StepCategory::kDpGather;
    case TimeCause::kDpReduce:
      return StepCategory::kDpReduce;
    case TimeCause::kPpTransfer:
      return StepCategory::kPp;
    case TimeCause::kPpWarmup:
    case TimeCause::kPpCooldown:
    case TimeCause::kPpOther:
      return StepCategory::kBubble;
    case TimeCause::kStraggler:
      return StepCategory::kStraggler;
    case TimeCause::kAlignment:
      return StepCategory::kAlignment;
    case TimeCause::kData:
      return StepCategory::kData;
    case TimeCause::kOptimizer:
      return StepCategory::kOptimizer;
  }
  return StepCategory::kCompute;
}

// Where in the step a bubble is, as results of `simulate --json` tell it too.
std::string PlaceOf(TimeCause cause) {
  switch (cause) {
    case TimeCause::kPpWarmup:
      return "warm-up";
    case TimeCause::kPpCooldown:
      return "cool-down";
    case TimeCause::kPpOther:
      return "between passes";
    default:
      return "";
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
  if (category == StepCategory::kCompute && !module.empty()) return module + " " + what;
  std::string name(StepCategoryName(category));
  for (const std::string* more : {&module, &what}) {
    if (!more->empty()) name += ", " + *more;
  }
  return name;
}

StepParts PartsOf(const Evaluation& e) {
  StepParts out;
  out.step = e.outcome.schedule.makespan;
  out.rank = RankName(e.program, e.outcome.busiest_class);
  out.detailed = true;
  Sums sums;
  std::map<StepCategory, CommunicationPart> communication;
  for (const TimePart& part : SplitTime(e.program, e.outcome.schedule, e.outcome.busiest_class)) {
    const StepCategory category = CategoryOf(part.cause);
    const bool waits = IsCommunication(part.cause) || part.cause == TimeCause::kAlignment;
    std::string module, what = PlaceOf(part.cause);
    if (part.module >= 0 && (waits || category == StepCategory::kCompute))
      module = e.scenario.model->modules[static_cast<std::size_t>(part.module)].name;
    if (category == StepCategory::kCompute)
      what = (part.head ? "head " : "") + std::string(OpWords(part.kind));
    // Of a kernel's time, what communication beside it costs is told apart: it is the network's doing.
    const Time slowed = TimeFromSeconds(part.slowed_s);
    if (category == StepCategory::kCompute && slowed.ps > 0) {
      sums.Add(StepCategory::kSlowed, "", "", slowed);
      sums.Add(category, module, what, part.exposed - slowed);
      continue;
    }
    sums.Add(category, module, what, part.exposed);
    if (!waits) continue;
    CommunicationPart& sum = communication[category];
    sum.category = category;
    // What two other stages exchange is waited for, and nothing of this GPU's.
    sum.exposed += part.own ? part.exposed : Time{};
    sum.busy += part.busy;
    sum.bytes += part.own ? part.bytes : 0;
    sum.operations += part.own ? static_cast<std::size_t>(part.ops) : 0;
  }
  out.parts = sums.Take();
  for (const auto& [category, part] : communication) out.communication.push_back(part);
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
  const double slowed = NumberAt(&result, "compute_slowed_by_communication_s");
  add(StepCategory::kCompute, "", NumberAt(time, "compute_s") - slowed);
  add(StepCategory::kSlowed, "", slowed);
  for (const auto& [category, key] : kIdleKeys) add(category, "", NumberAt(idle, key));
  for (const auto& [key, name] : kBubbleKeys) add(StepCategory::kBubble, name, NumberAt(idle, key));
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
      if (!detailed) {
        part.module.clear();
        if (part.category != StepCategory::kBubble) part.what.clear();
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
  for (const StepPart& part : b.parts)
    sums[static_cast<std::size_t>(part.category)] += part.time.ps;
  for (const StepPart& part : a.parts)
    sums[static_cast<std::size_t>(part.category)] -= part.time.ps;
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
