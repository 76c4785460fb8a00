// Decides by its descriptor number whether a new connection is kept, and what
// the log reports about it.
//
// The kernel gives a connection the lowest free descriptor. If that is n, at
// least n + 1 descriptors are in use. Connections take none of the last ones,
// which the rest of the process needs: without a descriptor the process cannot
// even report the shortage.
//
//   0 ─── kept ─── limit - reserve ─── closed at once ─── limit
//
// A flood is logged with at most two lines per 30 s.
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
  // Descriptors reserved for the rest of the process.
  static constexpr int kReserve = 8;
  static constexpr absl::Duration kQuiet = absl::Seconds(30);

  struct AcceptDecision {
    bool keep = false;  // else the connection is closed
    std::string log;    // a line for the log, if not empty
  };

  // A connection was accepted as `descriptor`; the process may have `limit`
  // descriptors.
  AcceptDecision Accepted(int descriptor, int64_t limit, absl::Time now);

  // A connection is refused, because `connections_max` are open. Returns the
  // log line, if any.
  std::string Full(int64_t connections_max, absl::Time now);

  // Accepting failed with `error`, an errno. Returns the log line, if any.
  std::string NotAccepted(int error, absl::Time now);

 private:
  // True if no refusal was logged for kQuiet.
  bool CountRefusal(absl::Time now);

  int64_t refused_ = 0;  // since the last line
  bool told_ = false;    // the log says that connections are refused
  absl::Time told_at_ = absl::InfinitePast();
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_CONNECTION_LIMIT_H_
