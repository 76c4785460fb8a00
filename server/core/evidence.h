// The weight of a report about another process.
//
//   exited, and it is the member's process      proof: dead, at once
//   reset or silent data socket, closed local
//   socket, and it is the member's generation   a hint: it may still answer
//   about a member that has gone                none
//   about another process or generation, or
//   a name without a holder                     none; it is noted
//
// A launcher knows the processes that it started, not whether the coordinator
// admitted them: a second launch of a running job uses the names of the first
// one's workers. Proof must therefore identify the process, and the generation
// if it is given.
//
// A broken stream and a closed local socket together are enough: the worker is
// lost at once (Job::LoseIfUnreachable).
//
// Any other hint becomes an *accusation*. If every accused has sent a message
// after that, or accuses its accuser, and no worker has lost its stream, all
// live, and the link is broken. A silent peer is awaited until its lease
// decides: it may be stopped. A peer that has reset the connection is awaited
// for the resume window: if it was dead, its stream would have broken.

#ifndef LOCKSTEP_SERVER_CORE_EVIDENCE_H_
#define LOCKSTEP_SERVER_CORE_EVIDENCE_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "protocol/evidence.h"
#include "server/core/roster.h"

namespace lockstep::core {

enum class Weight { kNothing, kStranger, kHint, kProof };

// `subject` is nullptr if no worker has that name.
inline Weight Weigh(const protocol::Evidence& evidence, const Worker* subject) {
  if (subject == nullptr) return Weight::kStranger;
  const bool is_proof = evidence.kind == protocol::EvidenceKind::kExited;
  const bool same_generation = evidence.generation == subject->generation;
  const bool same_process =
      evidence.process.identifies() && evidence.process == subject->process;
  const bool is_about_it =
      is_proof
          ? same_process && (same_generation || evidence.generation.value == 0)
          : same_generation;
  if (!is_about_it) return Weight::kStranger;
  if (!subject->holds_rank()) return Weight::kNothing;
  return is_proof ? Weight::kProof : Weight::kHint;
}

struct Accusation {
  WorkerName reporter;
  WorkerName accused;
  std::string what;  // "reset the data connection"
  absl::Time answer_by;
  // The accuser saw the peer fall silent. A reset connection, in contrast, may
  // be the consequence of another failure.
  bool silent = false;
  absl::Time made = absl::InfinitePast();
};

// The open accusations of an epoch, by the time at which they must be answered.
class Accusations {
 public:
  // Keeps one for each pair of workers; a repeated one changes nothing.
  void Add(Accusation accusation) {
    const auto same = [&accusation](const Accusation& other) {
      return other.reporter == accusation.reporter &&
             other.accused == accusation.accused;
    };
    if (std::none_of(open_.begin(), open_.end(), same)) {
      open_.push_back(std::move(accusation));
    }
  }

  bool HasAccused(const WorkerName& worker) const {
    return std::any_of(open_.begin(), open_.end(), [&worker](const auto& a) {
      return a.reporter == worker;
    });
  }

  // The accused accuses the reporter, too: it lived when it saw the broken
  // link.
  bool IsMutual(const Accusation& accusation) const {
    return std::any_of(open_.begin(), open_.end(), [&](const Accusation& a) {
      return a.reporter == accusation.accused &&
             a.accused == accusation.reporter;
    });
  }

  // The worker is gone: removes the accusations by it and against it.
  void Drop(const WorkerName& worker) {
    const auto about = [&worker](const Accusation& accusation) {
      return accusation.reporter == worker || accusation.accused == worker;
    };
    open_.erase(std::remove_if(open_.begin(), open_.end(), about), open_.end());
  }

  // Moves the deadline of every accusation.
  void BeginAnew(absl::Time answer_by) {
    for (Accusation& accusation : open_) accusation.answer_by = answer_by;
  }

  // The most telling accusation: the first of a silent peer, else the first.
  // Must not be empty.
  const Accusation& Weightiest() const {
    const auto silent =
        std::find_if(open_.begin(), open_.end(),
                     [](const Accusation& a) { return a.silent; });
    return silent == open_.end() ? open_.front() : *silent;
  }

  const std::vector<Accusation>& open() const { return open_; }

  absl::Time Next() const {
    absl::Time next = absl::InfiniteFuture();
    for (const Accusation& a : open_) next = std::min(next, a.answer_by);
    return next;
  }

 private:
  std::vector<Accusation> open_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EVIDENCE_H_
