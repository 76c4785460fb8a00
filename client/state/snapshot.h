// A copy of what this rank writes, taken between two steps and written while
// the program trains on.
//
//   registered memory   [w    ][b][moments     ]
//                          │copy, in this order
//   snapshot            [w    ][b][moments     ]   one block of staging memory
//
// The memory is allocated once, and its pages are there from the second copy
// on.
//
// Threads: Take and Wait by one thread each, one after the other.
// Ownership: the registered memory is read until Wait has returned; without a
//            stream, until Take has.

#ifndef LOCKSTEP_CLIENT_STATE_SNAPSHOT_H_
#define LOCKSTEP_CLIENT_STATE_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/state/checkpoint_job.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "lockstep/stream.h"

namespace lockstep::state {

class Snapshot {
 public:
  // Copies job.written. Both must outlive it.
  Snapshot(const CheckpointJob* job, transport::DeviceContext* device);

  uint64_t bytes() const { return bytes_; }

  // Begins to copy: without a stream (null) the copy is done when this returns.
  // ResourceExhausted without memory, InvalidArgument for a stream of another
  // kind, errors of the device.
  absl::Status Take(Stream* stream);
  // Blocks until the copies of the last Take are done; returns their error.
  absl::Status Wait();

  // The copy of job.written[part]. Valid after Wait, until the next Take.
  const std::byte* at(size_t part) const { return buffer_.data() + at_[part]; }

 private:
  // How far the copies are, shared with work on a stream.
  struct Copies;

  absl::Status CopyAll(transport::DeviceContext::KernelQueue& queue,
                       Copies* copies);

  const CheckpointJob* const job_;
  transport::DeviceContext* const device_;
  std::vector<size_t> at_;  // where each part begins
  uint64_t bytes_ = 0;
  ArenaBuffer buffer_;
  Event enqueued_;  // the copies are enqueued on the device, or done
  std::shared_ptr<Copies> copies_;
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_SNAPSHOT_H_
