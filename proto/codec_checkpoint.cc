#include "proto/codec_checkpoint.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"
#include "proto/codec_common.h"

namespace lockstep::proto {

static_assert(static_cast<int>(protocol::CheckpointSave::Stage::kFailed) ==
              v1::CheckpointStage_MAX);

// --- Parts ------------------------------------------------------------------

void Write(const absl::Status& from, v1::CheckpointResult* to) {
  to->set_code(static_cast<uint32_t>(from.code()));
  to->set_message(
      ToUtf8(from.message().substr(0, protocol::kCheckpointErrorBytesMax)));
}

void Read(const v1::CheckpointResult& from, absl::Status* to, Decoder* d) {
  absl::StatusCode code = absl::StatusCode::kOk;
  if (from.code() != 0) d->ErrorCode("code", from.code(), &code);
  std::string message;
  d->Text("message", from.message(), &message);
  *to = absl::Status(code, message);
}

void Write(const CheckpointName& from, v1::CheckpointName* to) {
  to->set_step(from.step);
  to->set_epoch(from.epoch);
  to->set_attempt(from.attempt);
}

void Read(const v1::CheckpointName& from, CheckpointName* to, Decoder* d) {
  d->NotNegative("step", from.step(), &to->step);
  d->NotNegative("epoch", from.epoch(), &to->epoch);
  d->NotNegative("attempt", from.attempt(), &to->attempt);
}

void Write(const protocol::CheckpointDirectory& from,
           v1::CheckpointDirectory* to) {
  to->set_path(ToUtf8(from.path));
  to->set_nonce(from.nonce);
  to->set_first_attempt(from.first_attempt);
  if (from.newest) Write(*from.newest, to->mutable_newest());
}

void Read(const v1::CheckpointDirectory& from,
          protocol::CheckpointDirectory* to, Decoder* d) {
  d->Text("path", from.path(), &to->path);
  d->Hash("nonce", from.nonce(), &to->nonce);
  d->NotNegative("first_attempt", from.first_attempt(), &to->first_attempt);
  d->Optional("newest", from.has_newest(), from.newest(), &to->newest);
}

void Write(const protocol::CheckpointSave& from, v1::CheckpointSave* to) {
  to->set_number(from.number);
  to->set_step(from.step);
  to->set_stage(WireOf<v1::CheckpointStage>(from.stage));
  to->set_bytes_done(from.bytes_done);
  to->set_bytes_total(from.bytes_total);
  to->set_part_hash(from.part_hash);
  if (!from.error.ok()) Write(from.error, to->mutable_error());
  if (from.committed) Write(*from.committed, to->mutable_committed());
}

void Read(const v1::CheckpointSave& from, protocol::CheckpointSave* to,
          Decoder* d) {
  using Stage = protocol::CheckpointSave::Stage;
  to->number = from.number();
  if (to->number == 0) d->Fail("number", "is 0");
  d->NotNegative("step", from.step(), &to->step);
  d->Enum("stage", from.stage(), &v1::CheckpointStage_IsValid, &to->stage);
  to->bytes_done = from.bytes_done();
  to->bytes_total = from.bytes_total();
  if (to->stage == Stage::kWritten || !from.part_hash().empty()) {
    d->Hash("part_hash", from.part_hash(), &to->part_hash);
  }
  if (from.has_error()) {
    d->Message("error", true, from.error(), &to->error);
  }
  if (to->error.ok() && to->stage == Stage::kFailed) {
    d->Fail("error", "is none, but the save failed");
  }
  d->Optional("committed", from.has_committed(), from.committed(),
              &to->committed);
}

void Write(const protocol::CheckpointFault& from, v1::CheckpointFault* to) {
  to->set_rank(from.rank);
  Write(from.error, to->mutable_error());
}

void Read(const v1::CheckpointFault& from, protocol::CheckpointFault* to,
          Decoder* d) {
  d->Int("rank", from.rank(), 0, &to->rank);
  d->Message("error", from.has_error(), from.error(), &to->error);
  if (to->error.ok()) d->Fail("error", "is none");
}

void Write(const protocol::CheckpointPrepared& from,
           v1::CheckpointPrepared* to) {
  to->set_number(from.number);
  for (const std::string& hash : from.part_hashes) to->add_part_hashes(hash);
}

namespace {

// A rank without a part has an empty hash.
void ReadPartHashes(const google::protobuf::RepeatedPtrField<std::string>& from,
                    std::vector<std::string>* to, Decoder* d) {
  if (!d->Count("part_hashes", from.size(), kRanksMax)) return;
  for (const std::string& hash : from) {
    to->emplace_back();
    if (!hash.empty()) d->Hash("part_hashes", hash, &to->back());
  }
}

template <typename List>
void WriteFaults(const std::vector<protocol::CheckpointFault>& from, List* to) {
  for (const protocol::CheckpointFault& fault : from) Write(fault, to->Add());
}

}  // namespace

void Read(const v1::CheckpointPrepared& from, protocol::CheckpointPrepared* to,
          Decoder* d) {
  to->number = from.number();
  ReadPartHashes(from.part_hashes(), &to->part_hashes, d);
}

// --- Messages ---------------------------------------------------------------

void Write(const protocol::CheckpointReport& from, v1::CheckpointReport* to) {
  if (from.directory) Write(*from.directory, to->mutable_directory());
  if (from.access) Write(*from.access, to->mutable_access());
  if (from.save) Write(*from.save, to->mutable_save());
  to->set_decided(from.decided);
  WriteFaults(from.faults, to->mutable_faults());
  to->set_faults_more(from.faults_more);
}

void Read(const v1::CheckpointReport& from, protocol::CheckpointReport* to,
          Decoder* d) {
  d->Optional("directory", from.has_directory(), from.directory(),
              &to->directory);
  d->Optional("access", from.has_access(), from.access(), &to->access);
  d->Optional("save", from.has_save(), from.save(), &to->save);
  to->decided = from.decided();
  d->Each("faults", from.faults(), protocol::kCheckpointFaultsMax, &to->faults);
  d->Int("faults_more", from.faults_more(), 0, &to->faults_more);
}

void Write(const protocol::CheckpointNews& from, v1::CheckpointNews* to) {
  if (from.directory) Write(*from.directory, to->mutable_directory());
  to->set_opened(from.opened);
  WriteFaults(from.access_faults, to->mutable_access_faults());
  to->set_access_faults_more(from.access_faults_more);
  to->set_decided(from.decided);
  WriteFaults(from.faults, to->mutable_faults());
  to->set_faults_more(from.faults_more);
  if (from.prepared) Write(*from.prepared, to->mutable_prepared());
}

void Read(const v1::CheckpointNews& from, protocol::CheckpointNews* to,
          Decoder* d) {
  d->Optional("directory", from.has_directory(), from.directory(),
              &to->directory);
  to->opened = from.opened();
  d->Each("access_faults", from.access_faults(), protocol::kCheckpointFaultsMax,
          &to->access_faults);
  d->Int("access_faults_more", from.access_faults_more(), 0,
         &to->access_faults_more);
  to->decided = from.decided();
  d->Each("faults", from.faults(), protocol::kCheckpointFaultsMax, &to->faults);
  d->Int("faults_more", from.faults_more(), 0, &to->faults_more);
  d->Optional("prepared", from.has_prepared(), from.prepared(), &to->prepared);
}

// --- Records ----------------------------------------------------------------

void Write(const record::SavePrepared& from, v1::SavePreparedRecord* to) {
  to->set_epoch(from.epoch.value);
  to->set_number(from.number);
  Write(from.name, to->mutable_name());
  for (const std::string& hash : from.part_hashes) to->add_part_hashes(hash);
}

void Read(const v1::SavePreparedRecord& from, record::SavePrepared* to,
          Decoder* d) {
  to->epoch = {from.epoch()};
  to->number = from.number();
  d->Message("name", from.has_name(), from.name(), &to->name);
  ReadPartHashes(from.part_hashes(), &to->part_hashes, d);
}

void Write(const record::SaveCommitted& from, v1::SaveCommittedRecord* to) {
  to->set_epoch(from.epoch.value);
  to->set_number(from.number);
  Write(from.name, to->mutable_name());
}

void Read(const v1::SaveCommittedRecord& from, record::SaveCommitted* to,
          Decoder* d) {
  to->epoch = {from.epoch()};
  to->number = from.number();
  d->Message("name", from.has_name(), from.name(), &to->name);
}

// --- The view ---------------------------------------------------------------

void Write(const CheckpointView& from, v1::CheckpointView* to) {
  if (from.committed) Write(*from.committed, to->mutable_committed());
  Write(from.committed_ago, to->mutable_committed_ago());
  to->set_saving(from.saving);
  to->set_saving_step(from.saving_step);
  to->set_bytes_done(from.bytes_done);
  to->set_bytes_total(from.bytes_total);
  Write(from.saving_for, to->mutable_saving_for());
  to->set_failure(ToUtf8(from.failure));
  to->set_failed_step(from.failed_step);
  Write(from.failed_ago, to->mutable_failed_ago());
}

void Read(const v1::CheckpointView& from, CheckpointView* to, Decoder* d) {
  d->Optional("committed", from.has_committed(), from.committed(),
              &to->committed);
  d->Duration("committed_ago", from.committed_ago(), &to->committed_ago);
  to->saving = from.saving();
  d->NotNegative("saving_step", from.saving_step(), &to->saving_step);
  to->bytes_done = from.bytes_done();
  to->bytes_total = from.bytes_total();
  d->Duration("saving_for", from.saving_for(), &to->saving_for);
  d->Text("failure", from.failure(), &to->failure);
  d->NotNegative("failed_step", from.failed_step(), &to->failed_step);
  d->Duration("failed_ago", from.failed_ago(), &to->failed_ago);
}

}  // namespace lockstep::proto
