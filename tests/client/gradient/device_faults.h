// Faults of an engine's device path, injected between the engine and its
// DeviceContext.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_DEVICE_FAULTS_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_DEVICE_FAULTS_H_

#include <memory>

#include "client/transport/device_context.h"

namespace lockstep::gradient {

enum class ComputeFault {
  kNone,
  kReadsBeforeTheCopyIsThere,  // every Done event is complete at once
  kReducesBeforeTheGradients,  // transfers do not wait for their events
  kKeepsTheLastNorm,           // the norm's accumulator is not cleared
  kForgetsTheFlags,            // the flags in the bucket are not written
  kEverythingAside,            // all operations run on the side stream
  kIgnoresStop,                // the stop word is not set
  kAnEventForEachGradient,     // a bucket waits for many events of a stream
  kScalesApart,                // a mean has a pass of its own
  // With captured steps:
  kSaysWhatTheFirstStepSaid,  // every record has the first launch's input
  kAlwaysCommits,             // the scalars do, whatever the gate says
  kLaunchesNothing,
};

// Forwards every call except those that the fault changes.
std::unique_ptr<transport::DeviceContext> Spoil(
    ComputeFault fault, std::unique_ptr<transport::DeviceContext> inner);

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_DEVICE_FAULTS_H_
