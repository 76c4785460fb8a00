// Learns at once that the process of another worker on this host has ended,
// whatever this one does in the meantime, and whatever still holds the other's
// sockets open.
//
//   address()  ─▶ Hello ─▶ coordinator ─▶ EpochFormed ─▶ Watch(addresses)
//                                                          │ kExited, ...
//                                                          ▼
//                                                        OnNews
//
// Local implementation: client/transport/shm/local_process_watch.h.
//
// Threads: SetDone from any, the others from one. OnNews is called on a thread
//          of the watch, at most once a peer beside kWatched, and must not
//          destroy the watch; the destructor waits for it.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_PROCESS_WATCH_H_
#define LOCKSTEP_CLIENT_TRANSPORT_PROCESS_WATCH_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::transport {

enum class ProcessNews {
  // From now on its end will be told.
  kWatched,
  // Proof: the process has ended, and had not called SetDone.
  kExited,
  // A hint: nothing listens at its address (any more), and it could not be
  // watched. Its session, or its process, has ended.
  kSocketClosed,
  // It cannot be watched: the status says why. Its death will be seen by its
  // connections, or by its lease.
  kUnwatched,
};

class ProcessWatch {
 public:
  // `peer`: an index in `addresses`.
  using OnNews =
      std::function<void(int peer, ProcessNews news, const absl::Status& why)>;

  virtual ~ProcessWatch() = default;

  // Where the processes of other workers of this host find this one: a short
  // line of text. It is valid until the watch is destroyed.
  virtual const std::string& address() const = 0;

  // Begins to watch the processes at `addresses`, all under this kernel; those
  // in another network namespace, and empty addresses, are skipped. Called
  // once. Does not block.
  virtual void Watch(const std::vector<std::string>& addresses,
                     OnNews on_news) = 0;

  // This worker is done: the end of its process is news for nobody.
  virtual void SetDone() = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_PROCESS_WATCH_H_
