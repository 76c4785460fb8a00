// Which of several coordinators leads: the one that has the leader's key in
// etcd, under a lease that it renews.
//
//   coordinator a   claims the key ── leads: term = when the key was made ──x
//   coordinator b   waits ············································ claims
//                                          └ lease: 2 s after a's last renewal
//
// The term rises with each leader, since etcd numbers all changes. A leader
// that was stopped for a while, and does not know that another one leads,
// changes nothing: etcd compares its key in each transaction (Fence), and
// workers refuse messages of a lower term.
//
// A leader that cannot renew its lease in time stops leading by itself, a
// little before etcd gives the key to another one. So does one whose key was
// removed or overwritten: its lease would live on, and it would go on to serve
// beside the next one until it writes.
//
// Threads: one for Await and the destructor; on_lost is called on ls-lease.
// Errors:  those of Client.

#ifndef LOCKSTEP_SERVER_ETCD_LEADERSHIP_H_
#define LOCKSTEP_SERVER_ETCD_LEADERSHIP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "server/etcd/client.h"

namespace lockstep::etcd {

struct LeadershipOptions {
  std::string key;       // of the leader
  std::string base_key;  // of a number that is added to terms; or empty
  std::string identity;  // of this coordinator, for people: "host-a:7070"
  // While another one leads: its identity, each time that it changes.
  std::function<void(const std::string&)> on_wait;
  // While none of etcd's members answers, or the key is one that no coordinator
  // made, before this coordinator leads; once each time.
  std::function<void(const absl::Status&)> on_trouble;
  // While none of etcd's members answers, now and then: a reason not to wait
  // for them, which Await returns; or OK. May be empty.
  std::function<absl::Status()> why_not_wait;
  // Once, if this coordinator does not lead any more, with the reason.
  std::function<void(const absl::Status&)> on_lost;
};

class Leadership {
 public:
  // Waits until this coordinator leads, also for etcd; Cancelled by
  // Client::Cancel, or the error of why_not_wait. `client` outlives the result.
  static absl::StatusOr<std::unique_ptr<Leadership>> Await(
      Client* client, LeadershipOptions options);

  // Ends the lease, so that another coordinator leads at once.
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  const Fence& fence() const { return fence_; }
  // The revision of etcd at which this coordinator took the key, and the number
  // in base_key. After a restore etcd's revisions begin where those of the copy
  // ended, below terms that workers have heard: the operator raises the base.
  uint64_t term() const {
    return base_ + static_cast<uint64_t>(fence_.created);
  }

 private:
  Leadership(Client* client, LeadershipOptions options, int64_t lease,
             Deadline leads, Fence fence, uint64_t base);

  struct Attempt {
    int64_t lease = 0;
    KeyClaim claim;
    bool is_late = false;
    Deadline leads{absl::ZeroDuration()};  // from before the lease was granted
  };
  static absl::StatusOr<Attempt> TryOnce(Client* client,
                                         const LeadershipOptions& options);

  void Renew(Deadline leads);
  // Aborted: the key is there no more, or is another one's.
  absl::Status CheckKey(absl::Duration timeout);
  void Lose(const absl::Status& why);

  Client* const client_;
  const LeadershipOptions options_;
  const int64_t lease_;
  const Fence fence_;
  const uint64_t base_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::etcd

#endif  // LOCKSTEP_SERVER_ETCD_LEADERSHIP_H_
