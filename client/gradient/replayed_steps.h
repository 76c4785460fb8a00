// State of the public ReplayedSteps: the engine, and the translator of its
// errors.

#ifndef LOCKSTEP_CLIENT_GRADIENT_REPLAYED_STEPS_H_
#define LOCKSTEP_CLIENT_GRADIENT_REPLAYED_STEPS_H_

#include <functional>
#include <utility>

#include "client/gradient/engine.h"
#include "lockstep/replayed_steps.h"

namespace lockstep {

class ReplayedSteps::State {
 public:
  State(gradient::Engine* engine,
        std::function<absl::Status(const absl::Status&)> explain)
      : engine_(*engine), explain_(std::move(explain)) {}
  ~State() { engine_.LeaveCapture(); }

  gradient::Engine& engine() { return engine_; }
  absl::Status Explained(const absl::Status& status) {
    return explain_(status);
  }

 private:
  gradient::Engine& engine_;
  const std::function<absl::Status(const absl::Status&)> explain_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_GRADIENT_REPLAYED_STEPS_H_
