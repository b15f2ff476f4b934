#include "http/request_framing.h"

#include <string>

#include <gtest/gtest.h>

#include "http/request_target.h"

namespace di {
namespace {

using State = RequestFraming::State;

FramingLimits small_limits() { return {.header_bytes_max = 200, .body_bytes_max = 20}; }

// Feeds in pieces of `step` bytes until a request is complete or refused, and gives what was used.
size_t feed_in_steps(RequestFraming& framing, std::string_view bytes, size_t step) {
    size_t used = 0;
    while (used < bytes.size() && framing.state() != State::kComplete && framing.state() != State::kFault) {
        const size_t count = framing.feed(bytes.substr(used, step));
        if (count == 0) {
            ADD_FAILURE() << "no byte of " << bytes.substr(used, step) << " was used";
            break;
        }
        used += count;
    }
    return used;
}

HttpFault fault_of(std::string_view bytes, const FramingLimits& limits = {}) {
    RequestFraming framing(limits);
    feed_in_steps(framing, bytes, bytes.size());
    EXPECT_EQ(framing.state(), State::kFault) << bytes;
    return framing.fault();
}

TEST(RequestFraming, CutsTheSameRequestsWhateverThePiecesAre) {
    const std::string bytes =
        "POST /a%20b?x=%20 HTTP/1.1\r\nHost: h\r\nX-One:  two words \r\nContent-Length: 5\r\n\r\nhello"
        "\r\nPOST /chunks HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3;x=1\r\nabc\r\n0a\r\n0123456789\r\n0\r\nTrailer: late\r\n\r\n"
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    for (size_t step = 1; step <= bytes.size(); ++step) {
        SCOPED_TRACE(step);
        RequestFraming framing({});
        size_t used = feed_in_steps(framing, bytes, step);
        ASSERT_EQ(framing.state(), State::kComplete);
        EXPECT_TRUE(framing.keeps_alive());
        HttpRequest request = framing.take();
        EXPECT_EQ(request.method, "POST");
        EXPECT_EQ(request.target, "/a%20b?x=%20");
        EXPECT_EQ(request.path, "/a b");
        EXPECT_EQ(request.query, "x=%20");
        EXPECT_EQ(request.header("x-one"), "two words");
        EXPECT_EQ(request.header("absent"), "");
        EXPECT_EQ(request.body, "hello");
        EXPECT_EQ(framing.state(), State::kIdle);

        used += feed_in_steps(framing, std::string_view(bytes).substr(used), step);
        ASSERT_EQ(framing.state(), State::kComplete);
        request = framing.take();
        EXPECT_EQ(request.body, "abc0123456789");
        EXPECT_EQ(request.header("trailer"), "");

        used += feed_in_steps(framing, std::string_view(bytes).substr(used), step);
        ASSERT_EQ(framing.state(), State::kComplete);
        EXPECT_FALSE(framing.keeps_alive());
        EXPECT_EQ(used, bytes.size());
    }
}

TEST(RequestFraming, RefusesWhatIsNoRequest) {
    for (const char* bytes :
         {"hello\r\n\r\n", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost h\r\n\r\n",
          "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
          "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n", "GET /% HTTP/1.1\r\nHost: h\r\n\r\n",
          "GET models HTTP/1.1\r\nHost: h\r\n\r\n", "\x16\x03\x01\x02"}) {
        const HttpFault fault = fault_of(bytes);
        EXPECT_EQ(fault.status, 400) << bytes;
        EXPECT_FALSE(fault.text.empty());
    }
}

TEST(RequestFraming, RefusesLengthsThatTwoReadersCouldTakeDifferently) {
    for (const char* headers :
         {"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: -1\r\n", "Content-Length: 5x\r\n",
          "Content-Length: \r\n", "Content-Length: 99999999999999999999999\r\n",
          "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
          "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: identity\r\n",
          "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"}) {
        EXPECT_EQ(fault_of("POST /p HTTP/1.1\r\nHost: h\r\n" + std::string(headers) + "\r\nhello").status, 400) << headers;
    }
    for (const char* chunks : {"x\r\n", "-1\r\nabc", "5\r\nhelloXX\r\n", "3 \r\nabc", "ffffffffffffffffff\r\n"}) {
        EXPECT_NE(fault_of("POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks)).status,
                  200)
            << chunks;
    }
}

TEST(RequestFraming, RefusesAHeaderThatIsTooLarge) {
    const std::string long_value(500, 'x');
    EXPECT_EQ(fault_of("GET /" + long_value, small_limits()).status, 431);
    EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nHost: h\r\nX: " + long_value, small_limits()).status, 431);
    EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nHost: h\r\nX: " + long_value + "\r\n\r\n", small_limits()).status, 431);
    // Lines of chunk sizes and trailers are headers too.
    const std::string chunked = "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    EXPECT_EQ(fault_of(chunked + "1;" + long_value, small_limits()).status, 431);
    EXPECT_EQ(fault_of(chunked + "0\r\nX: " + long_value, small_limits()).status, 431);
}

TEST(RequestFraming, RefusesABodyThatIsTooLargeBeforeItComes) {
    const HttpFault fault = fault_of("POST /p?q HTTP/1.1\r\nHost: h\r\nContent-Length: 21\r\n\r\n", small_limits());
    EXPECT_EQ(fault.status, 413);
    EXPECT_EQ(fault.path, "/p");
    EXPECT_EQ(fault_of("POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n", small_limits()).status, 413);
    const std::string two = "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\nb\r\n";
    EXPECT_EQ(fault_of(two, small_limits()).status, 413);
}

TEST(RequestFraming, SaysOnceThatAClientWaitsForPermission) {
    RequestFraming framing({});
    const std::string head = "POST /p HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
    ASSERT_EQ(framing.feed(head), head.size());
    EXPECT_EQ(framing.state(), State::kBody);
    EXPECT_TRUE(framing.take_expectation());
    EXPECT_FALSE(framing.take_expectation());
    ASSERT_EQ(framing.feed("ok"), 2U);
    EXPECT_EQ(framing.take().body, "ok");

    // Who sends its body at once needs none.
    RequestFraming eager({});
    ASSERT_EQ(eager.feed(head + "o"), head.size() + 1);
    EXPECT_FALSE(eager.take_expectation());
    EXPECT_EQ(fault_of("POST /p HTTP/1.1\r\nHost: h\r\nExpect: magic\r\nContent-Length: 2\r\n\r\n").status, 417);
}

TEST(RequestFraming, RefusesCodingsThatItDoesNotKnow) {
    EXPECT_EQ(fault_of("POST /p HTTP/1.1\r\nHost: h\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nxx").status, 415);
    EXPECT_EQ(fault_of("POST /p HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx").status, 400);
}

TEST(RequestFraming, KnowsOldClients) {
    RequestFraming framing({});
    const std::string old = "GET /health HTTP/1.0\r\n\r\n";
    ASSERT_EQ(framing.feed(old), old.size());
    EXPECT_TRUE(framing.is_http10());
    EXPECT_FALSE(framing.keeps_alive());
    EXPECT_EQ(framing.take().path, "/health");
}

TEST(SplitTarget, UnderstandsPathsAndTheFormOfProxies) {
    EXPECT_EQ(split_target("/v1/models?x=1?y")->query, "x=1?y");
    EXPECT_EQ(split_target("http://host:80/v1/models?x")->path, "/v1/models");
    EXPECT_EQ(split_target("http://host")->path, "/");
    EXPECT_EQ(split_target("http://host?x")->path, "/");
    EXPECT_EQ(split_target("*")->path, "*");
    EXPECT_EQ(split_target("/%E4%BD%A0%2f")->path, "/\xE4\xBD\xA0/");
    EXPECT_FALSE(split_target("host:80"));
    EXPECT_FALSE(split_target("/a%2"));
}

}  // namespace
}  // namespace di
