// The local work of a rank's part of a halo exchange: which boxes of which
// memory are copied, filled and summed, before and after its messages.
//
//   forward   before   block ──pack──▶ outgoing      block ──own──▶ padded
//                      fills ──▶ padded
//             then     incoming ──unpack──▶ padded
//   adjoint   before   padded ──sum──▶ outgoing      padded ──center──▶ block
//                      padded ──add──▶ block         the rest of its own
//             then     incoming ──add──▶ block       message by message
//
// A message of one box that is contiguous in the tensor is not packed: it is
// sent from there, or received there. Where the communicator moves boxes, no
// message is packed or unpacked here, and only sums are put into the buffer.
//
// In place, the block is the interior of the padded tensor.
//
// Memories of a call are numbered: the padded tensors, then the blocks (none in
// place), then the buffer of messages.

#ifndef LOCKSTEP_CLIENT_HALO_BOX_LISTS_H_
#define LOCKSTEP_CLIENT_HALO_BOX_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/transport/common/box_message.h"
#include "kernels/strided_box.h"
#include "plan/halo/halo.h"
#include "plan/halo/lanes.h"

namespace lockstep::halo {

// Bytes at an offset of a numbered memory.
struct MemoryRange {
  int memory = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct PassLists {
  std::vector<kernels::BoxFill> fills;
  std::vector<kernels::StridedBox> copies_before;
  // Summed without, then with the old value; boxes of one list do not overlap.
  std::vector<kernels::StridedBox> sums_before;
  std::vector<std::vector<kernels::StridedBox>> adds_before;
  std::vector<kernels::StridedBox> copies_then;
  std::vector<std::vector<kernels::StridedBox>> adds_then;
  // One for each transfer of the pass, in the order of HaloTransfers: the
  // message, or a buffer for it.
  std::vector<MemoryRange> operands;
  // The same, if the communicator moves boxes. A message without boxes is sent
  // as it is.
  std::vector<transport::BoxMessage> messages;
  int64_t buffer_bytes = 0;
};

// `coordinates`: of the rank in halo.mesh. `moves_boxes`: the communicator does
// (extended_collectives.h).
PassLists MakeLists(const plan::Halo& halo, const plan::HaloRoutes& routes,
                    const std::vector<int>& coordinates, plan::HaloPass pass,
                    bool in_place, bool moves_boxes);

// Copies of the blocks out of the padded tensors.
std::vector<kernels::StridedBox> MakeTrimList(
    const plan::Halo& halo, const std::vector<int>& coordinates);

}  // namespace lockstep::halo

#endif  // LOCKSTEP_CLIENT_HALO_BOX_LISTS_H_
