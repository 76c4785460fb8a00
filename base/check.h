// Programmer errors abort with the reason, in every build.
//
//   Check(rank < size, "rank is outside its group");

#ifndef LOCKSTEP_BASE_CHECK_H_
#define LOCKSTEP_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace lockstep {

[[noreturn]] inline void Fatal(const char* reason) {
  std::fprintf(stderr, "lockstep: a bug: %s\n", reason);
  std::abort();
}

inline void Check(bool holds, const char* reason) {
  if (!holds) [[unlikely]]
    Fatal(reason);
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_CHECK_H_
