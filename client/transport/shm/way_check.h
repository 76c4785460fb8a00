// Whether a peer's way is the one that its rank takes for so many bytes.
//
//   bytes   0 ............ small_bytes ............
//   way     kSmall                     kDirect, or kStaged
//
// All ranks have agreed on how many bytes there are by then; a way that does
// not go with them is a seat that something has written over, and would lead
// past the end of a cell.
//
// Errors: DataLoss, which blames `peer`.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_WAY_CHECK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_WAY_CHECK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/transport/blame.h"
#include "client/transport/shm/seat.h"

namespace lockstep::transport {

inline absl::Status CheckWay(Way way, size_t bytes, size_t small_bytes,
                             int peer) {
  const bool known = way >= Way::kSmall && way <= Way::kStaged;
  if (known && (way == Way::kSmall) == (bytes <= small_bytes)) {
    return absl::OkStatus();
  }
  return Blame(absl::DataLossError(absl::StrCat(
                   "the seat of rank ", peer, " is corrupt: way ",
                   static_cast<uint32_t>(way), " for ", bytes, " bytes")),
               peer);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_WAY_CHECK_H_
