// The session's way to a coordinator: a seam with gRPC behind it, or a test.
//
// A ControlChannel speaks to one coordinator address. Each Open makes one
// bidirectional stream; handlers are called on a thread of the channel, one at
// a time for a stream: OnOpened at most once, then OnMessage..., and OnClosed
// exactly once, last, also for a stream that was cancelled or never opened.
//
// Threads: all methods from any thread; Send never blocks and keeps order.
// Ownership: the handler must live until OnClosed was called.

#ifndef LOCKSTEP_CLIENT_SESSION_CONTROL_CHANNEL_H_
#define LOCKSTEP_CLIENT_SESSION_CONTROL_CHANNEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plan/ir.h"
#include "plan/words/protocol.h"

namespace lockstep::session {

class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  virtual void OnOpened() = 0;
  virtual void OnMessage(protocol::ToWorker message) = 0;
  virtual void OnClosed(absl::Status status) = 0;
};

class ControlStream {
 public:
  virtual ~ControlStream() = default;
  virtual void Send(const protocol::ToCoordinator& message) = 0;
  // Ends the stream; OnClosed follows.
  virtual void Cancel() = 0;
};

class ControlChannel {
 public:
  virtual ~ControlChannel() = default;

  virtual std::unique_ptr<ControlStream> Open(StreamHandler* handler) = 0;

  // Blocks. NotFound if the coordinator has no such plan (any more),
  // Unavailable if it cannot be reached before `deadline`.
  virtual absl::StatusOr<plan::Plan> FetchPlan(const JobName& job,
                                               const std::string& digest,
                                               const std::string& token,
                                               absl::Time deadline) = 0;
};

// Makes channels: where credentials and keep-alive settings are decided.
class ChannelFactory {
 public:
  virtual ~ChannelFactory() = default;
  // `address` is HOST:PORT. InvalidArgument if it is not.
  virtual absl::StatusOr<std::unique_ptr<ControlChannel>> Make(
      const std::string& address) = 0;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_CONTROL_CHANNEL_H_
