// Is this text that people and protocol buffers can take?

#ifndef LOCKSTEP_PLAN_WORDS_UTF8_H_
#define LOCKSTEP_PLAN_WORDS_UTF8_H_

#include "absl/strings/string_view.h"

namespace lockstep {

// True for well-formed UTF-8 (no overlong forms, no surrogates) without control
// characters.
bool IsPrintableUtf8(absl::string_view text);

}  // namespace lockstep

#endif  // LOCKSTEP_PLAN_WORDS_UTF8_H_
