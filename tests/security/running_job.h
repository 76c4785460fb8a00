// A job that goes on while a test attacks its coordinator.

#ifndef LOCKSTEP_TESTS_SECURITY_RUNNING_JOB_H_
#define LOCKSTEP_TESTS_SECURITY_RUNNING_JOB_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/scripted_worker.h"

namespace lockstep::rpc {

// True once `holds` returns true; false if it does not within a minute.
inline bool Eventually(const std::function<bool()>& holds) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!holds()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

// A line of `lockstepctl limits`.
inline LimitUse UseOf(const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& name) {
  const auto admin = v1::Admin::NewStub(channel);
  v1::ListLimitsResponse response;
  grpc::ClientContext call;
  SetDeadline(&call);
  EXPECT_TRUE(admin->ListLimits(&call, {}, &response).ok());
  for (const v1::LimitUse& limit : response.limits()) {
    if (limit.name() == name) return *proto::FromProto(limit);
  }
  ADD_FAILURE() << "no limit " << name;
  return {};
}

// A job of one worker that has started.
class RunningJob {
 public:
  explicit RunningJob(const InProcessDaemon& daemon)
      : channel_(ChannelTo(daemon.address())), line_(channel_) {
    std::vector<ScriptedWorker> workers;
    workers.emplace_back(&line_, SpecOf("running", 1), "worker-0");
    JoinAndStart(channel_, "running", &workers);
    worker_ = std::make_unique<ScriptedWorker>(workers[0]);
  }

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // The coordinator still hears its worker.
  void ExpectThatItGoesOn() {
    ++step_;
    worker_->Post(
        protocol::Progress{.position = {step_, protocol::Phase::kCompute}});
    EXPECT_TRUE(Eventually([&] {
      const auto admin = v1::Admin::NewStub(channel_);
      v1::DescribeJobRequest request;
      *request.mutable_header() = ToProto(proto::Header{.job = {"running"}});
      v1::DescribeJobResponse response;
      grpc::ClientContext call;
      SetDeadline(&call);
      return admin->DescribeJob(&call, request, &response).ok() &&
             response.view().state() == v1::JOB_STATE_RUNNING &&
             response.view().step() == step_;
    }));
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  StreamLine line_;
  std::unique_ptr<ScriptedWorker> worker_;
  uint64_t step_ = 0;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_TESTS_SECURITY_RUNNING_JOB_H_
