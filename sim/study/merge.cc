#include "sim/study/merge.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "sim/core/diagnostic.h"
#include "sim/core/hash.h"
#include "sim/study/store_reader.h"

// How stores are merged
//
// The final form of a store does not depend on the order in which rows came (store.h), so inputs are
// read one after the other and no more than one is open at a time: a thousand shards need no
// thousand descriptors. They are read twice. The first pass only looks: is it the same study, is
// every row a point of it, does a point that two inputs have say the same in both, which points are
// in none. It remembers a hash of each point's result, 8 bytes a point, instead of the results. The
// second pass copies. So a merge that is refused has written nothing.
namespace aurum {
namespace {

constexpr std::size_t kRowsPerCommit = 10'000;
constexpr std::size_t kShardsNamed = 8;

// Of a result, whatever the order of its columns. A text and a number never collide by their bytes.
std::uint64_t HashOfResult(const StudyInfo& info, const StoredPoint& point) {
  std::uint64_t sum = HashText(PointStatusName(point.status)).low;
  std::string text;
  for (std::size_t i = 0; i < point.figures.size(); ++i) {
    const Json& value = point.figures[i];
    if (value.IsNull()) continue;
    text = info.figures[i].name;
    if (value.IsString()) {
      text += "\ntext\n" + value.AsString();
    } else {
      const double number = value.AsNumber();
      text.append("\nnumber\n").append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    sum += HashText(text).low;
  }
  return sum;
}

std::string NameOfPoint(const StudyInfo& info, const StoredPoint& point) {
  std::string name = "point " + std::to_string(point.ordinal) + " (";
  for (std::size_t i = 0; i < info.design.axes().size(); ++i) {
    if (i > 0) name += ", ";
    name += info.design.axes()[i].path + " = " + point.axis_values[i].Dump();
  }
  return name + ")";
}

std::string ShowFigure(const Json* value) {
  return value == nullptr || value->IsNull() ? "none" : value->Dump();
}

// The first respect in which two results of a point differ: "step_time_s is 1.5 in 'a' and 2 in 'b'".
std::string Contradiction(const std::string& path_a, const StudyInfo& info_a, const StoredPoint& a,
                          const std::string& path_b, const StudyInfo& info_b,
                          const StoredPoint& b) {
  const auto say = [&](const std::string& what, const std::string& in_a, const std::string& in_b) {
    return what + " is " + in_a + " in '" + path_a + "' and " + in_b + " in '" + path_b + "'";
  };
  if (a.status != b.status) {
    return say("its status", std::string(PointStatusName(a.status)),
               std::string(PointStatusName(b.status)));
  }
  std::map<std::string, std::pair<const Json*, const Json*>> figures;
  for (std::size_t i = 0; i < a.figures.size(); ++i)
    figures[info_a.figures[i].name].first = &a.figures[i];
  for (std::size_t i = 0; i < b.figures.size(); ++i)
    figures[info_b.figures[i].name].second = &b.figures[i];
  for (const auto& [name, both] : figures) {
    const std::string in_a = ShowFigure(both.first), in_b = ShowFigure(both.second);
    if (in_a != in_b) return say(name, in_a, in_b);
  }
  return "they differ in what no text shows";
}

// One store, and the points that it has of its study.
struct Source {
  std::string path;
  StudyInfo info;
  std::size_t points = 0;
};

class Merger {
 public:
  Merger(const std::vector<std::string>& inputs, const std::string& output,
         const MergeOptions& options)
      : inputs_(inputs), output_(output), options_(options) {}

  MergeSummary Run() {
    CheckNames();
    for (const std::string& input : inputs_) Look(input);
    // What the output has already must not contradict either.
    std::error_code ignored;
    if (std::filesystem::file_size(output_, ignored) > 0 && !ignored) LookAtOutput();
    FindMissing();
    Copy();
    return summary_;
  }

 private:
  void CheckNames() const {
    if (inputs_.empty())
      ThrowInput(850, "there is nothing to merge", "name two stores or more", ExitCode::kUsage);
    // By the file itself: a link, soft or hard, is another name of it.
    std::map<std::pair<dev_t, ino_t>, std::string> seen;
    for (const std::string& input : inputs_) {
      struct stat status = {};
      if (::stat(input.c_str(), &status) != 0) continue;  // told when it is looked at
      const auto [first, is_new] = seen.try_emplace({status.st_dev, status.st_ino}, input);
      if (is_new) continue;
      const bool same_name = first->second == input;
      ThrowInput(850,
                 "'" + input + "' is " +
                     (same_name ? "named twice" : "the same file as '" + first->second + "'"),
                 "name each store once", ExitCode::kUsage);
    }
  }

  // The first pass over one store; 0 is the number of the output.
  void LookAt(const std::string& path, std::uint32_t number) {
    StoreReader reader(path);
    const StudyInfo& info = reader.info();
    if (sources_.empty()) {
      if (info.result_schema != kResultSchema) {
        ThrowInput(727,
                   "'" + path + "' holds results of the kind " + info.result_schema +
                       "; this version of Aurum knows " + std::string(kResultSchema),
                   "merge with the version that wrote it");
      }
      scenario_ = ParseJson(info.scenario.Dump(), path);
      design_ = info.design;
      cursor_.emplace(scenario_, design_);
      results_.assign(info.points, 0);
      seen_in_.assign(info.points, kNowhere);
      summary_.points = info.points;
    } else if (const std::string difference = StudyDifference(sources_.front().info, info);
               !difference.empty()) {
      ThrowInput(847,
                 "'" + path + "' is of another study than '" + sources_.front().path +
                     "', of which " + difference,
                 "merge stores of one scenario, with the same axes, catalogues and version");
    }
    Source source{path, info, 0};
    StoredPoint point;
    while (reader.Next(&point)) {
      cursor_->MoveTo(point.ordinal);
      if (cursor_->id() != point.id) {
        ThrowInput(849,
                   NameOfPoint(info, point) + " of '" + path + "' has the id " + point.id.Hex() +
                       ", but " + cursor_->id().Hex() + " is its own",
                   "the file was changed by something else than aurum sweep: compute it again");
      }
      ++source.points;
      const std::uint64_t result = HashOfResult(info, point);
      if (seen_in_[point.ordinal] == kNowhere) {
        seen_in_[point.ordinal] = number;
        results_[point.ordinal] = result;
      } else {
        if (results_[point.ordinal] != result) Conflict(path, info, point);
        if (number != kOutput) ++summary_.duplicates;
      }
    }
    sources_.push_back(std::move(source));
  }

  void Look(const std::string& input) {
    LookAt(input, static_cast<std::uint32_t>(sources_.size()));
    summary_.inputs.push_back({input, sources_.back().info.shard, sources_.back().points});
  }
  void LookAtOutput() {
    LookAt(output_, kOutput);
    sources_.pop_back();
  }

  [[noreturn]] void Conflict(const std::string& path, const StudyInfo& info,
                             const StoredPoint& point) const {
    const Source& other = sources_[seen_in_[point.ordinal]];
    StoreReader reader(other.path);
    StoredPoint before;
    while (reader.Next(&before) && before.ordinal != point.ordinal) {
    }
    ThrowInput(
        849,
        NameOfPoint(info, point) +
            " has two results: " + Contradiction(other.path, other.info, before, path, info, point),
        "they come from different builds or machines, or a file was changed: compute both with one "
        "build, or leave one of them out");
  }

  void FindMissing() {
    std::size_t first = results_.size();
    for (std::size_t i = results_.size(); i-- > 0;) {
      if (seen_in_[i] != kNowhere) continue;
      ++summary_.missing;
      first = i;
    }
    if (summary_.missing == 0 || options_.partial) return;
    const std::string message = std::to_string(summary_.missing) + " of " +
                                std::to_string(summary_.points) +
                                " points are in none of the stores";
    const std::string rest =
        "; or --partial, and aurum sweep SCENARIO -o '" + output_ + "' computes what is missing";
    std::string which;
    std::size_t one = 0;
    DescribeShards(&which, &one);
    if (which.empty()) {
      StoredPoint point;
      point.ordinal = first;
      point.axis_values = design_.Values(first);
      ThrowInput(848, message + ", the first is " + NameOfPoint(sources_.front().info, point),
                 "add the store that has them" + rest, ExitCode::kPartial);
    }
    const std::string count = std::to_string(sources_.front().info.shard.count);
    const std::string index = std::to_string(one);
    ThrowInput(848, message + ": " + which,
               "aurum sweep SCENARIO --shard " + index + "/" + count + " -o RUN-" + index +
                   ".db, and merge again" + rest,
               ExitCode::kPartial);
  }

  // Of stores that all are shards of the same number: which of them are not there or not complete,
  // in words, and the number of one of these.
  void DescribeShards(std::string* which, std::size_t* one) const {
    const std::size_t count = sources_.front().info.shard.count;
    if (count < 2) return;
    std::map<std::size_t, const Source*> there;  // the fullest of each
    for (const Source& source : sources_) {
      if (source.info.shard.count != count) return;
      const Source*& best = there[source.info.shard.index];
      if (best == nullptr || best->points < source.points) best = &source;
    }
    std::vector<std::string> said;
    for (std::size_t i = 1; i <= count; ++i) {
      const Shard shard{i, count};
      const std::size_t should = ShardPoints(shard, summary_.points);
      const auto found = there.find(i);
      if (found == there.end() && should > 0) {
        said.push_back("shard " + ShardName(shard) + " is not among them");
      } else if (found != there.end() && found->second->points < should) {
        said.push_back("shard " + ShardName(shard) + " has " +
                       std::to_string(found->second->points) + " of its " + std::to_string(should) +
                       " points in '" + found->second->path + "'");
      } else {
        continue;
      }
      if (*one == 0) *one = i;
    }
    for (std::size_t i = 0; i < std::min(said.size(), kShardsNamed); ++i)
      *which += (i > 0 ? "; " : "") + said[i];
    if (said.size() > kShardsNamed)
      *which += "; and " + std::to_string(said.size() - kShardsNamed) + " shards more";
  }

  bool Stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  // The second pass.
  void Copy() {
    const StudyInfo& info = sources_.front().info;
    Store store =
        Store::Open(output_, {scenario_, design_, info.tool_version, info.fingerprint, Shard{}});
    summary_.stored_before = store.Count();
    for (std::uint32_t i = 0; i < sources_.size() && !Stopped(); ++i) CopyFrom(i, &store);
    summary_.ok = store.Count(PointStatus::kOk);
    summary_.infeasible = store.Count(PointStatus::kInfeasible);
    summary_.failed = store.Count(PointStatus::kFailed);
    summary_.interrupted = store.Count() < summary_.points - summary_.missing;
    if (store.Count() == summary_.points) {
      store.Finish();
    } else {
      store.Close();
    }
  }

  void CopyFrom(std::uint32_t number, Store* store) {
    StoreReader reader(sources_[number].path);
    const StudyInfo& info = reader.info();
    bool adopted = false;
    StoredPoint point;
    PointRow row;
    std::size_t since_commit = 0;
    while (!Stopped() && reader.Next(&point)) {
      if (store->Has(point.ordinal)) continue;
      // A row that a sweep has added since the first pass was checked by nothing.
      const std::uint32_t first = seen_in_[point.ordinal];
      if (first != number &&
          (first == kNowhere || HashOfResult(info, point) != results_[point.ordinal]))
        continue;
      if (!adopted) store->Adopt(info);
      adopted = true;
      row.ordinal = point.ordinal;
      row.id = point.id;
      row.status = point.status;
      row.diagnostic = point.diagnostic;
      row.figures.clear();
      for (std::size_t i = 0; i < point.figures.size(); ++i) {
        const Json& value = point.figures[i];
        if (value.IsNull()) continue;
        if (value.IsString()) {
          row.figures.push_back({info.figures[i].name, value.AsString()});
        } else {
          row.figures.push_back({info.figures[i].name, value.AsNumber()});
        }
      }
      store->InsertCopy(row);
      ++summary_.merged;
      if (++since_commit == kRowsPerCommit) {
        store->Commit();
        since_commit = 0;
      }
    }
    store->Commit();
  }

  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  static constexpr std::uint32_t kOutput = UINT32_MAX - 1;

  const std::vector<std::string>& inputs_;
  const std::string& output_;
  const MergeOptions& options_;
  MergeSummary summary_;
  std::vector<Source> sources_;
  JsonDocument scenario_;
  Design design_;
  std::optional<PointCursor> cursor_;
  std::vector<std::uint64_t> results_;  // hashes, by ordinal
  std::vector<std::uint32_t> seen_in_;  // the first source that has the point
};

}  // namespace

ExitCode MergeSummary::exit_code() const {
  if (interrupted) return ExitCode::kInterrupted;
  return missing > 0 || failed > 0 ? ExitCode::kPartial : ExitCode::kOk;
}

MergeSummary MergeStores(const std::vector<std::string>& inputs, const std::string& output,
                         const MergeOptions& options) {
  return Merger(inputs, output, options).Run();
}

}  // namespace aurum
