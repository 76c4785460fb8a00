#include "server/core/departures.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::core {
namespace {

// The least time between two checks of accusations that are still undecided.
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);

}  // namespace

// --- Leaving ----------------------------------------------------------------

void Departures::Leave(int rank, uint64_t steps, const Members& members) {
  left_.Add(rank);
  // A rank that has reported a broken link leaves because of that link:
  // reports about the rank itself are dropped.
  const WorkerName& name = members.NameAt(rank);
  if (accusations_.HasAccused(name)) accusations_.Drop(name);
  Stop(rank, steps);
}

void Departures::Stop(int rank, uint64_t steps) {
  if (steps < left_at_) {
    left_at_ = steps;
    first_leaver_ = rank;
  }
}

std::optional<int> Departures::MissedBy(const Members& members,
                                        const ProgressTracker& progress,
                                        const Registry* registry) const {
  if (first_leaver_ < 0) return std::nullopt;
  for (const Accusation& accusation : accusations_.open()) {
    const int accused = members.RankOf(accusation.accused);
    if (left_.Has(accused) || progress.of(accused).withdrawn) {
      return members.RankOf(accusation.reporter);
    }
  }
  if (registry == nullptr) return GoesOn(members, progress);
  for (int rank = 0; rank < members.size(); ++rank) {
    const RankProgress& standing = progress.of(rank);
    if (!standing.present || standing.withdrawn) continue;
    if (registry->begun(rank)) return rank;
  }
  return std::nullopt;
}

std::optional<int> Departures::GoesOn(const Members& members,
                                      const ProgressTracker& progress) const {
  if (first_leaver_ < 0 || progress.Furthest() <= LastPosition())
    return std::nullopt;
  for (int rank = 0; rank < members.size(); ++rank) {
    const RankProgress& standing = progress.of(rank);
    if (!standing.present || standing.withdrawn) continue;
    if (standing.position > LastPosition()) return rank;
  }
  return std::nullopt;
}

bool Departures::IsInLastStep(int rank, const ProgressTracker& progress) const {
  return progress.of(rank).position.step + 1 >= left_at_;
}

bool Departures::IsMissedAt(int rank, const ProgressTracker& progress) const {
  return first_leaver_ >= 0 && !progress.of(rank).withdrawn &&
         progress.of(rank).position == LastPosition();
}

// A rank that has only begun to compute may still stop and leave too.
protocol::Position Departures::LastPosition() const {
  return {left_at_, protocol::Phase::kCompute};
}

// --- Broken connections -----------------------------------------------------

bool Departures::Accuse(const protocol::Evidence& evidence,
                        const WorkerName& reporter, EpochContext& context) {
  const Members& members = context.members;
  const bool between_members = members.RankOf(evidence.subject) >= 0 &&
                               reporter != evidence.subject &&
                               members.RankOf(reporter) >= 0;
  if (!between_members) return false;
  const bool silent = evidence.kind == protocol::EvidenceKind::kPeerSilent;
  accusations_.Add({.reporter = reporter,
                    .accused = evidence.subject,
                    .what = absl::StrCat(silent ? "is silent on" : "reset",
                                         " their data connection",
                                         evidence.detail.empty() ? "" : ": ",
                                         evidence.detail),
                    .answer_by = context.now() + kLookAgain,
                    .silent = silent,
                    .made = context.now()});
  return true;
}

std::optional<EpochEnd> Departures::Expire(bool may_resume,
                                           EpochContext& context) {
  if (accusations_.Next() > context.now()) return std::nullopt;
  const Members& members = context.members;
  if (may_resume || AwaitsAnAccused(context)) {
    // A worker may still turn out to be dead or stopped; its resume window or
    // lease decides. A death also makes survivors cut their links, so that they
    // accuse one another.
    accusations_.BeginAnew(context.now() + kLookAgain);
    return std::nullopt;
  }
  const Accusation& accusation = accusations_.Weightiest();
  return EpochEnd{
      {.kind = protocol::CauseKind::kLink,
       .workers = {accusation.reporter, accusation.accused},
       .message = absl::StrFormat(
           "%s and %s cannot reach each other, though both live: %s says "
           "that the other %s",
           members.WhoIs(members.RankOf(accusation.reporter)),
           members.WhoIs(members.RankOf(accusation.accused)),
           accusation.reporter.value, accusation.what)},
      Again::kIfBudgetAllows,
      {}};
}

// A worker sends four heartbeats per lease. One that has reset a connection and
// whose stream is open lives, if it says nothing else.
bool Departures::AwaitsAnAccused(const EpochContext& context) const {
  const auto unheard = [&](const Accusation& a) {
    const Members& members = context.members;
    return members.At(members.RankOf(a.accused)).heard <= a.made &&
           !accusations_.IsMutual(a);
  };
  const absl::Duration patience = context.spec().timeouts.resume;
  const std::vector<Accusation>& open = accusations_.open();
  return std::any_of(open.begin(), open.end(), [&](const Accusation& a) {
    return unheard(a) && (a.silent || context.now() < a.made + patience);
  });
}

}  // namespace lockstep::core
