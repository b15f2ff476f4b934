#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

// The little of SQLite that response_store.cpp needs.
namespace di {

// One statement, run once. Parameters are bound in the order of their places; an error of any step is that of the whole.
class SqlStatement {
  public:
    SqlStatement(sqlite3* database, const char* sql);
    ~SqlStatement();
    SqlStatement(const SqlStatement&) = delete;
    SqlStatement& operator=(const SqlStatement&) = delete;

    SqlStatement& bind(int64_t value);
    SqlStatement& bind(std::string_view text);  // must live until the statement has run
    SqlStatement& bind_bytes(std::string_view bytes);

    // The next row; false: no more.
    [[nodiscard]] Result<bool> step();
    // Runs to the end.
    [[nodiscard]] Status run();

    [[nodiscard]] int64_t integer(int column) const;
    [[nodiscard]] std::string text(int column) const;

  private:
    sqlite3* database_;
    sqlite3_stmt* statement_ = nullptr;
    int bound_ = 0;
    int error_ = 0;  // the first
};

class SqlDatabase {
  public:
    // Creates the file (readable by its owner alone) or takes an existing one, and keeps it from other processes. Path "": in memory.
    // `schema` makes the tables of a new one; `application` and `version` tell ours from others'.
    [[nodiscard]] static Result<std::unique_ptr<SqlDatabase>> open(const std::string& path, const char* schema,
                                                                   int32_t application, int32_t version);
    ~SqlDatabase();
    SqlDatabase(const SqlDatabase&) = delete;
    SqlDatabase& operator=(const SqlDatabase&) = delete;

    [[nodiscard]] sqlite3* get() const { return database_; }
    // All of what `work` does, or nothing of it where it fails.
    [[nodiscard]] Status transact(const std::function<Status()>& work);

  private:
    SqlDatabase() = default;
    [[nodiscard]] Status prepare_file(const char* schema, int32_t application, int32_t version);

    sqlite3* database_ = nullptr;
};

}  // namespace di
