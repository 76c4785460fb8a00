// The kind of memory that the job's communicators send and receive.
//
//   host     any memory; that of `allocate` with the fewest copies
//   device   memory of the device only. Registered state may be there, in an
//            allocation of the program, or on the host: DeviceContext copies
//            both.

#ifndef LOCKSTEP_CLIENT_STATE_WIRE_MEMORY_H_
#define LOCKSTEP_CLIENT_STATE_WIRE_MEMORY_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"

namespace lockstep::state {

struct WireMemory {
  // Null: the host's.
  std::shared_ptr<transport::DeviceContext> device;
  // Null, on the host only: memory of this process.
  std::function<absl::StatusOr<ArenaBuffer>(size_t bytes)> allocate;

  absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) const {
    return allocate ? allocate(bytes) : MakePlainArena()->Allocate(bytes);
  }
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_WIRE_MEMORY_H_
