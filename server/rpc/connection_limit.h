// Decides whether a new connection is kept, by the number of its descriptor,
// and what the log says about it.
//
// The kernel gives a connection the lowest descriptor that is free. If that is
// n, then n + 1 descriptors are in use at least, and connections take none of
// the last ones, which the rest of the process needs: a process without
// descriptors cannot even say so.
//
//   0 ─── kept ─── limit - reserve ─── closed at once ─── limit
//
// A flood is told in two lines each 30 s at most.
//
// Pure. Threads: one at a time.

#ifndef LOCKSTEP_SERVER_RPC_CONNECTION_LIMIT_H_
#define LOCKSTEP_SERVER_RPC_CONNECTION_LIMIT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace lockstep::rpc {

class ConnectionLimit {
 public:
  // Descriptors that are left to the rest of the process.
  static constexpr int kReserve = 8;
  static constexpr absl::Duration kQuiet = absl::Seconds(30);

  struct Decision {
    bool keep = false;  // else the connection is closed
    std::string log;    // a line for the log, if not empty
  };

  // A connection was accepted and got `descriptor`; the process may have
  // `limit` descriptors.
  Decision Accepted(int descriptor, int64_t limit, absl::Time now);

  // None could be accepted, because of `error`, an errno. The line, if any.
  std::string NotAccepted(int error, absl::Time now);

 private:
  // True if the log has been silent about refusals for long enough.
  bool CountRefusal(absl::Time now);

  int64_t refused_ = 0;  // since the last line
  bool told_ = false;    // that connections are refused
  absl::Time told_at_ = absl::InfinitePast();
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_CONNECTION_LIMIT_H_
