// From a compiled plan to a connected data plane.
//
//   rank   PlanAck ──▶ PublishHandles ──▶ Connected
//                            │
//          all handles of a communicator ──▶ GroupHandles to its members
//          all handles ──▶ connect_by        all connected ──▶ the epoch starts
//
// After the start it only repeats handles to members with a new stream.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_CONNECT_STAGE_H_
#define LOCKSTEP_SERVER_CORE_CONNECT_STAGE_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "protocol/registration.h"
#include "server/core/compilation.h"
#include "server/core/connections.h"
#include "server/core/epoch_context.h"
#include "server/core/handle_exchange.h"
#include "server/core/rank_set.h"

namespace lockstep::core {

class ConnectStage {
 public:
  ConnectStage(const CompiledPlan& compiled, int world_size)
      : revision_(compiled.plan->revision),
        digest_(compiled.digest),
        acked_(world_size),
        handles_(*compiled.plan),
        connected_(world_size) {}

  // --- Messages before the start ---

  std::optional<EpochEnd> On(int rank, const protocol::PlanAck& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::PublishHandles& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::Connected& message,
                             EpochContext& context);

  // --- Time ---

  // Ends the epoch if ranks are not connected in time.
  std::optional<EpochEnd> Expire(EpochContext& context) const;
  absl::Time connect_by() const { return connect_by_; }
  // Restarts the deadline, if it runs.
  void BeginAnew(absl::Time connect_by);
  // The epoch starts: there is no deadline any more.
  void Close() { connect_by_ = absl::InfiniteFuture(); }

  // Sends the complete handles again to a member with a new stream.
  void Repeat(int rank, EpochContext& context) const;

  // --- Questions ---

  bool all_connected() const { return connected_.full(); }
  bool IsConnected(int rank) const { return connected_.Has(rank); }
  // The rank has done what is required of every rank now; Lack says what a rank
  // that has not lacks: "has not published its handles".
  bool HasDone(int rank) const;
  std::string Lack() const;
  const Connections& connections() const { return connections_; }

 private:
  const Revision revision_;
  const std::string digest_;
  RankSet acked_;
  HandleExchange handles_;
  RankSet connected_;
  Connections connections_;
  absl::Time connect_by_ = absl::InfiniteFuture();
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_CONNECT_STAGE_H_
