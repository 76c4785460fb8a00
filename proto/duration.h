// Durations on the wire: google.protobuf.Duration, whose largest value is
// infinite.

#ifndef LOCKSTEP_PROTO_DURATION_H_
#define LOCKSTEP_PROTO_DURATION_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"

namespace lockstep::proto {

inline constexpr int64_t kForEverSeconds = 315'576'000'000;  // 10,000 years

inline void Write(absl::Duration from, google::protobuf::Duration* to) {
  if (from >= absl::Seconds(kForEverSeconds)) {
    to->set_seconds(kForEverSeconds);
    return;
  }
  absl::Duration rest;
  to->set_seconds(absl::IDivDuration(from, absl::Seconds(1), &rest));
  to->set_nanos(static_cast<int32_t>(rest / absl::Nanoseconds(1)));
}

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_DURATION_H_
