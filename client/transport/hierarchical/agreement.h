// A vote of all members of a group, over a link: done only if all say yes.
//
//   rank 0  yes ──▶ 1, 2      each hears all, so all come to the same end
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

// Gives this rank's `vote`; "" once all have given theirs and all were OK, else
// who objects and why: of several who has a reason of its own (no blame.h in
// it), the lowest. DeadlineExceeded, or the link's errors, if not all were
// heard.
absl::StatusOr<std::string> Agree(Link& link, const absl::Status& vote,
                                  const Deadline& deadline);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AGREEMENT_H_
