#include "client/transport/nccl/reclaimer.h"

#include <algorithm>
#include <utility>

#include "base/deadline.h"
#include "base/thread.h"
#include "client/transport/nccl/device_scope.h"

namespace lockstep::transport::nccl {

Reclaimer::~Reclaimer() {
  const Deadline deadline(kPatience);
  MutexLock lock(&state_->mutex);
  while (!JoinEnded() && !deadline.Passed()) {
    state_->changed.WaitFor(&state_->mutex, deadline.Left());
  }
  for (Reclaim& task : tasks_) task.thread.detach();
}

void Reclaimer::Abort(std::vector<ReclaimedComm> endings,
                      std::shared_ptr<GraphList> graphs) {
  if (endings.empty()) return;
  Run([tables = tables_, endings = std::move(endings),
       graphs = std::move(graphs)] {
    (void)tables.nccl->GroupStart();
    for (const ReclaimedComm& ending : endings) {
      (void)tables.nccl->CommAbort(ending.comm);
    }
    for (const ReclaimedComm& ending : endings) {
      ending.member->AwaitUnused();
      ending.member->SetStopped();
      graphs->DestroyThoseOf(*ending.member, *tables.cuda,
                             ending.member->status());
    }
    (void)tables.nccl->GroupEnd();
  });
}

namespace {

// The thread that finalizes a communicator destroys it, unless the one that
// waits for it has lost patience: then that one aborts it.
class Finalizing {
 public:
  // Called by the thread that finalizes, once NCCL has returned; whether it is
  // to destroy the communicator.
  bool Returned(bool finalized) {
    MutexLock lock(&mutex_);
    returned_ = true;
    finalized_ = finalized && !aborts_;
    changed_.NotifyAll();
    return finalized_;
  }
  // False: the caller is to abort it, and to await the return.
  bool AwaitFinalized(absl::Duration patience) {
    const Deadline deadline(patience);
    MutexLock lock(&mutex_);
    while (!returned_ && !deadline.Passed()) {
      changed_.WaitFor(&mutex_, deadline.Left());
    }
    aborts_ = !finalized_;
    return finalized_;
  }
  void AwaitReturn() {
    MutexLock lock(&mutex_);
    while (!returned_) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool returned_ ABSL_GUARDED_BY(mutex_) = false;
  bool finalized_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborts_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

void Reclaimer::Destroy(const ReclaimedComm& ending, absl::Duration patience) {
  const auto finalizing = std::make_shared<Finalizing>();
  Run([nccl = tables_.nccl, ending, finalizing] {
    ending.member->AwaitUnused();
    const NcclResult result = nccl->CommFinalize(ending.comm);
    if (!finalizing->Returned(result == NcclResult::kSuccess)) return;
    ending.member->SetStopped();
    (void)nccl->CommDestroy(ending.comm);
  });
  if (finalizing->AwaitFinalized(patience)) return;
  Run([nccl = tables_.nccl, ending, finalizing] {
    (void)nccl->GroupStart();
    (void)nccl->CommAbort(ending.comm);
    ending.member->SetStopped();
    finalizing->AwaitReturn();
    (void)nccl->GroupEnd();
  });
}

void Reclaimer::Run(std::function<void()> work) {
  auto over = std::make_shared<bool>(false);
  MutexLock lock(&state_->mutex);
  (void)JoinEnded();
  std::thread thread =
      StartThread("ls-reclaim", [cuda = tables_.cuda, state = state_, over,
                                 work = std::move(work)]() mutable {
        {
          const DeviceScope scope(*cuda);
          work();
          work = nullptr;  // what it keeps alive is of the device
        }
        cuda = nullptr;
        MutexLock ended(&state->mutex);
        *over = true;
        state->changed.NotifyAll();
      });
  tasks_.push_back({std::move(thread), std::move(over)});
}

bool Reclaimer::JoinEnded() {
  std::erase_if(tasks_, [](Reclaim& task) {
    if (!*task.over) return false;
    task.thread.join();  // it only has to return
    return true;
  });
  return tasks_.empty();
}

}  // namespace lockstep::transport::nccl
