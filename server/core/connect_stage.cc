#include "server/core/connect_stage.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/core/status_text.h"

namespace lockstep::core {

std::optional<EpochEnd> ConnectStage::On(int rank,
                                         const protocol::PlanAck& message,
                                         EpochContext& context) {
  if (message.revision != revision_ || message.digest != digest_) {
    return context.Mismatch(
        rank,
        absl::StrFormat("holds revision %d of the plan with digest %s; the "
                        "job's is revision %d with digest %s",
                        message.revision.value, message.digest, revision_.value,
                        digest_));
  }
  if (acked_.Add(rank)) context.Touch(rank);
  return std::nullopt;
}

std::optional<EpochEnd> ConnectStage::On(
    int rank, const protocol::PublishHandles& message, EpochContext& context) {
  if (!acked_.Has(rank)) {
    return context.Mismatch(
        rank, "published handles of a plan that it did not acknowledge");
  }
  const auto completed = handles_.Publish(rank, message.handles);
  if (!completed.ok()) {
    return context.Mismatch(rank, std::string(completed.status().message()));
  }
  context.Touch(rank);
  for (const int communicator : *completed) {
    const auto& pieces = handles_.Complete(communicator);
    for (const int member : handles_.Members(communicator)) {
      for (const auto& piece : pieces) context.Send(member, piece);
    }
  }
  if (!completed->empty() && handles_.complete()) {
    connect_by_ = context.now() + context.spec().timeouts.connect;
  }
  return std::nullopt;
}

std::optional<EpochEnd> ConnectStage::On(int rank,
                                         const protocol::Connected& message,
                                         EpochContext& context) {
  if (!acked_.Has(rank) || !handles_.HasAll(rank)) {
    return context.Mismatch(
        rank, "says it is connected, but did not publish its handles");
  }
  if (!connected_.Add(rank)) return std::nullopt;
  connections_.Add(message);
  context.members.SetReady(rank);
  context.Touch(rank);
  return std::nullopt;
}

std::optional<EpochEnd> ConnectStage::Expire(EpochContext& context) const {
  if (context.now() < connect_by_) return std::nullopt;
  std::vector<std::string> who;
  for (const int rank : connected_.Missing()) {
    who.push_back(context.members.WhoIs(rank));
  }
  return EpochEnd{
      {.kind = protocol::CauseKind::kConnectFailed,
       .workers = context.members.NamesOf(connected_.Missing()),
       .message = absl::StrFormat(
           "the data plane was not connected within %s by %s",
           HowLong(context.spec().timeouts.connect), NameList(who))},
      Again::kIfBudgetAllows,
      {}};
}

void ConnectStage::BeginAnew(absl::Time connect_by) {
  if (connect_by_ != absl::InfiniteFuture()) connect_by_ = connect_by;
}

void ConnectStage::Repeat(int rank, EpochContext& context) const {
  for (const int communicator : handles_.CompleteOf(rank)) {
    for (const auto& piece : handles_.Complete(communicator)) {
      context.Send(rank, piece);
    }
  }
}

bool ConnectStage::HasDone(int rank) const {
  if (!acked_.full()) return acked_.Has(rank);
  if (!handles_.complete()) return handles_.HasAll(rank);
  return connected_.Has(rank);
}

std::string ConnectStage::Lack() const {
  if (!acked_.full()) return "has not acknowledged the plan";
  if (!handles_.complete()) return "has not published its handles";
  return "has not connected its data plane";
}

}  // namespace lockstep::core
