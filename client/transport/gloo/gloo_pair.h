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
//
// It does so by overriding Gloo's virtual functions; the library is the
// distribution's, of one version (2022-05).
//
// Threads: handleEvents and all it leads to on the transport's "ls-gloo"
// thread,
//          the rest on the stream's. Gloo's lock of the pair, m_, guards both.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_PAIR_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_PAIR_H_

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <sys/socket.h>

#include <exception>
#include <memory>
#include <mutex>

#include "absl/status/status.h"

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

// DataLoss or Unavailable, blaming `peer`, for what Gloo threw.
absl::Status StatusOfGloo(std::exception_ptr thrown, int peer);

class GlooPair final : public gloo::transport::tcp::Pair {
 public:
  GlooPair(gloo::transport::tcp::Context* context,
           gloo::transport::tcp::Device* device, int peer, PairOwner* owner);
  ~GlooPair() override;

  // Where this pair listens, before it is connected.
  sockaddr_storage listener() const;

  // Begins to connect to where the peer's pair listens; the owner hears how it
  // ends.
  void Connect(const sockaddr_storage& address);
  bool connected();

  // Ends the connection, soon, on the loop's thread.
  void Shutdown();

  void handleEvents(int events) override;

 private:
  bool read() override;
  bool write(gloo::transport::tcp::Op& op) override;
  void changeState(state next) noexcept override;
  void waitUntilConnected(std::unique_lock<std::mutex>&, bool) override {}

  void LetOthersFinish();
  bool ReadPreamble();
  void CheckMessage();
  // Closes the pair, unless it is closed. Under m_.
  void Fail(std::exception_ptr why);

  PairOwner* const owner_;
};

// A Gloo context whose pairs are these.
class GlooContext final : public gloo::transport::tcp::Context {
 public:
  GlooContext(std::shared_ptr<gloo::transport::tcp::Device> device, int rank,
              int size, PairOwner* owner)
      : Context(std::move(device), rank, size), owner_(owner) {}

  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    pairs_[peer] =
        std::make_unique<GlooPair>(this, device_.get(), peer, owner_);
    return pairs_[peer];
  }

  GlooPair& pair(int peer) { return static_cast<GlooPair&>(*pairs_[peer]); }

 private:
  PairOwner* const owner_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_PAIR_H_
