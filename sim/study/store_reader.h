#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/study/design.h"
#include "sim/study/point.h"
#include "sim/study/shard.h"

namespace aurum {

class Database;

// The layout of a store: an SQLite database of two tables. "aurum.sweep/1" is that of a grid, which
// readers of the first version understand; "aurum.sweep/2" adds `design` and `drawn`.
//
//   meta(key TEXT PRIMARY KEY, value TEXT)
//     schema         "aurum.sweep/1" or "aurum.sweep/2"
//     result_schema  kResultSchema of the program that computed it
//     tool_version   version of that program
//     fingerprint    of what the results depend on beside the scenario; may be empty
//     scenario       the scenario without its sweep, compact JSON
//     axes           as AxesToJson writes them: the exact values, of which the columns below are
//     for queries columns        {"axes": [{"path", "column"}], "figures": [{"name", "column",
//     "type": "number" | "text"}]}
//     points         how many points the study has
//     shard          "2/4": the file is for these of the points (shard.h); absent if it is for all
//     orders         [[ordinal, ["figure", ...]], ...]: every list of figures that points came
//     with, and the first point that came with it; columns of the final form are in this order
//     complete       "true", once all points that it is for are stored and it has its final form;
//     then user_version holds a checksum of the file (store_seal.h)
//   points(ordinal INTEGER PRIMARY KEY, status TEXT, id BLOB (unique), diagnostic TEXT, axes...,
//   figures...)
//     one row a point; a column an axis (INTEGER, REAL or TEXT as its values are; arrays and
//     objects as JSON), and a column a figure (REAL or TEXT, NULL where the point has no such
//     figure). Columns are named by path and by figure; a name that is taken already (SQLite
//     ignores case) gets underscores appended, and `columns` says so.
//
// and of designs that are no grid, in `meta`:
//     axes           may have ranges; columns hold the values
//     design         Design::SpecJson
//     drawn          a hash of the values that were drawn (Design::drawn)
constexpr std::string_view kSweepSchema = "aurum.sweep/1";
constexpr std::string_view kDesignSchema = "aurum.sweep/2";

struct FigureColumn {
  std::string name;
  std::string column;
  bool text = false;
};

// The figures of a point in the order of its evaluator, and the first of all points with this list.
struct FigureOrder {
  std::size_t first = 0;
  std::vector<std::string> figures;
};

struct StudyInfo {
  std::string result_schema;
  std::string tool_version;
  std::string fingerprint;
  Json scenario;  // without its sweep
  Design design;
  std::vector<std::string> axis_columns;  // aligned with design.axes()
  std::vector<FigureColumn> figures;
  std::vector<FigureOrder> orders;  // by `first`; empty in stores of before there were any
  std::size_t points = 0;           // of the study
  Shard shard;                      // of which the store is
  bool complete = false;
};

struct StoredPoint {
  std::size_t ordinal = 0;
  Hash128 id;
  PointStatus status = PointStatus::kOk;
  std::string diagnostic;
  std::vector<Json> axis_values;  // aligned with Design::axes, the exact values
  std::vector<Json> figures;      // aligned with StudyInfo::figures; null where the point has none
};

// Reads a store, also one that a sweep is writing or was killed in, and changes nothing.
// Errors: E0201 no such file · E0720 cannot be opened · E0721 damaged · E0722 not a store of Aurum
// · E0724 in use · E0727 written by another version of the layout.
class StoreReader {
 public:
  explicit StoreReader(const std::string& path);
  StoreReader(StoreReader&&) noexcept;
  StoreReader& operator=(StoreReader&&) noexcept;
  ~StoreReader();

  const StudyInfo& info() const;
  std::size_t Count() const;                    // stored points
  std::size_t Count(PointStatus status) const;  // of them, with this status
  // The next point in the order of the ordinals; false after the last one.
  bool Next(StoredPoint* point);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For the store itself: the `meta` of an open database. E0722 if it has none of ours, E0727 if of
// another layout.
StudyInfo ReadStudyInfo(const Database& database);

}  // namespace aurum
