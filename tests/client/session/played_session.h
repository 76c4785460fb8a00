// A session whose coordinator a test scripts.

#ifndef LOCKSTEP_TESTS_CLIENT_SESSION_PLAYED_SESSION_H_
#define LOCKSTEP_TESTS_CLIENT_SESSION_PLAYED_SESSION_H_

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/session/session_impl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/digest.h"
#include "tests/support/fake_control.h"
#include "tests/support/manual_clock.h"

namespace lockstep::session {

// For sessions that fail before they connect a transport.
class NoTransport : public transport::Transport {
 public:
  std::string_view name() const override { return "none"; }
  TransportFacts facts() const override {
    return {.place = "rack 7", .pairs_in_mixed_places = true};
  }
  absl::StatusOr<std::unique_ptr<transport::PendingGroup>> Prepare(
      const transport::GroupSpec&) override {
    return absl::UnimplementedError("there is no transport here");
  }
};

template <typename Call>
auto Async(Call call) {
  return std::async(std::launch::async, std::move(call));
}

// Rank 0, "a", of a job of one.
class PlayedSession : public testing::Test {
 protected:
  static JobSpec Spec() { return {.name = "job", .mesh = {{{"data", 1}}}}; }

  static std::vector<Parameter> Parameters() {
    return {{.name = "w", .shape = {4, 2}}, {.name = "b", .shape = {4}}};
  }

  static plan::Plan PlanOf(const std::vector<Parameter>& parameters) {
    return *plan::Compile({.mesh = Spec().mesh, .registrations = {parameters}});
  }

  Session::Impl::Parts Parts() {
    return {.channels = MakeFakeChannels(&server_),
            .make_transport = [](const JobSpec&)
                -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
              return std::make_unique<NoTransport>();
            },
            .clock = clock_,
            .process = {"host-a", 11, "boot"},
            .process_watch = std::move(process_watch_),
            .incarnation = 7};
  }

  auto JoinAsync(JoinOptions options = {}) {
    if (options.addresses.empty()) options.addresses = {"host:1"};
    options.job = "job";
    options.worker = "a";
    return Async(
        [this, options] { return Session::Impl::Join(options, Parts()); });
  }

  void Post(protocol::ToWorkerBody body) {
    stream_->Post({{"job"}, {1}, {1}, std::move(body)});
  }
  void EndEpoch(const std::string& message) {
    Post(protocol::EpochEnded{
        {protocol::CauseKind::kProcessDied, {{"z"}}, message}});
  }

  // Answers the next Hello.
  void Welcome(bool resumed = false) {
    stream_ = server_.Next<protocol::Hello>().first;
    Post(protocol::Welcome{{1}, Spec(), resumed});
  }

  // Joins, and forms the epoch.
  void Join() {
    auto joining = JoinAsync();
    Welcome();
    Post(protocol::EpochFormed{0, {{{"a"}, {1}, {"host-a", 11, "boot"}}}});
    auto session = joining.get();
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  void AnswerLeave() {
    server_.Next<protocol::Leave>();
    Post(protocol::Left{});
  }

  // Ends the session without waiting for the coordinator.
  void TearDown() override {
    if (session_ == nullptr) return;
    Post(protocol::EpochEnded{{}, /*final=*/true});
    session_.reset();
  }

  // Advances the clock until the call has returned.
  template <typename Result>
  Result PassTimeUntil(std::future<Result> call, ManualClock& clock) {
    while (call.wait_for(std::chrono::milliseconds(1)) !=
           std::future_status::ready) {
      clock.Advance(absl::Milliseconds(100));
    }
    return call.get();
  }

  std::unique_ptr<transport::ProcessWatch> process_watch_;  // of the session
  PlayedServer server_;
  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::shared_ptr<FakeStream> stream_;
  std::unique_ptr<Session> session_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_CLIENT_SESSION_PLAYED_SESSION_H_
