#include "client/gradient/bucket_rebuilder.h"

#include <utility>
#include <vector>

#include "base/thread.h"
#include "plan/compile.h"
#include "plan/digest.h"

namespace lockstep::gradient {

BucketRebuilder::BucketRebuilder(Session::Impl* session, Engine* engine)
    : session_(*session),
      engine_(*engine),
      backoff_(absl::Milliseconds(50), absl::Seconds(1),
               session->generation().value),
      thread_(StartThread("ls-revise", [this] { Run(); })) {}

BucketRebuilder::~BucketRebuilder() {
  stopping_ = true;
  session_.Notify();
  thread_.join();
  engine_.WatchOrder(nullptr);
}

void BucketRebuilder::Run() {
  for (;;) {
    const auto news = session_.AwaitRevisions(
        [this](const News& news) {
          return stopping_ || WantsOrder(news) || WantsPlan(news);
        },
        retry_at_ == absl::InfinitePast() ? absl::InfiniteFuture() : retry_at_);
    if (!news.ok() || stopping_) return;
    if (WantsOrder(*news)) WatchOrder(news->order_wanted);
    if (retry_at_ <= session_.clock().Now()) retry_at_ = absl::InfinitePast();
    if (WantsPlan(*news)) TakePlan(news->announced);
  }
}

// --- The order --------------------------------------------------------------

bool BucketRebuilder::WantsOrder(const News& news) const {
  return news.order_wanted.value != 0 && !watching_ && engine_.CanMove();
}

void BucketRebuilder::WatchOrder(Revision revision) {
  watching_ = true;
  engine_.WatchOrder([this, revision](std::vector<uint32_t> order) {
    watching_ = false;  // before OfferOrder, so that no request is missed
    if (!engine_.CanMove()) return;
    session_.OfferOrder({revision, std::move(order)});
  });
}

// --- The plan ---------------------------------------------------------------

bool BucketRebuilder::WantsPlan(const News& news) const {
  const bool is_next = news.announced.value == engine_.revision().value + 1;
  return is_next && news.announced != refused_ && !engine_.HasStaged() &&
         engine_.CanMove() && retry_at_ == absl::InfinitePast();
}

void BucketRebuilder::TakePlan(Revision revision) {
  absl::StatusOr<plan::Plan> plan =
      session_.FetchRevision([this] { return stopping_.load(); });
  if (!plan.ok()) {
    if (!Session::Impl::IsTransient(plan.status())) refused_ = revision;
    return Pause();
  }
  const std::string digest = plan::DigestOf(*plan);
  std::vector<uint32_t> order = plan::OrderOf(*plan);
  const absl::Status held = engine_.Stage(*std::move(plan));
  if (held.ok()) {
    session_.AcceptRevision(revision, digest, std::move(order));
  } else if (!absl::IsFailedPrecondition(held)) {
    refused_ = revision;
  }
}

void BucketRebuilder::Pause() {
  retry_at_ = session_.clock().Now() + backoff_.Next();
}

}  // namespace lockstep::gradient
