// Bytes of each message on the wire, of records and of snapshots: FromProto
// refuses them in printable words, or returns a value that survives another
// round trip.
//
//   | type | bytes |

#include <iterator>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text/utf8.h"
#include "google/protobuf/stubs/logging.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "tests/fuzz/fuzz_input.h"

namespace lockstep::fuzz {
namespace {

template <typename Wire>
void Judge(const std::string& bytes) {
  Wire wire;
  if (!wire.ParseFromString(bytes)) return;
  const auto word = proto::FromProto(wire);
  if (!word.ok()) {
    return Require(IsPrintableUtf8(word.status().message()),
                   "an error is printable");
  }
  const auto again = proto::FromProto(proto::ToProto(*word));
  Require(again.ok() && *again == *word, "a value survives a round trip");
}

void JudgeSpec(const std::string& bytes) {
  Judge<v1::JobSpec>(bytes);
  v1::JobSpec wire;
  if (!wire.ParseFromString(bytes)) return;
  const auto spec = proto::FromProto(wire);
  if (!spec.ok()) return;
  const absl::Status valid = Validate(*spec);
  Require(IsPrintableUtf8(valid.message()), "an error is printable");
}

void JudgeRecord(const std::string& bytes) {
  const auto record = proto::ParseRecord(bytes);
  if (!record.ok()) return;
  const auto again = proto::ParseRecord(proto::RecordBytes(*record));
  Require(again.ok() && *again == *record, "a record survives a round trip");
}

// Parts, each behind a byte with its length in units of 8.
void JudgeSnapshot(const std::string& bytes) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = size_t{static_cast<uint8_t>(bytes[at])} * 8;
    parts.push_back(bytes.substr(at + 1, size));
    at += 1 + size;
  }
  const auto snapshot = proto::ParseSnapshot(parts);
  if (!snapshot.ok()) return;
  const auto again = proto::ParseSnapshot(proto::SnapshotParts(*snapshot));
  Require(again.ok() && *again == *snapshot,
          "a snapshot survives a round trip");
}

void JudgeChunk(const std::string& bytes) {
  v1::PlanChunk chunk;
  if (!chunk.ParseFromString(bytes)) return;
  proto::PlanAssembler assembler;
  if (assembler.Add(chunk).ok() && assembler.Add(chunk).ok()) {
    assembler.Finish().IgnoreError();
  }
}

constexpr void (*kTypes[])(const std::string&) = {
    &Judge<v1::ToCoordinator>,
    &Judge<v1::ToWorker>,
    &Judge<v1::Record>,
    &Judge<v1::Evidence>,
    &JudgeSpec,
    &Judge<v1::DurableJob>,
    &Judge<v1::JobView>,
    &Judge<v1::JobSummary>,
    &Judge<v1::LimitUse>,
    &Judge<v1::Header>,
    &JudgeRecord,
    &JudgeSnapshot,
    &JudgeChunk,
};

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  static const auto quiet = google::protobuf::SetLogHandler(nullptr);
  (void)quiet;
  FuzzInput input(data, size);
  const int type = input.Below(static_cast<int>(std::size(kTypes)));
  kTypes[type](input.Rest());
  return 0;
}
