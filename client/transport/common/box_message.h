// A message whose bytes are boxes of tensors, and that need not be packed: a
// transport may copy them from the sender's tensors to the receiver's.
//
//   sender's memory     the message      receiver's memory
//   . a b . . .                          . . . .
//   . c d . . .  ─────▶ a b c d e f ───▶ . a b .
//   . e f . . .                          . c d .   ...
//
// Both ranks describe a message by the same boxes in the same order: dtypes,
// dimensions and counts are equal, and each rank adds its memories, offsets and
// strides. Memories are numbered; their addresses belong to a call.
//
// Threads: any; constant once it is made.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_BOX_MESSAGE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_BOX_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/strided_box.h"
#include "lockstep/dtype.h"

namespace lockstep::transport {

// Elements of one memory of a rank. Dimensions of count 1 are left out, on both
// ranks.
struct MessageBox {
  DType dtype = DType::kU8;
  int memory = 0;
  int dims = 0;
  int64_t offset = 0;  // bytes from the memory's address to the first element
  int64_t counts[kernels::kBoxDimsMax] = {};  // above 0
  // Elements. 0: the sender reads one element for all; may be negative there.
  int64_t strides[kernels::kBoxDimsMax] = {};
};

// Bytes of a memory that boxes touch.
struct MemoryReach {
  int memory = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct BoxMessage {
  std::vector<MessageBox> boxes;
  // Pack the message, or unpack it: from memories of the call to memory 0, or
  // from there. Boxes that are in the call's packed message already are left
  // out: a sender may have some of those, a receiver all or none.
  std::vector<kernels::StridedBox> copies;
  int64_t bytes = 0;  // packed

  // One for each memory that the boxes are in; their numbers are below
  // `memories`.
  std::vector<MemoryReach> reaches;
  size_t memories = 0;
  // The bytes that are contiguous in memory, on average.
  int64_t run_bytes = 0;
};

BoxMessage MakeBoxMessage(std::vector<MessageBox> boxes,
                          std::vector<kernels::StridedBox> copies,
                          int64_t bytes);

// The bytes that a box touches. False if they cannot be addressed.
bool ReachOf(const MessageBox& box, int64_t* begin, int64_t* end);

// A message with the addresses of a call, which lives as long as the call's
// buffers, or is kept by `owner`.
struct BoxOperands {
  const BoxMessage* message = nullptr;
  void* const* memory = nullptr;
  std::shared_ptr<const void> owner = nullptr;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_BOX_MESSAGE_H_
