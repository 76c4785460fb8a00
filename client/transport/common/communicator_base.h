// A Communicator whose methods become CollectiveOps: it checks arguments and
// collects groups. A transport implements which streams it accepts, and how a
// group of calls is launched.
//
//   AllReduce(...) ──check──▶ CollectiveOp ─┬─ alone ───────▶ Launch({call})
//                                           └─ Group's end ─▶ Launch(calls)

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_COMMUNICATOR_BASE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_COMMUNICATOR_BASE_H_

#include <optional>
#include <span>
#include <vector>

#include "client/transport/common/collective_op.h"
#include "client/transport/extended_collectives.h"
#include "lockstep/communicator.h"

namespace lockstep::transport {

class CommunicatorBase : public ExtendedCommunicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }

  absl::Status AllReduce(const void* in, void* out, size_t count, DType dtype,
                         ReduceOp op, Stream& stream) final;
  absl::Status AllReducePairs(const void* in, void* out, size_t count,
                              DType dtype, double factor, Stream& stream) final;
  absl::Status ReduceScatter(const void* in, void* out, size_t count,
                             DType dtype, ReduceOp op, Stream& stream) final;
  absl::Status AllGather(const void* in, void* out, size_t count, DType dtype,
                         Stream& stream) final;
  absl::Status Broadcast(void* buffer, size_t count, DType dtype, int root,
                         Stream& stream) final;
  absl::Status AllToAll(const void* in, void* out, size_t count, DType dtype,
                        Stream& stream) final;
  absl::Status AllToAllV(const void* in, absl::Span<const size_t> in_counts,
                         absl::Span<const size_t> in_offsets, void* out,
                         absl::Span<const size_t> out_counts,
                         absl::Span<const size_t> out_offsets, DType dtype,
                         Stream& stream) final;
  absl::Status Send(const void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) final;
  absl::Status Recv(void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) final;
  absl::Status Barrier(Stream& stream) final;
  absl::Status Group(absl::FunctionRef<absl::Status()> body) final;

  absl::Status AllReduceMean(void* data, size_t count, DType dtype, int divisor,
                             Stream& stream) final;
  bool SumsInPairs() const override { return false; }
  bool CanCheck() const override { return false; }
  bool MovesBoxes() const override { return false; }
  bool ScalesInOwnPass() const override { return false; }
  absl::Status CheckedAllReduce(void* data, size_t count, DType dtype,
                                ReduceOp op, std::vector<CheckedPart> checks,
                                Stream& stream) final;
  absl::Status CheckedAllReducePairs(void* data, size_t count, DType dtype,
                                     double factor,
                                     std::vector<CheckedPart> checks,
                                     Stream& stream) final;
  absl::Status SendBoxes(void* packed, BoxOperands boxes, int peer,
                         Stream& stream) final;
  absl::Status RecvBoxes(void* packed, BoxOperands boxes, int peer,
                         Stream& stream) final;

 protected:
  CommunicatorBase(int rank, int size) : rank_(rank), size_(size) {}

  // InvalidArgument if this transport cannot enqueue on `stream`.
  virtual absl::Status CheckStream(const Stream& stream) const = 0;

  // Enqueues `calls`, at least one, as one operation. The calls and the stream
  // have been checked. The implementation may move from `calls`.
  virtual void Launch(std::span<CollectiveOp> calls, Stream& stream) = 0;

 private:
  struct OpenGroup {
    std::vector<CollectiveOp> calls;
    Stream* stream = nullptr;  // of the first call
  };

  absl::Status JoinOuterGroup(absl::FunctionRef<absl::Status()> body);
  absl::Status Submit(CollectiveOp&& call, Stream& stream);

  const int rank_;
  const int size_;
  std::optional<OpenGroup> group_;
  std::vector<CollectiveOp> no_calls_;  // empty: its memory is used again
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_COMMUNICATOR_BASE_H_
