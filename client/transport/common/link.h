// The point-to-point interface of a host transport: sends and receives bytes
// between the ranks of one group. The link executor builds a Communicator's
// operations on it (cpu_communicator.h).
//
//   rank 0  Send(1, tag 7) ──┐          posted: returns at once
//   rank 1  Recv(0, tag 7) ──┴─▶ bytes  done: both sides' Wait returns
//
// A send matches the receive with the same tag between the same two ranks; a
// tag is used once per sender, receiver and link. A send may be done only with
// its receive (rendezvous). Posted transfers progress without a waiter.
//
// Threads: all methods from any thread.
// Errors:  Unavailable (a peer with an open transfer has left, or the
//          connection to it is broken: then all waits end), DeadlineExceeded (a
//          peer with an open transfer is silent: silence.h) and DataLoss (a
//          peer sent another number of bytes than the receive expects; nothing
//          beyond the buffer is written). All have the failed peer
//          (failed_peer.h): this peer, or the rank that caused it to leave.
//          Cancelled after Shutdown. After any error the link is unusable:
//          Shutdown, so that the peers notice too.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_LINK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_LINK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::transport {

// A posted send or receive. Destroying it withdraws it: the link no longer
// accesses its memory. Withdrawing it before it is done makes the link
// unusable.
class LinkTransfer {
 public:
  virtual ~LinkTransfer() = default;

  // Blocks until done, broken or cut. Called at most once.
  virtual absl::Status Wait() = 0;

  // Whether Wait would return at once. Called from the thread that waits.
  virtual bool Done() = 0;
};

class Link {
 public:
  virtual ~Link() = default;  // all transfers are destroyed before

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view transport() const = 0;

  virtual absl::StatusOr<std::unique_ptr<LinkTransfer>> Send(int peer,
                                                             uint64_t tag,
                                                             const void* data,
                                                             size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<LinkTransfer>> Recv(int peer,
                                                             uint64_t tag,
                                                             void* data,
                                                             size_t bytes) = 0;

  // Sets the callback for a caller that polls Done and sleeps in between. The
  // link calls `news` when a transfer may have become done, from any thread,
  // with locks held: it must not call the link. Empty: no callback.
  virtual void OnProgress(std::function<void()> news) = 0;

  // Wakes every waiter, refuses later transfers, and leaves the group: peers
  // that still wait for this rank get Unavailable. `because`: the failed rank,
  // for the peers' errors, or this one. Does not block. Idempotent.
  virtual void Shutdown(int because) = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_LINK_H_
