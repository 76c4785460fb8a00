#include "server/core/durable_state.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "plan/digest.h"

namespace lockstep::core {
namespace {

absl::Status CannotFollow(const std::string& why) {
  return absl::InvalidArgumentError(why);
}

void AdoptInto(const record::JobAdopted& adopted, EpochId epoch_floor,
               DurableJob* job) {
  *job = {.spec = adopted.spec,
          .token_hash = adopted.token_hash,
          .epoch = adopted.epoch,
          .epoch_lives = true,
          .first_step = adopted.first_step,
          .steps = adopted.first_step,
          .revision = adopted.revision,
          .plan_digest = adopted.digest,
          .observed_order = adopted.observed_order,
          .wanted = adopted.wanted,
          .adopted = true,
          .epoch_floor = epoch_floor};
  std::vector<protocol::Member> members;
  for (const auto& [member, incarnation, secret_hash] : adopted.members) {
    job->name_holders[member.worker] = {member.generation, incarnation,
                                        secret_hash};
    members.push_back(member);
  }
  job->members_digests[adopted.epoch] = plan::DigestOf(members);
  job->members = std::move(members);
}

// Applies a record's body to its job.
struct Change {
  DurableJob& job;

  absl::Status operator()(const record::JobCreated&) const {
    return CannotFollow("the job was created before");
  }

  absl::Status operator()(const record::GenerationAssigned& body) const {
    const auto known = job.name_holders.find(body.worker);
    const NameHolder newest =
        known == job.name_holders.end() ? NameHolder{} : known->second;
    const bool another_secret = body.generation == newest.generation &&
                                body.incarnation == newest.incarnation &&
                                body.incarnation != 0;
    if (body.generation <= newest.generation && !another_secret) {
      return CannotFollow(absl::StrFormat(
          "generation %d of %s follows generation %d", body.generation.value,
          body.worker.value, newest.generation.value));
    }
    job.name_holders[body.worker] = {body.generation, body.incarnation,
                                     body.secret_hash};
    return absl::OkStatus();
  }

  absl::Status operator()(const record::EpochBegan& body) const {
    if (job.epoch_lives || body.epoch <= job.epoch) {
      return CannotFollow(absl::StrFormat(
          "epoch %d begins after epoch %d, which %s", body.epoch.value,
          job.epoch.value, job.epoch_lives ? "lives" : "ended"));
    }
    job.epoch = body.epoch;
    job.epoch_lives = true;
    job.first_step = body.first_step;
    job.steps = body.first_step;
    job.previous_world = body.holders_world != 0
                             ? body.holders_world
                             : static_cast<int>(job.members.size());
    job.members = body.members;
    job.members_digests[body.epoch] = plan::DigestOf(body.members);
    job.revision = {};
    job.plan_digest.clear();
    job.plan_image = {};
    job.observed_order.clear();
    job.holders = body.holders;
    job.left.clear();
    job.recovery.reset();
    job.unfinished = {};
    job.wanted.saves = 0;
    job.wanted.growths = 0;
    job.checkpoint_prepared.reset();
    job.adopted = false;
    return absl::OkStatus();
  }

  absl::Status operator()(const record::PlanAdopted& body) const {
    if (!Lives(body.epoch) || body.revision <= job.revision) {
      return CannotFollow(absl::StrFormat(
          "revision %d of the plan of epoch %d follows revision %d of epoch "
          "%d",
          body.revision.value, body.epoch.value, job.revision.value,
          job.epoch.value));
    }
    job.revision = body.revision;
    job.plan_digest = body.digest;
    job.plan_image = body.image;
    job.observed_order = body.observed_order;
    return absl::OkStatus();
  }

  absl::Status operator()(const record::EpochFinished& body) const {
    // A repeated end gives the cause more precisely.
    if (body.epoch != job.epoch || body.epoch.value == 0) {
      return CannotFollow(absl::StrFormat(
          "the end of epoch %d, but epoch %d %s", body.epoch.value,
          job.epoch.value, job.epoch_lives ? "lives" : "ended"));
    }
    job.epoch_lives = false;
    job.cause = body.cause;
    job.steps = body.steps;
    job.unfinished = body.unfinished;
    return absl::OkStatus();
  }

  absl::Status operator()(const record::JobEnded& body) const {
    job.epoch_lives = false;
    job.ended = body;
    return absl::OkStatus();
  }

  absl::Status operator()(const record::WorkerLeft& body) const {
    // Also after its end: the worker had finished when it learned of it.
    const bool again = job.left.count(body.worker) > 0;
    if (body.epoch != job.epoch || again) {
      return CannotFollow(absl::StrFormat(
          "%s leaves epoch %d%s", body.worker.value, body.epoch.value,
          again ? " again" : ", which is not the newest one"));
    }
    job.left[body.worker] = {body.steps, body.verdict, body.command};
    return absl::OkStatus();
  }

  absl::Status operator()(const record::RecoveryDecided& body) const {
    if (job.epoch_lives || body.epoch != job.epoch || job.recovery) {
      return CannotFollow(absl::StrFormat(
          "the recovery from epoch %d is decided, but epoch %d %s",
          body.epoch.value, job.epoch.value,
          job.recovery ? "has a decision" : "lives"));
    }
    job.recovery = body.decision;
    if (!body.decision.holders.empty()) job.steps = body.decision.steps;
    return absl::OkStatus();
  }

  absl::Status operator()(const record::CommandsWanted& body) const {
    job.wanted = body.wanted;
    return absl::OkStatus();
  }

  absl::Status operator()(const record::SavePrepared& body) const {
    if (!Lives(body.epoch) || body.part_hashes.size() != job.members.size()) {
      return CannotFollow(absl::StrFormat(
          "save %d of epoch %d is prepared by %d ranks, but epoch %d has %d",
          body.number, body.epoch.value, body.part_hashes.size(),
          job.epoch.value, job.members.size()));
    }
    job.checkpoint_prepared = body;
    return absl::OkStatus();
  }

  absl::Status operator()(const record::SaveCommitted& body) const {
    if (!Lives(body.epoch)) {
      return CannotFollow(absl::StrFormat(
          "save %d of epoch %d is committed, which is not the living one",
          body.number, body.epoch.value));
    }
    job.checkpoint_prepared.reset();
    job.checkpoint = body;
    return absl::OkStatus();
  }

  // Records about the job as a whole, handled below.
  absl::Status operator()(const record::JobArchived&) const {
    return CannotFollow("the job is not over");
  }
  absl::Status operator()(const record::JobDeleted&) const {
    return CannotFollow("the job is not over");
  }

  // The replaced job must have had no epoch, which workers would know of.
  absl::Status operator()(const record::JobAdopted& body) const {
    if (job.epoch.value != 0) {
      return CannotFollow(
          absl::StrFormat("epoch %d is adopted, but the job has had epoch %d",
                          body.epoch.value, job.epoch.value));
    }
    if (body.token_hash != job.token_hash) {
      return CannotFollow("a job with another token is adopted");
    }
    AdoptInto(body, job.epoch_floor, &job);
    return absl::OkStatus();
  }

  bool Lives(EpochId epoch) const {
    return job.epoch_lives && job.epoch == epoch;
  }
};

// Renames the job without moving it in memory.
absl::Status Archive(std::map<JobName, DurableJob>::iterator job,
                     const JobName& as, DurableState* state) {
  if (as.value.empty() || state->jobs.count(as) > 0) {
    return CannotFollow(absl::StrFormat("there is a job %s already", as.value));
  }
  auto node = state->jobs.extract(job);
  node.key() = as;
  node.mapped().archived_as = as;
  state->over[node.mapped().ended_by] = as;
  state->jobs.insert(std::move(node));
  return absl::OkStatus();
}

absl::Status ApplyAfterEnd(std::map<JobName, DurableJob>::iterator job,
                           const record::Body& body, DurableState* state) {
  if (const auto* archived = std::get_if<record::JobArchived>(&body)) {
    return Archive(job, archived->as, state);
  }
  if (!std::holds_alternative<record::JobDeleted>(body)) {
    return CannotFollow("the job is over");
  }
  state->over.erase(job->second.ended_by);
  state->jobs.erase(job);
  return absl::OkStatus();
}

// The spec that the record gives its job; nullptr: none.
const JobSpec* SpecIn(const record::Body& body) {
  if (const auto* created = std::get_if<record::JobCreated>(&body)) {
    return &created->spec;
  }
  const auto* adopted = std::get_if<record::JobAdopted>(&body);
  return adopted == nullptr ? nullptr : &adopted->spec;
}

absl::Status ApplyBody(const record::Record& record, DurableState* state) {
  const JobSpec* spec = SpecIn(record.body);
  if (spec != nullptr && spec->name != record.job.value) {
    return CannotFollow(
        absl::StrFormat("its spec is that of job %s", spec->name));
  }
  const auto found = state->jobs.find(record.job);
  if (found == state->jobs.end()) {
    if (const auto* adopted = std::get_if<record::JobAdopted>(&record.body)) {
      AdoptInto(*adopted, state->epoch_floor, &state->jobs[record.job]);
      return absl::OkStatus();
    }
    const auto* created = std::get_if<record::JobCreated>(&record.body);
    if (created == nullptr) return CannotFollow("the job was never created");
    state->jobs[record.job] = {.spec = created->spec,
                               .token_hash = created->token_hash,
                               .epoch_floor = state->epoch_floor};
    return absl::OkStatus();
  }
  DurableJob& job = found->second;
  if (job.ended) return ApplyAfterEnd(found, record.body, state);
  if (absl::Status changed = std::visit(Change{job}, record.body);
      !changed.ok()) {
    return changed;
  }
  if (job.ended) {
    job.ended_by = record.number;
    state->over[record.number] = record.job;
  }
  return absl::OkStatus();
}

}  // namespace

JobState StateAfter(record::JobOutcome outcome) {
  switch (outcome) {
    case record::JobOutcome::kCompleted: return JobState::kCompleted;
    case record::JobOutcome::kFailed: return JobState::kFailed;
    case record::JobOutcome::kStopped: return JobState::kStopped;
  }
  return JobState::kFailed;
}

absl::Status Apply(const record::Record& record, DurableState* state) {
  if (record.number != state->records + 1) {
    return CannotFollow(absl::StrFormat("record %d cannot follow record %d",
                                        record.number, state->records));
  }
  if (absl::Status applied = ApplyBody(record, state); !applied.ok()) {
    return CannotFollow(absl::StrFormat("record %d of job %s: %s",
                                        record.number, record.job.value,
                                        applied.message()));
  }
  state->records = record.number;
  return absl::OkStatus();
}

// --- Snapshots ---------------------------------------------------------------

record::StateSnapshot SnapshotOf(const DurableState& state) {
  record::StateSnapshot snapshot{.records = state.records,
                                 .epoch_floor = state.epoch_floor};
  for (const auto& [name, job] : state.jobs) snapshot.jobs.push_back(job);
  return snapshot;
}

absl::StatusOr<DurableState> StateOf(const record::StateSnapshot& snapshot) {
  DurableState state{.records = snapshot.records,
                     .epoch_floor = snapshot.epoch_floor};
  for (const DurableJob& job : snapshot.jobs) {
    if (!state.jobs.emplace(job.name(), job).second) {
      return CannotFollow(
          absl::StrFormat("the snapshot has job %s twice", job.name().value));
    }
    if (job.ended) state.over[job.ended_by] = job.name();
  }
  return state;
}

}  // namespace lockstep::core
