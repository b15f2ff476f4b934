#include "server/response_store.h"

#include <algorithm>

#include "server/limits.h"
#include "server/response_database.h"
#include "text/json_text.h"

namespace di {
namespace {

constexpr int32_t kApplication = 0x64695253;  // "diRS"
constexpr int32_t kVersion = 1;

// What changes often stands apart from the texts, so that using a response does not write them again.
constexpr const char* kSchema = R"(
    CREATE TABLE entries (id TEXT PRIMARY KEY, owner TEXT NOT NULL, parent TEXT NOT NULL, created INTEGER NOT NULL,
        expires INTEGER NOT NULL, used INTEGER NOT NULL, complete INTEGER NOT NULL, size INTEGER NOT NULL,
        event_count INTEGER NOT NULL, event_bytes INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX entries_used ON entries (complete, used);
    CREATE INDEX entries_expires ON entries (expires);
    CREATE TABLE texts (id TEXT PRIMARY KEY, input BLOB NOT NULL, output BLOB NOT NULL, body BLOB NOT NULL);
    CREATE TABLE events (id TEXT NOT NULL, number INTEGER NOT NULL, event BLOB NOT NULL, PRIMARY KEY (id, number)) WITHOUT ROWID;
)";

int64_t size_of(const StoredResponse& response) {
    return kStoredResponseOverheadBytes +
           static_cast<int64_t>(response.id.size() + response.owner.size() + response.parent_id.size() +
                                response.input_items.size() + response.output_items.size() + response.body.size());
}

tl::unexpected<Error> too_large(std::string_view id, int64_t bytes, int64_t bytes_max) {
    return fail(ErrorCode::kInvalidArgument, "response {} has {} bytes, the store keeps at most {}", id, bytes, bytes_max);
}

tl::unexpected<Error> not_there(std::string_view id) {
    return fail(ErrorCode::kNotFound, "response {} is not stored: unknown, expired or deleted", short_quoted(id));
}

}  // namespace

// The statements. Sizes are counted here and not by the database: counting would read every entry.
class ResponseStore::Database {
  public:
    struct Entry {
        std::string owner;
        int64_t expires_s = 0;
        int64_t size = 0;
        int64_t event_count = 0;
        int64_t event_bytes = 0;
    };

    static Result<std::unique_ptr<Database>> open(const ResponseStoreOptions& options, int64_t now_s) {
        std::unique_ptr<Database> database(new Database(options));
        DI_TRY(database->sql_, SqlDatabase::open(options.path, kSchema, kApplication, kVersion));
        DI_TRY_STATUS(database->count_all());
        // The limits may be lower than those of the process that wrote the file.
        DI_TRY_STATUS(database->change([&]() -> Status {
            DI_TRY_STATUS(database->remove_expired(now_s));
            return database->make_room("");
        }));
        return database;
    }

    // A transaction; the counts follow it.
    Status change(const std::function<Status()>& work) {
        const ResponseStoreCounts before = counts_;
        const Status status = sql_->transact(work);
        if (!status) {
            counts_ = before;
        }
        return status;
    }

    [[nodiscard]] SqlStatement statement(const char* sql) const { return {sql_->get(), sql}; }

    Result<std::optional<Entry>> find(std::string_view id) const {
        SqlStatement select = statement("SELECT owner, expires, size, event_count, event_bytes FROM entries WHERE id = ?");
        DI_TRY(const bool has_row, select.bind(id).step());
        if (!has_row) {
            return std::nullopt;
        }
        return Entry{select.text(0), select.integer(1), select.integer(2), select.integer(3), select.integer(4)};
    }

    // What of this owner is there now.
    Result<std::optional<Entry>> find(std::string_view id, std::string_view owner, int64_t now_s) const {
        DI_TRY(std::optional<Entry> entry, find(id));
        return entry && entry->owner == owner && entry->expires_s > now_s ? std::move(entry) : std::nullopt;
    }

    Result<StoredResponse> read(std::string_view id) const {
        SqlStatement select = statement(
            "SELECT e.owner, e.parent, e.created, e.complete, t.input, t.output, t.body FROM entries e JOIN texts t USING (id)"
            " WHERE id = ?");
        DI_TRY(const bool has_row, select.bind(id).step());
        if (!has_row) {
            return fail(ErrorCode::kInvalidFile, "response {} has lost its texts", id);
        }
        return StoredResponse{.id = std::string(id),
                              .owner = select.text(0),
                              .created_s = select.integer(2),
                              .parent_id = select.text(1),
                              .input_items = select.text(4),
                              .output_items = select.text(5),
                              .body = select.text(6),
                              .is_complete = select.integer(3) != 0};
    }

    Status write(const StoredResponse& response, const Entry& entry) {
        DI_TRY_STATUS(statement("INSERT OR REPLACE INTO texts VALUES (?, ?, ?, ?)")
                          .bind(response.id)
                          .bind_bytes(response.input_items)
                          .bind_bytes(response.output_items)
                          .bind_bytes(response.body)
                          .run());
        return statement("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
            .bind(response.id)
            .bind(response.owner)
            .bind(response.parent_id)
            .bind(response.created_s)
            .bind(entry.expires_s)
            .bind(next_use())
            .bind(response.is_complete ? 1 : 0)
            .bind(entry.size)
            .bind(entry.event_count)
            .bind(entry.event_bytes)
            .run();
    }

    // These were used now. A hint for what goes first: on a full disk what is kept can still be read.
    void touch(std::span<const StoredResponse> responses) {
        const Status ignored = change([&]() -> Status {
            for (const StoredResponse& response : responses) {
                DI_TRY_STATUS(statement("UPDATE entries SET used = ? WHERE id = ?").bind(next_use()).bind(response.id).run());
            }
            return {};
        });
        static_cast<void>(ignored);
    }

    Status remove(std::string_view id, int64_t size) {
        for (const char* sql :
             {"DELETE FROM entries WHERE id = ?", "DELETE FROM texts WHERE id = ?", "DELETE FROM events WHERE id = ?"}) {
            DI_TRY_STATUS(statement(sql).bind(id).run());
        }
        count(-1, -size);
        return {};
    }

    Status remove_expired(int64_t now_s) {
        while (true) {
            DI_TRY(const auto victim, first_of("SELECT id, size FROM entries WHERE expires <= ? LIMIT 1", now_s));
            if (!victim) {
                return {};
            }
            DI_TRY_STATUS(remove(victim->first, victim->second));
        }
    }

    // Within the limits, without touching `kept`. What still runs goes last: its end would have to be written again.
    Status make_room(std::string_view kept) {
        while (counts_.entries > options_.entries_max || counts_.bytes > options_.bytes_max) {
            DI_TRY(const auto victim,
                   first_of("SELECT id, size FROM entries WHERE id <> ? ORDER BY complete DESC, used LIMIT 1", kept));
            if (!victim) {
                return {};
            }
            DI_TRY_STATUS(remove(victim->first, victim->second));
            ++counts_.evicted;
        }
        return {};
    }

    void count(int64_t entries, int64_t bytes) {
        counts_.entries += entries;
        counts_.bytes += bytes;
    }
    [[nodiscard]] const ResponseStoreCounts& counts() const { return counts_; }

  private:
    explicit Database(const ResponseStoreOptions& options) : options_(options) {}

    int64_t next_use() { return ++last_use_; }

    // Id and size of the first that a statement with one parameter selects.
    template <typename Parameter>
    Result<std::optional<std::pair<std::string, int64_t>>> first_of(const char* sql, Parameter parameter) const {
        SqlStatement select = statement(sql);
        DI_TRY(const bool has_row, select.bind(parameter).step());
        if (!has_row) {
            return std::nullopt;
        }
        return std::pair{select.text(0), select.integer(1)};
    }

    Status count_all() {
        SqlStatement select = statement("SELECT count(*), coalesce(sum(size), 0), coalesce(max(used), 0) FROM entries");
        DI_TRY(const bool has_row, select.step());
        if (has_row) {
            counts_ = {.entries = select.integer(0), .bytes = select.integer(1)};
            last_use_ = select.integer(2);
        }
        return {};
    }

    ResponseStoreOptions options_;
    std::unique_ptr<SqlDatabase> sql_;
    ResponseStoreCounts counts_;
    int64_t last_use_ = 0;  // order of use; no time, which may stand still or go back
};

ResponseStore::ResponseStore(const ResponseStoreOptions& options, std::unique_ptr<Database> database)
    : options_(options), database_(std::move(database)) {}

ResponseStore::~ResponseStore() = default;

Result<std::unique_ptr<ResponseStore>> ResponseStore::open(const ResponseStoreOptions& options, int64_t now_s) {
    DI_TRY(std::unique_ptr<Database> database, Database::open(options, now_s));
    return std::unique_ptr<ResponseStore>(new ResponseStore(options, std::move(database)));
}

Status ResponseStore::put(const StoredResponse& response, int64_t now_s) {
    const std::lock_guard lock(mutex_);
    return database_->change([&]() -> Status {
        DI_TRY_STATUS(database_->remove_expired(now_s));
        DI_TRY(const std::optional<Database::Entry> old, database_->find(response.id));
        if (old && old->owner != response.owner) {
            return fail(ErrorCode::kInvalidArgument, "response {} is there already, expected a new id", response.id);
        }
        Database::Entry entry = old.value_or(Database::Entry{});
        entry.expires_s = response.created_s + options_.lifetime_s;
        entry.size = size_of(response) + entry.event_bytes;
        if (entry.size > options_.bytes_max) {
            return too_large(response.id, entry.size, options_.bytes_max);
        }
        DI_TRY_STATUS(database_->write(response, entry));
        database_->count(old ? 0 : 1, entry.size - (old ? old->size : 0));
        return database_->make_room(response.id);
    });
}

Result<std::optional<StoredResponse>> ResponseStore::get(std::string_view id, std::string_view owner, int64_t now_s) {
    const std::lock_guard lock(mutex_);
    DI_TRY(const std::optional<Database::Entry> entry, database_->find(id, owner, now_s));
    if (!entry) {
        return std::nullopt;
    }
    DI_TRY(StoredResponse response, database_->read(id));
    database_->touch(std::span(&response, 1));
    return response;
}

Result<bool> ResponseStore::erase(std::string_view id, std::string_view owner, int64_t now_s) {
    const std::lock_guard lock(mutex_);
    DI_TRY(const std::optional<Database::Entry> entry, database_->find(id, owner, now_s));
    if (!entry) {
        return false;
    }
    DI_TRY_STATUS(database_->change([&] { return database_->remove(id, entry->size); }));
    return true;
}

Result<std::vector<StoredResponse>> ResponseStore::chain(std::string_view id, std::string_view owner, int64_t now_s) {
    const std::lock_guard lock(mutex_);
    std::vector<StoredResponse> responses;
    int64_t bytes = 0;
    for (std::string next(id); !next.empty(); next = responses.back().parent_id) {
        if (static_cast<int64_t>(responses.size()) >= kResponseChainMax) {
            return fail(ErrorCode::kInvalidArgument, "the chain of response {} is longer than {} responses", short_quoted(id),
                        kResponseChainMax);
        }
        DI_TRY(const std::optional<Database::Entry> entry, database_->find(next, owner, now_s));
        if (!entry) {
            return not_there(next);
        }
        bytes += entry->size - entry->event_bytes;
        if (bytes > kResponseChainBytesMax) {
            return fail(ErrorCode::kInvalidArgument, "the chain of response {} has more than {} bytes", short_quoted(id),
                        kResponseChainBytesMax);
        }
        DI_TRY(StoredResponse response, database_->read(next));
        responses.push_back(std::move(response));
    }
    std::reverse(responses.begin(), responses.end());
    database_->touch(responses);
    return responses;
}

Status ResponseStore::append_events(std::string_view id, std::string_view owner, std::span<const std::string> events,
                                    int64_t now_s) {
    const std::lock_guard lock(mutex_);
    return database_->change([&]() -> Status {
        DI_TRY(const std::optional<Database::Entry> entry, database_->find(id, owner, now_s));
        if (!entry) {
            return not_there(id);
        }
        int64_t number = entry->event_count;
        if (static_cast<int64_t>(events.size()) > kStoredEventsMax - number) {
            return fail(ErrorCode::kInvalidArgument, "response {} has more than {} events", id, kStoredEventsMax);
        }
        int64_t bytes = 0;
        for (const std::string& event : events) {
            DI_TRY_STATUS(
                database_->statement("INSERT INTO events VALUES (?, ?, ?)").bind(id).bind(number++).bind_bytes(event).run());
            bytes += static_cast<int64_t>(event.size());
        }
        if (entry->size + bytes > options_.bytes_max) {
            return too_large(id, entry->size + bytes, options_.bytes_max);
        }
        DI_TRY_STATUS(database_
                          ->statement("UPDATE entries SET event_count = ?1, event_bytes = event_bytes + ?2, size = size + ?2"
                                      " WHERE id = ?3")
                          .bind(number)
                          .bind(bytes)
                          .bind(id)
                          .run());
        database_->count(0, bytes);
        return database_->make_room(id);
    });
}

Result<std::vector<std::string>> ResponseStore::events(std::string_view id, std::string_view owner, int64_t first,
                                                       int64_t count_max, int64_t now_s) {
    const std::lock_guard lock(mutex_);
    DI_TRY(const std::optional<Database::Entry> entry, database_->find(id, owner, now_s));
    if (!entry) {
        return not_there(id);
    }
    SqlStatement select = database_->statement("SELECT event FROM events WHERE id = ? AND number >= ? ORDER BY number LIMIT ?");
    select.bind(id).bind(first).bind(count_max);
    std::vector<std::string> events;
    while (true) {
        DI_TRY(const bool has_row, select.step());
        if (!has_row) {
            return events;
        }
        events.push_back(select.text(0));
    }
}

Result<std::vector<StoredResponse>> ResponseStore::unfinished() {
    const std::lock_guard lock(mutex_);
    SqlStatement select = database_->statement("SELECT id FROM entries WHERE complete = 0 ORDER BY used");
    std::vector<StoredResponse> responses;
    while (true) {
        DI_TRY(const bool has_row, select.step());
        if (!has_row) {
            return responses;
        }
        DI_TRY(StoredResponse response, database_->read(select.text(0)));
        responses.push_back(std::move(response));
    }
}

ResponseStoreCounts ResponseStore::counts() const {
    const std::lock_guard lock(mutex_);
    return database_->counts();
}

}  // namespace di
