// How much a claim about another process weighs.
//
//   exited, and it is the member's process      proof: it is dead, at once
//   reset or silent data socket, and it is
//   the member's generation                     a hint: it may yet answer
//   of a member that has gone                   nothing
//   of another process or generation, of a
//   name that nobody bears                      nothing; it is noted
//
// A launcher knows the processes that it started, not whether the coordinator
// took them for members: a second launch of a running job has the names of its
// workers. So proof names the process. What the accuser knows of the generation
// must be right too.
//
// A hint becomes an *accusation*: if the accused has neither died nor gone when
// its time to answer ends, it lives, and it is the link that is broken. Of a
// silent peer it must be heard first, later than the accusation: it may be
// stopped, and then its lease decides.

#ifndef LOCKSTEP_SERVER_CORE_EVIDENCE_H_
#define LOCKSTEP_SERVER_CORE_EVIDENCE_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "plan/words/protocol.h"
#include "server/core/roster.h"

namespace lockstep::core {

enum class Weight { kNothing, kStranger, kHint, kProof };

// `subject` may be nullptr: nobody of that name.
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
  if (!subject->seated()) return Weight::kNothing;
  return is_proof ? Weight::kProof : Weight::kHint;
}

struct Accusation {
  WorkerName accuser;
  WorkerName accused;
  std::string what;  // "reset the data connection"
  absl::Time answer_by;
  // Its accuser saw it fall silent; who resets a connection may do so because
  // of another.
  bool silent = false;
  absl::Time made = absl::InfinitePast();
};

// The open accusations of an epoch, by the time at which they must be answered.
class Accusations {
 public:
  // One for each pair; a repeated one changes nothing. Times must not decrease.
  void Add(Accusation accusation) {
    const auto same = [&accusation](const Accusation& other) {
      return other.accuser == accusation.accuser &&
             other.accused == accusation.accused;
    };
    if (std::none_of(open_.begin(), open_.end(), same)) {
      open_.push_back(std::move(accusation));
    }
  }

  bool HasAccused(const WorkerName& worker) const {
    return std::any_of(open_.begin(), open_.end(), [&worker](const auto& a) {
      return a.accuser == worker;
    });
  }

  // It has gone, so its links are nobody's fault.
  void Drop(const WorkerName& worker) {
    const auto about = [&worker](const Accusation& accusation) {
      return accusation.accuser == worker || accusation.accused == worker;
    };
    open_.erase(std::remove_if(open_.begin(), open_.end(), about), open_.end());
  }

  // All get until then.
  void BeginAnew(absl::Time answer_by) {
    for (Accusation& accusation : open_) accusation.answer_by = answer_by;
  }

  // The one that tells most: the first of a silent peer, or the first. There is
  // one.
  const Accusation& Weightiest() const {
    const auto silent =
        std::find_if(open_.begin(), open_.end(),
                     [](const Accusation& a) { return a.silent; });
    return silent == open_.end() ? open_.front() : *silent;
  }

  const std::vector<Accusation>& open() const { return open_; }

  absl::Time Next() const {
    return open_.empty() ? absl::InfiniteFuture() : open_.front().answer_by;
  }

 private:
  std::vector<Accusation> open_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EVIDENCE_H_
