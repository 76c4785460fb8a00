// A collective over named axes as a list of steps: copies and conversions on
// this rank, and calls of a Communicator. Steps are data: they refer to the
// call's tensors and to scratch memory by number and offset, so that one list
// serves every call with the same types.
//
//   all_gather, axis 1:   AllGather input -> scratch,  CopyBlocks scratch ->
//   output psum of i16:          Widen input -> scratch, AllReduce, Narrow ->
//   output

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_LOWERED_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_LOWERED_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/block_copy.h"
#include "lockstep/dtype.h"

namespace lockstep::collectives {

// Memory of a call: an input or output tensor, or scratch memory.
struct BufferRef {
  enum class Space : uint8_t { kNone, kInput, kOutput, kScratch };
  Space space = Space::kNone;
  int tensor = 0;     // kInput, kOutput
  size_t offset = 0;  // bytes
  BufferRef At(size_t bytes) const { return {space, tensor, offset + bytes}; }
};

struct SendOrRecv {
  bool send = false;
  int peer = 0;
  BufferRef buffer;
  size_t bytes = 0;
};

struct Step {
  enum class Kind : uint8_t {
    // On this rank.
    kCopyBlocks,    // in -> out, as `copy`
    kZero,          // count bytes of out
    kWiden,         // in (dtype) -> out (i32)
    kNarrow,        // in (i32) -> out (dtype)
    kDivideToF32,   // in (dtype) / divisor -> out (f32)
    kScale,         // in (dtype, floating) / divisor -> out
    kReduceRows,    // out = op over `rows` rows of in; dtype
    kMarkExtremum,  // out (i32) = in equals `other` ? index : INT32_MAX
    kStoreIndex,    // out (i32) = index
    kPgather,       // out row r = in row other[r] (i32); rows of `block` bytes
    kPgatherSum,    // out row other[r] += in row r; block elements of dtype
    // Calls of the communicator.
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kAllToAll,
    kMessages,
  };
  Kind kind = Kind::kCopyBlocks;
  BufferRef in, other, out;
  size_t count = 0;  // elements; of one block, where a call has blocks
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  kernels::BlockCopy copy;
  int index = 0;  // index, root, divisor, rows
  size_t block = 0;
  std::vector<SendOrRecv> messages;
};

struct Lowered {
  std::vector<Step> steps;
  size_t scratch_bytes = 0;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_LOWERED_H_
