// How training goes on after an epoch that ended: what Session::Recover
// returns, and what the program does.
//
//   std::optional<lockstep::Recovery> recovered;
//   for (;;) {
//     auto session = Session::Join({.recovered = recovered});
//     if (!session.ok()) return session.status();
//     // Registers, seals, receives the state (StateReplicas::Resume), and does
//     // steps until the last one, or until any of these calls fails.
//     const absl::Status trained = TrainInOneEpoch(**session);
//     if (trained.ok()) return (*session)->Leave();
//     auto recovery = (*session)->Recover();
//     if (!recovery.ok()) return trained;  // an error of the program, or the
//                                          // job does not go on
//     if (recovery->verdict) {             // others have applied the step:
//       ... update with what is in the buckets ...
//       if (recovery->verdict->IsLast()) return (*session)->Leave();
//     }
//     recovered = *recovery;
//   }
//
// Join returns Cancelled to a survivor that waited beside a smaller epoch when
// the others have completed the job: it is not needed, and that is no failure.
//
// An epoch may end at any moment: not only Finish fails then, but also
// Register, Create, Seal or Resume. examples/minimal/recovering.cc is a whole
// program.
//
//   rank 0  ── step 41 ──┬ passed 41 ───────────┐ replay step 42
//   rank 1  ── step 41 ──┬ waits for its verdict│ roll forward: apply step 41
//   rank 2  ── step 41 ──x killed               │
//
// A step is applied by all ranks or by none: a rank passes the verdict of a
// step only when all ranks have entered it, with all reduced gradients of the
// step. So the ranks are at most one step apart, and one that is behind has
// what it needs: it applies the step with the verdict of those that passed it.
//
// Threads: values.

#ifndef LOCKSTEP_RECOVERY_H_
#define LOCKSTEP_RECOVERY_H_

#include <cstdint>
#include <optional>

#include "lockstep/verdict.h"

namespace lockstep {

enum class RecoveryKind : uint8_t {
  // Compute the step in progress again, with the same samples: nobody has
  // applied it.
  kReplay = 1,
  // Apply the gradients of the step in progress, which are in their buckets,
  // with `verdict`: others have. In a job with run_ahead fetch the views again
  // (GradientSync::Gradient): they are those of this step. With ReplayedSteps
  // the views stay, and Recover has copied the gradients back to them. On a GPU
  // the step's own scalars say that it may not update: give the update others,
  // in device memory, {.commit = 1, .finite = verdict->finite, .clip =
  // verdict->UpdateFactor(max_norm), .samples = verdict->samples}, and wait for
  // it before the GradientSync is destroyed.
  kRollForward,
  // This rank's state, or other ranks' that nobody else has, is lost: the state
  // comes from other ranks or from a checkpoint, by StateReplicas::Resume.
  kRestore,
};

struct Recovery {
  RecoveryKind kind = RecoveryKind::kReplay;
  // kRollForward: what Finish would have returned.
  std::optional<Verdict> verdict = std::nullopt;
  // The number of the next epoch's first step: steps of the job's lifetime.
  uint64_t steps = 0;
  // The epoch that ended.
  uint64_t epoch = 0;
  // This rank has the state that the next epoch begins with, once it has
  // carried this out.
  bool holds_state = false;
};

}  // namespace lockstep

#endif  // LOCKSTEP_RECOVERY_H_
