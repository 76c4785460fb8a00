#include "server/rpc/call_bytes.h"

namespace lockstep::rpc {
namespace {

// At least what a call's path and own headers take, and what a message takes
// besides its bytes: of frames, acknowledgements and TLS records, which also
// add less than a 64th to large messages.
constexpr int64_t kCallOverhead = 512;
constexpr int64_t kMessageOverhead = 256;

}  // namespace

CallBytes::CallBytes(RpcLimits* limits, const grpc::ServerContextBase& call)
    : limits_(limits), given_(limits->GivenBytesOf(call.peer())) {
  int64_t bytes = kCallOverhead;
  for (const auto& [name, value] : call.client_metadata()) {
    bytes += static_cast<int64_t>(name.size() + value.size());
  }
  Add(bytes);
}

void CallBytes::AddMessage(int64_t bytes) {
  limits_->NoteMessage(bytes);
  Add(bytes + bytes / 64 + kMessageOverhead);
}

void CallBytes::Add(int64_t bytes) {
  if (given_ != nullptr) *given_ += bytes;
}

}  // namespace lockstep::rpc
