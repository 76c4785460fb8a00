#include "client/session/unacked_messages.h"

#include <algorithm>
#include <utility>

#include "protocol/chunks.h"

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
  plan_.reset();
}

std::vector<protocol::ToCoordinatorBody> UnackedMessages::ToResend() const {
  std::vector<protocol::ToCoordinatorBody> bodies;
  const auto add = [&bodies](const auto& statement) {
    if (statement) bodies.push_back(*statement);
  };
  if (!epoch_ended_) {
    if (!started_) {
      bodies.insert(bodies.end(), chunks_.begin(), chunks_.end());
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

std::vector<protocol::RegisterChunk> UnackedMessages::Registration() const {
  if (epoch_ended_) return {};
  return chunks_;
}

std::vector<protocol::PlanPart> UnackedMessages::Plan(
    const std::string& digest) const {
  const bool has_it = plan_ != nullptr && ack_ && ack_->digest == digest;
  if (!has_it) return {{.digest = digest}};
  return protocol::CutIntoParts(digest, *plan_);
}

}  // namespace lockstep::session
