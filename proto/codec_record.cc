// The codec of the journal's records.

#include "proto/codec_record.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/codec.h"
#include "proto/codec_checkpoint.h"
#include "proto/codec_common.h"

namespace lockstep::proto {

static_assert(static_cast<int>(record::JobOutcome::kStopped) ==
              v1::Outcome_MAX);

// --- Bodies -----------------------------------------------------------------

void Write(const record::JobCreated& from, v1::JobCreatedRecord* to) {
  Write(from.spec, to->mutable_spec());
  to->set_token_hash(ToUtf8(from.token_hash));
}

void Read(const v1::JobCreatedRecord& from, record::JobCreated* to,
          Decoder* d) {
  d->Message("spec", from.has_spec(), from.spec(), &to->spec);
  d->Name("token_hash", from.token_hash(), &to->token_hash);
}

void Write(const record::GenerationAssigned& from,
           v1::GenerationAssignedRecord* to) {
  to->set_worker(ToUtf8(from.worker.value));
  to->set_generation(from.generation.value);
  to->set_incarnation(from.incarnation);
  to->set_secret_hash(ToUtf8(from.secret_hash));
}

void Read(const v1::GenerationAssignedRecord& from,
          record::GenerationAssigned* to, Decoder* d) {
  d->Name("worker", from.worker(), &to->worker.value);
  to->generation = {from.generation()};
  to->incarnation = from.incarnation();
  d->Name("secret_hash", from.secret_hash(), &to->secret_hash);
}

void Write(const record::EpochBegan& from, v1::EpochBeganRecord* to) {
  to->set_epoch(from.epoch.value);
  for (const protocol::Member& member : from.members) {
    Write(member, to->add_members());
  }
  to->set_first_step(from.first_step);
  WriteNumbers(from.holders, to->mutable_holders());
  to->set_holders_world(from.holders_world);
}

void Read(const v1::EpochBeganRecord& from, record::EpochBegan* to,
          Decoder* d) {
  to->epoch = {from.epoch()};
  d->Each("members", from.members(), kRanksMax, &to->members);
  to->first_step = from.first_step();
  ReadRanks("holders", from.holders(), &to->holders, d);
  d->Int("holders_world", from.holders_world(), 0, &to->holders_world);
}

void Write(const record::PlanAdopted& from, v1::PlanAdoptedRecord* to) {
  to->set_epoch(from.epoch.value);
  to->set_revision(from.revision.value);
  to->set_digest(ToUtf8(from.digest));
  WriteNumbers(from.observed_order, to->mutable_observed_order());
  to->set_plan_bytes(from.image.bytes);
  to->set_plan_sha256(ToUtf8(from.image.sha256));
}

void Read(const v1::PlanAdoptedRecord& from, record::PlanAdopted* to,
          Decoder* d) {
  to->epoch = {from.epoch()};
  to->revision = {from.revision()};
  d->Name("digest", from.digest(), &to->digest);
  d->Numbers("observed_order", from.observed_order(), kManyMax,
             &to->observed_order);
  to->image.bytes = from.plan_bytes();
  d->Name("plan_sha256", from.plan_sha256(), &to->image.sha256);
}

void Write(const record::EpochFinished& from, v1::EpochEndedRecord* to) {
  to->set_epoch(from.epoch.value);
  Write(from.cause, to->mutable_cause());
  to->set_steps(from.steps);
  to->set_unfinished(ToUtf8(from.unfinished.value));
}

void Read(const v1::EpochEndedRecord& from, record::EpochFinished* to,
          Decoder* d) {
  to->epoch = {from.epoch()};
  d->Message("cause", from.has_cause(), from.cause(), &to->cause);
  to->steps = from.steps();
  d->Name("unfinished", from.unfinished(), &to->unfinished.value);
}

void Write(const record::JobEnded& from, v1::JobEndedRecord* to) {
  to->set_outcome(WireOf<v1::Outcome>(from.outcome));
  Write(from.cause, to->mutable_cause());
}

void Read(const v1::JobEndedRecord& from, record::JobEnded* to, Decoder* d) {
  d->Enum("outcome", from.outcome(), &v1::Outcome_IsValid, &to->outcome);
  d->Message("cause", from.has_cause(), from.cause(), &to->cause);
}

void Write(const record::WorkerLeft& from, v1::WorkerLeftRecord* to) {
  to->set_epoch(from.epoch.value);
  to->set_worker(ToUtf8(from.worker.value));
  to->set_steps(from.steps);
  if (from.command) to->set_command(WireOf<v1::Command>(*from.command));
  to->set_verdict(from.verdict);
}

void Read(const v1::WorkerLeftRecord& from, record::WorkerLeft* to,
          Decoder* d) {
  to->epoch = {from.epoch()};
  d->Name("worker", from.worker(), &to->worker.value);
  to->steps = from.steps();
  if (from.has_command()) {
    d->Enum("command", from.command(), &v1::Command_IsValid,
            &to->command.emplace());
  }
  d->Opaque("verdict", from.verdict(), &to->verdict);
}

void Write(const record::RecoveryDecided& from, v1::RecoveryDecidedRecord* to) {
  to->set_epoch(from.epoch.value);
  Write(from.decision, to->mutable_decision());
}

void Read(const v1::RecoveryDecidedRecord& from, record::RecoveryDecided* to,
          Decoder* d) {
  to->epoch = {from.epoch()};
  d->Message("decision", from.has_decision(), from.decision(), &to->decision);
}

void Write(const record::CommandsWanted& from, v1::CommandsWantedRecord* to) {
  Write(from.wanted, to->mutable_wanted());
}

void Read(const v1::CommandsWantedRecord& from, record::CommandsWanted* to,
          Decoder* d) {
  d->Message("wanted", from.has_wanted(), from.wanted(), &to->wanted);
}

void Write(const record::JobArchived& from, v1::JobArchivedRecord* to) {
  to->set_as(ToUtf8(from.as.value));
}

void Read(const v1::JobArchivedRecord& from, record::JobArchived* to,
          Decoder* d) {
  d->Name("as", from.as(), &to->as.value);
}

void Write(const record::JobDeleted&, v1::JobDeletedRecord*) {}
void Read(const v1::JobDeletedRecord&, record::JobDeleted*, Decoder*) {}

void Write(const record::AdoptedMember& from, v1::AdoptedMember* to) {
  Write(from.member, to->mutable_member());
  to->set_incarnation(from.incarnation);
  to->set_secret_hash(ToUtf8(from.secret_hash));
}

void Read(const v1::AdoptedMember& from, record::AdoptedMember* to,
          Decoder* d) {
  d->Message("member", from.has_member(), from.member(), &to->member);
  to->incarnation = from.incarnation();
  d->Name("secret_hash", from.secret_hash(), &to->secret_hash);
}

void Write(const record::JobAdopted& from, v1::JobAdoptedRecord* to) {
  Write(from.spec, to->mutable_spec());
  to->set_token_hash(ToUtf8(from.token_hash));
  to->set_epoch(from.epoch.value);
  for (const record::AdoptedMember& member : from.members) {
    Write(member, to->add_members());
  }
  to->set_revision(from.revision.value);
  to->set_digest(ToUtf8(from.digest));
  WriteNumbers(from.observed_order, to->mutable_observed_order());
  Write(from.wanted, to->mutable_wanted());
  to->set_first_step(from.first_step);
}

void Read(const v1::JobAdoptedRecord& from, record::JobAdopted* to,
          Decoder* d) {
  d->Message("spec", from.has_spec(), from.spec(), &to->spec);
  d->Name("token_hash", from.token_hash(), &to->token_hash);
  to->epoch = {from.epoch()};
  d->Each("members", from.members(), kRanksMax, &to->members);
  to->revision = {from.revision()};
  d->Name("digest", from.digest(), &to->digest);
  d->Numbers("observed_order", from.observed_order(), kManyMax,
             &to->observed_order);
  d->Message("wanted", from.has_wanted(), from.wanted(), &to->wanted);
  to->first_step = from.first_step();
}

// --- The record -------------------------------------------------------------

namespace {

// Returns the record's field for each body.
struct Field {
  v1::Record* to;
  auto* operator()(const record::JobCreated&) {
    return to->mutable_job_created();
  }
  auto* operator()(const record::GenerationAssigned&) {
    return to->mutable_generation_assigned();
  }
  auto* operator()(const record::EpochBegan&) {
    return to->mutable_epoch_began();
  }
  auto* operator()(const record::PlanAdopted&) {
    return to->mutable_plan_adopted();
  }
  auto* operator()(const record::EpochFinished&) {
    return to->mutable_epoch_ended();
  }
  auto* operator()(const record::JobEnded&) { return to->mutable_job_ended(); }
  auto* operator()(const record::WorkerLeft&) {
    return to->mutable_worker_left();
  }
  auto* operator()(const record::CommandsWanted&) {
    return to->mutable_commands_wanted();
  }
  auto* operator()(const record::JobArchived&) {
    return to->mutable_job_archived();
  }
  auto* operator()(const record::JobDeleted&) {
    return to->mutable_job_deleted();
  }
  auto* operator()(const record::JobAdopted&) {
    return to->mutable_job_adopted();
  }
  auto* operator()(const record::SavePrepared&) {
    return to->mutable_save_prepared();
  }
  auto* operator()(const record::SaveCommitted&) {
    return to->mutable_save_committed();
  }
  auto* operator()(const record::RecoveryDecided&) {
    return to->mutable_recovery_decided();
  }
};

}  // namespace

v1::Record ToProto(const record::Record& record) {
  v1::Record to;
  to.mutable_header()->set_job(ToUtf8(record.job.value));
  to.set_number(record.number);
  std::visit([&](const auto& body) { Write(body, Field{&to}(body)); },
             record.body);
  return to;
}

absl::StatusOr<record::Record> FromProto(const v1::Record& record) {
  return Decode<record::Record>("Record", record);
}

void Read(const v1::Record& from, record::Record* to, Decoder* d) {
  using M = v1::Record;
  to->number = from.number();
  d->Name("header.job", from.header().job(), &to->job.value);
  switch (from.body_case()) {
    case M::kJobCreated:
      return d->Body<record::JobCreated>("job_created", from.job_created(),
                                         &to->body);
    case M::kGenerationAssigned:
      return d->Body<record::GenerationAssigned>(
          "generation_assigned", from.generation_assigned(), &to->body);
    case M::kEpochBegan:
      return d->Body<record::EpochBegan>("epoch_began", from.epoch_began(),
                                         &to->body);
    case M::kPlanAdopted:
      return d->Body<record::PlanAdopted>("plan_adopted", from.plan_adopted(),
                                          &to->body);
    case M::kEpochEnded:
      return d->Body<record::EpochFinished>("epoch_ended", from.epoch_ended(),
                                            &to->body);
    case M::kJobEnded:
      return d->Body<record::JobEnded>("job_ended", from.job_ended(),
                                       &to->body);
    case M::kWorkerLeft:
      return d->Body<record::WorkerLeft>("worker_left", from.worker_left(),
                                         &to->body);
    case M::kCommandsWanted:
      return d->Body<record::CommandsWanted>("commands_wanted",
                                             from.commands_wanted(), &to->body);
    case M::kJobArchived:
      return d->Body<record::JobArchived>("job_archived", from.job_archived(),
                                          &to->body);
    case M::kJobDeleted:
      return d->Body<record::JobDeleted>("job_deleted", from.job_deleted(),
                                         &to->body);
    case M::kJobAdopted:
      return d->Body<record::JobAdopted>("job_adopted", from.job_adopted(),
                                         &to->body);
    case M::kSavePrepared:
      return d->Body<record::SavePrepared>("save_prepared",
                                           from.save_prepared(), &to->body);
    case M::kSaveCommitted:
      return d->Body<record::SaveCommitted>("save_committed",
                                            from.save_committed(), &to->body);
    case M::kRecoveryDecided:
      return d->Body<record::RecoveryDecided>(
          "recovery_decided", from.recovery_decided(), &to->body);
    case M::BODY_NOT_SET: return d->Fail("body", "is missing or unknown");
  }
}

// --- Bytes ------------------------------------------------------------------

std::string RecordBytes(const record::Record& record) {
  return ToProto(record).SerializeAsString();
}

absl::StatusOr<record::Record> ParseRecord(absl::string_view bytes) {
  v1::Record record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes are no record"));
  }
  return FromProto(record);
}

}  // namespace lockstep::proto
