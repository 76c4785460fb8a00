// The plan of an epoch that runs, after a restart of the coordinator: the
// journal has only a hash of it, and its members have its bytes.
//
//   a member resumes ─▶ PlanWanted ─▶ PlanPart... ─▶ compared with the hash and
//      ▲                    │         verified, on a compile thread ─▶ plan
//      │   it has lost its stream, has left, does not answer within a lease,
//      │   has no plan, or sent other bytes
//      └────────────────────┘
//   kAskedMax have failed, or no member has the plan:
//      RegistrationWanted ─▶ all members; the plan is compiled again
//
// Members that were not started register again without a request, and do not
// count here. In an epoch that was adopted, and with a journal of a version
// that wrote no hash, all members are asked to register.
//
// A worker's bytes are untrusted: no more of them are kept than the journal
// says that the plan has, and they are decoded only if they have its SHA-256.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_PLAN_RECALL_H_
#define LOCKSTEP_SERVER_CORE_PLAN_RECALL_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/mesh.h"
#include "protocol/registration.h"
#include "server/core/compilation.h"
#include "server/core/epoch_context.h"

namespace lockstep::core {

class PlanRecall {
 public:
  // At most this many members are asked for the plan.
  static constexpr int kAskedMax = 3;

  // `mesh`: of the epoch. `needed`: the plan was adopted before a restart.
  PlanRecall(int world_size, Mesh mesh, bool needed)
      : needed_(needed), mesh_(std::move(mesh)), members_(world_size) {}

  // --- Members ---

  // The rank has a new stream. `registers`: it need not be asked to register.
  // `holds`: it has acknowledged this plan, and may be asked for it.
  void Resume(int rank, bool registers, bool holds);
  // The rank is not there any more, because it `why`: "lost its stream".
  void Lose(int rank, const std::string& why, EpochContext& context);
  // The rank has left, and does not resume.
  void Leave(int rank) { members_[rank].heard = true; }
  // Asks a member, if none is asked and one should be. Call it after each of
  // the above, once the epoch is started.
  void Ask(EpochContext& context);

  // --- Answers ---

  void On(int rank, const protocol::PlanPart& part, EpochContext& context);
  // The bytes of a member are being checked.
  bool is_checking() const { return checking_.value != 0; }
  bool Checks(CompilationId id) const {
    return is_checking() && checking_ == id;
  }
  // The result of this check. If it is an error, another member is asked.
  void Take(const Compiled& checked, EpochContext& context);
  // There is a plan, or all members have registered again.
  void Stop();

  // --- Time ---

  void Wake(EpochContext& context);
  absl::Time NextWake() const { return answer_by_; }
  // Restarts the deadline: the coordinator was not running for a while.
  void BeginAnew(absl::Time now, absl::Duration lease);

 private:
  struct RecallMember {
    bool heard = false;     // it has resumed or left
    bool registers = true;  // it need not be asked to, or was asked
    bool holds = false;
    bool failed = false;  // it was asked, and did not give the plan back
  };

  // The next rank to ask; -1: none.
  int Candidate() const;
  // A member that did not resume yet may have the plan.
  bool MayYetHold() const;
  // The asked rank does not give the plan back: the sentence about it.
  void Fail(const std::string& why, EpochContext& context);
  // Requests registrations, from now on from each member that resumes; nothing
  // if no member is to be asked.
  void GiveUp(const std::string& why, EpochContext& context);
  void RequestRegistrations(EpochContext& context);
  // Why the part is not the next one of the plan; empty: it is.
  std::string WhyNot(const protocol::PlanPart& part,
                     const DurableJob& durable) const;

  bool needed_;
  const Mesh mesh_;
  std::vector<RecallMember> members_;  // by rank
  int tries_ = 0;
  int asked_ = -1;  // -1: none
  absl::Time answer_by_ = absl::InfiniteFuture();
  std::string bytes_;       // of the parts so far
  CompilationId checking_;  // of the complete bytes; 0: none
  bool given_up_ = false;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_PLAN_RECALL_H_
