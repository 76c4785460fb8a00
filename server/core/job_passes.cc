// The part of Job around Negotiation: passes in negotiated mode.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/core/job.h"

namespace lockstep::core {

void Job::BeginNegotiation(Negotiation::Begins begins) {
  if (spec().sync != SyncMode::kNegotiated) return;
  epoch_->negotiation.emplace(std::make_shared<const PassGroups>(*epoch_->plan),
                              begins, epoch_->first_step);
}

// The rank has a new stream. A member that was started sends Held itself; one
// that was not has received no decision.
void Job::ResumePasses(int rank, const protocol::Hello& hello,
                       EventContext& context) {
  if (spec().sync != SyncMode::kNegotiated) return;
  if (epoch_->negotiation) epoch_->negotiation->Resume(rank);
  if (HasStarted(hello)) return;
  if (epoch_->negotiation) {
    On(rank, protocol::Held{}, context);
  } else if (durable_.revision.value != 0) {
    epoch_->early[rank].Add(protocol::Held{});
  }
}

void Job::On(int rank, const protocol::Announce& message,
             EventContext& context) {
  Negotiate(rank, message, context);
}

void Job::On(int rank, const protocol::Submitted& message,
             EventContext& context) {
  Negotiate(rank, message, context);
}

void Job::On(int rank, const protocol::Held& message, EventContext& context) {
  Negotiate(rank, message, context);
}

template <typename Word>
void Job::Negotiate(int rank, const Word& word, EventContext& context) {
  if (!epoch_->negotiation) {
    return EndByMismatch(
        rank, "speaks of passes, but the job is not in negotiated mode",
        context);
  }
  const Negotiation::Stated before = epoch_->negotiation->StatedBy(rank);
  if (const auto objection = epoch_->negotiation->Receive(rank, word)) {
    return EndByMismatch(objection->rank, objection->what, context);
  }
  if (epoch_->negotiation->StatedBy(rank) != before) Touch(rank, context);
  for (auto& [told, decide] : epoch_->negotiation->TakeUntold()) {
    SendTo(*AtRank(told), std::move(decide), context);
  }
}

// Every rank has done the passes that are closed.
std::vector<uint64_t> Job::PassesDone() const {
  std::vector<uint64_t> passes;
  if (!epoch_->negotiation) return passes;
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    const bool done = epoch_->negotiation->Done(rank);
    passes.push_back(epoch_->negotiation->open_pass() + (done ? 1 : 0));
  }
  return passes;
}

// The rank is in the open pass, and others wait for its messages there.
bool Job::LagsInPass(int rank) const {
  return epoch_->negotiation && !epoch_->negotiation->Done(rank) &&
         epoch_->progress.of(rank).position.step >=
             epoch_->negotiation->open_pass();
}

}  // namespace lockstep::core
