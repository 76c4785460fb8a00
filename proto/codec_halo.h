// The codec of halo exchanges: as workers declare them, and in plans.

#ifndef LOCKSTEP_PROTO_CODEC_HALO_H_
#define LOCKSTEP_PROTO_CODEC_HALO_H_

#include "lockstep/halo_spec.h"
#include "lockstep/v1/plan.pb.h"
#include "lockstep/v1/session.pb.h"
#include "plan/halo/halo.h"
#include "proto/decoder.h"

namespace lockstep::proto {

void Write(const HaloSpec& from, v1::HaloSpec* to);
void Read(const v1::HaloSpec& from, HaloSpec* to, Decoder* d);

void Write(const plan::Halo& from, v1::Halo* to);
void Read(const v1::Halo& from, plan::Halo* to, Decoder* d);

void Write(const plan::HaloRoutes& from, v1::HaloRoutes* to);
void Read(const v1::HaloRoutes& from, plan::HaloRoutes* to, Decoder* d);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_CODEC_HALO_H_
