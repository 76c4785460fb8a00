// Gloo's connection to one peer, with these additions:
//
//   - it notifies its owner when it is closed, with the reason. (Gloo wakes
//     only some waiters: not the one whose message was half moved.)
//   - it refuses a message of another size than its receive before it writes
//     any byte. (Gloo ends the process if the message is larger, and reports
//     nothing if it is smaller.)
//   - received data cannot end the process: an exception on Gloo's thread
//     closes the connection instead.
//   - connecting does not block, and closing does not need a turn of the loop.
//   - the connecting side first sends its identity (ConnectionHeader). The pair
//     drops strangers and keeps listening; Gloo accepts the first connection.
//   - an idle connection sends keepalives, and a farewell message names the
//     rank that caused the close.
//   - a limit of this process (open files) is reported as such, without a
//     failed_peer.
//
// It overrides virtual functions of Gloo, in the version that the distribution
// packages (2022-05).
//
// Threads: handleEvents and its callees run on the transport's "ls-gloo"
//          thread, the rest on the stream's. Gloo's lock of the pair, m_,
//          guards both.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_PAIR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_PAIR_H_

#include <gloo/common/error.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/transport/gloo/gloo_handle.h"

namespace lockstep::transport {

// Receives a pair's notifications. Called under the pair's lock, on any thread:
// must not call the pair.
class PairOwner {
 public:
  virtual ~PairOwner() = default;
  virtual void Connected(int peer) = 0;
  virtual void Closed(int peer, const absl::Status& why) = 0;
  // A message may have moved.
  virtual void OnPairProgress() = 0;
};

// DataLoss, Unavailable or DeadlineExceeded (silence) with `peer` as
// failed_peer for an exception of Gloo; ResourceExhausted without a failed_peer
// if this process has no file descriptor left.
absl::Status StatusOfGloo(std::exception_ptr thrown, int peer);

class GlooPair final : public gloo::transport::tcp::Pair {
 public:
  GlooPair(gloo::transport::tcp::Context* context,
           gloo::transport::tcp::Device* device, int peer, PairOwner* owner);
  ~GlooPair() override;

  // The address on which this pair listens before it is connected.
  sockaddr_storage listener() const;

  // Begins to connect to the peer's listening pair, or waits for the peer to
  // connect to this one; the owner is notified of the result. `key` is
  // that of all handles.
  void Connect(const sockaddr_storage& address, const GroupKey& key);
  bool connected();
  bool listening();

  // Ends the connection, soon, on the loop's thread. Sends the peer the rank
  // that caused it, if the socket has room for the message.
  void Shutdown(int because);

  // Returns once the owner was notified of an error that a buffer has received.
  // Gloo notifies the buffers first, and closes the pair afterwards.
  void AwaitClosed();

  // On the loop's thread: sends a keepalive if nothing was sent since the last
  // call; returns whether anything was received since then. Empty if the pair
  // is not connected, or locked by another thread.
  std::optional<bool> Beat();

  // On the loop's thread: closes the pair, since the peer was silent for
  // `quiet`.
  void CloseSilent(absl::Duration quiet);

  void handleEvents(int events) override;

 private:
  // An accepted connection that has not yet proven to be the peer's.
  struct Caller {
    int socket = -1;
    bool watched = true;  // registered with the loop
    size_t received = 0;
    ConnectionHeader header;
  };
  // Handles events of the callers' sockets, separate from the pair's own.
  class Reception final : public gloo::transport::tcp::Handler {
   public:
    explicit Reception(GlooPair* pair) : pair_(pair) {}
    void handleEvents(int) override {
      pair_->LetOthersFinish();
      pair_->Receive();
    }

   private:
    GlooPair* const pair_;
  };

  bool read() override;
  bool write(gloo::transport::tcp::Op& op) override;
  void changeState(state next) noexcept override;
  void waitUntilConnected(std::unique_lock<std::mutex>&, bool) override {}

  // Accepts callers, reads their headers, and connects to the one that is the
  // peer. False if this pair does not listen.
  bool Receive();
  void AcceptCallers();
  size_t Silent() const;
  // Reads what a caller has sent so far. False if it is a stranger.
  bool Receive(Caller* caller);
  bool IsPeers(const ConnectionHeader& header) const;
  void HearCallers();
  void Admit(size_t caller);
  void DropCaller(size_t caller);
  void DropCallers();
  // A control message: an opcode of this class, without a payload.
  static gloo::transport::tcp::Op Control(size_t opcode, size_t word);
  bool IsControl();
  void ReceiveLeave();
  // The reason of the close, as reported to the owner.
  absl::Status WhyClosed() const;

  // Sends the first bytes of a connection that this side has made.
  void SendHeader();

  void LetOthersFinish();
  bool ReadPreamble();
  void CheckMessage();
  // Closes the pair unless it is closed. Requires m_.
  void Fail(std::exception_ptr why);

  PairOwner* const owner_;
  Reception reception_{this};
  std::optional<GroupKey> key_;  // set by Connect; under m_, as the rest
  std::vector<Caller> callers_;  // the oldest first
  bool received_ = false;        // since the last Beat
  bool sent_ = false;
  std::optional<int> because_;  // the rank in the peer's farewell
};

// A Gloo context whose pairs are GlooPairs.
class GlooContext final : public gloo::transport::tcp::Context {
 public:
  GlooContext(std::shared_ptr<gloo::transport::tcp::Device> device, int rank,
              int size, PairOwner* owner)
      : Context(std::move(device), rank, size), owner_(owner) {}

  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    // Gloo listens before this class's overrides are in effect, and would
    // accept a stranger that connects in that moment.
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto pair = std::make_unique<GlooPair>(this, device_.get(), peer, owner_);
      if (!pair->listening()) continue;
      pairs_[peer] = std::move(pair);
      return pairs_[peer];
    }
    throw gloo::IoException("strangers connect to every port");
  }

  // Null for this rank itself, and for a pair whose creation failed.
  GlooPair* pair(int peer) {
    return static_cast<GlooPair*>(pairs_[peer].get());
  }

 private:
  PairOwner* const owner_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_PAIR_H_
