// The states of a pending group, the same for all host transports.
//
//   open ──Connect──▶ connecting ──▶ closed: a communicator, or an error
//     └─ a Connect with wrong handles leaves it open
//   Abort: while open, a later Connect returns its cause; while connecting,
//          Interrupt ends that; once closed, no effect
//
// Threads: Connect from one, Abort from any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_PENDING_GROUP_BASE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_PENDING_GROUP_BASE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

class PendingGroupBase : public PendingGroup {
 public:
  const std::string& handle() const final { return handle_; }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles, absl::Duration timeout) final;
  void Abort(std::string_view cause) final;

 protected:
  PendingGroupBase(const GroupSpec& group, std::string handle)
      : group_(group), handle_(std::move(handle)) {}

  const GroupSpec& group() const { return group_; }

  // Blocks until connected to all members. `handles` are by rank, with this
  // rank's own.
  virtual absl::Status ConnectAll(const std::vector<std::string>& handles,
                                  const Deadline& deadline) = 0;
  // Makes a current or later ConnectAll return soon. Called only between the
  // constructor and Finish or Discard.
  virtual void Interrupt() = 0;
  // One of these is called once, after ConnectAll.
  virtual std::unique_ptr<Communicator> Finish() = 0;
  virtual void Discard() = 0;

 private:
  absl::Status Open();
  // No Interrupt is called after this. Returns the cause of an Abort.
  absl::Status Close();

  const GroupSpec group_;
  const std::string handle_;
  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_PENDING_GROUP_BASE_H_
