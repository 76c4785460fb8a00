#include "proto/journal_text.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include "proto/codec.h"

namespace lockstep::proto {
namespace {

// Cannot fail: these messages have no Any.
std::string JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

}  // namespace

std::string RecordText(const record::Record& record) {
  return ToProto(record).ShortDebugString();
}
std::string RecordJson(const record::Record& record) {
  return JsonOf(ToProto(record));
}
std::string JobText(const record::DurableJob& job) {
  return ToProto(job).ShortDebugString();
}
std::string JobJson(const record::DurableJob& job) {
  return JsonOf(ToProto(job));
}

}  // namespace lockstep::proto
