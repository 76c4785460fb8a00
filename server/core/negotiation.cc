#include "server/core/negotiation.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "server/core/status_text.h"

namespace lockstep::core {
namespace {

bool Closes(const protocol::Decision& decision) {
  return decision.announcers == 0;
}

uint64_t EndOf(const protocol::Held& held) {
  return held.first + held.decisions.size();
}

std::string Text(const protocol::Decision& decision) {
  if (Closes(decision)) return absl::StrFormat("closes pass %d", decision.pass);
  return absl::StrFormat("is parameter %d of %d ranks in pass %d",
                         decision.parameter, decision.announcers,
                         decision.pass);
}

}  // namespace

Negotiation::Negotiation(std::shared_ptr<const PassGroups> groups,
                         Begins begins, uint64_t first_pass)
    : groups_(std::move(groups)),
      first_pass_(first_pass),
      told_(groups_->world_size, 0),
      returns_(begins == Begins::kAgain ? groups_->world_size : 0),
      open_(groups_, first_pass) {}

// --- Resuming ---------------------------------------------------------------

void Negotiation::Resume(int rank) {
  told_[rank].reset();
  if (!returns_.empty()) returns_[rank] = {};
}

Negotiation::Objections Negotiation::Receive(int rank,
                                             const protocol::Held& held) {
  if (returns_.empty()) {
    if (Objections objection = Compare(rank, held)) return objection;
    told_[rank] = EndOf(held);
    has_untold_ = true;
    return std::nullopt;
  }
  if (held.first > std::numeric_limits<uint64_t>::max() / 2) {
    return Objection{
        rank, absl::StrFormat("holds decisions from number %d on", held.first)};
  }
  returns_[rank].held = held;
  const bool all =
      std::all_of(returns_.begin(), returns_.end(),
                  [](const Return& from) { return from.held.has_value(); });
  return all ? Adopt() : std::nullopt;
}

// The decisions a rank holds must be a prefix of the sequence, and end where
// the rest is still known.
Negotiation::Objections Negotiation::Compare(int rank,
                                             const protocol::Held& held) const {
  if (EndOf(held) < first_ || EndOf(held) > end()) {
    return Objection{rank,
                     absl::StrFormat("holds decisions up to number %d; those "
                                     "known are from %d up to %d",
                                     EndOf(held), first_, end())};
  }
  for (uint64_t number = std::max(first_, held.first); number < EndOf(held);
       ++number) {
    const protocol::Decision& theirs = held.decisions[number - held.first];
    const protocol::Decision& ours = decisions_[number - first_];
    if (theirs == ours) continue;
    return Objection{
        rank, absl::StrFormat("holds a decision %d that %s; for others it %s",
                              number, Text(theirs), Text(ours))};
  }
  return std::nullopt;
}

// Every rank has sent Held: the longest contains every decision that was made
// and acted on.
Negotiation::Objections Negotiation::Adopt() {
  const std::vector<Return> returns = std::exchange(returns_, {});
  const auto longest = std::max_element(
      returns.begin(), returns.end(), [](const Return& a, const Return& b) {
        return EndOf(*a.held) < EndOf(*b.held);
      });
  for (size_t rank = 0; rank < returns.size(); ++rank) {
    if (EndOf(*returns[rank].held) >= longest->held->first) continue;
    return Objection{
        static_cast<int>(longest - returns.begin()),
        absl::StrFormat("holds decisions from number %d on, but rank %d has "
                        "heard those up to %d only",
                        longest->held->first, rank,
                        EndOf(*returns[rank].held))};
  }
  Objections objection =
      Install(static_cast<int>(longest - returns.begin()), *longest->held);
  for (size_t rank = 0; rank < returns.size() && !objection; ++rank) {
    objection = Receive(static_cast<int>(rank), *returns[rank].held);
  }
  for (size_t rank = 0; rank < returns.size() && !objection; ++rank) {
    for (const Word& word : returns[rank].words) {
      objection = std::visit(
          [&](const auto& w) { return Take(static_cast<int>(rank), w); }, word);
      if (objection) break;
    }
  }
  return objection;
}

Negotiation::Objections Negotiation::Install(int rank,
                                             const protocol::Held& longest) {
  first_ = longest.first;
  decisions_ = longest.decisions;
  uint64_t open = first_pass_;
  for (const protocol::Decision& decision : decisions_) {
    if (Closes(decision)) open = decision.pass + 1;
  }
  open_ = Pass(groups_, open);
  for (const protocol::Decision& decision : decisions_) {
    if (Closes(decision) || decision.pass < open) continue;
    if (decision.pass > open || decision.parameter >= groups_->parameters()) {
      return Objection{rank, absl::StrFormat("holds a decision that %s; pass "
                                             "%d is open",
                                             Text(decision), open)};
    }
    open_.Decide(decision.parameter);
  }
  return std::nullopt;
}

// --- Announced and submitted ------------------------------------------------

Negotiation::Objections Negotiation::Receive(
    int rank, const protocol::Announce& announce) {
  if (returns_.empty()) return Take(rank, announce);
  return Keep(rank, announce);
}

Negotiation::Objections Negotiation::Receive(
    int rank, const protocol::Submitted& submitted) {
  if (returns_.empty()) return Take(rank, submitted);
  return Keep(rank, submitted);
}

// A correct rank announces and submits each parameter once in a pass.
template <typename W>
Negotiation::Objections Negotiation::Keep(int rank, const W& word) {
  Return& from = returns_[rank];
  from.said += word.parameters.size() + 1;
  if (from.said > 8 * (groups_->parameters() + 8)) {
    return Objection{rank,
                     "says more of its passes than they can hold, before "
                     "every rank has resumed"};
  }
  from.words.push_back(word);
  return std::nullopt;
}

// A message about a closed pass repeats one that a former coordinator handled.
Negotiation::Objections Negotiation::Take(int rank,
                                          const protocol::Announce& announce) {
  if (announce.pass < open_.number()) return std::nullopt;
  if (announce.pass > open_.number()) {
    return Objection{rank, absl::StrFormat("announced pass %d before pass %d "
                                           "was closed",
                                           announce.pass, open_.number())};
  }
  auto may_be_ready = open_.Announce(rank, announce.parameters);
  if (!may_be_ready.ok()) {
    return Objection{rank, std::string(may_be_ready.status().message())};
  }
  DecideReady(*may_be_ready);
  return std::nullopt;
}

Negotiation::Objections Negotiation::Take(
    int rank, const protocol::Submitted& submitted) {
  if (submitted.pass < open_.number()) return std::nullopt;
  const bool is_open = submitted.pass == open_.number();
  if (!is_open || !open_.HasAnnounced(rank)) {
    return Objection{
        rank, absl::StrFormat("submitted gradients of pass %d, which it did "
                              "not announce; pass %d is open",
                              submitted.pass, open_.number())};
  }
  absl::Status taken = open_.Submit(rank, submitted.parameters);
  if (!taken.ok()) return Objection{rank, std::string(taken.message())};
  DecideReady(submitted.parameters);
  return std::nullopt;
}

// --- Deciding ---------------------------------------------------------------

void Negotiation::DecideReady(const std::vector<uint32_t>& candidates) {
  for (const uint32_t parameter : candidates) {
    if (!open_.Ready(parameter)) continue;
    has_untold_ = true;
    decisions_.push_back(
        {open_.number(), parameter, open_.announcers(parameter)});
    open_.Decide(parameter);
  }
  if (!open_.Complete()) return;
  has_untold_ = true;
  decisions_.push_back({.pass = open_.number()});
  open_ = Pass(groups_, open_.number() + 1);
}

void Negotiation::ForgetWhatAllHold() {
  const auto kept = std::find_if(decisions_.begin(), decisions_.end(),
                                 [this](const protocol::Decision& decision) {
                                   return decision.pass + 1 >= open_.number();
                                 });
  first_ += kept - decisions_.begin();
  decisions_.erase(decisions_.begin(), kept);
}

std::vector<std::pair<int, protocol::Decide>> Negotiation::TakeUntold() {
  std::vector<std::pair<int, protocol::Decide>> untold;
  if (!returns_.empty() || !std::exchange(has_untold_, false)) return untold;
  for (size_t rank = 0; rank < told_.size(); ++rank) {
    std::optional<uint64_t>& told = told_[rank];
    if (!told || *told == end()) continue;
    const auto from = decisions_.begin() + (*told - first_);
    untold.push_back({static_cast<int>(rank),
                      {.first = *told, .decisions = {from, decisions_.end()}}});
    told = end();
  }
  ForgetWhatAllHold();
  return untold;
}

// --- Questions --------------------------------------------------------------

std::string Negotiation::Lack(int rank, size_t names_max) const {
  if (!returns_.empty()) {
    return returns_[rank].held ? ""
                               : "has not said which decisions it holds, after "
                                 "a restart of the coordinator";
  }
  if (!open_.HasAnnounced(rank)) {
    return absl::StrFormat("has not announced its parameters of pass %d",
                           open_.number());
  }
  const size_t awaited = open_.Awaited(rank);
  if (awaited == 0) return "";
  std::string names = NameList(open_.AwaitedNames(rank, names_max), names_max);
  if (awaited > names_max) {
    names = absl::StrFormat("%s and %d more", names, awaited - names_max);
  }
  return absl::StrFormat("has not submitted %s of pass %d", names,
                         open_.number());
}

Negotiation::Stated Negotiation::StatedBy(int rank) const {
  Stated stated{.open_pass = open_.number()};
  if (open_.HasAnnounced(rank)) stated.awaited = open_.Awaited(rank);
  return stated;
}

}  // namespace lockstep::core
