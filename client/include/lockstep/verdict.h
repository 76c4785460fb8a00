// The verdict: one small all-reduce over the whole world that ends every step.
//
// A step is committed if every rank took part and all were at the same step of
// the same epoch and revision. Only then may the update be applied:
//
//   auto verdict = sync.Finish({.samples = 64});
//   if (verdict->finite) optimizer.Step(verdict->UpdateFactor(1.0));
//   if (verdict->IsLast()) break;
//
// All ranks see the same verdict, bit for bit.

#ifndef LOCKSTEP_VERDICT_H_
#define LOCKSTEP_VERDICT_H_

#include <cstdint>
#include <vector>

#include "lockstep/command.h"
#include "lockstep/export.h"

namespace lockstep {

// Why a step is the last of all ranks.
enum class Ending : uint8_t {
  kNone = 0,       // it is not
  kOutOfData = 1,  // of one rank (uneven: stop) or of all (uneven: join)
  kDrain = 2,      // the operator's command
  kStop = 3,       // the operator's command
};

struct LOCKSTEP_EXPORT Verdict {
  uint64_t step = 0;       // the step that it ends
  bool committed = false;  // always true in a verdict that Finish returns
  // No rank's reduced gradients hold NaN or infinity.
  bool finite = true;
  // The 2-norm of all reduced gradients, unscaled (see FinishOptions), summed
  // in f64, each logical element counted once in the world. Over the finite
  // elements only, if not all are. Infinite if their squares are too large for
  // f64 (elements beyond 1e154): UpdateFactor is then 0.
  double global_norm = 0;
  int64_t nonfinite = 0;   // elements that are NaN or infinite
  double samples = 0;      // over all ranks
  int with_more_data = 0;  // ranks that said they have another batch
  // Ranks that hold the next revision of the plan, with buckets cut anew. If
  // all do, the step is the last of the revision before (OnMoved,
  // gradient_sync.h).
  int revision_holders = 0;
  int command_holders[kCommands] = {};  // ranks, by IndexOf(command)
  // The number of the operator's command that every rank holds; 0 if they hold
  // none, or not all the same.
  uint64_t command_word = 0;
  int world_size = 1;
  double inverse_scale = 1;  // as given to Finish
  bool per_sample = false;   // as given to Finish
  Ending ending = Ending::kNone;

  // By ParameterId::index: did any rank of the group that reduces the parameter
  // with this one contribute a gradient in this step? The others hold zeros; an
  // optimizer may want to skip them. So ranks of different groups may differ in
  // it. In negotiated mode too it speaks of any rank of the group: one that did
  // not announce a parameter holds zeros, also where another's gradient makes
  // this true.
  std::vector<bool> contributed;

  // The step is the last, here and on every other rank: apply the update, leave
  // the loop, call Session::Leave. A further step call is Cancelled.
  bool IsLast() const { return ending != Ending::kNone; }

  // Every rank holds this command, by the same word: act on it now. Finish
  // itself acts on a pause, and IsLast tells of stop and drain.
  bool Holds(Command command) const {
    return command_word != 0 && command_holders[IndexOf(command)] == world_size;
  }

  // Undoes the loss scale and, for sums over samples (per_sample), divides by
  // the samples of all ranks; 0 if there were none: nothing to apply.
  double GradientScale() const;

  // min(1, max_norm / global_norm); 1 for a norm of 0. `max_norm` > 0.
  double ClipCoefficient(double max_norm) const;

  // What to multiply the gradients in the buckets with before the update:
  // GradientScale, then clipping to `max_norm` (infinity: does not clip).
  double UpdateFactor(double max_norm) const;

  bool operator==(const Verdict&) const = default;
};

// Dynamic loss scaling for f16: scales the loss up so that small gradients
// survive, backs off when a step overflows.
//
//   loss = scaler.scale() * loss;  ... backward ...
//   verdict = sync.Finish({.inverse_scale = 1 / scaler.scale()});
//   if (scaler.Update(*verdict))
//   optimizer.Step(verdict->UpdateFactor(max_norm));
//
// Driven by verdicts alone, so that all ranks keep the same scale.
class LOCKSTEP_EXPORT LossScaler {
 public:
  struct Options {
    double initial_scale = 65536;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    int growth_interval = 2000;  // finite steps in a row before it grows
    double scale_min = 1;
    double scale_max = 16777216;
  };
  LossScaler() : LossScaler(Options{}) {}
  explicit LossScaler(const Options& options);

  double scale() const { return scale_; }

  // Takes note of a committed step. False: skip this update, the gradients
  // overflowed and the scale is now smaller.
  bool Update(const Verdict& verdict);

 private:
  Options options_;
  double scale_;
  int finite_in_a_row_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_VERDICT_H_
