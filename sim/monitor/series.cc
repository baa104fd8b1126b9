#include "sim/monitor/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "sim/core/object_reader.h"
#include "sim/core/random.h"
#include "sim/monitor/correlation.h"
#include "sim/plan/scenario_file.h"
#include "sim/study/evaluate.h"
#include "sim/study/variation.h"

namespace aurum {
namespace {

enum class Use : std::uint64_t { kVaried = 11, kShared, kSpike, kMar };

constexpr int kRatios = 11;
constexpr int kVariedDraws = 64;
// Of a step: what costs less is no fault whose cost could be regained, only a small number to divide by.
constexpr double kLeastCost = 0.005;
constexpr std::string_view kWatcherNames[] = {"article, text", "article, code", "aurum"};

std::vector<std::string> Assignments(ObjectReader* reader) {
  std::vector<std::string> out;
  if (auto set = reader->ObjectIf("set")) {
    for (const std::string& path : set->Keys()) out.push_back(path + "=" + set->Value(path).Dump());
  }
  return out;
}

SeriesCase ReadCase(ObjectReader reader) {
  SeriesCase out;
  out.name = reader.String("name");
  out.set = Assignments(&reader);
  if (reader.Has("mar")) {
    const Json& curve = reader.Value("mar");
    double before = -1;
    const auto fail = [&] {
      reader.Fail(785, "mar", "a curve is a list of [steps since the fault, MAR], steps ascending",
                  "[[0, 0.95], [40, 0.6]]");
    };
    if (!curve.IsArray() || curve.items().empty()) fail();
    for (const Json& point : curve.items()) {
      if (!point.IsArray() || point.items().size() != 2 || !point.items()[0].IsNumber() ||
          !point.items()[1].IsNumber())
        fail();
      const double at = point.items()[0].AsNumber(), mar = point.items()[1].AsNumber();
      if (!(at > before) || !(mar >= 0 && mar <= 1)) fail();
      before = at;
      out.mar.emplace_back(at, mar);
    }
  }
  if (out.set.empty() && out.mar.empty())
    reader.Fail(785, "", "this case changes nothing", "\"set\" or \"mar\"");
  reader.Finish();
  return out;
}

SeriesAction ReadAction(ObjectReader reader) {
  static const std::vector<std::string> kActions = {"lower_sampling", "freeze_cross_attention",
                                                    "single_modality"};
  SeriesAction out;
  out.action = static_cast<MonitorAction>(reader.Choice("action", kActions) + 1);
  out.set = Assignments(&reader);
  reader.Finish();
  return out;
}

// What a plain scenario can suffer.
std::vector<SeriesCase> DefaultCases(const Scenario& scenario) {
  std::vector<SeriesCase> cases;
  cases.push_back({"slow GPU", {R"(faults=[{"gpus": [0], "slowdown": 1.4}])"}, {}});
  for (const Link& link : scenario.cluster->links()) {
    const Vertex& vertex = scenario.cluster->vertices()[static_cast<std::size_t>(link.from)];
    if (link.kind != LinkKind::kNetwork || vertex.kind != VertexKind::kNic) continue;
    cases.push_back({"sick NIC",
                     {"faults=[{\"nics\": [\"" + VertexName(vertex) + "\"], \"factor\": 0.2}]"},
                     {}});
    break;
  }
  if (scenario.sample.cross_modal_tokens > 0 && scenario.cluster->GpuCount() > 1)
    cases.push_back({"alignment falls", {}, {{0, 1}, {40, 0.5}}});
  if (scenario.workload.loader) {
    const double rate = std::max(scenario.workload.loader->read_bytes_per_s / 1e9 / 10, 1e-6);
    cases.push_back({"slow storage", {"workload.loader.read_gb_per_s=" + Json(rate).Dump()}, {}});
  }
  if (scenario.workload.text_tokens > 0) {
    cases.push_back({"longer text",
                     {"workload.text_tokens=" + std::to_string(2 * scenario.workload.text_tokens)},
                     {}});
  }
  return cases;
}

std::vector<SeriesAction> DefaultActions(const Scenario& scenario) {
  std::vector<SeriesAction> actions;
  const Model& model = *scenario.model;
  if (!scenario.workload.images.empty() && scenario.workload.images[0].count > 1) {
    actions.push_back(
        {MonitorAction::kLowerSampling,
         {"workload.images.0.count=" + std::to_string(scenario.workload.images[0].count / 2)}});
  }
  std::string frozen;
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    if (model.modules[m].kind == ModuleKind::kConnector || scenario.plan.modules[m].frozen)
      frozen += (frozen.empty() ? "\"" : ", \"") + model.modules[m].name + "\"";
  }
  if (!frozen.empty())
    actions.push_back({MonitorAction::kFreezeCrossAttention, {"plan.frozen=[" + frozen + "]"}});
  if (!scenario.workload.images.empty() && scenario.workload.text_tokens > 0)
    actions.push_back({MonitorAction::kSingleModality, {"workload.images=[]"}});
  return actions;
}

}  // namespace

std::string_view WatcherName(WatchedBy watcher) { return kWatcherNames[static_cast<int>(watcher)]; }

Series ReadSeries(const JsonDocument& document, const std::string& data_root, InputCache* cache) {
  Series series;
  const Json* schema = document.root.Find("schema");
  if (schema != nullptr && schema->IsString() && schema->AsString() == "aurum.scenario/1") {
    series.scenario = document;
    const Scenario scenario = ReadScenario(document, cache);
    series.name = scenario.name;
    series.cases = DefaultCases(scenario);
    series.actions = DefaultActions(scenario);
    return series;
  }
  ObjectReader reader(document, document.root, "");
  reader.Choice("schema", {"aurum.series/1"});
  reader.String("$schema", "");
  series.name = reader.String("name", "");
  series.question = reader.String("question", "");
  series.scenario_file = reader.String("scenario");
  const std::string below = data_root + "/" + series.scenario_file;
  std::error_code error;
  series.scenario =
      OpenScenarioFile(std::filesystem::exists(below, error) ? below : series.scenario_file);
  series.steps = static_cast<int>(reader.IntegerOr("steps", series.steps, 20, 100000));
  series.fault_step =
      static_cast<int>(reader.IntegerOr("fault_step", series.fault_step, 1, 100000));
  series.seeds = static_cast<int>(reader.IntegerOr("seeds", series.seeds, 1, 10000));
  series.mar = reader.NumberOr("mar", 1, 1e-3, 1);
  if (auto noise = reader.ObjectIf("noise")) {
    SeriesNoise& n = series.noise;
    n.kernel_cv = noise->NumberOr("kernel_cv", n.kernel_cv, 0, 1);
    n.communication_cv = noise->NumberOr("communication_cv", n.communication_cv, 0, 1);
    n.step_cv = noise->NumberOr("step_cv", n.step_cv, 0, 1);
    n.spike_share = noise->NumberOr("spike_share", n.spike_share, 0, 1);
    n.spike_factor = noise->NumberOr("spike_factor", n.spike_factor, 1, 100);
    n.mar_cv = noise->NumberOr("mar_cv", n.mar_cv, 0, 1);
    noise->Finish();
  }
  for (ObjectReader& entry : reader.Objects("cases")) series.cases.push_back(ReadCase(entry));
  for (ObjectReader& entry : reader.Objects("actions")) series.actions.push_back(ReadAction(entry));
  if (series.cases.empty())
    reader.Fail(785, "cases", "a series without a case tests no alarm", "at least one case");
  const int first = series.rules.warm_up + series.rules.baseline_steps;
  if (series.fault_step <= first || series.fault_step >= series.steps) {
    reader.Fail(785, "fault_step",
                "the fault must begin after the baseline (step " + std::to_string(first) +
                    ") and before the end (step " + std::to_string(series.steps) + ")",
                "half of the steps, for example");
  }
  reader.Finish();
  return series;
}

// One scenario with its changes: step times over MAR, and draws of what varies.
struct SeriesSimulator::Variant {
  std::array<double, kRatios> seconds{};
  bool misalignable = false;
  double samples = 0;
  std::map<std::string, double> tokens;  // of a step, by modality
  std::vector<double> varied;            // over their mean
};

SeriesSimulator::SeriesSimulator(const Series& series, InputCache* cache)
    : series_(series), cache_(cache) {}
SeriesSimulator::~SeriesSimulator() = default;

SeriesSimulator::Variant& SeriesSimulator::Get(int which, int action) {
  std::unique_ptr<Variant>& known = variants_[{which, action}];
  if (known != nullptr) return *known;
  JsonDocument document = series_.scenario;
  const auto apply = [&](const std::vector<std::string>& set) {
    for (const std::string& assignment : set) ApplyOverride(&document, assignment);
  };
  if (which >= 0) apply(series_.cases[static_cast<std::size_t>(which)].set);
  if (action >= 0) apply(series_.actions[static_cast<std::size_t>(action)].set);
  auto made = std::make_unique<Variant>();
  Scenario scenario = ReadScenario(document, cache_);
  made->samples = static_cast<double>(scenario.workload.global_batch_size);
  made->misalignable = scenario.sample.cross_modal_tokens > 0 && scenario.cluster->GpuCount() > 1;
  if (made->misalignable)
    made->tokens["media"] = made->samples * scenario.sample.cross_modal_tokens;
  made->tokens["text"] =
      made->samples * (scenario.sample.backbone_tokens - scenario.sample.cross_modal_tokens);
  // A step is Evaluate's, not the program's alone: it waits for a loader that does not keep up, is the
  // typical one of the drawn samples, and is refused where Evaluate refuses it. What Evaluate tells
  // beside the step is not asked for.
  scenario.variation.seeds = 0;
  scenario.goodput.reset();
  for (int i = 0; i < kRatios; ++i) {
    if (i > 0 && !made->misalignable) {
      made->seconds[static_cast<std::size_t>(i)] = made->seconds[0];
      continue;
    }
    if (made->misalignable) scenario.what_if.align_ratio = static_cast<double>(i) / (kRatios - 1);
    made->seconds[static_cast<std::size_t>(i)] = Evaluate(scenario, Level::kAnalytic).StepSeconds();
  }
  const SeriesNoise& noise = series_.noise;
  if (noise.kernel_cv > 0 || noise.communication_cv > 0) {
    if (made->misalignable) scenario.what_if.align_ratio = series_.mar;
    // As it was evaluated: with its wait for data and its typical samples.
    Scenario evaluated = Evaluate(scenario, Level::kAnalytic).scenario;
    evaluated.variation = {noise.kernel_cv, noise.communication_cv, kVariedDraws};
    const VariedSteps steps = DrawSteps(evaluated, Level::kAnalytic);
    for (const double seconds : steps.step_s) made->varied.push_back(seconds / steps.mean_s);
  }
  known = std::move(made);
  return *known;
}

double SeriesSimulator::StepSeconds(int which, int action, double mar) {
  const Variant& variant = Get(which, action);
  const double at = std::clamp(mar, 0.0, 1.0) * (kRatios - 1);
  const auto low = std::min(static_cast<std::size_t>(at), std::size_t{kRatios - 2});
  const double part = at - static_cast<double>(low);
  return variant.seconds[low] * (1 - part) + variant.seconds[low + 1] * part;
}

double SeriesSimulator::SamplesPerSecond(int which, int action, double mar) {
  return Get(which, action).samples / StepSeconds(which, action, mar);
}

double SeriesSimulator::MarAt(int which, int step) const {
  if (which < 0 || step < series_.fault_step) return series_.mar;
  const auto& curve = series_.cases[static_cast<std::size_t>(which)].mar;
  if (curve.empty()) return series_.mar;
  const double at = step - series_.fault_step;
  if (at <= curve.front().first) return curve.front().second;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const auto& [from, a] = curve[i - 1];
    const auto& [to, b] = curve[i];
    if (at <= to) return a + (b - a) * (at - from) / (to - from);
  }
  return curve.back().second;
}

StepRecord SeriesSimulator::Step(int which, std::uint64_t seed, int step, int action,
                                 int action_from) {
  const int now = step < series_.fault_step ? -1 : which;
  const int acting = action_from >= 0 && step >= action_from ? action : -1;
  const double mar = MarAt(which, step);
  const auto counter = static_cast<std::uint64_t>(step);
  const auto stream = [](Use use) { return static_cast<std::uint64_t>(use); };
  const SeriesNoise& noise = series_.noise;
  double seconds = StepSeconds(now, acting, mar);
  const Variant& variant = Get(now, acting);
  if (!variant.varied.empty()) {
    const double u = RandomUniform(seed, stream(Use::kVaried), counter);
    seconds *= variant.varied[static_cast<std::size_t>(u * kVariedDraws)];
  }
  const double variance = std::log1p(noise.step_cv * noise.step_cv);
  seconds *= std::exp(std::sqrt(variance) * RandomNormal(seed, stream(Use::kShared), counter) -
                      variance / 2);
  if (RandomUniform(seed, stream(Use::kSpike), counter) < noise.spike_share)
    seconds *= noise.spike_factor;
  StepRecord record;
  record.step = step;
  record.step_time_s = seconds;
  if (variant.misalignable) {
    const double z = RandomNormal(seed, stream(Use::kMar), counter);
    record.mar = std::clamp(mar * (1 + noise.mar_cv * z), 0.0, 1.0);
  }
  record.modality_tokens = variant.tokens;
  return record;
}

namespace {

struct Told {
  std::vector<bool> alarm;  // by step
};

Told WatchedByOurs(const Series& series, const std::vector<StepRecord>& records) {
  Monitor monitor(series.rules);
  Told told;
  for (const StepRecord& record : records) {
    monitor.Add(record);
    told.alarm.push_back(monitor.level() > 0);
  }
  return told;
}

// Both of the article's rules on MAR and ASR = T₀ / T, T₀ the mean of the baseline's steps.
Told WatchedByArticle(const Series& series, const std::vector<StepRecord>& records, bool code) {
  const int first = series.rules.warm_up + series.rules.baseline_steps;
  double baseline = 0;
  for (int i = series.rules.warm_up; i < first; ++i)
    baseline += *records[static_cast<std::size_t>(i)].step_time_s / series.rules.baseline_steps;
  std::vector<double> mar, asr;
  Told told;
  for (int i = 0; i < static_cast<int>(records.size()); ++i) {
    const StepRecord& record = records[static_cast<std::size_t>(i)];
    bool alarm = false;
    if (record.mar) {
      mar.push_back(*record.mar);
      asr.push_back(baseline / *record.step_time_s);
      alarm = i >= first && (code ? ArticleDriftRule(mar, asr)
                                  : std::abs(mar.back() - asr.back()) >= series.rules.level1);
    }
    told.alarm.push_back(alarm);
  }
  return told;
}

void Count(const Series& series, const Told& told, RuleScore* score, int* detected) {
  const int first = series.rules.warm_up + series.rules.baseline_steps;
  int healthy = 0, faulty = 0, at = -1;
  for (int i = first; i < series.steps; ++i) {
    if (!told.alarm[static_cast<std::size_t>(i)]) continue;
    (i < series.fault_step ? healthy : faulty) += 1;
    if (i >= series.fault_step && at < 0) at = i;
  }
  const double runs = series.seeds;
  score->false_run_share += (healthy > 0 ? 1 : 0) / runs;
  score->false_step_share += healthy / runs / (series.fault_step - first);
  score->fault_step_share += faulty / runs / (series.steps - series.fault_step);
  if (at < 0) return;
  ++*detected;
  score->detected_share += 1 / runs;
  score->mean_delay_steps += at - series.fault_step;
  score->worst_delay_steps = std::max(score->worst_delay_steps, at - series.fault_step);
}

}  // namespace

std::vector<CaseScore> ScoreSeries(const Series& series, InputCache* cache) {
  SeriesSimulator simulator(series, cache);
  std::vector<CaseScore> out;
  for (int which = -1; which < static_cast<int>(series.cases.size()); ++which) {
    CaseScore score;
    score.name = which < 0 ? "healthy" : series.cases[static_cast<std::size_t>(which)].name;
    const double last_mar = simulator.MarAt(which, series.steps - 1);
    score.healthy_s = simulator.StepSeconds(-1, -1, series.mar);
    score.faulty_s = simulator.StepSeconds(which, -1, last_mar);
    score.by_watcher.resize(kWatchers);
    std::array<int, kWatchers> detected{};
    for (int seed = 0; seed < series.seeds; ++seed) {
      std::vector<StepRecord> records;
      for (int step = 0; step < series.steps; ++step)
        records.push_back(simulator.Step(which, static_cast<std::uint64_t>(seed), step));
      const std::array<Told, kWatchers> told = {WatchedByArticle(series, records, false),
                                                WatchedByArticle(series, records, true),
                                                WatchedByOurs(series, records)};
      for (std::size_t w = 0; w < kWatchers; ++w)
        Count(series, told[w], &score.by_watcher[w], &detected[w]);
      if (seed > 0 || which < 0) continue;
      const auto& alarm = told[static_cast<std::size_t>(WatchedBy::kOurs)].alarm;
      for (int i = series.fault_step; i < series.steps && !score.told_at; ++i) {
        if (alarm[static_cast<std::size_t>(i)]) score.told_at = i;
      }
    }
    for (std::size_t w = 0; w < kWatchers; ++w) {
      if (detected[w] > 0) score.by_watcher[w].mean_delay_steps /= detected[w];
    }
    for (int a = 0; which >= 0 && a < static_cast<int>(series.actions.size()); ++a) {
      ActionEffect effect;
      effect.action = series.actions[static_cast<std::size_t>(a)].action;
      try {
        effect.step_s = simulator.StepSeconds(which, a, last_mar);
        effect.samples_per_s = simulator.SamplesPerSecond(which, a, last_mar);
        const double cost = score.faulty_s - score.healthy_s;
        if (cost >= kLeastCost * score.healthy_s)
          effect.regained_share = (score.faulty_s - effect.step_s) / cost;
        if (score.told_at && *score.told_at + 1 < series.steps) {
          const int from = *score.told_at + 1;
          for (int step = from; step < series.steps; ++step)
            effect.mean_step_s +=
                *simulator.Step(which, 0, step, a, from).step_time_s / (series.steps - from);
        }
      } catch (const InputError& error) {
        effect.refused = error.diagnostic().CodeName() + ": " + error.diagnostic().message;
      }
      score.actions.push_back(std::move(effect));
    }
    out.push_back(std::move(score));
  }
  return out;
}

}  // namespace aurum
