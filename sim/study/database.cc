#include "sim/study/database.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <cassert>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

// Another program that reads the file holds it for moments; longer than this, it is in use.
constexpr int kBusyMilliseconds = 3000;

// SQLite reads meaning into ":memory:", "" and "file:..."; a path with a folder is only ever a
// file.
std::string PlainPath(const std::string& path) { return path.front() == '/' ? path : "./" + path; }

// SQLite keeps files beside a database, and says no more than that it cannot open it where a folder has their names.
void CheckBeside(const std::string& path) {
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    struct stat status = {};
    const std::string beside = path + suffix;
    if (::stat(beside.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    ThrowInput(720,
               "cannot open '" + path + "': '" + beside +
                   "' is a directory, and a file of that name belongs to the database",
               "rename that directory, or name another file with -o");
  }
}

}  // namespace

Database::Database(const std::string& path, Mode mode) : path_(path) {
  assert(!path.empty());
  CheckBeside(path);
  const int flags =
      mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  // One thread at a time uses a connection, so it needs no mutex of its own.
  const int code =
      sqlite3_open_v2(PlainPath(path).c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    // A destructor does not run for an object that is still being made.
    try {
      Fail(code);
    } catch (...) {
      Close();
      throw;
    }
  }
  sqlite3_extended_result_codes(handle_, 1);
  // A quoted name of a column that is not there is an error, and not the name as a text.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
}

Database::Database(Database&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

Database& Database::operator=(Database&& other) noexcept {
  if (this != &other) {
    Close();
    handle_ = std::exchange(other.handle_, nullptr);
    path_ = std::move(other.path_);
  }
  return *this;
}

Database::~Database() { Close(); }

void Database::Close() {
  if (handle_ != nullptr) sqlite3_close_v2(std::exchange(handle_, nullptr));
}

bool Database::IsReadOnly() const { return sqlite3_db_readonly(handle_, "main") == 1; }

void Database::Execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) Fail(code);
}

void Database::Fail(int code) const {
  if (handle_ == nullptr || (code & 0xff) == SQLITE_NOMEM) throw std::bad_alloc();
  const std::string file = "'" + path_ + "'";
  const std::string reason = sqlite3_errmsg(handle_);
  const int system_error = sqlite3_system_errno(handle_);
  const std::string detail =
      system_error != 0 ? reason + ": " + std::strerror(system_error) : reason;
  switch (code & 0xff) {
    // SQLITE_ERROR: our statements are right for a file that we wrote, so this one is not as we wrote
    // it: a number of its format that nobody knows, a table or column that is gone.
    case SQLITE_ERROR:
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      ThrowInput(721, file + " is not a database, or is damaged (" + reason + ")",
                 "name another file with -o; nothing in this one was changed");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      ThrowInput(724, file + " is in use by another program",
                 "close it there, or wait until it has finished");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      ThrowInput(725, file + " cannot be written (" + reason + ")",
                 "make the file and its folder writable, or name another file with -o");
    case SQLITE_CANTOPEN:
      ThrowInput(720, "cannot open " + file + " (" + detail + ")",
                 "check that its folder exists and that you may read and write in it");
    case SQLITE_FULL:
    case SQLITE_IOERR:
      ThrowInput(726, "cannot read or write " + file + " (" + detail + ")",
                 "free some space and run the same command again: it continues from the points "
                 "that are stored");
    default:
      throw std::logic_error("SQLite: " + reason + " (" + std::to_string(code) + ")");
  }
}

Statement::Statement(const Database& database, const std::string& sql) : database_(&database) {
  Check(sqlite3_prepare_v2(database.handle(), sql.c_str(), static_cast<int>(sql.size()),
                           &statement_, nullptr));
}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  if (this != &other) {
    sqlite3_finalize(statement_);
    database_ = other.database_;
    statement_ = std::exchange(other.statement_, nullptr);
  }
  return *this;
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Check(int code) const {
  if (code != SQLITE_OK) database_->Fail(code);
}

void Statement::BindNull(int parameter) { Check(sqlite3_bind_null(statement_, parameter)); }
void Statement::Bind(int parameter, std::int64_t value) {
  Check(sqlite3_bind_int64(statement_, parameter, value));
}
void Statement::Bind(int parameter, double value) {
  Check(sqlite3_bind_double(statement_, parameter, value));
}
void Statement::Bind(int parameter, std::string_view text) {
  Check(sqlite3_bind_text(statement_, parameter, text.data(), static_cast<int>(text.size()),
                          SQLITE_STATIC));
}
void Statement::BindBytes(int parameter, const void* bytes, std::size_t size) {
  Check(sqlite3_bind_blob(statement_, parameter, bytes, static_cast<int>(size), SQLITE_STATIC));
}

bool Statement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) {
    try {
      database_->Fail(code);
    } catch (...) {
      sqlite3_reset(statement_);
      throw;
    }
  }
  return false;
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
bool Statement::IsText(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_TEXT;
}
bool Statement::IsInteger(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}
std::int64_t Statement::Integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}
double Statement::Number(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr
             ? ""
             : std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::string SqlName(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace aurum
