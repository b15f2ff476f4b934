#include "http/tls.h"

#include <boost/asio/ssl/context.hpp>

namespace di {

namespace ssl = boost::asio::ssl;

Result<TlsContext> open_server_tls(const std::string& certificate_file, const std::string& key_file) {
    if (certificate_file.empty() || key_file.empty()) {
        return fail(ErrorCode::kInvalidArgument, "TLS with {} alone, expected a certificate file and a key file",
                    certificate_file.empty() ? "a key file" : "a certificate file");
    }
    auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
    boost::system::error_code error;
    context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                         ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 | ssl::context::no_compression);
    SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION);  // a client could make us do nothing else
    context->use_certificate_chain_file(certificate_file, error);
    if (error) {
        return fail(ErrorCode::kInvalidFile, "TLS certificate \"{}\": {}, expected a PEM file", certificate_file,
                    error.message());
    }
    // The library would ask for a pass phrase on the terminal, in the middle of a service's start.
    context->set_password_callback([](size_t, ssl::context::password_purpose) { return std::string{}; });
    context->use_private_key_file(key_file, ssl::context::pem, error);
    if (error) {
        return fail(ErrorCode::kInvalidFile, "TLS key \"{}\": {}, expected an unencrypted PEM key that belongs to \"{}\"",
                    key_file, error.message(), certificate_file);
    }
    if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
        return fail(ErrorCode::kInvalidFile, "TLS key \"{}\" does not belong to the certificate \"{}\"", key_file,
                    certificate_file);
    }
    return context;
}

Result<TlsContext> open_client_tls() {
    auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
    boost::system::error_code error;
    context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                         ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
    context->set_default_verify_paths(error);
    if (error) {
        return fail(ErrorCode::kInternal, "the system's TLS certificates cannot be used: {}", error.message());
    }
    context->set_verify_mode(ssl::verify_peer);
    return context;
}

}  // namespace di
