// How a process gets a Link to every member of a group: a transport's half of
// what transport.h says, for those who put links to a use of their own.
//
//   LinkFactory ──Prepare──▶ PendingLink ──Connect, handles──▶ Take: a Link
//
// Threads: as transport.h.
// Errors:  of Prepare and Connect, as transport.h says; Cancelled after Abort.

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
  // After Connect, until Take.
  virtual Link& link() = 0;
  // After Connect. Abort may not be called any more.
  virtual std::unique_ptr<Link> Take() = 0;

  // Ends Connect, in progress or to come, and all that waits on the link. From
  // any thread.
  virtual void Abort() = 0;
};

class LinkFactory {
 public:
  virtual ~LinkFactory() = default;
  virtual std::string_view name() const = 0;
  virtual absl::StatusOr<std::unique_ptr<PendingLink>> Prepare(
      const GroupSpec& group) = 0;
};

// A transport whose communicators work over such links.
std::unique_ptr<Transport> MakeLinkTransport(
    std::unique_ptr<LinkFactory> links);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_LINK_FACTORY_H_
