// Where a coordinator's journal is in etcd, as --journal names it:
//
//   etcd://HOST:PORT[,HOST:PORT...]/PREFIX
//
// PREFIX is that of all keys, without slashes at its ends. No part of it is
// called as a key of a journal (etcd_store.h), so journals of different
// prefixes share no keys, though one prefix is the beginning of another.
// Coordinators with the same members and prefix are one cluster: one of them
// leads.
//
// Threads: pure functions and values.

#ifndef LOCKSTEP_SERVER_ETCD_ACCESS_URL_H_
#define LOCKSTEP_SERVER_ETCD_ACCESS_URL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep::etcd {

inline constexpr absl::string_view kScheme = "etcd://";

struct Url {
  std::vector<std::string> members;  // HOST:PORT
  std::string prefix;
  // Whether every member is on this machine: 127.0.0.0/8, [::1], localhost.
  bool is_on_loopback = false;

  // The key of the coordinator that leads.
  std::string LeaderKey() const { return prefix + "/leader"; }
  std::string TermBaseKey() const { return prefix + "/term-base"; }
};

absl::StatusOr<Url> ParseUrl(absl::string_view text);

}  // namespace lockstep::etcd

#endif  // LOCKSTEP_SERVER_ETCD_ACCESS_URL_H_
