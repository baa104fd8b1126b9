#include "sim/core/units.h"
#include "sim/explain/explain.h"
#include "sim/study/document_head.h"

namespace aurum {
namespace {

std::string ModuleName(const Evaluation& e, int module) {
  return module < 0 ? "" : e.scenario.model->modules[static_cast<std::size_t>(module)].name;
}

Json Strings(const std::vector<std::string>& words) {
  Json out = Json::Array();
  for (const std::string& word : words) out.Append(word);
  return out;
}

Json PartJson(const Evaluation& e, const TimePart& part) {
  Json out = Json::Object();
  out.Set("what", DescribePart(part, *e.scenario.model));
  out.Set("cause", std::string(TimeCauseName(part.cause)));
  out.Set("module", ModuleName(e, part.module));
  out.Set("exposed_s", Seconds(part.exposed));
  out.Set("busy_s", Seconds(part.busy));
  out.Set("ops", part.ops);
  if (part.flops > 0) out.Set("model_flop", part.flops);
  if (part.bytes > 0) out.Set("bytes", part.bytes);
  if (part.slowed_s > 0) out.Set("slowed_s", part.slowed_s);
  return out;
}

Json KernelsJson(const Evaluation& e, const WorkTree& work) {
  Json out = Json::Array();
  for (const KernelGroup& group : work.groups) {
    Json entry = Json::Object();
    entry.Set("module", ModuleName(e, group.module));
    entry.Set("op", std::string(OpWords(group.kind)));
    entry.Set("head", group.head);
    entry.Set("kernels", KernelKindName(group.kernel));
    entry.Set("calls", group.calls);
    entry.Set("seconds", group.seconds);
    entry.Set("flop", group.flops);
    entry.Set("hbm_bytes", group.bytes);
    entry.Set("bound", std::string(BoundName(group.Binds())));
    entry.Set("attained_share", group.Attained());
    out.Append(std::move(entry));
  }
  return out;
}

Json ShapesJson(const WorkTree& work) {
  constexpr std::size_t kMost = 40;
  Json out = Json::Array();
  for (std::size_t i = 0; i < std::min(work.shapes.size(), kMost); ++i) {
    const KernelShape& shape = work.shapes[i];
    Json entry = Json::Object();
    entry.Set("kernel", shape.what);
    entry.Set("in", shape.where);
    entry.Set("calls", shape.calls);
    entry.Set("seconds", shape.seconds);
    entry.Set("flop", shape.flops);
    entry.Set("bound", std::string(BoundName(shape.bound)));
    entry.Set("attained_share", shape.attained);
    out.Append(std::move(entry));
  }
  return out;
}

Json PathJson(const Evaluation& e, const CriticalPath& path) {
  Json out = Json::Object();
  out.Set("ops", static_cast<std::int64_t>(path.ops.size()));
  out.Set("stage_crossings", path.crossings);
  out.Set("idle_s", Seconds(path.idle));
  Json parts = Json::Array();
  for (const TimePart& part : path.parts) {
    Json entry = Json::Object();
    entry.Set("what", DescribePart(part, *e.scenario.model));
    entry.Set("module", ModuleName(e, part.module));
    entry.Set("seconds", Seconds(part.exposed));
    entry.Set("ops", part.ops);
    parts.Append(std::move(entry));
  }
  out.Set("parts", std::move(parts));
  Json stages = Json::Array();
  for (const Time& time : path.by_stage) stages.Append(Seconds(time));
  out.Set("by_stage_s", std::move(stages));
  return out;
}

Json CommJson(const Evaluation& e, const Explanation& x) {
  const CommTree& tree = *x.comm;
  Json out = Json::Object();
  out.Set("running_s", tree.running_s);
  out.Set("exposed_s", tree.exposed_s);
  out.Set("elsewhere_s", tree.elsewhere_s);
  out.Set("exposed_share", tree.ExposedShare());
  out.Set("step_share", tree.StepShare());
  Json items = Json::Array();
  for (const CommItem& item : tree.items) {
    Json entry = Json::Object();
    entry.Set("group", std::string(CommGroupName(item.group)));
    entry.Set("what", DescribePart(item.part, *e.scenario.model));
    entry.Set("module", ModuleName(e, item.part.module));
    entry.Set("collective", item.collective);
    if (item.uses.size() > 1) {
      Json uses = Json::Array();
      for (const CommUse& use : item.uses) {
        Json one = Json::Object();
        one.Set("collective", use.collective);
        one.Set("ops", use.calls);
        one.Set("bytes", use.bytes);
        one.Set("running_s", use.running_s);
        uses.Append(std::move(one));
      }
      entry.Set("collectives", std::move(uses));
    }
    entry.Set("ranks", item.ranks);
    entry.Set("over_network", item.over_network);
    entry.Set("ops", item.part.ops);
    entry.Set("bytes", item.part.bytes);
    entry.Set("running_s", item.running_s);
    entry.Set("busy_s", Seconds(item.part.busy));
    entry.Set("exposed_s", Seconds(item.part.exposed));
    entry.Set("bus_bytes_per_s", item.bus_bytes_per_s);
    entry.Set("possible_bytes_per_s", item.possible_bytes_per_s);
    if (item.possible_bytes_per_s > 0) {
      entry.Set("attained_share", item.Attained());
      entry.Set("link", std::string(LinkKindName(item.bottleneck)));
    }
    items.Append(std::move(entry));
  }
  out.Set("items", std::move(items));
  Json limits = Json::Array();
  for (const LinkLimit& limit : x.links) {
    Json entry = Json::Object();
    entry.Set("without_limit", limit.name);
    entry.Set("step_time_s", limit.step_s);
    entry.Set("saves_share", limit.step_share);
    limits.Append(std::move(entry));
  }
  out.Set("link_limits", std::move(limits));
  return out;
}

Json MemoryJson(const Evaluation& e, const MemoryTree& tree) {
  const ClassMemory& heaviest = e.memory.Heaviest();
  Json out = Json::Object();
  out.Set("rank", RankName(e.program, e.memory.heaviest));
  out.Set("at", heaviest.at);
  out.Set("peak_gib", heaviest.peak_bytes / kGiB);
  out.Set("usable_gib", e.memory.usable_bytes / kGiB);
  out.Set("verdict", FitName(e.memory.verdict));
  Json items = Json::Array();
  for (const MemoryItem& item : tree.items) {
    Json entry = Json::Object();
    entry.Set("component", MemoryComponentName(item.component));
    entry.Set("module", item.module);
    entry.Set("what", item.what);
    entry.Set("count", item.count);
    entry.Set("gib", item.bytes / kGiB);
    items.Append(std::move(entry));
  }
  out.Set("items", std::move(items));
  return out;
}

Json LadderJson(const std::vector<MicroBatchRow>& rows) {
  Json out = Json::Array();
  for (const MicroBatchRow& row : rows) {
    Json entry = Json::Object();
    entry.Set("micro_batch_size", row.size);
    entry.Set("as_told", row.as_told);
    entry.Set("set", Strings(row.set));
    entry.Set("step_time_s", row.step_s);
    entry.Set("samples_per_s", row.samples_per_s);
    entry.Set("peak_gib", row.peak_bytes / kGiB);
    entry.Set("verdict", FitName(row.verdict));
    out.Append(std::move(entry));
  }
  return out;
}

Json SensitivitiesJson(const std::vector<Sensitivity>& list) {
  Json out = Json::Array();
  for (const Sensitivity& s : list) {
    Json entry = Json::Object();
    entry.Set("what", s.name);
    entry.Set("set", Strings(s.set));
    entry.Set("kind", s.resource ? "resource" : "choice");
    entry.Set("factor", s.factor);
    entry.Set("step_time_s", s.step_s);
    entry.Set("saves_share", s.step_share);
    entry.Set("samples_per_s", s.samples_per_s);
    entry.Set("tokens_per_s", s.tokens_per_s);
    entry.Set("tokens_per_s_share", s.throughput_share);
    if (s.resource) entry.Set("elasticity", s.elasticity);
    entry.Set("peak_gib", s.peak_bytes / kGiB);
    entry.Set("verdict", FitName(s.verdict));
    out.Append(std::move(entry));
  }
  return out;
}

}  // namespace

Json ExplainJson(const Evaluation& e, const Explanation& x, const ExplainOptions& options) {
  Json out = Json::Object();
  out.Set("schema", "aurum.explain/1");
  out.Set("tool_version", options.tool_version);
  out.Set("name", e.scenario.name);
  if (!e.scenario.question.empty()) out.Set("question", e.scenario.question);
  out.Set("inputs", InputsJson(e.scenario.inputs));
  out.Set("warnings", WarningsJson(e.scenario.warnings));
  out.Set("level", std::string(LevelName(e.outcome.level)));
  out.Set("step_time_s", e.StepSeconds());
  out.Set("provenance", ProvenanceName(e.program.provenance));
  out.Set("error_band", StepBand(e.scenario));
  Json findings = Json::Array();
  for (const Finding& finding : x.findings) {
    Json entry = Json::Object();
    entry.Set("topic", finding.topic);
    entry.Set("text", finding.text);
    findings.Append(std::move(entry));
  }
  out.Set("findings", std::move(findings));
  Json time = Json::Object();
  time.Set("rank", RankName(e.program, x.rank_class));
  Json parts = Json::Array();
  for (const TimePart& part : x.parts) parts.Append(PartJson(e, part));
  time.Set("parts", std::move(parts));
  if (x.work) {
    time.Set("kernels", KernelsJson(e, *x.work));
    time.Set("shapes", ShapesJson(*x.work));
  }
  out.Set("time", std::move(time));
  if (x.path) out.Set("critical_path", PathJson(e, *x.path));
  if (x.comm) out.Set("communication", CommJson(e, x));
  if (x.memory) out.Set("memory", MemoryJson(e, *x.memory));
  if (options.topics.oom) {
    out.Set("micro_batches", LadderJson(x.micro_batches));
    if (!x.recipes.empty()) {
      Json recipes = Json::Array();
      for (const Recipe& recipe : x.recipes) {
        Json entry = Json::Object();
        entry.Set("recipe", recipe.name);
        entry.Set("set", Strings(recipe.set));
        entry.Set("micro_batches", LadderJson(recipe.micro_batches));
        recipes.Append(std::move(entry));
      }
      out.Set("recipes", std::move(recipes));
    }
    out.Set("fixes", FixesJson(*x.fixes));
    out.Set("fixes_tried", x.fixes->tried);
  }
  if (options.topics.sensitivity) {
    out.Set("sensitivities", SensitivitiesJson(x.sensitivities));
    out.Set("verdict_with_10_percent_more_memory", FitName(x.with_more_memory));
    if (x.encoders) out.Set("encoders", DecisionJson(*x.encoders, options.tool_version));
  }
  if (options.topics.formula) {
    const Json formula = FormulaJson(e, options.weights, options.tool_version);
    const Json* terms = formula.Find("formula");
    out.Set("formula", terms != nullptr ? *terms : formula);
  }
  return out;
}

}  // namespace aurum
