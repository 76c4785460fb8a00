// Faults of an engine's device path, injected between the engine and its
// DeviceContext.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_DEVICE_FAULTS_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_DEVICE_FAULTS_H_

#include <memory>

#include "client/transport/device_context.h"

namespace lockstep::gradient {

enum class ComputeFault {
  kNone,
  kReadsBeforeTheCopyIsThere,  // every Done has come
  kReducesBeforeTheGradients,  // a Transfer waits for nothing
  kUpdatesBeforeTheVerdict,    // a Hold lets go at once, with a yes
  kHoldsNothing,               // FinishAsync lets the stream run on
  kKeepsTheLastNorm,           // what gathers is not cleared
  kForgetsTheFlags,            // they stay in the bucket as they were
  kEverythingAside,            // no transfer waits for what is aside
  // With captured steps:
  kKeepsTheFirstBallot,  // a launch gives what the one before gave
  kSaysYesInTheGraph,    // the scalars, whatever the host has judged
  kLaunchesNothing,
};

// Forwards every call except those that the fault changes. No work is enqueued
// on `other_stream`; kHoldsNothing stalls it in place of the caller's stream.
std::unique_ptr<transport::DeviceContext> Spoil(
    ComputeFault fault, std::unique_ptr<transport::DeviceContext> inner,
    std::unique_ptr<Stream> other_stream);

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_DEVICE_FAULTS_H_
