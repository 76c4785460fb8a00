// How a sender publishes the boxes of a message, so that the receiver copies
// them from its segments. The table is in SendSlot::small, in words of 64 bits:
//
//   segments, boxes
//   each segment   id, offset, bytes     the boxes of one memory are in these
//   each box       segment index | dtype << 8 | dims << 16, offset in it,
//                  counts (dims), strides (dims)
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_BOX_TABLE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_BOX_TABLE_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "client/transport/common/box_message.h"
#include "client/transport/shm/control_block.h"
#include "client/transport/shm/segment_sharing.h"
#include "kernels/strided_box.h"

namespace lockstep::transport {

inline constexpr size_t kBoxTableWords = kSmallMessageBytes / sizeof(uint64_t);

// Words of the message's table; only a message of at most kBoxTableWords has
// one.
size_t BoxTableWords(const BoxMessage& message);

// Writes the table for `reader` to `table`, after sending it the segments.
// False, with `table` unspecified: the message has none, or some of the memory
// is in no segment, or cannot be shared.
bool WriteBoxTable(const BoxOperands& boxes, int reader,
                   SegmentExporter& exporter, std::byte* table);

// Copies from a peer's segments, mapped here, to the own memories.
struct BoxesOfPeer {
  std::vector<kernels::StridedBox> copies;
  std::vector<const void*> memory;
};

// The copies that receive `own`, whose boxes the peer has at the places in
// `table`. Reads each word once: the peer may overwrite them. DataLoss, with
// the failed peer: no table of boxes like the own ones, or one of memory that
// the peer has not shared.
absl::StatusOr<BoxesOfPeer> ReadBoxTable(const std::byte* table,
                                         const BoxMessage& own, int peer,
                                         SegmentImporter& importer);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_BOX_TABLE_H_
