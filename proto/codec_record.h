// The part of the codec of records that snapshots use too.

#ifndef LOCKSTEP_PROTO_CODEC_RECORD_H_
#define LOCKSTEP_PROTO_CODEC_RECORD_H_

#include "lockstep/v1/journal.pb.h"
#include "proto/decoder.h"
#include "protocol/record.h"

namespace lockstep::proto {

void Write(const record::JobEnded& from, v1::JobEndedRecord* to);
void Read(const v1::JobEndedRecord& from, record::JobEnded* to, Decoder* d);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_CODEC_RECORD_H_
