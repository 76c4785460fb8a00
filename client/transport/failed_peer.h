// The failed peer of a data-plane error, as a payload of the status. (Messages
// are for people and never parsed.)
//
// A transport adds the peer to Unavailable and DataLoss from Connect and from
// Communicator::status(); the session makes a failure report of it. A transport
// that has seen the peer's process end adds that as proof; a broken connection
// is only a hint.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_FAILED_PEER_H_
#define LOCKSTEP_CLIENT_TRANSPORT_FAILED_PEER_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::transport {

inline constexpr char kFailedPeerUrl[] = "lockstep/blamed_group_rank";

// `error` with the peer's rank in the group; an OK status stays as it is.
inline absl::Status WithFailedPeer(absl::Status error, int group_rank) {
  error.SetPayload(kFailedPeerUrl, absl::Cord(absl::StrCat(group_rank)));
  return error;
}

inline constexpr char kProofUrl[] = "lockstep/proven_dead";

// `error`, which has a failed peer, with the proof that its process has ended.
inline absl::Status Proven(absl::Status error) {
  error.SetPayload(kProofUrl, absl::Cord("ended"));
  return error;
}

inline bool IsProven(const absl::Status& error) {
  return error.GetPayload(kProofUrl).has_value();
}

// The rank that WithFailedPeer has set, if any.
inline std::optional<int> FailedPeer(const absl::Status& error) {
  const absl::optional<absl::Cord> payload = error.GetPayload(kFailedPeerUrl);
  int rank = -1;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &rank)) {
    return std::nullopt;
  }
  return rank;
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_FAILED_PEER_H_
