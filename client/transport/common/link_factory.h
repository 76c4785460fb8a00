// Makes a Link between the members of a group, by the protocol of transport.h.
// For transports that build on links.
//
//   LinkFactory ──Prepare──▶ PendingLink ──Connect, handles──▶ Take: a Link
//
// Threads: as transport.h.
// Errors:  Prepare and Connect: as transport.h; Cancelled after Abort.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_LINK_FACTORY_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_LINK_FACTORY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "client/transport/common/link.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

class PendingLink {
 public:
  virtual ~PendingLink() = default;
  virtual const std::string& handle() const = 0;

  // Blocks until connected to every member. At most once.
  virtual absl::Status Connect(const std::vector<std::string>& handles,
                               const Deadline& deadline) = 0;
  // Valid after Connect, until Take.
  virtual Link& link() = 0;
  // Called after Connect. Abort may not be called afterwards.
  virtual std::unique_ptr<Link> Take() = 0;

  // Ends a current or later Connect, and all waits on the link. From any
  // thread.
  virtual void Abort() = 0;
};

class LinkFactory {
 public:
  virtual ~LinkFactory() = default;
  virtual std::string_view name() const = 0;
  virtual absl::StatusOr<std::unique_ptr<PendingLink>> Prepare(
      const GroupSpec& group) = 0;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_LINK_FACTORY_H_
