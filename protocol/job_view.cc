#include "protocol/job_view.h"

namespace lockstep {

std::string_view Name(JobState state) {
  switch (state) {
    case JobState::kForming: return "forming";
    case JobState::kSealed: return "sealed";
    case JobState::kPlanned: return "planned";
    case JobState::kRunning: return "running";
    case JobState::kEpochEnded: return "epoch-ended";
    case JobState::kCompleted: return "completed";
    case JobState::kFailed: return "failed";
    case JobState::kStopped: return "stopped";
  }
  return "?";
}

std::string_view Name(WorkerState state) {
  switch (state) {
    case WorkerState::kJoining: return "joining";
    case WorkerState::kReady: return "ready";
    case WorkerState::kSuspect: return "suspect";
    case WorkerState::kLost: return "lost";
    case WorkerState::kLeft: return "left";
    case WorkerState::kWaiting: return "waiting";
  }
  return "?";
}

std::string_view Name(Overlap overlap) {
  switch (overlap) {
    case Overlap::kAuto: return "auto";
    case Overlap::kInline: return "inline";
    case Overlap::kThread: return "thread";
  }
  return "?";
}

}  // namespace lockstep
