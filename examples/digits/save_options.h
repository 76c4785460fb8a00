// Where and how often a training is saved.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_SAVE_OPTIONS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_SAVE_OPTIONS_H_

#include <cstdint>
#include <string>

namespace lockstep::digits {

struct SaveOptions {
  std::string directory;  // empty: nothing is saved
  int64_t save_every = 10;
  bool resume = false;    // begin with the newest checkpoint
  bool if_saved = false;  // with `resume`: at step 0 if there is none
  bool recovers = false;  // newcomers get the state from other workers
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_SAVE_OPTIONS_H_
