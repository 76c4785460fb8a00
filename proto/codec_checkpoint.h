// The codec of messages and records about checkpoints.

#ifndef LOCKSTEP_PROTO_CODEC_CHECKPOINT_H_
#define LOCKSTEP_PROTO_CODEC_CHECKPOINT_H_

#include "lockstep/v1/admin.pb.h"
#include "lockstep/v1/common.pb.h"
#include "lockstep/v1/journal.pb.h"
#include "lockstep/v1/session.pb.h"
#include "proto/decoder.h"
#include "protocol/checkpoint.h"
#include "protocol/job_view.h"
#include "protocol/record.h"

namespace lockstep::proto {

// Messages of errors are cut to protocol::kCheckpointErrorBytesMax.
void Write(const protocol::CheckpointReport& from, v1::CheckpointReport* to);
void Write(const protocol::CheckpointNews& from, v1::CheckpointNews* to);
void Write(const record::SavePrepared& from, v1::SavePreparedRecord* to);
void Write(const record::SaveCommitted& from, v1::SaveCommittedRecord* to);
void Write(const CheckpointView& from, v1::CheckpointView* to);

void Read(const v1::CheckpointReport& from, protocol::CheckpointReport* to,
          Decoder* d);
void Read(const v1::CheckpointNews& from, protocol::CheckpointNews* to,
          Decoder* d);
void Read(const v1::SavePreparedRecord& from, record::SavePrepared* to,
          Decoder* d);
void Read(const v1::SaveCommittedRecord& from, record::SaveCommitted* to,
          Decoder* d);
void Read(const v1::CheckpointView& from, CheckpointView* to, Decoder* d);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_CODEC_CHECKPOINT_H_
