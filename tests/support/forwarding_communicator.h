// A decorator that forwards every call: the base of decorators that add to some
// of them.
//
//   class Counting final : public ForwardingCommunicator {
//     using ForwardingCommunicator::ForwardingCommunicator;
//     absl::Status Before(const transport::CollectiveOp&, Stream&) override {
//       ++calls;
//       return absl::OkStatus();
//     }
//   };
//
// Threads: as Communicator.

#ifndef LOCKSTEP_TESTS_SUPPORT_FORWARDING_COMMUNICATOR_H_
#define LOCKSTEP_TESTS_SUPPORT_FORWARDING_COMMUNICATOR_H_

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/extended_collectives.h"

namespace lockstep {

class ForwardingCommunicator : public transport::ExtendedCommunicator {
 public:
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view transport() const override { return inner_->transport(); }

  absl::Status AllReduce(const void* in, void* out, size_t count, DType dtype,
                         ReduceOp op, Stream& stream) override;
  absl::Status ReduceScatter(const void* in, void* out, size_t count,
                             DType dtype, ReduceOp op, Stream& stream) override;
  absl::Status AllGather(const void* in, void* out, size_t count, DType dtype,
                         Stream& stream) override;
  absl::Status Broadcast(void* buffer, size_t count, DType dtype, int root,
                         Stream& stream) override;
  absl::Status AllToAll(const void* in, void* out, size_t count, DType dtype,
                        Stream& stream) override;
  absl::Status AllToAllV(const void* in, absl::Span<const size_t> in_counts,
                         absl::Span<const size_t> in_offsets, void* out,
                         absl::Span<const size_t> out_counts,
                         absl::Span<const size_t> out_offsets, DType dtype,
                         Stream& stream) override;
  absl::Status Send(const void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override;
  absl::Status Recv(void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override;
  absl::Status Barrier(Stream& stream) override;

  absl::Status Group(absl::FunctionRef<absl::Status()> body) override {
    return inner_->Group(body);
  }
  void Abort(std::string_view cause) override { inner_->Abort(cause); }
  absl::Status status() const override { return inner_->status(); }

  bool SumsInPairs() const override { return transport::SumsInPairs(*inner_); }
  bool CanCheck() const override { return transport::CanCheck(*inner_); }
  bool MovesBoxes() const override { return transport::MovesBoxes(*inner_); }
  bool ScalesInOwnPass() const override {
    return transport::ScalesInOwnPass(*inner_);
  }
  absl::Status AllReduceMean(void* data, size_t count, DType dtype, int divisor,
                             Stream& stream) override;
  absl::Status AllReducePairs(const void* in, void* out, size_t count,
                              DType dtype, double factor,
                              Stream& stream) override;
  absl::Status CheckedAllReduce(void* data, size_t count, DType dtype,
                                ReduceOp op,
                                std::vector<transport::CheckedPart> checks,
                                Stream& stream) override;
  absl::Status CheckedAllReducePairs(void* data, size_t count, DType dtype,
                                     double factor,
                                     std::vector<transport::CheckedPart> checks,
                                     Stream& stream) override;
  absl::Status SendBoxes(void* packed, transport::BoxOperands boxes, int peer,
                         Stream& stream) override;
  absl::Status RecvBoxes(void* packed, transport::BoxOperands boxes, int peer,
                         Stream& stream) override;

 protected:
  explicit ForwardingCommunicator(std::shared_ptr<Communicator> inner)
      : inner_(std::move(inner)) {}

  // Called with each operation before it is forwarded; an error is returned in
  // its place. A checked all-reduce has no checks here, a message no boxes.
  virtual absl::Status Before(const transport::CollectiveOp&, Stream&) {
    return absl::OkStatus();
  }

  Communicator& inner() { return *inner_; }

 private:
  // Calls `forward` unless Before refuses the call.
  absl::Status Pass(const transport::CollectiveOp& call, Stream& stream,
                    absl::FunctionRef<absl::Status()> forward);

  const std::shared_ptr<Communicator> inner_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_FORWARDING_COMMUNICATOR_H_
