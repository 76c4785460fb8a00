// The effects that a coordinator requested, in their order. A failed assertion
// prints them as describe.h does.

#ifndef LOCKSTEP_TESTS_SERVER_CORE_EFFECT_LIST_H_
#define LOCKSTEP_TESTS_SERVER_CORE_EFFECT_LIST_H_

#include <ostream>
#include <string>

#include "server/core/event.h"
#include "tests/server/core/describe.h"

namespace lockstep::core {

struct EffectList {
  Effects effects;

  EffectList& operator+=(const EffectList& later) {
    effects.insert(effects.end(), later.effects.begin(), later.effects.end());
    return *this;
  }
};

inline void PrintTo(const EffectList& list, std::ostream* out) {
  const std::string text = Describe(list.effects);
  *out << (text.empty() ? "no effects" : "\n" + text);
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_SERVER_CORE_EFFECT_LIST_H_
