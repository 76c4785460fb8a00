// The bytes of every message, kept in tests/golden/wire/VERSION: a change to
// the wire is noticed, and each file has the text beside the bytes. Those of
// this version are compared. Those of earlier releases stay as they are, and
// are read: workers and coordinators of two releases meet during an upgrade. An
// intended change is written with
//
//   LOCKSTEP_UPDATE_GOLDEN=1 build/release/bin/proto_test
//
// and judged in the review of the files: new lines only, and no field number
// with a new meaning.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "tests/proto/samples.h"
#include "tests/support/fill.h"
#include "tests/support/paths.h"

namespace lockstep::proto {
namespace {

namespace fs = std::filesystem;

fs::path AllVersions() { return SourcePath("tests/golden/wire"); }

fs::path Folder() { return AllVersions() / LOCKSTEP_VERSION; }

struct Golden {
  std::string name;
  std::string text;
};

Golden GoldenOf(const std::string& name,
                const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  std::string text =
      absl::StrCat("# ", message.GetDescriptor()->full_name(), "\n",
                   message.Utf8DebugString(), "# ", bytes.size(), " bytes\n");
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool line_ends = i % 16 == 15 || i + 1 == bytes.size();
    absl::StrAppend(&text, absl::StrFormat("%02x", uint8_t(bytes[i])),
                    line_ends ? "\n" : " ");
  }
  return {name, text};
}

template <typename Request>
Request AdminRequest() {
  Request request;
  *request.mutable_header() = ToProto(Header{{"job-1"}, {2}, {3}});
  request.set_token("token-4");
  return request;
}

template <typename Response>
Response AdminResponse() {
  Response response;
  *response.mutable_header() = ToProto(Header{{"job-1"}, {2}, {3}});
  return response;
}

// Requests and responses without a type in protocol/.
std::vector<Golden> RequestsAndResponses() {
  fill::ExampleSource source;
  auto create = AdminRequest<v1::CreateJobRequest>();
  *create.mutable_spec() = ToProto(fill::Filled<JobSpec>(source));
  auto stop = AdminRequest<v1::StopJobRequest>();
  stop.set_reason("reason-5");
  auto command = AdminRequest<v1::CommandJobRequest>();
  command.set_command(v1::JOB_COMMAND_DRAIN);
  command.set_reason("reason-6");
  auto forget = AdminRequest<v1::DeleteJobRequest>();
  forget.set_keep(true);
  auto report = AdminRequest<v1::ReportEvidenceRequest>();
  *report.mutable_evidence() =
      ToProto(fill::Filled<protocol::Evidence>(source));
  auto list = AdminResponse<v1::ListJobsResponse>();
  *list.add_jobs() = ToProto(fill::Filled<JobSummary>(source));
  auto limits = AdminResponse<v1::ListLimitsResponse>();
  *limits.add_limits() = ToProto(fill::Filled<LimitUse>(source));
  auto describe = AdminResponse<v1::DescribeJobResponse>();
  *describe.mutable_view() = ToProto(JobView{});
  auto watch = AdminResponse<v1::WatchJobResponse>();
  *watch.mutable_view() = ToProto(JobView{});
  auto fetch = AdminRequest<v1::FetchPlanRequest>();
  fetch.set_digest("digest-5");
  const v1::PlanChunk chunk =
      PlanChunkAt({{"job-1"}, {2}, {3}}, "0123456789", 4, 3);
  return {
      GoldenOf("create_job_request", create),
      GoldenOf("create_job_response", AdminResponse<v1::CreateJobResponse>()),
      GoldenOf("list_jobs_request", AdminRequest<v1::ListJobsRequest>()),
      GoldenOf("list_jobs_response", list),
      GoldenOf("list_limits_request", AdminRequest<v1::ListLimitsRequest>()),
      GoldenOf("list_limits_response", limits),
      GoldenOf("describe_job_request", AdminRequest<v1::DescribeJobRequest>()),
      GoldenOf("describe_job_response", describe),
      GoldenOf("watch_job_request", AdminRequest<v1::WatchJobRequest>()),
      GoldenOf("watch_job_response", watch),
      GoldenOf("stop_job_request", stop),
      GoldenOf("stop_job_response", AdminResponse<v1::StopJobResponse>()),
      GoldenOf("delete_job_request", forget),
      GoldenOf("delete_job_response", AdminResponse<v1::DeleteJobResponse>()),
      GoldenOf("command_job_request", command),
      GoldenOf("command_job_response", AdminResponse<v1::CommandJobResponse>()),
      GoldenOf("report_evidence_request", report),
      GoldenOf("report_evidence_response",
               AdminResponse<v1::ReportEvidenceResponse>()),
      GoldenOf("fetch_plan_request", fetch),
      GoldenOf("plan_chunk", chunk),
  };
}

std::vector<Golden> AllGoldens() {
  std::vector<Golden> goldens;
  fill::ExampleSource source;  // anew for each, so that changes stay local
  for (const Sample& sample : WordSamples(source)) {
    goldens.push_back(GoldenOf(sample.name, *sample.wire));
  }
  for (Golden& golden : RequestsAndResponses()) {
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

std::string FileText(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A message as a release wrote it, and as this version reads it.
std::shared_ptr<google::protobuf::Message> Read(const std::string& golden) {
  const std::vector<std::string> lines = absl::StrSplit(golden, '\n');
  const auto* const type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
          std::string(absl::StripPrefix(lines.front(), "# ")));
  if (type == nullptr) return nullptr;
  std::string hex;
  bool is_text = true;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (!is_text)
      absl::StrAppend(&hex, absl::StrReplaceAll(lines[i], {{" ", ""}}));
    is_text = is_text && !absl::StartsWith(lines[i], "# ");
  }
  std::shared_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(type)
          ->New());
  return message->ParseFromString(absl::HexStringToBytes(hex)) ? message
                                                               : nullptr;
}

// Why this version does not read what a release wrote; OK if it does.
absl::Status JudgeOld(const std::string& name, const std::string& golden) {
  const auto message = Read(golden);
  if (message == nullptr) return absl::DataLossError("it does not parse");
  // Fields that are not known any more are numbers in the text.
  const std::string text =
      absl::StrCat("# ", message->GetDescriptor()->full_name(), "\n",
                   message->Utf8DebugString(), "# ");
  if (!absl::StartsWith(golden, text)) {
    return absl::DataLossError(
        absl::StrCat("it means something else:\n", text));
  }
  fill::ExampleSource source;
  for (const Sample& sample : WordSamples(source)) {
    if (sample.name == name) return sample.judge(*message);
  }
  return absl::OkStatus();
}

bool Updating() { return std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr; }

TEST(GoldenTest, TheWireHasNotChanged) {
  for (const Golden& golden : AllGoldens()) {
    const fs::path path = Folder() / (golden.name + ".txt");
    if (Updating()) fs::create_directories(Folder());
    if (Updating()) std::ofstream(path) << golden.text;
    EXPECT_EQ(FileText(path), golden.text)
        << path << ": if this change is meant, run with "
        << "LOCKSTEP_UPDATE_GOLDEN=1 and review the file";
  }
}

TEST(GoldenTest, MessagesOfEveryReleaseAreRead) {
  int read = 0;
  for (const auto& version : fs::directory_iterator(AllVersions())) {
    for (const auto& file : fs::directory_iterator(version.path())) {
      const std::string name = file.path().stem();
      const absl::Status judged = JudgeOld(name, FileText(file.path()));
      EXPECT_TRUE(judged.ok()) << file.path() << ": " << judged;
      ++read;
    }
  }
  EXPECT_GT(read, 70);
}

// The test above can tell.
TEST(GoldenTest, AFieldWithAnotherNumberIsNoticed) {
  std::string golden = FileText(Folder() / "command_job_request.txt");
  ASSERT_TRUE(JudgeOld("command_job_request", golden).ok());
  const size_t reason = golden.find("22 08 72 65");  // field 4, 8 bytes
  ASSERT_NE(reason, std::string::npos);
  golden.replace(reason, 2, "7a");  // field 15
  EXPECT_EQ(JudgeOld("command_job_request", golden).code(),
            absl::StatusCode::kDataLoss);
}

TEST(GoldenTest, NoFileIsLeftOver) {
  std::set<std::string> expected, found;
  for (const Golden& golden : AllGoldens()) {
    expected.insert(golden.name + ".txt");
  }
  for (const auto& entry : fs::directory_iterator(Folder())) {
    found.insert(entry.path().filename());
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace lockstep::proto
