#include "sim/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "sim/compare/facts.h"
#include "sim/core/units.h"

namespace aurum {
namespace {

double NumberAt(const Json& object, std::string_view path) {
  const Json* value = FindPath(object, path);
  return value != nullptr && value->IsNumber() ? value->AsNumber() : 0;
}

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

StepParts PartsOfSide(const Side& side) {
  return side.evaluation ? PartsOf(*side.evaluation) : PartsOfResult(side.result);
}

std::vector<CollectiveChange> CompareCommunication(const StepParts& a, const StepParts& b) {
  std::vector<CollectiveChange> out;
  for (int i = 0; i < kStepCategories; ++i) {
    CollectiveChange change;
    change.category = static_cast<StepCategory>(i);
    const auto find = [&](const StepParts& side, CommunicationPart* to) {
      for (const CommunicationPart& part : side.communication) {
        if (part.category == change.category) *to = part;
      }
    };
    find(a, &change.a);
    find(b, &change.b);
    if (change.a.operations + change.b.operations > 0) out.push_back(change);
  }
  return out;
}

// Components of the heaviest class at its peak: bytes where simulated, the document's GiB elsewhere.
std::array<double, kMemoryComponents> ComponentsOf(const Side& side) {
  if (side.evaluation) return side.evaluation->memory.Heaviest().at_peak;
  std::array<double, kMemoryComponents> out{};
  for (int i = 0; i < kMemoryComponents; ++i) {
    out[static_cast<std::size_t>(i)] =
        kGiB * NumberAt(side.result,
                        "memory." + MemoryComponentName(static_cast<MemoryComponent>(i)) + "_gib");
  }
  return out;
}

std::vector<MemoryChange> CompareMemory(const Side& a, const Side& b) {
  const auto of_a = ComponentsOf(a), of_b = ComponentsOf(b);
  std::vector<MemoryChange> out;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i] == 0 && of_b[i] == 0) continue;
    out.push_back({MemoryComponentName(static_cast<MemoryComponent>(i)), of_a[i], of_b[i]});
  }
  std::stable_sort(out.begin(), out.end(), [](const MemoryChange& x, const MemoryChange& y) {
    return std::abs(x.b_bytes - x.a_bytes) > std::abs(y.b_bytes - y.a_bytes);
  });
  return out;
}

std::optional<Scaling> CompareScale(const Comparison& c) {
  if (!c.a.evaluation || !c.b.evaluation) return std::nullopt;
  const Scenario &a = c.a.evaluation->scenario, &b = c.b.evaluation->scenario;
  Scaling out;
  out.gpus_a = a.cluster->GpuCount();
  out.gpus_b = b.cluster->GpuCount();
  out.batch_a = static_cast<double>(a.workload.global_batch_size);
  out.batch_b = static_cast<double>(b.workload.global_batch_size);
  if ((out.gpus_a == out.gpus_b && out.batch_a == out.batch_b) || !SameWork(a, b))
    return std::nullopt;
  const double share = static_cast<double>(out.gpus_a) / out.gpus_b * (out.batch_b / out.batch_a);
  const double step_a = Seconds(c.parts_a.step), step_b = Seconds(c.parts_b.step);
  out.ideal_step_s = step_a * share;
  out.speedup = out.batch_b / step_b / (out.batch_a / step_a);
  out.ideal_speedup = static_cast<double>(out.gpus_b) / out.gpus_a;
  // Told by category: passes of one module scale together.
  std::array<Scaling::Part, kStepCategories> parts;
  for (int i = 0; i < kStepCategories; ++i) {
    parts[static_cast<std::size_t>(i)].name =
        std::string(StepCategoryName(static_cast<StepCategory>(i)));
  }
  for (const StepPart& part : c.parts_a.parts) {
    Scaling::Part& sum = parts[static_cast<std::size_t>(part.category)];
    sum.a_s += Seconds(part.time);
    sum.ideal_s += Seconds(part.time) * share;
  }
  for (const StepPart& part : c.parts_b.parts)
    parts[static_cast<std::size_t>(part.category)].b_s += Seconds(part.time);
  for (Scaling::Part& part : parts) {
    if (part.a_s > 0 || part.b_s > 0) out.parts.push_back(std::move(part));
  }
  std::stable_sort(out.parts.begin(), out.parts.end(),
                   [](const Scaling::Part& x, const Scaling::Part& y) {
                     return std::abs(x.LostSeconds()) > std::abs(y.LostSeconds());
                   });
  return out;
}

std::vector<std::string> Notes(const Comparison& c) {
  std::vector<std::string> notes;
  for (const auto& [name, side] : {std::pair("A", &c.a), std::pair("B", &c.b)}) {
    if (!side->as_found.empty()) {
      notes.push_back(std::string(name) +
                      " is compared as its result tells it, by totals: " + side->as_found);
    }
  }
  const auto text = [](const Side& side, std::string_view key) {
    const Json* value = side.result.Find(key);
    return value != nullptr && value->IsString() ? value->AsString() : std::string();
  };
  const std::string level_a = text(c.a, "level"), level_b = text(c.b, "level");
  if (level_a != level_b)
    notes.push_back("A was simulated at the level " + level_a + ", B at " + level_b +
                    ": the difference is of that, too");
  const std::string version_a = text(c.a, "tool_version"), version_b = text(c.b, "tool_version");
  if (version_a != version_b)
    notes.push_back("A is of version " + version_a + " of Aurum, B of " + version_b +
                    ": the difference is of that, too");
  const auto name_of = [](const std::string& rank) { return rank.substr(0, rank.find(" (")); };
  if (name_of(c.parts_a.rank) != name_of(c.parts_b.rank) && !c.parts_a.rank.empty() &&
      !c.parts_b.rank.empty()) {
    notes.push_back("the busiest GPUs are " + c.parts_a.rank + " in A and " + c.parts_b.rank +
                    " in B");
  }
  const double band =
      std::max(NumberAt(c.a.result, "error_band"), NumberAt(c.b.result, "error_band"));
  const double step_a = Seconds(c.parts_a.step), step_b = Seconds(c.parts_b.step);
  const double relative = std::abs(step_b / step_a - 1);
  if (relative > 0 && relative < band) {
    notes.push_back("each step is quoted ±" + Text("%.0f", band * 100) +
                    " %, more than they differ; what both rest on (kernels, links) errs alike, so "
                    "the sign of the difference is surer than its size");
  }
  for (const auto& [name, side] : {std::pair("A", &c.a), std::pair("B", &c.b)}) {
    if (const Json* fits = side->result.Find("fits");
        fits != nullptr && fits->IsBool() && !fits->AsBool())
      notes.push_back(std::string(name) +
                      " does not fit the memory: its time is what a step would take if it fitted");
  }
  return notes;
}

std::string Summary(const Comparison& c) {
  const double step_a = Seconds(c.parts_a.step), step_b = Seconds(c.parts_b.step);
  // Of results that are known by their totals no input needs to differ. Their texts are rounded.
  constexpr double kSame = 1e-6;
  const bool same_totals =
      std::all_of(c.parts.begin(), c.parts.end(),
                  [&](const PartChange& part) {
                    return std::abs(part.ChangeSeconds()) <= kSame * step_a;
                  }) &&
      std::all_of(c.memory.begin(), c.memory.end(), [](const MemoryChange& part) {
        return std::abs(part.b_bytes - part.a_bytes) <= kSame * part.a_bytes;
      });
  if (c.parts_a.step == c.parts_b.step && same_totals && c.changes.empty() && c.facts.empty())
    return "nothing differs";
  std::string out;
  if (c.scaling && c.scaling->gpus_a != c.scaling->gpus_b) {
    const Scaling& s = *c.scaling;
    out = Text("%.3g", s.ideal_speedup) + " × the GPUs give " + Text("%.2f", s.speedup) +
          " × the samples per second (" + Text("%.0f", s.Efficiency() * 100) +
          " % of what is possible)";
    std::string lost;
    for (const Scaling::Part& part : s.parts) {
      if (part.LostSeconds() < 0.02 * std::abs(step_b - s.ideal_step_s)) continue;
      lost += (lost.empty() ? "" : ", ") + part.name + " " + SignedSeconds(part.LostSeconds());
    }
    if (!lost.empty())
      out += "; against an ideal step of " + SignedSeconds(s.ideal_step_s).substr(1) + ": " + lost;
    return out;
  }
  if (c.parts_a.step == c.parts_b.step) {
    out = "the steps take equally long";
  } else {
    const double ratio = step_b / step_a;
    out = ratio >= 1.5   ? "a step of B takes " + Text("%.3g", ratio) + " × as long"
          : ratio > 1    ? "a step of B takes " + Text("%.2g", (ratio - 1) * 100) + " % longer"
          : ratio > 0.67 ? "a step of B takes " + Text("%.2g", (1 - ratio) * 100) + " % less time"
                         : "a step of B is " + Text("%.3g", 1 / ratio) + " × as fast";
    out += ", " + DescribeChange(c.parts_a, c.parts_b);
  }
  if (c.substitution && c.substitution->alone.size() > 1) {
    const AloneChange* most = nullptr;
    for (const AloneChange& alone : c.substitution->alone) {
      if (!alone.with) continue;
      const auto size = [&](const AloneChange& x) {
        return std::abs(x.with->step.ps - c.parts_a.step.ps);
      };
      if (most == nullptr || size(alone) > size(*most)) most = &alone;
    }
    if (most != nullptr && most->with->step != c.parts_a.step) {
      const auto seconds = [](std::int64_t ps) {
        return static_cast<double>(ps) / kPicosecondsPerSecond;
      };
      out += ". Alone, " + most->what.path + " makes " +
             SignedSeconds(seconds(most->with->step.ps - c.parts_a.step.ps));
      if (std::abs(c.substitution->interaction_ps) * 50 >
          std::abs(c.parts_b.step.ps - c.parts_a.step.ps)) {
        out += "; the changes together make " +
               SignedSeconds(seconds(c.substitution->interaction_ps)) +
               " more than each alone adds up to";
      }
    }
  }
  return out;
}

std::string ProfileOfCluster(const JsonDocument& document, InputCache* cache) {
  const Json* cluster = document.root.Find("cluster");
  if (cluster == nullptr || !cluster->IsString()) return {};
  return cache->GetCluster(cluster->AsString()).value->gpu.profile;
}

}  // namespace

bool Comparison::Failed() const {
  return std::any_of(judged.begin(), judged.end(), [](const Judged& j) { return j.failed; });
}

Comparison Compare(Side a, Side b, InputCache* cache, const CompareOptions& options) {
  Comparison c;
  c.a = std::move(a);
  c.b = std::move(b);
  c.parts_a = PartsOfSide(c.a);
  c.parts_b = PartsOfSide(c.b);
  c.parts = CompareParts(c.parts_a, c.parts_b);
  c.communication = CompareCommunication(c.parts_a, c.parts_b);
  c.memory = CompareMemory(c.a, c.b);
  c.facts = CompareFacts(c.a, c.b);
  c.scaling = CompareScale(c);
  if (c.a.document && c.b.document) {
    JsonDocument document_a = *c.a.document, document_b = *c.b.document;
    const bool both = c.a.evaluation && c.b.evaluation;
    if (both) {
      TellDefaults(ProfileOfCluster(document_a, cache), &document_a);
      TellDefaults(ProfileOfCluster(document_b, cache), &document_b);
    }
    c.changes = DiffScenarios(document_a.root, document_b.root);
    const bool same_level = both && c.a.evaluation->outcome.level == c.b.evaluation->outcome.level;
    if (options.substitute && same_level && !c.changes.empty()) {
      SubstituteOptions how;
      how.level = c.a.evaluation->outcome.level;
      c.substitution =
          Substitute(document_a, *c.a.evaluation, *c.b.evaluation, c.changes, cache, how);
      const bool clusters =
          std::any_of(c.changes.begin(), c.changes.end(),
                      [](const KeyChange& change) { return change.pointer == "/cluster"; });
      if (clusters) {
        c.links = FindLinksNeeded(document_a, *c.a.evaluation, document_b, *c.b.evaluation, cache);
      }
    }
  }
  const NamedFigures of_a = FiguresOfResult(c.a.result), of_b = FiguresOfResult(c.b.result);
  for (const Condition& condition : options.fail_if)
    c.judged.push_back(Judge(condition, of_a, of_b));
  c.notes = Notes(c);
  c.summary = Summary(c);
  return c;
}

}  // namespace aurum
