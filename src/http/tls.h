#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace boost::asio::ssl {
class context;
}

namespace di {

// Shared: connections that are still closing keep what they were opened with.
using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// TLS 1.2 and newer with a certificate (chain) and its key, PEM.
[[nodiscard]] Result<TlsContext> open_server_tls(const std::string& certificate_file, const std::string& key_file);
// Verifies servers with the system's certificates (SSL_CERT_FILE and SSL_CERT_DIR name others).
[[nodiscard]] Result<TlsContext> open_client_tls();

}  // namespace di
