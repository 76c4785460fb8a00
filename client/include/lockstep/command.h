// Commands that the ranks of a running job obey together.

#ifndef LOCKSTEP_COMMAND_H_
#define LOCKSTEP_COMMAND_H_

#include <cstdint>
#include <string_view>

namespace lockstep {

// All ranks obey after the same step: the first one whose verdict shows that
// every rank has received the command. The values are part of the wire format:
// never renumber.
enum class Command : uint8_t {
  kPause = 1,  // Finish returns once the operator resumes
  kStop = 2,   // the step was the job's last
  // Every worker leaves; the job remains and accepts new workers.
  kDrain = 3,
  // The coordinator's, in an elastic job: workers wait to join. The step is the
  // last of the epoch, and the next epoch has more workers.
  kGrow = 4,
  kSave = 5,  // save a checkpoint of this step: true once for each request
};
// The highest value.
inline constexpr int kCommands = 5;

// 0 to kCommands - 1.
constexpr int IndexOf(Command command) { return static_cast<int>(command) - 1; }

// "pause", "stop", ...; "?" for an invalid value.
constexpr std::string_view Name(Command command) {
  switch (command) {
    case Command::kPause: return "pause";
    case Command::kStop: return "stop";
    case Command::kDrain: return "drain";
    case Command::kGrow: return "grow";
    case Command::kSave: return "save";
  }
  return "?";
}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMAND_H_
