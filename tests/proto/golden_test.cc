// The bytes of every message, kept in tests/golden/wire: a change to the wire
// is noticed, and each file has the text beside the bytes. An intended change
// is written with
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

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "tests/proto/samples.h"
#include "tests/support/fill.h"
#include "tests/support/paths.h"

namespace lockstep::proto {
namespace {

namespace fs = std::filesystem;

const fs::path& Folder() {
  static const fs::path folder = SourcePath("tests/golden/wire");
  return folder;
}

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

bool Updating() { return std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr; }

TEST(GoldenTest, TheWireHasNotChanged) {
  for (const Golden& golden : AllGoldens()) {
    const fs::path path = Folder() / (golden.name + ".txt");
    if (Updating()) std::ofstream(path) << golden.text;
    EXPECT_EQ(FileText(path), golden.text)
        << path << ": if this change is meant, run with "
        << "LOCKSTEP_UPDATE_GOLDEN=1 and review the file";
  }
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
