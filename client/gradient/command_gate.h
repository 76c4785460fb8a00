// What an operator wants, as this rank heard it, and the gate that a pause
// shuts.
//
//   session ─Hear(word 5: pause)─▶ ┌ gate ┐
//   verdict of step 412, entered ◀─ Enter │  "I hold word 5: pause"
//   ... and passed: all hold it ──▶ Pass  │  shut: Finish does not return
//   session ─Hear(word 6)────────▶        │  open: Finish returns
//
// Why all ranks act after the same step. A rank says in its ballot which word
// it holds as it enters the verdict. All ranks see the same verdict, bit for
// bit; it shows a command as held only if every rank holds it by the same word.
// So all act after that step, or none does, whenever a word reached whom.
//
// Why nobody stays behind a pause. Who is held goes on with the next word,
// whatever it says. Words reach every rank in order, or a later one in place of
// those that were missed, and all that are held were held by the same word: so
// each of them goes on, none before the operator has said something new. Were a
// rank to wait until no pause is wanted, one that missed the word between two
// pauses would stay while the others enter the next verdict, and wait for it
// there. As it is, a pause that was taken back and wanted again takes effect
// one step or more later, after the same one for all.
//
// A pause that is taken back while ranks enter the verdict: if one of them
// entered with the later word, the verdict shows that not all hold the same,
// and nobody pauses. If none did, all pause, and go on as each hears it.
//
// Threads: all methods from any. `go_on` is run by the thread that opens the
//          gate, without a lock.

#ifndef LOCKSTEP_CLIENT_GRADIENT_COMMAND_GATE_H_
#define LOCKSTEP_CLIENT_GRADIENT_COMMAND_GATE_H_

#include <functional>

#include "base/mutex.h"
#include "client/gradient/step_summary.h"
#include "lockstep/verdict.h"
#include "plan/words/protocol.h"

namespace lockstep::gradient {

class CommandGate {
 public:
  // A word that is not newer than the one before changes nothing.
  void Hear(const protocol::DesiredCommands& word);

  // What this rank holds, as it enters a verdict.
  void Enter(StepSummary* summary) const;

  // A verdict has passed. Runs `go_on` now or, if the verdict pauses, once the
  // gate opens. One at a time.
  void Pass(const Verdict& verdict, std::function<void()> go_on);

  // The epoch is over: nobody is held any more, ever.
  void Open();

  // Does `go_on` wait?
  bool shut() const;

 private:
  mutable Mutex mutex_;
  protocol::DesiredCommands word_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> held_ ABSL_GUARDED_BY(mutex_);
  bool open_for_good_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_COMMAND_GATE_H_
