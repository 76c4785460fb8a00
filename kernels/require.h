// The programmer's errors of this room, which has neither Status nor a log:
// they end the process with the reason.

#ifndef LOCKSTEP_KERNELS_REQUIRE_H_
#define LOCKSTEP_KERNELS_REQUIRE_H_

#include <cstdio>
#include <cstdlib>

namespace lockstep::kernels {

[[noreturn]] inline void Refuse(const char* reason) {
  std::fprintf(stderr, "lockstep kernels: %s\n", reason);
  std::abort();
}

inline void Require(bool holds, const char* reason) {
  if (!holds) Refuse(reason);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_REQUIRE_H_
