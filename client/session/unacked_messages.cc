#include "client/session/unacked_messages.h"

#include <algorithm>
#include <utility>

namespace lockstep::session {

bool UnackedMessages::AddEvidence(const protocol::Evidence& evidence) {
  const auto same = [&evidence](const protocol::Evidence& other) {
    return other.subject == evidence.subject && other.kind == evidence.kind &&
           other.generation == evidence.generation;
  };
  if (std::any_of(evidence_.begin(), evidence_.end(), same)) return false;
  evidence_.push_back(evidence);
  return true;
}

void UnackedMessages::Started() {
  started_ = true;
  handles_.clear();
}

void UnackedMessages::EpochEnded() {
  epoch_ended_ = true;
  evidence_.clear();
}

std::vector<protocol::ToCoordinatorBody> UnackedMessages::ToResend(
    bool forgot) const {
  std::vector<protocol::ToCoordinatorBody> bodies;
  const auto add = [&bodies](const auto& statement) {
    if (statement) bodies.push_back(*statement);
  };
  if (!epoch_ended_) {
    if (!started_ || forgot) {
      bodies.insert(bodies.end(), chunks_.begin(), chunks_.end());
    }
    if (!started_) {
      add(ack_);
      bodies.insert(bodies.end(), handles_.begin(), handles_.end());
      add(connected_);
    }
    add(values_);
  }
  bodies.insert(bodies.end(), evidence_.begin(), evidence_.end());
  if (!epoch_ended_) add(failure_);
  add(report_);
  add(leave_);
  return bodies;
}

}  // namespace lockstep::session
