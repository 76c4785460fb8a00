// Is this a build under a sanitizer? Such tests take ten times as long, and
// may do less.

#ifndef LOCKSTEP_TESTS_SUPPORT_SANITIZED_H_
#define LOCKSTEP_TESTS_SUPPORT_SANITIZED_H_

namespace lockstep {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_SANITIZED_H_
