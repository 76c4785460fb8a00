#include "client/transport/gloo/gloo_pair.h"

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/thread.h"
#include "client/transport/blame.h"

namespace lockstep::transport {
namespace {

using gloo::transport::tcp::Address;
using gloo::transport::tcp::Op;

// A peer sent another number of bytes than was asked for.
struct WrongSize : gloo::IoException {
  WrongSize(size_t sent, size_t expected)
      : gloo::IoException("wrong size"), sent(sent), expected(expected) {}
  size_t sent;
  size_t expected;
};

// "[/path/pair.cc:589] what happened" without its beginning.
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
    return Blame(absl::DataLossError(absl::StrCat(
                     "rank ", peer, " sent ", wrong.sent, " bytes where ",
                     wrong.expected, " were expected")),
                 peer);
  } catch (const std::exception& error) {
    return Blame(absl::UnavailableError(
                     absl::StrCat("the connection to rank ", peer,
                                  " broke: ", WithoutPlace(error.what()))),
                 peer);
  }
}

GlooPair::GlooPair(gloo::transport::tcp::Context* context,
                   gloo::transport::tcp::Device* device, int peer,
                   PairOwner* owner)
    : Pair(context, device, peer, gloo::kNoTimeout), owner_(owner) {}

// Here and not in the base: no event may find this object half destroyed.
GlooPair::~GlooPair() {
  std::lock_guard<std::mutex> lock(m_);
  if (state_ != CLOSED) Pair::changeState(CLOSED);
}

sockaddr_storage GlooPair::listener() const {
  return static_cast<const Address&>(address()).getSockaddr();
}

void GlooPair::Connect(const sockaddr_storage& address) {
  connect(Address(address).bytes());
}

bool GlooPair::connected() {
  std::lock_guard<std::mutex> lock(m_);
  return state_ == CONNECTED;
}

void GlooPair::Shutdown() {
  std::lock_guard<std::mutex> lock(m_);
  if (state_ == CONNECTED) ::shutdown(fd_, SHUT_RDWR);
}

void GlooPair::handleEvents(int events) {
  LetOthersFinish();
  std::exception_ptr thrown;
  try {
    Pair::handleEvents(events);
    return;
  } catch (...) {
    thrown = std::current_exception();
  }
  // Whoever has the lock may be waiting for this thread; then the event comes
  // again.
  std::unique_lock<std::mutex> lock(m_, std::try_to_lock);
  if (lock) Fail(thrown);
}

// Gloo skips a pair that somebody else has locked, and comes back at once, for
// as long as it takes: on a busy machine the two may share a core, and then
// that is until the scheduler's next turn, 4 ms. Nor may this thread block:
// whoever has the lock may be waiting for it.
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
    const bool whole = ReadPreamble() && Pair::read();
    if (whole) owner_->Stirred();
    return whole;
  } catch (...) {
    Fail(std::current_exception());
    return false;
  }
}

// The first part of what Pair::read does, so that a message can be looked at
// before its bytes are put anywhere. False if there is nothing more to read
// now.
bool GlooPair::ReadPreamble() {
  if (state_ == CLOSED) return false;
  while (rx_.nread < sizeof rx_.preamble) {
    const ssize_t got =
        ::recv(fd_, reinterpret_cast<char*>(&rx_.preamble) + rx_.nread,
               sizeof rx_.preamble - rx_.nread, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) return true;  // Pair::read meets the same, and handles it
    rx_.nread += got;
  }
  CheckMessage();
  return true;
}

void GlooPair::CheckMessage() {
  switch (rx_.getOpcode()) {
    case Op::NOTIFY_SEND_READY:
    case Op::NOTIFY_RECV_READY: return;
    case Op::SEND_UNBOUND_BUFFER: break;
    default: throw gloo::IoException("it speaks another protocol");
  }
  if (rx_.ubuf) {  // not its first bytes
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
  // Gloo's thread writes, and whoever sends or receives: the user, too.
  const BrokenPipesQuiet quiet;
  const bool whole = Pair::write(op);
  if (whole) owner_->Stirred();
  return whole;
}

void GlooPair::Fail(std::exception_ptr why) {
  if (ex_ == nullptr && state_ != CLOSED) signalException(std::move(why));
}

void GlooPair::changeState(state next) noexcept {
  Pair::changeState(next);
  if (next == CONNECTED) owner_->Connected(rank_);
  if (next != CLOSED) return;
  const std::exception_ptr why =
      ex_ != nullptr
          ? ex_
          : std::make_exception_ptr(gloo::IoException("it was closed"));
  owner_->Closed(rank_, StatusOfGloo(why, rank_));
}

}  // namespace lockstep::transport
