#include "client/transport/hierarchical/agreement.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/transport/collectives/link_transfers.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

// No collective uses this number.
const uint64_t kVoteTag = FirstTag(/*point_to_point=*/false, (1ull << 39) - 1);

enum class Answer : uint32_t {
  kObjectsItself = 1,  // the best explanation first
  kObjectsToAnother,
  kYes,
};

struct Vote {
  Answer answer = Answer::kYes;
  char why[252] = {};
};

Vote VoteOf(const absl::Status& status) {
  Vote vote;
  if (status.ok()) return vote;
  vote.answer =
      FailedPeer(status) ? Answer::kObjectsToAnother : Answer::kObjectsItself;
  const auto why = status.message().substr(0, sizeof vote.why - 1);
  std::memcpy(vote.why, why.data(), why.size());
  return vote;
}

// Sleeps until the link reports progress.
class ProgressNotifier {
 public:
  explicit ProgressNotifier(Link& link) : link_(link) {
    link.OnProgress([this] {
      MutexLock lock(&mutex_);
      notified_ = true;
      bell_.NotifyAll();
    });
  }
  ~ProgressNotifier() { link_.OnProgress(nullptr); }

  void Await(const Deadline& deadline) {
    MutexLock lock(&mutex_);
    while (!notified_ && !deadline.Passed()) {
      bell_.WaitFor(&mutex_, deadline.Left());
    }
    notified_ = false;
  }

 private:
  Link& link_;
  Mutex mutex_;
  CondVar bell_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status ExchangeVotes(Link& link, std::vector<Vote>& votes,
                           const Deadline& deadline) {
  ProgressNotifier doorbell(link);
  Transfers transfers;
  for (int peer = 0; peer < link.size(); ++peer) {
    if (peer == link.rank()) continue;
    absl::Status posted =
        transfers.Add(link.Recv(peer, kVoteTag, &votes[peer], sizeof(Vote)));
    posted.Update(transfers.Add(
        link.Send(peer, kVoteTag, &votes[link.rank()], sizeof(Vote))));
    if (!posted.ok()) return posted;
  }
  while (!transfers.Done()) {
    if (deadline.Passed()) {
      return absl::DeadlineExceededError("not all ranks have come");
    }
    doorbell.Await(deadline);
  }
  return transfers.WaitAll();
}

}  // namespace

absl::StatusOr<std::string> Agree(Link& link, const absl::Status& vote,
                                  const Deadline& deadline) {
  std::vector<Vote> votes(link.size());
  votes[link.rank()] = VoteOf(vote);
  absl::Status heard = ExchangeVotes(link, votes, deadline);
  if (!heard.ok()) return heard;
  const auto first = std::min_element(
      votes.begin(), votes.end(),
      [](const Vote& a, const Vote& b) { return a.answer < b.answer; });
  if (first->answer == Answer::kYes) return std::string();
  first->why[sizeof first->why - 1] = '\0';
  return absl::StrCat("rank ", first - votes.begin(), ": ", first->why);
}

}  // namespace lockstep::transport
