// An exchange from its declaration to the end of the session.
//
//   declared ──Connect──▶ connected ──Close──▶ closed
//
// A call is local work, the messages of a pass as the plan has them, and local
// work again, all on one stream:
//
//   [fill, copy, pack][send and receive, as one][unpack or add]
//
// Threads: Connect and Close from any thread; calls by one thread at a time.

#ifndef LOCKSTEP_CLIENT_HALO_HALO_EXCHANGE_IMPL_H_
#define LOCKSTEP_CLIENT_HALO_HALO_EXCHANGE_IMPL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/collectives/call_stream.h"
#include "client/halo/box_lists.h"
#include "client/halo/halo_group.h"
#include "client/halo/pass_memory.h"
#include "lockstep/halo_exchange.h"
#include "plan/ir.h"

namespace lockstep {

class HaloExchange::Impl : public std::enable_shared_from_this<Impl> {
 public:
  using Pass = plan::HaloPass;

  // `spec`: normalized.
  explicit Impl(HaloSpec spec);

  const HaloSpec& spec() const { return spec_; }

  // Once: `routes` of `rank` are in `plan`, which has this exchange. Errors of
  // the group's allocation.
  absl::Status Connect(std::shared_ptr<const plan::Plan> plan, int rank,
                       const plan::HaloRoutes& routes,
                       std::shared_ptr<halo::HaloGroup> group);
  // Later calls fail. Returns what calls in flight may still use: to be kept
  // until the group's streams are drained.
  std::shared_ptr<const void> Close();

  absl::StatusOr<std::vector<HaloBlock>> blocks() const;
  absl::StatusOr<std::vector<TensorType>> padded_types() const;

  // Bytes of messages that the rank receives in a forward pass; 0 before it is
  // connected.
  uint64_t bytes_received() const;

  using PassMemory = halo::PassMemory;

  // Enqueues a pass. Start: on the own stream; Run: on `stream`.
  absl::StatusOr<PendingCollective> Start(Pass pass, PassMemory memory,
                                          absl::Span<const Event> after);
  absl::Status Run(Pass pass, PassMemory memory, Stream& stream);
  // Enqueues it, and returns when it is done.
  absl::Status RunAndWait(Pass pass, PassMemory memory);

  // Null: on the calling thread, or on the own stream of a device.
  absl::Status Trim(PassMemory memory, Stream* stream);

 private:
  // What the work of calls uses; constant.
  struct Prepared {
    std::shared_ptr<const plan::Plan> plan;  // owns the transfers
    std::shared_ptr<transport::DeviceContext> context;
    // [pass][in place]
    std::array<std::array<halo::PassLists, 2>, 2> lists;
    std::array<std::vector<const plan::Transfer*>, 2> transfers;  // [pass]
    std::array<uint64_t, 2> bytes = {};  // that are sent; [pass]
    std::vector<kernels::StridedBox> trim;
    ArenaBuffer buffer;  // of messages
  };
  // What Connect makes; constant afterwards.
  struct Connection {
    std::shared_ptr<const Prepared> prepared;
    std::shared_ptr<halo::HaloGroup> group;
    std::vector<HaloBlock> blocks;
    std::vector<TensorType> padded_types;
    halo::PassBytes bytes;
  };
  struct Call;

  absl::StatusOr<std::shared_ptr<const Connection>> connected() const;
  static Call MakeCall(const Prepared& prepared, Pass pass,
                       const PassMemory& memory);
  // Enqueues local work; null: runs it here.
  static absl::Status RunLocal(const Call& call,
                               const std::shared_ptr<const Call>& kept,
                               Stream* stream, bool then);
  // Enqueues the work of a call, which is kept until it is done, and returns
  // its communicator: null for one rank alone.
  absl::StatusOr<std::shared_ptr<Communicator>> Enqueue(
      const std::shared_ptr<const Connection>& to, Pass pass, PassMemory memory,
      Stream& stream, std::shared_ptr<collectives::CallOutcome> outcome,
      Event* done);
  // The same for `call`, which the caller keeps if `kept` is null: then it is
  // done when this returns.
  absl::StatusOr<std::shared_ptr<Communicator>> EnqueueCall(
      const Connection& to, const Call& call,
      const std::shared_ptr<const Call>& kept, Stream& stream, Event* done);
  absl::Status SecondThread() const;
  absl::Status Explained(const Connection& to, const absl::Status& error) const;

  const HaloSpec spec_;
  const std::array<std::shared_ptr<const std::string>, 2> names_;  // [pass]
  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const Connection> connected_ ABSL_GUARDED_BY(mutex_);
};

namespace halo {

// A connected exchange among the ranks of a communicator that outlives it,
// without a session: `specs[rank]` is what that rank of `mesh` declares. Errors
// of the compiler and of `allocate`.
absl::StatusOr<std::shared_ptr<HaloExchange::Impl>> MakeExchange(
    const Mesh& mesh, const std::vector<HaloSpec>& specs,
    Communicator& communicator,
    std::shared_ptr<transport::DeviceContext> context,
    HaloGroup::Allocate allocate);

}  // namespace halo
}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_HALO_HALO_EXCHANGE_IMPL_H_
