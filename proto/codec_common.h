// Conversions that several files of the codec use.

#ifndef LOCKSTEP_PROTO_CODEC_COMMON_H_
#define LOCKSTEP_PROTO_CODEC_COMMON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"
#include "lockstep/job_spec.h"
#include "lockstep/v1/common.pb.h"
#include "lockstep/v1/session.pb.h"
#include "proto/decoder.h"
#include "proto/duration.h"
#include "protocol/evidence.h"
#include "protocol/ids.h"
#include "protocol/negotiation.h"
#include "protocol/parameter.h"
#include "protocol/types.h"

namespace lockstep::proto {

// The enumerators of structs and wire have the same values.
template <typename WireEnum, typename E>
WireEnum WireOf(E value) {
  return static_cast<WireEnum>(value);
}

inline v1::DType Wire(DType dtype) { return WireOf<v1::DType>(dtype); }
inline v1::ReduceOp Wire(ReduceOp op) { return WireOf<v1::ReduceOp>(op); }

void Write(const Mesh& from, v1::Mesh* to);
void Write(const Parameter& from, v1::Parameter* to);
void Write(const PipelineSpec& from, v1::PipelineSpec* to);
void Write(const JobSpec& from, v1::JobSpec* to);
void Write(const protocol::ProcessInfo& from, v1::ProcessInfo* to);
void Write(const protocol::Member& from, v1::Member* to);
void Write(const protocol::Position& from, v1::Position* to);
void Write(const protocol::Cause& from, v1::Cause* to);
void Write(const protocol::Evidence& from, v1::Evidence* to);
void Write(const protocol::Decision& from, v1::Decision* to);
void Write(const protocol::DesiredCommands& from, v1::DesiredCommands* to);
void Write(const protocol::RecoveryDecision& from, v1::RecoveryDecision* to);

void Read(const v1::Mesh& from, Mesh* to, Decoder* d);
void Read(const v1::Parameter& from, Parameter* to, Decoder* d);
void Read(const v1::PipelineSpec& from, PipelineSpec* to, Decoder* d);
void Read(const v1::JobSpec& from, JobSpec* to, Decoder* d);
void Read(const v1::ProcessInfo& from, protocol::ProcessInfo* to, Decoder* d);
void Read(const v1::Member& from, protocol::Member* to, Decoder* d);
void Read(const v1::Position& from, protocol::Position* to, Decoder* d);
void Read(const v1::Cause& from, protocol::Cause* to, Decoder* d);
void Read(const v1::Evidence& from, protocol::Evidence* to, Decoder* d);
void Read(const v1::Decision& from, protocol::Decision* to, Decoder* d);
void Read(const v1::DesiredCommands& from, protocol::DesiredCommands* to,
          Decoder* d);
void Read(const v1::RecoveryDecision& from, protocol::RecoveryDecision* to,
          Decoder* d);

// The types of tensors that a Communicator moves; fields with halos have all.
inline bool IsTransportDTypeOnWire(int value) {
  return v1::DType_IsValid(value) &&
         IsTransportDType(static_cast<DType>(value));
}
inline void ReadDType(int from, DType* to, Decoder* d) {
  d->Enum("dtype", from, &IsTransportDTypeOnWire, to);
}
// nullopt for the unspecified value.
inline void ReadDTypeIfAny(const char* field, int from,
                           std::optional<DType>* to, Decoder* d) {
  if (from == v1::DTYPE_UNSPECIFIED) return;
  d->Enum(field, from, &IsTransportDTypeOnWire, &to->emplace());
}
inline void ReadOp(int from, ReduceOp* to, Decoder* d) {
  d->Enum("op", from, &v1::ReduceOp_IsValid, to);
}

// Ranks, each once, ascending.
inline void ReadRanks(const char* field,
                      const google::protobuf::RepeatedField<uint32_t>& from,
                      std::vector<uint32_t>* to, Decoder* d) {
  d->Numbers(field, from, kRanksMax, to);
  for (size_t i = 0; i < to->size(); ++i) {
    const uint32_t rank = (*to)[i];
    if (rank < kRanksMax && (i == 0 || rank > (*to)[i - 1])) continue;
    return d->Fail(field, absl::StrCat(rank, " is no rank, or out of order"));
  }
}

// Sizes and positions, any of which may be 0.
inline void ReadSizes(const char* field,
                      const google::protobuf::RepeatedField<int64_t>& from,
                      int count_max, std::vector<int64_t>* to, Decoder* d) {
  if (!d->Count(field, from.size(), count_max)) return;
  to->reserve(static_cast<size_t>(from.size()));
  for (const int64_t size : from) {
    d->NotNegative(field, size, &to->emplace_back());
  }
}

inline void WriteNumbers(const std::vector<uint32_t>& from,
                         google::protobuf::RepeatedField<uint32_t>* to) {
  to->Add(from.begin(), from.end());
}

// The header of an envelope: any struct with job, epoch and term.
template <typename Envelope>
void WriteHeader(const Envelope& from, v1::Header* to) {
  to->set_job(ToUtf8(from.job.value));
  to->set_epoch(from.epoch.value);
  to->set_leader_term(from.term.value);
}
template <typename Envelope>
void ReadHeader(const v1::Header& from, Envelope* to, Decoder* d) {
  d->Name("header.job", from.job(), &to->job.value);
  to->epoch = {from.epoch()};
  to->term = {from.leader_term()};
}

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_CODEC_COMMON_H_
