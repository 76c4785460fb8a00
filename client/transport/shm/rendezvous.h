// How the members of a group on one host meet: over a Unix socket each gives
// the others its seat and its process.
//
//   rank 1                                  rank 0 (listens since Prepare)
//     │── connect ─────────────────────────▶│
//     │── Hello: group, token, [seat, pid] ─▶│  same user, knows the token
//     │◀─ Hello: group, token, [seat, pid] ──│
//     │── writes a number into 0's seat      │
//     │── Probe ───────────────────────────▶│  finds it in its own memory
//     │◀─ the same, the other way ───────────│
//
// The token is the handle's, which the coordinator gave to members only. That
// both run on one host is not believed but proven: equal boot ids and network
// namespaces, and the number that was written through shared memory.
//
// Threads: Meet on one, Abort from any.
// Errors:  Unavailable (a peer is on another host, or gone, or somebody else
//          answers for it), DataLoss (a seat of another layout), both blaming
//          it; DeadlineExceeded (who did not come); Cancelled after Abort;
//          ResourceExhausted (no memory for the seat).

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

// A member, as another sees it. Of the rank itself: its seat only.
struct Peer {
  Segment memory;
  ControlBlock seat;
  FileDescriptor socket;
  FileDescriptor process;  // readable once it has ended
};

// How many cores they may run on, together: one each, if they are pinned.
int CoresOf(const std::vector<Peer>& peers);

class Rendezvous {
 public:
  // This rank's seat, and a socket to be met at.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Open(
      int rank, const ControlBlock::Shape& shape);

  // The socket alone, at a place that other processes may believe or not; then,
  // when it is known who is to be met, the seat.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Listen(
      const Endpoint& where);
  absl::Status AllocateControlBlock(int rank, const ControlBlock::Shape& shape);

  const ShmHandle& handle() const { return handle_; }

  // Blocks until all have met; by rank. Once.
  absl::StatusOr<std::vector<Peer>> ConnectAll(
      const std::vector<std::string>& texts, const Deadline& deadline);
  void Abort();

  // Instead of Meet, or after it failed: those who wait for this rank at its
  // place among `texts` need not.
  void Decline(const std::vector<std::string>& texts, int rank);

 private:
  struct Hello;
  // How far this rank and another have come.
  enum class Stage { kExpected, kDialed, kGreeted, kMet };

  Rendezvous() = default;

  void InitializeControlBlock(uint64_t group);
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
  std::vector<FileDescriptor> unidentified_;  // who has not said who it is
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_RENDEZVOUS_H_
