// The session's connection to a coordinator: an interface implemented by gRPC
// and by tests.
//
// A ControlChannel connects to one coordinator address. Each Open starts one
// bidirectional stream. Handlers are called on a thread of the channel, one at
// a time for a stream: OnOpened at most once, then OnMessage..., and OnClosed
// exactly once, last, also for a stream that was cancelled or never opened. A
// callback may run before Open has returned.
//
// Threads: all methods from any thread, none blocks; Send keeps order.
// Ownership: the handler must live until OnClosed was called; it may be
//          destroyed inside that call. The stream may be destroyed from then
//          on. The channel must outlive its streams.
// Errors:  the status of OnClosed; Unavailable for a coordinator that cannot be
//          reached or went away.
//          reached or went away.

#ifndef LOCKSTEP_CLIENT_SESSION_CONTROL_CHANNEL_H_
#define LOCKSTEP_CLIENT_SESSION_CONTROL_CHANNEL_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plan/ir.h"
#include "protocol/protocol.h"

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
  // Ends the stream; OnClosed follows. Also allowed after OnClosed.
  virtual void Cancel() = 0;
};

struct PlanRequest {
  JobName job;
  std::string digest;
  std::string token;
};

// A plan, and its bytes as they were received.
struct FetchedPlan {
  plan::Plan plan;
  std::shared_ptr<const std::string> bytes;
};

class ControlChannel {
 public:
  using PlanCallback = std::function<void(absl::StatusOr<FetchedPlan>)>;

  // Cancels fetches and returns after their callbacks.
  virtual ~ControlChannel() = default;

  virtual std::unique_ptr<ControlStream> Open(StreamHandler* handler) = 0;

  // Calls `done` exactly once, on any thread: with the plan, NotFound if the
  // coordinator has no such plan (any more), Unavailable or DeadlineExceeded if
  // it did not answer within `timeout`, DataLoss if it cannot be decoded.
  virtual void FetchPlan(const PlanRequest& request, absl::Duration timeout,
                         PlanCallback done) = 0;
};

// Makes channels; chooses credentials and keep-alive settings.
class ChannelFactory {
 public:
  virtual ~ChannelFactory() = default;
  // `address` is HOST:PORT; any other form is InvalidArgument.
  virtual absl::StatusOr<std::unique_ptr<ControlChannel>> Make(
      const std::string& address) = 0;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_CONTROL_CHANNEL_H_
