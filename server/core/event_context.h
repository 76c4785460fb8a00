// The context of one Step of the coordinator.

#ifndef LOCKSTEP_SERVER_CORE_EVENT_CONTEXT_H_
#define LOCKSTEP_SERVER_CORE_EVENT_CONTEXT_H_

#include "absl/time/time.h"
#include "server/core/effect_sink.h"
#include "server/core/limits.h"
#include "server/core/secret.h"

namespace lockstep::core {

// The time, the sink for effects, the source of secrets, and the limits of the
// coordinator.
struct EventContext {
  absl::Time now;
  EffectSink& out;
  SecretSource& secrets;
  Limits& limits;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EVENT_CONTEXT_H_
