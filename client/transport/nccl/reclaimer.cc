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

void Reclaimer::Abort(std::vector<ReclaimedComm> endings) {
  if (endings.empty()) return;
  Run([nccl = tables_.nccl, endings = std::move(endings)] {
    (void)nccl->GroupStart();
    for (const ReclaimedComm& ending : endings) {
      (void)nccl->CommAbort(ending.comm);
      ending.member->SetStopped();
    }
    (void)nccl->GroupEnd();
  });
}

void Reclaimer::Destroy(ReclaimedComm ending) {
  ending.member->SetStopped();
  Run([nccl = tables_.nccl, ending = std::move(ending)] {
    (void)nccl->CommDestroy(ending.comm);
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
