// The interface of the data plane: one group of ranks, one sequence of
// operations.
//
// Each rank of a group has a Communicator; its rank there is its position in
// the group. All ranks must enqueue the same collectives in the same order, and
// sends and receives between two ranks in the same order. There are no tags:
// the plan has already matched them. Methods enqueue the operation on a stream
// and return immediately. An operation is complete on this rank once an event
// recorded after it is done, and has succeeded if status() is then OK.
//
//   rank 0   AllReduce ─┐               ┌─▶ out
//   rank 1   AllReduce ─┼─ synchronise ─┼─▶ out
//   rank 2   AllReduce ─┘               └─▶ out
//
// Shapes: counts are elements. `in` and `out` may be the same memory where a
//         method allows it (in place); they may not overlap in any other way.
//         Buffers are aligned to their elements. Zero counts are legal and
//         still synchronise.
// Numerics: every rank gets the same bits, also in a second run with the same
//         members. Host transports sum in rank order. (If the ranks of a host
//         are not neighbours, they sum host by host, in the order of the hosts'
//         first ranks.) f16 and bf16 are summed in f32 and rounded once to
//         nearest even. Mean is the sum, then one multiplication by 1/size in
//         f32 (f64 for f64). Min and max give NaN if any rank has NaN.
// Memory: the caller owns all buffers and keeps them valid and unchanged until
//         an event recorded after the operation is done.
// Threads: enqueue from one thread at a time; Abort and status from any thread.
// Errors: InvalidArgument from the call, with nothing enqueued, for arguments
//         that no transport can execute (dtype and op, peer out of range, null
//         buffer, a stream of the wrong kind). status() reports later errors:
//         Unavailable (a peer's connection broke, or the peer left while this
//         rank waited for it; the rank is named), Aborted (with the cause given
//         to Abort), DataLoss (a peer ran another operation, or sent an
//         unexpected number of bytes). After the first error operations are
//         still enqueued and return when their stream reaches them; the
//         contents of their buffers are unspecified. The stream gets the same
//         error.
// End:    destruction aborts the communicator and waits for running, not for
//         queued, operations. A rank whose operations are done may destroy it
//         before the other ranks are done. After an error a living peer may
//         still have arena memory mapped. That memory is then copied to new
//         pages at the same addresses, and must not be accessed during the
//         destruction.

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
  // "gloo", "shm", ...: for display.
  virtual std::string_view transport() const = 0;

  // out[i] = op over ranks of in[i]. In place means in == out.
  virtual absl::Status AllReduce(const void* in, void* out, size_t count,
                                 DType dtype, ReduceOp op, Stream& stream) = 0;

  // out[i] = op over ranks of in[rank * count + i]; `in` has size * count
  // elements. In place means out == in + rank * count.
  virtual absl::Status ReduceScatter(const void* in, void* out, size_t count,
                                     DType dtype, ReduceOp op,
                                     Stream& stream) = 0;

  // out[r * count + i] = rank r's in[i]; `out` has size * count elements. In
  // place means in == out + rank * count.
  virtual absl::Status AllGather(const void* in, void* out, size_t count,
                                 DType dtype, Stream& stream) = 0;

  // Copies the root's buffer to every rank.
  virtual absl::Status Broadcast(void* buffer, size_t count, DType dtype,
                                 int root, Stream& stream) = 0;

  // out[r * count + i] = rank r's in[rank * count + i]. Not in place.
  virtual absl::Status AllToAll(const void* in, void* out, size_t count,
                                DType dtype, Stream& stream) = 0;

  // As AllToAll with counts and offsets (in elements) per peer. The count that
  // rank a sends to b must equal the count that b expects from a; otherwise
  // DataLoss. Blocks of `out` may not overlap.
  virtual absl::Status AllToAllV(const void* in,
                                 absl::Span<const size_t> in_counts,
                                 absl::Span<const size_t> in_offsets, void* out,
                                 absl::Span<const size_t> out_counts,
                                 absl::Span<const size_t> out_offsets,
                                 DType dtype, Stream& stream) = 0;

  // Point to point, with another rank. A send may complete only with its
  // receive (rendezvous): two ranks that both send first deadlock. Use Group.
  virtual absl::Status Send(const void* buffer, size_t count, DType dtype,
                            int peer, Stream& stream) = 0;
  virtual absl::Status Recv(void* buffer, size_t count, DType dtype, int peer,
                            Stream& stream) = 0;

  // Enqueues the sends, receives and collectives that `body` calls on this
  // communicator as one operation. They progress together, whatever their order
  // (collectives must still have the same order on all ranks). All calls inside
  // must use the same stream. If `body` fails, nothing is enqueued. A nested
  // group is part of the outer one.
  virtual absl::Status Group(absl::FunctionRef<absl::Status()> body) = 0;

  // Completes on a rank only after every rank's stream has reached it.
  virtual absl::Status Barrier(Stream& stream) = 0;

  // Ends the communicator: pending and later operations return, and status() is
  // Aborted with this cause (the first cause wins). May be called from any
  // thread at any time; does not wait for peers. Host transports unblock every
  // waiter within 100 ms.
  virtual void Abort(std::string_view cause) = 0;

  // OK, or the first error.
  virtual absl::Status status() const = 0;

 protected:
  Communicator() = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COMMUNICATOR_H_
