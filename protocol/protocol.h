// The messages between workers and the coordinator.
//
// Plain structs. The codec (proto/codec.h) converts them to wire messages, the
// two state machines (server/core, client/session/machine.h) use only these,
// and a test can connect the two without a network.
//
//   worker                                coordinator
//   Hello ───────────────────────────────▶ new incarnation, or resume
//         ◀────────────────────────────── Welcome | Refused
//         ◀────────────────────────────── EpochFormed    all ranks are present
//   RegisterChunk... ────────────────────▶
//         ◀────────────────────────────── PlanReady | EpochEnded (mismatch)
//   PlanAck ─────────────────────────────▶ (after FetchPlan)
//   PublishHandles ──────────────────────▶
//         ◀────────────────────────────── GroupHandles... of its groups
//   Connected ───────────────────────────▶
//         ◀────────────────────────────── Start          all are connected
//   Progress, Heartbeat, Busy ───────────▶ at most 10 a second
//   ValueDigests ────────────────────────▶ with the first step, if at all
//         ◀────────────────────────────── Warning        one rank prints it
//         ◀────────────────────────────── DesiredCommands  pause, stop, drain
//         ◀────────────────────────────── PlanWanted     after a restart
//   PlanPart... ─────────────────────────▶ of the plan that the rank has
//         ◀────────────────────────────── RegistrationWanted   if none has it
//   RegisterChunk... ────────────────────▶ again
//         ◀────────────────────────────── OrderWanted
//   ReadyOrder ──────────────────────────▶ compiles a later revision
//         ◀────────────────────────────── PlanReady (the next revision)
//   PlanAck ─────────────────────────────▶ received; the verdict switches
//   Announce, Submitted, Held ───────────▶ negotiated mode only
//         ◀────────────────────────────── Decide
//   CheckpointReport ────────────────────▶ its directory, its save
//         ◀────────────────────────────── CheckpointNews  checkpoint.h
//   Evidence, LocalFailure ──────────────▶
//         ◀────────────────────────────── EpochEnded(cause)
//   EpochReport ─────────────────────────▶
//         ◀────────────────────────────── RecoveryDecision  from all reports
//   Leave ───────────────────────────────▶
//         ◀────────────────────────────── Left           acknowledges Leave
//
// Every message is sent in an Envelope. A worker refuses a term lower than the
// highest it has received. The coordinator ignores messages of another epoch
// than its current one, except Hello, Heartbeat and Leave.
//
// Resume transfers state, not missed messages: after a broken stream the worker
// sends Hello with its generation and position. The coordinator repeats
// everything that the worker needs (EpochFormed, PlanReady, GroupHandles,
// Start, DesiredCommands, CheckpointNews, EpochEnded, RecoveryDecision). Each
// of these is idempotent.

#ifndef LOCKSTEP_PROTOCOL_PROTOCOL_H_
#define LOCKSTEP_PROTOCOL_PROTOCOL_H_

#include <variant>

#include "protocol/checkpoint.h"
#include "protocol/evidence.h"
#include "protocol/ids.h"
#include "protocol/negotiation.h"
#include "protocol/progress.h"
#include "protocol/registration.h"
#include "protocol/session.h"
#include "protocol/types.h"

namespace lockstep::protocol {

using ToCoordinatorBody =
    std::variant<Hello, RegisterChunk, PlanAck, PublishHandles, Connected,
                 Progress, Heartbeat, Busy, Evidence, LocalFailure, EpochReport,
                 Leave, ReadyOrder, Announce, Submitted, Held, ValueDigests,
                 CheckpointReport, PlanPart>;

using ToWorkerBody =
    std::variant<Welcome, Refused, EpochFormed, PlanReady, GroupHandles, Start,
                 EpochEnded, Left, DesiredCommands, OrderWanted, Decide,
                 Warning, CheckpointNews, RecoveryDecision, PlanWanted,
                 RegistrationWanted>;

struct ToCoordinator {
  JobName job;
  EpochId epoch;
  LeaderTerm term;
  ToCoordinatorBody body;
  bool operator==(const ToCoordinator&) const = default;
};

struct ToWorker {
  JobName job;
  EpochId epoch;
  LeaderTerm term;
  ToWorkerBody body;
  bool operator==(const ToWorker&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_PROTOCOL_H_
