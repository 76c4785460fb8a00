// Whether a --journal that is not in etcd can be one: what lockstepd checks at
// its start, and lockstepctl doctor before.
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_ACCESS_LOCAL_JOURNAL_H_
#define LOCKSTEP_SERVER_ACCESS_LOCAL_JOURNAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lockstep {

inline constexpr absl::string_view kJournalInMemory = "memory";

// InvalidArgument: `where` is neither memory nor a folder with a slash, or
// there is --etcd_tls, which is for a journal in etcd.
absl::Status CheckLocalJournal(const std::string& where,
                               const std::string& etcd_tls);

}  // namespace lockstep

#endif  // LOCKSTEP_SERVER_ACCESS_LOCAL_JOURNAL_H_
