#include "client/transport/gloo/gloo_link.h"

#include <gloo/common/error.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

// Message 0 of every connection; no operation uses its tag.
constexpr absl::string_view kGreetingRole = "greet";
constexpr uint64_t kGreetingTag = 0;

absl::Status Unreached(const std::vector<int>& ranks) {
  const absl::Status late = absl::DeadlineExceededError(
      absl::StrCat("no connection with rank ", absl::StrJoin(ranks, ", ")));
  return ranks.size() == 1 ? WithFailedPeer(late, ranks[0]) : late;
}

}  // namespace

// One of Gloo's buffers and its single operation.
//
// Gloo's own waits are not used: after an abort they do not report that the
// bytes were moved, and a timeout breaks all connections.
class GlooTransfer final : public LinkTransfer,
                           private gloo::transport::tcp::UnboundBuffer {
 public:
  GlooTransfer(GlooLink* link, int peer, bool sends, void* data, size_t bytes)
      : UnboundBuffer(link->context_, data, bytes),
        link_(link),
        peer_(peer),
        sends_(sends) {}

  // The base's destructor then waits until Gloo's thread no longer uses the
  // memory.
  ~GlooTransfer() override { link_->Leave(this); }

  absl::Status Post(uint64_t tag) {
    if (absl::Status entered = link_->Enter(this); !entered.ok()) {
      return entered;
    }
    try {
      sends_ ? send(peer_, tag, 0, size) : recv(peer_, tag, 0, size);
    } catch (...) {
      return link_->Explain(peer_, std::current_exception());
    }
    return absl::OkStatus();
  }

  absl::Status Wait() override {
    return WaitUntil(Deadline(absl::InfiniteDuration()));
  }

  absl::Status WaitUntil(const Deadline& deadline) {
    std::unique_lock<std::mutex> lock(m_);
    std::condition_variable& changed = sends_ ? sendCv_ : recvCv_;
    const auto over = [this] {
      return moved() || interrupted_ || ex_ != nullptr;
    };
    while (!over() && !deadline.Passed()) {
      const auto turn = std::min(deadline.Left(), absl::Hours(1));
      changed.wait_for(lock, absl::ToChronoNanoseconds(turn));
    }
    if (moved()) return absl::OkStatus();
    if (!over()) {
      return absl::DeadlineExceededError(
          absl::StrCat("nothing from rank ", peer_));
    }
    const std::exception_ptr thrown = ex_;
    lock.unlock();
    return link_->Explain(peer_, thrown);
  }

  int peer() const { return peer_; }

  bool Moved() {
    std::lock_guard<std::mutex> lock(m_);
    return moved();
  }

  bool Done() override {
    std::lock_guard<std::mutex> lock(m_);
    return moved() || interrupted_ || ex_ != nullptr;
  }

  // Makes current and later calls of Wait return, whether or not bytes moved.
  void Interrupt() {
    std::lock_guard<std::mutex> lock(m_);
    interrupted_ = true;
    sendCv_.notify_all();
    recvCv_.notify_all();
  }

 private:
  bool moved() const { return sendCompletions_ + recvCompletions_ > 0; }

  GlooLink* const link_;
  const int peer_;
  const bool sends_;
  bool interrupted_ = false;  // under m_
};

GlooLink::GlooLink(std::shared_ptr<LinkTimer> timer, int rank, int size,
                   std::string secret)
    : rank_(rank),
      size_(size),
      secret_(std::move(secret)),
      timer_(std::move(timer)),
      context_(std::make_shared<GlooContext>(timer_->device(), rank, size,
                                             static_cast<PairOwner*>(this))),
      silence_(size, timer_->silence()),
      closed_(size) {}

absl::StatusOr<std::unique_ptr<GlooLink>> GlooLink::Listen(
    std::shared_ptr<LinkTimer> timer, int rank, int size) {
  absl::StatusOr<std::string> secret = DrawGlooSecret();
  if (!secret.ok()) return std::move(secret).status();
  std::unique_ptr<GlooLink> link(
      new GlooLink(std::move(timer), rank, size, *std::move(secret)));
  try {
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) link->context_->createPair(peer);
    }
  } catch (const std::exception& error) {
    const absl::Status why = StatusOfGloo(std::current_exception(), rank);
    if (absl::IsResourceExhausted(why)) return why;
    return absl::UnavailableError(
        absl::StrCat("cannot listen for peers: ", error.what()));
  }
  link->timer_->Add(link.get());
  return link;
}

GlooHandle GlooLink::handle() const {
  GlooHandle handle{.rank = rank_, .address = "127.0.0.1", .secret = secret_};
  handle.ports.resize(size_);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const sockaddr_storage listener = context_->pair(peer)->listener();
    handle.address = NumericHost(AsSockaddr(listener));
    handle.ports[peer] = Port(listener);
  }
  return handle;
}

absl::Status GlooLink::Connect(const std::vector<GlooHandle>& handles,
                               const Deadline& deadline) {
  const GroupKey key = KeyOf(handles);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    absl::StatusOr<sockaddr_storage> address =
        ListenerFor(handles[peer], rank_);
    if (!address.ok()) return std::move(address).status();
    try {
      context_->pair(peer)->Connect(*address, key);
    } catch (...) {
      return StatusOfGloo(std::current_exception(), peer);
    }
  }
  absl::Status met = AwaitConnections(deadline);
  if (met.ok()) met = Handshake(key, deadline);
  if (!met.ok()) return met;
  MutexLock lock(&mutex_);
  met_ = true;
  return absl::OkStatus();
}

std::vector<int> GlooLink::Unconnected() {
  std::vector<int> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    GlooPair* const pair = context_->pair(peer);
    if (pair == nullptr || !pair->connected()) ranks.push_back(peer);
  }
  return ranks;
}

absl::Status GlooLink::AwaitConnections(const Deadline& deadline) {
  for (;;) {
    const uint64_t seen = changes();
    const std::vector<int> missing = Unconnected();
    MutexLock lock(&mutex_);
    for (int peer : missing) {
      if (absl::Status trouble = Trouble(peer); !trouble.ok()) return trouble;
    }
    if (missing.empty()) return absl::OkStatus();
    if (deadline.Passed()) return Unreached(missing);
    if (changes_ == seen) changed_.WaitFor(&mutex_, deadline.Left());
  }
}

absl::Status GlooLink::Handshake(const GroupKey& key,
                                 const Deadline& deadline) {
  std::vector<LinkProof> said(size_);
  std::vector<LinkProof> heard(size_);
  std::vector<std::unique_ptr<GlooTransfer>> transfers;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    said[peer] = ProofOf(key, kGreetingRole, rank_, peer);
    for (bool sends : {false, true}) {
      absl::StatusOr<std::unique_ptr<GlooTransfer>> posted =
          Post(peer, kGreetingTag, sends, sends ? &said[peer] : &heard[peer],
               sizeof(LinkProof));
      if (!posted.ok()) return std::move(posted).status();
      transfers.push_back(*std::move(posted));
    }
  }
  for (const auto& transfer : transfers) {
    absl::Status done = transfer->WaitUntil(deadline);
    if (absl::IsDeadlineExceeded(done)) return Unreached({transfer->peer()});
    if (!done.ok()) return done;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ &&
        !Equal(heard[peer], ProofOf(key, kGreetingRole, peer, rank_))) {
      return WithFailedPeer(absl::UnavailableError(
                                absl::StrCat("who connected as rank ", peer,
                                             " does not belong to this group")),
                            peer);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<GlooTransfer>> GlooLink::Post(
    int peer, uint64_t tag, bool sends, void* data, size_t bytes) {
  auto transfer =
      std::make_unique<GlooTransfer>(this, peer, sends, data, bytes);
  if (absl::Status posted = transfer->Post(tag); !posted.ok()) return posted;
  return transfer;
}

absl::StatusOr<std::unique_ptr<LinkTransfer>> GlooLink::Send(int peer,
                                                             uint64_t tag,
                                                             const void* data,
                                                             size_t bytes) {
  return Post(peer, tag, /*sends=*/true, const_cast<void*>(data), bytes);
}

absl::StatusOr<std::unique_ptr<LinkTransfer>> GlooLink::Recv(int peer,
                                                             uint64_t tag,
                                                             void* data,
                                                             size_t bytes) {
  return Post(peer, tag, /*sends=*/false, data, bytes);
}

void GlooLink::Shutdown(int because) {
  {
    MutexLock lock(&mutex_);
    cut_ = true;
    for (GlooTransfer* transfer : transfers_) transfer->Interrupt();
    Changed();
  }
  OnPairProgress();
  for (int peer = 0; peer < size_; ++peer) {
    GlooPair* const pair = context_->pair(peer);
    if (pair != nullptr) pair->Shutdown(because);
  }
}

// Gloo's thread closes all connections at once. The pairs' destructors would
// each take one turn of its loop, 10 ms.
GlooLink::~GlooLink() {
  timer_->Remove(this);
  Shutdown(rank_);
  const Deadline deadline(absl::Milliseconds(200));
  for (;;) {
    const uint64_t seen = changes();
    const bool closed = Unconnected().size() == static_cast<size_t>(size_ - 1);
    if (closed || deadline.Passed()) break;
    MutexLock lock(&mutex_);
    if (changes_ == seen) changed_.WaitFor(&mutex_, deadline.Left());
  }
  context_.reset();
}

// --- Silence ----------------------------------------------------------------

void GlooLink::Tick(absl::Duration elapsed) {
  for (int peer = 0; peer < size_; ++peer) {
    GlooPair* const pair = context_->pair(peer);
    if (pair == nullptr) continue;
    const std::optional<bool> heard = pair->Beat();
    if (!heard) continue;
    silence_.Tick(peer, elapsed, *heard, Owes(peer));
    if (silence_.IsSilent(peer)) pair->CloseSilent(silence_.quiet(peer));
  }
}

bool GlooLink::Owes(int peer) {
  MutexLock lock(&mutex_);
  return met_ && std::any_of(transfers_.begin(), transfers_.end(),
                             [peer](GlooTransfer* transfer) {
                               return transfer->peer() == peer &&
                                      !transfer->Moved();
                             });
}

// --- Failures ---------------------------------------------------------------

absl::Status GlooLink::Trouble(int peer) const {
  if (cut_) return absl::CancelledError("the link was cut");
  if (!broken_.ok()) return broken_;
  return closed_[peer].ok() ? absl::OkStatus() : first_closed_;
}

absl::Status GlooLink::Enter(GlooTransfer* transfer) {
  MutexLock lock(&mutex_);
  absl::Status trouble = Trouble(transfer->peer());
  if (trouble.ok()) transfers_.insert(transfer);
  return trouble;
}

void GlooLink::Leave(GlooTransfer* transfer) {
  MutexLock lock(&mutex_);
  transfers_.erase(transfer);
}

// The pair has more information than the buffer, such as the peer's farewell.
absl::Status GlooLink::Explain(int peer, std::exception_ptr thrown) {
  GlooPair* const pair = context_->pair(peer);
  if (thrown != nullptr && pair != nullptr) pair->AwaitClosed();
  MutexLock lock(&mutex_);
  if (thrown != nullptr && Trouble(peer).ok()) {
    Break(StatusOfGloo(thrown, peer));
  }
  return Trouble(peer);
}

// A loss of data replaces an earlier error: other ranks react to it by closing
// connections, so it is the cause.
void GlooLink::Break(const absl::Status& why) {
  const bool lost = absl::IsDataLoss(why);
  if (broken_.ok() || (lost && !absl::IsDataLoss(broken_))) {
    broken_ = lost || first_closed_.ok() ? why : first_closed_;
  }
  for (GlooTransfer* transfer : transfers_) transfer->Interrupt();
  OnPairProgress();
}

uint64_t GlooLink::changes() {
  MutexLock lock(&mutex_);
  return changes_;
}

void GlooLink::Changed() {
  ++changes_;
  changed_.NotifyAll();
}

void GlooLink::OnProgress(std::function<void()> news) {
  MutexLock lock(&news_mutex_);
  news_ = std::move(news);
}

void GlooLink::OnPairProgress() {
  MutexLock lock(&news_mutex_);
  if (news_) news_();
}

void GlooLink::Connected(int) {
  MutexLock lock(&mutex_);
  Changed();
}

void GlooLink::Closed(int peer, const absl::Status& why) {
  MutexLock lock(&mutex_);
  closed_[peer] = why;
  if (first_closed_.ok()) first_closed_ = why;
  bool waited_for = false;
  for (GlooTransfer* transfer : transfers_) {
    waited_for |= transfer->peer() == peer && !transfer->Moved();
  }
  if (waited_for) Break(why);
  Changed();
}

}  // namespace lockstep::transport
