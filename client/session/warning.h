// Warnings for the program's user, on standard error.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_SESSION_WARNING_H_
#define LOCKSTEP_CLIENT_SESSION_WARNING_H_

#include <cstdio>
#include <string>

#include "base/text/utf8.h"

namespace lockstep::session {

inline void PrintWarning(const std::string& text) {
  const std::string printable = Printable(text);
  std::fprintf(stderr, "lockstep: warning: %s\n", printable.c_str());
}

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_WARNING_H_
