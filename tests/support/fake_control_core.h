// A real coordinator core behind the session's channel seam: a whole job in one
// process, without gRPC, a daemon or a network.
//
//   SystemClock clock;
//   CoreServer server(&clock);
//   ... sessions with MakeFakeChannels(&server) ...
//
// Threads: one loop thread, "ls-core", owns the core. All methods may be called
//          from any other thread; those that return an answer block for it.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_CONTROL_CORE_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_CONTROL_CORE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/mutex.h"
#include "server/core/coordinator.h"
#include "tests/support/fake_control.h"

namespace lockstep::session {

class CoreServer : public FakeServer {
 public:
  explicit CoreServer(Clock* clock);
  // Destroy it after the last session.
  ~CoreServer() override;

  // Kills the coordinator: every stream breaks, and new ones are refused.
  void Crash();
  // Starts it again; it replays its journal.
  void Restart();
  // Breaks every stream at both ends.
  void CutStreams();

  // The number of open streams.
  int streams();

  // Sends a command of an operator or a launcher and waits for the reply.
  absl::Status Ask(const std::function<core::Event(core::RequestId)>& question);

  absl::StatusOr<JobView> Describe(const std::string& job);

  absl::Status Accept(const std::string& address) override;
  void Opened(std::shared_ptr<FakeStream> stream) override;
  void Received(const std::shared_ptr<FakeStream>& stream,
                const protocol::ToCoordinator& message) override;
  void Cancelled(const std::shared_ptr<FakeStream>& stream) override;
  absl::StatusOr<plan::Plan> Fetch(const PlanRequest& request) override;

 private:
  // Runs `task` on the loop and waits until it has run.
  void OnLoop(const std::function<void()>& task);
  void Start();
  void Apply(const core::Event& event);
  void Do(const core::Effect& effect);
  void BreakStreams(const absl::Status& status);
  void Gone(const std::shared_ptr<FakeStream>& stream);

  Clock* const clock_;
  Mutex mutex_;
  bool up_ ABSL_GUARDED_BY(mutex_) = true;

  // Used on the loop thread only.
  std::unique_ptr<core::Coordinator> core_;
  std::vector<record::Record> records_;
  std::map<std::shared_ptr<FakeStream>, core::SessionId> ids_;
  std::map<core::SessionId, std::shared_ptr<FakeStream>> streams_;
  std::map<core::RequestId, absl::Status> answers_;
  uint64_t last_id_ = 0;
  int incarnations_ = 0;

  Loop loop_;
  Loop::Timer wake_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_CONTROL_CORE_H_
