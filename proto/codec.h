// The only module that uses both protobuf classes and protocol structs.
//
// ToProto cannot fail: it encodes structs of Lockstep's own state machines. (It
// replaces bytes that are not UTF-8 by U+FFFD.) FromProto validates everything,
// since a message may be from any sender: enum values, signs, sizes, finite
// numbers, required fields. Names must be printable and texts for people are
// escaped, so no control characters of a sender reach a log, a terminal or an
// error. Its error is InvalidArgument and names the field: "Hello:
// spec.timeouts.lease: -5 s is negative". The meaning of a value, such as a
// mesh with a repeated axis, is validated by its own module.
//
// Threads: pure functions.

#ifndef LOCKSTEP_PROTO_CODEC_H_
#define LOCKSTEP_PROTO_CODEC_H_

#include <string>
#include <vector>

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
#include "protocol/limit_use.h"
#include "protocol/protocol.h"
#include "protocol/record.h"
#include "protocol/snapshot.h"

namespace lockstep::proto {

// The header of a message without a protocol struct.
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
v1::LimitUse ToProto(const LimitUse& use);
v1::JobCommand ToProto(JobCommand command);
v1::Plan ToProto(const plan::Plan& plan);
v1::Record ToProto(const record::Record& record);
v1::DurableJob ToProto(const record::DurableJob& job);

absl::StatusOr<Header> FromProto(const v1::Header& header);
// From a Hello of another protocol version only version and worker are decoded:
// its other fields may have another meaning.
absl::StatusOr<protocol::ToCoordinator> FromProto(
    const v1::ToCoordinator& message);
absl::StatusOr<protocol::ToWorker> FromProto(const v1::ToWorker& message);
absl::StatusOr<protocol::Evidence> FromProto(const v1::Evidence& evidence);
absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& spec);
absl::StatusOr<JobView> FromProto(const v1::JobView& view);
absl::StatusOr<JobSummary> FromProto(const v1::JobSummary& summary);
absl::StatusOr<LimitUse> FromProto(const v1::LimitUse& use);
absl::StatusOr<JobCommand> FromProto(v1::JobCommand command);
absl::StatusOr<plan::Plan> FromProto(const v1::Plan& plan);
absl::StatusOr<record::Record> FromProto(const v1::Record& record);
absl::StatusOr<record::DurableJob> FromProto(const v1::DurableJob& job);

// Strings of requests without a protocol struct. A name that is not printable
// is refused; a text is escaped. The error names `field`.
absl::StatusOr<std::string> NameFromProto(const char* field,
                                          const std::string& name);
absl::StatusOr<std::string> TextFromProto(const char* field,
                                          const std::string& text);

// --- The bytes of a journal's record -----------------------------------------

std::string RecordBytes(const record::Record& record);
absl::StatusOr<record::Record> ParseRecord(absl::string_view bytes);

// A header, then one part for each job. FailedPrecondition: of a newer version.
inline constexpr uint32_t kSnapshotVersion = 1;
std::vector<std::string> SnapshotParts(const record::StateSnapshot& snapshot);
absl::StatusOr<record::StateSnapshot> ParseSnapshot(
    const std::vector<std::string>& parts);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_CODEC_H_
