// The RPCs of operators.

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/scripted_worker.h"

namespace lockstep::rpc {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Request>
Request About(const std::string& job, const std::string& token = "") {
  Request request;
  *request.mutable_header() = ToProto(proto::Header{.job = {job}});
  request.set_token(token);
  return request;
}

class AdminTest : public testing::Test {
 protected:
  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::Admin::Stub::*method)(
                        grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext call;
    SetDeadline(&call);
    return ToAbsl((admin_.get()->*method)(&call, request, response));
  }
  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::Admin::Stub::*method)(
                        grpc::ClientContext*, const Request&, Response*),
                    const Request& request) {
    Response response;
    return Call(method, request, &response);
  }

  absl::Status Create(const JobSpec& spec, const std::string& token = "") {
    auto request = About<v1::CreateJobRequest>(spec.name, token);
    *request.mutable_spec() = proto::ToProto(spec);
    return Call(&v1::Admin::Stub::CreateJob, request);
  }
  absl::StatusOr<JobView> Describe(const std::string& job,
                                   const std::string& token = "") {
    v1::DescribeJobResponse response;
    const absl::Status status =
        Call(&v1::Admin::Stub::DescribeJob,
             About<v1::DescribeJobRequest>(job, token), &response);
    if (!status.ok()) return status;
    EXPECT_EQ(response.header().job(), job);
    EXPECT_EQ(response.header().leader_term(), 1u);
    return proto::FromProto(response.view());
  }
  std::vector<std::string> List(const std::string& token = "") {
    v1::ListJobsResponse response;
    EXPECT_TRUE(Call(&v1::Admin::Stub::ListJobs,
                     About<v1::ListJobsRequest>("", token), &response)
                    .ok());
    std::vector<std::string> names;
    for (const v1::JobSummary& job : response.jobs()) {
      names.push_back(job.name());
    }
    return names;
  }
  absl::Status Stop(const std::string& job) {
    auto request = About<v1::StopJobRequest>(job);
    request.set_reason("enough");
    return Call(&v1::Admin::Stub::StopJob, request);
  }

  InProcessDaemon daemon_;
  const std::shared_ptr<grpc::Channel> channel_ = ChannelTo(daemon_.address());
  const std::unique_ptr<v1::Admin::Stub> admin_ = v1::Admin::NewStub(channel_);
};

TEST_F(AdminTest, AJobIsCreatedListedDescribedAndStopped) {
  const JobSpec spec = SpecOf("digits", 2);
  ASSERT_TRUE(Create(spec).ok());
  EXPECT_TRUE(Create(spec).ok()) << "the same again is harmless";
  EXPECT_EQ(Create(SpecOf("digits", 3)).code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(List(), ElementsAre("digits"));
  auto view = Describe("digits");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(view->spec == spec);
  EXPECT_EQ(view->missing, 2);
  ASSERT_TRUE(Stop("digits").ok());
  EXPECT_EQ(Stop("digits").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Describe("digits")->state, JobState::kStopped);
}

TEST_F(AdminTest, AReasonCannotDrawOnAnOperatorsTerminal) {
  ASSERT_TRUE(Create(SpecOf("digits", 2)).ok());
  auto request = About<v1::StopJobRequest>("digits");
  request.set_reason("\x1b[2Jbye\u202e\n");
  ASSERT_TRUE(Call(&v1::Admin::Stub::StopJob, request).ok());
  EXPECT_THAT(Describe("digits")->cause.message,
              HasSubstr("\\x1b[2Jbye\\u202e\\n"));
  const absl::Status unknown = Describe("\x1b[2J").status();
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("\\x1b[2J"));
}

TEST_F(AdminTest, OnlyARunningJobTakesCommands) {
  auto request = About<v1::CommandJobRequest>("digits");
  request.set_command(v1::JOB_COMMAND_REBUILD);
  EXPECT_EQ(Call(&v1::Admin::Stub::CommandJob, request).code(),
            StatusCode::kNotFound);
  ASSERT_TRUE(Create(SpecOf("digits", 2)).ok());
  const absl::Status forming = Call(&v1::Admin::Stub::CommandJob, request);
  EXPECT_EQ(forming.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(forming.message()),
              testing::AllOf(HasSubstr("forming"), HasSubstr("rebuild")));
  request.set_command(v1::JOB_COMMAND_UNSPECIFIED);
  EXPECT_EQ(Call(&v1::Admin::Stub::CommandJob, request).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(AdminTest, ASpecOutOfItsDomainIsRefused) {
  JobSpec spec = SpecOf("digits", 2);
  spec.buckets.bytes_max = 0;
  const absl::Status status = Create(spec);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes_max"));

  auto request = About<v1::CreateJobRequest>("digits");  // without a spec
  EXPECT_EQ(Call(&v1::Admin::Stub::CreateJob, request).code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(List(), testing::IsEmpty());
}

TEST_F(AdminTest, AnUnknownJobIsNotFound) {
  EXPECT_EQ(Describe("nowhere").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Stop("nowhere").code(), StatusCode::kNotFound);
}

TEST_F(AdminTest, AJobsTokenIsWanted) {
  ASSERT_TRUE(Create(SpecOf("mine", 1), "secret").ok());
  EXPECT_THAT(List(), testing::IsEmpty());
  EXPECT_THAT(List("secret"), ElementsAre("mine"));
  EXPECT_EQ(Describe("mine").status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(Describe("mine", "secret").ok());
}

TEST_F(AdminTest, EvidenceOfADeathEndsTheEpoch) {
  std::vector<std::unique_ptr<StreamLine>> lines;
  std::vector<ScriptedWorker> workers;
  for (const char* name : {"worker-0", "worker-1"}) {
    lines.push_back(std::make_unique<StreamLine>(channel_));
    workers.emplace_back(lines.back().get(), SpecOf("digits", 2), name);
  }
  JoinAndStart(channel_, "digits", &workers);
  auto request = About<v1::ReportEvidenceRequest>("digits");
  *request.mutable_evidence() =
      proto::ToProto(protocol::Evidence{.subject = {"worker-1"},
                                        .kind = protocol::EvidenceKind::kExited,
                                        .detail = "killed by signal 9",
                                        .process = workers[1].Hello().process});
  ASSERT_TRUE(Call(&v1::Admin::Stub::ReportEvidence, request).ok());
  const auto ended = workers[0].Next<protocol::EpochEnded>();
  EXPECT_EQ(ended.cause.kind, protocol::CauseKind::kProcessDied);
  EXPECT_THAT(ended.cause.message, HasSubstr("killed by signal 9"));

  request.mutable_evidence()->set_kind(v1::EVIDENCE_KIND_UNSPECIFIED);
  EXPECT_EQ(Call(&v1::Admin::Stub::ReportEvidence, request).code(),
            StatusCode::kInvalidArgument);
}

// --- Watching ---------------------------------------------------------------

class WatchTest : public AdminTest {
 protected:
  void Watch(const std::string& job, const std::string& token = "") {
    SetDeadline(&call_);
    stream_ = admin_->WatchJob(&call_, About<v1::WatchJobRequest>(job, token));
  }
  // Reads the watch's views up to one in this state; the watch must not end
  // before.
  void AwaitState(JobState state) {
    v1::WatchJobResponse response;
    while (stream_->Read(&response)) {
      const auto view = proto::FromProto(response.view());
      ASSERT_TRUE(view.ok()) << view.status();
      EXPECT_EQ(view->parameters.size(), 0u);
      if (view->state == state) return;
    }
    FAIL() << "the watch ended: " << Finish();
  }
  absl::Status Finish() {
    v1::WatchJobResponse response;
    while (stream_->Read(&response)) {
    }
    return ToAbsl(stream_->Finish());
  }

  grpc::ClientContext call_;
  std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> stream_;
};

TEST_F(WatchTest, ShowsAJobFromFormingToItsEnd) {
  ASSERT_TRUE(Create(SpecOf("digits", 1)).ok());
  Watch("digits");
  AwaitState(JobState::kForming);
  StreamLine line(channel_);
  std::vector<ScriptedWorker> workers;
  workers.emplace_back(&line, SpecOf("digits", 1), "worker-0");
  JoinAndStart(channel_, "digits", &workers);
  AwaitState(JobState::kRunning);
  ASSERT_TRUE(Stop("digits").ok());
  AwaitState(JobState::kStopped);
  EXPECT_EQ(Finish(), absl::OkStatus());
}

TEST_F(WatchTest, AnUnknownJobEndsIt) {
  Watch("nowhere");
  EXPECT_EQ(Finish().code(), StatusCode::kNotFound);
}

TEST_F(WatchTest, EndsWhenTheDaemonGoesDown) {
  ASSERT_TRUE(Create(SpecOf("digits", 1)).ok());
  Watch("digits");
  AwaitState(JobState::kForming);
  daemon_.loop().Drain();
  EXPECT_EQ(Finish().code(), StatusCode::kUnavailable);
}

TEST_F(WatchTest, AWatchThatIsCancelledEnds) {
  ASSERT_TRUE(Create(SpecOf("digits", 1)).ok());
  Watch("digits");
  AwaitState(JobState::kForming);
  call_.TryCancel();
  EXPECT_EQ(Finish().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace lockstep::rpc
