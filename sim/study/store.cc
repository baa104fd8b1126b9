#include "sim/study/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/core/diagnostic.h"
#include "sim/study/database.h"
#include "sim/study/store_seal.h"

namespace aurum {
namespace {

constexpr const char* kOtherOutput = "name another file with -o; nothing in this one was changed";

// ---- columns
// ----------------------------------------------------------------------------------------------------------

// Hands out column names; SQLite takes two that differ only in case for one.
class ColumnNames {
 public:
  std::string Take(std::string name) {
    while (!taken_.insert(Lower(name)).second) name += '_';
    return name;
  }

 private:
  static std::string Lower(std::string name) {
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
  }
  std::set<std::string> taken_ = {"ordinal", "id",  "status", "diagnostic",
                                  "rowid",   "oid", "_rowid_"};
};

const char* AxisType(const Axis& axis) {
  if (axis.range) return axis.range->integer ? " INTEGER" : " REAL";
  const auto all = [&](auto is) { return std::all_of(axis.values.begin(), axis.values.end(), is); };
  if (all([](const Json& v) { return v.IsInteger(); })) return " INTEGER";
  if (all([](const Json& v) { return v.IsNumber(); })) return " REAL";
  if (all([](const Json& v) { return v.IsString(); })) return " TEXT";
  return "";  // a mixture: SQLite keeps each value as it is
}

const char* FigureType(const FigureColumn& figure) { return figure.text ? " TEXT" : " REAL"; }

std::string ColumnsJson(const StudyInfo& info) {
  Json axes = Json::Array();
  for (std::size_t i = 0; i < info.design.axes().size(); ++i) {
    Json axis = Json::Object();
    axis.Set("path", info.design.axes()[i].path);
    axis.Set("column", info.axis_columns[i]);
    axes.Append(std::move(axis));
  }
  Json figures = Json::Array();
  for (const FigureColumn& column : info.figures) {
    Json figure = Json::Object();
    figure.Set("name", column.name);
    figure.Set("column", column.column);
    figure.Set("type", column.text ? "text" : "number");
    figures.Append(std::move(figure));
  }
  Json columns = Json::Object();
  columns.Set("axes", std::move(axes));
  columns.Set("figures", std::move(figures));
  return columns.Dump();
}

std::string OrdersJson(const std::vector<FigureOrder>& orders) {
  Json all = Json::Array();
  for (const FigureOrder& order : orders) {
    Json names = Json::Array();
    for (const std::string& figure : order.figures) names.Append(figure);
    all.Append(Json::Array({static_cast<std::int64_t>(order.first), std::move(names)}));
  }
  return all.Dump();
}

// ---- tables
// -----------------------------------------------------------------------------------------------------------

void SetMeta(const Database& database, const std::string& schema, const std::string& key,
             const std::string& value) {
  Statement set(database, "INSERT OR REPLACE INTO " + schema + ".meta(key, value) VALUES (?, ?)");
  set.Bind(1, key);
  set.Bind(2, value);
  set.Step();
}

// The same statements in the same order give the same bytes; `schema` is the database of the
// connection.
void MakeTables(Database* database, const std::string& schema, const StudyInfo& info) {
  database->Execute("CREATE TABLE " + schema +
                    ".meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID");
  const bool grid = info.design.IsGrid();
  SetMeta(*database, schema, "schema", std::string(grid ? kSweepSchema : kDesignSchema));
  SetMeta(*database, schema, "result_schema", info.result_schema);
  SetMeta(*database, schema, "tool_version", info.tool_version);
  SetMeta(*database, schema, "fingerprint", info.fingerprint);
  SetMeta(*database, schema, "scenario", info.scenario.Dump());
  SetMeta(*database, schema, "axes", info.design.AxesJson().Dump());
  if (!grid) {
    SetMeta(*database, schema, "design", info.design.SpecJson().Dump());
    SetMeta(*database, schema, "drawn", info.design.drawn().Hex());
  }
  SetMeta(*database, schema, "columns", ColumnsJson(info));
  SetMeta(*database, schema, "points", std::to_string(info.points));
  SetMeta(*database, schema, "orders", OrdersJson(info.orders));
  if (!info.shard.IsWhole()) SetMeta(*database, schema, "shard", ShardName(info.shard));
  std::string sql = "CREATE TABLE " + schema +
                    ".points(ordinal INTEGER PRIMARY KEY, id BLOB NOT NULL, status TEXT NOT NULL, "
                    "diagnostic TEXT";
  for (std::size_t i = 0; i < info.axis_columns.size(); ++i) {
    sql += ", " + SqlName(info.axis_columns[i]) + AxisType(info.design.axes()[i]);
  }
  for (const FigureColumn& figure : info.figures)
    sql += ", " + SqlName(figure.column) + FigureType(figure);
  database->Execute(sql + ")");
}

void MakeIndex(Database* database, const std::string& schema) {
  database->Execute("CREATE UNIQUE INDEX " + schema + ".points_id ON points(id)");
}

void BindJson(Statement* statement, int parameter, const Json& value, std::string* room) {
  if (value.IsInteger()) {
    statement->Bind(parameter, value.AsInteger());
  } else if (value.IsNumber()) {
    statement->Bind(parameter, value.AsNumber());
  } else if (value.IsString()) {
    statement->Bind(parameter, std::string_view(value.AsString()));
  } else if (value.IsNull()) {
    statement->BindNull(parameter);
  } else {
    *room = value.Dump();
    statement->Bind(parameter, std::string_view(*room));
  }
}

// ---- the same study?
// --------------------------------------------------------------------------------------------------

// Where two JSON values first differ, in words; "" if they are equal but for the order of keys.
std::string Difference(const Json* stored, const Json* wanted, const std::string& pointer) {
  const auto show = [](const Json* value) {
    if (value == nullptr) return std::string("absent");
    std::string text = value->Dump();
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  };
  if (stored != nullptr && wanted != nullptr) {
    if (stored->Dump() == wanted->Dump()) return "";
    if (stored->IsObject() && wanted->IsObject()) {
      std::set<std::string> keys;
      for (const auto& member : stored->members()) keys.insert(member.first);
      for (const auto& member : wanted->members()) keys.insert(member.first);
      for (const std::string& key : keys) {
        std::string where = Difference(stored->Find(key), wanted->Find(key), pointer + "/" + key);
        if (!where.empty()) return where;
      }
      return "";
    }
    if (stored->IsArray() && wanted->IsArray() &&
        stored->items().size() == wanted->items().size()) {
      for (std::size_t i = 0; i < stored->items().size(); ++i) {
        const std::string at = pointer + "/" + std::to_string(i);
        std::string where = Difference(&stored->items()[i], &wanted->items()[i], at);
        if (!where.empty()) return where;
      }
      return "";
    }
  }
  return pointer + " is " + show(stored) + " there and " + show(wanted) + " here";
}

// Whether there are points and every one has failed: nothing that somebody may want to keep.
bool HoldsFailuresAlone(const Database& database) {
  Statement count(database, "SELECT count(*), sum(status = 'failed') FROM points");
  return count.Step() && count.Integer(0) > 0 && count.Integer(0) == count.Integer(1);
}

void CheckSameStudy(const Database& database, const StudyInfo& stored, const StudyInfo& wanted) {
  const std::string& path = database.path();
  const std::string difference = StudyDifference(stored, wanted);
  if (!difference.empty()) {
    const bool failures = HoldsFailuresAlone(database);
    ThrowInput(723,
               "'" + path + "' holds another study: " + difference +
                   (failures ? "; every point in it has failed" : ""),
               failures ? "rm '" + path +
                              "' and run the same command again: it holds nothing but failures; or "
                              "name another file with -o"
                        : "name another file with -o, or remove this one if its results are no "
                          "longer wanted");
  }
  if (stored.shard != wanted.shard) {
    const auto name = [](const Shard& shard) {
      return shard.IsWhole() ? std::string("all points") : "shard " + ShardName(shard);
    };
    ThrowInput(723,
               "'" + path + "' is for " + name(stored.shard) + " of this study, not for " +
                   name(wanted.shard),
               "a file for each shard: -o RUN-" + std::to_string(wanted.shard.index) + ".db");
  }
}

// ---- the file
// ---------------------------------------------------------------------------------------------------------

// Held as long as the store is open, so that no second sweep writes into the file or replaces it.
// flock() is independent of the locks that SQLite takes, and goes with its process. The descriptor
// outlives the connection: closing any descriptor of a file drops all of SQLite's locks on it.
class FileLock {
 public:
  FileLock() = default;
  explicit FileLock(const std::string& path) {
    struct stat status = {};
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
      ThrowInput(720, "'" + path + "' is a directory", "name a file with -o");
    }
    if (exists && !S_ISREG(status.st_mode)) {
      ThrowInput(720, "'" + path + "' is not a regular file", "name a file with -o");
    }
    // Also for a superuser, who may write what is marked read-only: the mark says not to.
    if (exists && (status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0) ReadOnly(path);
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      const int error = errno;
      if (error == EROFS || (error == EACCES && exists)) ReadOnly(path);
      ThrowInput(720, "cannot create '" + path + "': " + std::strerror(error),
                 "check that its folder exists and that you may write in it");
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(descriptor_);
      ThrowInput(724, "another sweep is writing '" + path + "'",
                 "wait until it has finished, or name another file with -o");
    }
    // Where flock() is not supported SQLite's own locks remain.
  }
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  // Whether the file is empty (new) or begins as every SQLite database does. Looked at before
  // SQLite sees the file.
  void CheckHeader(const std::string& path, bool* empty) const {
    std::array<char, 16> header = {};
    const ssize_t size = ::pread(descriptor_, header.data(), header.size(), 0);
    *empty = size == 0;
    constexpr char kMagic[] = "SQLite format 3";  // and its closing NUL
    if (size != 0 && (size != 16 || std::memcmp(header.data(), kMagic, 16) != 0)) {
      ThrowInput(721, "'" + path + "' is not a database", kOtherOutput);
    }
  }

 private:
  [[noreturn]] static void ReadOnly(const std::string& path) {
    ThrowInput(725, "'" + path + "' is read-only",
               "make it writable, or name another file with -o");
  }
  int descriptor_ = -1;
};

void SyncFile(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

bool HasTables(const Database& database) {
  Statement count(database, "SELECT count(*) FROM sqlite_schema");
  return count.Step() && count.Integer(0) > 0;
}

void CheckIntact(const Database& database) {
  Statement check(database, "PRAGMA quick_check(1)");
  const std::string found = check.Step() ? check.Text(0) : "";
  if (found != "ok") {
    ThrowInput(721, "'" + database.path() + "' is damaged: " + found,
               "sweep again into another file with -o; nothing in this one was changed");
  }
}

}  // namespace

std::string StudyDifference(const StudyInfo& there, const StudyInfo& here) {
  if (there.scenario.Dump() != here.scenario.Dump()) {
    const std::string where = Difference(&there.scenario, &here.scenario, "");
    return where.empty() ? "the keys of its scenario are in another order" : where;
  }
  const Json axes_there = there.design.AxesJson();
  const Json axes_here = here.design.AxesJson();
  if (axes_there.Dump() != axes_here.Dump())
    return Difference(&axes_there, &axes_here, "/sweep/axes");
  const Json design_there = there.design.SpecJson();
  const Json design_here = here.design.SpecJson();
  if (design_there.Dump() != design_here.Dump())
    return Difference(&design_there, &design_here, "/sweep/design");
  if (there.tool_version != here.tool_version || there.result_schema != here.result_schema) {
    return "it was computed by Aurum " + there.tool_version + " (" + there.result_schema +
           "), this is " + here.tool_version + " (" + here.result_schema + ")";
  }
  if (there.fingerprint != here.fingerprint)
    return "a model, cluster or profile that the scenario names has changed since";
  return "";
}

struct Store::Impl {
  // Destroyed in reverse: statements, the connection, the lock.
  FileLock lock;
  Database database;
  Statement insert;

  std::string path;
  Study study;
  StudyInfo info;
  ColumnNames names;
  std::vector<bool> stored;
  // Every list of figures that points came with, as columns, and the first point with it.
  std::map<std::vector<std::size_t>, std::size_t> orders;
  bool orders_changed = false;
  std::size_t to_store = 0;  // points of the shard
  std::size_t count = 0;
  std::array<std::size_t, 3> by_status = {};
  std::size_t committed = 0;
  bool insert_ready = false;  // for the columns that there are
  bool in_transaction = false;
  bool prepared = false;

  void TakeOrders(const StudyInfo& of);
  void Load();
  void Begin();
  void AddFigure(const std::string& name, bool text);
  std::vector<std::size_t> ColumnsOf(const std::vector<Figure>& figures);
  void NoteOrder(const std::vector<std::size_t>& columns, std::size_t first);
  std::vector<FigureOrder> Orders() const;
  std::vector<FigureColumn> CanonicalFigures() const;
  void Write(const PointRow& row, const std::vector<std::size_t>& columns);
  void PrepareInsert();
  void WriteFinal(const std::string& beside);
  void LeaveWal();
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

std::size_t Store::points() const { return impl_->info.points; }
bool Store::Has(std::size_t ordinal) const { return impl_->stored.at(ordinal); }
std::size_t Store::Count() const { return impl_->count; }
std::size_t Store::Count(PointStatus status) const {
  return impl_->by_status[static_cast<std::size_t>(status)];
}
std::size_t Store::committed() const { return impl_->committed; }
const Study& Store::study() const { return impl_->study; }

Store Store::Open(const std::string& path, const Study& study) {
  if (path.empty()) ThrowInput(720, "a store needs a file name", "name one with -o");
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->study = study;
  StudyInfo& info = impl->info;
  info.result_schema = kResultSchema;
  info.tool_version = study.tool_version;
  info.fingerprint = study.fingerprint;
  info.scenario = WithoutSweep(study.scenario.root);
  info.design = study.design;
  info.points = study.design.points();
  info.shard = study.shard;
  impl->to_store = ShardPoints(study.shard, info.points);
  for (const Axis& axis : study.design.axes())
    info.axis_columns.push_back(impl->names.Take(axis.path));

  impl->lock = FileLock(path);
  bool empty = false;
  impl->lock.CheckHeader(path, &empty);
  bool has_tables = false;
  if (!empty) {
    // First without the right to write: even closing a connection tidies the files of a database in
    // WAL mode, and this one may be another program's. Where the last writer died in a way that
    // only a writer can undo, the second look decides.
    try {
      const Database look(path, Database::Mode::kReadOnly);
      if (HasTables(look)) {
        const StudyInfo there = ReadStudyInfo(look);
        CheckSeal(path);
        CheckSameStudy(look, there, info);
      }
    } catch (const InputError& error) {
      if (error.diagnostic().code != 725) throw;
    }
  }
  // kCreate also for the database that Finish() attaches.
  impl->database = Database(path, Database::Mode::kCreate);
  if (impl->database.IsReadOnly())
    ThrowInput(725, "'" + path + "' is read-only",
               "make it writable, or name another file with -o");
  has_tables = HasTables(impl->database);
  if (has_tables) {
    const StudyInfo there = ReadStudyInfo(impl->database);
    CheckSameStudy(impl->database, there, info);
    CheckIntact(impl->database);
    info.complete = there.complete;
    info.figures = there.figures;
    for (const FigureColumn& figure : info.figures) impl->names.Take(figure.column);
    impl->TakeOrders(there);
  } else {
    impl->database.Execute("PRAGMA page_size = 4096");
    impl->database.Execute("BEGIN IMMEDIATE");
    MakeTables(&impl->database, "main", info);
    MakeIndex(&impl->database, "main");
    impl->database.Execute("COMMIT");
  }
  impl->Load();
  return Store(std::move(impl));
}

// The lists of figures of a store, whose figures all have columns here.
void Store::Impl::TakeOrders(const StudyInfo& of) {
  std::map<std::string, std::size_t> column;
  for (std::size_t i = 0; i < info.figures.size(); ++i) column[info.figures[i].name] = i;
  for (const FigureOrder& order : of.orders) {
    std::vector<std::size_t> columns;
    for (const std::string& figure : order.figures) {
      const auto found = column.find(figure);
      if (found == column.end()) {
        ThrowInput(721, "'" + path + "' is damaged: it has no column of " + figure, kOtherOutput);
      }
      columns.push_back(found->second);
    }
    NoteOrder(columns, order.first);
  }
  if (of.orders.empty() && !of.figures.empty()) {  // of before there were any
    std::vector<std::size_t> columns;
    for (const FigureColumn& figure : of.figures) columns.push_back(column.at(figure.name));
    NoteOrder(columns, 0);
  }
}

void Store::Impl::Load() {
  stored.assign(info.points, false);
  Statement rows(database, "SELECT ordinal, status FROM points");
  while (rows.Step()) {
    const std::int64_t ordinal = rows.Integer(0);
    if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= info.points ||
        !InShard(info.shard, static_cast<std::size_t>(ordinal), info.points)) {
      ThrowInput(
          721,
          "'" + path + "' is damaged: row " + std::to_string(ordinal) + " is no point of its study",
          kOtherOutput);
    }
    stored[static_cast<std::size_t>(ordinal)] = true;
    ++count;
    for (const PointStatus status :
         {PointStatus::kOk, PointStatus::kInfeasible, PointStatus::kFailed}) {
      if (rows.Text(1) == PointStatusName(status)) ++by_status[static_cast<std::size_t>(status)];
    }
  }
  committed = count;
}

void Store::Impl::Begin() {
  assert(database.IsOpen());
  if (in_transaction) return;
  if (!prepared) {
    // A kill of the process loses nothing that was committed; only a power cut could undo the last
    // commits, in whole transactions. That is worth many times the speed of synchronous = FULL.
    database.Execute("PRAGMA journal_mode = WAL");
    database.Execute("PRAGMA synchronous = NORMAL");
    database.Execute("PRAGMA cache_size = -131072");
    database.Execute("PRAGMA wal_autocheckpoint = 8192");
    prepared = true;
  }
  database.Execute("BEGIN IMMEDIATE");
  in_transaction = true;
}

void Store::Impl::AddFigure(const std::string& name, bool text) {
  info.figures.push_back({name, names.Take(name), text});
  insert = Statement();
  insert_ready = false;
  database.Execute("ALTER TABLE points ADD COLUMN " + SqlName(info.figures.back().column) +
                   FigureType(info.figures.back()));
  SetMeta(database, "main", "columns", ColumnsJson(info));
}

// The column of each figure, made where there is none; evaluators give them in one order, so the
// first guess is nearly always right.
std::vector<std::size_t> Store::Impl::ColumnsOf(const std::vector<Figure>& figures) {
  const std::vector<FigureColumn>& there = info.figures;
  std::vector<std::size_t> columns(figures.size());
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const auto is = [&](const FigureColumn& column) { return column.name == figures[i].name; };
    const bool text = std::holds_alternative<std::string>(figures[i].value);
    std::size_t at = i;
    if (at >= there.size() || !is(there[at])) {
      at = static_cast<std::size_t>(std::find_if(there.begin(), there.end(), is) - there.begin());
    }
    if (at == there.size()) AddFigure(figures[i].name, text);
    assert(there[at].text == text);
    columns[i] = at;
  }
  return columns;
}

void Store::Impl::NoteOrder(const std::vector<std::size_t>& columns, std::size_t first) {
  if (columns.empty()) return;
  const auto [at, is_new] = orders.try_emplace(columns, first);
  if (!is_new && at->second <= first) return;
  at->second = first;
  orders_changed = true;
}

std::vector<FigureOrder> Store::Impl::Orders() const {
  std::vector<FigureOrder> all;
  for (const auto& [columns, first] : orders) {
    FigureOrder order;
    order.first = first;
    for (const std::size_t column : columns) order.figures.push_back(info.figures[column].name);
    all.push_back(std::move(order));
  }
  std::sort(all.begin(), all.end(),
            [](const FigureOrder& a, const FigureOrder& b) { return a.first < b.first; });
  return all;
}

void Store::Insert(const PointRow& row) {
  Impl& impl = *impl_;
  assert(row.ordinal < impl.info.points);
  assert(InShard(impl.info.shard, row.ordinal, impl.info.points));
  if (impl.stored[row.ordinal]) return;
  impl.Begin();
  const std::vector<std::size_t> columns = impl.ColumnsOf(row.figures);
  impl.NoteOrder(columns, row.ordinal);
  impl.Write(row, columns);
}

void Store::Adopt(const StudyInfo& other) {
  assert(StudyDifference(other, impl_->info).empty());
  impl_->Begin();
  for (const FigureColumn& figure : other.figures) {
    const auto same =
        std::find_if(impl_->info.figures.begin(), impl_->info.figures.end(),
                     [&](const FigureColumn& each) { return each.name == figure.name; });
    if (same == impl_->info.figures.end()) impl_->AddFigure(figure.name, figure.text);
  }
  impl_->TakeOrders(other);
}

void Store::InsertCopy(const PointRow& row) {
  if (impl_->stored[row.ordinal]) return;
  impl_->Begin();
  impl_->Write(row, impl_->ColumnsOf(row.figures));
}

void Store::Impl::PrepareInsert() {
  std::string sql = "INSERT OR IGNORE INTO points(ordinal, id, status, diagnostic";
  std::string marks = ") VALUES (?, ?, ?, ?";
  for (const std::string& column : info.axis_columns) sql += ", " + SqlName(column), marks += ", ?";
  for (const FigureColumn& column : info.figures)
    sql += ", " + SqlName(column.column), marks += ", ?";
  insert = Statement(database, sql + marks + ")");
  insert_ready = true;
}

void Store::Impl::Write(const PointRow& row, const std::vector<std::size_t>& columns) {
  const int first_axis = 5;
  const int first_figure = first_axis + static_cast<int>(info.axis_columns.size());
  if (!insert_ready) PrepareInsert();
  insert.Bind(1, static_cast<std::int64_t>(row.ordinal));
  std::array<unsigned char, 16> id = {};
  for (std::size_t i = 0; i < 8; ++i) {
    id[i] = static_cast<unsigned char>(row.id.high >> (56 - 8 * i));
    id[i + 8] = static_cast<unsigned char>(row.id.low >> (56 - 8 * i));
  }
  insert.BindBytes(2, id.data(), id.size());
  insert.Bind(3, PointStatusName(row.status));
  if (!row.diagnostic.empty()) insert.Bind(4, std::string_view(row.diagnostic));
  const std::vector<Json> values = info.design.Values(row.ordinal);
  std::vector<std::string> room(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    BindJson(&insert, first_axis + static_cast<int>(i), values[i], &room[i]);
  for (std::size_t i = 0; i < row.figures.size(); ++i) {
    const int parameter = first_figure + static_cast<int>(columns[i]);
    if (const auto* text = std::get_if<std::string>(&row.figures[i].value)) {
      insert.Bind(parameter, std::string_view(*text));
    } else {
      insert.Bind(parameter, std::get<double>(row.figures[i].value));  // SQLite stores NaN as NULL
    }
  }
  insert.Step();
  insert.Reset();
  stored[row.ordinal] = true;
  ++count;
  ++by_status[static_cast<std::size_t>(row.status)];
}

void Store::Commit() {
  if (!impl_->in_transaction) return;
  if (impl_->orders_changed)
    SetMeta(impl_->database, "main", "orders", OrdersJson(impl_->Orders()));
  impl_->database.Execute("COMMIT");
  impl_->orders_changed = false;
  impl_->in_transaction = false;
  impl_->committed = impl_->count;
}

// Afterwards the main file is all there is. Needs the file for itself, for a moment.
void Store::Impl::LeaveWal() {
  insert = Statement();
  Statement leave(database, "PRAGMA journal_mode = DELETE");
  if (!leave.Step() || leave.Text(0) != "delete") {
    ThrowInput(724, "'" + path + "' is in use by another program",
               "close it there and run the same command again; everything is stored");
  }
}

void Store::Close() {
  Commit();
  if (impl_->prepared && impl_->database.IsOpen()) {
    try {
      impl_->LeaveWal();
    } catch (const InputError&) {
      // Someone reads the file right now. Then its -wal stays beside it, which is as good a store.
    }
  }
  impl_->insert = Statement();
  impl_->database.Close();
  impl_->lock = FileLock();
}

// Figures in the order of the first point that came with them, those of one point in the order that
// they came in: a function of the points, whichever thread, shard or interruption stored them when.
std::vector<FigureColumn> Store::Impl::CanonicalFigures() const {
  ColumnNames fresh;
  for (const std::string& column : info.axis_columns) fresh.Take(column);
  std::vector<FigureColumn> figures;
  std::set<std::string> seen;
  for (const FigureOrder& order : Orders()) {
    for (const std::string& name : order.figures) {
      if (!seen.insert(name).second) continue;
      const auto is = [&](const FigureColumn& column) { return column.name == name; };
      const auto there = std::find_if(info.figures.begin(), info.figures.end(), is);
      figures.push_back({name, fresh.Take(name), there->text});
    }
  }
  return figures;
}

// Everything, in the order of the ordinals, into a new database `beside` this one.
void Store::Impl::WriteFinal(const std::string& beside) {
  StudyInfo final = info;
  final.figures = CanonicalFigures();
  final.orders = Orders();
  std::string to = "ordinal, id, status, diagnostic";
  for (const std::string& column : info.axis_columns) to += ", " + SqlName(column);
  std::string from = to;
  for (const FigureColumn& figure : final.figures) {
    const auto same =
        std::find_if(info.figures.begin(), info.figures.end(),
                     [&](const FigureColumn& each) { return each.name == figure.name; });
    to += ", " + SqlName(figure.column);
    from += ", " + SqlName(same->column);
  }
  {
    Statement attach(database, "ATTACH ? AS final");
    const std::string plain =
        beside.front() == '/' ? beside : "./" + beside;  // never a URI or ":memory:"
    attach.Bind(1, std::string_view(plain));
    attach.Step();
  }
  // A file that only counts once it is whole needs no journal.
  database.Execute("PRAGMA final.page_size = 4096");
  database.Execute("PRAGMA final.journal_mode = OFF");
  database.Execute("PRAGMA final.synchronous = OFF");
  database.Execute("PRAGMA final.cache_size = -131072");
  database.Execute("BEGIN");
  MakeTables(&database, "final", final);
  SetMeta(database, "final", "complete", "true");
  database.Execute("INSERT INTO final.points(" + to + ") SELECT " + from +
                   " FROM main.points ORDER BY ordinal");
  MakeIndex(&database, "final");
  database.Execute("COMMIT");
  database.Execute("DETACH final");
}

void Store::Finish() {
  Impl& impl = *impl_;
  assert(impl.count == impl.to_store);
  Commit();
  if (!impl.info.complete) {
    const std::string beside = impl.path + "-final";
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);  // of a run that was killed here
    impl.insert = Statement();
    impl.insert_ready = false;
    try {
      impl.WriteFinal(beside);
      // A write-ahead log that outlived its database would be applied to the one that takes its
      // name.
      impl.LeaveWal();
    } catch (...) {
      impl.database.Close();
      std::filesystem::remove(beside, ignored);
      throw;
    }
    impl.database.Close();
    try {
      SealStore(beside);
    } catch (const InputError&) {
      std::filesystem::remove(beside, ignored);
      throw;
    }
    SyncFile(beside);
    std::error_code error;
    std::filesystem::rename(beside, impl.path, error);
    if (error) {
      std::filesystem::remove(beside, ignored);
      ThrowInput(726, "cannot replace '" + impl.path + "': " + error.message(),
                 "everything is stored; make its folder writable and run the same command again");
    }
    const std::string folder = std::filesystem::path(impl.path).parent_path().string();
    SyncFile(folder.empty() ? "." : folder);
    impl.info.complete = true;
  }
  Close();
}

}  // namespace aurum
