// What a rank asked its communicators to do, call by call: for tests that
// compare it with the plan.
//
//   Recorder recorder;                    // of one rank
//   RecordingCommunicator comm("data@0", std::move(inner), &recorder);
//   comm.AllReduce(...)                   recorder.calls(): one all-reduce
//
// It offers no operation beyond Communicator's own: no checked all-reduce, no
// sum in pairs.
//
// Threads: as Communicator; a Recorder's from any.

#ifndef LOCKSTEP_TESTS_SUPPORT_RECORDING_COMMUNICATOR_H_
#define LOCKSTEP_TESTS_SUPPORT_RECORDING_COMMUNICATOR_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"
#include "plan/ir.h"

namespace lockstep {

struct RecordedCall {
  std::string communicator;  // its name in the plan
  plan::TransferKind kind = plan::TransferKind::kBarrier;
  size_t count =
      0;  // elements of this rank's input; of the output of a receive
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = -1;
  int peer = -1;
  int group = 0;  // calls of one Group have the same number other than 0
};

class Recorder {
 public:
  void Add(RecordedCall call) {
    MutexLock lock(&mutex_);
    call.group = groups_[call.communicator];
    calls_.push_back(std::move(call));
  }
  void BeginGroup(const std::string& communicator) {
    MutexLock lock(&mutex_);
    groups_[communicator] = ++last_group_;
  }
  void EndGroup(const std::string& communicator) {
    MutexLock lock(&mutex_);
    groups_[communicator] = 0;
  }
  std::vector<RecordedCall> calls() {
    MutexLock lock(&mutex_);
    return calls_;
  }
  void Clear() {
    MutexLock lock(&mutex_);
    calls_.clear();
  }

 private:
  Mutex mutex_;
  std::vector<RecordedCall> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> groups_ ABSL_GUARDED_BY(mutex_);
  int last_group_ ABSL_GUARDED_BY(mutex_) = 0;
};

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::string name, std::unique_ptr<Communicator> inner,
                        Recorder* recorder)
      : name_(std::move(name)),
        inner_(std::move(inner)),
        recorder_(*recorder) {}

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
  // The plan has none: refused.
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
  absl::Status Group(absl::FunctionRef<absl::Status()> body) override;
  void Abort(std::string_view cause) override { inner_->Abort(cause); }
  absl::Status status() const override { return inner_->status(); }

 private:
  const std::string name_;
  const std::unique_ptr<Communicator> inner_;
  Recorder& recorder_;
};

// A transport whose communicators, called as their groups, record what one
// rank does.
std::unique_ptr<transport::Transport> MakeRecordingTransport(
    std::unique_ptr<transport::Transport> inner, Recorder* recorder);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_RECORDING_COMMUNICATOR_H_
