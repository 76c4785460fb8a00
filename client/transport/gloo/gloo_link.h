// A Link over Gloo: a connection to every other rank, a buffer per transfer.
//
//   Listen ──handles──▶ Connect ──▶ Link
//
// Threads: as Link; a pair calls PairOwner under its lock. Lock order: the
//          timer's, a pair's, then mutex_, then a buffer's, then news_mutex_.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_LINK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_LINK_H_

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/common/link.h"
#include "client/transport/common/silence.h"
#include "client/transport/gloo/gloo_handle.h"
#include "client/transport/gloo/gloo_pair.h"
#include "client/transport/gloo/link_timer.h"

namespace lockstep::transport {

class GlooTransfer;

class GlooLink final : public Link, private PairOwner, private Ticking {
 public:
  // Listens on a socket for each other rank. Unavailable if that fails.
  static absl::StatusOr<std::unique_ptr<GlooLink>> Listen(
      std::shared_ptr<LinkTimer> timer, int rank, int size);
  ~GlooLink() override;

  GlooHandle handle() const;

  // Blocks until every rank is connected and has proven that it belongs to the
  // handles; Cancelled after Shutdown.
  absl::Status Connect(const std::vector<GlooHandle>& handles,
                       const Deadline& deadline);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view transport() const override { return "gloo"; }
  absl::StatusOr<std::unique_ptr<LinkTransfer>> Send(int peer, uint64_t tag,
                                                     const void* data,
                                                     size_t bytes) override;
  absl::StatusOr<std::unique_ptr<LinkTransfer>> Recv(int peer, uint64_t tag,
                                                     void* data,
                                                     size_t bytes) override;
  void OnProgress(std::function<void()> news) override;
  void Shutdown(int because) override;

 private:
  friend class GlooTransfer;
  GlooLink(std::shared_ptr<LinkTimer> timer, int rank, int size,
           std::string secret);

  absl::StatusOr<std::unique_ptr<GlooTransfer>> Post(int peer, uint64_t tag,
                                                     bool sends, void* data,
                                                     size_t bytes);
  std::vector<int> Unconnected();
  absl::Status AwaitConnections(const Deadline& deadline);
  absl::Status Handshake(const GroupKey& key, const Deadline& deadline);

  // Why transfers with `peer` cannot go on; OK if they can.
  absl::Status Trouble(int peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Explain(int peer, std::exception_ptr thrown);
  // Fails all transfers, since one of them can never complete.
  void Break(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Enter(GlooTransfer* transfer);
  void Leave(GlooTransfer* transfer);

  // Sends keepalives, and closes connections to silent peers that owe data.
  void Tick(absl::Duration elapsed) override;
  bool Owes(int peer);

  // The number of changes that a waiter may wait for.
  uint64_t changes();
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Connected(int peer) override;
  void Closed(int peer, const absl::Status& why) override;
  void OnPairProgress() override;

  const int rank_;
  const int size_;
  const std::string secret_;  // of the handle
  const std::shared_ptr<LinkTimer> timer_;
  std::shared_ptr<GlooContext> context_;
  Silence silence_;  // used by Gloo's loop only

  Mutex mutex_;
  CondVar changed_;
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  // All ranks have connected. Before, a peer may be late, up to Connect's
  // deadline.
  bool met_ ABSL_GUARDED_BY(mutex_) = false;
  // A peer may close when it owes nothing. The first closed peer is reported,
  // since the others may have closed because of it.
  std::vector<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);  // by rank
  absl::Status first_closed_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<GlooTransfer*> transfers_ ABSL_GUARDED_BY(mutex_);

  Mutex news_mutex_;  // taken last
  std::function<void()> news_ ABSL_GUARDED_BY(news_mutex_);
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_LINK_H_
