// Chooses the transport of each group by the hosts of its members: `transport:
// auto`, the default on CPUs.
//
//   all on one host                shm           shared memory
//   each on its own host           gloo          the links
//   hosts with several ranks       hierarchical  shared memory on each host,
//                                                links between
//
// Ranks share a host if they have the same boot id, network namespace and user,
// and their rendezvous in shared memory succeeds (shm/rendezvous.h). If one
// rendezvous fails, all ranks use links alone; PendingGroup::choice has the
// reason. The ranks choose together, by a vote (agreement.h).
//
// Threads: those of the links; as transport.h.
// Errors:  as transport.h. A failure of the links is an error; a failure of
//          shared memory is not, and the group uses the links.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AUTO_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AUTO_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/transport/common/link_factory.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

struct AutoOptions {
  // For measurements and tests on one machine: processes that pretend to be on
  // different hosts do not share memory.
  std::string pretended_host;
  // As ShmOptions::silence; the links have their own.
  absl::Duration silence = absl::Seconds(10);
};

std::unique_ptr<Transport> MakeAutoTransport(std::unique_ptr<LinkFactory> links,
                                             const AutoOptions& options = {});

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AUTO_H_
