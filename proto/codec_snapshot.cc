// The codec of the journal's snapshots.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/codec.h"
#include "proto/codec_checkpoint.h"
#include "proto/codec_common.h"
#include "proto/codec_record.h"

namespace lockstep::proto {
namespace {

struct NamedHolder {
  WorkerName worker;
  record::NameHolder holder;
};

struct NumberedDigest {
  EpochId epoch;
  std::string digest;
};

struct NamedDeparture {
  WorkerName worker;
  record::Departure departure;
};

void Read(const v1::NameHolder& from, NamedHolder* to, Decoder* d) {
  d->Name("worker", from.worker(), &to->worker.value);
  to->holder.generation = {from.generation()};
  to->holder.incarnation = from.incarnation();
  d->Name("secret_hash", from.secret_hash(), &to->holder.secret_hash);
}

void Read(const v1::MembersDigest& from, NumberedDigest* to, Decoder* d) {
  to->epoch = {from.epoch()};
  d->Name("digest", from.digest(), &to->digest);
}

void Read(const v1::Departure& from, NamedDeparture* to, Decoder* d) {
  d->Name("worker", from.worker(), &to->worker.value);
  to->departure.steps = from.steps();
  d->Opaque("verdict", from.verdict(), &to->departure.verdict);
  if (from.has_command()) {
    d->Enum("command", from.command(), &v1::Command_IsValid,
            &to->departure.command.emplace());
  }
}

}  // namespace

void Write(const record::DurableJob& from, v1::DurableJob* to) {
  Write(from.spec, to->mutable_spec());
  to->set_token_hash(ToUtf8(from.token_hash));
  for (const auto& [worker, holder] : from.name_holders) {
    v1::NameHolder* const entry = to->add_name_holders();
    entry->set_worker(ToUtf8(worker.value));
    entry->set_generation(holder.generation.value);
    entry->set_incarnation(holder.incarnation);
    entry->set_secret_hash(ToUtf8(holder.secret_hash));
  }
  to->set_epoch(from.epoch.value);
  to->set_epoch_lives(from.epoch_lives);
  to->set_first_step(from.first_step);
  to->set_steps(from.steps);
  for (const protocol::Member& member : from.members) {
    Write(member, to->add_members());
  }
  for (const auto& [epoch, digest] : from.members_digests) {
    v1::MembersDigest* const entry = to->add_members_digests();
    entry->set_epoch(epoch.value);
    entry->set_digest(ToUtf8(digest));
  }
  to->set_revision(from.revision.value);
  to->set_plan_digest(ToUtf8(from.plan_digest));
  to->set_plan_bytes(from.plan_image.bytes);
  to->set_plan_sha256(ToUtf8(from.plan_image.sha256));
  WriteNumbers(from.observed_order, to->mutable_observed_order());
  for (const auto& [worker, departure] : from.left) {
    v1::Departure* const entry = to->add_left();
    entry->set_worker(ToUtf8(worker.value));
    entry->set_steps(departure.steps);
    entry->set_verdict(departure.verdict);
    if (departure.command) {
      entry->set_command(WireOf<v1::Command>(*departure.command));
    }
  }
  if (from.checkpoint_prepared) {
    Write(*from.checkpoint_prepared, to->mutable_checkpoint_prepared());
  }
  if (from.checkpoint) Write(*from.checkpoint, to->mutable_checkpoint());
  Write(from.wanted, to->mutable_wanted());
  Write(from.cause, to->mutable_cause());
  if (from.ended) Write(*from.ended, to->mutable_ended());
  to->set_ended_by(from.ended_by);
  to->set_archived_as(ToUtf8(from.archived_as.value));
  to->set_adopted(from.adopted);
  to->set_epoch_floor(from.epoch_floor.value);
  WriteNumbers(from.holders, to->mutable_holders());
  to->set_previous_world(from.previous_world);
  if (from.recovery) Write(*from.recovery, to->mutable_recovery());
  to->set_unfinished(ToUtf8(from.unfinished.value));
}

void Read(const v1::DurableJob& from, record::DurableJob* to, Decoder* d) {
  d->Message("spec", from.has_spec(), from.spec(), &to->spec);
  d->Name("token_hash", from.token_hash(), &to->token_hash);
  std::vector<NamedHolder> holders;
  d->Each("name_holders", from.name_holders(), kManyMax, &holders);
  for (NamedHolder& entry : holders) {
    to->name_holders[entry.worker] = std::move(entry.holder);
  }
  to->epoch = {from.epoch()};
  to->epoch_lives = from.epoch_lives();
  to->first_step = from.first_step();
  to->steps = from.steps();
  std::vector<protocol::Member> members;
  d->Each("members", from.members(), kRanksMax, &members);
  to->members = std::move(members);
  std::vector<NumberedDigest> digests;
  d->Each("members_digests", from.members_digests(), kManyMax, &digests);
  for (NumberedDigest& entry : digests) {
    to->members_digests[entry.epoch] = std::move(entry.digest);
  }
  to->revision = {from.revision()};
  d->Name("plan_digest", from.plan_digest(), &to->plan_digest);
  to->plan_image.bytes = from.plan_bytes();
  d->Name("plan_sha256", from.plan_sha256(), &to->plan_image.sha256);
  d->Numbers("observed_order", from.observed_order(), kManyMax,
             &to->observed_order);
  std::vector<NamedDeparture> left;
  d->Each("left", from.left(), kRanksMax, &left);
  for (NamedDeparture& entry : left) {
    to->left[entry.worker] = entry.departure;
  }
  d->Optional("checkpoint_prepared", from.has_checkpoint_prepared(),
              from.checkpoint_prepared(), &to->checkpoint_prepared);
  d->Optional("checkpoint", from.has_checkpoint(), from.checkpoint(),
              &to->checkpoint);
  d->Message("wanted", from.has_wanted(), from.wanted(), &to->wanted);
  d->Message("cause", from.has_cause(), from.cause(), &to->cause);
  d->Optional("ended", from.has_ended(), from.ended(), &to->ended);
  to->ended_by = from.ended_by();
  d->Name("archived_as", from.archived_as(), &to->archived_as.value);
  to->adopted = from.adopted();
  to->epoch_floor = {from.epoch_floor()};
  ReadRanks("holders", from.holders(), &to->holders, d);
  d->Int("previous_world", from.previous_world(), 0, &to->previous_world);
  d->Optional("recovery", from.has_recovery(), from.recovery(), &to->recovery);
  d->Name("unfinished", from.unfinished(), &to->unfinished.value);
}

v1::DurableJob ToProto(const record::DurableJob& job) {
  v1::DurableJob to;
  Write(job, &to);
  return to;
}

absl::StatusOr<record::DurableJob> FromProto(const v1::DurableJob& job) {
  return Decode<record::DurableJob>("DurableJob", job);
}

// --- Parts -------------------------------------------------------------------

std::vector<std::string> SnapshotParts(const record::StateSnapshot& snapshot) {
  v1::SnapshotHeader header;
  header.set_version(kSnapshotVersion);
  header.set_records(snapshot.records);
  header.set_epoch_floor(snapshot.epoch_floor.value);
  header.set_jobs(snapshot.jobs.size());
  std::vector<std::string> parts = {header.SerializeAsString()};
  for (const record::DurableJob& job : snapshot.jobs) {
    parts.push_back(ToProto(job).SerializeAsString());
  }
  return parts;
}

absl::StatusOr<record::StateSnapshot> ParseSnapshot(
    const std::vector<std::string>& parts) {
  v1::SnapshotHeader header;
  if (parts.empty() || !header.ParseFromString(parts[0])) {
    return absl::InvalidArgumentError("the snapshot has no header");
  }
  if (header.version() != kSnapshotVersion) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the snapshot has version %d, written by another version of lockstepd; "
        "this one reads version %d",
        header.version(), kSnapshotVersion));
  }
  if (header.jobs() != parts.size() - 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the snapshot says that it has %d jobs, but has %d",
                        header.jobs(), parts.size() - 1));
  }
  record::StateSnapshot snapshot{.records = header.records(),
                                 .epoch_floor = {header.epoch_floor()}};
  for (size_t i = 1; i < parts.size(); ++i) {
    v1::DurableJob wire;
    if (!wire.ParseFromString(parts[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("part ", i, " of the snapshot is no job"));
    }
    absl::StatusOr<record::DurableJob> job = FromProto(wire);
    if (!job.ok()) return job.status();
    snapshot.jobs.push_back(*std::move(job));
  }
  return snapshot;
}

}  // namespace lockstep::proto
