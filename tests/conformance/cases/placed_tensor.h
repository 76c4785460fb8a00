// A tensor of a case where the operations of a rank find it.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_CASES_PLACED_TENSOR_H_
#define LOCKSTEP_TESTS_CONFORMANCE_CASES_PLACED_TENSOR_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/collectives/axis_group_impl.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "lockstep/stream.h"

namespace lockstep::conformance {

// Where tensors of the host are. Those of a device are in its memory.
enum class Placement {
  kPrivate,  // in their own bytes
  kArena,    // copied to memory that the rank's transport has allocated
};

class PlacedTensor {
 public:
  // Enqueues the copy on `stream`, if there is one. `host` must live as long as
  // this.
  static absl::StatusOr<PlacedTensor> Make(std::vector<std::byte>* host,
                                           const GroupMemory& memory,
                                           Placement placement, Stream& stream);

  void* data() const;

  // Copies it back. Waits for `stream`.
  absl::Status Fetch(Stream& stream) const;

 private:
  absl::Status Copy(const ArenaBuffer& from, const ArenaBuffer& to,
                    Stream& stream) const;

  std::vector<std::byte>* host_ = nullptr;
  std::shared_ptr<transport::DeviceContext> device_;
  ArenaBuffer there_, staging_;
};

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_CASES_PLACED_TENSOR_H_
