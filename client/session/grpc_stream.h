// One bidirectional call, from its start to its status.
//
// Writes are queued here and sent one at a time. One read is always pending, so
// its failure is the first sign that the call has ended. A gRPC hold (AddHold)
// keeps the call alive while Send may still start a write; it is removed when
// that read fails, after which nothing is written.
//
// The context keeps the connection alive and is destroyed before OnClosed is
// called: if a gRPC thread released the last reference to a connection, it
// would wait for itself (a bug of the callback queue in gRPC 1.51).
//
// Threads: Send and Cancel from any thread; reactions on gRPC's threads.
// Ownership: keeps itself alive until OnDone.

#ifndef LOCKSTEP_CLIENT_SESSION_GRPC_STREAM_H_
#define LOCKSTEP_CLIENT_SESSION_GRPC_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/session/control_channel.h"
#include "lockstep/v1/session.grpc.pb.h"

namespace lockstep::session {

class GrpcStream
    : private grpc::ClientBidiReactor<v1::ToCoordinator, v1::ToWorker> {
 public:
  // Starts the call. The stub must live until OnClosed.
  static std::shared_ptr<GrpcStream> Start(v1::Coordinator::StubInterface* stub,
                                           StreamHandler* handler);

  void Send(const protocol::ToCoordinator& message);
  void Cancel();

 private:
  explicit GrpcStream(StreamHandler* handler) : handler_(handler) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void DropQueued(v1::ToCoordinator::BodyCase kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StreamHandler* const handler_;
  std::shared_ptr<GrpcStream> self_;  // until OnDone
  v1::ToWorker incoming_;
  absl::Status undecodable_;  // why this side cancelled, if it did

  Mutex mutex_;
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_) =
      std::make_unique<grpc::ClientContext>();  // until OnDone
  std::deque<v1::ToCoordinator> outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// The same code and message.
absl::Status ToAbsl(const grpc::Status& status);

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_GRPC_STREAM_H_
