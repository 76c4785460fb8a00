// Who runs a step's communication: a helper thread beside the backward pass, or
// the training thread itself, in Finish.
//
//   helper    backward ████████████████      inline    backward ████████████
//   thread    comm        ▂▂  ▂▂  ▂▂  ▂▂               comm               ▂▂▂▂
//
// Where cores are idle, or peers are far away, a helper hides nearly all of it.
// Where the backward pass needs every core it hides nothing: the helper takes
// the time from it, and pays for the switches. Which it is, is measured, over
// whole steps, for only they show what a helper takes from who computes:
//
//   inline ┬ trial: ─ = = ─ ─ = = ─ ─ = = ─ ┬ rest ─ ─ ─ ... ┬ trial ...
//          │ steps of both forms in turn     └ in the better  └ after twice as
//          └ the first few do not count        form             long, at most
//                                                               kRestMax steps
//
// Turns are in pairs that swap (ABBA), so that neither a drift nor work that
// comes every second step counts for one form alone. Medians decide, and a form
// gives way only to one that is better by kMargin.
//
// All ranks must be in the same form, for who communicates in Finish keeps all
// others waiting. So each rank says in the verdict how long its step took until
// then, and every rank's choice is fed with the same mean, and is the same.
//
// A value. The form never changes a bit of the result: the same work is done in
// the same order.

#ifndef LOCKSTEP_CLIENT_GRADIENT_OVERLAP_CHOICE_H_
#define LOCKSTEP_CLIENT_GRADIENT_OVERLAP_CHOICE_H_

#include <vector>

#include "lockstep/job_spec.h"

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

  // Of the step in progress: never kAuto.
  Overlap form() const { return form_; }

  // The step in progress has passed and took so long, in the mean of all ranks.
  void Passed(double seconds);

 private:
  void Judge();
  Overlap Other() const;

  bool measures_;
  Overlap best_;
  Overlap form_;
  int until_trial_ = kWarmUp;               // steps
  int rest_ = kRestMin;                     // the next one's steps
  std::vector<double> in_best_, in_other_;  // seconds, of the trial so far
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_OVERLAP_CHOICE_H_
