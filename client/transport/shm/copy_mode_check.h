// Checks that a peer's copy mode fits the number of bytes.
//
//   bytes       0 ............ small_bytes ............
//   copy mode   kInline                    kDirect, kStaged, or kBoxes where
//                                          this rank receives boxes
//
// All ranks have agreed on the number of bytes by then. Any other copy mode
// means that the control block was overwritten, and would make this rank read
// past the end of a slot.
//
// Errors: DataLoss; the failed peer is `peer`.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_COPY_MODE_CHECK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_COPY_MODE_CHECK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/control_block.h"

namespace lockstep::transport {

inline absl::Status CheckCopyMode(CopyMode copy_mode, size_t bytes,
                                  size_t small_bytes, int peer,
                                  bool takes_boxes = false) {
  const CopyMode last = takes_boxes ? CopyMode::kBoxes : CopyMode::kStaged;
  const bool known = copy_mode >= CopyMode::kInline && copy_mode <= last;
  if (known && (copy_mode == CopyMode::kInline) == (bytes <= small_bytes)) {
    return absl::OkStatus();
  }
  return WithFailedPeer(
      absl::DataLossError(absl::StrCat(
          "the shared-memory control block of rank ", peer,
          " is corrupt: copy mode ", static_cast<uint32_t>(copy_mode), " for ",
          bytes, " bytes")),
      peer);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_COPY_MODE_CHECK_H_
