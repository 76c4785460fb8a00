// The session's part in later revisions of the plan.

#include <utility>

#include "client/session/session_impl.h"
#include "plan/digest.h"

namespace lockstep {

using session::View;

absl::StatusOr<Session::Impl::RevisionNews> Session::Impl::AwaitRevisions(
    absl::FunctionRef<bool(const RevisionNews&)> holds, absl::Time deadline) {
  RevisionNews news;
  const absl::Status live = AwaitUnlessOver(
      [&](const View& view) {
        news = {.order_wanted = view.order_wanted, .announced = view.revision};
        return holds(news);
      },
      deadline);
  if (!live.ok()) return live;
  return news;
}

absl::StatusOr<plan::Plan> Session::Impl::FetchRevision(
    absl::FunctionRef<bool()> cancelled) {
  const auto announced = event_loop_->view();
  auto plan = FetchOnce(announced->plan_digest, cancelled);
  if (!plan.ok()) return plan;
  const absl::Status right = CheckPlan(*plan, *announced);
  if (!right.ok()) return right;
  return plan;
}

// NotFound: a restarted coordinator has no plan until it has received it again.
bool Session::Impl::IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsNotFound(status) || absl::IsCancelled(status) ||
         absl::IsUnknown(status) || absl::IsInternal(status);
}

void Session::Impl::AcceptRevision(Revision revision, const std::string& digest,
                                   std::vector<uint32_t> observed_order) {
  session::AcceptPlan accepted{revision, digest, std::move(observed_order)};
  {
    MutexLock lock(&mutex_);
    if (fetched_digest_ == digest) {
      accepted.bytes = std::exchange(fetched_bytes_, nullptr);
    }
  }
  event_loop_->Post(std::move(accepted));
}

void Session::Impl::OfferOrder(const protocol::ReadyOrder& order) {
  event_loop_->Post(session::OfferOrder{order});
}

}  // namespace lockstep
