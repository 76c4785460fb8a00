// The transport that looks where the members of a group run, and takes what
// suits them: `transport: auto`, the default on CPUs.
//
//   all on one host                shm           shared memory
//   each on a host of its own      gloo          the links
//   hosts with several ranks       hierarchical  shared memory on each host,
//                                                links between
//
// Ranks share a host if they have one boot id, one network namespace and one
// user, and have then met in shared memory (shm/meeting.h). If a meeting fails
// all ranks hear of it, and use links alone: PendingGroup::choice says why. No
// rank chooses for itself.
//
// Threads: those of the links; as transport.h.
// Errors:  as transport.h. What goes wrong with the links is an error; what
//          goes wrong with shared memory is a reason to do without.

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
