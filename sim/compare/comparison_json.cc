#include <cmath>
#include <utility>

#include "sim/compare/compare.h"
#include "sim/core/units.h"

namespace aurum {
namespace {

double SecondsOf(std::int64_t ps) { return static_cast<double>(ps) / kPicosecondsPerSecond; }

Json Strings(const std::vector<std::string>& texts) {
  Json out = Json::Array();
  for (const std::string& text : texts) out.Append(text);
  return out;
}

Json SideJson(const Side& side, const StepParts& parts) {
  Json out = Json::Object();
  out.Set("given", side.given);
  const Json& result = side.result;
  for (const char* key : {"name", "run_id", "tool_version", "level", "gpus", "signature"}) {
    if (const Json* value = result.Find(key)) out.Set(key, *value);
  }
  out.Set("simulated", side.evaluation.has_value());
  if (!side.as_found.empty()) out.Set("as_found", side.as_found);
  out.Set("time_rank", parts.rank);
  for (const char* key : {"inputs", "warnings"}) {
    if (const Json* value = result.Find(key)) out.Set(key, *value);
  }
  return out;
}

Json FiguresJson(const NamedFigures& a, const NamedFigures& b) {
  Json out = Json::Array();
  for (const auto& [name, of_a] : a) {
    for (const auto& [other, of_b] : b) {
      if (other != name) continue;
      Json entry = Json::Object();
      entry.Set("figure", name);
      entry.Set("a", of_a);
      entry.Set("b", of_b);
      entry.Set("change", of_b - of_a);
      if (of_a != 0) entry.Set("relative_change", (of_b - of_a) / std::abs(of_a));
      out.Append(std::move(entry));
      break;
    }
  }
  return out;
}

Json TimeJson(const Comparison& c) {
  Json out = Json::Object();
  out.Set("a_s", Seconds(c.parts_a.step));
  out.Set("b_s", Seconds(c.parts_b.step));
  out.Set("change_s", SecondsOf(c.parts_b.step.ps - c.parts_a.step.ps));
  out.Set("change_ps", c.parts_b.step.ps - c.parts_a.step.ps);
  Json parts = Json::Array();
  for (const PartChange& part : c.parts) {
    Json entry = Json::Object();
    entry.Set("part", part.Name());
    entry.Set("category", StepCategoryKey(part.a.category));
    if (!part.a.module.empty()) entry.Set("module", part.a.module);
    if (!part.a.what.empty()) entry.Set("what", part.a.what);
    entry.Set("a_s", Seconds(part.a.time));
    entry.Set("b_s", Seconds(part.b.time));
    entry.Set("change_s", part.ChangeSeconds());
    entry.Set("change_ps", part.ChangePs());
    parts.Append(std::move(entry));
  }
  out.Set("parts", std::move(parts));
  return out;
}

Json CommunicationJson(const std::vector<CollectiveChange>& changes) {
  Json out = Json::Array();
  for (const CollectiveChange& change : changes) {
    Json entry = Json::Object();
    entry.Set("collective", StepCategoryKey(change.category));
    entry.Set("name", StepCategoryName(change.category));
    for (const auto& [prefix, part] : {std::pair("a_", &change.a), std::pair("b_", &change.b)}) {
      const std::string p = prefix;
      entry.Set(p + "operations", static_cast<std::int64_t>(part->operations));
      entry.Set(p + "bytes", part->bytes);
      entry.Set(p + "busy_s", Seconds(part->busy));
      entry.Set(p + "exposed_s", Seconds(part->exposed));
    }
    entry.Set("exposed_change_s", SecondsOf(change.b.exposed.ps - change.a.exposed.ps));
    out.Append(std::move(entry));
  }
  return out;
}

Json MemoryJson(const Comparison& c) {
  Json out = Json::Object();
  double a = 0, b = 0;
  Json components = Json::Array();
  for (const MemoryChange& change : c.memory) {
    a += change.a_bytes;
    b += change.b_bytes;
    Json entry = Json::Object();
    entry.Set("component", change.component);
    entry.Set("a_gib", change.a_bytes / kGiB);
    entry.Set("b_gib", change.b_bytes / kGiB);
    entry.Set("change_gib", (change.b_bytes - change.a_bytes) / kGiB);
    components.Append(std::move(entry));
  }
  out.Set("a_peak_gib", a / kGiB);
  out.Set("b_peak_gib", b / kGiB);
  out.Set("change_gib", (b - a) / kGiB);
  for (const auto& [prefix, side] : {std::pair("a_", &c.a), std::pair("b_", &c.b)}) {
    for (const char* key : {"rank", "at", "verdict"}) {
      const Json* value = FindPath(side->result, std::string("memory.") + key);
      if (value != nullptr) out.Set(prefix + std::string(key), *value);
    }
  }
  out.Set("components", std::move(components));
  return out;
}

Json ChangeJson(const KeyChange& change) {
  Json out = Json::Object();
  out.Set("path", change.path);
  if (change.a) out.Set("a", *change.a);
  if (change.b) out.Set("b", *change.b);
  return out;
}

Json PathsJson(const std::vector<ChangeGroup>& groups) {
  Json out = Json::Array();
  for (const ChangeGroup& group : groups) out.Append(group.path);
  return out;
}

Json SubstitutionJson(const Substitution& s, const Comparison& c) {
  Json out = Json::Object();
  const std::int64_t from = c.parts_a.step.ps;
  const double peak = c.a.evaluation->memory.Heaviest().peak_bytes;
  Json alone = Json::Array();
  for (const AloneChange& change : s.alone) {
    Json entry = Json::Object();
    entry.Set("path", change.what.path);
    if (change.with) {
      entry.Set("step_time_s", Seconds(change.with->step));
      entry.Set("change_s", SecondsOf(change.with->step.ps - from));
      entry.Set("peak_gib", change.with->peak_bytes / kGiB);
      entry.Set("peak_change_gib", (change.with->peak_bytes - peak) / kGiB);
      entry.Set("verdict", FitName(change.with->verdict));
      entry.Set("why", DescribeChange(c.parts_a, change.with->parts));
    }
    if (change.refused) entry.Set("refused", DiagnosticJson(*change.refused));
    alone.Append(std::move(entry));
  }
  out.Set("alone", std::move(alone));
  out.Set("alone_sum_s", SecondsOf(s.alone_sum_ps));
  out.Set("interaction_s", SecondsOf(s.interaction_ps));
  out.Set("interaction_peak_gib", s.interaction_bytes / kGiB);
  Json walk = Json::Array();
  for (const WalkStep& step : s.walk) {
    Json entry = Json::Object();
    entry.Set("paths", PathsJson(step.what));
    entry.Set("step_time_s", Seconds(step.with.step));
    entry.Set("change_s", SecondsOf(step.change_ps));
    entry.Set("change_ps", step.change_ps);
    entry.Set("peak_gib", step.with.peak_bytes / kGiB);
    entry.Set("peak_change_gib", step.memory_change_bytes / kGiB);
    entry.Set("verdict", FitName(step.with.verdict));
    entry.Set("why", step.why);
    walk.Append(std::move(entry));
  }
  out.Set("in_order", std::move(walk));
  out.Set("simulations", s.simulations);
  return out;
}

Json ScalingJson(const Scaling& s) {
  Json out = Json::Object();
  out.Set("a_gpus", s.gpus_a);
  out.Set("b_gpus", s.gpus_b);
  out.Set("a_batch", s.batch_a);
  out.Set("b_batch", s.batch_b);
  out.Set("ideal_step_s", s.ideal_step_s);
  out.Set("speedup", s.speedup);
  out.Set("ideal_speedup", s.ideal_speedup);
  out.Set("efficiency", s.Efficiency());
  Json parts = Json::Array();
  for (const Scaling::Part& part : s.parts) {
    Json entry = Json::Object();
    entry.Set("part", part.name);
    entry.Set("a_s", part.a_s);
    entry.Set("ideal_s", part.ideal_s);
    entry.Set("b_s", part.b_s);
    entry.Set("lost_s", part.LostSeconds());
    parts.Append(std::move(entry));
  }
  out.Set("parts", std::move(parts));
  return out;
}

Json LinksJson(const LinksNeeded& needed) {
  Json out = Json::Object();
  out.Set("of", needed.of_b ? "b" : "a");
  out.Set("keeps_up_at", kKeepsUp);
  out.Set("measure",
          needed.own_plan ? "its own scenario on the other's cluster" : "the other side");
  out.Set("measure_step_s", needed.measure_step_s);
  out.Set("target_step_s", needed.target_s);
  out.Set("step_time_s", needed.step_s);
  Json kinds = Json::Array();
  for (const LinksOfKind& kind : needed.kinds) {
    Json entry = Json::Object();
    entry.Set("links", kind.links);
    entry.Set("set", Strings(kind.set));
    entry.Set("enough", kind.enough);
    entry.Set("factor", kind.factor);
    entry.Set("step_time_s", kind.step_s);
    if (kind.gb_per_s_per_gpu > 0) {
      entry.Set("gb_per_s_per_gpu", kind.gb_per_s_per_gpu);
      entry.Set("needed_gb_per_s_per_gpu", kind.needed_gb_per_s_per_gpu);
    }
    kinds.Append(std::move(entry));
  }
  out.Set("kinds", std::move(kinds));
  return out;
}

}  // namespace

Json ComparisonJson(const Comparison& c, const std::string& tool_version) {
  Json out = Json::Object();
  out.Set("schema", "aurum.comparison/1");
  out.Set("tool_version", tool_version);
  out.Set("of", "steps");
  out.Set("summary", c.summary);
  out.Set("notes", Strings(c.notes));
  out.Set("a", SideJson(c.a, c.parts_a));
  out.Set("b", SideJson(c.b, c.parts_b));
  if (!c.judged.empty()) {
    out.Set("failed", c.Failed());
    out.Set("conditions", JudgedJson(c.judged));
  }
  out.Set("figures", FiguresJson(FiguresOfResult(c.a.result), FiguresOfResult(c.b.result)));
  out.Set("time", TimeJson(c));
  out.Set("communication", CommunicationJson(c.communication));
  out.Set("memory", MemoryJson(c));
  if (c.scaling) out.Set("scaling", ScalingJson(*c.scaling));
  Json changes = Json::Array();
  for (const KeyChange& change : c.changes) changes.Append(ChangeJson(change));
  out.Set("inputs_differ", std::move(changes));
  Json facts = Json::Array();
  for (const FactChange& fact : c.facts) {
    Json entry = Json::Object();
    entry.Set("of", fact.of);
    entry.Set("fact", fact.fact);
    if (!fact.unit.empty()) entry.Set("unit", fact.unit);
    entry.Set("a", fact.a);
    entry.Set("b", fact.b);
    facts.Append(std::move(entry));
  }
  out.Set("facts", std::move(facts));
  if (c.substitution) out.Set("substitution", SubstitutionJson(*c.substitution, c));
  if (c.links) out.Set("links_needed", LinksJson(*c.links));
  return out;
}

}  // namespace aurum
