// The verdict: the result of a small all-reduce over the world that ends a
// step.
//
// A step is committed if every rank took part and all were at the same step of
// the same epoch and revision. Only then may the update be applied:
//
//   auto verdict = sync.Finish({.samples = 64});
//   if (verdict->finite) optimizer.Step(verdict->UpdateFactor(1.0));
//   if (verdict->IsLast()) break;
//
// All ranks get the same verdict, bit for bit.

#ifndef LOCKSTEP_VERDICT_H_
#define LOCKSTEP_VERDICT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/command.h"
#include "lockstep/export.h"
#include "lockstep/loss_scale.h"

namespace lockstep {

// Why a step is the last one, on all ranks.
enum class Ending : uint8_t {
  kNone = 0,       // it is not the last
  kOutOfData = 1,  // one rank (uneven: stop) or all ranks (uneven: join)
  kDrain = 2,      // the operator's command
  kStop = 3,       // the operator's command
};

struct LOCKSTEP_EXPORT Verdict {
  uint64_t step = 0;       // the step that the verdict ends
  bool committed = false;  // always true in a verdict that Finish returns
  // The reduced gradients of no rank contain NaN or infinity.
  bool finite = true;
  // The 2-norm of all reduced gradients, unscaled (see FinishOptions), summed
  // in f64; each logical element counts once in the world. Non-finite elements
  // are left out. Infinite if a square overflows f64 (elements beyond 1e154):
  // UpdateFactor of a finite max_norm is then 0.
  double global_norm = 0;
  int64_t nonfinite = 0;   // elements that are NaN or infinite
  double samples = 0;      // over all ranks
  int with_more_data = 0;  // ranks with FinishOptions::more_data
  // Ranks that have staged the next revision of the plan, with other buckets.
  // If all have, buckets move after this step (GradientSync::OnMoved).
  int revision_holders = 0;
  int command_holders[kCommands] = {};  // ranks, by IndexOf(command)
  // The number of the operator's command that every rank has received; 0 if
  // there is none, or if ranks have different ones.
  uint64_t command_word = 0;
  int world_size = 1;
  // As given to Finish, or 1 / the loss scale that the device had in the step
  // (loss_scale.h).
  double inverse_scale = 1;
  bool per_sample = false;  // as given to Finish
  Ending ending = Ending::kNone;
  // With a loss scale on the device: that of the next step. A program that
  // keeps it with its step number has what SetLossScale needs in a later epoch.
  std::optional<LossScale> next_loss_scale;

  // By ParameterId::index: whether any rank of this rank's reduction group
  // contributed a gradient of the parameter in this step. Otherwise the reduced
  // gradient is zero, and an optimizer may skip it. Ranks of different groups
  // may have different values. In negotiated mode a rank that did not announce
  // a parameter has zeros, even where another rank's gradient makes this true.
  std::vector<bool> contributed;

  // True if the step is the last, on all ranks: apply the update, leave the
  // loop, call Session::Leave. Further step calls are Cancelled. In a job with
  // run_ahead the host may see this after it has enqueued further steps, which
  // are void.
  bool IsLast() const { return ending != Ending::kNone; }

  // True if the epoch ends with this step, on all ranks, because workers wait
  // to join: apply the update, then call Session::Recover. Further step calls
  // are Aborted.
  bool Grows() const {
    return ending == Ending::kNone && Holds(Command::kGrow);
  }

  // True if every rank has received this command, with the same number: obey
  // it now. Finish itself obeys a pause; IsLast covers stop and drain, Grows
  // the growth of an elastic job. Growth has no number. Neither has a save: it
  // holds at one step, the first at which every rank has a request that was not
  // obeyed yet, also beside other commands and at the last step.
  bool Holds(Command command) const {
    const bool by_all = command_holders[IndexOf(command)] == world_size;
    const bool has_number =
        command != Command::kSave && command != Command::kGrow;
    return by_all && (!has_number || command_word != 0);
  }

  // The factor that undoes the loss scale and, for sums over samples
  // (per_sample), divides by the samples of all ranks; 0 without samples.
  double GradientScale() const;

  // min(1, max_norm / global_norm); 1 for a norm of 0. `max_norm` > 0.
  double ClipCoefficient(double max_norm) const;

  // The factor for the gradients in the buckets before the update:
  // GradientScale times ClipCoefficient(max_norm). Infinity: no clipping.
  double UpdateFactor(double max_norm) const;

  bool operator==(const Verdict&) const = default;
};

// Dynamic loss scaling for f16: increases the scale so that small gradients do
// not underflow, decreases it when a step overflows.
//
//   loss = scaler.scale() * loss;  ... backward ...
//   verdict = sync.Finish({.inverse_scale = 1 / scaler.scale()});
//   if (scaler.Update(*verdict))
//     optimizer.Step(verdict->UpdateFactor(max_norm));
//
// It depends on verdicts only, so all ranks have the same scale. Where the
// device decides, GradientSync::ScaleLossOnDevice needs no host for it.
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

  // Call with the verdict of each committed step. False: the gradients
  // overflowed; skip the update. The scale is now smaller.
  bool Update(const Verdict& verdict);

 private:
  Options options_;
  double scale_;
  int finite_in_a_row_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_VERDICT_H_
