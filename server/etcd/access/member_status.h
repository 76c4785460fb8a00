// What one member of an etcd says of its cluster, for lockstepctl doctor.
//
// Threads: any; blocks for at most `timeout` for each of two calls.

#ifndef LOCKSTEP_SERVER_ETCD_ACCESS_MEMBER_STATUS_H_
#define LOCKSTEP_SERVER_ETCD_ACCESS_MEMBER_STATUS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace lockstep::etcd {

struct MemberStatus {
  std::string version;
  bool has_no_space = false;  // the alarm NOSPACE, of any member
  bool is_corrupt = false;    // the alarm CORRUPT, of any member
  // The outcome of a read of the key, which a majority of the members must
  // confirm.
  // Unavailable: they do not, and why. PermissionDenied, Unauthenticated: this
  // client may not read it.
  absl::Status read;
};

// Asks the member at HOST:PORT, and writes nothing. Unimplemented: it is no
// etcd. Unavailable: it does not answer. Others as etcd says.
absl::StatusOr<MemberStatus> AskMember(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const std::string& key, absl::Duration timeout);

}  // namespace lockstep::etcd

#endif  // LOCKSTEP_SERVER_ETCD_ACCESS_MEMBER_STATUS_H_
