#include "server/response_database.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sqlite3.h>

namespace di {
namespace {

// Of another process that has the file: only one may, so waiting for it is no use.
bool is_in_use(int code) { return (code & 0xFF) == SQLITE_BUSY || (code & 0xFF) == SQLITE_LOCKED; }

tl::unexpected<Error> sql_error(sqlite3* database, int code) {
    if (is_in_use(code)) {
        return fail(ErrorCode::kUnavailable, "in use by another process, expected a file of its own");
    }
    const int kind = code & 0xFF;
    const bool is_files_fault = kind == SQLITE_NOTADB || kind == SQLITE_CORRUPT;
    return fail(is_files_fault ? ErrorCode::kInvalidFile : ErrorCode::kInternal, "SQLite: {}",
                database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database));
}

Status execute(sqlite3* database, const char* sql) {
    const int code = sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) {
        return sql_error(database, code);
    }
    return {};
}

Result<int64_t> number_of(sqlite3* database, const char* sql) {
    SqlStatement statement(database, sql);
    DI_TRY(const bool has_row, statement.step());
    return has_row ? statement.integer(0) : 0;
}

// SQLite would make it readable by whoever the umask allows; it holds what people wrote.
Status create_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        const int error = errno;
        return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInvalidFile, "{}, expected a file that can be written",
                    std::strerror(error));
    }
    ::close(file);
    return {};
}

}  // namespace

SqlStatement::SqlStatement(sqlite3* database, const char* sql) : database_(database) {
    error_ = sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
}

SqlStatement::~SqlStatement() { sqlite3_finalize(statement_); }

SqlStatement& SqlStatement::bind(int64_t value) {
    ++bound_;
    if (error_ == SQLITE_OK) {
        error_ = sqlite3_bind_int64(statement_, bound_, value);
    }
    return *this;
}

SqlStatement& SqlStatement::bind(std::string_view text) {
    ++bound_;
    if (error_ == SQLITE_OK) {
        error_ = sqlite3_bind_text64(statement_, bound_, text.data() == nullptr ? "" : text.data(), text.size(), SQLITE_STATIC,
                                     SQLITE_UTF8);
    }
    return *this;
}

SqlStatement& SqlStatement::bind_bytes(std::string_view bytes) {
    ++bound_;
    if (error_ == SQLITE_OK) {
        error_ =
            sqlite3_bind_blob64(statement_, bound_, bytes.data() == nullptr ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
    }
    return *this;
}

Result<bool> SqlStatement::step() {
    if (error_ == SQLITE_OK) {
        const int code = sqlite3_step(statement_);
        if (code == SQLITE_ROW || code == SQLITE_DONE) {
            return code == SQLITE_ROW;
        }
        error_ = code;
    }
    return sql_error(database_, error_);
}

Status SqlStatement::run() {
    while (true) {
        DI_TRY(const bool has_row, step());
        if (!has_row) {
            return {};
        }
    }
}

int64_t SqlStatement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string SqlStatement::text(int column) const {
    const void* bytes = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

Result<std::unique_ptr<SqlDatabase>> SqlDatabase::open(const std::string& path, const char* schema, int32_t application,
                                                       int32_t version) {
    std::unique_ptr<SqlDatabase> database(new SqlDatabase());
    if (!path.empty()) {
        if (const Status created = create_file(path); !created) {
            return fail_in(path, created.error());
        }
    }
    const int code =
        sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &database->database_,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
    const Status status =
        code == SQLITE_OK ? database->prepare_file(schema, application, version) : Status(sql_error(database->database_, code));
    if (!status) {
        return fail_in(path.empty() ? "response store" : path, status.error());
    }
    return database;
}

SqlDatabase::~SqlDatabase() { sqlite3_close_v2(database_); }

Status SqlDatabase::prepare_file(const char* schema, int32_t application, int32_t version) {
    // WAL: a commit is one append, and what was committed is there whenever the process is killed. NORMAL: the file is flushed when the log
    // is copied into it; only a machine that loses power may forget the last commits, and never half of one.
    DI_TRY_STATUS(execute(database_,
                          "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                          "PRAGMA journal_size_limit=67108864"));
    return transact([&]() -> Status {
        DI_TRY(const int64_t tables, number_of(database_, "SELECT count(*) FROM sqlite_schema"));
        if (tables == 0) {
            DI_TRY_STATUS(execute(database_, schema));
            DI_TRY_STATUS(execute(database_, fmt::format("PRAGMA application_id={}", application).c_str()));
            return execute(database_, fmt::format("PRAGMA user_version={}", version).c_str());
        }
        DI_TRY(const int64_t found_application, number_of(database_, "PRAGMA application_id"));
        DI_TRY(const int64_t found_version, number_of(database_, "PRAGMA user_version"));
        if (found_application != application) {
            return fail(ErrorCode::kInvalidFile, "a database of another program, expected a response store or a new file");
        }
        if (found_version != version) {
            return fail(ErrorCode::kInvalidFile, "a response store of version {}, expected version {}", found_version, version);
        }
        return {};
    });
}

Status SqlDatabase::transact(const std::function<Status()>& work) {
    DI_TRY_STATUS(execute(database_, "BEGIN IMMEDIATE"));
    Status status = work();
    if (status) {
        status = execute(database_, "COMMIT");
    }
    if (!status && sqlite3_get_autocommit(database_) == 0) {
        // Its own failure adds nothing to what is already wrong; the next BEGIN would tell.
        sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
    }
    return status;
}

}  // namespace di
