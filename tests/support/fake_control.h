// Coordinators for the session's tests, behind its channel seam and without a
// network.
//
//   session ─▶ ControlChannel ─▶ FakeServer   implemented by:
//                                 ├─ PlayedServer  the test scripts it
//                                 └─ CoreServer    the real core
//                                                  (fake_control_core.h)
//
// Threads: sessions call servers on their loop threads; FakeStream's methods
//          may be called from any thread.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_CONTROL_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_CONTROL_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/mutex.h"
#include "client/session/control_channel.h"

namespace lockstep::session {

// The coordinator's end of a stream. Messages sent after its end are dropped.
class FakeStream {
 public:
  FakeStream(std::string address, StreamHandler* handler)
      : address_(std::move(address)), handler_(handler) {}

  const std::string& address() const { return address_; }

  void Post(protocol::ToWorker message);
  // Ends the stream, as a coordinator or a broken network does. Returns false
  // if it had already ended.
  bool Close(const absl::Status& status);

 private:
  friend class FakeChannel;
  void SayOpened();

  const std::string address_;
  Mutex mutex_;
  StreamHandler* handler_ ABSL_GUARDED_BY(mutex_);  // null once closed
};

class FakeServer {
 public:
  virtual ~FakeServer() = default;
  // OK, or the error that ends a stream to this address at once.
  virtual absl::Status Accept(const std::string& address) = 0;
  virtual void Opened(std::shared_ptr<FakeStream> stream) = 0;
  virtual void Received(const std::shared_ptr<FakeStream>& stream,
                        const protocol::ToCoordinator& message) = 0;
  // The worker cancelled the stream.
  virtual void Cancelled(const std::shared_ptr<FakeStream>& stream) = 0;
  virtual absl::StatusOr<plan::Plan> Fetch(const PlanRequest& request) = 0;
};

// Channels to `server`, which must outlive the sessions. Accepts any address
// but "malformed".
std::unique_ptr<ChannelFactory> MakeFakeChannels(FakeServer* server);

// A server that a test scripts: messages of workers wait in a queue.
class PlayedServer : public FakeServer {
 public:
  struct Said {
    std::shared_ptr<FakeStream> stream;
    protocol::ToCoordinator message;
  };

  // The next message of any worker. Blocks until there is one; aborts the test
  // program after a minute without one.
  Said Next();

  // The next message with this body. Skips heartbeats and progress; any other
  // message before it is a failure.
  template <typename Body>
  std::pair<std::shared_ptr<FakeStream>, Body> Next() {
    for (;;) {
      Said said = Next();
      if (auto* body = std::get_if<Body>(&said.message.body)) {
        return {said.stream, std::move(*body)};
      }
      Check(IsPulse(said.message), "a worker said something else");
    }
  }

  // Refuses later streams with this status.
  void SetAccept(const absl::Status& status);
  void SetPlan(const absl::StatusOr<plan::Plan>& plan);
  int fetches();

  absl::Status Accept(const std::string& address) override;
  void Opened(std::shared_ptr<FakeStream>) override {}
  void Received(const std::shared_ptr<FakeStream>& stream,
                const protocol::ToCoordinator& message) override;
  void Cancelled(const std::shared_ptr<FakeStream>&) override {}
  absl::StatusOr<plan::Plan> Fetch(const PlanRequest& request) override;

 private:
  static bool IsPulse(const protocol::ToCoordinator& message);

  Mutex mutex_;
  CondVar changed_;
  std::deque<Said> said_ ABSL_GUARDED_BY(mutex_);
  absl::Status accept_ ABSL_GUARDED_BY(mutex_);
  absl::StatusOr<plan::Plan> plan_ ABSL_GUARDED_BY(mutex_) =
      absl::NotFoundError("no plan yet");
  int fetches_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_CONTROL_H_
