// The sanitizer that a test is built with. Under one everything takes many
// times as long, so tests that repeat themselves at many sizes use fewer.

#ifndef LOCKSTEP_TESTS_SUPPORT_SANITIZERS_H_
#define LOCKSTEP_TESTS_SUPPORT_SANITIZERS_H_

namespace lockstep {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderThreadSanitizer = true;
#else
inline constexpr bool kUnderThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kUnderSanitizer = true;
#else
inline constexpr bool kUnderSanitizer = kUnderThreadSanitizer;
#endif

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_SANITIZERS_H_
