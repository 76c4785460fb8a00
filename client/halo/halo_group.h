// The ranks that exchange halos over the same axes, as one of them sees them:
// their communicator, the streams of their exchanges, and the device.
//
// Threads:   one at a time; Call finds out if there are more.
// Ownership: calls in flight do not own it, since they may run on its streams,
//            whose destruction waits for them.

#ifndef LOCKSTEP_CLIENT_HALO_HALO_GROUP_H_
#define LOCKSTEP_CLIENT_HALO_HALO_GROUP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/collectives/axis_group_impl.h"
#include "client/executor/lane_traffic.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "lockstep/stream.h"

namespace lockstep::halo {

class HaloGroup {
 public:
  using Allocate = std::function<absl::StatusOr<ArenaBuffer>(size_t bytes)>;

  // `members`: connected; null for one rank alone. `context`: of the memory
  // that `allocate` gives, which peers may read. `traffic` may be null.
  HaloGroup(std::shared_ptr<AxisGroup::Impl> members,
            std::shared_ptr<transport::DeviceContext> context,
            Allocate allocate,
            std::shared_ptr<executor::LaneTraffic> traffic = nullptr)
      : members_(std::move(members)),
        context_(std::move(context)),
        allocate_(std::move(allocate)),
        traffic_(std::move(traffic)) {}

  // A call of one thread, from its checks until it is enqueued.
  class Call {
   public:
    explicit Call(HaloGroup& group)
        : group_(group), is_only_(!group.in_call_.exchange(true)) {}
    ~Call() {
      if (is_only_) group_.in_call_.store(false);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // False: another thread is in a call, which this one must not disturb.
    bool is_only() const { return is_only_; }

   private:
    HaloGroup& group_;
    const bool is_only_;
  };

  // Null for one rank alone.
  AxisGroup::Impl* members() const { return members_.get(); }
  const std::shared_ptr<transport::DeviceContext>& context() const {
    return context_;
  }
  bool on_device() const { return context_->NeedsOneOrder(); }
  absl::StatusOr<ArenaBuffer> AllocateBuffer(size_t bytes) const {
    return allocate_(bytes);
  }

  // Counts bytes that were enqueued.
  void Count(uint64_t bytes) const {
    if (traffic_ != nullptr) traffic_->Add(plan::LaneKind::kHalo, bytes);
  }

  // The stream of exchanges that the caller does not wait for at once.
  absl::StatusOr<Stream*> OwnStream();
  // Host memory: runs on the calling thread.
  HostStream& InlineStream();

  // The next exchange is enqueued on `stream`, and runs behind the one before,
  // which may be on another stream.
  void BeginOn(Stream& stream);
  // It is complete once `done` is.
  void End(const Event& done) { newest_ = done; }
  // Runs everything that was enqueued on the own stream.
  void Drain() {
    if (own_ != nullptr) own_->Synchronize().IgnoreError();
  }

 private:
  std::atomic<bool> in_call_{false};
  const std::shared_ptr<AxisGroup::Impl> members_;
  const std::shared_ptr<transport::DeviceContext> context_;
  const Allocate allocate_;
  const std::shared_ptr<executor::LaneTraffic> traffic_;  // or null
  std::unique_ptr<Stream> own_;
  std::unique_ptr<HostStream> inline_;
  const Stream* last_ = nullptr;  // of the newest exchange; only compared
  Event newest_;
};

}  // namespace lockstep::halo

#endif  // LOCKSTEP_CLIENT_HALO_HALO_GROUP_H_
