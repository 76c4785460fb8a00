#include "client/gradient/ending.h"

#include "absl/strings/str_format.h"

namespace lockstep::gradient {
namespace {

const char* Why(Ending ending) {
  switch (ending) {
    case Ending::kNone: break;
    case Ending::kOutOfData: return "there is no more data";
    case Ending::kDrain: return "an operator drains the job";
    case Ending::kStop: return "an operator stops the job";
  }
  return "it is not";
}

}  // namespace

Ending EndingOf(const Verdict& verdict, Uneven uneven) {
  if (verdict.Holds(Command::kStop)) return Ending::kStop;
  if (verdict.Holds(Command::kDrain)) return Ending::kDrain;
  return IsOutOfData(verdict, uneven) ? Ending::kOutOfData : Ending::kNone;
}

bool IsOutOfData(const Verdict& verdict, Uneven uneven) {
  const int needed = uneven == Uneven::kStop ? verdict.world_size : 1;
  return verdict.with_more_data < needed;
}

std::optional<Command> CommandOf(Ending ending) {
  if (ending == Ending::kStop) return Command::kStop;
  if (ending == Ending::kDrain) return Command::kDrain;
  return std::nullopt;
}

absl::Status AfterTheLast(const Verdict& verdict) {
  if (verdict.Grows()) {
    return absl::AbortedError(absl::StrFormat(
        "the job grows after step %d, since workers wait to join: call "
        "Session::Recover, and join again",
        verdict.step));
  }
  return absl::CancelledError(absl::StrFormat(
      "step %d was the last, since %s: leave the loop and call Session::Leave",
      verdict.step, Why(verdict.ending)));
}

}  // namespace lockstep::gradient
