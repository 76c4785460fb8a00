#include "client/transport/inproc/room.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/transport/blame.h"

namespace lockstep::transport {
namespace {

absl::Status Mismatch(const Room::Half& send, size_t expected, int about) {
  return Blame(absl::DataLossError(absl::StrCat(
                   "rank ", send.rank, " sent ", send.bytes, " bytes, rank ",
                   send.peer, " expected ", expected)),
               about);
}

}  // namespace

absl::Status Room::Presence(const Half& half) const {
  if (left_[half.rank]) return absl::CancelledError("the link was cut");
  return left_[half.peer] ? trouble_[half.rank] : absl::OkStatus();
}

void Room::Blemish(int rank, const absl::Status& why) {
  absl::Status& first = trouble_[rank];
  const bool worse = absl::IsDataLoss(why) && !absl::IsDataLoss(first);
  if (first.ok() || worse) first = why;
}

absl::Status Room::Post(Half& half) {
  MutexLock lock(&mutex_);
  if (absl::Status here = Presence(half); !here.ok()) return here;
  auto [at, first] = waiting_.try_emplace(KeyOf(half), &half);
  if (first) return absl::OkStatus();
  Half& other = *at->second;
  Check(other.sends != half.sends, "a tag was used twice");
  waiting_.erase(at);
  half.sends ? Meet(half, other) : Meet(other, half);
  return absl::OkStatus();
}

void Room::Meet(Half& send, Half& receive) {
  if (send.bytes != receive.bytes) {
    for (Half* half : {&send, &receive}) {
      Blemish(half->rank, Mismatch(send, receive.bytes, half->peer));
      End(*half, trouble_[half->rank]);
    }
    return;
  }
  send.state = receive.state = Half::kCopying;
  mutex_.Unlock();
  if (send.bytes > 0) std::memcpy(receive.data, send.data, send.bytes);
  mutex_.Lock();
  End(send, absl::OkStatus());
  End(receive, absl::OkStatus());
}

void Room::End(Half& half, absl::Status outcome) {
  half.outcome = std::move(outcome);
  half.state = Half::kOver;
  changed_[half.rank].NotifyAll();
}

absl::Status Room::Wait(Half& half) {
  MutexLock lock(&mutex_);
  while (half.state != Half::kOver) changed_[half.rank].Wait(&mutex_);
  return half.outcome;
}

void Room::Withdraw(Half& half) {
  MutexLock lock(&mutex_);
  while (half.state == Half::kCopying) changed_[half.rank].Wait(&mutex_);
  auto at = waiting_.find(KeyOf(half));
  if (at != waiting_.end() && at->second == &half) waiting_.erase(at);
}

void Room::Leave(int rank) {
  MutexLock lock(&mutex_);
  if (left_[rank]) return;
  left_[rank] = true;
  const absl::Status gone = Blame(
      absl::UnavailableError(absl::StrCat("rank ", rank, " left the group")),
      rank);
  for (size_t r = 0; r < trouble_.size(); ++r) {
    if (r != static_cast<size_t>(rank)) Blemish(static_cast<int>(r), gone);
  }
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Half& half = *at->second;
    absl::Status here = Presence(half);
    if (here.ok()) {
      ++at;
      continue;
    }
    at = waiting_.erase(at);
    End(half, std::move(here));
  }
}

namespace {

class InprocTransfer final : public Transfer {
 public:
  InprocTransfer(std::shared_ptr<Room> room, Room::Half half)
      : room_(std::move(room)), half_(std::move(half)) {}
  ~InprocTransfer() override { room_->Withdraw(half_); }

  absl::Status Post() { return room_->Post(half_); }
  absl::Status Wait() override { return room_->Wait(half_); }

 private:
  const std::shared_ptr<Room> room_;
  Room::Half half_;
};

class InprocLink final : public Link {
 public:
  InprocLink(std::shared_ptr<Room> room, int rank, int size)
      : room_(std::move(room)), rank_(rank), size_(size) {}
  ~InprocLink() override { Cut(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view transport() const override { return "inproc"; }

  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, uint64_t tag,
                                                 const void* data,
                                                 size_t bytes) override {
    void* const never_written = const_cast<void*>(data);
    return Post({rank_, peer, /*sends=*/true, tag,
                 static_cast<std::byte*>(never_written), bytes});
  }

  absl::StatusOr<std::unique_ptr<Transfer>> Recv(int peer, uint64_t tag,
                                                 void* data,
                                                 size_t bytes) override {
    return Post({rank_, peer, /*sends=*/false, tag,
                 static_cast<std::byte*>(data), bytes});
  }

  void Cut() override { room_->Leave(rank_); }

 private:
  absl::StatusOr<std::unique_ptr<Transfer>> Post(Room::Half half) {
    auto transfer = std::make_unique<InprocTransfer>(room_, std::move(half));
    if (absl::Status posted = transfer->Post(); !posted.ok()) return posted;
    return transfer;
  }

  const std::shared_ptr<Room> room_;
  const int rank_;
  const int size_;
};

}  // namespace

std::unique_ptr<Link> MakeInprocLink(std::shared_ptr<Room> room, int rank,
                                     int size) {
  return std::make_unique<InprocLink>(std::move(room), rank, size);
}

}  // namespace lockstep::transport
