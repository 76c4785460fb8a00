// The commands of an operator to a running job (Admin.CommandJob).

#ifndef LOCKSTEP_PROTOCOL_JOB_COMMAND_H_
#define LOCKSTEP_PROTOCOL_JOB_COMMAND_H_

#include <cstdint>
#include <string_view>

namespace lockstep {

// The values are part of the wire format: never renumber.
enum class JobCommand : uint8_t {
  kPause = 1,    // all ranks wait at the end of one common step
  kResume = 2,   // all ranks continue; cancels earlier commands
  kStop = 3,     // one common step is the job's last
  kDrain = 4,    // the workers leave after it; the job stays
  kRebuild = 5,  // rebuild buckets in the order of readiness
  kSave = 6,     // all ranks save a checkpoint of one common step
};

// "pause", "resume", ...; "?" for any other value.
constexpr std::string_view Name(JobCommand command) {
  switch (command) {
    case JobCommand::kPause: return "pause";
    case JobCommand::kResume: return "resume";
    case JobCommand::kStop: return "stop";
    case JobCommand::kDrain: return "drain";
    case JobCommand::kRebuild: return "rebuild";
    case JobCommand::kSave: return "save";
  }
  return "?";
}

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_JOB_COMMAND_H_
