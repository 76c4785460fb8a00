#include "client/transport/gloo/gloo_pair.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/open_files.h"
#include "base/thread.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

using gloo::transport::tcp::Address;
using gloo::transport::tcp::Op;

// At most so many callers without a complete header are kept; then the oldest
// is dropped.
constexpr size_t kCallersMax = 64;
constexpr int kBacklog = 64;

// A peer sent another number of bytes than the receive expects.
struct WrongSize : gloo::IoException {
  WrongSize(size_t sent, size_t expected)
      : gloo::IoException("wrong size"), sent(sent), expected(expected) {}
  size_t sent;
  size_t expected;
};

struct SilentPeer : gloo::IoException {
  explicit SilentPeer(absl::Duration quiet)
      : gloo::IoException("silent"), quiet(quiet) {}
  absl::Duration quiet;
};

// Opcodes of this class; Gloo has 0 to 3.
constexpr size_t kKeepalive = 16;
constexpr size_t kFarewell = 17;  // its slot: the rank that caused the close

struct NoFileLeft : gloo::IoException {
  using gloo::IoException::IoException;
};

// Gloo reports it only by the text of errno.
bool SaysOutOfFiles(absl::string_view text) {
  return absl::StrContains(text, std::strerror(EMFILE)) ||
         absl::StrContains(text, std::strerror(ENFILE));
}

// "[/path/pair.cc:589] what happened" without the prefix.
absl::string_view WithoutPlace(absl::string_view text) {
  const size_t end = text.find("] ");
  if (text.substr(0, 1) != "[" || end == absl::string_view::npos) return text;
  return text.substr(end + 2);
}

}  // namespace

absl::Status StatusOfGloo(std::exception_ptr thrown, int peer) {
  try {
    std::rethrow_exception(thrown);
  } catch (const WrongSize& wrong) {
    return WithFailedPeer(
        absl::DataLossError(absl::StrCat("rank ", peer, " sent ", wrong.sent,
                                         " bytes where ", wrong.expected,
                                         " were expected")),
        peer);
  } catch (const SilentPeer& silent) {
    return WithFailedPeer(
        absl::DeadlineExceededError(
            absl::StrCat("rank ", peer, " is silent: nothing came from it for ",
                         absl::FormatDuration(absl::Trunc(
                             silent.quiet, absl::Milliseconds(1))))),
        peer);
  } catch (const NoFileLeft& limit) {
    return OutOfFiles(limit.what());
  } catch (const std::exception& error) {
    if (SaysOutOfFiles(error.what())) {
      return OutOfFiles(WithoutPlace(error.what()));
    }
    return WithFailedPeer(absl::UnavailableError(absl::StrCat(
                              "the connection to rank ", peer,
                              " broke: ", WithoutPlace(error.what()))),
                          peer);
  }
}

GlooPair::GlooPair(gloo::transport::tcp::Context* context,
                   gloo::transport::tcp::Device* device, int peer,
                   PairOwner* owner)
    : Pair(context, device, peer, gloo::kNoTimeout), owner_(owner) {
  std::lock_guard<std::mutex> lock(m_);
  ::listen(fd_, kBacklog);  // Gloo's backlog is 1
  // A caller may have closed before it is accepted.
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

// Not in the base's destructor: no event may reach a half-destroyed object.
GlooPair::~GlooPair() {
  std::lock_guard<std::mutex> lock(m_);
  DropCallers();
  if (state_ != CLOSED) Pair::changeState(CLOSED);
}

sockaddr_storage GlooPair::listener() const {
  return static_cast<const Address&>(address()).getSockaddr();
}

// Gloo's rule decides which side connects and which one listens.
void GlooPair::Connect(const sockaddr_storage& address, const GroupKey& key) {
  {
    std::lock_guard<std::mutex> lock(m_);
    key_ = key;
  }
  connect(Address(address).bytes());
  std::lock_guard<std::mutex> lock(m_);
  state_ == LISTENING ? HearCallers() : DropCallers();
}

bool GlooPair::connected() {
  std::lock_guard<std::mutex> lock(m_);
  return state_ == CONNECTED;
}

bool GlooPair::listening() {
  std::lock_guard<std::mutex> lock(m_);
  return state_ == LISTENING;
}

void GlooPair::Shutdown(int because) {
  std::lock_guard<std::mutex> lock(m_);
  if (state_ != CONNECTED) return;
  // Only between messages. If it is sent in part, the peer ignores it.
  if (tx_.empty() || tx_.front().nwritten == 0) {
    const Op farewell = Control(kFarewell, static_cast<size_t>(because));
    [[maybe_unused]] const ssize_t sent =
        ::send(fd_, &farewell.preamble, sizeof farewell.preamble,
               MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::shutdown(fd_, SHUT_RDWR);
}

// An error is reported to a buffer and closes the pair under the same lock.
void GlooPair::AwaitClosed() { std::lock_guard<std::mutex> lock(m_); }

// --- Silence ----------------------------------------------------------------

std::optional<bool> GlooPair::Beat() {
  std::unique_lock<std::mutex> lock(m_, std::try_to_lock);
  if (!lock || state_ != CONNECTED) return std::nullopt;
  const bool received = std::exchange(received_, false);
  if (!std::exchange(sent_, false) && tx_.empty()) {
    Op keepalive = Control(kKeepalive, 0);
    try {
      sendAsyncMode(keepalive);
    } catch (...) {
      Fail(std::current_exception());
    }
    sent_ = false;
  }
  return received;
}

void GlooPair::CloseSilent(absl::Duration quiet) {
  std::unique_lock<std::mutex> lock(m_, std::try_to_lock);
  if (lock) Fail(std::make_exception_ptr(SilentPeer(quiet)));
}

Op GlooPair::Control(size_t opcode, size_t word) {
  Op op;
  op.preamble.nbytes = sizeof op.preamble;
  op.preamble.opcode = opcode;
  op.preamble.slot = word;
  return op;
}

void GlooPair::ReceiveLeave() {
  const size_t because = rx_.preamble.slot;
  if (because < static_cast<size_t>(context_->size)) {
    because_ = static_cast<int>(because);
  }
}

bool GlooPair::IsControl() {
  const size_t opcode = rx_.preamble.opcode;
  return opcode == kKeepalive || opcode == kFarewell;
}

void GlooPair::handleEvents(int events) {
  LetOthersFinish();
  std::exception_ptr thrown;
  try {
    if (!Receive()) Pair::handleEvents(events);
    return;
  } catch (...) {
    thrown = std::current_exception();
  }
  // The thread that holds the lock may be waiting for this one; then the event
  // is delivered again.
  std::unique_lock<std::mutex> lock(m_, std::try_to_lock);
  if (lock) Fail(thrown);
}

// --- Accepting connections --------------------------------------------------

bool GlooPair::Receive() {
  std::unique_lock<std::mutex> lock(m_, std::try_to_lock);
  if (!lock) return true;  // the event is delivered again
  if (state_ != LISTENING) return false;
  try {
    HearCallers();
    if (state_ != LISTENING) return true;
    AcceptCallers();
    HearCallers();
  } catch (...) {
    Fail(std::current_exception());
  }
  return true;
}

void GlooPair::AcceptCallers() {
  // Poll first: without a free descriptor accept fails even if no caller waits.
  pollfd waiting{fd_, POLLIN, 0};
  while (::poll(&waiting, 1, 0) > 0) {
    const int socket =
        ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && !IsOutOfFiles(errno)) return;
    if (socket < 0 && callers_.empty()) {
      throw NoFileLeft(absl::StrCat("accept: ", std::strerror(errno)));
    }
    // The peer sends its header at once, so read all headers before a caller
    // has to be dropped: the peer may be among them.
    if (callers_.size() == kCallersMax) HearCallers();
    if (state_ != LISTENING) {
      if (socket >= 0) ::close(socket);
      return;
    }
    // Out of descriptors: drop a caller, unless reading has freed one.
    const bool must_go = socket < 0 || callers_.size() == kCallersMax;
    if (must_go && !callers_.empty()) DropCaller(Silent());
    if (socket < 0) continue;
    callers_.push_back({.socket = socket});
    device_->registerDescriptor(socket, EPOLLIN, &reception_);
  }
}

// The oldest caller without a complete header; if there is none, the oldest.
size_t GlooPair::Silent() const {
  const auto silent =
      std::find_if(callers_.begin(), callers_.end(), [](const Caller& caller) {
        return caller.received < sizeof caller.header;
      });
  return silent == callers_.end() ? 0 : silent - callers_.begin();
}

bool GlooPair::Receive(Caller* caller) {
  auto* const bytes = reinterpret_cast<char*>(&caller->header);
  while (caller->received < sizeof caller->header) {
    const ssize_t got =
        ::recv(caller->socket, bytes + caller->received,
               sizeof caller->header - caller->received, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    caller->received += got;
  }
  return IsPeers(caller->header);
}

// Before Connect nobody can tell, and the caller is kept.
bool GlooPair::IsPeers(const ConnectionHeader& header) const {
  if (header.magic != ConnectionHeader::kMagic) return false;
  if (header.from != rank_ || header.to != context_->rank) return false;
  return !key_ ||
         Equal(header.proof, HeaderOf(*key_, rank_, context_->rank).proof);
}

void GlooPair::HearCallers() {
  size_t next = 0;
  while (next < callers_.size()) {
    Caller& caller = callers_[next];
    if (!Receive(&caller)) {
      DropCaller(next);
      continue;
    }
    const bool whole = caller.received == sizeof caller.header;
    if (whole && key_) return Admit(next);
    // The caller waits for Connect, which sets the key to compare with. Until
    // then this class must not read what follows the header.
    if (whole && caller.watched) {
      device_->unregisterDescriptor(caller.socket, &reception_);
      caller.watched = false;
    }
    ++next;
  }
}

void GlooPair::Admit(size_t caller) {
  const int socket = callers_[caller].socket;
  callers_.erase(callers_.begin() + static_cast<ptrdiff_t>(caller));
  device_->unregisterDescriptor(fd_, this);
  ::close(fd_);
  fd_ = socket;
  DropCallers();
  handleConnected();  // registers the socket with the loop
}

void GlooPair::DropCaller(size_t caller) {
  const Caller& dropped = callers_[caller];
  if (dropped.watched) {
    device_->unregisterDescriptor(dropped.socket, &reception_);
  }
  ::close(dropped.socket);
  callers_.erase(callers_.begin() + static_cast<ptrdiff_t>(caller));
}

void GlooPair::DropCallers() {
  while (!callers_.empty()) DropCaller(callers_.size() - 1);
}

// The header is small and the first data in an empty send buffer.
void GlooPair::SendHeader() {
  const ConnectionHeader header = HeaderOf(*key_, context_->rank, rank_);
  const ssize_t sent = ::send(fd_, &header, sizeof header, MSG_NOSIGNAL);
  if (sent != sizeof header) {
    Fail(std::make_exception_ptr(gloo::IoException("it was closed")));
  }
}

// --- Moving bytes -----------------------------------------------------------

// Gloo skips a pair that another thread has locked, and polls again at once
// until it is unlocked. On a busy machine both threads may share a core: then
// that lasts until the scheduler's next turn, 4 ms. This thread must not block
// either: the thread that holds the lock may be waiting for it.
void GlooPair::LetOthersFinish() {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    if (m_.try_lock()) return m_.unlock();
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

bool GlooPair::read() {
  try {
    if (!ReadPreamble()) return false;
    if (rx_.nread == sizeof rx_.preamble && IsControl()) {
      if (rx_.preamble.opcode == kFarewell) ReceiveLeave();
      rx_ = Op();
      return true;
    }
    const size_t before = rx_.nread;
    const bool whole = Pair::read();
    received_ |= whole || rx_.nread != before;
    if (whole) owner_->OnPairProgress();
    return whole;
  } catch (...) {
    Fail(std::current_exception());
    return false;
  }
}

// Does the first part of Pair::read, so that a message can be checked before
// its bytes are stored. False if nothing more can be read now.
bool GlooPair::ReadPreamble() {
  if (state_ == CLOSED) return false;
  while (rx_.nread < sizeof rx_.preamble) {
    const ssize_t got =
        ::recv(fd_, reinterpret_cast<char*>(&rx_.preamble) + rx_.nread,
               sizeof rx_.preamble - rx_.nread, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) return true;  // Pair::read gets the same, and handles it
    rx_.nread += got;
    received_ = true;
  }
  CheckMessage();
  return true;
}

void GlooPair::CheckMessage() {
  switch (rx_.getOpcode()) {
    case Op::NOTIFY_SEND_READY:
    case Op::NOTIFY_RECV_READY: return;
    case Op::SEND_UNBOUND_BUFFER: break;
    default:
      if (IsControl() && rx_.preamble.nbytes == sizeof rx_.preamble) return;
      throw gloo::IoException("it speaks another protocol");
  }
  if (rx_.ubuf) {  // a later part of the message
    using Buffer = gloo::transport::tcp::UnboundBuffer;
    if (!gloo::NonOwningPtr<Buffer>(rx_.ubuf)) {
      throw gloo::IoException("its receiver has gone");
    }
    return;
  }
  const auto asked = localPendingRecv_.find(rx_.preamble.slot);
  if (asked == localPendingRecv_.end() || asked->second.empty()) {
    throw gloo::IoException("it sent what nobody asked for");
  }
  const size_t expected = std::get<2>(asked->second.front());
  if (rx_.preamble.length != expected) {
    throw WrongSize(rx_.preamble.length, expected);
  }
}

bool GlooPair::write(Op& op) {
  using Buffer = gloo::transport::tcp::UnboundBuffer;
  if (op.getOpcode() == Op::SEND_UNBOUND_BUFFER &&
      !gloo::NonOwningPtr<Buffer>(op.ubuf)) {
    Fail(std::make_exception_ptr(gloo::IoException("its sender has gone")));
    return false;
  }
  // Runs on Gloo's thread and on the threads that send or receive, also the
  // user's.
  const BrokenPipesQuiet quiet;
  const bool whole = Pair::write(op);
  sent_ |= whole;
  if (whole) owner_->OnPairProgress();
  return whole;
}

void GlooPair::Fail(std::exception_ptr why) {
  if (ex_ == nullptr && state_ != CLOSED) signalException(std::move(why));
}

void GlooPair::changeState(state next) noexcept {
  if (next == CLOSED) DropCallers();
  Pair::changeState(next);
  if (next == CONNECTED && is_client_) SendHeader();
  if (state_ == CONNECTED) owner_->Connected(rank_);
  if (next != CLOSED) return;
  owner_->Closed(rank_, WhyClosed());
}

absl::Status GlooPair::WhyClosed() const {
  // The farewell names a third rank. If it names this rank, the reason of the
  // connection itself is reported below.
  if (because_ && *because_ != rank_ && *because_ != context_->rank) {
    return WithFailedPeer(absl::UnavailableError(absl::StrCat(
                              "rank ", rank_, " left the group, because of",
                              " rank ", *because_)),
                          *because_);
  }
  if (because_ == rank_) {
    return WithFailedPeer(
        absl::UnavailableError(absl::StrCat("rank ", rank_, " left the group")),
        rank_);
  }
  const std::exception_ptr why =
      ex_ != nullptr
          ? ex_
          : std::make_exception_ptr(gloo::IoException("it was closed"));
  return StatusOfGloo(why, rank_);
}

}  // namespace lockstep::transport
