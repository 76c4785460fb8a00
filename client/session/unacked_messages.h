// The messages of a worker in its epoch that are sent again on the next stream
// until the coordinator is known to have received them.
//
//   RegisterChunk..., PlanAck, PublishHandles, Connected   until Start
//   RegisterChunk..., the plan                             later, on request
//   Evidence                                               until EpochEnded
//   ValueDigests, LocalFailure                             until EpochEnded
//   EpochReport, Leave, Evidence of what comes later       always
//
// The coordinator handles each idempotently. Registrations are sent again even
// after PlanReady: a coordinator that restarted may have lost them. It has also
// lost the plan, and asks for it (PlanWanted, RegistrationWanted).
//
// Threads: none.

#ifndef LOCKSTEP_CLIENT_SESSION_UNACKED_MESSAGES_H_
#define LOCKSTEP_CLIENT_SESSION_UNACKED_MESSAGES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/protocol.h"

namespace lockstep::session {

class UnackedMessages {
 public:
  void Register(std::vector<protocol::RegisterChunk> chunks) {
    chunks_ = std::move(chunks);
  }
  // `plan`: as it was fetched; null if it is not kept.
  void Accept(const protocol::PlanAck& ack,
              std::shared_ptr<const std::string> plan) {
    ack_ = ack;
    plan_ = std::move(plan);
  }
  void Offer(std::vector<protocol::PublishHandles> handles) {
    handles_ = std::move(handles);
  }
  void SetConnected(const protocol::Connected& connected) {
    connected_ = connected;
  }
  void SetValues(const protocol::ValueDigests& values) { values_ = values; }
  void Fail(const protocol::LocalFailure& failure) { failure_ = failure; }
  void Report(const protocol::EpochReport& report) { report_ = report; }
  void Leave(const protocol::Leave& leave) { leave_ = leave; }

  // False if the same kind of evidence against that incarnation is known.
  bool AddEvidence(const protocol::Evidence& evidence);

  const std::optional<protocol::PlanAck>& ack() const { return ack_; }
  const std::optional<protocol::Leave>& leave() const { return leave_; }
  bool connected() const { return connected_.has_value(); }

  // Start was received: the coordinator has received Connected of all ranks.
  void Started();
  // EpochEnded was received.
  void EpochEnded();

  bool started() const { return started_; }

  // The messages to send again, in their original order.
  std::vector<protocol::ToCoordinatorBody> ToResend() const;
  // The answer to RegistrationWanted; empty after EpochEnded.
  std::vector<protocol::RegisterChunk> Registration() const;
  // The answer to PlanWanted: the plan that was accepted last, if this is its
  // digest and the epoch has not ended; else one part that says so.
  std::vector<protocol::PlanPart> Plan(const std::string& digest) const;

 private:
  bool started_ = false;
  bool epoch_ended_ = false;
  std::vector<protocol::RegisterChunk> chunks_;
  std::optional<protocol::PlanAck> ack_;
  std::shared_ptr<const std::string> plan_;  // of this ack
  std::vector<protocol::PublishHandles> handles_;
  std::optional<protocol::Connected> connected_;
  std::optional<protocol::ValueDigests> values_;
  std::vector<protocol::Evidence> evidence_;
  std::optional<protocol::LocalFailure> failure_;
  std::optional<protocol::EpochReport> report_;
  std::optional<protocol::Leave> leave_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_UNACKED_MESSAGES_H_
