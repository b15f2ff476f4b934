#include "http/tls.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "http/fetch.h"
#include "http/raw_client.h"

namespace di {
namespace {

namespace fs = std::filesystem;

template <auto kFree>
struct Free {
    template <typename T>
    void operator()(T* object) const {
        kFree(object);
    }
};

// A key and a certificate that signs itself, for 127.0.0.1 and localhost, in files that go with it.
class TestCertificate {
  public:
    explicit TestCertificate(const std::string& subject_names = "IP:127.0.0.1,DNS:localhost") {
        folder_ = fs::temp_directory_path() / ("deepinfer_tls_" + std::to_string(getpid()) + "_" + std::to_string(count_++));
        fs::create_directory(folder_);
        const std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>> key(EVP_EC_gen("P-256"));
        const std::unique_ptr<X509, Free<X509_free>> certificate(X509_new());
        X509_set_version(certificate.get(), 2);
        ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
        X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
        X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
        X509_NAME* name = X509_get_subject_name(certificate.get());
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
        X509_set_issuer_name(certificate.get(), name);
        X509_set_pubkey(certificate.get(), key.get());
        add_extension(*certificate, NID_basic_constraints, "critical,CA:TRUE");
        add_extension(*certificate, NID_subject_alt_name, subject_names);
        EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
        const std::unique_ptr<std::FILE, Free<std::fclose>> key_out(std::fopen(key_file().c_str(), "w"));
        PEM_write_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
        const std::unique_ptr<std::FILE, Free<std::fclose>> certificate_out(std::fopen(certificate_file().c_str(), "w"));
        PEM_write_X509(certificate_out.get(), certificate.get());
    }
    ~TestCertificate() { fs::remove_all(folder_); }
    TestCertificate(const TestCertificate&) = delete;
    TestCertificate& operator=(const TestCertificate&) = delete;

    [[nodiscard]] std::string key_file() const { return folder_ / "key.pem"; }
    [[nodiscard]] std::string certificate_file() const { return folder_ / "certificate.pem"; }

  private:
    static void add_extension(X509& certificate, int id, const std::string& value) {
        const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
            X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str()));
        X509_add_ext(&certificate, extension.get(), -1);
    }

    inline static int count_ = 0;
    fs::path folder_;
};

HttpServerOptions tls_options(const TestCertificate& certificate) {
    return {.tls_certificate_file = certificate.certificate_file(), .tls_key_file = certificate.key_file()};
}

std::unique_ptr<HttpServer> start(const HttpServerOptions& options,
                                  std::function<void(HttpRequest, std::shared_ptr<HttpReply>)> request) {
    auto server = HttpServer::start(options, {.request = std::move(request), .fault = [](const HttpFault& fault) {
                                                  return HttpResponse{.body = fault.text};
                                              }});
    EXPECT_TRUE(server.has_value()) << (server ? "" : server.error().text);
    return server ? std::move(*server) : nullptr;
}

void echo(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    reply->send({.body = request.method + " " + request.path + " " + std::to_string(request.body.size())});
}

// A TLS client over a socket.
class TlsClient {
  public:
    explicit TlsClient(uint16_t port)
        : socket_(port), context_(SSL_CTX_new(TLS_client_method())), tls_(SSL_new(context_.get())) {
        SSL_set_fd(tls_.get(), socket_.handle());
        is_connected_ = SSL_connect(tls_.get()) == 1;
    }
    [[nodiscard]] bool is_connected() const { return is_connected_; }
    bool send(std::string_view bytes) { return SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0; }
    std::string receive_until(std::string_view text) {
        while (input_.find(text) == std::string::npos) {
            char bytes[16384];
            const int count = SSL_read(tls_.get(), bytes, sizeof(bytes));
            if (count <= 0) {
                has_proper_end_ = SSL_get_error(tls_.get(), count) == SSL_ERROR_ZERO_RETURN;
                break;
            }
            input_.append(bytes, static_cast<size_t>(count));
        }
        return std::exchange(input_, {});
    }
    [[nodiscard]] bool has_proper_end() const { return has_proper_end_; }

  private:
    RawClient socket_;
    std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>> context_;
    std::unique_ptr<SSL, Free<SSL_free>> tls_;
    std::string input_;
    bool is_connected_ = false;
    bool has_proper_end_ = false;
};

FetchResult fetch(const std::string& url) {
    const auto fetcher = Fetcher::create({.allows_private_hosts = true});
    std::promise<FetchResult> result;
    fetcher->fetch(url, [&result](FetchResult value) { result.set_value(std::move(value)); });
    return result.get_future().get();
}

TEST(TlsServer, AnswersRequestAfterRequest) {
    const TestCertificate certificate;
    const auto server = start(tls_options(certificate), echo);
    TlsClient client(server->port());
    ASSERT_TRUE(client.is_connected());
    for (const size_t size : {size_t{3}, size_t{300'000}}) {
        ASSERT_TRUE(client.send(post_request("/p", std::string(size, 'x'))));
        EXPECT_TRUE(client.receive_until("POST /p " + std::to_string(size)).starts_with("HTTP/1.1 200 "));
    }
    ASSERT_TRUE(client.send("GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
    EXPECT_TRUE(client.receive_until("\n nothing has this").ends_with("GET /end 0"));
    EXPECT_TRUE(client.has_proper_end());
}

TEST(TlsServer, StreamsAndTellsThatAClientWentAway) {
    const TestCertificate certificate;
    std::promise<void> gone;
    std::shared_ptr<HttpReply> stream;
    HttpServer* loop = nullptr;
    std::function<void(int)> write_more = [&](int left) {
        stream->write(left > 0 ? std::string(5000, 'x') : "that was all");
        if (left > 0) {
            loop->post([&, left] { write_more(left - 1); });
        }
    };
    const auto server = start(tls_options(certificate), [&](const HttpRequest&, std::shared_ptr<HttpReply> reply) {
        stream = std::move(reply);
        stream->on_gone([&gone] { gone.set_value(); });
        stream->begin_stream(200, {});
        loop->post([&] { write_more(100); });
    });
    loop = server.get();
    {
        TlsClient client(server->port());
        ASSERT_TRUE(client.send(get_request("/")));
        EXPECT_GT(client.receive_until("that was all").size(), 500'000U);
    }
    gone.get_future().get();
    std::promise<void> released;
    server->post([&] {
        stream.reset();
        released.set_value();
    });
    released.get_future().get();
}

TEST(TlsServer, OutlivesClientsThatDoNotSpeakTls) {
    const TestCertificate certificate;
    const auto server = start(tls_options(certificate), echo);
    RawClient plain(server->port());
    plain.send(get_request("/"));
    plain.receive_rest();
    RawClient silent(server->port());  // is in the middle of its hello when the server ends
    silent.send("\x16\x03");
    TlsClient client(server->port());
    ASSERT_TRUE(client.send(get_request("/alive")));
    EXPECT_TRUE(client.receive_until("GET /alive 0").starts_with("HTTP/1.1 200 "));
}

TEST(TlsServer, NamesTheFileThatIsWrong) {
    const TestCertificate one;
    const TestCertificate other;
    const HttpHandler handler{.request = echo, .fault = [](const HttpFault&) { return HttpResponse{}; }};
    const auto text_of = [&](const std::string& certificate, const std::string& key) {
        const auto server = HttpServer::start({.tls_certificate_file = certificate, .tls_key_file = key}, handler);
        EXPECT_FALSE(server.has_value());
        return server ? std::string{} : server.error().text;
    };
    EXPECT_NE(text_of("absent.pem", one.key_file()).find("absent.pem"), std::string::npos);
    EXPECT_NE(text_of(one.certificate_file(), "absent.pem").find("absent.pem"), std::string::npos);
    EXPECT_NE(text_of(one.key_file(), one.key_file()).find("key.pem"), std::string::npos);
    EXPECT_NE(text_of(one.certificate_file(), other.key_file()).find(other.key_file()), std::string::npos);
    EXPECT_NE(text_of(one.certificate_file(), "").find("expected a certificate file and a key file"), std::string::npos);
    EXPECT_NE(text_of("", one.key_file()).find("expected a certificate file and a key file"), std::string::npos);
}

TEST(TlsFetcher, TrustsTheSystemsCertificatesAlone) {
    const TestCertificate certificate;
    const TestCertificate foreign("DNS:other.example");
    const auto server = start(tls_options(certificate), echo);
    const auto foreign_server = start(tls_options(foreign), echo);
    const std::string port = std::to_string(server->port());
    const FetchResult unknown = fetch("https://127.0.0.1:" + port + "/");
    ASSERT_FALSE(unknown.has_value());
    EXPECT_TRUE(unknown.error().is_clients_fault) << unknown.error().text;
    EXPECT_EQ(server->counts().accepted, 1);

    // The system's store, with these two in it.
    const std::string store = certificate.certificate_file() + ".store";
    {
        std::ofstream out(store);
        out << std::ifstream(certificate.certificate_file()).rdbuf() << std::ifstream(foreign.certificate_file()).rdbuf();
    }
    ::setenv("SSL_CERT_FILE", store.c_str(), 1);
    EXPECT_EQ(fetch("https://127.0.0.1:" + port + "/a").value_or("failed"), "GET /a 0");
    EXPECT_EQ(fetch("https://localhost:" + port + "/b").value_or("failed"), "GET /b 0");
    const FetchResult other_name = fetch("https://127.0.0.1:" + std::to_string(foreign_server->port()) + "/");
    EXPECT_FALSE(other_name.has_value()) << "a certificate for another name was taken";
    ::unsetenv("SSL_CERT_FILE");
    const FetchResult plain = fetch("http://127.0.0.1:" + port + "/");
    EXPECT_FALSE(plain.has_value());
}

}  // namespace
}  // namespace di
