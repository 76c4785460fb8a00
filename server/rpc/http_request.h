// What a request of HTTP/1 is answered with, by a server that has one page.
//
//   GET /metrics           200, the page
//   other methods          405
//   other paths            404
//   a head beyond kHeadBytesMax   431
//   else                   400
//
// The answer ends the connection, so what follows the head is not looked at.
//
// Pure. Threads: none.

#ifndef LOCKSTEP_SERVER_RPC_HTTP_REQUEST_H_
#define LOCKSTEP_SERVER_RPC_HTTP_REQUEST_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace lockstep::rpc {

// Prometheus sends about 300 bytes.
inline constexpr size_t kHeadBytesMax = 8192;

// The status that these first bytes of a connection are answered with, for a
// server of `path`; nullopt: more bytes are needed.
std::optional<int> JudgeRequest(absl::string_view received,
                                absl::string_view path);

// The head of an answer with a body of `bytes` bytes. 200, or an error.
std::string HeadOfAnswer(int status, size_t bytes);

// "404 Not Found"
std::string StatusText(int status);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_HTTP_REQUEST_H_
