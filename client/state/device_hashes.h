// Hashes of memory that the host may not be able to access.
//
//   memory    [extent 0      ][1][2        ]
//                 │ copies       │
//   staging   [slot 0] [slot 1]            while one slot is hashed, the other
//                 └ hash   └ is filled     one is filled
//
// Threads: the caller's, which blocks.

#ifndef LOCKSTEP_CLIENT_STATE_DEVICE_HASHES_H_
#define LOCKSTEP_CLIENT_STATE_DEVICE_HASHES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/transport/device_context.h"

namespace lockstep::state {

struct MemoryExtent {
  const void* data = nullptr;
  size_t bytes = 0;
};

struct DeviceHashes {
  std::vector<uint64_t> hashes;  // HashBlock of each extent
  // Not OK: a copy of extent `failed`, or of one in the same slot. The hashes
  // are undefined.
  absl::Status status;
  size_t failed = 0;
};

inline constexpr size_t kHashSlotBytes = size_t{4} << 20;

// `device` copies extents of any memory. Errors: ResourceExhausted, those of
// the device.
DeviceHashes HashThroughStaging(transport::DeviceContext& device,
                                absl::Span<const MemoryExtent> extents,
                                size_t slot_bytes = kHashSlotBytes);

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_DEVICE_HASHES_H_
