// What a coordinator says of itself: the trailing metadata of calls of the
// Admin service. A caller that it knows by a token or a certificate gets them,
// even if it may not make the call.

#ifndef LOCKSTEP_PROTO_INTRODUCTION_H_
#define LOCKSTEP_PROTO_INTRODUCTION_H_

namespace lockstep::proto {

inline constexpr char kVersionKey[] = "lockstep-version";    // "0.1.0"
inline constexpr char kProtocolKey[] = "lockstep-protocol";  // Hello.version
inline constexpr char kTimeKey[] = "lockstep-time-ms";  // since 1970, its clock

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_INTRODUCTION_H_
