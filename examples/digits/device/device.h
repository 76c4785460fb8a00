// The device on which a network is trained, as an interface: one stream that
// runs bodies and copies in order.
//
// Threads: one. Only Download blocks. All work is enqueued after the earlier
// work on the stream, including a verdict that is pending.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/digits/device/bodies.h"
#include "lockstep/arena.h"
#include "lockstep/stream.h"

namespace lockstep::digits {

class Device {
 public:
  virtual ~Device() = default;

  // The stream for the calls of GradientSync.
  virtual Stream& stream() = 0;

  // Device memory, zeroed.
  virtual absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) = 0;

  // Runs body(0) .. body(n - 1), one thread each. n may be 0.
  virtual absl::Status Launch(const Body<double>& body, int64_t n) = 0;
  virtual absl::Status Launch(const Body<float>& body, int64_t n) = 0;

  // `from` may be reused when it returns.
  virtual absl::Status Upload(const void* from, void* to, size_t bytes) = 0;
  // Blocks until the copy is done.
  virtual absl::Status Download(const void* from, void* to, size_t bytes) = 0;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_H_
