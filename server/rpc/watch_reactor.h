// One WatchJob call: writes the newest view, one at a time.
//
// A slow reader receives fewer views, never outdated ones.
//
// Threads:   On... on gRPC's threads, the rest on the loop.
// Ownership: owns itself until OnDone; the loop shares it until End or Unwatch.

#ifndef LOCKSTEP_SERVER_RPC_WATCH_REACTOR_H_
#define LOCKSTEP_SERVER_RPC_WATCH_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "lockstep/v1/admin.pb.h"
#include "server/rpc/service_context.h"
#include "server/runtime/watches.h"

namespace lockstep::rpc {

class WatchReactor final
    : public grpc::ServerWriteReactor<v1::WatchJobResponse>,
      public runtime::Watcher {
 public:
  static WatchReactor* Start(const ServiceContext* context, JobName job,
                             std::string token);

  // --- Watcher ---
  void Show(const JobView& view) override;
  void End(const absl::Status& status) override;

 private:
  explicit WatchReactor(const ServiceContext* context)
      : context_(context), counted_(context->calls) {}

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ServiceContext* const context_;
  OpenCalls::CountedCall counted_;      // until OnDone
  std::shared_ptr<WatchReactor> self_;  // until OnDone
  uint64_t watch_ = 0;
  v1::WatchJobResponse out_;  // of the one write

  Mutex mutex_;
  std::optional<JobView> next_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> last_word_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_WATCH_REACTOR_H_
