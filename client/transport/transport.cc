#include "client/transport/transport.h"

#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::transport {

absl::StatusOr<std::unique_ptr<DeviceContext>> Transport::MakeDeviceContext() {
  return MakeHostDeviceContext();
}

std::string_view Name(RegistrationKind reach) {
  switch (reach) {
    case RegistrationKind::kPlain: return "plain";
    case RegistrationKind::kRegistered: return "registered";
    case RegistrationKind::kWindow: return "window";
    case RegistrationKind::kSymmetric: return "symmetric";
  }
  return "";
}

std::string Describe(const std::vector<RegistrationKind>& kinds) {
  std::map<RegistrationKind, int, std::greater<>> counts;
  for (const RegistrationKind reach : kinds) ++counts[reach];
  if (counts.size() == 1) return std::string(Name(kinds[0]));
  std::vector<std::string> parts;
  for (const auto& [reach, count] : counts) {
    const std::string_view name = Name(reach);
    parts.push_back(
        absl::StrCat(count, " ", absl::string_view(name.data(), name.size())));
  }
  return absl::StrJoin(parts, ", ");
}

absl::StatusOr<std::unique_ptr<BufferRegistration>> Transport::RegisterBuffer(
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
