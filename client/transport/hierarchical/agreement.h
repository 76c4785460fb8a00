// A vote of all members of a group, over a link. It passes if all vote yes.
//
//   rank 0  yes ──▶ 1, 2      each receives all votes, so all decide alike
//   rank 1  yes ──▶ 0, 2
//   rank 2  no: no memory ──▶ 0, 1
//
// Threads: one. The link is used for nothing else meanwhile.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AGREEMENT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AGREEMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "client/transport/common/link.h"

namespace lockstep::transport {

// Sends this rank's `vote` and receives all others. Returns "" if all are OK,
// else an objecting rank and its reason: the lowest rank, preferring reasons
// without a failed peer (failed_peer.h). Errors: DeadlineExceeded, or the
// link's, if a vote is missing.
absl::StatusOr<std::string> Agree(Link& link, const absl::Status& vote,
                                  const Deadline& deadline);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AGREEMENT_H_
