// Checks that a peer's control block, which it has shared, is one of this group
// and of the size that this rank has mapped.
//
// Errors: DataLoss; the failed peer is `peer`.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_CONTROL_BLOCK_CHECK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_CONTROL_BLOCK_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/control_block.h"

namespace lockstep::transport {

inline absl::Status CheckControlBlock(const ControlBlockHeader& header,
                                      const ControlBlockHeader& mine,
                                      int peer) {
  const bool sound = header.magic == kControlBlockMagic &&
                     header.version == kControlBlockVersion &&
                     header.rank == static_cast<uint32_t>(peer) &&
                     header.size == mine.size && header.group == mine.group &&
                     header.bytes == mine.bytes &&
                     header.chunk_bytes == mine.chunk_bytes &&
                     header.block_bytes == mine.block_bytes;
  if (sound) return absl::OkStatus();
  return WithFailedPeer(
      absl::DataLossError(absl::StrCat(
          "the shared-memory control block of rank ", peer,
          " is corrupt: version ", header.version, ", rank ", header.rank,
          " of ", header.size, ", ", header.bytes,
          " bytes; expected were version ", kControlBlockVersion, ", rank ",
          peer, " of ", mine.size, ", ", mine.bytes, " bytes")),
      peer);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_CONTROL_BLOCK_CHECK_H_
