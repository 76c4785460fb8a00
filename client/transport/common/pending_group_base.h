// A pending group's life, the same for all host transports: who may connect it,
// how often, and what an abort does at each moment of it.
//
//   open ──Connect──▶ meeting ──▶ closed: a communicator, or an error
//     └─ a Connect with wrong handles leaves it open
//   Abort: before, a later Connect returns its cause; while it meets, Interrupt
//          ends that; afterwards it is the communicator's business
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

  // Blocks until all have met. `handles` are as many as there are ranks, this
  // one's own among them.
  virtual absl::Status ConnectAll(const std::vector<std::string>& handles,
                                  const Deadline& deadline) = 0;
  // Ends the Meet in progress, or to come, soon. Not before the constructor has
  // returned, not after Finish or Discard were called.
  virtual void Interrupt() = 0;
  // Once, after Meet: what came of it, or nothing.
  virtual std::unique_ptr<Communicator> Finish() = 0;
  virtual void Discard() = 0;

 private:
  absl::Status Open();
  // No Interrupt from here on. Why the group is not to be, if it was aborted.
  absl::Status Close();

  const GroupSpec group_;
  const std::string handle_;
  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_PENDING_GROUP_BASE_H_
