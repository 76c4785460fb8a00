// The seam of the data plane: one group of ranks, one lane of operations.
//
// Each rank of a group holds a Communicator; its rank in it is its position in
// the group. All ranks must enqueue the same collectives in the same order, and
// sends and receives between two ranks in the same order (there are no tags
// below this seam: the plan has already matched them). The operations are
// enqueued on a stream and return at once; a collective has taken part once an
// event recorded after it is done, and succeeded if status() is then OK.
//
//   rank 0   AllReduce ─┐                    ┌─▶ out
//   rank 1   AllReduce ─┼─ meet in the group ┼─▶ out
//   rank 2   AllReduce ─┘                    └─▶ out
//
// Shapes: counts are elements. `in` and `out` may be the same memory where a
//         method says how (in place); they may not overlap in any other way.
//         Buffers are aligned to their elements. Zero counts are legal and
//         still meet.
// Numerics: every rank ends with the same bits, also on a second run with the
//         same members. Host transports sum in rank order (groups over hosts
//         that hold neighbouring ranks too; else host by host, in the order of
//         their first ranks), f16 and bf16 in f32, rounded once to nearest
//         even. Mean is the sum, then one multiply by 1/size in f32 (f64 for
//         f64). Min and max give NaN if any rank has NaN.
// Memory: buffers stay the caller's and must live, untouched, until an event
//         recorded after the operation is done.
// Threads: enqueue from one thread at a time; Abort and status from any thread.
// Errors: InvalidArgument at once, with nothing enqueued, for arguments that no
//         transport could execute (dtype and op, peer out of range, null
//         buffer, a stream of the wrong kind). What happens later is status():
//         Unavailable (a peer's connection broke, or it left while it was
//         waited for; the rank is named), Aborted (with the cause given to
//         Abort), DataLoss (a peer came with another operation, or sent another
//         number of bytes than expected). After the first error operations are
//         still enqueued, and return when their stream reaches them; buffers of
//         theirs are then unspecified. The error is also the stream's.
// End:    destroying a communicator aborts it and waits for what is running,
//         not for what is queued. A rank whose operations are done may go
//         before the others are. After an error a peer may still live and have
//         arena memory mapped: that is then copied to fresh pages, at the same
//         addresses, and must rest while the communicator is destroyed.

#ifndef LOCKSTEP_COMMUNICATOR_H_
#define LOCKSTEP_COMMUNICATOR_H_

#include <cstddef>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lockstep/dtype.h"
#include "lockstep/export.h"
#include "lockstep/stream.h"

namespace lockstep {

class LOCKSTEP_EXPORT Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "gloo", "shm", ...: for people.
  virtual std::string_view transport() const = 0;

  // out[i] = op over ranks of in[i]. In place means in == out.
  virtual absl::Status AllReduce(const void* in, void* out, size_t count,
                                 DType dtype, ReduceOp op, Stream& stream) = 0;

  // out[i] = op over ranks of in[rank * count + i]; `in` holds size * count. In
  // place means out == in + rank * count.
  virtual absl::Status ReduceScatter(const void* in, void* out, size_t count,
                                     DType dtype, ReduceOp op,
                                     Stream& stream) = 0;

  // out[r * count + i] = rank r's in[i]; `out` holds size * count. In place
  // means in == out + rank * count.
  virtual absl::Status AllGather(const void* in, void* out, size_t count,
                                 DType dtype, Stream& stream) = 0;

  // The root's buffer, on every rank.
  virtual absl::Status Broadcast(void* buffer, size_t count, DType dtype,
                                 int root, Stream& stream) = 0;

  // out[r * count + i] = rank r's in[rank * count + i]. Not in place.
  virtual absl::Status AllToAll(const void* in, void* out, size_t count,
                                DType dtype, Stream& stream) = 0;

  // As AllToAll with counts and offsets (in elements) per peer. What rank a
  // sends to b and what b expects from a must agree; a difference is DataLoss.
  // Blocks of `out` may not overlap.
  virtual absl::Status AllToAllV(const void* in,
                                 absl::Span<const size_t> in_counts,
                                 absl::Span<const size_t> in_offsets, void* out,
                                 absl::Span<const size_t> out_counts,
                                 absl::Span<const size_t> out_offsets,
                                 DType dtype, Stream& stream) = 0;

  // Point to point, with another rank. A send may complete only with its
  // receive (rendezvous), so two ranks that both send first hang: use Group.
  virtual absl::Status Send(const void* buffer, size_t count, DType dtype,
                            int peer, Stream& stream) = 0;
  virtual absl::Status Recv(void* buffer, size_t count, DType dtype, int peer,
                            Stream& stream) = 0;

  // Enqueues the sends, receives and collectives that `body` calls on this
  // communicator as one operation: its members progress together, whatever
  // their order (collectives still come in the same order on all ranks). All
  // calls inside must name the same stream. If `body` fails, nothing is
  // enqueued. A group inside a group is part of it.
  virtual absl::Status Group(absl::FunctionRef<absl::Status()> body) = 0;

  // Done on a rank only after every rank's stream has reached it.
  virtual absl::Status Barrier(Stream& stream) = 0;

  // Ends the communicator: waiting and later operations return, status() is
  // Aborted with this cause (the first cause wins). May be called from any
  // thread at any time and does not block on peers. Host transports unblock
  // every waiter within 100 ms.
  virtual void Abort(std::string_view cause) = 0;

  // OK, or the first error.
  virtual absl::Status status() const = 0;

 protected:
  Communicator() = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COMMUNICATOR_H_
