#include "client/gradient/late_effects.h"

namespace lockstep::gradient {

void LateEffects::Apply(uint64_t launch, Verdict* verdict) {
  int& growing = verdict->command_holders[IndexOf(Command::kGrow)];
  int& saving = verdict->command_holders[IndexOf(Command::kSave)];
  const Ending ending = EndingOf(*verdict, uneven_);
  // A command takes precedence over growth, and the first over later ones.
  if (!last_.has_value()) {
    if (CommandOf(ending).has_value()) {
      last_ = launch + run_ahead_;
      ending_ = ending;
    } else if (verdict->Holds(Command::kGrow)) {
      last_ = launch + run_ahead_;
      grows_ = true;
    }
  }
  const bool is_due = last_ == launch;
  verdict->ending = is_due ? ending_ : Ending::kNone;
  if (verdict->ending == Ending::kNone && IsOutOfData(*verdict, uneven_)) {
    verdict->ending = Ending::kOutOfData;
    void_after_ = launch;
  }
  if (is_due && grows_) {
    growing = verdict->world_size;
  } else if (!is_due && verdict->Holds(Command::kGrow)) {
    growing = 0;
  }
  if (verdict->Holds(Command::kSave)) {
    const bool has_saved = saved_at_.has_value() && launch > *saved_at_ &&
                           launch <= *saved_at_ + run_ahead_;
    if (has_saved) {
      saving = 0;
    } else {
      saved_at_ = launch;
    }
  }
  const bool all_hold_next = verdict->revision_holders == verdict->world_size;
  if (all_hold_next && !switches_after_.has_value()) {
    switches_after_ = launch + run_ahead_;
  }
}

std::optional<uint64_t> LateEffects::AwaitedBy(uint64_t next) const {
  std::optional<uint64_t> awaited;
  if (next > run_ahead_) awaited = next - run_ahead_ - 1;
  for (const std::optional<uint64_t>& end : {switches_after_, last_launch()}) {
    if (end.has_value() && *end < next) {
      awaited = std::max(awaited.value_or(0), *end);
    }
  }
  return awaited;
}

}  // namespace lockstep::gradient
