// Chooses the thread that runs a step's communication: a helper thread during
// the backward pass, or the training thread in Finish.
//
//   helper    backward ████████████████      inline    backward ████████████
//   thread    comm        ▂▂  ▂▂  ▂▂  ▂▂               comm               ▂▂▂▂
//
// When cores are idle or peers are far away, a helper hides nearly all of it.
// When the backward pass needs every core, a helper hides nothing: it takes its
// time from the backward pass and adds context switches. The choice is measured
// over whole steps, since only these include what a helper takes from compute:
//
//   inline ┬ trial: ─ = = ─ ─ = = ─ ─ = = ─ ┬ rest ─ ─ ─ ... ┬ trial ...
//          │ alternating steps of both forms └ in the better  └ after twice as
//          └ the first few do not count        form             long, at most
//                                                               kRestMax steps
//
// The forms alternate in swapped pairs (ABBA), so that neither a drift nor work
// of every second step favours one form. Medians decide, and the current form
// is replaced only by one that is faster by kMargin.
//
// All ranks must use the same form, since a rank that communicates in Finish
// blocks all others. So each rank puts its step time so far in the step
// summary, and every rank's choice gets the same mean and gives the same
// result.
//
// A value type. The form never changes a bit of the result: the same work is
// done in the same order.

#ifndef LOCKSTEP_CLIENT_GRADIENT_OVERLAP_CHOICE_H_
#define LOCKSTEP_CLIENT_GRADIENT_OVERLAP_CHOICE_H_

#include <vector>

#include "lockstep/job_options.h"

namespace lockstep::gradient {

class OverlapChoice {
 public:
  static constexpr int kWarmUp = 3;  // steps that do not count
  static constexpr int kTurns = 12;  // steps of a trial, half of each form
  static constexpr int kRestMin = 100;
  static constexpr int kRestMax = 3200;
  static constexpr double kMargin = 0.01;

  // kInline and kThread are fixed; kAuto measures.
  explicit OverlapChoice(Overlap wanted);

  // The form of the step in progress: never kAuto.
  Overlap form() const { return form_; }

  // The step in progress passed; `seconds` is its mean duration over all ranks.
  void Passed(double seconds);

 private:
  void Judge();
  Overlap Other() const;

  bool measures_;
  Overlap best_;
  Overlap form_;
  int until_trial_ = kWarmUp;               // steps
  int rest_ = kRestMin;                     // steps of the next rest
  std::vector<double> in_best_, in_other_;  // seconds, in the current trial
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_OVERLAP_CHOICE_H_
