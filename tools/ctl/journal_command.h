// `lockstepctl journal`: verifies, prints and repairs the journal of a daemon
// that does not run.
//
// Each function returns the exit code: 0 ok, 1 damaged or refused.

#ifndef LOCKSTEP_TOOLS_CTL_JOURNAL_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_JOURNAL_COMMAND_H_

#include <string>

namespace lockstep::ctl {

// Prints how many records and jobs are intact. Names the damaged record, and
// returns 1, if there is one.
int JournalVerify(const std::string& folder);

// Prints the snapshot's jobs and every record behind it, each in a line; as
// JSON an object each. Ends before a damaged record, and returns 1.
int JournalDump(const std::string& folder, bool json);

// Keeps what is intact up to the damage; an intact journal stays as it is.
int JournalRepair(const std::string& folder);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_JOURNAL_COMMAND_H_
