// What the coordinator asks of etcd: keys in transactions that a leader's key
// fences, leases, and the end of a key. Blocking calls.
//
//   Read("journal/", ...)            keys in order, a page at a time
//   Commit({.fence = leader, ...})   puts and deletes, all or none, if the
//                                    leader's key is still that one
//   ClaimKey(key, value, lease)      the leader's key, if nobody has it
//
// A member of the cluster that does not answer is left for the next one. A call
// whose answer was lost is made again. Each has the same effect twice as once;
// for transactions Transaction::turn sees to it.
//
// Threads: any.
// Errors:  Unavailable (no member answered in time: all are named, with the
//          error of each), ResourceExhausted (etcd's quota is used up; with a
//          turn: and nothing was written),
//          FailedPrecondition (the fence: another process leads), DataLoss
//          (Transaction::behind), Unauthenticated and PermissionDenied as etcd
//          says.

#ifndef LOCKSTEP_SERVER_ETCD_CLIENT_H_
#define LOCKSTEP_SERVER_ETCD_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace grpc {
class Channel;
class ChannelCredentials;
class ClientContext;
class Status;
}  // namespace grpc

namespace lockstep::etcd {

struct KeyValue {
  std::string key;
  std::string value;
  // The revision of the store when the key was made: no two keys that were ever
  // made in different transactions have the same.
  int64_t created = 0;
  int64_t version = 0;  // how often it was written since
  int64_t lease = 0;    // 0: it stays until somebody deletes it
};

struct Page {
  std::vector<KeyValue> keys;
  bool more = false;
  int64_t revision = 0;  // of the store
};

// The keys from `from` to below `to`.
struct KeyRange {
  std::string from;
  std::string to;
};

// The keys that begin with `prefix`, which is not empty.
KeyRange WithPrefix(const std::string& prefix);

// The leader's key, when it was made, and its lease.
struct Fence {
  std::string key;
  int64_t created = 0;
  int64_t lease = 0;  // 0: any
};

// etcd takes at most 128 operations, and 1.5 MiB, in one transaction. One is
// for Transaction::turn, one for the store's head.
inline constexpr size_t kOperationsMax = 126;

struct Transaction {
  Fence fence;
  // Not 0: it is carried out only if the leader's key has this version, which
  // it raises by one. So an attempt that arrives late, after the next
  // transaction, has no effect.
  int64_t turn = 0;
  // A key that must exist; empty: none.
  std::string behind;
  std::vector<KeyRange> deletes;
  std::vector<KeyValue> puts;  // none of them among the deletes
};

// The holder of a key.
struct KeyClaim {
  bool is_mine = false;
  KeyValue holder;
  int64_t revision = 0;  // of the store
};

class Client {
 public:
  // The same object while they are to be used; called on any thread.
  using Credentials =
      std::function<std::shared_ptr<grpc::ChannelCredentials>()>;

  // `members`: HOST:PORT of each member of the cluster; not empty.
  // `credentials` are asked for again after each attempt that has failed.
  Client(std::vector<std::string> members, Credentials credentials);
  Client(std::vector<std::string> members,
         std::shared_ptr<grpc::ChannelCredentials> credentials);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // At most `limit` keys; `revision`: of the store, 0 for now.
  absl::StatusOr<Page> Read(const KeyRange& range, int64_t limit,
                            int64_t revision, absl::Duration timeout);
  // Unavailable: it may still be carried out. The next call with the same
  // transaction says so by `is_in_doubt`.
  absl::Status Commit(const Transaction& transaction, absl::Duration timeout,
                      bool is_in_doubt = false);

  // A lease of at least `seconds`, which ends unless it is renewed.
  absl::StatusOr<int64_t> GrantLease(int64_t seconds, absl::Duration timeout);
  // How long it still lives; zero if it has ended.
  absl::StatusOr<absl::Duration> RenewLease(int64_t lease,
                                            absl::Duration timeout);
  absl::Status RevokeLease(int64_t lease, absl::Duration timeout);

  absl::StatusOr<KeyClaim> ClaimKey(const std::string& key,
                                    const std::string& value, int64_t lease,
                                    absl::Duration timeout);
  // Returns when the key is deleted after `revision`, perhaps earlier, and at
  // `timeout`: ClaimKey tells. An error is that of the member that was asked;
  // the next call asks the next one.
  absl::Status AwaitDeleted(const std::string& key, int64_t revision,
                            absl::Duration timeout);
  // Makes calls in progress, and later ones, return Cancelled.
  void Cancel();

 private:
  struct Member;
  class Running;
  using Attempt = std::function<grpc::Status(Member&, grpc::ClientContext*)>;

  absl::Status Call(const std::string& what, absl::Duration timeout,
                    absl::Duration patience_with_one, const Attempt& attempt);
  absl::Status Call(const std::string& what, absl::Duration timeout,
                    const Attempt& attempt);
  absl::Status AfterNoSpace(const Transaction& transaction,
                            const absl::Status& refused, bool is_in_doubt,
                            absl::Duration timeout);

  void RenewCredentials();
  std::shared_ptr<Member> MemberAt(size_t index);

  const std::vector<std::string> addresses_;
  const Credentials credentials_;
  Mutex mutex_;
  std::shared_ptr<grpc::ChannelCredentials> used_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Member>> members_ ABSL_GUARDED_BY(mutex_);
  size_t preferred_ ABSL_GUARDED_BY(mutex_) = 0;  // the one that answered last
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::etcd

#endif  // LOCKSTEP_SERVER_ETCD_CLIENT_H_
