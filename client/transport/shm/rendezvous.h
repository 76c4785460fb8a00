// Connects the members of a group on one host: over a Unix socket each sends
// the others its control block (a memfd) and a pidfd of its process.
//
//   rank 1                                    rank 0 (listens since Prepare)
//     │── connect ─────────────────────────────▶│
//     │── Hello: group, token, [memfd, pidfd] ─▶│  same user, knows the token
//     │◀─ Hello: group, token, [memfd, pidfd] ──│
//     │── writes a number to 0's control block  │
//     │── Probe ───────────────────────────────▶│  finds it in its own memory
//     │◀─ the same in the other direction ──────│
//
// The token is part of the handle, which the coordinator sends to members only.
// Two ranks prove that they run on one host: by equal boot ids and network
// namespaces, and by the number written through shared memory.
//
// Threads: ConnectAll on one, Abort from any.
// Errors:  Unavailable (a peer is on another host, or gone, or a process that
//          is no member answers for it), PermissionDenied (a process of another
//          user does), DataLoss (a control block of another
//          layout), both with the failed peer; DeadlineExceeded (names the
//          missing ranks); Cancelled after Abort; ResourceExhausted (no memory
//          for the control block).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_RENDEZVOUS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_RENDEZVOUS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "client/transport/shm/control_block.h"
#include "client/transport/shm/segment.h"
#include "client/transport/shm/shm_handle.h"

namespace lockstep::transport {

// A connected member. The entry of the own rank has no socket and no process.
struct Peer {
  Segment memory;
  ControlBlock control_block;
  FileDescriptor socket;
  FileDescriptor process;  // a pidfd, readable once the process has ended
};

// The size of the union of the peers' CPU affinity masks, at least 1.
int CoresOf(const std::vector<Peer>& peers);

class Rendezvous {
 public:
  // Creates this rank's control block and a listening socket.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Open(
      int rank, const ControlBlock::Shape& shape);

  // The same in two steps, if the members are not known yet: the socket, then
  // the control block. `where`: the endpoint that the handle announces; a peer
  // with another endpoint refuses it.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Listen(
      const Endpoint& where);
  absl::Status AllocateControlBlock(int rank, const ControlBlock::Shape& shape);

  const ShmHandle& handle() const { return handle_; }

  // Blocks until all members are connected; returns them by rank. Called once.
  absl::StatusOr<std::vector<Peer>> ConnectAll(
      const std::vector<std::string>& texts, const Deadline& deadline);
  void Abort();

  // Called instead of ConnectAll, or after it failed: ends the wait of the
  // peers for this rank, which has index `rank` in `texts`.
  void Decline(const std::vector<std::string>& texts, int rank);

 private:
  struct Hello;
  // The progress of the connection with one peer.
  enum class Stage { kExpected, kDialed, kGreeted, kMet };

  Rendezvous() = default;

  void InitializeControlBlock(uint64_t group);
  absl::Status CheckHost(int peer) const;
  absl::Status DialOthers();
  absl::Status Dial(int peer);
  absl::Status WaitForNews(const Deadline& deadline);
  absl::Status AcceptConnections();
  absl::Status ReadUnidentified();
  absl::Status ReadFrom(int peer);
  absl::Status ReadHello(int peer, std::vector<FileDescriptor> files);
  absl::Status SendHello(int peer);
  absl::Status Probe(int peer);
  bool IsMine(const Hello& hello) const;
  absl::Status Missing() const;
  bool AllMet() const;

  ShmHandle handle_;
  ControlBlock::Shape shape_;
  FileDescriptor listener_;
  FileDescriptor aborted_;  // readable after Abort
  uint64_t group_ = 0;
  std::vector<ShmHandle> handles_;
  std::vector<Peer> peers_;
  std::vector<Stage> stages_;
  RankMask to_dial_ = 0;                      // peers
  std::vector<FileDescriptor> unidentified_;  // accepted, before their Hello
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_RENDEZVOUS_H_
