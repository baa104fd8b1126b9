#include "real/run_record.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "real/execution.h"
#include "real/op_names.h"
#include "sim/core/hash.h"
#include "sim/core/object_reader.h"

// One file, two readers
// ---------------------
// Perfetto and chrome://tracing read "traceEvents" and want microseconds; we want every double back as
// it was. So a slice carries both: `ts` and `dur` for the eye, and under `args`, where a trace viewer
// shows them beside the slice, the seconds that the record is made of. The reader takes the latter and
// holds the former against them, so that a file that was edited in one place is not believed.
//
// Perfetto's importer stops at the first key of the file that it does not know, and slices of one
// thread must nest (Trace Event Format, "Duration Events"). Hence the keys of the trace come first,
// and a slice is drawn no longer than until the next one of its queue begins: medians over steps may
// overlap by a little where ops did not.
namespace aurum {
namespace {

constexpr int kNotARecord = 901;
constexpr double kMostSeconds = 1e7;
constexpr double kMostBytes = 1e18;
constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();
// Whole numbers that every JSON reader keeps.
constexpr std::uint64_t kExactIntegers = std::uint64_t{1} << 53U;

// Threads count from 1: viewers take thread 0 for the idle one.
std::int64_t ThreadOf(Lane lane, bool receives) {
  return 1 + 2 * static_cast<std::int64_t>(lane) + (receives ? 1 : 0);
}

std::string SliceName(const TimedOp& op) {
  std::string name = op.kind == RankOpKind::kReceive ? "receive: " : "";
  name += OpKindName(op.what);
  if (op.micro_batch >= 0) name += " " + std::to_string(op.micro_batch);
  return name;
}

Json MetadataEvent(const char* what, std::int64_t pid, std::int64_t tid, const char* key,
                   Json value) {
  Json event = Json::Object();
  event.Set("name", what);
  event.Set("ph", "M");
  event.Set("pid", pid);
  event.Set("tid", tid);
  Json& args = event.Set("args", Json::Object());
  args.Set(key, std::move(value));
  return event;
}

Json SliceEvent(const TimedOp& op, double shown_s) {
  Json event = Json::Object();
  event.Set("name", SliceName(op));
  event.Set("cat", RankOpKindName(op.kind));
  event.Set("ph", "X");
  event.Set("pid", op.rank);
  event.Set("tid", ThreadOf(op.lane, op.receives));
  event.Set("ts", op.start_s * 1e6);
  event.Set("dur", shown_s * 1e6);
  Json& args = event.Set("args", Json::Object());
  args.Set("op", static_cast<std::int64_t>(op.op));
  args.Set("kind", RankOpKindName(op.kind));
  args.Set("lane", LaneName(op.lane));
  args.Set("receives", op.receives);
  args.Set("what", OpKindName(op.what));
  args.Set("module", static_cast<int>(op.module));
  args.Set("micro_batch", static_cast<int>(op.micro_batch));
  args.Set("start_s", op.start_s);
  args.Set("duration_s", op.duration_s);
  args.Set("modelled_s", op.modelled_s);
  return event;
}

Json RankJson(const RankFacts& facts) {
  Json rank = Json::Object();
  rank.Set("rank", facts.rank);
  rank.Set("host", facts.host);
  rank.Set("device", facts.device);
  rank.Set("peak_memory_bytes", facts.peak_memory_bytes);
  rank.Set("clock_before_mhz", facts.clock_before_mhz);
  rank.Set("clock_after_mhz", facts.clock_after_mhz);
  rank.Set("throttled_share", facts.throttled_share);
  return rank;
}

Json CheckJson(const RunCheck& check) {
  Json out = Json::Object();
  out.Set("name", check.name);
  out.Set("passed", check.passed);
  out.Set("detail", check.detail);
  return out;
}

// When the next op of the same rank and queue begins, by op; infinity for the last.
std::vector<double> NextStarts(const std::vector<TimedOp>& ops) {
  std::vector<double> next(ops.size(), std::numeric_limits<double>::infinity());
  std::map<std::pair<int, std::int64_t>, std::size_t> before;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::pair<int, std::int64_t> queue{ops[i].rank, ThreadOf(ops[i].lane, ops[i].receives)};
    if (const auto known = before.find(queue); known != before.end())
      next[known->second] = ops[i].start_s;
    before[queue] = i;
  }
  return next;
}

void Line(std::string* out, const char* key, const Json& value) {
  *out += ",\n" + Json(key).Dump() + ": " + value.Dump();
}

std::string Lines(const std::vector<Json>& items) {
  if (items.empty()) return "[]";
  std::string out = "[\n";
  for (std::size_t i = 0; i < items.size(); ++i)
    out += items[i].Dump() + (i + 1 < items.size() ? ",\n" : "\n");
  return out + "]";
}

std::uint64_t ReadSeed(ObjectReader* reader) {
  const Json& value = reader->Value("seed");
  if (value.IsInteger() && value.AsInteger() >= 0)
    return static_cast<std::uint64_t>(value.AsInteger());
  if (value.IsString()) {
    const std::string& text = value.AsString();
    std::uint64_t seed = 0;
    bool good = !text.empty() && text.size() <= 20;
    for (const char c : text) {
      const auto digit = static_cast<std::uint64_t>(c - '0');
      good = good && c >= '0' && c <= '9' &&
             seed <= (std::numeric_limits<std::uint64_t>::max() - digit) / 10;
      if (good) seed = seed * 10 + digit;
    }
    if (good) return seed;
  }
  reader->Fail(kNotARecord, "seed", "a seed is a whole number from 0",
               "one above 2^53 is written as text");
}

std::vector<std::pair<std::string, std::string>> ReadVersions(ObjectReader* reader) {
  std::vector<std::pair<std::string, std::string>> versions;
  const Json& list = reader->Value("versions");
  bool good = list.IsArray();
  for (std::size_t i = 0; good && i < list.items().size(); ++i) {
    const Json& pair = list.items()[i];
    good = pair.IsArray() && pair.items().size() == 2 && pair.items()[0].IsString() &&
           pair.items()[1].IsString();
    if (good) versions.emplace_back(pair.items()[0].AsString(), pair.items()[1].AsString());
  }
  if (!good) {
    reader->Fail(kNotARecord, "versions", "versions are a list of pairs of text",
                 "as [[\"CUDA\", \"13.0\"]]");
  }
  return versions;
}

std::vector<RankFacts> ReadRanks(ObjectReader* reader) {
  std::vector<RankFacts> ranks;
  std::set<int> seen;
  for (ObjectReader& r : reader->Objects("ranks")) {
    RankFacts facts;
    facts.rank = static_cast<int>(r.Integer("rank", 0, kMost32));
    if (!seen.insert(facts.rank).second) {
      r.Fail(kNotARecord, "rank", "rank " + std::to_string(facts.rank) + " stands here twice",
             "one entry a rank");
    }
    facts.host = r.String("host");
    facts.device = r.String("device");
    facts.peak_memory_bytes = r.Number("peak_memory_bytes", 0, kMostBytes);
    facts.clock_before_mhz = r.Number("clock_before_mhz", 0, 1e6);
    facts.clock_after_mhz = r.Number("clock_after_mhz", 0, 1e6);
    facts.throttled_share = r.Number("throttled_share", 0, 1);
    r.Finish();
    ranks.push_back(std::move(facts));
  }
  if (ranks.empty())
    reader->Fail(kNotARecord, "ranks", "a run has at least one rank", "one entry a rank");
  return ranks;
}

std::vector<RunCheck> ReadChecks(ObjectReader* reader) {
  std::vector<RunCheck> checks;
  for (ObjectReader& c : reader->Objects("checks")) {
    RunCheck check;
    check.name = c.String("name");
    check.passed = c.Bool("passed");
    check.detail = c.String("detail");
    c.Finish();
    checks.push_back(std::move(check));
  }
  return checks;
}

// What viewers are shown is what the record says, to the rounding of a product.
bool Agree(double shown_us, double seconds) {
  return std::abs(shown_us - seconds * 1e6) <= 1e-9 * std::abs(shown_us) + 1e-12;
}

TimedOp ReadSlice(ObjectReader* event) {
  TimedOp op;
  event->Ignore("name");  // for viewers alone
  event->Ignore("cat");
  op.rank = static_cast<int>(event->Integer("pid", 0, kMost32));
  const std::int64_t thread = event->Integer("tid", 1, 2 * kLanes);
  const double ts = event->Number("ts", -kMostSeconds * 1e6, kMostSeconds * 1e6);
  const double dur = event->Number("dur", 0, kMostSeconds * 1e6);
  ObjectReader args = event->Object("args");
  op.op = static_cast<OpId>(args.Integer("op", 0, std::int64_t{kNoOp} - 1));
  op.kind = static_cast<RankOpKind>(args.Choice("kind", RankOpKindNames()));
  op.lane = static_cast<Lane>(args.Choice("lane", LaneNames()));
  op.receives = args.Bool("receives");
  op.what = static_cast<OpKind>(args.Choice("what", OpKindNames()));
  op.module = static_cast<std::int16_t>(args.Integer("module", -1, 32767));
  op.micro_batch = static_cast<std::int32_t>(args.Integer("micro_batch", -1, kMost32));
  // A rank may be ahead of rank 0 by what their clocks differ.
  op.start_s = args.Number("start_s", -kMostSeconds, kMostSeconds);
  op.duration_s = args.Number("duration_s", 0, kMostSeconds);
  op.modelled_s = args.Number("modelled_s", 0, kMostSeconds);
  args.Finish();
  event->Finish();
  if (!Agree(ts, op.start_s)) {
    event->Fail(kNotARecord, "ts", "ts is not args.start_s in microseconds",
                "change args.start_s, and ts with it");
  }
  if (dur > op.duration_s * 1e6 * (1 + 1e-9) + 1e-12) {
    event->Fail(kNotARecord, "dur", "dur is longer than args.duration_s",
                "change args.duration_s, and dur with it");
  }
  if (thread != ThreadOf(op.lane, op.receives)) {
    event->Fail(kNotARecord, "tid", "tid is not the one of the lane that args names",
                "a thread for each lane: 1 + 2 · its number, and 1 more for receives");
  }
  return op;
}

std::vector<TimedOp> ReadTimedOps(ObjectReader* reader, const std::vector<RankFacts>& ranks) {
  std::set<int> known;
  for (const RankFacts& facts : ranks) known.insert(facts.rank);
  std::vector<TimedOp> ops;
  for (ObjectReader& event : reader->Objects("traceEvents")) {
    static const std::vector<std::string> kPhases = {"M", "X"};
    if (event.Choice("ph", kPhases) == 0) {  // names of processes and threads
      for (const char* key : {"name", "pid", "tid", "args"}) event.Value(key);
      event.Finish();
      continue;
    }
    ops.push_back(ReadSlice(&event));
    if (!known.contains(ops.back().rank)) {
      event.Fail(kNotARecord, "pid",
                 "there is no rank " + std::to_string(ops.back().rank) + " under \"ranks\"",
                 "an entry for it under \"ranks\"");
    }
    if (ops.size() > 1 && ops[ops.size() - 2].rank > ops.back().rank) {
      event.Fail(kNotARecord, "pid", "ops stand by rank, in the order of their launch",
                 "the lines in the order in which they were written");
    }
  }
  return ops;
}

RunRecord Read(const JsonDocument& document) {
  ObjectReader reader(document, document.root, "");
  if (reader.String("schema") != "aurum.run/1") {
    reader.Fail(kNotARecord, "schema", "this is not a run record of a version that is known",
                "\"schema\": \"aurum.run/1\", as aurum execute writes it");
  }
  static const std::vector<std::string> kUnits = {"ms"};
  reader.Choice("displayTimeUnit", kUnits);
  RunRecord record;
  record.tool_version = reader.String("tool_version");
  record.command_line = reader.String("command_line");
  record.date = reader.String("date");
  static const std::vector<std::string> kBackends = {"virtual", "cpu", "cuda"};
  record.backend = kBackends[reader.Choice("backend", kBackends)];
  reader.String("run_id", "");
  record.scenario_name = reader.String("scenario_name");
  record.scenario = reader.Value("scenario");
  if (!record.scenario.IsObject()) {
    reader.Fail(kNotARecord, "scenario",
                "the scenario that was run must be an object, not " +
                    std::string(record.scenario.TypeName()),
                "the document that was executed");
  }
  record.shape = reader.String("shape");
  record.seed = ReadSeed(&reader);
  record.lone_rank = static_cast<int>(reader.Integer("lone_rank", -1, kMost32));
  record.clock = reader.String("clock");
  record.versions = ReadVersions(&reader);
  record.ranks = ReadRanks(&reader);
  record.warm_up = static_cast<int>(reader.Integer("warm_up", 0, kMost32));
  for (const char* key : {"steps_s", "clean_steps_s", "wall_steps_s"}) reader.Value(key);
  record.steps_s = reader.Numbers("steps_s", 0, kMostSeconds);
  record.clean_steps_s = reader.Numbers("clean_steps_s", 0, kMostSeconds);
  record.wall_steps_s = reader.Numbers("wall_steps_s", 0, kMostSeconds);
  record.step_time_s = reader.Number("step_time_s", 1e-12, kMostSeconds);
  record.variation = reader.Number("variation", 0, 1e6);
  record.checks = ReadChecks(&reader);
  record.warnings = reader.Strings("warnings");
  if (record.steps_s.empty()) {
    reader.Fail(kNotARecord, "steps_s", "a run without a whole step has no step time",
                "run at least one step that is not timed op by op");
  }
  if (record.clean_steps_s.size() > record.steps_s.size()) {
    reader.Fail(kNotARecord, "clean_steps_s", "there are more clean steps than steps",
                "clean_steps_s holds some of steps_s");
  }
  std::vector<double> all = record.steps_s, clean = record.clean_steps_s;
  std::sort(all.begin(), all.end());
  std::sort(clean.begin(), clean.end());
  if (!std::includes(all.begin(), all.end(), clean.begin(), clean.end())) {
    reader.Fail(kNotARecord, "clean_steps_s", "a clean step is none of steps_s",
                "clean_steps_s holds some of steps_s");
  }
  const double typical = MedianOf(clean.empty() ? all : clean);
  if (std::abs(record.step_time_s - typical) > 1e-9 * typical) {
    reader.Fail(kNotARecord, "step_time_s", "it is not the median of the clean steps",
                "the median of clean_steps_s, or of steps_s where no step is clean");
  }
  if (record.lone_rank >= 0 &&
      (record.ranks.size() != 1 || record.ranks.front().rank != record.lone_rank)) {
    reader.Fail(kNotARecord, "lone_rank",
                "rank " + std::to_string(record.lone_rank) +
                    " was run alone, but \"ranks\" does not hold it alone",
                "its entry under \"ranks\", and no other");
  }
  record.ops = ReadTimedOps(&reader, record.ranks);
  reader.Finish();
  return record;
}

}  // namespace

std::string RunRecordText(const RunRecord& record) {
  std::vector<Json> events;
  for (const RankFacts& facts : record.ranks) {
    std::string name = "rank " + std::to_string(facts.rank);
    if (!facts.device.empty()) name += ", " + facts.device;
    events.push_back(MetadataEvent("process_name", facts.rank, 0, "name", name));
    events.push_back(MetadataEvent("process_sort_index", facts.rank, 0, "sort_index", facts.rank));
  }
  std::set<std::tuple<int, std::int64_t, std::string>> queues;
  for (const TimedOp& op : record.ops) {
    queues.insert({op.rank, ThreadOf(op.lane, op.receives),
                   LaneName(op.lane) + (op.receives ? ", receives" : "")});
  }
  for (const auto& [rank, thread, name] : queues) {
    events.push_back(MetadataEvent("thread_name", rank, thread, "name", name));
    events.push_back(MetadataEvent("thread_sort_index", rank, thread, "sort_index", thread));
  }
  const std::vector<double> next = NextStarts(record.ops);
  for (std::size_t i = 0; i < record.ops.size(); ++i) {
    const TimedOp& op = record.ops[i];
    assert(std::isfinite(op.start_s) && std::isfinite(op.duration_s) &&
           std::isfinite(op.modelled_s));
    events.push_back(
        SliceEvent(op, std::clamp(next[i] - op.start_s, 0.0, std::max(op.duration_s, 0.0))));
  }

  // The trace's own keys first: see above.
  std::string out = "{\"displayTimeUnit\": \"ms\",\n\"traceEvents\": " + Lines(events);
  const auto list = [](const auto& items, auto make) {
    std::vector<Json> made;
    for (const auto& item : items) made.push_back(make(item));
    return made;
  };
  Line(&out, "schema", "aurum.run/1");
  Line(&out, "tool_version", record.tool_version);
  Line(&out, "command_line", record.command_line);
  Line(&out, "date", record.date);
  Line(&out, "backend", record.backend);
  Line(&out, "run_id",
       HashText(record.tool_version + "\n" + record.command_line + "\n" + record.date + "\n" +
                record.shape + "\n" + Json::Numbers(record.steps_s).Dump())
           .Hex());
  Line(&out, "scenario_name", record.scenario_name);
  Line(&out, "shape", record.shape);
  Line(&out, "seed",
       record.seed <= kExactIntegers ? Json(static_cast<std::int64_t>(record.seed))
                                     : Json(std::to_string(record.seed)));
  Line(&out, "lone_rank", record.lone_rank);
  Line(&out, "clock", record.clock);
  Line(&out, "versions",
       Json::Array(list(record.versions, [](const std::pair<std::string, std::string>& version) {
         return Json::Array({version.first, version.second});
       })));
  out += ",\n\"ranks\": " + Lines(list(record.ranks, RankJson));
  Line(&out, "warm_up", record.warm_up);
  Line(&out, "steps_s", Json::Numbers(record.steps_s));
  Line(&out, "clean_steps_s", Json::Numbers(record.clean_steps_s));
  Line(&out, "wall_steps_s", Json::Numbers(record.wall_steps_s));
  Line(&out, "step_time_s", record.step_time_s);
  Line(&out, "variation", record.variation);
  out += ",\n\"checks\": " + Lines(list(record.checks, CheckJson));
  Line(&out, "warnings",
       Json::Array(list(record.warnings, [](const std::string& text) { return Json(text); })));
  Line(&out, "scenario", record.scenario);
  return out + "}\n";
}

RunRecord ReadRunRecord(const JsonDocument& document) {
  try {
    return Read(document);
  } catch (const InputError& error) {
    // Whatever is wrong with it, to the caller it is one thing: no run record. The place, the message
    // and the remedy say what.
    Diagnostic d = error.diagnostic();
    d.code = 901;
    throw InputError(std::move(d), error.exit_code());
  }
}

}  // namespace aurum
