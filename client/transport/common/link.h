// What a host transport supplies: bytes to and from the other ranks of one
// group. Every operation of a Communicator is built on this
// (host_communicator.h).
//
//   rank 0  Send(1, tag 7) ──┐          posted: returns at once
//   rank 1  Recv(0, tag 7) ──┴─▶ bytes  done: both sides' Wait returns
//
// A send meets the receive with the same tag between the same two ranks; a tag
// is used once per sender, receiver and link. A send may be done only with its
// receive (rendezvous). Posted transfers progress by themselves: nobody needs
// to wait for them.
//
// Threads: Post and Wait from any thread, Cut too.
// Errors:  Unavailable (the connection to a peer broke, or it left, with a
//          transfer open: then no other transfer is waited for either),
//          DeadlineExceeded (a peer with a transfer open is silent: silence.h)
//          and DataLoss (a peer sent another number of bytes than the receive
//          expects; nothing beyond the buffer is written), all with the peer
//          (blame.h), or with the rank because of which the peer left;
//          Cancelled after Cut. After any of them the link is of no more use:
//          cut it, so that the peers notice too.

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

// Bytes on their way. Destroying it withdraws it: afterwards the link touches
// its memory no more. A transfer withdrawn before it is done spoils the link.
class Transfer {
 public:
  virtual ~Transfer() = default;

  // Blocks until done, broken or cut. Called at most once.
  virtual absl::Status Wait() = 0;

  // Whether Wait would return at once. From the thread that waits.
  virtual bool Done() = 0;
};

class Link {
 public:
  virtual ~Link() = default;  // all transfers are gone by then

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view transport() const = 0;

  virtual absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, uint64_t tag,
                                                         const void* data,
                                                         size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Transfer>> Recv(int peer, uint64_t tag,
                                                         void* data,
                                                         size_t bytes) = 0;

  // For who asks Done and sleeps in between: from now on `news` is called after
  // a transfer may have become done, in place of what was given before. It may
  // come from any thread, with the link's locks held: it must not call the
  // link. Empty: nobody is told.
  virtual void OnProgress(std::function<void()> news) = 0;

  // Wakes every waiter, refuses later transfers, and leaves the group: what
  // peers still expect from this rank is Unavailable to them. `because`: the
  // rank that has failed, for the peers to know, or this one. Does not wait for
  // anything; again is harmless.
  virtual void Cut(int because) = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_LINK_H_
