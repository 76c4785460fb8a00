// The codec of state: as workers register it, and in plans.
//
// A plan may have ten thousand tensors that a thousand ranks hold. So lists
// that the rest of the plan gives are left out: the ranks, if all hold the
// tensor, and the bounds of blocks, if they are even.

#ifndef LOCKSTEP_PROTO_CODEC_STATE_H_
#define LOCKSTEP_PROTO_CODEC_STATE_H_

#include "lockstep/state_spec.h"
#include "lockstep/v1/plan.pb.h"
#include "lockstep/v1/session.pb.h"
#include "plan/ir.h"
#include "plan/state/state.h"
#include "proto/decoder.h"

namespace lockstep::proto {

void Write(const StateSpec& from, v1::StateSpec* to);
void Read(const v1::StateSpec& from, StateSpec* to, Decoder* d);

// Reads what is there; ReadState adds what was left out.
void Read(const v1::StateTensor& from, plan::StateTensor* to, Decoder* d);

// Plan::state. Reading needs the mesh and the ranks of `to`.
void WriteState(const plan::Plan& from, v1::Plan* to);
void ReadState(const v1::Plan& from, plan::Plan* to, Decoder* d);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_CODEC_STATE_H_
