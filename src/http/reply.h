#pragma once

#include <cstdint>
#include <memory>

#include "http/post_queue.h"
#include "http/server.h"

namespace di {

class Connection;

// The reply to request number `serial` of a connection. It may outlive that, its answer, and the server.
[[nodiscard]] std::shared_ptr<HttpReply> make_reply(std::weak_ptr<Connection> connection, uint64_t serial,
                                                    std::shared_ptr<PostQueue> posted);

}  // namespace di
