#include "client/transport/transport.h"

#include "absl/strings/str_cat.h"

namespace lockstep::transport {

absl::StatusOr<std::unique_ptr<Compute>> Transport::MakeCompute() {
  return MakeHostCompute();
}

std::string_view Name(Reach reach) {
  switch (reach) {
    case Reach::kPlain: return "plain";
    case Reach::kRegistered: return "registered";
    case Reach::kWindow: return "window";
    case Reach::kSymmetric: return "symmetric";
  }
  return "";
}

absl::StatusOr<std::unique_ptr<Enlistment>> Transport::Enlist(
    Communicator&, const ArenaBuffer&, absl::Duration) {
  return nullptr;
}

absl::StatusOr<std::unique_ptr<DeviceStream>> Transport::WrapStream(void*) {
  const std::string_view mine = name();
  return absl::FailedPreconditionError(
      absl::StrCat("transport '", absl::string_view(mine.data(), mine.size()),
                   "' moves host memory: it takes no CUDA stream"));
}

}  // namespace lockstep::transport
