// Every message on the wire, as generated classes, for the tests of the codec.

#ifndef LOCKSTEP_TESTS_PROTO_SAMPLES_H_
#define LOCKSTEP_TESTS_PROTO_SAMPLES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "proto/codec.h"
#include "tests/support/fill.h"

namespace lockstep::proto {

// One message on the wire, and the codec's functions for its type.
struct Sample {
  std::string name;  // "to_worker.welcome"
  std::shared_ptr<google::protobuf::Message> wire;
  // FromProto's status for a message of this type. If it is OK, also checks
  // that the value survives another round trip.
  absl::Status (*judge)(const google::protobuf::Message&);
  // FromProto's value for a message of this type, encoded again.
  absl::StatusOr<std::shared_ptr<google::protobuf::Message>> (*taken)(
      const google::protobuf::Message&);
};

// Every message with a type in protocol/, filled from `source`; envelopes once
// for each body.
std::vector<Sample> WordSamples(fill::Source& source);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_TESTS_PROTO_SAMPLES_H_
