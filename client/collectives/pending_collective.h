// An operation that was enqueued on a stream, until a caller waits for it.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_PENDING_COLLECTIVE_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_PENDING_COLLECTIVE_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "client/collectives/call_stream.h"
#include "lockstep/axis_group.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"

namespace lockstep {

class PendingCollective::State {
 public:
  // The cause of a communicator's error.
  using Explain = std::function<absl::Status(const absl::Status&)>;

  // `communicator` may be null: the operation moves nothing.
  State(std::shared_ptr<Communicator> communicator, Explain explain,
        std::shared_ptr<collectives::CallOutcome> outcome, Event done)
      : communicator_(std::move(communicator)),
        explain_(std::move(explain)),
        outcome_(std::move(outcome)),
        done_(std::move(done)) {}

  const Event& done() const { return done_; }

  absl::Status Wait() const {
    if (absl::Status waited = done_.Wait(); !waited.ok()) return waited;
    const absl::Status failed =
        communicator_ == nullptr ? absl::OkStatus() : communicator_->status();
    return failed.ok() ? outcome_->status() : explain_(failed);
  }

 private:
  const std::shared_ptr<Communicator> communicator_;
  const Explain explain_;
  const std::shared_ptr<collectives::CallOutcome> outcome_;
  const Event done_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_PENDING_COLLECTIVE_H_
