// Records the operations of a rank's communicators, for tests that compare them
// with the plan.
//
//   Recorder recorder;                    // of one rank
//   RecordingCommunicator comm("data@0", std::move(inner), &recorder);
//   comm.AllReduce(...)                   recorder.calls(): one all-reduce
//
// A checked all-reduce is recorded as an all-reduce.
//
// Threads: as Communicator; any for a Recorder.

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
#include "tests/support/forwarding_communicator.h"

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

class RecordingCommunicator final : public ForwardingCommunicator {
 public:
  RecordingCommunicator(std::string name, std::unique_ptr<Communicator> inner,
                        Recorder* recorder)
      : ForwardingCommunicator(std::move(inner)),
        name_(std::move(name)),
        recorder_(*recorder) {}

  absl::Status Group(absl::FunctionRef<absl::Status()> body) override;

 private:
  // Refuses an all-to-all of uneven blocks: plans have none.
  absl::Status Before(const transport::CollectiveOp& call, Stream&) override;

  const std::string name_;
  Recorder& recorder_;
};

// A transport whose communicators are named after their groups, and record the
// operations of one rank.
std::unique_ptr<transport::Transport> MakeRecordingTransport(
    std::unique_ptr<transport::Transport> inner, Recorder* recorder);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_RECORDING_COMMUNICATOR_H_
