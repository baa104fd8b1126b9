#include "sim/study/store_reader.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>

#include "sim/core/diagnostic.h"
#include "sim/core/object_reader.h"
#include "sim/study/database.h"
#include "sim/study/store_seal.h"

namespace aurum {
namespace {

constexpr const char* kOtherInput = "name another file; nothing in this one was changed";

[[noreturn]] void Damaged(const Database& database, const std::string& what) {
  ThrowInput(721, "'" + database.path() + "' is damaged: " + what, kOtherInput);
}

std::map<std::string, std::string> ReadMeta(const Database& database) {
  std::map<std::string, std::string> meta;
  bool found = false;
  {
    Statement tables(
        database,
        "SELECT count(*) FROM pragma_table_info('meta') WHERE name = 'key' OR name = 'value'");
    found = tables.Step() && tables.Integer(0) == 2;
  }
  if (found) {
    Statement rows(database, "SELECT key, value FROM meta");
    while (rows.Step()) meta[rows.Text(0)] = rows.Text(1);
  }
  const auto schema = meta.find("schema");
  if (schema == meta.end() || schema->second.rfind("aurum.sweep/", 0) != 0) {
    ThrowInput(722, "'" + database.path() + "' is a database of something else, not of a sweep",
               kOtherInput);
  }
  if (schema->second != kSweepSchema && schema->second != kDesignSchema) {
    ThrowInput(727,
               "'" + database.path() + "' has the layout " + schema->second +
                   "; this version of Aurum knows " + std::string(kSweepSchema) + " and " +
                   std::string(kDesignSchema),
               "use the version that wrote it, or sweep again into another file");
  }
  return meta;
}

std::vector<FigureOrder> ReadOrders(const std::string& text, const std::string& path) {
  std::vector<FigureOrder> orders;
  const JsonDocument document = ParseJson(text, path);
  const auto is = [](bool right) {
    if (!right) ThrowInput(721, "its list of figures is none");
  };
  is(document.root.IsArray());
  for (const Json& each : document.root.items()) {
    is(each.IsArray() && each.items().size() == 2 && each.items()[0].IsInteger() &&
       each.items()[0].AsInteger() >= 0 && each.items()[1].IsArray());
    FigureOrder order;
    order.first = static_cast<std::size_t>(each.items()[0].AsInteger());
    for (const Json& name : each.items()[1].items()) {
      is(name.IsString());
      order.figures.push_back(name.AsString());
    }
    orders.push_back(std::move(order));
  }
  return orders;
}

// After the four columns that every store has.
constexpr int kFirstFigure = 4;

std::string SelectPoints(const StudyInfo& info) {
  std::string sql = "SELECT ordinal, id, status, diagnostic";
  for (const FigureColumn& figure : info.figures) sql += ", " + SqlName(figure.column);
  return sql + " FROM points ORDER BY ordinal";
}

}  // namespace

StudyInfo ReadStudyInfo(const Database& database) {
  const auto meta = ReadMeta(database);
  const auto text = [&](const std::string& key) {
    const auto found = meta.find(key);
    return found == meta.end() ? std::string() : found->second;
  };
  StudyInfo info;
  info.result_schema = text("result_schema");
  info.tool_version = text("tool_version");
  info.fingerprint = text("fingerprint");
  info.complete = text("complete") == "true";
  try {
    info.scenario = ParseJson(text("scenario"), database.path()).root;
    std::string section = R"({"sweep": {"axes": )" + text("axes");
    if (meta.contains("design")) section += R"(, "design": )" + text("design");
    info.design = ReadDesign(ParseJson(section + "}}", database.path()));
    info.points = info.design.points();
    const JsonDocument columns = ParseJson(text("columns"), database.path());
    ObjectReader reader(columns, columns.root, "");
    for (ObjectReader& axis : reader.Objects("axes"))
      info.axis_columns.push_back(axis.String("column"));
    for (ObjectReader& figure : reader.Objects("figures")) {
      info.figures.push_back(
          {figure.String("name"), figure.String("column"), figure.String("type") == "text"});
    }
  } catch (const InputError& error) {
    Damaged(database, error.diagnostic().message);
  }
  try {
    if (meta.contains("shard")) info.shard = ParseShard(text("shard"));
    if (meta.contains("orders")) info.orders = ReadOrders(text("orders"), database.path());
  } catch (const InputError& error) {
    Damaged(database, error.diagnostic().message);
  }
  for (const FigureOrder& order : info.orders) {
    for (const std::string& name : order.figures) {
      const bool there =
          std::any_of(info.figures.begin(), info.figures.end(),
                      [&](const FigureColumn& figure) { return figure.name == name; });
      if (!there) Damaged(database, "it has no column of " + name);
    }
  }
  if (info.axis_columns.size() != info.design.axes().size())
    Damaged(database, "its columns do not match its axes");
  if (meta.contains("drawn") && text("drawn") != info.design.drawn().Hex()) {
    ThrowInput(728,
               "the points of '" + database.path() +
                   "' were drawn on a machine whose arithmetic differs from this one's",
               "go on where it was begun, or sweep again into another file");
  }
  return info;
}

struct StoreReader::Impl {
  Database database;
  StudyInfo info;
  Statement points;
};

StoreReader::StoreReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) ThrowInput(201, "no such file: '" + path + "'");
  if (std::filesystem::is_directory(path, ignored))
    ThrowInput(720, "'" + path + "' is a directory", "name a file");
  // Of a pipe, reading would wait for somebody to write.
  if (!std::filesystem::is_regular_file(path, ignored))
    ThrowInput(720, "'" + path + "' is not a regular file", "name a file");
  impl_->database = Database(path, Database::Mode::kReadOnly);
  // Before anything is locked: SQLite's locks on a file go with any descriptor that is closed on it.
  ReadMeta(impl_->database);  // another program may number its own versions where the seal is
  CheckSeal(path);
  // One view of the file from here on, even while a sweep is writing to it.
  impl_->database.Execute("BEGIN");
  impl_->info = ReadStudyInfo(impl_->database);
  impl_->points = Statement(impl_->database, SelectPoints(impl_->info));
}

StoreReader::StoreReader(StoreReader&&) noexcept = default;
StoreReader& StoreReader::operator=(StoreReader&&) noexcept = default;
StoreReader::~StoreReader() = default;

const StudyInfo& StoreReader::info() const { return impl_->info; }

std::size_t StoreReader::Count() const {
  Statement count(impl_->database, "SELECT count(*) FROM points");
  return count.Step() ? static_cast<std::size_t>(count.Integer(0)) : 0;
}

std::size_t StoreReader::Count(PointStatus status) const {
  Statement count(impl_->database, "SELECT count(*) FROM points WHERE status = ?");
  count.Bind(1, PointStatusName(status));
  return count.Step() ? static_cast<std::size_t>(count.Integer(0)) : 0;
}

bool StoreReader::Next(StoredPoint* point) {
  Statement& row = impl_->points;
  const StudyInfo& info = impl_->info;
  if (!row.Step()) return false;
  point->ordinal = static_cast<std::size_t>(row.Integer(0));
  const std::string id = row.Text(1);
  if (point->ordinal >= info.points || id.size() != sizeof point->id) {
    Damaged(impl_->database, "row " + std::to_string(row.Integer(0)) + " is no point of its study");
  }
  std::uint64_t words[2] = {0, 0};
  for (std::size_t i = 0; i < 16; ++i)
    words[i / 8] = words[i / 8] << 8 | static_cast<unsigned char>(id[i]);
  point->id = {words[0], words[1]};
  const std::string status = row.Text(2);
  bool known = false;
  for (const PointStatus each :
       {PointStatus::kOk, PointStatus::kInfeasible, PointStatus::kFailed}) {
    if (status != PointStatusName(each)) continue;
    point->status = each;
    known = true;
  }
  const auto odd = [&](const std::string& what) {
    Damaged(impl_->database, "row " + std::to_string(row.Integer(0)) + " " + what);
  };
  if (!known) odd("has the status '" + status + "'");
  point->diagnostic = row.Text(3);
  point->axis_values = info.design.Values(point->ordinal);
  point->figures.clear();
  for (std::size_t i = 0; i < info.figures.size(); ++i) {
    const int column = kFirstFigure + static_cast<int>(i);
    if (row.IsNull(column)) {
      point->figures.emplace_back();
    } else if (row.IsText(column) != info.figures[i].text) {
      odd("has no " + std::string(info.figures[i].text ? "text" : "number") + " as its " +
          info.figures[i].name);
    } else if (row.IsText(column)) {
      point->figures.emplace_back(row.Text(column));
    } else {
      point->figures.emplace_back(row.Number(column));
    }
  }
  return true;
}

}  // namespace aurum
