// Every message that travels, as generated classes: what the tests of the codec
// go through.

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

// One message on the wire, and what the codec makes of others of its type.
struct Sample {
  std::string name;  // "to_worker.welcome"
  std::shared_ptr<google::protobuf::Message> wire;
  // What FromProto says of a message of this type. When it says OK, checks
  // besides that the value survives another journey.
  absl::Status (*judge)(const google::protobuf::Message&);
  // What FromProto takes from a message of this type, on the wire again.
  absl::StatusOr<std::shared_ptr<google::protobuf::Message>> (*taken)(
      const google::protobuf::Message&);
};

// Every message that has a word, filled from `source`; envelopes once for each
// body.
std::vector<Sample> WordSamples(fill::Source& source);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_TESTS_PROTO_SAMPLES_H_
