// Whole jobs of four ranks in one process: the real coordinator core, the
// in-process transport.

#ifndef LOCKSTEP_TESTS_CLIENT_SESSION_INPROC_JOB_FIXTURE_H_
#define LOCKSTEP_TESTS_CLIENT_SESSION_INPROC_JOB_FIXTURE_H_

#include <atomic>
#include <barrier>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "tests/client/session/job_fixture.h"
#include "tests/support/fake_control_core.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::session {

class InprocJobFixture : public JobFixture {
 protected:
  InprocJobFixture() { spec_.transport = "shm"; }
  ~InprocJobFixture() override { sessions_.clear(); }

  Joined Join(const JoinOptions& options) override {
    return Session::Impl::Join(
        options,
        {.channels = MakeFakeChannels(&server_),
         .make_transport = [this](const JobSpec&) { return MakeTransport(); },
         .clock = clock_,
         .process = {"host", 1, "boot", 1},
         .incarnation = ++incarnations_});
  }

  // Called by each joining worker.
  virtual absl::StatusOr<std::unique_ptr<transport::Transport>>
  MakeTransport() {
    return transport::MakeInprocTransport(&hub_);
  }

  // Calls body(session) for all ranks at the same time.
  void ForAll(const std::function<void(Session&)>& body) {
    std::vector<std::future<void>> ranks;
    for (auto& session : sessions_) {
      ranks.push_back(std::async(std::launch::async,
                                 [&session, &body] { body(*session); }));
    }
    for (auto& rank : ranks) rank.get();
  }

  // Returns once all ranks are connected: no test ends the epoch before.
  void Connect(Session& session) {
    ASSERT_TRUE(session.Connect().ok()) << session.status();
    connected_.arrive_and_wait();
  }

  std::barrier<> connected_{kWorld};
  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::atomic<uint64_t> incarnations_ = 0;
  CoreServer server_{clock_.get()};
  transport::InprocHub hub_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_CLIENT_SESSION_INPROC_JOB_FIXTURE_H_
