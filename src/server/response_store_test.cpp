#include "server/response_store.h"

#include <csignal>
#include <filesystem>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/random.h"
#include "server/limits.h"
#include "temporary_directory.h"

namespace di {
namespace {

constexpr int64_t kNow = 1'700'000'000;

StoredResponse response_of(const std::string& id, const std::string& parent = "", const std::string& owner = "alice") {
    return {.id = id,
            .owner = owner,
            .created_s = kNow,
            .parent_id = parent,
            .input_items = "[\"in " + id + "\"]",
            .output_items = "[\"out " + id + "\"]",
            .body = "{\"id\": \"" + id + "\"}"};
}

// The same promises in memory and in a file.
class ResponseStoreTest : public testing::TestWithParam<bool> {
  protected:
    [[nodiscard]] std::unique_ptr<ResponseStore> open(ResponseStoreOptions options = {}) const {
        options.path = GetParam() ? directory_.file("store.db") : "";
        auto store = ResponseStore::open(options, kNow);
        EXPECT_TRUE(store.has_value()) << store.error().text;
        return std::move(*store);
    }

    static bool has(ResponseStore& store, const std::string& id, const std::string& owner = "alice", int64_t now_s = kNow) {
        return store.get(id, owner, now_s).value().has_value();
    }

    TemporaryDirectory directory_;
};

TEST_P(ResponseStoreTest, GivesBackWhatItKept) {
    const auto store = open();
    StoredResponse given = response_of("resp_1", "resp_0");
    given.body = std::string("any\0bytes \xff", 11);
    given.is_complete = false;
    ASSERT_TRUE(store->put(given, kNow).has_value());
    const StoredResponse kept = store->get("resp_1", "alice", kNow).value().value();
    EXPECT_EQ(kept.id, given.id);
    EXPECT_EQ(kept.owner, given.owner);
    EXPECT_EQ(kept.created_s, given.created_s);
    EXPECT_EQ(kept.parent_id, given.parent_id);
    EXPECT_EQ(kept.input_items, given.input_items);
    EXPECT_EQ(kept.output_items, given.output_items);
    EXPECT_EQ(kept.body, given.body);
    EXPECT_FALSE(kept.is_complete);
    EXPECT_EQ(store->counts().entries, 1);
    EXPECT_FALSE(has(*store, "resp_2"));
    EXPECT_FALSE(has(*store, ""));
}

TEST_P(ResponseStoreTest, ASecondPutTakesThePlaceOfTheFirst) {
    const auto store = open();
    ASSERT_TRUE(store->put(response_of("resp_1"), kNow).has_value());
    const int64_t bytes = store->counts().bytes;
    StoredResponse later = response_of("resp_1");
    later.body += "12345";
    ASSERT_TRUE(store->put(later, kNow).has_value());
    EXPECT_EQ(store->get("resp_1", "alice", kNow).value()->body, later.body);
    EXPECT_EQ(store->counts().entries, 1);
    EXPECT_EQ(store->counts().bytes, bytes + 5);
}

TEST_P(ResponseStoreTest, ForOthersAResponseDoesNotExist) {
    const auto store = open();
    ASSERT_TRUE(store->put(response_of("resp_1"), kNow).has_value());
    EXPECT_FALSE(has(*store, "resp_1", "bob"));
    EXPECT_FALSE(has(*store, "resp_1", ""));
    EXPECT_FALSE(store->erase("resp_1", "bob", kNow).value());
    EXPECT_EQ(store->chain("resp_1", "bob", kNow).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(store->events("resp_1", "bob", 0, 10, kNow).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(store->append_events("resp_1", "bob", std::vector<std::string>{"x"}, kNow).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(store->put(response_of("resp_1", "", "bob"), kNow).error().code, ErrorCode::kInvalidArgument);
    ASSERT_TRUE(store->put(response_of("resp_2", "resp_1", "bob"), kNow).has_value());
    EXPECT_EQ(store->chain("resp_2", "bob", kNow).error().text,
              "response \"resp_1\" is not stored: unknown, expired or deleted");
    EXPECT_TRUE(has(*store, "resp_1"));
}

TEST_P(ResponseStoreTest, WhatIsErasedIsGoneOnce) {
    const auto store = open();
    ASSERT_TRUE(store->put(response_of("resp_1"), kNow).has_value());
    ASSERT_TRUE(store->append_events("resp_1", "alice", std::vector<std::string>{"x"}, kNow).has_value());
    EXPECT_TRUE(store->erase("resp_1", "alice", kNow).value());
    EXPECT_FALSE(store->erase("resp_1", "alice", kNow).value());
    EXPECT_FALSE(has(*store, "resp_1"));
    EXPECT_EQ(store->counts().entries, 0);
    EXPECT_EQ(store->counts().bytes, 0);
    ASSERT_TRUE(store->put(response_of("resp_1"), kNow).has_value());
    EXPECT_TRUE(store->events("resp_1", "alice", 0, 10, kNow)->empty()) << "events of an erased response came back";
}

TEST_P(ResponseStoreTest, AResponseLivesForItsTimeFromItsCreation) {
    const auto store = open({.lifetime_s = 100});
    ASSERT_TRUE(store->put(response_of("resp_1"), kNow).has_value());
    EXPECT_TRUE(has(*store, "resp_1", "alice", kNow + 99));
    EXPECT_FALSE(has(*store, "resp_1", "alice", kNow + 100));
    EXPECT_FALSE(store->erase("resp_1", "alice", kNow + 100).value());
    StoredResponse later = response_of("resp_2");
    later.created_s = kNow + 100;
    ASSERT_TRUE(store->put(later, kNow + 100).has_value());
    EXPECT_EQ(store->counts().entries, 1) << "expired ones make room with the next put";
    EXPECT_EQ(store->counts().evicted, 0);
}

TEST_P(ResponseStoreTest, WhenFullTheLeastRecentlyUsedGoes) {
    const auto store = open({.entries_max = 3});
    for (const char* id : {"resp_1", "resp_2", "resp_3"}) {
        ASSERT_TRUE(store->put(response_of(id), kNow).has_value());
    }
    EXPECT_TRUE(has(*store, "resp_1"));  // which makes resp_2 the one
    ASSERT_TRUE(store->put(response_of("resp_4"), kNow).has_value());
    EXPECT_FALSE(has(*store, "resp_2"));
    EXPECT_TRUE(has(*store, "resp_1") && has(*store, "resp_3") && has(*store, "resp_4"));
    EXPECT_EQ(store->counts().entries, 3);
    EXPECT_EQ(store->counts().evicted, 1);
}

TEST_P(ResponseStoreTest, BytesAreBoundedToo) {
    const auto store = open({.bytes_max = 20'000});
    StoredResponse large = response_of("resp_0");
    large.body.assign(6'000, 'x');
    for (int i = 0; i < 20; ++i) {
        large.id = "resp_" + std::to_string(i);
        ASSERT_TRUE(store->put(large, kNow).has_value());
        EXPECT_LE(store->counts().bytes, 20'000);
    }
    EXPECT_EQ(store->counts().entries, 3);
    large.id = "resp_20";
    large.body.assign(20'000, 'x');
    const Status status = store->put(large, kNow);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(store->counts().entries, 3) << "what cannot be kept pushes nothing out";
    EXPECT_TRUE(has(*store, "resp_19"));
}

TEST_P(ResponseStoreTest, WhatStillRunsIsTheLastToGo) {
    const auto store = open({.entries_max = 2});
    StoredResponse running = response_of("resp_1");
    running.is_complete = false;
    ASSERT_TRUE(store->put(running, kNow).has_value());
    for (const char* id : {"resp_2", "resp_3", "resp_4"}) {
        ASSERT_TRUE(store->put(response_of(id), kNow).has_value());
    }
    EXPECT_TRUE(has(*store, "resp_1") && has(*store, "resp_4"));
    EXPECT_FALSE(has(*store, "resp_3"));
}

TEST_P(ResponseStoreTest, AChainIsWalkedToItsBeginning) {
    const auto store = open({.entries_max = 4});
    ASSERT_TRUE(store->put(response_of("resp_1"), kNow).has_value());
    ASSERT_TRUE(store->put(response_of("resp_2", "resp_1"), kNow).has_value());
    ASSERT_TRUE(store->put(response_of("resp_3", "resp_2"), kNow).has_value());
    ASSERT_TRUE(store->put(response_of("other"), kNow).has_value());
    const auto chain = store->chain("resp_3", "alice", kNow).value();
    ASSERT_EQ(chain.size(), 3U);
    EXPECT_EQ(chain[0].id, "resp_1");
    EXPECT_EQ(chain[2].output_items, "[\"out resp_3\"]");
    ASSERT_TRUE(store->put(response_of("resp_5"), kNow).has_value());
    EXPECT_FALSE(has(*store, "other")) << "a chain is used as a whole";
    EXPECT_TRUE(store->erase("resp_2", "alice", kNow).value());
    EXPECT_EQ(store->chain("resp_3", "alice", kNow).error().text,
              "response \"resp_2\" is not stored: unknown, expired or deleted");
    EXPECT_EQ(store->chain("resp_1", "alice", kNow)->size(), 1U);
    EXPECT_EQ(store->chain("", "alice", kNow)->size(), 0U);
}

TEST_P(ResponseStoreTest, AChainHasALimit) {
    const auto store = open();
    std::string parent;
    for (int64_t i = 0; i <= kResponseChainMax; ++i) {
        const std::string id = "resp_" + std::to_string(i);
        ASSERT_TRUE(store->put(response_of(id, parent), kNow).has_value());
        parent = id;
    }
    EXPECT_EQ(store->chain("resp_999", "alice", kNow)->size(), 1000U);
    EXPECT_EQ(store->chain(parent, "alice", kNow).error().code, ErrorCode::kInvalidArgument);
    // Two that name each other end, too.
    ASSERT_TRUE(store->put(response_of("resp_a", "resp_b"), kNow).has_value());
    ASSERT_TRUE(store->put(response_of("resp_b", "resp_a"), kNow).has_value());
    EXPECT_EQ(store->chain("resp_a", "alice", kNow).error().code, ErrorCode::kInvalidArgument);
    StoredResponse large = response_of("resp_c", "resp_0");
    large.body.assign(static_cast<size_t>(kResponseChainBytesMax), 'x');
    ASSERT_TRUE(store->put(large, kNow).has_value());
    EXPECT_EQ(store->chain("resp_c", "alice", kNow).error().code, ErrorCode::kInvalidArgument);
}

TEST_P(ResponseStoreTest, EventsComeInTheirOrderFromAnyNumber) {
    const auto store = open();
    StoredResponse response = response_of("resp_1");
    response.is_complete = false;
    ASSERT_TRUE(store->put(response, kNow).has_value());
    const int64_t bytes = store->counts().bytes;
    ASSERT_TRUE(store->append_events("resp_1", "alice", std::vector<std::string>{"a", "b"}, kNow).has_value());
    ASSERT_TRUE(store->append_events("resp_1", "alice", {}, kNow).has_value());
    ASSERT_TRUE(store->append_events("resp_1", "alice", std::vector<std::string>{"", "dd"}, kNow).has_value());
    EXPECT_EQ(store->counts().bytes, bytes + 4);
    response.is_complete = true;
    ASSERT_TRUE(store->put(response, kNow).has_value());
    EXPECT_EQ(store->counts().bytes, bytes + 4);
    using Texts = std::vector<std::string>;
    EXPECT_EQ(store->events("resp_1", "alice", 0, 100, kNow).value(), (Texts{"a", "b", "", "dd"})) << "a put keeps the events";
    EXPECT_EQ(store->events("resp_1", "alice", 1, 2, kNow).value(), (Texts{"b", ""}));
    EXPECT_EQ(store->events("resp_1", "alice", 4, 2, kNow).value(), Texts{});
    EXPECT_EQ(store->append_events("resp_2", "alice", Texts{"x"}, kNow).error().code, ErrorCode::kNotFound);
}

TEST_P(ResponseStoreTest, EventsAreBounded) {
    const auto store = open({.bytes_max = 100'000});
    ASSERT_TRUE(store->put(response_of("resp_1"), kNow).has_value());
    const ResponseStoreCounts before = store->counts();
    const std::vector<std::string> many(static_cast<size_t>(kStoredEventsMax) + 1);
    EXPECT_EQ(store->append_events("resp_1", "alice", many, kNow).error().code, ErrorCode::kInvalidArgument);
    const std::vector<std::string> large{"a", std::string(100'000, 'x')};
    EXPECT_EQ(store->append_events("resp_1", "alice", large, kNow).error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(store->events("resp_1", "alice", 0, 10, kNow)->empty()) << "all of them are kept or none";
    EXPECT_EQ(store->counts().bytes, before.bytes);
}

TEST_P(ResponseStoreTest, CountsStayTrueWhateverHappens) {
    const uint64_t seed = 20;
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const auto store = open({.entries_max = 20, .bytes_max = 30'000, .lifetime_s = 50});
    int64_t now_s = kNow;
    for (int i = 0; i < 2000; ++i) {
        const std::string id = "resp_" + std::to_string(random.below(40));
        now_s += random.below(3);
        const int64_t what = random.below(10);
        if (what < 6) {
            StoredResponse response = response_of(id);
            response.created_s = now_s;
            response.is_complete = what != 0;
            response.body.assign(static_cast<size_t>(random.below(4000)), 'x');
            ASSERT_TRUE(store->put(response, now_s).has_value());
            ASSERT_TRUE(has(*store, id, "alice", now_s));
        } else if (what < 8) {
            const std::vector<std::string> events(2, std::string(static_cast<size_t>(random.below(500)), 'e'));
            const Status status = store->append_events(id, "alice", events, now_s);
            ASSERT_EQ(status.has_value(), has(*store, id, "alice", now_s));
        } else {
            ASSERT_TRUE(store->erase(id, "alice", now_s).has_value());
        }
        ASSERT_LE(store->counts().entries, 20);
        ASSERT_LE(store->counts().bytes, 30'000);
    }
    for (int i = 0; i < 40; ++i) {
        ASSERT_TRUE(store->erase("resp_" + std::to_string(i), "alice", now_s).has_value());
    }
    ASSERT_TRUE(store->put(response_of("resp_x"), now_s).has_value());  // sweeps what has expired
    ASSERT_TRUE(store->erase("resp_x", "alice", kNow).has_value());
    EXPECT_EQ(store->counts().entries, 0);
    EXPECT_EQ(store->counts().bytes, 0);
}

TEST_P(ResponseStoreTest, SeveralThreadsMayUseIt) {
    const auto store = open();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&store, t] {
            for (int i = 0; i < 50; ++i) {
                const std::string id = "resp_" + std::to_string(t) + "_" + std::to_string(i);
                EXPECT_TRUE(store->put(response_of(id), kNow).has_value());
                EXPECT_TRUE(store->get(id, "alice", kNow)->has_value());
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(store->counts().entries, 200);
}

INSTANTIATE_TEST_SUITE_P(, ResponseStoreTest, testing::Bool(),
                         [](const auto& store) { return store.param ? "InAFile" : "InMemory"; });

Result<std::unique_ptr<ResponseStore>> open_file(const std::string& path, ResponseStoreOptions options = {}) {
    options.path = path;
    return ResponseStore::open(options, kNow);
}

TEST(ResponseStoreFile, SurvivesARestart) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("store.db");
    {
        const auto store = open_file(path).value();
        StoredResponse running = response_of("resp_1");
        running.is_complete = false;
        ASSERT_TRUE(store->put(running, kNow).has_value());
        ASSERT_TRUE(store->put(response_of("resp_2", "resp_1"), kNow).has_value());
        ASSERT_TRUE(store->append_events("resp_1", "alice", std::vector<std::string>{"a", "b"}, kNow).has_value());
    }
    const auto store = open_file(path).value();
    EXPECT_EQ(store->counts().entries, 2);
    EXPECT_EQ(store->chain("resp_2", "alice", kNow)->size(), 2U);
    EXPECT_EQ(store->events("resp_1", "alice", 0, 10, kNow)->size(), 2U);
    const auto unfinished = store->unfinished().value();
    ASSERT_EQ(unfinished.size(), 1U);
    EXPECT_EQ(unfinished[0].id, "resp_1");
    EXPECT_EQ(unfinished[0].owner, "alice");
}

TEST(ResponseStoreFile, LowerLimitsHoldFromTheOpeningOn) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("store.db");
    {
        const auto store = open_file(path).value();
        for (int i = 0; i < 10; ++i) {
            ASSERT_TRUE(store->put(response_of("resp_" + std::to_string(i)), kNow).has_value());
        }
    }
    const auto store = open_file(path, {.entries_max = 4}).value();
    EXPECT_EQ(store->counts().entries, 4);
    EXPECT_TRUE(store->get("resp_9", "alice", kNow)->has_value());
    EXPECT_FALSE(store->get("resp_5", "alice", kNow)->has_value());
}

TEST(ResponseStoreFile, BelongsToOneProcessAndToItsOwner) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("store.db");
    const auto store = open_file(path).value();
    const auto second = open_file(path);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(second.error().text, path + ": in use by another process, expected a file of its own");
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
        EXPECT_EQ(entry.status().permissions() & std::filesystem::perms(077), std::filesystem::perms::none) << entry.path();
    }
}

TEST(ResponseStoreFile, ErrorsNameTheFile) {
    const TemporaryDirectory directory;
    const auto absent = open_file(directory.file("no/such/folder"));
    ASSERT_FALSE(absent.has_value());
    EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
    const std::string text = directory.file("text");
    directory.write("text", "this is no database, and it is long enough to be looked at by whoever opens it");
    const auto wrong = open_file(text);
    ASSERT_FALSE(wrong.has_value());
    EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidFile);
    EXPECT_TRUE(wrong.error().text.starts_with(text)) << wrong.error().text;
    EXPECT_EQ(std::filesystem::file_size(text), 78U) << "and leave it alone";
}

// Keeps responses until it is killed, and says of each that it has been kept.
[[noreturn]] void keep_until_killed(const std::string& path, int pipe) {
    const auto store = open_file(path, {.entries_max = 100'000});
    for (int32_t i = 0; store.has_value(); ++i) {
        StoredResponse response = response_of("resp_" + std::to_string(i));
        response.body.assign(static_cast<size_t>(i % 100) * 100, 'x');
        if (!(*store)->put(response, kNow) || ::write(pipe, &i, sizeof(i)) != sizeof(i)) {
            break;
        }
    }
    ::_exit(1);
}

TEST(ResponseStoreFile, AKillLosesNothingThatWasReportedAsKept) {
    SeededRandom random(7);
    for (int round = 0; round < 10; ++round) {
        const TemporaryDirectory directory;
        const std::string path = directory.file("store.db");
        int ends[2];
        ASSERT_EQ(::pipe(ends), 0);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            ::close(ends[0]);
            keep_until_killed(path, ends[1]);
        }
        ::close(ends[1]);
        const int64_t wanted = 1 + random.below(60);
        int32_t last = -1;
        for (int64_t i = 0; i < wanted; ++i) {
            ASSERT_EQ(::read(ends[0], &last, sizeof(last)), static_cast<ssize_t>(sizeof(last)));
        }
        ASSERT_EQ(::kill(child, SIGKILL), 0);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status));
        // What it still said before it died counts.
        while (::read(ends[0], &last, sizeof(last)) == static_cast<ssize_t>(sizeof(last))) {
        }
        ::close(ends[0]);
        const auto store = open_file(path, {.entries_max = 100'000});
        ASSERT_TRUE(store.has_value()) << store.error().text;
        for (int32_t i = 0; i <= last; ++i) {
            const auto kept = (*store)->get("resp_" + std::to_string(i), "alice", kNow).value();
            ASSERT_TRUE(kept.has_value()) << "round " << round << ": " << i << " of " << last;
            EXPECT_EQ(kept->body.size(), static_cast<size_t>(i % 100) * 100);
        }
        EXPECT_LE((*store)->counts().entries, last + 2) << "at most one more, whose word was not heard";
    }
}

}  // namespace
}  // namespace di
