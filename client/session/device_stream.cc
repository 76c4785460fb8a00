#include "lockstep/device_stream.h"

#include "client/session/session_impl.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<DeviceStream>> DeviceStream::Wrap(
    Session& session, void* cuda_stream) {
  return session.impl().transport().WrapStream(cuda_stream);
}

}  // namespace lockstep
