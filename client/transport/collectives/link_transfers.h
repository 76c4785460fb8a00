// A queue of transfers: waited for in the order in which they are posted.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_TRANSFERS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_TRANSFERS_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/transport/common/link.h"

namespace lockstep::transport {

class Transfers {
 public:
  // Adds the result of a link's Send or Recv; returns its error, if any.
  absl::Status Add(absl::StatusOr<std::unique_ptr<LinkTransfer>> posted) {
    if (!posted.ok()) return std::move(posted).status();
    posted_.push_back(*std::move(posted));
    return absl::OkStatus();
  }

  // Waits for the oldest until at most `most` are left. Returns the first
  // error.
  absl::Status WaitDownTo(size_t most) {
    while (posted_.size() > most) {
      if (absl::Status done = posted_.front()->Wait(); !done.ok()) return done;
      posted_.pop_front();
    }
    return absl::OkStatus();
  }

  // Whether WaitAll would return at once.
  bool Done() const {
    for (const auto& transfer : posted_) {
      if (!transfer->Done()) return false;
    }
    return true;
  }

  size_t size() const { return posted_.size(); }
  bool empty() const { return posted_.empty(); }

  absl::Status WaitAll() { return WaitDownTo(0); }

 private:
  std::deque<std::unique_ptr<LinkTransfer>> posted_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_TRANSFERS_H_
