// What an operator tells a job to do while it runs (Admin.CommandJob).

#ifndef LOCKSTEP_PROTOCOL_JOB_COMMAND_H_
#define LOCKSTEP_PROTOCOL_JOB_COMMAND_H_

#include <cstdint>
#include <string_view>

namespace lockstep {

// The values are the wire's: never renumber.
enum class JobCommand : uint8_t {
  kPause = 1,    // all ranks wait at the end of one common step
  kResume = 2,   // they go on; what was asked before is taken back
  kStop = 3,     // one common step is the job's last
  kDrain = 4,    // the workers leave after it; the job stays
  kRebuild = 5,  // buckets are cut anew, as gradients become ready
};

// "pause", "resume", ...; "?" for a value that is none.
constexpr std::string_view Name(JobCommand command) {
  switch (command) {
    case JobCommand::kPause: return "pause";
    case JobCommand::kResume: return "resume";
    case JobCommand::kStop: return "stop";
    case JobCommand::kDrain: return "drain";
    case JobCommand::kRebuild: return "rebuild";
  }
  return "?";
}

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_JOB_COMMAND_H_
