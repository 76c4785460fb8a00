// Tracks the current stream, and when and where to open the next one.
//
//          TakeDue          Welcomed
//   none ──────────▶ opening ───────▶ welcomed
//     ▲  after backoff  │                │
//     └─────────────────┴──── Lost ──────┘
//
// Addresses are tried in turn; the one that welcomed the session last is tried
// first, since cut connections are more frequent than moved coordinators, and
// for a second at most, if there are others. A stream that is not welcomed
// within the welcome timeout counts as lost: its coordinator may be stopped,
// and another may lead.
//
// Threads: none. Callers pass the time.

#ifndef LOCKSTEP_CLIENT_SESSION_RECONNECTOR_H_
#define LOCKSTEP_CLIENT_SESSION_RECONNECTOR_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "client/session/backoff.h"
#include "client/session/event.h"

namespace lockstep::session {

class Reconnector {
 public:
  Reconnector(int addresses, const Backoff& backoff, absl::Duration timeout)
      : addresses_(addresses), timeout_(timeout), backoff_(backoff) {}

  // The stream to open now, if one is due; it becomes the current one.
  std::optional<OpenStream> TakeDue(absl::Time now);

  // Messages of other streams are outdated.
  bool IsCurrent(uint64_t stream) const { return stream == current_; }

  // The current stream, or 0.
  uint64_t current() const { return current_; }

  void Welcomed();
  // The next stream opens after the backoff, and after `pause` at least.
  void Lost(absl::Time now, absl::Duration pause);

  // Opens no further stream.
  void Stop();

  // The current stream has missed its welcome timeout.
  bool TimedOut(absl::Time now) const;

  // The first time at which TakeDue or TimedOut could succeed.
  absl::Time NextWake() const;

 private:
  const int addresses_;
  const absl::Duration timeout_;
  Backoff backoff_;
  uint64_t last_ = 0;     // the newest stream ever opened
  uint64_t current_ = 0;  // 0: none
  int address_ = 0;       // of the current stream, or to try next
  bool welcomed_ = false;
  bool welcomed_before_ = false;  // by address_, on the stream before
  absl::Time connect_at_ = absl::InfinitePast();
  absl::Time welcome_by_ = absl::InfiniteFuture();
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_RECONNECTOR_H_
