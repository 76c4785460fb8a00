// The verdict of a captured step, and the end of its graph.

#include <utility>

#include "client/gradient/reduction.h"

namespace lockstep::gradient {

void Reduction::CaptureVerdict(
    Captured& step, absl::AnyInvocable<void(absl::StatusOr<Event>)> captured) {
  queue_->Launch(
      {.after = {step.closing},
       .before =
           [this, &step](Site& site) {
             FetchNorm(site);
             site.Call(&step.enter);
             site.Copy(&fetched().ballot, &moved().ballot,
                       sizeof(BallotVectors));
             return site.status();
           },
       .communicate =
           [this](Stream& stream) { return ExchangeBallots(stream); },
       .then =
           [this, &step, captured = std::move(captured)](
               Site& site, const absl::Status& launched) mutable {
             if (!launched.ok()) return captured(launched);
             site.Copy(&moved().ballot, &fetched().ballot,
                       sizeof(BallotVectors));
             site.Call(&step.judge);
             site.Copy(step.staged.data(), step.scalars.data(),
                       sizeof(VerdictScalars));
             if (!site.status().ok()) return captured(site.status());
             captured(site.Done());
           }});
}

// On a thread of the device's runtime: it asks, and tells nobody.
absl::StatusOr<Ballot> Reduction::ReadBallot(
    const PendingVerdict::State& verdict) {
  for (const auto& communicator : communicators_) {
    if (communicator == nullptr) continue;
    if (absl::Status s = communicator->status(); !s.ok()) return s;
  }
  return FetchedBallot(verdict);
}

absl::StatusOr<Verdict> Reduction::ReadVerdict(PendingVerdict::State& verdict) {
  const Communicator& world = *communicators_[0];
  if (absl::Status failed = world.status(); !failed.ok()) return failed;
  verdict.vectors = fetched().ballot;
  return Decode(verdict.stamp, world.size(), verdict.terms(), verdict.vectors);
}

void Reduction::Await(Event graph,
                      std::function<void(const absl::Status&)> ended) {
  queue_->Launch({.after = {std::move(graph)},
                  .then = [this, ended = std::move(ended)](
                              Site& site, const absl::Status&) {
                    absl::Status over = site.Done().Wait();
                    if (over.ok()) over = CheckCommunicators();
                    ended(over);
                  }});
}

}  // namespace lockstep::gradient
