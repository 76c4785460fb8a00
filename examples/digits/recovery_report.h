// What a worker says of an epoch that ended, and of the next one, as lines for
// a program.
//
//   ended 20 worker-1 (rank 1, ...) died     steps done, why
//   resumed replay 20 2 1 3 kept             how, steps done, epoch,
//                                            generation, workers, where the
//                                            state came from

#ifndef LOCKSTEP_EXAMPLES_DIGITS_RECOVERY_REPORT_H_
#define LOCKSTEP_EXAMPLES_DIGITS_RECOVERY_REPORT_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "lockstep/recovery.h"
#include "lockstep/state_replicas.h"

namespace lockstep::digits {

struct EndedEpoch {
  int64_t steps = 0;
  std::string why;
};

struct ResumedEpoch {
  std::string how;  // "replay", "roll-forward", "restore"; "join": a newcomer
  int64_t steps = 0;
  uint64_t epoch = 0;
  uint64_t generation = 0;
  int workers = 0;     // of the epoch
  std::string origin;  // "kept", "peers", "checkpoint", "initial"
};

std::string NameOf(RecoveryKind kind);
std::string NameOf(StateOrigin origin);

std::string ToMachineLine(const EndedEpoch& ended);
std::string ToMachineLine(const ResumedEpoch& resumed);

// Writes a line to the standard output if a program reads it, else to the
// standard error.
template <typename Line>
void Say(const Line& line, bool machine_progress) {
  std::FILE* const out = machine_progress ? stdout : stderr;
  std::fprintf(out, "%s\n", ToMachineLine(line).c_str());
  std::fflush(out);
}

// Empty for any other line.
std::optional<EndedEpoch> EndedFromMachineLine(absl::string_view line);
std::optional<ResumedEpoch> ResumedFromMachineLine(absl::string_view line);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_RECOVERY_REPORT_H_
