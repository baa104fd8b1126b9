#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace aurum {

// A thin owner of an SQLite connection, for the store's own files. What a user can cause becomes an
// InputError that names the remedy:
//   E0720 cannot be opened or created · E0721 not a database, or damaged · E0724 in use by another
//   program E0725 read-only · E0726 disk full or failing
// Anything else that SQLite reports is a mistake in our SQL: std::logic_error.
class Database {
 public:
  enum class Mode { kReadOnly, kCreate };  // kCreate: to write, and made if absent

  Database() = default;
  Database(const std::string& path, Mode mode);
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  bool IsOpen() const { return handle_ != nullptr; }
  bool IsReadOnly() const;
  void Execute(const std::string& sql);
  // Throws what `code` of the last call deserves.
  [[noreturn]] void Fail(int code) const;
  void Close();

  sqlite3* handle() const { return handle_; }
  const std::string& path() const { return path_; }

 private:
  sqlite3* handle_ = nullptr;
  std::string path_;
};

// A prepared statement; parameters and columns count as SQLite counts them: parameters from 1,
// columns from 0.
class Statement {
 public:
  Statement() = default;
  Statement(const Database& database, const std::string& sql);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  // Texts and bytes must live until Reset().
  void BindNull(int parameter);
  void Bind(int parameter, std::int64_t value);
  void Bind(int parameter, double value);
  void Bind(int parameter, std::string_view text);
  void BindBytes(int parameter, const void* bytes, std::size_t size);
  bool Step();   // true: there is a row
  void Reset();  // for the next Step, and unbinds

  bool IsNull(int column) const;
  bool IsText(int column) const;
  bool IsInteger(int column) const;
  std::int64_t Integer(int column) const;
  double Number(int column) const;
  std::string Text(int column) const;  // also of a blob: its bytes

 private:
  void Check(int code) const;

  const Database* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

// An SQL identifier, quoted.
std::string SqlName(std::string_view name);

}  // namespace aurum
