#include "server/rpc/call_bytes.h"

#include "absl/strings/str_cat.h"

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

absl::Status CallBytes::AddMessage(int64_t bytes) {
  Add(bytes + bytes / 64 + kMessageOverhead);
  if (limits_->AdmitMessage(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a message of ", bytes, " bytes is larger than the ",
      limits_->values().message_bytes,
      " that this coordinator takes (lockstepd --message_bytes_max)"));
}

void CallBytes::Add(int64_t bytes) {
  if (given_ != nullptr) *given_ += bytes;
}

}  // namespace lockstep::rpc
