// State of the public CapturedStep: the engine, its step, and the translator of
// its errors.

#ifndef LOCKSTEP_CLIENT_GRADIENT_CAPTURED_STEP_H_
#define LOCKSTEP_CLIENT_GRADIENT_CAPTURED_STEP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "client/gradient/engine.h"
#include "lockstep/captured_step.h"

namespace lockstep {

class CapturedStep::State {
 public:
  State(gradient::Engine* engine, std::shared_ptr<gradient::Captured> step,
        std::function<absl::Status(const absl::Status&)> explain,
        std::function<void(uint64_t launch)> launched)
      : engine_(*engine),
        step_(std::move(step)),
        explain_(std::move(explain)),
        launched_(std::move(launched)) {}

  absl::StatusOr<PendingVerdict> Launch(const FinishOptions& options,
                                        Stream& stream) {
    auto pending = engine_.Launch(step_, options, stream);
    if (!pending.ok()) return explain_(pending.status());
    launched_((*pending)->launch);
    return PendingVerdict(*std::move(pending));
  }
  bool stale() const { return engine_.IsStale(*step_); }

 private:
  gradient::Engine& engine_;
  const std::shared_ptr<gradient::Captured> step_;
  const std::function<absl::Status(const absl::Status&)> explain_;
  const std::function<void(uint64_t launch)> launched_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_GRADIENT_CAPTURED_STEP_H_
