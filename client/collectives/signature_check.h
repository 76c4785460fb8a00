// Members compare what they call, on a stream of the host.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_SIGNATURE_CHECK_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_SIGNATURE_CHECK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/collectives/call_stream.h"
#include "client/transport/common/scratch.h"
#include "lockstep/communicator.h"

namespace lockstep::collectives {

// Enqueues the comparison of `own` (signature.h) with the signatures of the
// other members. If they differ, all members get InvalidArgument as the
// stream's error and the call's, and the communicator is aborted with its
// message. `ranks`: the members' ranks, for the message. Errors:
// ResourceExhausted, the communicator's.
absl::Status EnqueueSignatureCheck(
    std::shared_ptr<const std::string> own, const std::vector<int>& ranks,
    const std::shared_ptr<Communicator>& communicator,
    const std::shared_ptr<transport::ScratchPool>& pool, CallStream& stream);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_SIGNATURE_CHECK_H_
