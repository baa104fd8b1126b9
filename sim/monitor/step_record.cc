#include "sim/monitor/step_record.h"

#include <cctype>
#include <cmath>

#include "sim/core/json.h"
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

constexpr double kMostSeconds = 1e7;
constexpr double kMostTokens = 1e18;

// Why a line is no record.
struct NoRecord {
  std::string reason;
};

// Bare NaN, Infinity and -Infinity as null; strings stay as they are. Nothing where there is none.
std::optional<std::string> WithoutNan(std::string_view line) {
  std::string out;
  bool in_string = false, changed = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (in_string) {
      out += line[i];
      if (line[i] == '\\' && i + 1 < line.size()) out += line[++i];
      if (line[i] == '"') in_string = false;
      continue;
    }
    bool replaced = false;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (line.substr(i, word.size()) != word) continue;
      out += "null";
      i += word.size() - 1;
      replaced = changed = true;
      break;
    }
    if (replaced) continue;
    in_string = line[i] == '"';
    out += line[i];
  }
  if (!changed) return std::nullopt;
  return out;
}

Json Parse(std::string_view line) {
  try {
    return ParseJson(std::string(line), "").root;
  } catch (const InputError& error) {
    const std::optional<std::string> mended = WithoutNan(line);
    if (!mended) {
      throw NoRecord{error.diagnostic().code == 104 ? "a key that is there twice" : "not JSON"};
    }
  }
  try {
    return ParseJson(*WithoutNan(line), "").root;
  } catch (const InputError&) {
    throw NoRecord{"not JSON"};
  }
}

// A number of `object` in [low, high]; nothing where it is absent or null.
std::optional<double> Number(const Json& object, const char* key, double low, double high) {
  const Json* value = object.Find(key);
  if (value == nullptr || value->IsNull()) return std::nullopt;
  if (!value->IsNumber()) throw NoRecord{std::string(key) + " is not a number"};
  const double number = value->AsNumber();
  if (!(number >= low && number <= high)) throw NoRecord{std::string(key) + " is out of range"};
  return number;
}

std::optional<double> Mar(const Json& line) {
  if (const std::optional<double> mar = Number(line, "mar", 0, 1)) return mar;
  const std::optional<double> aligned = Number(line, "aligned_tokens", 0, kMostTokens);
  const std::optional<double> all = Number(line, "cross_modal_tokens", 0, kMostTokens);
  if (!aligned || !all) return std::nullopt;
  if (*aligned > *all) throw NoRecord{"more aligned_tokens than cross_modal_tokens"};
  if (*all == 0) return std::nullopt;
  return *aligned / *all;
}

RankTimes ReadRank(const Json& entry) {
  if (!entry.IsObject()) throw NoRecord{"an entry of ranks is no object"};
  RankTimes rank;
  rank.rank = static_cast<int>(Number(entry, "rank", 0, 1e8).value_or(0));
  rank.node = static_cast<int>(Number(entry, "node", 0, 1e8).value_or(0));
  const auto seconds = [&](const char* key) {
    return Number(entry, key, 0, kMostSeconds).value_or(0);
  };
  rank.compute_s = seconds("compute_s");
  rank.optimizer_s = seconds("optimizer_s");
  rank.tp_s = seconds("tp_s");
  rank.cp_s = seconds("cp_s");
  rank.ep_s = seconds("ep_s");
  rank.dp_s = seconds("dp_s");
  rank.pp_s = seconds("pp_s");
  rank.host_s = seconds("host_s");
  rank.bubble_s = seconds("bubble_s");
  rank.straggler_wait_s = seconds("straggler_wait_s");
  rank.alignment_wait_s = seconds("alignment_wait_s");
  rank.data_wait_s = seconds("data_wait_s");
  return rank;
}

StepRecord ReadLine(const Json& line, const std::optional<StepRecord>& before) {
  if (!line.IsObject()) throw NoRecord{"JSON, but no object"};
  StepRecord record;
  if (const Json* step = line.Find("step"); step != nullptr && !step->IsNull()) {
    constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;
    if (!step->IsInteger() || step->AsInteger() < 0 || step->AsInteger() > kMostSteps)
      throw NoRecord{"step is no whole number from 0 to 2^53"};
    record.step = step->AsInteger();
  } else {
    record.step = before ? before->step + 1 : 0;
  }
  record.time_s = Number(line, "time_s", -1e12, 1e12);
  record.step_time_s = Number(line, "step_time_s", 0, kMostSeconds);
  if (record.step_time_s && *record.step_time_s == 0) throw NoRecord{"step_time_s is 0"};
  if (!record.step_time_s && record.time_s && before && before->time_s &&
      record.step > before->step && *record.time_s > *before->time_s) {
    record.step_time_s =
        (*record.time_s - *before->time_s) / static_cast<double>(record.step - before->step);
  }
  record.mar = Mar(line);
  record.tokens_per_s = Number(line, "tokens_per_s", 0, 1e18);
  record.loss = Number(line, "loss", -1e30, 1e30);
  if (const Json* id = line.Find("run_id"); id != nullptr && id->IsString())
    record.run_id = id->AsString();
  if (const Json* modalities = line.Find("modalities");
      modalities != nullptr && modalities->IsObject()) {
    for (const auto& [name, value] : modalities->members()) {
      if (value.IsObject())
        record.modality_tokens[name] = Number(value, "tokens", 0, kMostTokens).value_or(0);
    }
  }
  if (const Json* ranks = line.Find("ranks"); ranks != nullptr && ranks->IsArray()) {
    for (const Json& entry : ranks->items()) record.ranks.push_back(ReadRank(entry));
  }
  if (const Json* nodes = line.Find("nodes"); nodes != nullptr && nodes->IsArray()) {
    for (const Json& entry : nodes->items()) {
      if (!entry.IsObject()) throw NoRecord{"an entry of nodes is no object"};
      record.nodes.push_back({static_cast<int>(Number(entry, "node", 0, 1e8).value_or(0)),
                              Number(entry, "retransmitted_share", 0, 1).value_or(0)});
    }
  }
  if (!record.step_time_s && !record.time_s && !record.mar) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : line.members()) keys.push_back(key);
    const std::string near = NearestName("step_time_s", keys);
    throw NoRecord{"neither step_time_s nor time_s nor a MAR" +
                   (near.empty() ? std::string() : " ('" + near + "' is not step_time_s)")};
  }
  return record;
}

}  // namespace

void StepReader::Count(const std::string& reason) {
  constexpr std::size_t kMostReasons = 16;
  ++bad_lines_;
  for (Reason& known : reasons_) {
    if (known.text == reason) {
      ++known.lines;
      return;
    }
  }
  if (reasons_.size() < kMostReasons) reasons_.push_back({reason, 1, lines_});
}

void StepReader::CountOverlong() {
  ++lines_;
  Count("longer than a mebibyte");
}

std::optional<StepRecord> StepReader::Read(std::string_view line) {
  ++lines_;
  if (lines_ == 1 && line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0)
    line.remove_suffix(1);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front())) != 0)
    line.remove_prefix(1);
  if (line.empty()) return std::nullopt;
  try {
    StepRecord record = ReadLine(Parse(line), before_);
    if (before_ && record.step <= before_->step) ++restarts_;
    before_ = record;
    ++records_;
    return record;
  } catch (const NoRecord& none) {
    Count(none.reason);
    return std::nullopt;
  }
}

std::string StepLine(const StepRecord& record) {
  Json line = Json::Object();
  line.Set("step", record.step);
  if (!record.run_id.empty()) line.Set("run_id", record.run_id);
  const auto number = [&](const char* key, const std::optional<double>& value) {
    if (value) line.Set(key, *value);
  };
  number("time_s", record.time_s);
  number("step_time_s", record.step_time_s);
  number("mar", record.mar);
  number("tokens_per_s", record.tokens_per_s);
  number("loss", record.loss);
  if (!record.modality_tokens.empty()) {
    Json& modalities = line.Set("modalities", Json::Object());
    for (const auto& [name, tokens] : record.modality_tokens)
      modalities.Set(name, Json::Object()).Set("tokens", tokens);
  }
  if (!record.ranks.empty()) {
    Json& ranks = line.Set("ranks", Json::Array());
    for (const RankTimes& r : record.ranks) {
      Json& entry = ranks.Append(Json::Object());
      entry.Set("rank", r.rank);
      entry.Set("node", r.node);
      const auto seconds = [&](const char* key, double value) {
        if (value != 0) entry.Set(key, value);
      };
      seconds("compute_s", r.compute_s);
      seconds("optimizer_s", r.optimizer_s);
      seconds("tp_s", r.tp_s);
      seconds("cp_s", r.cp_s);
      seconds("ep_s", r.ep_s);
      seconds("dp_s", r.dp_s);
      seconds("pp_s", r.pp_s);
      seconds("host_s", r.host_s);
      seconds("bubble_s", r.bubble_s);
      seconds("straggler_wait_s", r.straggler_wait_s);
      seconds("alignment_wait_s", r.alignment_wait_s);
      seconds("data_wait_s", r.data_wait_s);
    }
  }
  if (!record.nodes.empty()) {
    Json& nodes = line.Set("nodes", Json::Array());
    for (const NodeCounters& n : record.nodes) {
      Json& entry = nodes.Append(Json::Object());
      entry.Set("node", n.node);
      entry.Set("retransmitted_share", n.retransmitted_share);
    }
  }
  return line.Dump();
}

}  // namespace aurum
