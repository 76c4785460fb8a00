// Gloo's connection to one peer, with what it lacks:
//
//   - it tells its owner when it is closed, and why. (Gloo wakes only some of
//     those who wait: not the one whose message was half moved.)
//   - a message of another size than its receive is refused before a byte of it
//     is written. (Gloo ends the process if it is larger, and says nothing if
//     it is smaller.)
//   - nothing that arrives can end the process: what Gloo throws on its own
//     thread closes the connection instead.
//   - connecting does not block, and closing does not need a turn of the loop.
//   - who connects says first who it is (ConnectionHeader). A stranger is
//     dropped and the pair listens on; Gloo takes the first that comes.
//   - an idle connection carries keepalives, and a last word says because of
//     whom it is closed.
//   - a limit of this process (open files) is told as such, and blames nobody.
//
// It does so by overriding Gloo's virtual functions; the library is the
// distribution's, of one version (2022-05).
//
// Threads: handleEvents and all it leads to on the transport's "ls-gloo"
// thread,
//          the rest on the stream's. Gloo's lock of the pair, m_, guards both.

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

// Who is told about pairs. Called under the pair's lock, on any thread: must
// not call the pair.
class PairOwner {
 public:
  virtual ~PairOwner() = default;
  virtual void Connected(int peer) = 0;
  virtual void Closed(int peer, const absl::Status& why) = 0;
  // A message may have moved.
  virtual void Stirred() = 0;
};

// DataLoss, Unavailable or DeadlineExceeded (silence), blaming `peer`, for what
// Gloo threw;
// ResourceExhausted, blaming nobody, if this process has no file left.
absl::Status StatusOfGloo(std::exception_ptr thrown, int peer);

class GlooPair final : public gloo::transport::tcp::Pair {
 public:
  GlooPair(gloo::transport::tcp::Context* context,
           gloo::transport::tcp::Device* device, int peer, PairOwner* owner);
  ~GlooPair() override;

  // Where this pair listens, before it is connected.
  sockaddr_storage listener() const;

  // Begins to connect to where the peer's pair listens, or waits for it to
  // connect here: the owner is told how it ends. `group` is GroupOf all
  // handles.
  void Connect(const sockaddr_storage& address, uint64_t group);
  bool connected();
  bool listening();

  // Ends the connection, soon, on the loop's thread. The peer is told because
  // of which rank, if there is room for a word.
  void Shutdown(int because);

  // Returns once the owner knows of an error that a buffer was told of. Gloo
  // tells the buffers first, and closes the pair afterwards.
  void AwaitClosed();

  // On the loop's thread: whether anything has come since the last call; sends
  // a keepalive if nothing was sent since. Nothing if the pair is not
  // connected, or in another thread's hands.
  std::optional<bool> Beat();

  // On the loop's thread: the peer was silent for so long.
  void CloseSilent(absl::Duration quiet);

  void handleEvents(int events) override;

 private:
  // A connection that was accepted, and has not said, or not proven yet, that
  // it is the peer's.
  struct Caller {
    int socket = -1;
    bool watched = true;  // the loop tells of what it sends
    size_t received = 0;
    ConnectionHeader header;
  };
  // Events of the callers' sockets, apart from those of the pair's own.
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

  // Accepts callers, listens to them, and is connected with the one that is the
  // peer. False if this pair does not listen.
  bool Receive();
  void AcceptCallers();
  size_t Silent() const;
  // What a caller has sent up to now. False if it is a stranger.
  bool Hear(Caller* caller);
  void HearCallers();
  void Admit(size_t caller);
  void DropCaller(size_t caller);
  void DropCallers();
  // A message of this class's own, without a payload.
  static gloo::transport::tcp::Op Control(size_t opcode, size_t word);
  bool IsControl();
  void HearFarewell();
  // Why it was closed, as the owner is told.
  absl::Status WhyClosed() const;

  // The first bytes of a connection that this side has made.
  void SendHeader();

  void LetOthersFinish();
  bool ReadPreamble();
  void CheckMessage();
  // Closes the pair, unless it is closed. Under m_.
  void Fail(std::exception_ptr why);

  PairOwner* const owner_;
  Reception reception_{this};
  std::optional<uint64_t> group_;  // from Connect on; under m_, as the rest
  std::vector<Caller> callers_;    // the oldest first
  bool received_ = false;          // since the last Beat
  bool sent_ = false;
  std::optional<int> because_;  // the peer's last word
};

// A Gloo context whose pairs are these.
class GlooContext final : public gloo::transport::tcp::Context {
 public:
  GlooContext(std::shared_ptr<gloo::transport::tcp::Device> device, int rank,
              int size, PairOwner* owner)
      : Context(std::move(device), rank, size), owner_(owner) {}

  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    // Gloo listens before its part of the pair is ours, and would take a
    // stranger that connects within that moment.
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto pair = std::make_unique<GlooPair>(this, device_.get(), peer, owner_);
      if (!pair->listening()) continue;
      pairs_[peer] = std::move(pair);
      return pairs_[peer];
    }
    throw gloo::IoException("strangers connect to every port");
  }

  // Null for this rank itself, and for a pair that could not be made.
  GlooPair* pair(int peer) {
    return static_cast<GlooPair*>(pairs_[peer].get());
  }

 private:
  PairOwner* const owner_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_PAIR_H_
