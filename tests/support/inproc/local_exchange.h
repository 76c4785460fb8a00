// Copies bytes between the members of one connected group.
//
// A transfer has two halves, a send and a receive. The half that is posted
// second copies the bytes, on its own thread. Withdraw waits for a copy in
// progress, so the memory of a withdrawn half is not accessed.
//
// Threads: any.

#ifndef LOCKSTEP_TESTS_SUPPORT_INPROC_LOCAL_EXCHANGE_H_
#define LOCKSTEP_TESTS_SUPPORT_INPROC_LOCAL_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/transport/common/link.h"

namespace lockstep::transport {

class LocalExchange {
 public:
  explicit LocalExchange(int size) : ranks_(size) {}

  // A rank's side of a transfer.
  struct Half {
    int rank;
    int peer;
    bool sends;
    uint64_t tag;
    std::byte* data;  // read only if it sends
    size_t bytes;
    enum { kPosted, kCopying, kOver } state = kPosted;
    absl::Status outcome;
  };

  absl::Status Post(Half& half);
  absl::Status Wait(Half& half);
  bool IsOver(const Half& half);
  void Withdraw(Half& half);

  // Calls `news` whenever a half of `rank` has ended.
  void OnProgress(int rank, std::function<void()> news);

  // Ends the halves of `rank`, and all halves of the ranks that wait for it.
  void Leave(int rank);

 private:
  using Key = std::tuple<int, int, uint64_t>;  // sender, receiver, tag
  static Key KeyOf(const Half& half) {
    return half.sends ? Key(half.rank, half.peer, half.tag)
                      : Key(half.peer, half.rank, half.tag);
  }

  struct RankState {
    bool left = false;
    absl::Status first_gone;  // names the rank that left first
    absl::Status broken;      // why the waits of this rank cannot succeed
    CondVar changed;          // one of its halves has ended
    std::function<void()> news;
  };

  // The error that ends `half`; OK if there is none.
  absl::Status Trouble(const Half& half) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Break(int rank, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWhatCannotGoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Meet(Half& a, Half& b) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(Half& half, absl::Status outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<RankState> ranks_ ABSL_GUARDED_BY(mutex_);  // by rank
  std::map<Key, Half*> waiting_ ABSL_GUARDED_BY(mutex_);
};

// The link of `rank`. It leaves when it is cut or destroyed.
std::unique_ptr<Link> MakeInprocLink(std::shared_ptr<LocalExchange> room,
                                     int rank, int size);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_TESTS_SUPPORT_INPROC_LOCAL_EXCHANGE_H_
