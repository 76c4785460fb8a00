// The operator's commands, as this rank received them, and the gate that a
// pause closes.
//
//   session ─Receive(5: pause)─────▶ ┌ gate ┐
//   verdict of step 412, entered ◀── Enter  │  "record 5: pause"
//   ... and passed: all have it ───▶ Pass   │  shut: Finish does not return
//   session ─Receive(6)────────────▶        │  open: Finish returns
//
// All ranks act after the same step. A rank puts the number of its current
// command record in its step summary when it enters the verdict. All ranks get
// the same verdict, bit for bit; it includes a command only if every rank has
// it by the same record. So either all ranks act after that step or none does,
// whenever each rank received the record.
//
// No rank stays behind a pause. A paused rank resumes on the next record,
// whatever it contains. Every rank receives the records in order, or a later
// one in place of those that it missed, and all paused ranks were paused by the
// same record: so each of them resumes, none before the operator has issued a
// new record. If a rank waited until no pause is wanted, a rank that missed the
// record between two pauses would stay paused while the others enter the next
// verdict and wait for it there. With this rule, a pause that was withdrawn and
// requested again takes effect one step or more later, after the same step on
// all ranks.
//
// A pause withdrawn while ranks enter the verdict: if one of them entered with
// the later record, the verdict shows that the records differ, and no rank
// pauses. If none did, all pause, and each resumes when it receives the record.
//
// So is the wish to grow: DesiredCommands::wants_growth(). It needs no number,
// since it is obeyed once; the ranks enter the next verdict, if there is one,
// with what they know then. A pause does not hold ranks in an epoch that ends
// with the step: the next epoch obeys it.
//
// Saves are beside the records: DesiredCommands::saves counts the requests. A
// rank holds Command::kSave in a verdict if it entered it with more requests
// than it had when a save last held. So a save holds at one step, on all ranks
// or on none; requests before that step's end are one save. A request that
// arrives during a pause does not end it.
//
// Threads: all methods may be called from any thread. `go_on` runs on the
//          thread that opens the gate, without a lock.

#ifndef LOCKSTEP_CLIENT_GRADIENT_COMMAND_GATE_H_
#define LOCKSTEP_CLIENT_GRADIENT_COMMAND_GATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "client/gradient/step_summary.h"
#include "lockstep/verdict.h"
#include "protocol/types.h"

namespace lockstep::gradient {

class CommandGate {
 public:
  // Ignores a record that is not newer than the current one (IsNewer).
  void Receive(const protocol::DesiredCommands& word);

  // Writes this rank's current commands to its summary for a verdict. Verdicts
  // pass in the order in which they were entered.
  void Enter(StepSummary* summary);

  // The same for steps that the program launches: what the host says of them
  // until it is asked again, and the requests for a save that it has received.
  uint64_t Hold(StepSummary* summary) const;
  // Call before Pass of such a step, with what its record said.
  void Entered(uint64_t saves);

  // Call after a verdict has passed, in order. Runs `go_on` now or, if this
  // verdict or one before pauses, when the gate opens. `ends`: the epoch ends
  // with this step, or with one that may be in flight. One call at a time.
  void Pass(const Verdict& verdict, bool ends, std::function<void()> go_on);

  // The epoch is over: opens the gate for good.
  void Open();

  // Whether a `go_on` is waiting.
  bool shut() const;

 private:
  void HoldNow(StepSummary* summary) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  protocol::DesiredCommands word_ ABSL_GUARDED_BY(mutex_);
  // DesiredCommands::saves, when the verdicts that have not passed were
  // entered, and when the last one that held a save was.
  std::deque<uint64_t> saves_entered_ ABSL_GUARDED_BY(mutex_);
  uint64_t saves_obeyed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::function<void()>> held_ ABSL_GUARDED_BY(mutex_);
  bool open_for_good_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_COMMAND_GATE_H_
