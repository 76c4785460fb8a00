// Under a sanitizer everything takes about ten times as long: tests that are
// long by choice (sizes, seeds, depths) ask here and do less.

#ifndef LOCKSTEP_TESTS_SUPPORT_SLOW_H_
#define LOCKSTEP_TESTS_SUPPORT_SLOW_H_

namespace lockstep {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSlow = true;
#else
inline constexpr bool kIsSlow = false;
#endif

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_SLOW_H_
