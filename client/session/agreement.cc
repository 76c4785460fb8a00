// AgreeOnPlan: from this rank's parameters to the plan that all ranks accepted.

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/session/backoff.h"
#include "client/session/session_impl.h"
#include "plan/digest.h"
#include "plan/verify/verify.h"
#include "protocol/chunks.h"

namespace lockstep {

using session::SessionPhase;
using session::View;

namespace {

// The timeout of one attempt; another coordinator may answer the next one.
constexpr absl::Duration kFetchTimeout = absl::Seconds(5);

// The result of a fetch; its caller may have stopped waiting for it.
struct PlanAnswer {
  Mutex mutex;
  std::optional<absl::StatusOr<session::FetchedPlan>> plan
      ABSL_GUARDED_BY(mutex);
};

}  // namespace

absl::StatusOr<plan::Plan> Session::Impl::AgreeOnPlan(
    const std::vector<Parameter>& parameters) {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(registered_, true)) {
      return absl::FailedPreconditionError(
          "the ranks agree on one plan in an epoch: GradientSync::Seal or "
          "Session::Connect was called before");
    }
  }
  auto chunks = protocol::CutIntoChunks(parameters, state_.declarations());
  if (!chunks.ok()) return FailHere(step(), "AgreeOnPlan", chunks.status());
  chunks->back().transport = transport_->facts();
  chunks->back().groups = groups_.declarations();
  chunks->back().halos = halos_.declarations();
  event_loop_->Post(session::RegisterAll{*std::move(chunks)});

  const absl::Status planned = AwaitUnlessOver(
      [](const View& view) { return view.phase >= SessionPhase::kPlanned; });
  if (!planned.ok()) return planned;
  auto plan = FetchPlan();
  if (!plan.ok()) return FailHere(step(), "AgreeOnPlan", plan.status());
  AcceptRevision(plan->revision, plan::DigestOf(*plan), {});
  return plan;
}

absl::StatusOr<plan::Plan> Session::Impl::FetchPlan() {
  const absl::Time deadline = clock_->Now() + spec().timeouts.connect;
  session::Backoff backoff(absl::Milliseconds(50), absl::Seconds(1),
                           generation().value);
  for (;;) {
    const auto announced = event_loop_->view();
    auto plan =
        FetchOnce(announced->plan_digest, /*cancelled=*/[] { return false; });
    if (plan.ok()) {
      const absl::Status right = CheckPlan(*plan, *announced);
      if (!right.ok()) return right;
      return plan;
    }
    if (!IsTransient(plan.status()) || clock_->Now() >= deadline) return plan;
    const absl::Status paused = AwaitUnlessOver(
        [](const View&) { return false; }, clock_->Now() + backoff.Next());
    if (!paused.ok()) return paused;
  }
}

absl::StatusOr<plan::Plan> Session::Impl::FetchOnce(
    const std::string& digest, absl::FunctionRef<bool()> cancelled) {
  const auto answer = std::make_shared<PlanAnswer>();
  event_loop_->FetchPlan({{options_.job}, digest, options_.token},
                         kFetchTimeout,
                         [answer, event_loop = event_loop_.get()](auto plan) {
                           {
                             MutexLock lock(&answer->mutex);
                             answer->plan = std::move(plan);
                           }
                           event_loop->Notify();
                         });
  const absl::Status answered = AwaitUnlessOver([&](const View&) {
    if (cancelled()) return true;
    MutexLock lock(&answer->mutex);
    return answer->plan.has_value();
  });
  if (!answered.ok()) return answered;
  std::optional<absl::StatusOr<session::FetchedPlan>> fetched;
  {
    MutexLock lock(&answer->mutex);
    fetched = std::exchange(answer->plan, std::nullopt);
  }
  if (!fetched) return absl::CancelledError("nobody wants the plan");
  if (!fetched->ok()) return fetched->status();
  MutexLock lock(&mutex_);
  fetched_digest_ = digest;
  fetched_bytes_ = std::move((*fetched)->bytes);
  return std::move((*fetched)->plan);
}

absl::Status Session::Impl::CheckPlan(const plan::Plan& plan,
                                      const View& announced) const {
  const std::string digest = plan::DigestOf(plan);
  if (digest != announced.plan_digest) {
    return absl::DataLossError(
        absl::StrFormat("the plan with digest %s was announced, %s was fetched",
                        announced.plan_digest, digest));
  }
  if (plan.revision != announced.revision || plan.mesh != spec().mesh ||
      plan.ranks.size() != members().size()) {
    return absl::InternalError(absl::StrFormat(
        "plan %s is revision %d for mesh %s and %d ranks; this job has "
        "revision "
        "%d, mesh %s, %d ranks",
        digest, plan.revision.value, ToString(plan.mesh), plan.ranks.size(),
        announced.revision.value, ToString(spec().mesh), members().size()));
  }
  const absl::Status right = plan::Verify(plan);
  return right.ok() ? plan::CheckSync(plan, spec().sync) : right;
}

}  // namespace lockstep
