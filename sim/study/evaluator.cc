#include "sim/study/evaluator.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/memory/memory.h"
#include "sim/plan/alignment.h"
#include "sim/plan/waves.h"
#include "sim/plan/what_if.h"

namespace aurum {
namespace {

// Keys of what_if that a retimed plan takes; the links' factors make another cluster.
constexpr std::array<std::string_view, 6> kRetimed = {"flops_gflop_per_token", "comm_bw_gb_per_s",
                                                      "align_ratio",           "gemm_speedup",
                                                      "attention_speedup",     "memory_speedup"};
bool IsRetimed(std::string_view key) {
  return std::find(kRetimed.begin(), kRetimed.end(), key) != kRetimed.end();
}

bool Same(const Json& a, const Json& b) {
  if (a.IsObject()) {
    return b.IsObject() && std::equal(a.members().begin(), a.members().end(), b.members().begin(),
                                      b.members().end(), [](const auto& x, const auto& y) {
                                        return x.first == y.first && Same(x.second, y.second);
                                      });
  }
  if (a.IsArray())
    return b.IsArray() &&
           std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), Same);
  if (a.IsString()) return b.IsString() && a.AsString() == b.AsString();
  if (a.IsInteger()) return b.IsInteger() && a.AsInteger() == b.AsInteger();
  if (a.IsNumber()) return b.IsNumber() && !b.IsInteger() && a.AsNumber() == b.AsNumber();
  if (a.IsBool()) return b.IsBool() && a.AsBool() == b.AsBool();
  return a.IsNull() && b.IsNull();
}

// The scenario without what a retimed plan takes.
Json BaseOf(const Json& scenario) {
  Json base = scenario;
  Json* what_if = base.Find("what_if");
  if (what_if == nullptr || !what_if->IsObject()) return base;
  std::erase_if(what_if->members(), [](const auto& member) { return IsRetimed(member.first); });
  if (what_if->members().empty())
    std::erase_if(base.members(), [](const auto& member) { return member.first == "what_if"; });
  return base;
}

// BaseOf(scenario) == base, without making it.
bool HasBase(const Json& scenario, const Json& base) {
  if (!scenario.IsObject() || !base.IsObject()) return false;
  auto at = base.members().begin();
  const auto end = base.members().end();
  for (const auto& [key, value] : scenario.members()) {
    if (key != "what_if" || !value.IsObject()) {
      if (at == end || at->first != key || !Same(value, at->second)) return false;
      ++at;
      continue;
    }
    const auto kept = [](const auto& member) { return !IsRetimed(member.first); };
    const Json::Members& members = value.members();
    if (std::none_of(members.begin(), members.end(), kept)) continue;
    if (at == end || at->first != key || !at->second.IsObject()) return false;
    auto inner = at->second.members().begin();
    const auto inner_end = at->second.members().end();
    for (const auto& member : members) {
      if (!kept(member)) continue;
      if (inner == inner_end || inner->first != member.first || !Same(member.second, inner->second))
        return false;
      ++inner;
    }
    if (inner != inner_end) return false;
    ++at;
  }
  return at == end;
}

}  // namespace

// Where tokens are moved by decree, there is an exchange, unless none is.
Evaluator::Likeness::Alignment Evaluator::AlignmentOf(const Json& scenario) {
  const Json* what_if = scenario.Find("what_if");
  const Json* ratio = what_if != nullptr ? what_if->Find("align_ratio") : nullptr;
  if (ratio == nullptr || ratio->IsNull()) return Likeness::Alignment::kNatural;
  const bool whole = ratio->IsNumber() && ratio->AsNumber() == 1;
  return whole ? Likeness::Alignment::kWhole : Likeness::Alignment::kImposed;
}

Evaluator::Likeness Evaluator::LikenessOf(const Json& scenario) {
  return {BaseOf(scenario), AlignmentOf(scenario)};
}

bool Evaluator::Has(const Json& scenario, const Likeness& likeness) {
  return AlignmentOf(scenario) == likeness.alignment && HasBase(scenario, likeness.base);
}

Evaluator::Shape* Evaluator::Find(const JsonDocument& document) {
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    if (!Has(document.root, shapes_[i]->likeness)) continue;
    const auto at = shapes_.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(shapes_.begin(), at, at + 1);
    return shapes_.front().get();
  }
  return nullptr;
}

bool Evaluator::SeenBefore(const JsonDocument& document) {
  for (auto at = seen_.begin(); at != seen_.end(); ++at) {
    if (!Has(document.root, *at)) continue;
    seen_.erase(at);
    return true;
  }
  if (seen_.size() == kMostSeen) seen_.pop_back();
  seen_.push_front(LikenessOf(document.root));
  return false;
}

// walked_ is the document's.
void Evaluator::Keep(const JsonDocument& document) {
  auto shape = std::make_unique<Shape>();
  shape->likeness = LikenessOf(document.root);
  const Evaluation& e = walked_;
  if (level_ == Level::kAnalytic && fold_ == Fold::kOn && !e.data && !e.varied && !e.loader)
    shape->retimer = Retimer::Make(e.scenario);
  if (shape->retimer != nullptr) {
    shape->ops = e.program.graph.op_count();
    shape->evaluation = std::move(walked_);
    walked_ = {};
    Evaluation& kept = shape->evaluation;
    kept.program = shape->retimer->MakeFigures();
    kept.outcome.gaps.clear();
    for (ClassMemory& memory : kept.memory.classes) {
      memory.times.clear();
      for (std::vector<double>* series :
           {&memory.activations, &memory.logits, &memory.communication, &memory.gradients,
            &memory.workspace})
        series->clear();
    }
    shape->own_memory = kept.memory;
  }
  std::size_t ops = shape->ops;
  for (const auto& other : shapes_) ops += other->ops;
  while (!shapes_.empty() && (shapes_.size() >= kMostShapes || ops > kMostKeptOps)) {
    ops -= shapes_.back()->ops;
    shapes_.pop_back();
  }
  shapes_.push_front(std::move(shape));
}

// False: it has to be walked, or is in error.
bool Evaluator::Retime(const JsonDocument& document, Shape* shape) {
  if (shape->retimer == nullptr) return false;
  Retimer& retimer = *shape->retimer;
  WhatIf what_if;
  try {
    const Json* imposed = document.root.Find("what_if");
    if (imposed != nullptr && !imposed->IsObject()) return false;
    if (imposed != nullptr) {
      ObjectReader reader(document, *imposed, "/what_if");
      what_if = ReadWhatIf(&reader, retimer.scenario());
    }
  } catch (const InputError&) {
    return false;  // told by the walk, in the order in which it finds errors
  }
  Evaluation& e = shape->evaluation;
  e.scenario.what_if = what_if;
  if (!retimer.Retime(what_if, &e.program, &e.outcome)) return false;
  if (e.StepSeconds() > kLongestStep) return false;
  const bool same_memory = retimer.SameMemoryOrder();
  const bool measures = !e.program.alignment.imposed && !retimer.Whole().fusion.empty();
  if (same_memory && !shape->has_own_memory) e.memory = shape->own_memory;
  shape->has_own_memory = same_memory;
  if (!same_memory || measures) {
    Outcome outcome;
    retimer.Expand(&outcome.schedule);
    if (!same_memory) e.memory = MeasureMemory(e.scenario, retimer.Whole(), outcome);
    if (measures) e.alignment = MeasureAlignment(retimer.Whole(), outcome.schedule);
  }
  e.golden = GoldenTerms(e.scenario, e.program);
  return true;
}

const Evaluation& Evaluator::Walk(const JsonDocument& document) {
  Shape* shape = Find(document);
  if (shape != nullptr && Retime(document, shape)) {
    ++counts_.retimed;
    return shape->evaluation;
  }
  ++counts_.walked;
  walked_ = Evaluate(ReadScenario(document, cache_), level_, fold_);
  if (shape != nullptr || !SeenBefore(document)) return walked_;
  Keep(document);
  // The walk is the new shape's own what-if, where it can be timed again.
  if (shapes_.front()->retimer == nullptr) return walked_;
  if (Retime(document, shapes_.front().get())) return shapes_.front()->evaluation;
  walked_ = Evaluate(ReadScenario(document, cache_), level_, fold_);
  return walked_;
}

Evaluator& Evaluators::Mine() {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Evaluator>& mine = evaluators_[std::this_thread::get_id()];
  if (mine == nullptr) mine = std::make_unique<Evaluator>(cache_, level_, fold_);
  return *mine;
}

}  // namespace aurum
