// How a session handles the coordinator's messages and the user's calls.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/session/cause.h"
#include "client/session/machine.h"
#include "protocol/chunks.h"

namespace lockstep::session {

// --- Messages from the coordinator ------------------------------------------

void Machine::Receive(EpochId, const protocol::Welcome& welcome) {
  const bool was_in_epoch = InEpoch();
  View& view = Change();
  view.connected = true;
  view.generation = welcome.generation;
  view.spec = welcome.spec;
  if (!welcome.secret.empty()) secret_ = welcome.secret;
  give_up_at_ = absl::InfiniteFuture();
  reconnector_.Welcomed();
  said_unfit_ = false;
  heartbeats_.Connected(welcome.spec.timeouts.lease / 4);
  checkpoints_.SetConnected(true);
  if (was_in_epoch && !welcome.resumed) {
    EndEpoch(absl::AbortedError(absl::StrFormat(
        "the coordinator does not know epoch %d of job %s any more",
        view_.epoch.value, options_.job.value)));
  }
  if (unacked_.leave()) {
    leave_by_ = std::min(leave_deadline_, now_ + options_.leave_timeout);
  }
  SendCheckpointReport();  // before Leave: it may be about the last step
  for (auto& statement : unacked_.ToResend()) {
    Send(std::move(statement));
  }
  if (!Negotiates()) return;
  for (auto& word : passes_.Restate()) Send(std::move(word));
}

void Machine::Receive(EpochId, const protocol::Refused& refused) {
  const absl::Status status(refused.code, refused.message);
  if (unacked_.leave()) return Leave(status);
  Fail(status);
}

void Machine::Receive(EpochId epoch, const protocol::EpochFormed& formed) {
  if (view_.phase == SessionPhase::kJoining) {
    const int size = static_cast<int>(formed.members.size());
    if (formed.rank < 0 || formed.rank >= size) {
      return Fail(absl::InternalError(
          absl::StrFormat("was given rank %d of %d", formed.rank, size)));
    }
    View& view = Change();
    view.phase = SessionPhase::kFormed;
    view.epoch = epoch;
    view.rank = formed.rank;
    view.members = formed.members;
    view.first_step = formed.first_step;
    view.holders = formed.holders;
    view.previous_world = formed.previous_world;
    heartbeats_.SetInEpoch(true);
    return;
  }
  if (epoch > view_.epoch) {
    EndEpoch(absl::AbortedError(
        absl::StrFormat("epoch %d of job %s is over: epoch %d was formed",
                        view_.epoch.value, options_.job.value, epoch.value)));
  }
}

void Machine::Receive(EpochId epoch, const protocol::PlanReady& ready) {
  if (epoch != view_.epoch || !InEpoch()) return;
  if (ready.revision < view_.revision) return;
  if (ready.revision == view_.revision) {
    if (ready.digest == view_.plan_digest) return;
    return EndEpoch(absl::InternalError(absl::StrFormat(
        "revision %d of the plan was %s and is now %s", ready.revision.value,
        view_.plan_digest, ready.digest)));
  }
  View& view = Change();
  view.phase = std::max(view.phase, SessionPhase::kPlanned);
  view.revision = ready.revision;
  view.plan_digest = ready.digest;
}

void Machine::Receive(EpochId epoch, const protocol::GroupHandles& group) {
  if (epoch != view_.epoch || view_.phase != SessionPhase::kPlanned) return;
  if (group.first == 0 && !group.more) {  // a single message, the usual case
    Change().handles[group.communicator] = group.handles;
    return;
  }
  std::vector<std::string>& all = pieces_[group.communicator];
  if (group.first == 0) all.clear();
  if (group.first != all.size()) {
    return DropStream(absl::UnavailableError(absl::StrFormat(
        "handles %d to %d of communicator %d were not heard", all.size(),
        group.first, group.communicator)));  // the next stream gets all of them
  }
  all.insert(all.end(), group.handles.begin(), group.handles.end());
  if (group.more) return;
  Change().handles[group.communicator] = std::move(all);
  pieces_.erase(group.communicator);
}

void Machine::Receive(EpochId epoch, const protocol::Start&) {
  if (epoch != view_.epoch || view_.phase != SessionPhase::kPlanned) return;
  if (!unacked_.connected()) return;
  unacked_.Started();
  give_up_at_ = absl::InfiniteFuture();
  Change().phase = SessionPhase::kRunning;
}

void Machine::Receive(EpochId epoch, const protocol::EpochEnded& ended) {
  const bool ours = view_.epoch.value != 0 && epoch >= view_.epoch;
  if (!ours && !ended.final) return;
  View& view = Change();
  view.cause = ended.cause;
  view.job_over = ended.final;
  unacked_.EpochEnded();
  const absl::Status status =
      view.epoch.value == 0
          ? StatusOfWaiting(options_.job, options_.worker, ended)
          : StatusOf(ended);
  if (std::exchange(view.provisional, false)) view.status = status;
  EndEpoch(status);
  if (!ended.final) return;
  if (unacked_.leave()) return Leave(absl::OkStatus());
  EndStream();
}

void Machine::Receive(EpochId epoch,
                      const protocol::RecoveryDecision& decision) {
  const bool awaits = view_.phase == SessionPhase::kEnded && !view_.recovery;
  if (epoch == view_.epoch && awaits) Change().recovery = decision;
}

void Machine::Receive(EpochId, const protocol::Left&) {
  if (unacked_.leave()) Leave(absl::OkStatus());
}

void Machine::Receive(EpochId epoch, const protocol::DesiredCommands& wanted) {
  if (epoch != view_.epoch || !InEpoch()) return;
  if (IsNewer(wanted, view_.wanted)) Change().wanted = wanted;
}

void Machine::Receive(EpochId epoch, const protocol::OrderWanted& order) {
  if (epoch != view_.epoch || !InEpoch()) return;
  Change().order_wanted = order.revision;
}

void Machine::Receive(EpochId epoch, const protocol::PlanWanted& wanted) {
  if (epoch != view_.epoch) return;
  for (auto& part : unacked_.Plan(wanted.digest)) Send(std::move(part));
}

void Machine::Receive(EpochId epoch, const protocol::RegistrationWanted&) {
  if (epoch != view_.epoch) return;
  for (auto& chunk : unacked_.Registration()) Send(std::move(chunk));
}

void Machine::Receive(EpochId epoch, const protocol::Decide& decide) {
  if (epoch != view_.epoch || !Negotiates()) return;
  absl::StatusOr<std::vector<protocol::Decision>> news =
      passes_.Receive(decide);
  if (news.ok()) {
    if (news->empty()) return;
    Effect& effect = effects_.emplace_back();
    effect.emplace<Decided>().decisions = *std::move(news);
  } else if (absl::IsOutOfRange(news.status())) {
    DropStream(news.status());  // the next stream gets all of them
  } else {
    EndEpoch(news.status());
  }
}

void Machine::Receive(EpochId epoch, const protocol::Warning& warning) {
  if (epoch != view_.epoch) return;
  effects_.emplace_back().emplace<Warn>().text = warning.text;
}

// A coordinator that has forgotten an outcome learns it from the reports.
void Machine::Receive(EpochId epoch, const protocol::CheckpointNews& news) {
  if (epoch != view_.epoch || !InEpoch()) return;
  const protocol::CheckpointNews before =
      std::exchange(Change().checkpoints, news);
  protocol::CheckpointNews& now = Change().checkpoints;
  if (!now.directory) now.directory = before.directory;
  const bool is_of_before =
      before.directory && now.directory->nonce == before.directory->nonce;
  if (!now.opened && before.opened && is_of_before) {
    now.opened = true;
    now.access_faults = before.access_faults;
    now.access_faults_more = before.access_faults_more;
  }
  if (now.decided < before.decided) {
    now.decided = before.decided;
    now.faults = before.faults;
    now.faults_more = before.faults_more;
  }
}

// --- Calls of the user ------------------------------------------------------

void Machine::On(const RegisterAll& event) {
  if (!InEpoch()) return;
  unacked_.Register(event.chunks);
  for (const auto& chunk : event.chunks) State(chunk);
}

void Machine::On(const AcceptPlan& event) {
  if (!InEpoch()) return;
  const protocol::PlanAck ack{event.revision, event.digest};
  unacked_.Accept(ack, event.bytes);
  observed_order_ = event.observed_order;
  State(ack);
}

void Machine::On(const OfferHandles& event) {
  if (!InEpoch()) return;
  const auto messages = protocol::CutIntoMessages(event.handles);
  unacked_.Offer(messages);
  for (const protocol::PublishHandles& message : messages) State(message);
}

void Machine::On(const DataPlaneConnected& event) {
  if (!InEpoch()) return;
  const protocol::Connected connected{event.groups};
  unacked_.SetConnected(connected);
  State(connected);
}

void Machine::On(const AnnouncePass& event) {
  if (!Negotiates()) return;
  passes_.Announce(event.announce);
  State(event.announce);
}

void Machine::On(const SubmitInPass& event) {
  if (!Negotiates()) return;
  passes_.Submit(event.submitted);
  State(event.submitted);
}

void Machine::On(const ReportValueDigests& event) {
  if (!InEpoch()) return;
  unacked_.SetValues(event.values);
  State(event.values);
}

void Machine::On(const ReportCheckpoint& event) {
  if (InEpoch()) checkpoints_.Set(event.report);  // SendDue sends it
}

void Machine::On(const OfferOrder& event) {
  const bool wanted = event.order.revision == view_.order_wanted;
  if (!InEpoch() || !wanted) return;
  Change().order_wanted = {};
  State(event.order);
}

// After the end of the epoch the coordinator awaits the report and the return
// of a member that has died since.
void Machine::On(const PeerFailed& event) {
  const bool is_proof = event.evidence.kind == protocol::EvidenceKind::kExited;
  const bool counts = is_proof && view_.phase == SessionPhase::kEnded;
  if (!InEpoch() && !counts) return;
  if (!unacked_.AddEvidence(event.evidence)) return;
  // Whether this worker was to go on without the peer depends on where it is.
  if (auto progress = heartbeats_.TakeProgress()) State(*std::move(progress));
  State(event.evidence);
  if (!InEpoch() || !is_proof) return;
  const int rank = RankOf(view_, event.evidence);
  if (rank < 0) return;
  EndEpoch(StatusOfDeath(rank, event.evidence));
  Change().provisional = true;
}

void Machine::On(const FailLocally& event) {
  if (!InEpoch()) return;
  unacked_.Fail(event.failure);
  State(event.failure);
  EndEpoch(StatusOfFailure(view_, event.failure));
}

// If the job grows, the report is what lets the coordinator end the epoch.
void Machine::On(const Quiesced& event) {
  const bool ends_it = InEpoch() && event.report.grows;
  if (!ends_it && view_.phase != SessionPhase::kEnded) return;
  unacked_.Report(event.report);
  State(event.report);
}

void Machine::On(const LeaveNow& event) {
  if (Gone() || unacked_.leave()) return;
  if (view_.generation.value == 0 || hung_up_) {
    return Leave(absl::OkStatus());
  }
  // Sends the final progress if it has more to report than the step.
  if (auto last = heartbeats_.TakeLast()) State(*std::move(last));
  unacked_.Leave(event.leave);
  leave_patience_ = event.leave.clean ? options_.leave_outage_timeout
                                      : options_.leave_timeout;
  leave_deadline_ = now_ + leave_patience_;
  leave_by_ = view_.connected ? now_ + options_.leave_timeout : leave_deadline_;
  State(event.leave);
}

}  // namespace lockstep::session
