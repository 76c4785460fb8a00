#include "client/gradient/reviser.h"

#include <utility>
#include <vector>

#include "base/thread.h"
#include "plan/compile.h"
#include "plan/digest.h"

namespace lockstep::gradient {

Reviser::Reviser(Session::Internals* session, Engine* engine)
    : session_(*session),
      engine_(*engine),
      backoff_(absl::Milliseconds(50), absl::Seconds(1),
               session->generation().value),
      thread_(StartThread("ls-revise", [this] { Run(); })) {}

Reviser::~Reviser() {
  stopping_ = true;
  session_.Nudge();
  thread_.join();
  engine_.WatchOrder(nullptr);
}

void Reviser::Run() {
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

bool Reviser::WantsOrder(const News& news) const {
  return news.order_wanted.value != 0 && !watching_ && engine_.CanMove();
}

void Reviser::WatchOrder(Revision revision) {
  watching_ = true;
  engine_.WatchOrder([this, revision](std::vector<uint32_t> order) {
    watching_ = false;  // first: news that comes now is not missed
    if (!engine_.CanMove()) return;
    session_.OfferOrder({revision, std::move(order)});
  });
}

// --- The plan ---------------------------------------------------------------

bool Reviser::WantsPlan(const News& news) const {
  const bool is_next = news.announced.value == engine_.revision().value + 1;
  return is_next && news.announced != refused_ && !engine_.HoldsNext() &&
         engine_.CanMove() && retry_at_ == absl::InfinitePast();
}

void Reviser::TakePlan(Revision revision) {
  absl::StatusOr<plan::Plan> plan =
      session_.FetchRevision([this] { return stopping_.load(); });
  if (!plan.ok()) {
    if (!Session::Internals::IsPassing(plan.status())) refused_ = revision;
    return Pause();
  }
  const std::string digest = plan::DigestOf(*plan);
  std::vector<uint32_t> order = plan::OrderOf(*plan);
  const absl::Status held = engine_.Hold(*std::move(plan));
  if (held.ok()) {
    session_.AcceptRevision(revision, digest, std::move(order));
  } else if (!absl::IsFailedPrecondition(held)) {
    refused_ = revision;
  }
}

void Reviser::Pause() { retry_at_ = session_.clock().Now() + backoff_.Next(); }

}  // namespace lockstep::gradient
