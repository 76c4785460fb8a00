// A timer on Gloo's loop, one for all links of a source: at each tick a link
// sends keepalives where nothing else was sent, and notices who is silent.
// Gloo's thread does it, so that a trainer that computes is never silent.
//
// Threads: Add and Remove from any; ticks on "ls-gloo". Order of locks: mutex_,
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
  // `elapsed` since the tick before, of the monotonic clock.
  virtual void Tick(absl::Duration elapsed) = 0;
};

class LinkTimer final : private gloo::transport::tcp::Handler {
 public:
  // Ticks fit the bound (silence.h). ResourceExhausted if no file is left.
  static absl::StatusOr<std::shared_ptr<LinkTimer>> Start(
      std::shared_ptr<gloo::transport::tcp::Device> device,
      absl::Duration silence);
  ~LinkTimer() override;

  const std::shared_ptr<gloo::transport::tcp::Device>& device() const {
    return device_;
  }
  // Silence of so long, where something is owed, ends a connection.
  absl::Duration silence() const { return silence_; }

  void Add(Ticking* link);
  // When it returns, the link is not ticking and will not.
  void Remove(Ticking* link);

 private:
  using Clock = std::chrono::steady_clock;

  LinkTimer(std::shared_ptr<gloo::transport::tcp::Device> device,
            absl::Duration silence, FileDescriptor timer);
  void handleEvents(int events) override;

  const std::shared_ptr<gloo::transport::tcp::Device> device_;
  const absl::Duration silence_;
  const FileDescriptor timer_;
  Clock::time_point last_;  // the loop's own
  Mutex mutex_;
  absl::flat_hash_set<Ticking*> links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_LINK_TIMER_H_
