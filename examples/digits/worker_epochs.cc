#include "examples/digits/worker_epochs.h"

#include <string>
#include <utility>

#include "examples/digits/recovery_report.h"

namespace lockstep::digits {

bool WorkerEpochs::recovers() const {
  const JobSpec& spec = session_->spec();
  return spec.limits.max_restarts > 0 || !spec.elastic.axis.empty();
}

void WorkerEpochs::Ended(int64_t steps) const {
  Say(EndedEpoch{steps, std::string(session_->status().message())},
      machine_progress_);
}

absl::StatusOr<Recovery> WorkerEpochs::Recover() {
  absl::StatusOr<Recovery> recovery = session_->Recover();
  if (recovery.ok()) recovered_ = *recovery;
  return recovery;
}

absl::Status WorkerEpochs::JoinNext() {
  session_.reset();
  auto joined = join_again_(*recovered_);
  if (!joined.ok()) return joined.status();
  session_ = *std::move(joined);
  return absl::OkStatus();
}

void WorkerEpochs::Resumed(int64_t steps, StateOrigin origin) {
  if (session_->epoch() > 1) {
    Say(ResumedEpoch{recovered_ ? NameOf(recovered_->kind) : "join", steps,
                     session_->epoch(), session_->generation(),
                     session_->world_size(), NameOf(origin)},
        machine_progress_);
  }
  recovered_.reset();
}

}  // namespace lockstep::digits
