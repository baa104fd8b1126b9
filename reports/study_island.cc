#include <fmt/format.h>

#include <algorithm>

#include "reports/island.h"
#include "reports/sweep_island.h"
#include "sim/core/hash.h"
#include "sim/core/units.h"
#include "sim/memory/memory.h"

namespace aurum {
namespace {

std::vector<StudyPoint> ReadPoints(StoreReader* reader) {
  std::vector<StudyPoint> points;
  StoredPoint stored;
  const StudyInfo& info = reader->info();
  while (reader->Next(&stored)) {
    StudyPoint p;
    p.ordinal = stored.ordinal;
    p.ok = stored.status == PointStatus::kOk;
    for (std::size_t i = 0; i < info.figures.size(); ++i) {
      const Json& value = stored.figures[i];
      if (value.IsNumber()) p.numbers[info.figures[i].name] = value.AsNumber();
      if (value.IsString() && info.figures[i].name == "limit") p.limit = value.AsString();
      if (value.IsString() && info.figures[i].name == "provenance") p.provenance = value.AsString();
    }
    points.push_back(std::move(p));
  }
  return points;
}

std::string PointName(const StudyInfo& info, std::size_t ordinal) {
  const std::vector<Json> values = info.design.Values(ordinal);
  std::string name;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& path = info.design.axes()[i].path;
    const std::size_t dot = path.find_last_of("./");
    name += (i > 0 ? ", " : "") + path.substr(dot == std::string::npos ? 0 : dot + 1) + " " +
            (values[i].IsString() ? values[i].AsString() : values[i].Dump());
  }
  return name;
}

// The points of a sweep over anything else: plans compared, the fastest that fits first.
Json PlansJson(const StudyInfo& info, const std::vector<StudyPoint>& points, std::string* answer) {
  constexpr std::size_t kShown = 40;
  std::vector<const StudyPoint*> good;
  for (const StudyPoint& p : points) {
    if (p.ok) good.push_back(&p);
  }
  const auto number = [](const StudyPoint& p, const char* name) { return p.numbers.at(name); };
  const auto usable_gib = [&](const StudyPoint& p) {
    return UsableBytes(number(p, "device_gib") * kGiB) / kGiB;
  };
  const auto verdict = [&](const StudyPoint& p) {
    const double share = number(p, "peak_gib") / usable_gib(p);
    return share > kFailsAbove ? Fit::kDoesNotFit : share >= kFitsBelow ? Fit::kAtRisk : Fit::kFits;
  };
  std::stable_sort(good.begin(), good.end(), [&](const StudyPoint* a, const StudyPoint* b) {
    if (verdict(*a) != verdict(*b)) return verdict(*a) < verdict(*b);
    return number(*a, "tokens_per_s_per_gpu") > number(*b, "tokens_per_s_per_gpu");
  });
  Json rows = Json::Array();
  Json rejected = Json::Array();
  for (const StudyPoint* p : good) {
    if (verdict(*p) == Fit::kDoesNotFit) {
      Json row = Json::Object();
      row.Set("name", PointName(info, p->ordinal));
      row.Set("peak_gib", number(*p, "peak_gib"));
      row.Set("code", "E0401");
      row.Set("reason",
              fmt::format("needs {:.1f} of {:.1f} GiB", number(*p, "peak_gib"), usable_gib(*p)));
      rejected.Append(std::move(row));
      continue;
    }
    if (rows.items().size() >= kShown) continue;
    Json row = Json::Object();
    row.Set("id", std::to_string(p->ordinal));
    row.Set("name", PointName(info, p->ordinal));
    row.Set("plan", Json::Object());
    row.Set("step_time_s", number(*p, "step_time_s"));
    row.Set("step_time_low_s", number(*p, "step_time_s") * (1 - number(*p, "error_band")));
    row.Set("step_time_high_s", number(*p, "step_time_s") * (1 + number(*p, "error_band")));
    row.Set("tokens_per_s_per_gpu", number(*p, "tokens_per_s_per_gpu"));
    row.Set("mfu", number(*p, "mfu"));
    Json time = Json::Object();
    for (const char* part : {"compute_s", "exposed_comm_s", "bubble_s", "alignment_wait_s",
                             "data_wait_s", "optimizer_s"})
      time.Set(part, number(*p, part));
    if (const auto wait = p->numbers.find("straggler_wait_s");
        wait != p->numbers.end() && wait->second > 0)
      time.Set("straggler_wait_s", wait->second);
    row.Set("time", std::move(time));
    row.Set("peak_gib", number(*p, "peak_gib"));
    row.Set("cause", "limited by " + p->limit +
                         (verdict(*p) == Fit::kAtRisk ? "; at risk of not fitting" : ""));
    row.Set("provenance", p->provenance);
    rows.Append(std::move(row));
  }
  Json plans = Json::Object();
  if (!rows.items().empty()) {
    const Json& best = rows.items().front();
    plans.Set("chosen", best.Find("id")->AsString());
    const bool risky = verdict(*good.front()) == Fit::kAtRisk;
    *answer = fmt::format(
        "The fastest point that {} is {}: {:.3g} s a step, {:.0f} tokens/s per GPU.",
        risky ? "may fit (none is sure to)" : "fits", best.Find("name")->AsString(),
        best.Find("step_time_s")->AsNumber(), best.Find("tokens_per_s_per_gpu")->AsNumber());
  } else {
    plans.Set("chosen", "");
    *answer = "No point of this study fits the devices' memory.";
  }
  plans.Set("considered", static_cast<std::int64_t>(points.size()));
  plans.Set("rows", std::move(rows));
  plans.Set("rejected", std::move(rejected));
  return plans;
}

// The whole report of the chosen point, or of the first that succeeded where none fits.
Json BestIsland(const StudyInfo& info, const Json& plans, const std::vector<StudyPoint>& points,
                InputCache* cache, const ReportOrigin& origin) {
  const std::string& chosen = plans.Find("chosen")->AsString();
  std::size_t ordinal = 0;
  if (chosen.empty()) {
    while (!points[ordinal].ok) ++ordinal;
    ordinal = points[ordinal].ordinal;
  } else {
    ordinal = std::stoul(chosen);
  }
  JsonDocument document{info.scenario, {{"stored scenario", ""}}};
  const std::vector<Json> values = info.design.Values(ordinal);
  for (std::size_t i = 0; i < values.size(); ++i)
    SetPath(&document, info.design.axes()[i].path, values[i], "axis");
  const Evaluation e = Evaluate(ReadScenario(document, cache), Level::kAnalytic);
  return EvaluationIsland(e, document, cache, origin);
}

}  // namespace

Json StudyIsland(const std::string& path, InputCache* cache, const ReportOrigin& origin) {
  StoreReader reader(path);
  const StudyInfo& info = reader.info();
  const std::vector<StudyPoint> points = ReadPoints(&reader);
  std::size_t ok = 0;
  for (const StudyPoint& p : points) ok += p.ok ? 1 : 0;
  if (ok == 0) {
    ThrowInput(750, "'" + path + "' holds no point that succeeded",
               points.empty() ? "the sweep stored nothing yet: run it first"
                              : "aurum sweep says why its points failed");
  }
  const auto text = [&](const char* key) {
    const Json* value = info.scenario.Find(key);
    return value != nullptr && value->IsString() ? value->AsString() : std::string();
  };
  const bool golden = IsGoldenSweep(info);
  Json findings = Json::Object();
  std::string answer;
  Json body;
  if (golden) {
    SweepSection section = MakeSweepSection(info, points, cache);
    findings.Set("sweep", section.finding);
    findings.Set("terms", section.terms);
    answer = section.answer;
    body = std::move(section.sweep);
  } else {
    body = PlansJson(info, points, &answer);
    findings.Set("plans", answer);
  }
  // Plans compared stand on the page of the best one; a golden sweep stands alone.
  Json island = golden ? Json::Object() : BestIsland(info, body, points, cache, origin);
  island.Set("schema", "aurum.report/1");
  island.Set("tool_version", origin.tool_version);
  island.Set("run_id",
             HashText(info.scenario.Dump() + info.fingerprint + info.design.AxesJson().Dump() +
                      (info.design.IsGrid() ? "" : info.design.SpecJson().Dump()))
                 .Hex());
  island.Set("generated_at", origin.generated_at);
  island.Set("title", text("name").empty() ? "sweep" : text("name"));
  island.Set("question", text("question").empty()
                             ? "How does the step change over the axes of this study?"
                             : text("question"));
  island.Set("answer", answer);
  std::string hardware = text("cluster");
  for (const Axis& axis : info.design.axes()) {
    if (AxisPointer(axis.path) != "/cluster") continue;
    hardware.clear();
    for (const Json& value : axis.values)
      hardware +=
          (hardware.empty() ? "" : ", ") + (value.IsString() ? value.AsString() : value.Dump());
  }
  island.Set("hardware", hardware);
  island.Set("command", origin.command);
  Json facts = Json::Array();
  const auto fact = [&](const std::string& name, const std::string& value) {
    facts.Append(Json::Array({Json(name), Json(value)}));
  };
  fact("Points", fmt::format("{} of {}, {} of them simulated", points.size(), info.points, ok));
  if (!info.design.IsGrid()) fact("Design", info.design.Describe());
  for (const Axis& axis : info.design.axes()) {
    const auto show = [](const Json& value) {
      return value.IsString() ? value.AsString() : value.Dump();
    };
    if (axis.range) {
      fact(axis.path, fmt::format("{} {:g} … {:g}", axis.range->integer ? "whole numbers" : "from",
                                  axis.range->from, axis.range->to));
      continue;
    }
    fact(axis.path, fmt::format("{} values, {} … {}", axis.values.size(), show(axis.values.front()),
                                show(axis.values.back())));
  }
  fact("Computed by", "aurum " + info.tool_version);
  island.Set("facts", std::move(facts));
  if (const Json* before = island.Find("findings"); before != nullptr) {
    for (const auto& [section, sentence] : before->members()) findings.Set(section, sentence);
  }
  island.Set("findings", std::move(findings));
  island.Set(golden ? "sweep" : "plans", std::move(body));
  Json warnings = island.Find("warnings") == nullptr ? Json::Array() : *island.Find("warnings");
  if (ok < points.size() || points.size() < info.points) {
    Json entry = Json::Object();
    entry.Set("code", "W1750");
    entry.Set("text",
              fmt::format("{} of {} points have no result: failed, infeasible or not computed yet",
                          info.points - ok, info.points));
    entry.Set("where", path);
    warnings.Append(std::move(entry));
  }
  island.Set("warnings", std::move(warnings));
  if (island.Find("assumptions") == nullptr) island.Set("assumptions", Json::Array());
  return island;
}

}  // namespace aurum
