// Another user of this machine, as which a test runs code and programs: a uid
// that no account has, so that nothing need be created or removed. Needs root.
//
// Threads: none.

#ifndef LOCKSTEP_TESTS_SUPPORT_OTHER_USER_H_
#define LOCKSTEP_TESTS_SUPPORT_OTHER_USER_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

// False if this process is not root's: then a test is skipped.
bool CanBeAnotherUser();

// The lowest uid from 20000 on without an account.
uid_t FreeUser();

struct UserOutcome {
  int code = -1;       // the exit status; 126: the user could not be changed
  std::string output;  // stdout and stderr
};

// Runs a program to its end. It is opened before the user is changed, because
// its folder may be private.
UserOutcome RunAs(uid_t user, std::vector<std::string> command,
                  const std::vector<std::string>& environment);

// What `act` returns in a process of that user, 0 to 100; -1 if it cannot run.
int CallAs(uid_t user, const std::function<int()>& act);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_OTHER_USER_H_
