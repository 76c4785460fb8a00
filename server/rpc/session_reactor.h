// One worker's stream: decodes messages, posts them to the loop, and writes the
// loop's messages.
//
// Streams carry plain bytes up to here: gRPC's own decoding does not
// distinguish malformed bytes from a closed stream.
//
// Reads one message at a time: the next is read when the loop has applied the
// last, so that a flooding worker only fills its own stream. Writes one message
// at a time from an outbox, bounded by number and bytes (limits.h), and encodes
// it just before.
//
//   open ──Close──▶ closing ──outbox written──▶ finished ──▶ OnDone
//     ╰── the stream broke ──────────────────────▲
//
// Threads:   On... on gRPC's threads, the rest on the loop.
// Ownership: owns itself until OnDone; the loop shares it until Closed.

#ifndef LOCKSTEP_SERVER_RPC_SESSION_REACTOR_H_
#define LOCKSTEP_SERVER_RPC_SESSION_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "lockstep/v1/session.pb.h"
#include "protocol/protocol.h"
#include "server/core/event.h"
#include "server/rpc/call_bytes.h"
#include "server/rpc/service_context.h"
#include "server/runtime/coordinator_loop.h"

namespace lockstep::rpc {

class SessionReactor final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public runtime::SessionStream {
 public:
  // Begins to read. The reactor deletes itself.
  static SessionReactor* Start(const ServiceContext* context,
                               grpc::CallbackServerContext* call);

  // --- SessionStream ---
  bool Send(const protocol::ToWorker& message) override;
  void Close(const absl::Status& status) override;
  void Abandon() override;
  void Applied() override;

 private:
  SessionReactor(const ServiceContext* context,
                 grpc::CallbackServerContext* call)
      : context_(context),
        counted_(context->calls),
        bytes_(context->limits, *call),
        call_(call) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

  // Decodes the bytes and checks whether the message is admitted.
  absl::StatusOr<protocol::ToCoordinator> Judge();
  void RefuseAndClose(const absl::Status& status);

  void DropOutbox() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the next outgoing operation: a write, the finish, or nothing.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ServiceContext* const context_;
  OpenCalls::CountedCall counted_;  // until OnDone
  CallBytes bytes_;
  grpc::CallbackServerContext* const call_;
  std::shared_ptr<SessionReactor> self_;  // until OnDone
  core::SessionId session_;
  JobName job_;           // of the message last read
  grpc::ByteBuffer in_;   // of the one read
  grpc::ByteBuffer out_;  // of the one write
  // Why the stream ended; used by the reading side only.
  std::string why_ = "it was closed";

  // Locked whenever a gRPC operation is started, so that none follows the last
  // one; gRPC calls back on other threads only.
  Mutex mutex_;
  std::deque<protocol::ToWorker> outbox_ ABSL_GUARDED_BY(mutex_);
  int64_t outbox_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // about
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // start no operation
  bool done_ ABSL_GUARDED_BY(mutex_) = false;      // the call is destroyed
  // If set, further sends are dropped, and the stream ends with this status
  // once the outbox is written.
  std::optional<absl::Status> last_word_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_SESSION_REACTOR_H_
