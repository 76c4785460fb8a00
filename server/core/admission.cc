#include "server/core/admission.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/secret.h"
#include "server/core/status_text.h"
#include "spec/elastic.h"

namespace lockstep::core {
namespace {

constexpr size_t kNameBytesMax = 253;  // as long as a host name may be

absl::Status IsName(const WorkerName& worker) {
  const std::string& name = worker.value;
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  if (!name.empty() && name.size() <= kNameBytesMax && printable) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "\"%s\" is no worker name: 1 to %d bytes without control characters",
      absl::CHexEscape(name.substr(0, kNameBytesMax)), kNameBytesMax));
}

absl::Status IsListed(const JobSpec& spec, const WorkerName& worker) {
  const auto& list = spec.workers;
  if (list.empty() ||
      std::find(list.begin(), list.end(), worker.value) != list.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%s is not one of the workers of job %s: %s",
                      worker.value, spec.name, NameList(list)));
}

absl::Status Fenced(const AdmissionState& state, const protocol::Hello& hello,
                    absl::Time now) {
  const Worker* holder = state.roster.Find(hello.worker);
  return absl::FailedPreconditionError(absl::StrFormat(
      "generation %d of %s is over: generation %d%s took the name",
      hello.generation.value, hello.worker.value, state.newest.generation.value,
      holder == nullptr
          ? ""
          : absl::StrFormat(" (host %s, pid %d, since %s)",
                            holder->process.host, holder->process.pid,
                            HowLong(now - holder->since))));
}

Stranger NeverAssigned(const AdmissionState& state,
                       const protocol::Hello& hello) {
  return {absl::FailedPreconditionError(absl::StrFormat(
      "generation %d of %s was never assigned here; the newest is %d",
      hello.generation.value, hello.worker.value,
      state.newest.generation.value))};
}

// The message does not reveal which of the two is wrong.
Stranger Unproven(const protocol::Hello& hello) {
  return {absl::PermissionDeniedError(absl::StrFormat(
      "generation %d of %s was given to another incarnation, or with another "
      "secret",
      hello.generation.value, hello.worker.value))};
}

// Sent before its Welcome, on a stream that broke. A new secret would reach
// nobody, and end the one that the worker has.
Stranger Late(const Worker& holder) {
  return {absl::AbortedError(
      absl::StrFormat("%s has the secret of generation %d, and this Hello was "
                      "sent before",
                      holder.name.value, holder.generation.value))};
}

absl::Status ProvenDead(const Worker& holder) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "generation %d of %s is over: it was reported dead (%s)",
      holder.generation.value, holder.name.value, holder.exited));
}

absl::Status Taken(const Worker& holder, absl::Time now) {
  return absl::AlreadyExistsError(absl::StrFormat(
      "the name %s is held by generation %d (host %s, pid %d, since %s)",
      holder.name.value, holder.generation.value, holder.process.host,
      holder.process.pid, HowLong(now - holder.since)));
}

// The holder may have died with the coordinator. Whoever joins tries again:
// then it has resumed, or is known to be dead, or its lease has expired.
Stranger Awaited(const Worker& holder) {
  return {absl::UnavailableError(absl::StrFormat(
      "the coordinator restarted, and waits for generation %d of %s (host %s, "
      "pid %d) to resume",
      holder.generation.value, holder.name.value, holder.process.host,
      holder.process.pid))};
}

bool AreOneParty(const protocol::Launch& a, const protocol::Launch& b) {
  return a.id == b.id || (a.nodes == b.nodes && a.node_rank != b.node_rank);
}

std::string Named(const protocol::Launch& launch) {
  if (launch.nodes == 1) return launch.id;
  return absl::StrFormat("%s (node %d of %d)", launch.id, launch.node_rank,
                         launch.nodes);
}

// Refuses a second launch of the job: each would wait for the ranks that the
// other holds. Suspects do not count, since their launch may have ended. An
// elastic job that has begun takes workers of any launch: it does not wait.
absl::Status IsOfTheirLaunch(const AdmissionState& state,
                             const protocol::Hello& hello) {
  if (!hello.launch) return absl::OkStatus();
  if (spec::IsElastic(state.spec) && state.has_begun) return absl::OkStatus();
  for (const auto& [name, other] : state.roster.workers()) {
    const bool is_here = other.holds_rank() &&
                         other.state != WorkerState::kSuspect && other.launch;
    if (!is_here || AreOneParty(*other.launch, *hello.launch)) continue;
    return absl::AlreadyExistsError(absl::StrFormat(
        "job %s is that of another launch: %s (host %s, pid %d) comes from %s, "
        "%s from %s",
        state.spec.name, name.value, other.process.host, other.process.pid,
        Named(*other.launch), hello.worker.value, Named(*hello.launch)));
  }
  return absl::OkStatus();
}

// "; a rank is kept for w-3, whose stream broke 2s ago, for 3s more".
std::string RankKept(const Worker& worker, absl::string_view why,
                     absl::Time since, absl::Time until, absl::Time now) {
  const std::string more =
      until == absl::InfiniteFuture() || until <= now
          ? ""
          : absl::StrCat(", for ", HowLong(until - now), " more");
  return absl::StrFormat("; a rank is kept for %s, %s %s ago%s",
                         worker.name.value, why, HowLong(now - since), more);
}

// For the workers that are not there; at most kBlamed are named.
std::string RanksKept(const AdmissionState& state, const WorkerName& newcomer,
                      absl::Time now) {
  std::string text;
  int kept = 0;
  for (const auto& [name, worker] : state.roster.workers()) {
    const bool broke = worker.state == WorkerState::kSuspect &&
                       worker.broke_at > absl::InfinitePast();
    const bool is_away = state.recovery != nullptr &&
                         state.recovery->IsAway(name) && name != newcomer;
    if (!broke && !is_away) continue;
    if (++kept > kBlamed) continue;
    const absl::Time resumes_by = worker.broke_at + state.spec.timeouts.resume;
    absl::StrAppend(&text, broke
                               ? RankKept(worker, "whose stream broke",
                                          worker.broke_at, resumes_by, now)
                               : RankKept(worker, "which left to join again",
                                          worker.heard, state.away_until, now));
  }
  if (kept > kBlamed) {
    absl::StrAppend(&text, "; ", Count(kept - kBlamed, "more rank"),
                    kept == kBlamed + 1 ? " is kept" : " are kept");
  }
  return text;
}

// A survivor, or a worker that its launcher restarted before it knew.
bool IsOfTheDrained(const AdmissionState& state, const protocol::Hello& hello) {
  if (state.drained.empty()) return false;
  return hello.held ||
         (hello.launch && state.drained_launches->count(hello.launch->id) > 0);
}

Admission AdmitNewcomer(const AdmissionState& state,
                        const protocol::Hello& hello, absl::Time now) {
  if (IsOfTheDrained(state, hello)) return absl::CancelledError(state.drained);
  const Worker* holder = state.roster.Find(hello.worker);
  const bool is_held = holder != nullptr && holder->holds_rank();
  if (is_held) {
    const bool is_gone =
        holder->state == WorkerState::kSuspect && !holder->awaited;
    const bool comes_again = !state.is_member && !holder->arrived &&
                             holder->process == hello.process;
    if (!is_gone && !comes_again && holder->awaited) return Awaited(*holder);
    if (!is_gone && !comes_again) return Taken(*holder, now);
  }
  if (absl::Status one = IsOfTheirLaunch(state, hello); !one.ok()) return one;
  if (is_held) return NewIncarnation{};
  if (!HasPlace(state)) return Full(state, hello.worker, now);
  return NewIncarnation{};
}

}  // namespace

bool HasPlace(const AdmissionState& state) {
  if (state.members == 0) {
    return state.roster.ranks_held() + state.away <
           spec::WorkersMax(state.spec);
  }
  const auto waiting = static_cast<int>(state.roster.arrived().size());
  return state.members + waiting < spec::WorkersMax(state.spec);
}

absl::Status Full(const AdmissionState& state, const WorkerName& worker,
                  absl::Time now) {
  std::vector<WorkerName> holders;
  for (const auto& [name, holder] : state.roster.workers()) {
    if (holder.holds_rank()) holders.push_back(name);
  }
  const int spares = state.spec.limits.spares;
  return absl::FailedPreconditionError(absl::StrFormat(
      "job %s has no free rank for %s: %d of %d%s are held, by %s%s%s",
      state.spec.name, worker.value, holders.size(),
      state.spec.mesh.WorldSize(),
      spares == 0 ? "" : absl::StrCat(" and ", Count(spares, "spare")),
      holders.empty() ? "nobody" : NameList(holders),
      state.members > 0 ? ", and an epoch runs" : "",
      RanksKept(state, worker, now)));
}

absl::Status MayJoin(const JobSpec& spec, const protocol::Hello& hello) {
  if (absl::Status name = IsName(hello.worker); !name.ok()) return name;
  if (absl::Status listed = IsListed(spec, hello.worker); !listed.ok()) {
    return listed;
  }
  if (hello.incarnation != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s says Hello with incarnation 0: "
                      "it draws one at random",
                      hello.worker.value));
}

Admission Admit(const AdmissionState& state, const protocol::Hello& hello,
                absl::Time now) {
  if (absl::Status may = MayJoin(state.spec, hello); !may.ok()) return may;
  const NameHolder& newest = state.newest;
  if (hello.generation.value == 0) {
    if (hello.incarnation != newest.incarnation)
      return AdmitNewcomer(state, hello, now);
  } else {
    if (hello.generation < newest.generation) return Fenced(state, hello, now);
    if (hello.generation > newest.generation)
      return NeverAssigned(state, hello);
    const bool proven = hello.incarnation == newest.incarnation &&
                        SecretOpens(hello.secret, newest.secret_hash);
    if (!proven) return Unproven(hello);
  }
  const Worker* holder = state.roster.Find(hello.worker);
  if (holder != nullptr && !holder->exited.empty()) return ProvenDead(*holder);
  if (holder != nullptr && holder->has_secret && hello.generation.value == 0)
    return Late(*holder);
  return SameIncarnation{};
}

}  // namespace lockstep::core
