// One worker's training on a device: the loop of trainer.h, enqueued.
//
//   stream  [forward][loss][backward: gradients ─Submit▶ ...][verdict][update]
//   host    └ enqueues all of it ─────────── FinishAsync ──┘  └ Wait
//
// The update is enqueued after the verdict and reads its scalars: no weight
// changes in a step that the device has not seen committed. In a job with
// run_ahead the host waits for the verdict of an earlier step, and reports only
// some losses.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_TRAINING_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_TRAINING_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "examples/digits/device/device.h"
#include "examples/digits/network.h"
#include "examples/digits/trainer.h"
#include "lockstep/session.h"

namespace lockstep::digits {

// Runs the recipe's steps, or until the step that is the last of all ranks.
// `network` provides the initial weights and gets the trained ones. `samples`
// is this worker's share; `after_update` gets the loss as in trainer.h, and may
// be empty.
template <typename T>
absl::Status TrainOnDevice(
    const Recipe& recipe, const TrainingSet& training_set,
    const Samples& samples, Session& session, Device& device,
    Network<T>& network,
    const std::function<void(int64_t step, double loss)>& after_update);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_TRAINING_H_
