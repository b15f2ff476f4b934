#include "http/url.h"

#include <string>

#include <gtest/gtest.h>

#include "http/fetch.h"

namespace di {
namespace {

TEST(ParseUrl, TakesAUrlApart) {
    const auto url = parse_url("HTTPS://Example.COM:8443/a b/\xC3\xA4?q=1#part");
    ASSERT_TRUE(url.has_value()) << url.error().text;
    EXPECT_TRUE(url->is_https);
    EXPECT_EQ(url->host, "example.com");
    EXPECT_EQ(url->port, 8443);
    EXPECT_EQ(url->target, "/a%20b/%C3%A4?q=1");
    EXPECT_EQ(parse_url("http://h")->text(), "http://h/");
    EXPECT_EQ(parse_url("http://h:80?x")->text(), "http://h/?x");
    EXPECT_EQ(parse_url("https://h:/")->port, 443);
    EXPECT_EQ(parse_url("https://[2606:4700::1]:444/x")->host, "2606:4700::1");
    EXPECT_EQ(parse_url("https://[2606:4700::1]:444/x")->authority(), "[2606:4700::1]:444");
}

TEST(ParseUrl, RefusesWhatIsNotForFetching) {
    for (const char* text : {"",
                             "h",
                             "//h/",
                             "file:///etc/passwd",
                             "ftp://h/",
                             "data:image/png;base64,AAAA",
                             "http:/h",
                             "http:h",
                             "http://",
                             "http:///x",
                             "http://user@h/",
                             "http://user:password@h/",
                             "http://h:0/",
                             "http://h:65536/",
                             "http://h:8x/",
                             "http://h:-1/",
                             "http://[::1/",
                             "http://[h]/",
                             "http://[::1]x/",
                             "http://[fe80::1%25eth0]/",
                             "http://a b/",
                             "http://h%2e/",
                             "http://h\\@other/",
                             "http://h/\r\nX: y",
                             "http://h/\x01",
                             "http://\xC3\xA4/",
                             "http://h/\x7f"}) {
        const auto url = parse_url(text);
        EXPECT_FALSE(url.has_value()) << text;
    }
    EXPECT_FALSE(parse_url("http://h/" + std::string(10'000, 'x')).has_value());
    EXPECT_FALSE(parse_url("http://" + std::string(300, 'x')).has_value());
}

TEST(FollowLocation, CompletesPartsOfUrls) {
    const Url base = *parse_url("https://h:444/a/b?q=1");
    EXPECT_EQ(follow_location(base, "http://other/x")->text(), "http://other/x");
    EXPECT_EQ(follow_location(base, "//other/x")->text(), "https://other/x");
    EXPECT_EQ(follow_location(base, "/x?y")->text(), "https://h:444/x?y");
    EXPECT_EQ(follow_location(base, "c#d")->text(), "https://h:444/a/c");
    EXPECT_EQ(follow_location(base, "?r=2")->text(), "https://h:444/a/b?r=2");
    EXPECT_FALSE(follow_location(base, "").has_value());
    EXPECT_FALSE(follow_location(base, "file:///etc/passwd").has_value());
    EXPECT_FALSE(follow_location(base, "/a\r\nb").has_value());
    EXPECT_FALSE(follow_location(base, "//user@other/").has_value());
}

TEST(PublicAddress, IsOneOfTheInternet) {
    for (const char* address : {"1.1.1.1",        "8.8.8.8",         "9.255.255.255",    "11.0.0.0",
                                "100.63.255.255", "100.128.0.0",     "172.15.255.255",   "172.32.0.0",
                                "192.0.1.0",      "192.167.255.255", "192.169.0.0",      "198.17.255.255",
                                "198.20.0.0",     "223.255.255.255", "2606:4700::1111",  "2001:4860:4860::8888",
                                "2a00:1450::1",   "::ffff:8.8.8.8",  "64:ff9b::808:808", "2002:808:808::1"}) {
        EXPECT_TRUE(is_public_address(address)) << address;
    }
}

TEST(PublicAddress, IsNoSpecialOneAndNoneThatEmbedsOne) {
    for (const char* address : {"0.0.0.0",
                                "0.1.2.3",
                                "10.0.0.1",
                                "10.255.255.255",
                                "100.64.0.1",
                                "100.127.255.255",
                                "127.0.0.1",
                                "127.255.255.255",
                                "169.254.169.254",
                                "172.16.0.1",
                                "172.31.255.255",
                                "192.0.0.1",
                                "192.0.2.1",
                                "192.88.99.1",
                                "192.168.0.1",
                                "198.18.0.1",
                                "198.19.255.255",
                                "198.51.100.1",
                                "203.0.113.1",
                                "224.0.0.1",
                                "239.255.255.255",
                                "240.0.0.1",
                                "255.255.255.255",
                                "::",
                                "::1",
                                "::127.0.0.1",
                                "::8.8.8.8",
                                "::ffff:127.0.0.1",
                                "::ffff:7f00:1",
                                "::ffff:10.0.0.1",
                                "::ffff:0:10.0.0.1",
                                "64:ff9b::10.0.0.1",
                                "64:ff9b::a9fe:a9fe",
                                "64:ff9b:1::1",
                                "100::1",
                                "2001::1",
                                "2001:0:4136:e378:8000:63bf:3fff:fdd2",
                                "2001:2::1",
                                "2001:10::1",
                                "2001:db8::1",
                                "2002:a00:1::1",
                                "2002:7f00:1::1",
                                "2002:c0a8:101::1",
                                "2606:4700::5efe:10.0.0.1",
                                "2606:4700::200:5efe:192.168.0.1",
                                "3fff::1",
                                "3fff:fff::1",
                                "4000::1",
                                "5f00::1",
                                "fc00::1",
                                "fd12:3456::1",
                                "fe80::1",
                                "fec0::1",
                                "ff02::1",
                                "",
                                "localhost",
                                "2130706433",
                                "0x7f.1",
                                "fe80::1%2",
                                "1.1.1",
                                "1.1.1.1 ",
                                "[::1]"}) {
        EXPECT_FALSE(is_public_address(address)) << address;
    }
}

}  // namespace
}  // namespace di
