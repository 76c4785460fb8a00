// A timer on Gloo's loop, one for all links of a LinkFactory: at each tick a
// link sends keepalives on idle connections, and detects silent peers. It runs
// on Gloo's thread, so that a trainer that computes is never silent.
//
// Threads: Add and Remove from any; ticks on "ls-gloo". Lock order: mutex_,
//          then a link's and its pairs'.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_LINK_TIMER_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_LINK_TIMER_H_

#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"

namespace lockstep::transport {

// The receiver of ticks, on Gloo's thread.
class Ticking {
 public:
  virtual ~Ticking() = default;
  // `elapsed`: time since the previous tick, on the monotonic clock.
  virtual void Tick(absl::Duration elapsed) = 0;
};

class LinkTimer final : private gloo::transport::tcp::Handler {
 public:
  // The tick period follows from `silence` (silence.h). ResourceExhausted if no
  // file descriptor is left.
  static absl::StatusOr<std::shared_ptr<LinkTimer>> Start(
      std::shared_ptr<gloo::transport::tcp::Device> device,
      absl::Duration silence);
  ~LinkTimer() override;

  const std::shared_ptr<gloo::transport::tcp::Device>& device() const {
    return device_;
  }
  // A connection on which data is due ends after so much silence.
  absl::Duration silence() const { return silence_; }

  void Add(Ticking* link);
  // On return, no tick of the link is running and none will follow.
  void Remove(Ticking* link);

 private:
  using Clock = std::chrono::steady_clock;

  LinkTimer(std::shared_ptr<gloo::transport::tcp::Device> device,
            absl::Duration silence, FileDescriptor timer);
  void handleEvents(int events) override;

  const std::shared_ptr<gloo::transport::tcp::Device> device_;
  const absl::Duration silence_;
  const FileDescriptor timer_;
  Clock::time_point last_;  // used by Gloo's loop only
  Mutex mutex_;
  absl::flat_hash_set<Ticking*> links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_LINK_TIMER_H_
