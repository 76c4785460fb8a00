// One rank's transfers between hosts in a chunked collective: the seam between
// shared memory on a host and whatever connects the hosts.
//
//   partial sum of the host before ──▶ reduced onto ──▶ sent to the next host,
//                                                       or is the result
//   result of another host ──▶ given on this host ──▶ forwarded
//
// Steps are those of the collective's schedule, each called in order. No call
// blocks.
//
// Errors:  the link's. The failed peer is a rank of the ShmGroup, or an
//          outsider (ShmGroup::Outsider).
// Threads: as CollectiveTask.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_REMOTE_TRANSFERS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_REMOTE_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace lockstep::transport {

class RemoteTransfers {
 public:
  // A step reuses the buffers of the step kWindow before.
  static constexpr uint64_t kWindow = 4;

  virtual ~RemoteTransfers() = default;

  // Posts the announcements, the first receives, and all sends of this rank's
  // own blocks.
  virtual absl::Status Begin() = 0;
  // Compares the announcements once they have arrived; true if it did so in
  // this call. Until then no data of another host is used.
  virtual absl::StatusOr<bool> Compare() = 0;

  // Whether Reduce can run the step: the partial sum has arrived, and the
  // buffers are free.
  virtual absl::StatusOr<bool> CanReduce(uint64_t step) = 0;
  // Reduces `inputs`, of this host's ranks in order, and sends the partial sum
  // or the result.
  virtual absl::Status Reduce(std::span<const void* const> inputs,
                              uint64_t step) = 0;

  // Whether the result of the step has arrived, and its address.
  virtual absl::StatusOr<bool> HasResult(uint64_t step) = 0;
  virtual const std::byte* Result(uint64_t step) const = 0;
  // Called after the result of the step is given on this host: forwards it.
  virtual absl::Status Forward(uint64_t step) = 0;

  // Whether all sends to other hosts are done.
  virtual absl::StatusOr<bool> Done() = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_REMOTE_TRANSFERS_H_
