// The only place that sees both protobuf and the words.
//
// ToProto cannot fail: what our own state machines say is sayable. (Text that
// is not UTF-8 arrives with U+FFFD in its place.) FromProto judges everything,
// for it may come from anywhere: enum values, signs, sizes, finite numbers, the
// presence of what must be there. Names must be printable, and texts for people
// are escaped, so that nothing that a stranger wrote reaches a log, a terminal
// or an error as control characters. Its error is InvalidArgument and names the
// field: "Hello: spec.timeouts.lease: -5 s is negative". What a value means, a
// mesh with a repeated axis for example, is validated by its own module.
//
// Threads: pure functions.

#ifndef LOCKSTEP_PROTO_CODEC_H_
#define LOCKSTEP_PROTO_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/job_spec.h"
#include "lockstep/v1/admin.pb.h"
#include "lockstep/v1/common.pb.h"
#include "lockstep/v1/journal.pb.h"
#include "lockstep/v1/plan.pb.h"
#include "lockstep/v1/session.pb.h"
#include "plan/ir.h"
#include "protocol/ids.h"
#include "protocol/job_command.h"
#include "protocol/job_view.h"
#include "protocol/protocol.h"
#include "protocol/record.h"

namespace lockstep::proto {

// Who a message is about, for messages that have no word of their own.
struct Header {
  JobName job;
  EpochId epoch;
  LeaderTerm term;
  bool operator==(const Header&) const = default;
};

v1::Header ToProto(const Header& header);
v1::ToCoordinator ToProto(const protocol::ToCoordinator& message);
v1::ToWorker ToProto(const protocol::ToWorker& message);
v1::Evidence ToProto(const protocol::Evidence& evidence);
v1::JobSpec ToProto(const JobSpec& spec);
v1::JobView ToProto(const JobView& view);
v1::JobSummary ToProto(const JobSummary& summary);
v1::JobCommand ToProto(JobCommand command);
v1::Plan ToProto(const plan::Plan& plan);
v1::Record ToProto(const record::Record& record);

absl::StatusOr<Header> FromProto(const v1::Header& header);
// A Hello of another protocol version has only its version and worker: the rest
// may mean something else there.
absl::StatusOr<protocol::ToCoordinator> FromProto(
    const v1::ToCoordinator& message);
absl::StatusOr<protocol::ToWorker> FromProto(const v1::ToWorker& message);
absl::StatusOr<protocol::Evidence> FromProto(const v1::Evidence& evidence);
absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& spec);
absl::StatusOr<JobView> FromProto(const v1::JobView& view);
absl::StatusOr<JobSummary> FromProto(const v1::JobSummary& summary);
absl::StatusOr<JobCommand> FromProto(v1::JobCommand command);
absl::StatusOr<plan::Plan> FromProto(const v1::Plan& plan);
absl::StatusOr<record::Record> FromProto(const v1::Record& record);

// Strings of requests that have no word of their own. A name that is not
// printable is refused; a text is escaped. `field` is named in the error.
absl::StatusOr<std::string> NameFromProto(const char* field,
                                          const std::string& name);
absl::StatusOr<std::string> TextFromProto(const char* field,
                                          const std::string& text);

// --- The bytes that a journal keeps -----------------------------------------

std::string RecordBytes(const record::Record& record);
absl::StatusOr<record::Record> ParseRecord(absl::string_view bytes);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_CODEC_H_
