// How a process gets its communicators: each transport prepares a handle, the
// coordinator carries the handles of a group to its members, then they connect.
//
//   Prepare(group) ──handle──▶ coordinator ──all handles, in group order──▶
//   Connect
//
// Threads: called from the thread that joins, Abort apart; communicators are
//          then used as communicator.h says.
// Errors:  Unavailable if a peer cannot be reached (it is named by group rank),
//          DeadlineExceeded after `timeout`, InvalidArgument for a handle that
//          does not parse, Aborted if the pending group was aborted. An error
//          that is about one peer says which, for machines too: blame.h.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_TRANSPORT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "lockstep/communicator.h"
#include "lockstep/device_stream.h"
#include "plan/words/transport_facts.h"

namespace lockstep::transport {

// What a group mostly carries, for transports that set resources aside.
enum class Traffic {
  kBulk,      // collectives of much
  kSmall,     // a few words a step
  kMessages,  // sends and receives beside the others' collectives
};

struct GroupSpec {
  std::string name;  // unique within the epoch: "verdict", "gradient/data=0"
  int rank = 0;      // of this process, in the group
  int size = 1;
  Traffic traffic = Traffic::kBulk;
};

// How a group's operations reach a buffer of the arena.
enum class Reach {
  kPlain,       // like any other memory
  kRegistered,  // known on this rank: no copy on the way out or in
  kWindow,      // known on all ranks: symmetric, if the hardware allows it
  kSymmetric,   // known on all ranks, who reach into each other's
};
std::string_view Name(Reach reach);
// For people: "symmetric", if all are; "12 symmetric, 1 plain"; "" of none.
std::string Describe(const std::vector<Reach>& reaches);

// A buffer that a group knows of, for as long as this lives: not longer than
// the buffer.
class Enlistment {
 public:
  virtual ~Enlistment() = default;
  virtual Reach reach() const = 0;
};

// A group of which this process has made its half.
class PendingGroup {
 public:
  virtual ~PendingGroup() = default;

  // Opaque bytes for the other members; valid until connected or destroyed.
  virtual const std::string& handle() const = 0;

  // Blocks until connected to every member. `handles` has one entry per group
  // rank, this process's own among them.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles, absl::Duration timeout) = 0;

  // After Connect: why these members are connected by the transport that the
  // communicator names, for people. Empty where there was nothing to choose.
  virtual std::string choice() const { return ""; }

  // A Connect in progress, or to come, returns Aborted with this cause within
  // 100 ms (the first cause wins). From any thread; does not block.
  virtual void Abort(std::string_view cause) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;

  // What its groups will be able to do, and where this process runs: told to
  // the coordinator before the plan is compiled (plan/pairs.h). Does not
  // change.
  virtual TransportFacts facts() const = 0;

  virtual absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) = 0;

  // Memory that this transport's operations use without a copy. May outlive
  // the transport.
  virtual std::unique_ptr<Arena> MakeArena() { return MakePlainArena(); }

  // Tells a group, by a communicator of this transport's, of a buffer of its
  // arena that operations will be called on again and again, whole or from its
  // beginning. On every rank of the group alike, in the same order with the
  // same sizes, while nothing else of the group is under way; blocks until all
  // have. Null where that changes nothing. Errors: the communicator's, which
  // has ended then; DeadlineExceeded.
  virtual absl::StatusOr<std::unique_ptr<Enlistment>> Enlist(
      Communicator& communicator, const ArenaBuffer& buffer,
      absl::Duration timeout);

  // What works on such memory. May outlive the transport, too.
  virtual absl::StatusOr<std::unique_ptr<DeviceContext>> MakeDeviceContext();

  // A stream of the caller's, which must outlive what is returned, as must the
  // transport. FailedPrecondition from transports of host memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceStream>> WrapStream(
      void* cuda_stream);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_TRANSPORT_H_
