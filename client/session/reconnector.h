// Which stream is the current one, and when and where to open the next.
//
//          TakeDue          Welcomed
//   none ──────────▶ opening ───────▶ welcomed
//     ▲  after backoff  │                │
//     └─────────────────┴──── Lost ──────┘
//
// Addresses are tried in turn; one that welcomed us is tried again first, for a
// cut connection is more often than a moved coordinator. A stream that is not
// welcomed within its patience counts as lost: its coordinator may be stopped,
// and another may lead.
//
// Threads: none; told the time.

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
  Reconnector(int addresses, const Backoff& backoff, absl::Duration patience)
      : addresses_(addresses), patience_(patience), backoff_(backoff) {}

  // The stream to open, if now is the moment; it becomes the current one.
  std::optional<OpenStream> TakeDue(absl::Time now);

  // Messages of any other stream are of the past.
  bool IsCurrent(uint64_t stream) const { return stream == current_; }

  // The current stream, or 0.
  uint64_t current() const { return current_; }

  void Welcomed();
  void Lost(absl::Time now);

  // No stream again.
  void Stop();

  // True if the current stream should have been welcomed by now.
  bool OutOfPatience(absl::Time now) const;

  // The first moment at which TakeDue or OutOfPatience could say yes.
  absl::Time NextWake() const;

 private:
  const int addresses_;
  const absl::Duration patience_;
  Backoff backoff_;
  uint64_t last_ = 0;     // the newest stream ever opened
  uint64_t current_ = 0;  // 0: none
  int address_ = 0;       // of the current stream, or to try next
  bool welcomed_ = false;
  absl::Time dial_at_ = absl::InfinitePast();
  absl::Time welcome_by_ = absl::InfiniteFuture();
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_RECONNECTOR_H_
