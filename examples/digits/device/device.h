// The device that a network is trained on, as far as the network can tell: one
// stream that runs bodies and copies in order.
//
// Threads: one. Nothing blocks but Download; everything is enqueued behind what
// the stream holds, a verdict that is still out included (stream().Ready).

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

  // What GradientSync orders its work by.
  virtual Stream& stream() = 0;

  // The device's own memory, zeroed.
  virtual absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) = 0;

  // body(0) .. body(n - 1), on as many threads. n may be 0.
  virtual absl::Status Launch(const Body<double>& body, int64_t n) = 0;
  virtual absl::Status Launch(const Body<float>& body, int64_t n) = 0;

  // `from` may be used again when it returns.
  virtual absl::Status Upload(const void* from, void* to, size_t bytes) = 0;
  // Waits until it is there.
  virtual absl::Status Download(const void* from, void* to, size_t bytes) = 0;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_H_
