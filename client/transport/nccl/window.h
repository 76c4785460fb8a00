// Memory registered with NCCL: an arena segment, in one communicator.
//
//   symmetric    a window over the segment on every rank: kernels access the
//                peers' memory; needs memory of ncclMemAlloc, and a topology
//                that allows it
//   window       symmetric or registered: 2.27 and 2.28 do not report which
//   registered   this rank's local registration: no copy into NCCL's buffers
//   plain        none of these
//
//   CommWindowRegister ─┬▶ a window: symmetric, or window
//                       └▶ none: CommRegister ─▶ registered, or plain
//
// No window is made with 2.28.0 to 2.28.6, whose symmetric kernels read peers'
// memory at a wrong offset: sums are silently wrong. All ranks of a job have
// the same release, as windows require.
//
// All ranks make a window together. Buffers are whole segments, so that an
// operation begins at the same offset of its window on every rank.
//
// Threads: one at a time: inside a CommState::NcclCall.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_WINDOW_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_WINDOW_H_

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/nccl_api.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

// Whether the windows of this release are correct, if it has any.
constexpr bool WindowsAreRight(int version) {
  return version < 22800 || version >= 22807;
}

class Window {
 public:
  Window(void* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  // Blocks until all ranks have called it, if the release has windows. A
  // refused CommRegister is not an error: the memory is then plain.
  absl::Status Register(NcclApi& nccl, NcclComm comm) {
    if (absl::Status made = MakeWindow(nccl, comm); !made.ok()) return made;
    if (window_ != nullptr) {
      const bool told = nccl.Has(NcclPart::kSymmetryTold);
      kind_ = told ? RegistrationKind::kSymmetric : RegistrationKind::kWindow;
    } else if (nccl.Has(NcclPart::kRegistration) &&
               nccl.CommRegister(comm, memory_, bytes_, &handle_) ==
                   NcclResult::kSuccess &&
               handle_ != nullptr) {
      kind_ = RegistrationKind::kRegistered;
    }
    return absl::OkStatus();
  }

  // Deregisters it; no operation of this rank may be using it.
  absl::Status Deregister(NcclApi& nccl, NcclComm comm) {
    switch (std::exchange(kind_, RegistrationKind::kPlain)) {
      case RegistrationKind::kPlain: return absl::OkStatus();
      case RegistrationKind::kRegistered:
        return Check(nccl, nccl.CommDeregister(comm, handle_), "CommDeregister",
                     comm);
      case RegistrationKind::kWindow:
      case RegistrationKind::kSymmetric:
        return Check(nccl, nccl.CommWindowDeregister(comm, window_),
                     "CommWindowDeregister", comm);
    }
    return absl::OkStatus();
  }

  RegistrationKind kind() const { return kind_; }

 private:
  absl::Status MakeWindow(NcclApi& nccl, NcclComm comm) {
    if (!nccl.Has(NcclPart::kWindows)) return absl::OkStatus();
    int version = 0;
    absl::Status told = Check(nccl, nccl.GetVersion(&version), "GetVersion");
    if (!told.ok() || !WindowsAreRight(version)) return told;
    return Check(nccl,
                 nccl.CommWindowRegister(comm, memory_, bytes_, &window_,
                                         kNcclWindowSymmetric),
                 "CommWindowRegister", comm);
  }

  void* const memory_;
  const size_t bytes_;
  NcclWindow window_ = nullptr;
  void* handle_ = nullptr;
  RegistrationKind kind_ = RegistrationKind::kPlain;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_WINDOW_H_
