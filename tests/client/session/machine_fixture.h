// A machine whose user and coordinator are a test, with effects as text.

#ifndef LOCKSTEP_TESTS_CLIENT_SESSION_MACHINE_FIXTURE_H_
#define LOCKSTEP_TESTS_CLIENT_SESSION_MACHINE_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>

#include "client/session/machine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/session/describe.h"

namespace lockstep::session {

inline constexpr absl::Duration kLease = absl::Seconds(2);

inline absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

// Rank 1, "b", of a job of two.
class MachineTest : public testing::Test {
 protected:
  explicit MachineTest(int addresses = 1) : addresses_(addresses) { Restart(); }

  // Replaces the machine, as a new process of the worker would.
  void Restart() {
    MachineOptions options{.job = {"job"}, .worker = {"b"}, .incarnation = 7};
    for (int i = 0; i < addresses_; ++i) {
      options.addresses.push_back("host:" + std::to_string(i));
    }
    machine_ = std::make_unique<Machine>(options);
  }

  std::string Step(double seconds, const Event& event) {
    return Describe(machine_->Step(At(seconds), event));
  }

  // Sends `body` from the coordinator on `stream`.
  std::string Receive(double seconds, uint64_t stream,
                      protocol::ToWorkerBody body, uint64_t epoch = 1,
                      uint64_t term = 1) {
    return Step(
        seconds,
        StreamMessage{stream, {{"job"}, {epoch}, {term}, std::move(body)}});
  }
  std::string HearEnd(double seconds, uint64_t stream, protocol::CauseKind kind,
                      const std::string& message, bool final = false,
                      uint64_t epoch = 1) {
    return Receive(seconds, stream,
                   protocol::EpochEnded{{kind, {{"a"}}, message}, final},
                   epoch);
  }

  // Breaks the stream; returns the effects when the next one opens, 0.5 s
  // later.
  std::string Reconnect(double seconds, uint64_t old_stream) {
    Step(seconds, StreamClosed{old_stream, absl::UnavailableError("cut")});
    Step(seconds + 0.5, DeadlineExpired{});
    return Step(seconds + 0.5, StreamOpened{old_stream + 1});
  }
  // As Reconnect, followed by a Welcome; returns the effects of that.
  std::string Resume(double seconds, uint64_t old_stream) {
    Reconnect(seconds, old_stream);
    return Receive(seconds + 0.5, old_stream + 1,
                   protocol::Welcome{{3}, Spec(), true});
  }

  // Advance to a phase of the session, all at second 0, on stream 1.
  void Welcomed() {
    Step(0, Begin{});
    Step(0, StreamOpened{1});
    Receive(0, 1, protocol::Welcome{{3}, Spec()}, 0);
  }
  void Formed() {
    Welcomed();
    Receive(0, 1, protocol::EpochFormed{1, Members()});
  }
  void Planned() {
    Formed();
    Step(0, RegisterAll{{{.index = 0}, {.index = 1, .last = true}}});
    Receive(0, 1, protocol::PlanReady{{1}, "abc"});
    Step(0, AcceptPlan{{1}, "abc"});
    Step(0, OfferHandles{{{0, "mine"}}});
  }
  void Running() {
    Planned();
    Receive(0, 1, protocol::GroupHandles{0, {"a", "mine"}});
    Step(0, DataPlaneConnected{});
    Receive(0, 1, protocol::Start{});
  }

  static JobSpec Spec() {
    JobSpec spec{.name = "job", .mesh = {{{"data", 2}}}};
    spec.timeouts.lease = kLease;
    return spec;
  }

  static SharedList<protocol::Member> Members() {
    return {{{"a"}, {2}, {"host-a", 11, "boot", 1}},
            {{"b"}, {3}, {"host-b", 12, "boot", 2}}};
  }

  static Moved MovedTo(uint64_t step) {
    return {{.position = {step, protocol::Phase::kCompute}}};
  }

  const View& view() { return machine_->view(); }

  const int addresses_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_CLIENT_SESSION_MACHINE_FIXTURE_H_
