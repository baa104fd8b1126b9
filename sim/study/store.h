#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "sim/study/point.h"
#include "sim/study/store_reader.h"

namespace aurum {

// What a store is a store of. Two studies are the same if all of this is equal.
struct Study {
  JsonDocument scenario;  // its "sweep" section plays no part; the design does
  Design design;
  std::string tool_version;
  // Of whatever else the results depend on, for example a hash of the model, cluster and profile
  // files that the scenario names: a store is not continued after one of them has changed.
  std::string fingerprint;
  Shard shard;  // the points of the study that this store is for
};

// In which respect two studies differ, shards aside: "/plan/tp is 2 there and 4 here"; "" if they
// are one.
std::string StudyDifference(const StudyInfo& there, const StudyInfo& here);

// The results of one study in one SQLite file (the layout is in store_reader.h), written by one
// thread of one process.
//
// While points are written the file is in WAL mode: others may read it, and a kill at any moment
// loses at most what was inserted after the last Commit(). Finish() writes the file anew in its
// final form, in the order of the ordinals and with columns in a fixed order, and moves it into
// place: equal inputs give equal bytes, whatever the order of insertion and however often the sweep
// was interrupted.
//
// Nothing of a file that is not a store of this study is ever overwritten. Errors of Open, none of
// which changes the file:
//   E0720 cannot be opened or created, or a directory · E0721 not a database, or damaged · E0722
//   another program's database · E0723 another study, or another shard (says where they differ) ·
//   E0724 in use · E0725 read-only · E0727 other layout
// and of the others: E0724 and E0726 (disk full or failing); what was committed stays.
class Store {
 public:
  // Creates the file, or opens it to continue. One Store per file at a time, in all processes
  // (E0724).
  static Store Open(const std::string& path, const Study& study);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();  // loses what was not committed

  std::size_t points() const;                   // of the study, also those of other shards
  bool Has(std::size_t ordinal) const;          // stored, or inserted since
  std::size_t Count() const;                    // points for which Has() is true
  std::size_t Count(PointStatus status) const;  // of them, with this status
  std::size_t committed() const;                // points that outlive a kill
  const Study& study() const;

  // Columns of figures are made as they first appear: a figure's kind (number or text) is that of
  // its first value, and every point must keep to it (assert). A point that is there already is
  // left as it is.
  void Insert(const PointRow& row);
  // For rows of another store of this study: first its columns, then each row, whose figures it has
  // columns for (assert).
  void Adopt(const StudyInfo& other);
  void InsertCopy(const PointRow& row);
  void Commit();
  // Ends an interrupted run: commits, and leaves one file. The store takes no more points.
  void Close();
  // Ends a complete run (all points of the shard are stored, checked by assert). Does nothing to a file that is
  // final already.
  void Finish();

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace aurum
