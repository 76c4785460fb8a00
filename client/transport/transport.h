// Makes communicators: a transport prepares a handle, the coordinator sends all
// handles of a group to its members, then these connect.
//
//   Prepare(group) ──handle──▶ coordinator ──all handles──▶ Connect
//
// Threads: the joining thread, except Abort; for communicators see
//          communicator.h.
// Errors:  Unavailable if a peer cannot be reached (its group rank is named),
//          DeadlineExceeded after `timeout`, InvalidArgument for a handle that
//          does not parse, Aborted if the pending group was aborted. An error
//          about one peer has it as a payload: failed_peer.h.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_TRANSPORT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "lockstep/communicator.h"
#include "lockstep/device_stream.h"
#include "protocol/transport_facts.h"

namespace lockstep::transport {

// The main traffic of a group, for transports that reserve resources.
enum class TrafficClass {
  kBulk,      // large collectives
  kSmall,     // a few words per step
  kMessages,  // sends and receives beside other groups' collectives
};

struct GroupSpec {
  std::string name;  // unique within the epoch: "verdict", "gradient/data=0"
  int rank = 0;      // of this process, in the group
  int size = 1;
  TrafficClass traffic = TrafficClass::kBulk;
};

// How a group's operations access a buffer of the arena.
enum class RegistrationKind {
  kPlain,       // like any other memory
  kRegistered,  // registered on this rank: sent and received without a copy
  kWindow,      // registered on all ranks: symmetric if the hardware allows it
  kSymmetric,   // registered on all ranks, which access each other's directly
};
std::string_view Name(RegistrationKind reach);
// For people: "symmetric" if all are, else "12 symmetric, 1 plain"; "" if
// `reaches` is empty.
std::string Describe(const std::vector<RegistrationKind>& kinds);

// The registration of a buffer with a group, for the lifetime of this object.
// The buffer must outlive it.
class BufferRegistration {
 public:
  virtual ~BufferRegistration() = default;
  virtual RegistrationKind kind() const = 0;
};

// A group that this process has prepared and not yet connected.
class PendingGroup {
 public:
  virtual ~PendingGroup() = default;

  // Opaque bytes for the other members; valid until connected or destroyed.
  virtual const std::string& handle() const = 0;

  // Blocks until connected to every member. `handles` are by group rank, with
  // this process's own.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles, absl::Duration timeout) = 0;

  // After Connect: why the communicator uses the transport that it names, for
  // people. Empty if there was no choice.
  virtual std::string choice() const { return ""; }

  // Makes a current or later Connect return Aborted with this cause within 100
  // ms (the first cause wins). From any thread; does not block.
  virtual void Abort(std::string_view cause) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;

  // The capabilities of its groups, and the place where this process runs. Sent
  // to the coordinator before the plan is compiled (plan/pairs.h). Constant.
  virtual TransportFacts facts() const = 0;

  // The CUDA device whose memory it moves; none: it moves host memory.
  virtual std::optional<int> device() const { return std::nullopt; }

  virtual absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) = 0;

  // Memory that this transport's operations use without a copy. May outlive
  // the transport.
  virtual std::unique_ptr<Arena> MakeArena() { return MakePlainArena(); }

  // Whether an operation that is aborted may write to registered buffers of its
  // peers, also of one that has not begun it.
  virtual bool abort_writes_to_peers() const { return false; }

  // Registers a buffer of this transport's arena with a communicator of this
  // transport, for repeated operations on all of it or from its beginning. All
  // ranks of the group call it in the same order with the same sizes, while no
  // operation of the group is in flight. Blocks until all have. Null if
  // registration changes nothing. Errors: DeadlineExceeded; the communicator's,
  // which has then failed.
  virtual absl::StatusOr<std::unique_ptr<BufferRegistration>> RegisterBuffer(
      Communicator& communicator, const ArenaBuffer& buffer,
      absl::Duration timeout);

  // The device context for such memory. May outlive the transport.
  virtual absl::StatusOr<std::unique_ptr<DeviceContext>> MakeDeviceContext();

  // Wraps a stream of the caller. The stream and the transport must outlive the
  // result. FailedPrecondition from transports of host memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceStream>> WrapStream(
      void* cuda_stream);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_TRANSPORT_H_
