#include "tests/support/inproc/local_exchange.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

absl::Status Mismatch(const LocalExchange::Half& send, size_t expected,
                      int about) {
  return WithFailedPeer(
      absl::DataLossError(absl::StrCat("rank ", send.rank, " sent ", send.bytes,
                                       " bytes, rank ", send.peer, " expected ",
                                       expected)),
      about);
}

}  // namespace

absl::Status LocalExchange::Trouble(const Half& half) const {
  const RankState& state = ranks_[half.rank];
  if (state.left) return absl::CancelledError("the link was cut");
  if (!state.broken.ok()) return state.broken;
  return ranks_[half.peer].left ? state.first_gone : absl::OkStatus();
}

// DataLoss takes precedence: the ranks that notice it leave because of it.
void LocalExchange::Break(int rank, const absl::Status& why) {
  RankState& state = ranks_[rank];
  const bool lost = absl::IsDataLoss(why);
  if (state.broken.ok() || (lost && !absl::IsDataLoss(state.broken))) {
    state.broken = lost ? why : state.first_gone;
  }
}

void LocalExchange::EndWhatCannotGoOn() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Half& half = *at->second;
    absl::Status trouble = Trouble(half);
    if (trouble.ok()) {
      ++at;
      continue;
    }
    at = waiting_.erase(at);
    End(half, std::move(trouble));
  }
}

absl::Status LocalExchange::Post(Half& half) {
  MutexLock lock(&mutex_);
  if (absl::Status trouble = Trouble(half); !trouble.ok()) {
    return trouble;
  }
  auto [at, first] = waiting_.try_emplace(KeyOf(half), &half);
  if (first) return absl::OkStatus();
  Half& other = *at->second;
  Check(other.sends != half.sends, "a tag was used twice");
  waiting_.erase(at);
  half.sends ? Meet(half, other) : Meet(other, half);
  return absl::OkStatus();
}

void LocalExchange::Meet(Half& send, Half& receive) {
  if (send.bytes != receive.bytes) {
    for (Half* half : {&send, &receive}) {
      Break(half->rank, Mismatch(send, receive.bytes, half->peer));
      End(*half, ranks_[half->rank].broken);
    }
    EndWhatCannotGoOn();
    return;
  }
  send.state = receive.state = Half::kCopying;
  mutex_.Unlock();
  if (send.bytes > 0) std::memcpy(receive.data, send.data, send.bytes);
  mutex_.Lock();
  End(send, absl::OkStatus());
  End(receive, absl::OkStatus());
}

void LocalExchange::End(Half& half, absl::Status outcome) {
  half.outcome = std::move(outcome);
  half.state = Half::kOver;
  RankState& state = ranks_[half.rank];
  state.changed.NotifyAll();
  if (state.news) state.news();
}

bool LocalExchange::IsOver(const Half& half) {
  MutexLock lock(&mutex_);
  return half.state == Half::kOver;
}

void LocalExchange::OnProgress(int rank, std::function<void()> news) {
  MutexLock lock(&mutex_);
  ranks_[rank].news = std::move(news);
}

absl::Status LocalExchange::Wait(Half& half) {
  MutexLock lock(&mutex_);
  while (half.state != Half::kOver) ranks_[half.rank].changed.Wait(&mutex_);
  return half.outcome;
}

void LocalExchange::Withdraw(Half& half) {
  MutexLock lock(&mutex_);
  while (half.state == Half::kCopying) ranks_[half.rank].changed.Wait(&mutex_);
  auto at = waiting_.find(KeyOf(half));
  if (at != waiting_.end() && at->second == &half) waiting_.erase(at);
}

void LocalExchange::Leave(int rank) {
  MutexLock lock(&mutex_);
  if (ranks_[rank].left) return;
  ranks_[rank].left = true;
  const absl::Status gone = WithFailedPeer(
      absl::UnavailableError(absl::StrCat("rank ", rank, " left the group")),
      rank);
  for (RankState& state : ranks_) {
    if (state.first_gone.ok()) state.first_gone = gone;
  }
  for (const auto& [key, half] : waiting_) {
    if (half->peer == rank) Break(half->rank, gone);
  }
  EndWhatCannotGoOn();
}

namespace {

class InprocTransfer final : public LinkTransfer {
 public:
  InprocTransfer(std::shared_ptr<LocalExchange> room, LocalExchange::Half half)
      : room_(std::move(room)), half_(std::move(half)) {}
  ~InprocTransfer() override { room_->Withdraw(half_); }

  absl::Status Post() { return room_->Post(half_); }
  absl::Status Wait() override { return room_->Wait(half_); }
  bool Done() override { return room_->IsOver(half_); }

 private:
  const std::shared_ptr<LocalExchange> room_;
  LocalExchange::Half half_;
};

class InprocLink final : public Link {
 public:
  InprocLink(std::shared_ptr<LocalExchange> room, int rank, int size)
      : room_(std::move(room)), rank_(rank), size_(size) {}
  ~InprocLink() override {
    room_->Leave(rank_);
    OnProgress(nullptr);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view transport() const override { return "inproc"; }

  absl::StatusOr<std::unique_ptr<LinkTransfer>> Send(int peer, uint64_t tag,
                                                     const void* data,
                                                     size_t bytes) override {
    void* const never_written = const_cast<void*>(data);
    return Post({rank_, peer, /*sends=*/true, tag,
                 static_cast<std::byte*>(never_written), bytes});
  }

  absl::StatusOr<std::unique_ptr<LinkTransfer>> Recv(int peer, uint64_t tag,
                                                     void* data,
                                                     size_t bytes) override {
    return Post({rank_, peer, /*sends=*/false, tag,
                 static_cast<std::byte*>(data), bytes});
  }

  void OnProgress(std::function<void()> news) override {
    room_->OnProgress(rank_, std::move(news));
  }

  void Shutdown(int) override { room_->Leave(rank_); }

 private:
  absl::StatusOr<std::unique_ptr<LinkTransfer>> Post(LocalExchange::Half half) {
    auto transfer = std::make_unique<InprocTransfer>(room_, std::move(half));
    if (absl::Status posted = transfer->Post(); !posted.ok()) return posted;
    return transfer;
  }

  const std::shared_ptr<LocalExchange> room_;
  const int rank_;
  const int size_;
};

}  // namespace

std::unique_ptr<Link> MakeInprocLink(std::shared_ptr<LocalExchange> room,
                                     int rank, int size) {
  return std::make_unique<InprocLink>(std::move(room), rank, size);
}

}  // namespace lockstep::transport
